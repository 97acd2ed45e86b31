//! j: how long a lock stays with a holder that was killed.

use std::rc::Rc;
use std::time::Duration;

use super::space::all_wait;
use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::setup::{BenchBackend, BenchError, BenchSetup, Helper, fresh, open, said};
use crate::turns::now_us;

const MEASURES: &[Measure] = &[measure("kill to grant", "ms"), measure("of the lease", "×")];
const LEASE: Duration = Duration::from_secs(2);

/// Who dies.
#[derive(Clone, Copy)]
enum HolderKind {
    /// A client of ours by this way.
    Client(BenchBackend),
    /// A client that sent one command to the module, with `BOUND`.
    Bound,
    /// A process that uses the file engine.
    File,
}

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let holders = [
        ("scripts", HolderKind::Client(BenchBackend::Scripts)),
        ("module", HolderKind::Client(BenchBackend::Module)),
        ("module, BOUND", HolderKind::Bound),
        ("file engine", HolderKind::File),
    ];
    let contestants = holders.map(|(name, holder)| {
        let setup = setup.clone();
        Contestant::new(name, ContestantGroup::Ours, 3.0, move || run(&setup, holder))
    });
    Workload {
        letter: "j",
        title: "Take-over after kill -9 of the holder",
        about: "A process holds a lock with a lease of 2 s, has renewed it at least once, and is \
                killed while another client waits. The lease must end first; up to a third of it \
                has passed when a renewal is due. A lock that is bound to a connection ends with \
                it.",
        measures: MEASURES,
        contestants: contestants.into(),
        rounds_max: 3,
        pictures: BARS,
    }
}

fn run(setup: &BenchSetup, holder: HolderKind) -> Result<Values, BenchError> {
    let lock = fresh("orphan");
    let lease_ms = LEASE.as_millis().to_string();
    let (mut process, url) = match holder {
        HolderKind::Client(backend) => {
            let url = setup.url(backend);
            (Helper::start("hold-one", &[&url, &lock, &lease_ms])?, url)
        }
        HolderKind::Bound => {
            let port = setup.module.port().to_string();
            let key = format!("tt:{lock}");
            (Helper::start("hold-bound", &[&port, &key, "60000"])?, setup.url(BenchBackend::Module))
        }
        HolderKind::File => {
            let url = format!("file:{}", setup.path("orphan").display());
            (Helper::start("hold-one", &[&url, &lock, &lease_ms])?, url)
        }
    };
    if process.line()? != "held" {
        return Err("the holder could not take it".to_owned());
    }
    let granted_us = setup.run(async move {
        let locks = open(&url).await?;
        let waiting = tokio::spawn({
            let mutex = locks.mutex(&lock);
            async move {
                let guard = mutex.acquire().await.map_err(said)?;
                let granted_us = now_us();
                guard.release().await.map_err(said)?;
                Ok::<_, BenchError>(granted_us)
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
