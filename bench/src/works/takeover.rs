//! j: how long a lock stays with a holder that was killed.

use std::rc::Rc;
use std::time::Duration;

use taketurns::Connect;

use super::space::all_wait;
use super::{Contestant, Measure, Party, Plot, Values, Work, measure};
use crate::stage::{Driver, Helper, Stage, Way, Why, fresh, said};
use crate::turns::now_us;

const MEASURES: &[Measure] = &[measure("kill to grant", "ms"), measure("of the lease", "×")];
const LEASE: Duration = Duration::from_secs(2);

/// Who dies.
#[derive(Clone, Copy)]
enum Holder {
    /// A client of ours by this way.
    Client(Way),
    /// Whoever sent one command to the module, with `BOUND`.
    Bound,
    /// A process that uses the file engine.
    File,
}

pub(super) fn work(stage: &Rc<Stage>) -> Work {
    let holders = [
        ("scripts", Holder::Client(Way::Scripts)),
        ("module", Holder::Client(Way::Module)),
        ("module, BOUND", Holder::Bound),
        ("file engine", Holder::File),
    ];
    let contestants = holders.map(|(name, holder)| {
        let stage = stage.clone();
        Contestant::new(name, Party::Ours, 3.0, move || run(&stage, holder))
    });
    Work {
        letter: "j",
        title: "Take-over after kill -9 of the holder",
        about: "A process holds a lock by a lease of 2 s, which it has renewed at least once, and is \
                killed; another waits. A lease has to run out, of which up to a third is over when a \
                renewal comes. What is bound to a connection ends with it.",
        measures: MEASURES,
        contestants: contestants.into(),
        rounds_max: if stage.quick { 1 } else { 5 },
        plot: Plot::Bars,
    }
}

fn run(stage: &Stage, holder: Holder) -> Result<Values, Why> {
    let lock = fresh("orphan");
    let lease_ms = LEASE.as_millis().to_string();
    let (mut process, url) = match holder {
        Holder::Client(way) => {
            let url = stage.url(way);
            (Helper::start("hold-one", &[&url, &lock, &lease_ms])?, url)
        }
        Holder::Bound => {
            let port = stage.module.port().to_string();
            let key = format!("tt:{lock}");
            (Helper::start("hold-bound", &[&port, &key, "60000"])?, stage.url(Way::Module))
        }
        Holder::File => {
            let url = format!("file:{}", stage.path("orphan").display());
            (Helper::start("hold-one", &[&url, &lock, &lease_ms])?, url)
        }
    };
    if process.line()? != "held" {
        return Err("the holder could not take it".to_owned());
    }
    let granted_us = stage.run(async move {
        let locks = Driver::Thread.open(Connect::new(&url)).await?;
        let waiting = tokio::spawn({
            let mutex = locks.mutex(&lock);
            async move {
                let guard = mutex.acquire().await.map_err(said)?;
                let granted_us = now_us();
                guard.release().await.map_err(said)?;
                Ok::<_, Why>(granted_us)
            }
        });
        all_wait(&locks, &lock, 1).await?;
        // Somewhere between two renewals.
        tokio::time::sleep(LEASE / 2).await;
        let killed_us = now_us();
        drop(process);
        let granted_us = waiting.await.map_err(said)??;
        locks.close().await;
        Ok(granted_us - killed_us)
    })?;
    let ms = granted_us as f64 / 1e3;
    Ok(vec![(MEASURES[0].name, ms), (MEASURES[1].name, ms / LEASE.as_millis() as f64)])
}
