//! n: turns that are handed on inside a process.

use std::rc::Rc;
use std::time::Duration;

use taketurns::Connect;

use super::pairs::{self, Pair};
use super::{Contestant, ContestantGroup, Measure, Plot, Values, Workload, measure};
use crate::setup::{BenchBackend, BenchDriver, BenchError, BenchSetup, fresh, said};

const MEASURES: &[Measure] = &[measure("turns per second", "1/s")];
const TASKS: usize = 16;
const LOCAL_TURNS: u32 = 1_000;

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let time = setup.time(0.4, 1.0);
    let mut contestants = Vec::new();
    for backend in BenchBackend::BOTH {
        let reference = backend.name();
        for (turns, suffix) in [(1, ""), (LOCAL_TURNS, ", local turns")] {
            let setup = setup.clone();
            let name = format!("{reference}{suffix}");
            let run = move || {
                let url = setup.url(backend);
                setup.run(taken(url, turns, time))
            };
            let seconds = time.as_secs_f64() + 0.2;
            contestants.push(
                Contestant::new(name, ContestantGroup::Ours, seconds, run).against(reference),
            );
        }
    }
    Workload {
        letter: "n",
        title: "Turns handed on inside a process",
        about: "16 tasks of one process take turns on one lock, without a pause and without \
                other clients; and the same with `.local_turns(1000)`, where the client asks the \
                store once in a thousand turns.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

async fn taken(url: String, turns: u32, time: Duration) -> Result<Values, BenchError> {
    let locks = BenchDriver::Thread.open(Connect::new(&url)).await?;
    let lock = fresh("local");
    let taker = |_| LocalPair { mutex: locks.mutex(&lock), turns };
    let crowd = pairs::together(time, (0..TASKS).map(taker).collect()).await?;
    locks.close().await;
    let rate = crowd.iter().find(|(measure, _)| *measure == pairs::RATE).map(|(_, rate)| *rate);
    Ok(vec![(MEASURES[0].name, rate.ok_or("it was not measured")?)])
}

struct LocalPair {
    mutex: taketurns::Mutex,
    turns: u32,
}

impl Pair for LocalPair {
    async fn pair(&mut self) -> Result<(), BenchError> {
        let guard = self.mutex.acquire().local_turns(self.turns).await.map_err(said)?;
        guard.release().await.map_err(said)
    }
}
