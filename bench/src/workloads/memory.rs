//! l: the memory engine against a mutex per key.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use taketurns::{Acquire, Keep, Mutex};
use tokio::sync::OwnedMutexGuard;

use super::pairs::{self, MutexPair, Pair};
use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::setup::{BenchError, BenchSetup, open};

const MEASURES: &[Measure] =
    &[measure("time of a pair", "µs"), measure("turn of 16 tasks", "µs").compared()];
const KEYED: &str = "keyed tokio mutex";
const TASKS: usize = 16;

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let time = setup.time(0.3, 1.0);
    let seconds = time.as_secs_f64() * 2.0 + 0.2;
    let keyed = {
        let setup = setup.clone();
        Contestant::new(KEYED, ContestantGroup::Floor, seconds, move || setup.run(keyed(time)))
    };
    let ours = [
        ("memory engine", Mutex::acquire as fn(&Mutex) -> Acquire),
        ("memory engine, local turns", |mutex| mutex.acquire().keep(Keep::Turns(1_000))),
    ]
    .map(|(name, acquire)| {
        let setup = setup.clone();
        let run = move || setup.run(engine(acquire, time));
        Contestant::new(name, ContestantGroup::Ours, seconds, run).against(KEYED)
    });
    Workload {
        letter: "l",
        title: "Within a process",
        about: "Compared with a map of names to `tokio::sync::Mutex` (which is fair) behind a \
                standard mutex. The map drops a name that nobody holds or waits for. One task \
                with a lock of its own, and 16 tasks that take turns on one, without a pause; the same \
                with `.keep(Keep::Turns(1000))`.",
        measures: MEASURES,
        contestants: [keyed].into_iter().chain(ours).collect(),
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}

async fn engine(acquire: fn(&Mutex) -> Acquire, time: Duration) -> Result<Values, BenchError> {
    let locks = open("memory:").await?;
    let pair = |name: &str| MutexPair { acquire, ..MutexPair::plain(locks.mutex(name)) };
    let alone = pairs::together(time, vec![pair("own")], None).await?;
    let crowd = pairs::together(time, (0..TASKS).map(|_| pair("one")).collect(), None).await?;
    locks.close().await;
    values(&alone, &crowd)
}

async fn keyed(time: Duration) -> Result<Values, BenchError> {
    let keyed = KeyedMutexes::default();
    let named = |name: &str| KeyedPair { keyed: keyed.clone(), name: name.to_owned() };
    let alone = pairs::together(time, vec![named("own")], None).await?;
    let crowd = pairs::together(time, (0..TASKS).map(|_| named("one")).collect(), None).await?;
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
struct KeyedMutexes(Arc<std::sync::Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>);

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
