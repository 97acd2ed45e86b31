//! c: from the call of release in one process to the grant in another.

use std::rc::Rc;
use std::time::Duration;

use taketurns::Locks;

use super::space::{JOINING, all_wait};
use super::{Contestant, ContestantGroup, Figure, Measure, Plot, Values, Workload, measure};
use crate::cpu::cpu_us;
use crate::setup::{BenchBackend, BenchError, BenchSetup, Helper, fresh, open, said};
use crate::turns::{LoggedTurn, judge, now_us};

const MEASURES: &[Measure] = &[
    measure("p50", "µs"),
    measure("p99", "µs"),
    measure("clients' CPU", "µs").compared(),
    measure("server's CPU", "µs").compared(),
];
const LINES: &[Figure] = &[Figure { measure: 0, plot: Plot::Lines }];
const HOP: &str = "one PUBLISH hop";

/// How many wait while one holds.
const CROWDS: [usize; 5] = [2, 16, 256, 4_096, 10_000];

/// Turns that come before those that count.
const FIRST: usize = 20;
/// How many of the first waiters come one by one, so that the two processes alternate.
const ALTERNATING: usize = 400;

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let mut contestants = vec![hop(setup)];
    let crowds = CROWDS.iter().filter(|&&crowd| {
        let ends = [CROWDS[0], CROWDS[CROWDS.len() - 1]];
        !setup.quick || ends.contains(&crowd)
    });
    for backend in BenchBackend::BOTH {
        contestants.extend(crowds.clone().map(|&waiters| ours(setup, backend, waiters)));
    }
    Workload {
        letter: "c",
        title: "Hand-over between two processes",
        about: "From the call of release in one process to the return of acquire in the other. \
                The given number of tasks wait for one lock, half of them in each process. A task \
                holds the lock for 3 ms, releases it, pauses for a millisecond and waits again, so \
                the queue keeps its length. The floor is a message between two processes: each \
                publishes it 3 ms after the other's has come. CPU time is that of both processes \
                and of the server, per turn.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        pictures: LINES,
    }
}

fn hop(setup: &Rc<BenchSetup>) -> Contestant {
    let setup = setup.clone();
    Contestant::new(HOP, ContestantGroup::Floor, 1.5, move || {
        let (url, pid) = (setup.plain.url(), setup.plain.pid());
        let channels = [fresh("hop"), fresh("hop")];
        let start = |client: usize| {
            let [from, to] = [&channels[client], &channels[1 - client]];
            Helper::start("hop", &[&client.to_string(), &url, from, to])
        };
        let mut both = TwoProcesses::ready([start(0)?, start(1)?])?;
        both.begin(pid)?;
        // The first to speak does so as if it had heard.
        both.processes[0].tell("say")?;
        both.measured(setup.time(0.7, 1.2))
    })
    .against(HOP)
}

fn ours(setup: &Rc<BenchSetup>, backend: BenchBackend, waiters: usize) -> Contestant {
    let setup = setup.clone();
    let name = format!("{}, {waiters}", backend.name());
    let seconds = 2.0 + waiters as f64 / 10_000.0;
    Contestant::new(name, ContestantGroup::Ours, seconds, move || {
        let (url, lock) = (setup.url(backend), fresh("crowd"));
        let pid = setup.server(taketurns_servers::Flavor::Redis, backend)?.pid();
        let start = |client: usize| Helper::start("turns", &[&client.to_string(), &url, &lock]);
        let mut both = TwoProcesses::ready([start(0)?, start(1)?])?;
        let (locks, first) = setup.run({
            let (url, lock) = (url.clone(), lock.clone());
            async move {
                let locks = open(&url).await?;
                let first = locks.mutex(lock).acquire().await.map_err(said)?;
                Ok((locks, first))
            }
        })?;
        both.queue_up(&setup, &locks, &lock, waiters)?;
        both.begin(pid)?;
        setup.run(async move { first.release().await.map_err(said) })?;
        let values = both.measured(setup.time(0.7, 1.2));
        setup.run(async move {
            locks.close().await;
            Ok(())
        })?;
        values
    })
    .against(HOP)
}

/// Two processes that hand something over to each other.
struct TwoProcesses {
    processes: [Helper; 2],
    /// The server's process, and its CPU time when the turns began.
    server: Option<(u32, f64)>,
}

impl TwoProcesses {
    fn ready(mut processes: [Helper; 2]) -> Result<Self, BenchError> {
        for process in &mut processes {
            if process.line()? != "ready" {
                return Err("a process did not get ready".to_owned());
            }
        }
        Ok(Self { processes, server: None })
    }

    /// Makes this many tasks wait, alternating between the processes where that counts.
    fn queue_up(
        &mut self,
        setup: &BenchSetup,
        locks: &Locks,
        lock: &str,
        waiters: usize,
    ) -> Result<(), BenchError> {
        let mut there = 0;
        while there < waiters {
            if there < ALTERNATING {
                self.processes[there % 2].tell("1")?;
                there += 1;
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let each = JOINING.min(waiters - there).div_ceil(2);
            for process in &mut self.processes {
                process.tell(&each.to_string())?;
            }
            there += each * 2;
            self.all_wait(setup, locks, lock, there)?;
        }
        self.all_wait(setup, locks, lock, there)
    }

    fn all_wait(
        &self,
        setup: &BenchSetup,
        locks: &Locks,
        lock: &str,
        waiters: usize,
    ) -> Result<(), BenchError> {
        let (locks, lock) = (locks.clone(), lock.to_owned());
        setup.run(async move { all_wait(&locks, &lock, waiters).await })
    }

    /// From now on CPU time counts.
    fn begin(&mut self, server: Option<u32>) -> Result<(), BenchError> {
        for process in &mut self.processes {
            process.tell("begin")?;
            if process.line()? != "begun" {
                return Err("a process did not begin".to_owned());
            }
        }
        self.server = match server {
            Some(pid) => Some((pid, cpu_us(pid)?)),
            None => None,
        };
        Ok(())
    }

    /// Lets them take turns for this long, and says what the turns were like.
    fn measured(mut self, time: Duration) -> Result<Values, BenchError> {
        std::thread::sleep(time);
        let server_us = match self.server {
            Some((pid, before)) => Some(cpu_us(pid)? - before),
            None => None,
        };
        let end_us = now_us();
        self.processes.iter_mut().for_each(Helper::stop);
        let (mut log, mut clients_us) = (Vec::new(), 0.0);
        for process in &mut self.processes {
            for line in process.rest()?.lines() {
                match line.strip_prefix("cpu ") {
                    Some(us) => clients_us += us.parse::<f64>().map_err(said)?,
                    None => log.push(LoggedTurn::parse(line)?),
                }
            }
        }
        log.retain(|turn| turn.released_us < end_us);
        log.sort_by_key(|turn| turn.got_us);
        let turns = log.len() as f64;
        let judged = judge(log.get(FIRST..).unwrap_or_default(), 2)?;
        let mut values = vec![
            (MEASURES[0].name, judged.gap_us),
            (MEASURES[1].name, judged.gap_p99_us),
            (MEASURES[2].name, clients_us / turns),
        ];
        values.extend(server_us.map(|us| (MEASURES[3].name, us / turns)));
        Ok(values)
    }
}
