//! f: what a lock takes of the server's memory.

use std::rc::Rc;
use std::time::Duration;

use taketurns::{Guard, Locks};
use taketurns_servers::Server;
use tokio::task::JoinSet;

use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::floor::Floor;
use crate::setup::{BenchBackend, BenchError, BenchSetup, open, said};

const MEASURES: &[Measure] =
    &[measure("held lock", "bytes"), measure("idle lock", "bytes"), measure("waiter", "bytes")];
const COUNT: usize = 10_000;
/// How many are asked for at the same time.
const AT_ONCE: usize = 100;
/// How many join a queue at the same time.
pub(super) const JOINING: usize = 1_000;

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let floor = {
        let setup = setup.clone();
        Contestant::new("SET NX PX", ContestantGroup::Floor, 1.0, move || {
            let server = BenchBackend::Scripts.start()?;
            let url = server.url();
            let before = used(&server)?;
            setup.run(async move {
                let mut floor = Floor::open(&url).await?;
                for n in 0..COUNT {
                    floor.acquire(&format!("held-{n}")).await?;
                }
                Ok(())
            })?;
            Ok(vec![(MEASURES[0].name, each(before, used(&server)?))])
        })
    };
    let mut contestants = vec![floor];
    contestants.extend(BenchBackend::BOTH.map(|backend| {
        let setup = setup.clone();
        Contestant::new(backend.name(), ContestantGroup::Ours, 3.0, move || ours(&setup, backend))
    }));
    Workload {
        letter: "f",
        title: "Memory on the server",
        about: "`used_memory` for 10 000 each of: held locks, locks that were used within the \
                last hour and keep only their last token, and waiters in one queue. Each with a \
                server of its own.",
        measures: MEASURES,
        contestants: contestants.into_iter().map(|one| one.against("SET NX PX")).collect(),
        rounds_max: 1,
        pictures: BARS,
    }
}

fn ours(setup: &BenchSetup, backend: BenchBackend) -> Result<Values, BenchError> {
    let server = backend.start()?;
    let url = backend.url(&server);
    let locks = setup.run(async move {
        let locks = open(&url).await?;
        // What the server keeps once, it keeps from now on.
        locks.mutex("first").acquire().await.map_err(said)?.release().await.map_err(said)?;
        Ok(locks)
    })?;
    let empty = used(&server)?;
    let guards = setup.run(hold_all(locks.clone()))?;
    let held = used(&server)?;
    setup.run(async move {
        for guard in guards {
            guard.release().await.map_err(said)?;
        }
        Ok(())
    })?;
    let idle = used(&server)?;
    let waiting = setup.run(queue_up(locks.clone(), COUNT))?;
    let queued = used(&server)?;
    setup.run(async move {
        drop(waiting);
        locks.close().await;
        Ok(())
    })?;
    let values = [each(empty, held), each(empty, idle), each(idle, queued)];
    Ok(MEASURES.iter().map(|measure| measure.name).zip(values).collect())
}

pub(crate) async fn hold_all(locks: Locks) -> Result<Vec<Guard>, BenchError> {
    let mut guards = Vec::with_capacity(COUNT);
    for chunk in 0..COUNT / AT_ONCE {
        let mut asked = JoinSet::new();
        for n in 0..AT_ONCE {
            asked.spawn(
                locks.mutex(format!("held-{}", chunk * AT_ONCE + n)).acquire().into_future(),
            );
        }
        while let Some(guard) = asked.join_next().await {
            guards.push(guard.map_err(said)?.map_err(said)?);
        }
    }
    Ok(guards)
}

/// Lets one client hold the lock and others wait, for as long as the caller keeps the returned value.
pub(super) async fn queue_up(
    locks: Locks,
    count: usize,
) -> Result<(Guard, JoinSet<()>), BenchError> {
    let guard = locks.mutex("queue").acquire().await.map_err(said)?;
    let mut waiting = JoinSet::new();
    while waiting.len() < count {
        for _ in 0..JOINING {
            let asked = locks.mutex("queue").acquire();
            waiting.spawn(async move { drop(asked.await) });
        }
        all_wait(&locks, "queue", waiting.len()).await?;
    }
    Ok((guard, waiting))
}

/// Returns when the lock has this number of waiters.
pub(super) async fn all_wait(locks: &Locks, lock: &str, waiters: usize) -> Result<(), BenchError> {
    while locks.inspect(lock).await.map_err(said)?.map_or(0, |view| view.waiting) < waiters {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn each(before: f64, after: f64) -> f64 {
    (after - before) / COUNT as f64
}

fn used(server: &Server) -> Result<f64, BenchError> {
    let used = server.info("memory").get("used_memory").and_then(|text| text.parse().ok());
    used.ok_or_else(|| "the server does not say how much memory it uses".to_owned())
}
