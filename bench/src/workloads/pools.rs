//! h: a pool of 100 members with 1 000 takers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use taketurns::{Acquire, Locks};

use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::setup::{BenchBackend, BenchError, BenchSetup, fresh, open, said};

const MEASURES: &[Measure] = &[measure("turns", "1/s")];
const MEMBERS: u32 = 100;
const TAKERS: usize = 1_000;
const CLIENTS: usize = 4;

/// Whatever 100 may have at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PoolOrSemaphore {
    Pool,
    Semaphore,
}

impl PoolOrSemaphore {
    fn ask(self, locks: &Locks, name: &str) -> Acquire {
        match self {
            Self::Pool => locks.pool(name).any(),
            Self::Semaphore => locks.semaphore(name, MEMBERS).acquire(),
        }
    }
}

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let mut contestants = Vec::new();
    let kinds =
        [("semaphore of 100", PoolOrSemaphore::Semaphore), ("pool of 100", PoolOrSemaphore::Pool)];
    for (backend, reference) in BenchBackend::BOTH
        .into_iter()
        .zip(["semaphore of 100, scripts", "semaphore of 100, module"])
    {
        for (name, kind) in kinds {
            let setup = setup.clone();
            let time = setup.time(0.7, 2.0);
            let name = format!("{name}, {}", backend.name());
            let seconds = time.as_secs_f64() + 0.5;
            let run = move || {
                let url = setup.url(backend);
                setup.run(async move { run(&url, kind, time).await })
            };
            contestants.push(
                Contestant::new(name, ContestantGroup::Ours, seconds, run).against(reference),
            );
        }
    }
    Workload {
        letter: "h",
        title: "Pool of 100 with 1 000 takers",
        about: "1 000 tasks of 4 clients take any member of a pool of 100, hold it for up to a \
                millisecond, and release it. The same with a semaphore of 100.",
        measures: MEASURES,
        contestants,
        rounds_max: 3,
        pictures: BARS,
    }
}

async fn run(url: &str, kind: PoolOrSemaphore, time: Duration) -> Result<Values, BenchError> {
    let name = fresh("hundred");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(open(url).await?);
    }
    if kind == PoolOrSemaphore::Pool {
        for member in 0..MEMBERS {
            clients[0].pool(&name).add(format!("m-{member}")).await.map_err(said)?;
        }
    }
    let begun = Instant::now();
    let takers: Vec<_> = (0..TAKERS)
        .map(|taker| {
            let (locks, name) = (clients[taker % CLIENTS].clone(), name.clone());
            tokio::spawn(async move {
                let mut turns = 0_u32;
                while begun.elapsed() < time {
                    let guard = kind.ask(&locks, &name).await.map_err(said)?;
                    // Half of them rest, the others are only in the way of nobody.
                    if (taker as u32 + turns).is_multiple_of(2) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    guard.release().await.map_err(said)?;
                    turns += 1;
                }
                Ok::<_, BenchError>(turns)
            })
        })
        .collect();
    let mut turns = 0;
    for taker in takers {
        turns += taker.await.map_err(said)??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    for client in clients {
        client.close().await;
    }
    Ok(vec![(MEASURES[0].name, f64::from(turns) / seconds)])
}
