//! l: the memory engine against a mutex per key.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taketurns::Connect;
use tokio::sync::OwnedMutexGuard;

use super::pairs::{self, Pair};
use super::{Contestant, ContestantGroup, Measure, Plot, Values, Workload, measure};
use crate::setup::{BenchDriver, BenchError, BenchSetup};

const MEASURES: &[Measure] = &[measure("time of a pair", "µs"), measure("turn of 16 tasks", "µs")];
const KEYED: &str = "keyed tokio mutex";
const TASKS: usize = 16;

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let time = setup.time(0.3, 1.0);
    let seconds = time.as_secs_f64() * 2.0 + 0.2;
    let keyed = {
        let setup = setup.clone();
        Contestant::new(KEYED, ContestantGroup::Floor, seconds, move || setup.run(keyed(time)))
    };
    let ours = BenchDriver::BOTH.map(|driver| {
        let setup = setup.clone();
        let name = format!("memory engine{}", driver.suffix());
        Contestant::new(name, ContestantGroup::Ours, seconds, move || {
            setup.run(engine(driver, time))
        })
        .against(KEYED)
    });
    Workload {
        letter: "l",
        title: "Within a process",
        about: "Compared with a map of names to `tokio::sync::Mutex` (which is fair) behind a \
                standard mutex. The map drops a name that nobody holds or waits for. One task \
                with a lock of its own, and 16 tasks that take turns on one, without a pause.",
        measures: MEASURES,
        contestants: [keyed].into_iter().chain(ours).collect(),
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

async fn engine(driver: BenchDriver, time: Duration) -> Result<Values, BenchError> {
    let locks = driver.open(Connect::new("memory:")).await?;
    let alone = pairs::ours(&locks, 1, time).await?;
    let one = |_| locks.mutex("one");
    let crowd = pairs::together(time, (0..TASKS).map(one).collect()).await?;
    locks.close().await;
    values(&alone, &crowd)
}

async fn keyed(time: Duration) -> Result<Values, BenchError> {
    let keyed = KeyedMutexes::default();
    let named = |name: &str| KeyedPair { keyed: keyed.clone(), name: name.to_owned() };
    let alone = pairs::together(time, vec![named("own")]).await?;
    let crowd = pairs::together(time, (0..TASKS).map(|_| named("one")).collect()).await?;
    values(&alone, &crowd)
}

/// The time of a pair, and for a crowd that of one turn.
fn values(alone: &Values, crowd: &Values) -> Result<Values, BenchError> {
    let of = |values: &Values| {
        let found = values.iter().find(|(measure, _)| *measure == MEASURES[0].name);
        found.map(|(_, value)| *value).ok_or("it was not measured")
    };
    Ok(vec![(MEASURES[0].name, of(alone)?), (MEASURES[1].name, of(crowd)? / TASKS as f64)])
}

/// A mutex per name, for as long as somebody has or wants it.
#[derive(Clone, Default)]
struct KeyedMutexes(Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>);

/// One name of them.
struct KeyedPair {
    keyed: KeyedMutexes,
    name: String,
}

impl Pair for KeyedPair {
    async fn pair(&mut self) -> Result<(), BenchError> {
        drop(self.keyed.lock(&self.name).await);
        Ok(())
    }
}

struct KeyedGuard {
    keyed: KeyedMutexes,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyedMutexes {
    async fn lock(&self, name: &str) -> KeyedGuard {
        let mutex = {
            let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            map.entry(name.to_owned()).or_default().clone()
        };
        let guard = Some(mutex.lock_owned().await);
        KeyedGuard { keyed: self.clone(), name: name.to_owned(), guard }
    }
}

impl Drop for KeyedGuard {
    fn drop(&mut self) {
        let mut map = self.keyed.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.guard.take());
        // The map's own is the last.
        if map.get(&self.name).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            map.remove(&self.name);
        }
    }
}
