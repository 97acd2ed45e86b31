//! a, b: acquire and release where nobody else wants the lock.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use taketurns::{Connect, Locks, Mutex};

use super::{Contestant, ContestantGroup, Measure, Plot, Values, Workload, measure};
use crate::floor::Floor;
use crate::rivals::Rival;
use crate::setup::{BenchBackend, BenchDriver, BenchError, BenchSetup, fresh, said};

/// What pairs are compared by.
pub(super) const RATE: &str = "pairs per second";

/// A rate, its inverse as a task sees it, and what the client's processor does for it, which a noisy machine
/// repeats better than any time.
pub(super) const MEASURES: &[Measure] =
    &[measure(RATE, "1/s"), measure("time of a pair", "µs"), measure(CLIENT, "µs")];

/// What a pair costs this process.
pub(crate) const CLIENT: &str = "client's processor";

/// Until caches, connections and scripts are there.
const WARM_UP: Duration = Duration::from_millis(100);

pub(super) fn alone(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Workload {
    Workload {
        letter: "a",
        title: "Alone",
        about: "One task acquires and releases one lock over and over. The floor is `SET NX PX` with 16 \
                random bytes and `EVALSHA` of a script that compares and deletes, on the same client \
                crate and runtime: two round trips, as ours.",
        measures: MEASURES,
        contestants: contestants(setup, rivals, 1),
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

pub(super) fn many(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Workload {
    Workload {
        letter: "b",
        title: "64 tasks, each with a lock of its own, over one connection",
        about: "The same with 64 concurrent tasks that share a client, and with it one \
                connection.",
        measures: MEASURES,
        contestants: contestants(setup, rivals, 64),
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

fn contestants(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>], tasks: usize) -> Vec<Contestant> {
    let time = setup.time(0.4, 1.5);
    let seconds = time.as_secs_f64() + 0.2;
    let floor = {
        let setup = setup.clone();
        Contestant::new("floor", ContestantGroup::Floor, seconds, move || {
            let url = setup.plain.url();
            setup.run(async move {
                let floor = Floor::open(&url).await?;
                let raw = |_| FloorPair { floor: floor.clone(), name: fresh("own") };
                together(time, (0..tasks).map(raw).collect()).await
            })
        })
    };
    let mut all = vec![floor];
    for backend in BenchBackend::BOTH {
        for driver in BenchDriver::BOTH {
            let setup = setup.clone();
            let name = format!("{}{}", backend.name(), driver.suffix());
            all.push(Contestant::new(name, ContestantGroup::Ours, seconds, move || {
                let url = setup.url(backend);
                setup.run(async move {
                    let locks = driver.open(Connect::new(&url)).await?;
                    let values = ours(&locks, tasks, time).await;
                    locks.close().await;
                    values
                })
            }));
        }
    }
    for rival in rivals {
        let (setup, rival) = (setup.clone(), rival.clone());
        let (name, party) = (rival.name.clone(), rival.party());
        let mut contestant = Contestant::new(name, party, seconds + 0.5, move || {
            Ok(values(rival.pairs(setup.plain.url(), tasks, time)?, tasks))
        });
        // Only ours have goals here, and a quick run has to end.
        if time < Duration::from_secs(1) {
            contestant.rounds_max = 1;
        }
        all.push(contestant);
    }
    all.into_iter().map(|contestant| contestant.against("floor")).collect()
}

/// So many tasks, each with a lock of its own.
pub(super) async fn ours(
    locks: &Locks,
    tasks: usize,
    time: Duration,
) -> Result<Values, BenchError> {
    let own = |_| locks.mutex(fresh("own"));
    together(time, (0..tasks).map(own).collect()).await
}

/// What is done over and over.
pub(super) trait Pair: Send + 'static {
    /// Acquires and releases.
    fn pair(&mut self) -> impl Future<Output = Result<(), BenchError>> + Send;
}

impl Pair for Mutex {
    async fn pair(&mut self) -> Result<(), BenchError> {
        self.acquire().await.map_err(said)?.release().await.map_err(said)
    }
}

struct FloorPair {
    floor: Floor,
    name: String,
}

impl Pair for FloorPair {
    async fn pair(&mut self) -> Result<(), BenchError> {
        self.floor.pair(&self.name).await
    }
}

/// What these do at the same time, each as a task.
pub(super) async fn together<P: Pair>(time: Duration, pairs: Vec<P>) -> Result<Values, BenchError> {
    let (count, begun, spent) = (pairs.len(), Instant::now(), processor_us());
    let tasks: Vec<_> = pairs.into_iter().map(|pair| tokio::spawn(repeat(time, pair))).collect();
    let mut per_second = 0.0;
    for task in tasks {
        per_second += task.await.map_err(said)??;
    }
    let share = (processor_us() - spent) / begun.elapsed().as_secs_f64();
    let mut values = values(per_second, count);
    values.push((CLIENT, share / per_second));
    Ok(values)
}

/// What this process has had of the processors.
fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// How often per second it was done, after a warm-up.
async fn repeat(time: Duration, mut pair: impl Pair) -> Result<f64, BenchError> {
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        pair.pair().await?;
    }
    let (begun, mut pairs) = (Instant::now(), 0_u32);
    while begun.elapsed() < time {
        pair.pair().await?;
        pairs += 1;
    }
    Ok(f64::from(pairs) / begun.elapsed().as_secs_f64())
}

fn values(per_second: f64, tasks: usize) -> Values {
    vec![(MEASURES[0].name, per_second), (MEASURES[1].name, tasks as f64 * 1e6 / per_second)]
}
