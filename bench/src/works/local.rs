//! n: turns that are handed on inside a process.

use std::rc::Rc;
use std::time::Duration;

use taketurns::Connect;

use super::pairs::{self, Pair};
use super::{Contestant, Measure, Party, Plot, Values, Work, measure};
use crate::stage::{Driver, Stage, Way, Why, fresh, said};

const MEASURES: &[Measure] = &[measure("turns per second", "1/s")];
const TASKS: usize = 16;
const LOCAL_TURNS: u32 = 1_000;

pub(super) fn work(stage: &Rc<Stage>) -> Work {
    let time = stage.time(0.4, 1.0);
    let mut contestants = Vec::new();
    for way in Way::BOTH {
        let reference = way.name();
        for (turns, suffix) in [(1, ""), (LOCAL_TURNS, ", local turns")] {
            let stage = stage.clone();
            let name = format!("{reference}{suffix}");
            let run = move || {
                let url = stage.url(way);
                stage.run(taken(url, turns, time))
            };
            let seconds = time.as_secs_f64() + 0.2;
            contestants.push(Contestant::new(name, Party::Ours, seconds, run).against(reference));
        }
    }
    Work {
        letter: "n",
        title: "Turns handed on inside a process",
        about: "16 tasks of one process take turns on one lock, without a pause and with nobody else \
                there; and the same with `.local_turns(1000)`, where the store is asked once in a \
                thousand turns.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

async fn taken(url: String, turns: u32, time: Duration) -> Result<Values, Why> {
    let locks = Driver::Thread.open(Connect::new(&url)).await?;
    let lock = fresh("local");
    let taker = |_| Taker { mutex: locks.mutex(&lock), turns };
    let crowd = pairs::together(time, (0..TASKS).map(taker).collect()).await?;
    locks.close().await;
    let rate = crowd.iter().find(|(measure, _)| *measure == pairs::RATE).map(|(_, rate)| *rate);
    Ok(vec![(MEASURES[0].name, rate.ok_or("it was not measured")?)])
}

struct Taker {
    mutex: taketurns::Mutex,
    turns: u32,
}

impl Pair for Taker {
    async fn pair(&mut self) -> Result<(), Why> {
        let guard = self.mutex.acquire().local_turns(self.turns).await.map_err(said)?;
        guard.release().await.map_err(said)
    }
}
