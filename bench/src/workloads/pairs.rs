//! a, b: acquire and release where nobody else wants the lock.

use std::rc::Rc;
use std::time::{Duration, Instant};

use taketurns::{Acquire, Locks, Mutex};
use taketurns_servers::Flavor;

use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::cpu::{cpu_us, own_cpu_us};
use crate::floor::Floor;
use crate::rivals::Rival;
use crate::setup::{BenchBackend, BenchError, BenchSetup, ON_POSTGRES, fresh, on, open, said};

/// What pairs are compared by.
pub(super) const RATE: &str = "pairs per second";

/// A rate, its inverse as a task sees it, and what it costs in CPU time.
pub(super) const MEASURES: &[Measure] = &[
    measure(RATE, "1/s").rate(),
    measure(PAIR, "µs"),
    measure(CLIENT, "µs").compared(),
    measure(SERVER, "µs").compared(),
];
pub(super) const PAIR: &str = "time of a pair";
pub(super) const CLIENT: &str = "client's CPU per pair";
const SERVER: &str = "server's CPU per pair";

/// Until caches, connections and scripts are there.
const WARM_UP: Duration = Duration::from_millis(100);

pub(super) fn alone(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Workload {
    Workload {
        letter: "a",
        title: "One task, nobody else wants the lock",
        about: "One task acquires and releases one lock over and over. The floor is `SET NX PX` with 16 \
                random bytes and `EVALSHA` of a script that compares and deletes, on the same client \
                crate and runtime: two round trips, as ours. With *drop* nobody waits for the release: \
                ours drops the guard, and the floor sends its release together with the next acquire. \
                So a pair is one round trip.",
        measures: MEASURES,
        contestants: contestants(setup, rivals, 1),
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}

pub(super) fn many(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Workload {
    Workload {
        letter: "b",
        title: "64 tasks, each with a lock of its own",
        about: "The same with 64 concurrent tasks that share a client, and with it one \
                connection.",
        measures: MEASURES,
        contestants: contestants(setup, rivals, 64),
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}

fn contestants(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>], tasks: usize) -> Vec<Contestant> {
    let time = setup.time(0.4, 1.5);
    let seconds = time.as_secs_f64() + 0.2;
    let mut all = Vec::new();
    for flavor in Flavor::ALL {
        for release in [PairEnd::Awaited, PairEnd::Dropped] {
            // In a crowd others fill the round trip that a task saves.
            if release == PairEnd::Dropped && (tasks > 1 || flavor == Flavor::Valkey) {
                continue;
            }
            let named = |name: &str| format!("{name}{}{}", on(flavor), release.suffix());
            all.push(floor(setup, flavor, release, tasks, named("floor")));
            for backend in BenchBackend::BOTH {
                let setup = setup.clone();
                let run = move || {
                    let server = setup.server(flavor, backend)?;
                    let (url, pid) = (backend.url(server), server.pid());
                    setup.run(async move {
                        let locks = open(&url).await?;
                        let own = |_| MutexPair {
                            release,
                            ..MutexPair::plain(locks.mutex(fresh("own")))
                        };
                        let values = together(time, (0..tasks).map(own).collect(), pid).await;
                        locks.close().await;
                        values
                    })
                };
                all.push(
                    Contestant::new(named(backend.name()), ContestantGroup::Ours, seconds, run)
                        .against(named("floor")),
                );
            }
        }
    }
    for (name, options) in ON_POSTGRES {
        let setup = setup.clone();
        let run = move || {
            let url = setup.postgres_url(options)?;
            setup.run(async move {
                let locks = open(&url).await?;
                let values = ours(&locks, tasks, time).await;
                locks.close().await;
                values
            })
        };
        all.push(Contestant::new(name, ContestantGroup::Ours, seconds, run).against("floor"));
    }
    // A quick run has to end.
    for rival in rivals.iter().filter(|_| !setup.quick) {
        let (setup, rival) = (setup.clone(), rival.clone());
        let (name, party) = (rival.name.clone(), rival.party());
        let mut contestant = Contestant::new(name, party, seconds + 0.5, move || {
            Ok(values(rival.pairs(setup.plain.url(), tasks, time)?, tasks))
        });
        // Only ours have goals here.
        contestant.rounds_max = 3;
        all.push(contestant.against("floor"));
    }
    all
}

fn floor(
    setup: &Rc<BenchSetup>,
    flavor: Flavor,
    release: PairEnd,
    tasks: usize,
    name: String,
) -> Contestant {
    let (setup, time) = (setup.clone(), setup.time(0.4, 1.5));
    Contestant::new(name.clone(), ContestantGroup::Floor, time.as_secs_f64() + 0.2, move || {
        let server = setup.server(flavor, BenchBackend::Scripts)?;
        let (url, pid) = (server.url(), server.pid());
        setup.run(async move {
            let floor = Floor::open(&url).await?;
            let raw = |_| FloorPair::new(floor.clone(), release);
            together(time, (0..tasks).map(raw).collect(), pid).await
        })
    })
    .against(name)
}

/// Does a pair end with the answer to its release?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairEnd {
    Awaited,
    Dropped,
}

impl PairEnd {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Awaited => "",
            Self::Dropped => ", drop",
        }
    }
}

/// Runs a number of tasks, each with a lock of its own.
pub(super) async fn ours(
    locks: &Locks,
    tasks: usize,
    time: Duration,
) -> Result<Values, BenchError> {
    let own = |_| MutexPair::plain(locks.mutex(fresh("own")));
    together(time, (0..tasks).map(own).collect(), None).await
}

/// What is done over and over.
pub(super) trait Pair: Send + 'static {
    /// Acquires and releases.
    fn pair(&mut self) -> impl Future<Output = Result<(), BenchError>> + Send;
}

pub(super) struct MutexPair {
    pub(super) mutex: Mutex,
    pub(super) acquire: fn(&Mutex) -> Acquire,
    pub(super) release: PairEnd,
}

impl MutexPair {
    pub(super) fn plain(mutex: Mutex) -> Self {
        Self { mutex, acquire: Mutex::acquire, release: PairEnd::Awaited }
    }
}

impl Pair for MutexPair {
    async fn pair(&mut self) -> Result<(), BenchError> {
        let guard = (self.acquire)(&self.mutex).await.map_err(said)?;
        match self.release {
            PairEnd::Awaited => guard.release().await.map_err(said),
            PairEnd::Dropped => {
                drop(guard);
                Ok(())
            }
        }
    }
}

pub(super) struct FloorPair {
    floor: Floor,
    name: String,
    release: PairEnd,
    /// What the last pair has not released yet.
    held: Option<[u8; 16]>,
}

impl FloorPair {
    pub(super) fn new(floor: Floor, release: PairEnd) -> Self {
        Self { floor, name: fresh("own"), release, held: None }
    }
}

impl Pair for FloorPair {
    async fn pair(&mut self) -> Result<(), BenchError> {
        let owner = match self.held.take() {
            None => self.floor.acquire(&self.name).await?,
            Some(owner) => {
                let mut other = self.floor.clone();
                let release = other.release(&self.name, &owner);
                let (released, owner) = tokio::join!(release, self.floor.acquire(&self.name));
                released?;
                owner?
            }
        };
        match self.release {
            PairEnd::Awaited => self.floor.release(&self.name, &owner).await,
            PairEnd::Dropped => {
                self.held = Some(owner);
                Ok(())
            }
        }
    }
}

/// What these do at the same time, each as a task, and what they cost this process and the server.
pub(super) async fn together<P: Pair>(
    time: Duration,
    pairs: Vec<P>,
    server: Option<u32>,
) -> Result<Values, BenchError> {
    let spent = || Ok::<_, BenchError>([own_cpu_us(), server.map_or(Ok(0.0), cpu_us)?]);
    let (count, begun, before) = (pairs.len(), Instant::now(), spent()?);
    let tasks: Vec<_> = pairs.into_iter().map(|pair| tokio::spawn(repeat(time, pair))).collect();
    let mut per_second = 0.0;
    for task in tasks {
        per_second += task.await.map_err(said)??;
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), spent()?);
    let per_pair = |place: usize| (after[place] - before[place]) / seconds / per_second;
    let mut values = values(per_second, count);
    values.push((CLIENT, per_pair(0)));
    values.extend(server.map(|_| (SERVER, per_pair(1))));
    Ok(values)
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
    vec![(RATE, per_second), (PAIR, tasks as f64 * 1e6 / per_second)]
}
