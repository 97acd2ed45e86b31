//! o: what it takes to look at many locks, as `ls`, `top` and `serve` do.

use std::rc::Rc;
use std::time::Instant;

use super::space::{hold_all, queue_up};
use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::setup::{BenchBackend, BenchError, BenchSetup, open, said};

const MEASURES: &[Measure] = &[
    measure("a listing", "ms"),
    measure("of the server's time", "ms"),
    measure("looked at for ever", "% of the server"),
];
/// Of each lock, as `serve` does.
const WAITERS: usize = 16;
/// A tenth of the time is spent on looking, at most: see `pace` of the program.
const SHARE: f64 = 10.0;

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let contestant = |backend: BenchBackend| {
        let setup = setup.clone();
        Contestant::new(backend.name(), ContestantGroup::Ours, 5.0, move || run(&setup, backend))
    };
    Workload {
        letter: "o",
        title: "Looking at 10 000 locks and 1 000 waiters",
        about: "`Locks::list_with` from a second client, with up to 16 waiters of each lock. All \
                locks are held, and all waiters are in the queue of one of them. The server's \
                time is what the server reports for its commands. `top` and `serve` pause for \
                ten times the duration of a listing before the next one, which gives the last \
                column.",
        measures: MEASURES,
        contestants: BenchBackend::BOTH.map(contestant).into(),
        rounds_max: 3,
        pictures: BARS,
    }
}

fn run(setup: &BenchSetup, backend: BenchBackend) -> Result<Values, BenchError> {
    let server = backend.start()?;
    let url = backend.url(&server);
    let holder = {
        let url = url.clone();
        setup.run(async move { open(&url).await })?
    };
    let guards = setup.run(hold_all(holder.clone()))?;
    let waiting = setup.run(queue_up(holder.clone(), 1_000))?;
    let (took, counted) = setup.run(async move {
        let locks = open(&url).await?;
        // The first finds out what the server has.
        locks.list_with("*", WAITERS).await.map_err(said)?;
        server.reset_stats();
        let began = Instant::now();
        let listed = locks.list_with("*", WAITERS).await.map_err(said)?;
        let took = began.elapsed();
        let waiting: usize = listed.iter().map(|(_, view)| view.waiting).sum();
        if (listed.len(), waiting) != (10_001, 1_000) {
            return Err(format!("{} locks and {waiting} waiters were listed", listed.len()));
        }
        let counted: u64 = server.command_stats().values().map(|one| one.usec).sum();
        Ok((took.as_secs_f64() * 1e3, counted as f64 / 1e3))
    })?;
    setup.run(async move {
        drop((guards, waiting));
        holder.close().await;
        Ok(())
    })?;
    let share = counted / (took * SHARE) * 100.0;
    Ok(MEASURES.iter().map(|measure| measure.name).zip([took, counted, share]).collect())
}
