//! d, e: 16 clients that all want one lock, and what their turns cost the server.

use std::rc::Rc;
use std::time::{Duration, Instant};

use taketurns::{Connect, Locks};

use super::{Contestant, ContestantGroup, Measure, Plot, Values, Workload, measure};
use crate::rivals::Rival;
use crate::setup::{BenchBackend, BenchDriver, BenchError, BenchSetup, asked_of, fresh, said};
use crate::turns::{LoggedTurn, TurnStatistics, hold, judge, now_us};

const CLIENTS: u32 = 16;
const HOLD: Duration = Duration::from_millis(1);

const FAIRNESS: &[Measure] = &[
    measure("hand-overs to another client", "1/s"),
    measure("idle gap p50", "µs"),
    measure("wait p50", "µs"),
    measure("wait p99", "µs"),
    measure("longest wait", "µs"),
    measure("longest wait in fair shares", "×"),
    measure("overtakes", "per 1 000 turns"),
];

const COST: &[Measure] = &[
    measure("commands per turn", ""),
    measure("server time per turn", "µs"),
    measure("of it in commands", "µs"),
];

pub(super) fn fairness(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Workload {
    let time = setup.time(1.0, 3.0);
    let seconds = time.as_secs_f64() + 0.3;
    let mut contestants = Vec::new();
    for backend in BenchBackend::BOTH {
        let setup = setup.clone();
        contestants.push(Contestant::new(
            backend.name(),
            ContestantGroup::Ours,
            seconds,
            move || {
                let url = setup.url(backend);
                judged(&setup.run(async move {
                    crowd(clients(&url, None).await?, TurnLimit::After(time)).await
                })?)
            },
        ));
    }
    for rival in rivals {
        let (setup, rival) = (setup.clone(), rival.clone());
        let (name, party) = (rival.name.clone(), rival.party());
        let quick = setup.quick;
        let mut contestant = Contestant::new(name, party, seconds + 0.7, move || {
            judged(&rival.crowd(setup.plain.url(), CLIENTS, HOLD, time)?)
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
        measures: FAIRNESS,
        contestants: contestants.into_iter().map(|one| one.against("scripts")).collect(),
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

pub(super) fn cost(setup: &Rc<BenchSetup>) -> Workload {
    let turns = setup.pick(20.0, 50.0) as usize;
    let contestant = |backend: BenchBackend| {
        let setup = setup.clone();
        let run = move || spent(&setup, backend, turns);
        Contestant::new(backend.name(), ContestantGroup::Ours, 1.0 + turns as f64 / 40.0, run)
    };
    Workload {
        letter: "e",
        title: "What a contended turn costs the server",
        about: "The same clients, each with a fixed number of turns. Commands are those of the \
                clients: `EVALSHA`, `FENCELOCK.DO`. The time is CPU time of the server's main \
                thread: all of it, and the part within commands. By default places in the queue \
                are refreshed once a second, however many turns there are. Here they last for a \
                minute, so that only turns are counted.",
        measures: COST,
        contestants: BenchBackend::BOTH.map(contestant).into(),
        rounds_max: 3,
        plot: Plot::Bars,
    }
}

/// When a client has had enough.
#[derive(Clone, Copy)]
enum TurnLimit {
    After(Duration),
    Turns(usize),
}

async fn clients(url: &str, waiter_lease: Option<Duration>) -> Result<Vec<Locks>, BenchError> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut connect = Connect::new(url);
        if let Some(waiter_lease) = waiter_lease {
            connect = connect.waiter_lease(waiter_lease);
        }
        clients.push(BenchDriver::Thread.open(connect).await?);
    }
    Ok(clients)
}

async fn crowd(clients: Vec<Locks>, end: TurnLimit) -> Result<Vec<LoggedTurn>, BenchError> {
    let lock = fresh("crowd");
    let begun = Instant::now();
    let tasks: Vec<_> = (0..)
        .zip(clients)
        .map(|(client, locks)| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let mutex = locks.mutex(lock);
                let mut turns = Vec::new();
                loop {
                    let enough = match end {
                        TurnLimit::After(time) => begun.elapsed() >= time,
                        TurnLimit::Turns(count) => turns.len() >= count,
                    };
                    if enough {
                        break;
                    }
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

fn judged(log: &[LoggedTurn]) -> Result<Values, BenchError> {
    let judged = judge(log, CLIENTS)?;
    let TurnStatistics { hand_overs_per_s, gap_us, wait_p50_us, wait_p99_us, wait_max_us, .. } =
        judged;
    let values = [hand_overs_per_s, gap_us, wait_p50_us, wait_p99_us, wait_max_us];
    let values = values.into_iter().chain([judged.wait_max_shares, judged.overtakes]);
    Ok(FAIRNESS.iter().map(|measure| measure.name).zip(values).collect())
}

fn spent(setup: &BenchSetup, backend: BenchBackend, turns: usize) -> Result<Values, BenchError> {
    let url = setup.url(backend);
    let server = setup.server(backend);
    let clients = setup.run(async move { clients(&url, Some(Duration::from_secs(60))).await })?;
    server.reset_stats();
    let before = main_thread_us(setup, backend)?;
    let log = setup.run(crowd(clients, TurnLimit::Turns(turns)))?;
    let time = main_thread_us(setup, backend)? - before;
    let (calls, usec) = asked_of(server)?;
    let per_turn = |total: f64| total / log.len() as f64;
    let values = [calls, time, usec].map(per_turn);
    Ok(COST.iter().map(|measure| measure.name).zip(values).collect())
}

/// What the server's main thread has spent so far.
fn main_thread_us(setup: &BenchSetup, backend: BenchBackend) -> Result<f64, BenchError> {
    let info = setup.server(backend).info("cpu");
    let seconds = |field: &str| info.get(field).and_then(|text| text.parse::<f64>().ok());
    let spent = ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"].map(seconds);
    match spent {
        [Some(user), Some(sys)] => Ok((user + sys) * 1e6),
        _ => Err("the server does not say what it spent".to_owned()),
    }
}
