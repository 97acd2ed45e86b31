//! d: 16 clients that all want one lock.

use std::rc::Rc;
use std::time::{Duration, Instant};

use taketurns::Locks;
use taketurns_servers::Flavor;

use super::{Contestant, ContestantGroup, Figure, Measure, Plot, Values, Workload, measure};
use crate::cpu::cpu_us;
use crate::rivals::Rival;
use crate::setup::{BenchBackend, BenchError, BenchSetup, ON_POSTGRES, fresh, open, said};
use crate::turns::{LoggedTurn, TurnStatistics, hold, judge, now_us};

const CLIENTS: u32 = 16;
const HOLD: Duration = Duration::from_millis(1);

const MEASURES: &[Measure] = &[
    measure("hand-overs to another client", "1/s").rate(),
    measure("idle gap p50", "µs"),
    measure("wait p50", "µs"),
    measure("wait p99", "µs"),
    measure("longest wait", "µs"),
    measure("longest wait in fair shares", "×"),
    measure("overtakes", "per 1 000 turns"),
    measure("server's CPU per turn", "µs"),
];

/// How often it changes hands, and how long somebody waits.
const PICTURES: &[Figure] =
    &[Figure { measure: 0, plot: Plot::Bars }, Figure { measure: 5, plot: Plot::Bars }];

pub(super) fn workload(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Workload {
    let time = setup.time(1.0, 2.0);
    let seconds = time.as_secs_f64() + 0.3;
    let mut contestants = Vec::new();
    for (flavor, backend) in
        Flavor::ALL.into_iter().flat_map(|flavor| BenchBackend::BOTH.map(|one| (flavor, one)))
    {
        let setup = setup.clone();
        let run = move || {
            let server = setup.server(flavor, backend)?;
            let (url, before) = (backend.url(server), server.pid().map_or(Ok(0.0), cpu_us)?);
            let log = setup.run(async move { crowd(clients(&url).await?, time).await })?;
            let spent = server.pid().map_or(Ok(before), cpu_us)? - before;
            judged(&log, Some(spent))
        };
        contestants.push(Contestant::new(backend.on(flavor), ContestantGroup::Ours, seconds, run));
    }
    for (name, options) in ON_POSTGRES {
        let setup = setup.clone();
        let run = move || {
            let url = setup.postgres_url(options)?;
            let log = setup.run(async move { crowd(clients(&url).await?, time).await })?;
            judged(&log, None)
        };
        contestants.push(Contestant::new(name, ContestantGroup::Ours, seconds, run));
    }
    for rival in rivals {
        let (setup, rival) = (setup.clone(), rival.clone());
        let (name, party) = (rival.name.clone(), rival.party());
        let quick = setup.quick;
        let mut contestant = Contestant::new(name, party, seconds + 0.7, move || {
            judged(&rival.crowd(setup.plain.url(), CLIENTS, HOLD, time)?, None)
        });
        // A quick run has to end.
        if quick {
            contestant.rounds_max = 1;
        }
        contestants.push(contestant);
    }
    Workload {
        letter: "d",
        title: "16 clients, one lock",
        about: "16 clients with a connection each take turns on one lock, and hold it for a \
                millisecond. The Rust clients sleep in a thread, since tokio's own timer would \
                make two milliseconds of it. So 1 000 hand-overs a second is the maximum. If a \
                client takes the lock again right after its own turn, that is no hand-over. The \
                gap is from the call of release to the next client's grant. A fair share is one \
                turn of each client: in a fair queue no client waits longer. An overtake is a \
                turn that delayed a client which had asked more than a millisecond earlier.",
        measures: MEASURES,
        contestants: contestants.into_iter().map(|one| one.against("scripts")).collect(),
        rounds_max: usize::MAX,
        pictures: PICTURES,
    }
}

async fn clients(url: &str) -> Result<Vec<Locks>, BenchError> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(open(url).await?);
    }
    Ok(clients)
}

async fn crowd(clients: Vec<Locks>, time: Duration) -> Result<Vec<LoggedTurn>, BenchError> {
    let lock = fresh("crowd");
    let begun = Instant::now();
    let tasks: Vec<_> = (0..)
        .zip(clients)
        .map(|(client, locks)| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let mutex = locks.mutex(lock);
                let mut turns = Vec::new();
                while begun.elapsed() < time {
                    let asked_us = now_us();
                    let guard = mutex.acquire().await.map_err(said)?;
                    let got_us = now_us();
                    hold(HOLD).await;
                    let released_us = now_us();
                    guard.release().await.map_err(said)?;
                    turns.push(LoggedTurn { client, asked_us, got_us, released_us });
                }
                drop(mutex);
                locks.close().await;
                Ok::<_, BenchError>(turns)
            })
        })
        .collect();
    let mut log = Vec::new();
    for task in tasks {
        log.extend(task.await.map_err(said)??);
    }
    Ok(log)
}

fn judged(log: &[LoggedTurn], server_us: Option<f64>) -> Result<Values, BenchError> {
    let judged = judge(log, CLIENTS)?;
    let TurnStatistics { hand_overs_per_s, gap_us, wait_p50_us, wait_p99_us, wait_max_us, .. } =
        judged;
    let values = [hand_overs_per_s, gap_us, wait_p50_us, wait_p99_us, wait_max_us];
    let values = values.into_iter().chain([judged.wait_max_shares, judged.overtakes]);
    let values = values.chain(server_us.map(|us| us / log.len() as f64));
    Ok(MEASURES.iter().map(|measure| measure.name).zip(values).collect())
}
