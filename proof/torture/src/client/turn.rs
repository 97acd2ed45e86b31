//! One turn after the other: ask, hold, look, write, give back, and note each of them.
//!
//! The order of looking at the clock and asking the guard is such that less is claimed than was so,
//! wherever the process is stopped.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taketurns::{Attempt, Begun, Error, ErrorKind, Guard, Locks};
use taketurns_history::{EventKind, HistoryAsk, HistoryLock};
use taketurns_servers::turns::now_us;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::acquire_plan::{AcquirePlan, WaitChoice};
use super::resources::ResourceClient;
use crate::dice::RunDice;
use crate::notes::HistoryWriter;
use crate::resources::ResourceAccess;

/// How often a holder asks its guard.
const LOOK: Duration = Duration::from_millis(50);

/// A task that takes turns.
pub(super) struct TortureTask {
    pub(super) client: u32,
    pub(super) locks: Locks,
    pub(super) kinds: Vec<HistoryLock>,
    /// May a mutex be kept for its process?
    pub(super) may_keep: bool,
    pub(super) notes: Arc<HistoryWriter>,
    /// The number of the client's latest operation.
    pub(super) ops: Arc<AtomicU64>,
    pub(super) resources: ResourceClient,
    pub(super) dice: RunDice,
}

impl TortureTask {
    /// Until it is told to finish: what it asked for by then, it waits for.
    pub(super) async fn run(mut self, finishing: watch::Receiver<bool>) {
        while !*finishing.borrow() {
            let plan = AcquirePlan::new(&self.kinds, self.may_keep, &mut self.dice);
            let op = self.ops.fetch_add(1, Ordering::Relaxed);
            match self.ask(&plan, op).await {
                Some(TaskHold::Guard(guard)) => self.hold(&plan, op, guard).await,
                Some(TaskHold::Attempt(attempt)) => self.attempt(&plan, op, attempt).await,
                // What is refused at once, or done, would be so again.
                None => sleep(self.dice.time(0, 100)).await,
            }
            sleep(self.dice.time(0, 30)).await;
        }
    }

    async fn ask(&self, plan: &AcquirePlan, op: u64) -> Option<TaskHold> {
        let asked_us = self.notes.note(EventKind::Asked {
            op,
            client: self.client,
            lock: plan.lock.clone(),
            ask: plan.ask.clone(),
            endless: plan.limit == WaitChoice::Endless,
            keeps: plan.keeps(),
        });
        let mut acquiring = pin!(obtain(plan, &self.locks, op));
        let got = match plan.limit {
            WaitChoice::Endless | WaitChoice::Within(_) => acquiring.await,
            WaitChoice::Dropped(after) => tokio::select! {
                got = &mut acquiring => got,
                () = sleep(after) => {
                    self.notes.note(EventKind::Cancelled { op });
                    return None;
                }
            },
        };
        match got {
            Ok(Some(obtained)) => Some(obtained),
            Ok(None) => {
                self.notes.note(EventKind::DoneBefore { op });
                None
            }
            Err(error) => {
                self.failed(op, asked_us, plan.limit, &error);
                None
            }
        }
    }

    fn failed(&self, op: u64, asked_us: u64, limit: WaitChoice, error: &Error) {
        // Who waited for as long as it wanted gave up its place then, and hears of it later.
        let over_us = match (limit, error.kind()) {
            (WaitChoice::Within(within), ErrorKind::Timeout | ErrorKind::Quarantined) => {
                asked_us + micros(within)
            }
            _ => u64::MAX,
        };
        let error = format!("{:?}", error.kind());
        self.notes.note_at(now_us().min(over_us), EventKind::Failed { op, error });
    }

    async fn hold(&mut self, plan: &AcquirePlan, op: u64, guard: Guard) {
        self.use_lock(plan, op, &guard).await;
        if plan.dropped {
            return;
        }
        let error = said(guard.release().await);
        self.notes.note(EventKind::Released { op, error });
    }

    /// Does the work of a once, and says what became of it. A kill in between has it done again.
    async fn attempt(&mut self, plan: &AcquirePlan, op: u64, attempt: Attempt) {
        self.use_lock(plan, op, &attempt).await;
        match (plan.fails, plan.dropped) {
            (true, true) => {}
            (true, false) => {
                let error = said(attempt.fail().await);
                self.notes.note(EventKind::Released { op, error });
            }
            (false, _) => {
                sleep(plan.slow).await;
                let error = said(attempt.done().await);
                self.notes.note(EventKind::Finished { op, error });
            }
        }
    }

    /// From the grant until right before it is given back.
    async fn use_lock(&mut self, plan: &AcquirePlan, op: u64, guard: &Guard) {
        let at_us = now_us();
        let until_us = at_us + micros(guard.left());
        let member = guard.member().map(ToString::to_string);
        let token = guard.token().fenced().map(taketurns::Token::raw);
        self.notes
            .note_at(at_us, EventKind::Granted { op, token, member: member.clone(), until_us });
        let key = member.map_or_else(|| plan.lock.clone(), |it| format!("{}/{it}", plan.lock));
        let of = token.filter(|_| plan.writes());
        let of = of.map(|token| ResourceAccess { op, key, token, write: false });
        if let Some(read) = &of {
            self.resources.uses(read).await.expect("the resources are there");
        }
        if self.work(plan, op, guard).await
            && let Some(read) = of
        {
            sleep(plan.slow).await;
            let write = ResourceAccess { write: true, ..read };
            self.resources.uses(&write).await.expect("the resources are there");
        }
        self.notes.note(EventKind::Releases { op });
    }

    /// Holds it for as long as it wants to, and says whether it still did in the end.
    async fn work(&self, plan: &AcquirePlan, op: u64, guard: &Guard) -> bool {
        let end = Instant::now() + plan.hold;
        let mut lost = pin!(guard.lost());
        loop {
            let at_us = now_us();
            let held = guard.check().is_ok();
            let until_us = held.then(|| at_us + micros(guard.left()));
            self.notes.note_at(at_us, EventKind::Checked { op, until_us });
            if !held || Instant::now() >= end {
                return held;
            }
            tokio::select! {
                cause = &mut lost => {
                    self.notes.note(EventKind::Lost { op, cause: cause.to_string() });
                    return false;
                }
                () = sleep(LOOK.min(end - Instant::now())) => {}
            }
        }
    }
}

/// What a task has got.
enum TaskHold {
    Guard(Guard),
    Attempt(Attempt),
}

/// Waits for the lock, or for the right to do the work. `None` if that is done.
async fn obtain(plan: &AcquirePlan, locks: &Locks, op: u64) -> Result<Option<TaskHold>, Error> {
    if plan.ask != HistoryAsk::Once {
        return plan.acquire(locks, op).await.map(|guard| Some(TaskHold::Guard(guard)));
    }
    Ok(match plan.once(locks, op).begin().await? {
        Begun::Attempt(attempt) => Some(TaskHold::Attempt(attempt)),
        Begun::DoneBefore(_) => None,
    })
}

fn said(ended: Result<(), Error>) -> Option<String> {
    ended.err().map(|error| format!("{:?}", error.kind()))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
