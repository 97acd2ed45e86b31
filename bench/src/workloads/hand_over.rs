//! c: from the call of release to the return of the next holder's acquire.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use taketurns::{Connect, Locks};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::space::{JOINING, all_wait};
use super::{Contestant, ContestantGroup, Measure, Plot, Values, Workload, measure};
use crate::floor::Hop;
use crate::setup::{BenchBackend, BenchDriver, BenchError, BenchSetup, fresh, said};
use crate::stats::{median, percentile};
use crate::turns::now_us;

const MEASURES: &[Measure] = &[measure("p50", "µs"), measure("p99", "µs")];
const HOP: &str = "one PUBLISH hop";

/// How many wait while one holds.
pub(crate) const CROWDS: [usize; 5] = [2, 16, 256, 4_096, 10_000];

/// Hand-overs that count, and some before them that do not.
const HAND_OVERS: usize = 300;
const FIRST: usize = 20;

/// Between two: everybody is at rest then, on both sides.
const REST: Duration = Duration::from_millis(1);

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let mut contestants = vec![hop(setup)];
    let drivers = if setup.quick { &BenchDriver::BOTH[..1] } else { &BenchDriver::BOTH[..] };
    for backend in BenchBackend::BOTH {
        for &driver in drivers {
            contestants.extend(CROWDS.map(|waiters| ours(setup, backend, driver, waiters)));
        }
    }
    Workload {
        letter: "c",
        title: "Hand-over",
        about: "The given number of tasks wait for one lock, through two clients with a \
                connection each. Measured is the time from the call of release to the return of \
                the next holder's acquire, where the next holder belongs to the other client. \
                After its turn a task waits again, so the queue keeps its length. Each task \
                holds for a millisecond (`tokio::time::sleep`). The floor is a message that one \
                connection publishes and another receives, with the same pauses.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        plot: Plot::Lines,
    }
}

fn hop(setup: &Rc<BenchSetup>) -> Contestant {
    let setup = setup.clone();
    Contestant::new(HOP, ContestantGroup::Floor, 0.8, move || {
        let url = setup.plain.url();
        setup.run(async move {
            let (mut speaker, mut hearer) = Hop::open(&url, fresh("hop")).await?.split();
            let said_us = Arc::new(AtomicU64::new(0));
            let hearing = tokio::spawn({
                let said_us = said_us.clone();
                async move {
                    let mut times = Vec::new();
                    for _ in 0..FIRST + HAND_OVERS {
                        hearer.hear().await?;
                        times.push(now_us() - said_us.load(Ordering::Acquire));
                    }
                    Ok::<_, BenchError>(times)
                }
            });
            for _ in 0..FIRST + HAND_OVERS {
                tokio::time::sleep(REST).await;
                said_us.store(now_us(), Ordering::Release);
                speaker.say().await?;
            }
            values(&hearing.await.map_err(said)??)
        })
    })
}

fn ours(
    setup: &Rc<BenchSetup>,
    backend: BenchBackend,
    driver: BenchDriver,
    waiters: usize,
) -> Contestant {
    let (setup, quick) = (setup.clone(), setup.quick);
    let name = format!("{}{}, {waiters}", backend.name(), driver.suffix());
    let seconds = 1.0 + waiters as f64 / 10_000.0;
    let run = move || {
        let url = setup.url(backend);
        setup.run(async move {
            let clients =
                [driver.open(Connect::new(&url)).await?, driver.open(Connect::new(&url)).await?];
            let times = among(&clients, waiters).await;
            for client in clients {
                client.close().await;
            }
            values(&times?)
        })
    };
    let mut contestant = Contestant::new(name, ContestantGroup::Ours, seconds, run).against(HOP);
    // The ends say most, and a quick run has to end.
    if quick && ![CROWDS[0], CROWDS[CROWDS.len() - 1]].contains(&waiters) {
        contestant.rounds_max = 1;
    }
    contestant
}

/// What the tasks share.
struct HandOverQueue {
    lock: String,
    clients: [Locks; 2],
    /// Who asks next does so by the next client.
    asked: AtomicUsize,
    /// The client of the last holder and when it called release, as of the one that holds now.
    last: [AtomicU64; 2],
    times: UnboundedSender<u64>,
}

/// One holds and so many wait, all the time.
async fn among(clients: &[Locks; 2], waiters: usize) -> Result<Vec<u64>, BenchError> {
    let (times, mut taken) = unbounded_channel();
    let queue = Arc::new(HandOverQueue {
        lock: fresh("crowd"),
        clients: clients.clone(),
        asked: AtomicUsize::new(0),
        last: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
        times,
    });
    let first = clients[0].mutex(&queue.lock).acquire().await.map_err(said)?;
    let mut tasks = tokio::task::JoinSet::new();
    // Nobody has a turn before all are there. Those whose turns count come one by one, so that the two
    // clients alternate.
    while tasks.len() <= waiters {
        if tasks.len() < FIRST + HAND_OVERS {
            tasks.spawn(queue.clone().take_turns());
            tokio::time::sleep(REST).await;
            continue;
        }
        for _ in tasks.len()..=waiters.min(tasks.len() + JOINING) {
            tasks.spawn(queue.clone().take_turns());
        }
        all_wait(&clients[1], &queue.lock, tasks.len()).await?;
    }
    all_wait(&clients[1], &queue.lock, tasks.len()).await?;
    first.release().await.map_err(said)?;
    let mut all = Vec::new();
    while all.len() < FIRST + HAND_OVERS {
        tokio::select! {
            time = taken.recv() => all.extend(time),
            ended = tasks.join_next() => match ended {
                Some(Ok(Err(why))) => return Err(why),
                _ => return Err("a task ended".to_owned()),
            },
        }
    }
    tasks.shutdown().await;
    Ok(all)
}

impl HandOverQueue {
    async fn take_turns(self: Arc<Self>) -> Result<(), BenchError> {
        loop {
            let client = self.asked.fetch_add(1, Ordering::Relaxed) % 2;
            let guard = self.clients[client].mutex(&self.lock).acquire().await.map_err(said)?;
            let got_us = now_us();
            let [last, released_us] = &self.last;
            let other = 1 - client as u64;
            if last.swap(client as u64, Ordering::AcqRel) == other {
                let _ = self.times.send(got_us - released_us.load(Ordering::Acquire));
            }
            tokio::time::sleep(REST).await;
            released_us.store(now_us(), Ordering::Release);
            guard.release().await.map_err(said)?;
        }
    }
}

fn values(times: &[u64]) -> Result<Values, BenchError> {
    let times: Vec<f64> = times[FIRST..].iter().map(|&time| time as f64).collect();
    let none = || "there were no hand-overs".to_owned();
    Ok(vec![
        (MEASURES[0].name, median(&times).ok_or_else(none)?),
        (MEASURES[1].name, percentile(&times, 0.99).ok_or_else(none)?),
    ])
}
