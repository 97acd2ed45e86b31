//! n: turns that the store is not asked about.

use std::rc::Rc;

use taketurns::{Acquire, Keep, Mutex};

use super::pairs::{self, FloorPair, MutexPair, PairEnd};
use super::{BARS, Contestant, ContestantGroup, Measure, Workload, measure};
use crate::floor::Floor;
use crate::setup::{BenchBackend, BenchSetup, fresh, open};

const MEASURES: &[Measure] = &[measure(pairs::RATE, "1/s").rate(), measure(pairs::CLIENT, "µs")];
const FLOOR: &str = "floor, one task";

/// How a process uses a lock by itself.
#[derive(Clone, Copy)]
struct LocalUse {
    /// What the name of the contestant ends with.
    name: &'static str,
    tasks: usize,
    acquire: fn(&Mutex) -> Acquire,
}

const USES: [LocalUse; 3] = [
    LocalUse {
        name: "kept until wanted, one task",
        tasks: 1,
        acquire: |mutex| mutex.acquire().keep(Keep::UntilWanted),
    },
    LocalUse { name: "16 tasks", tasks: 16, acquire: Mutex::acquire },
    LocalUse {
        name: "16 tasks, 1000 turns",
        tasks: 16,
        acquire: |mutex| mutex.acquire().keep(Keep::Turns(1_000)),
    },
];

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let time = setup.time(0.4, 1.0);
    let seconds = time.as_secs_f64() + 0.2;
    let floor = {
        let setup = setup.clone();
        Contestant::new(FLOOR, ContestantGroup::Floor, seconds, move || {
            let url = setup.plain.url();
            setup.run(async move {
                let floor = Floor::open(&url).await?;
                let pair = FloorPair::new(floor, PairEnd::Awaited);
                pairs::together(time, vec![pair], None).await
            })
        })
    };
    let mut contestants = vec![floor];
    for backend in BenchBackend::BOTH {
        contestants.extend(USES.map(|local| {
            let setup = setup.clone();
            let name = format!("{}, {}", backend.name(), local.name);
            Contestant::new(name, ContestantGroup::Ours, seconds, move || {
                let url = setup.url(backend);
                setup.run(async move {
                    let locks = open(&url).await?;
                    let lock = fresh("local");
                    let taker = |_| MutexPair {
                        acquire: local.acquire,
                        ..MutexPair::plain(locks.mutex(&lock))
                    };
                    let takers = (0..local.tasks).map(taker).collect();
                    let values = pairs::together(time, takers, None).await;
                    locks.close().await;
                    values
                })
            })
        }));
    }
    Workload {
        letter: "n",
        title: "Turns inside one process",
        about: "Tasks of one process take turns on one lock, without a pause and without other \
                clients. With `.keep(Keep::Turns(1000))` the client asks the store once in a thousand \
                turns. With `.keep(Keep::UntilWanted)` it keeps the lock while nobody else wants it. \
                The floor is one task that acquires and releases by raw commands.",
        measures: MEASURES,
        contestants: contestants.into_iter().map(|one| one.against(FLOOR)).collect(),
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}
