//! Runs a [`Session`]: the mutex around it, and what is done once that is released.
//!
//! ```text
//!   an engine's reader, a task, the keeper ─► drive: lock ─ read the clock ─ one step ─ unlock
//!                                                                                        │
//!                                             wake tasks, tell the log, nudge the keeper ◄┘
//! ```
//!
//! Under the mutex nothing is called but the session: no engine, no waker, no log, no metric. So a
//! wake-up is handled on the thread that read it, whatever that thread holds, and what it wakes may come
//! back here at once. The clock is read under the mutex, so steps are in the order of their times. A step
//! that panics leaves the session in no state to be trusted: everything held counts as lost from then on.

use taketurns_core::ClientId;
use taketurns_core::session::{Hold, LossCause, Session, SessionEvent, Transmit};
use tokio::sync::Notify;

use crate::clock::local_us;
use crate::engine::EngineEvent;
use crate::meter::{self, HoldOutcome};
use crate::random;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::telling::target;

/// A session that many threads use.
pub(crate) struct Shell {
    session: Mutex<Session>,
    /// The keeper has to look at the timers.
    pub(crate) is_due: Notify,
}

impl Shell {
    pub(crate) fn new(client: ClientId) -> Self {
        random::prepare();
        let session = Mutex::new(Session::new(client, random::bits64()));
        Self { session, is_due: Notify::new() }
    }

    /// Takes one step. What has to be sent is left to the keeper.
    pub(crate) fn drive<T>(&self, step: impl FnOnce(&mut Session, u64) -> T) -> T {
        let (output, has_transmits) = self.run(step, |session| session.has_transmits());
        if has_transmits {
            self.is_due.notify_one();
        }
        output
    }

    /// Takes one step, and returns what has to be sent.
    pub(crate) fn drive_and_send<T>(
        &self,
        step: impl FnOnce(&mut Session, u64) -> T,
    ) -> (T, Vec<Transmit>) {
        self.run(step, Session::take_transmits)
    }

    fn run<T, S>(
        &self,
        step: impl FnOnce(&mut Session, u64) -> T,
        sends: impl FnOnce(&mut Session) -> S,
    ) -> (T, S) {
        let mut locked = StepGuard { session: lock(&self.session), is_done: false };
        let output = step(&mut locked.session, local_us());
        let (effects, sends) = (locked.session.take_effects(), sends(&mut locked.session));
        locked.is_done = true;
        drop(locked);
        if let Some(effects) = effects {
            effects.wakers.into_iter().for_each(std::task::Waker::wake);
            effects.events.into_iter().for_each(tell);
            if effects.look {
                self.is_due.notify_one();
            }
        }
        (output, sends)
    }

    /// Looks something up, which changes nothing that anybody has to be told of.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&mut Session) -> T) -> T {
        at(&mut lock(&self.session))
    }

    /// The engine pushed something, on whichever thread that read it.
    pub(crate) fn handle_event(&self, woken: EngineEvent) {
        if let EngineEvent::Wake { .. } = woken {
            meter::woken();
        }
        self.drive(|session, now_us| match woken {
            EngineEvent::Wake { wake, origin, .. } => {
                session.handle_wake(now_us, wake.owner, wake.event, origin);
            }
            EngineEvent::Lost { owner } => session.handle_gone(now_us, owner),
            EngineEvent::Recheck => session.handle_doubt(now_us, None),
            EngineEvent::LockChanged { lock } => session.handle_doubt(now_us, Some(&lock)),
        });
    }
}

/// A session in the middle of a step. Whether the thread panics says nothing: a guard that is dropped by
/// a panic of its user takes a step like any other.
struct StepGuard<'a> {
    session: MutexGuard<'a, Session>,
    is_done: bool,
}

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.session.handle_unattended(0);
        }
    }
}

fn tell(event: SessionEvent) {
    match event {
        SessionEvent::Lost { hold, cause } => announce(&hold, cause),
        SessionEvent::ClockSet => tracing::warn!(
            target: target::CLIENT,
            "the clock of the store was set forward; what is held there counts as lost"
        ),
        SessionEvent::Quarantined { lock, left_ms } => {
            tracing::warn!(
                target: target::WAITS,
                %lock,
                left_ms,
                "in quarantine: its store was restarted or failed over"
            );
        }
        SessionEvent::Queued { ahead } => meter::queued(ahead),
        SessionEvent::Rejoined { lock } => tracing::warn!(
            name: "taketurns.rejoined",
            target: target::WAITS,
            %lock,
            "the place lapsed; waiting again at the tail"
        ),
        _ => {}
    }
}

/// Tells everybody that a lock is lost, for the first and only time.
pub(crate) fn announce(hold: &Hold, cause: LossCause) {
    tracing::warn!(
        name: "taketurns.lost",
        target: target::HELD,
        lock = %hold.name(),
        %cause,
        "the lock was lost"
    );
    meter::lost(cause);
    if let Some(since_us) = hold.end_turn() {
        meter::hold_ended(local_us().saturating_sub(since_us), HoldOutcome::Lost);
    }
    hold.take_watchers().into_iter().for_each(std::task::Waker::wake);
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use taketurns_core::session::{
        AcquireAction, AcquireSpec, Anchor, HoldTerms, Origin, WaitLimit, WakerSwap,
    };
    use taketurns_core::{Ask, Grant, Label, Name, Owner, WakeEvent};

    use super::*;
    use crate::sync::Arc;

    fn terms(owner: u128) -> HoldTerms {
        HoldTerms {
            lock: Name::new("l").expect("a name"),
            owner: Owner::from_bits(owner),
            lease_ms: 30_000,
            max_hold_us: None,
            bury_until_ms: 0,
        }
    }

    fn shell() -> Arc<Shell> {
        Arc::new(Shell::new(ClientId::from_bits(1)))
    }

    fn hold(shell: &Shell, owner: u128) -> std::sync::Arc<Hold> {
        let grant = Grant { token: None, tokens: 1, deadline_ms: 30_000, member: None, vote: None };
        let held = shell.drive(|session, now_us| {
            let anchor = Anchor { sent_us: now_us, engine_ms: 0 };
            session.adopt(now_us, terms(owner), None, grant, (Origin::default(), anchor))
        });
        held.expect("a lease")
    }

    /// An acquire that waits for an answer, with a waker of its own.
    fn asks(shell: &Shell, owner: u128, waker: Waker) {
        let wanted = AcquireSpec {
            terms: terms(owner),
            ask: Ask::Mutex,
            label: Label::default(),
            wait_limit: WaitLimit::Endless,
        };
        let mut spare = WakerSwap::new(waker);
        let next = shell.drive(|session, now_us| {
            session.begin_acquire(wanted);
            let owner = Owner::from_bits(owner);
            session.poll_acquire(now_us, owner, 0, &mut spare, || Owner::from_bits(9))
        });
        assert!(matches!(next, AcquireAction::Send(_)));
    }

    /// Comes back into the shell when it is woken, and when it is dropped.
    struct Returns {
        shell: Arc<Shell>,
        times: Arc<AtomicUsize>,
    }

    impl Returns {
        fn returns(&self) {
            self.shell.drive(|_, _| ());
            self.times.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Wake for Returns {
        fn wake(self: std::sync::Arc<Self>) {
            self.returns();
        }
    }

    impl Drop for Returns {
        fn drop(&mut self) {
            self.returns();
        }
    }

    #[test]
    fn a_task_that_is_woken_or_dropped_may_come_back_at_once() {
        let (shell, times) = (shell(), Arc::new(AtomicUsize::new(0)));
        let waker = || {
            let (shell, times) = (shell.clone(), times.clone());
            Waker::from(std::sync::Arc::new(Returns { shell, times }))
        };
        asks(&shell, 1, waker());
        let owner = Owner::from_bits(1);
        let refused = WakeEvent::Refused(taketurns_core::Refusal::QueueFull);
        shell.drive(|session, now_us| {
            session.handle_wake(now_us, owner, refused, Origin::default());
        });
        assert_eq!(times.load(Ordering::SeqCst), 2, "woken, and dropped with that");
        asks(&shell, 2, waker());
        let mut spare = WakerSwap::default();
        shell.drive(|session, now_us| {
            session.cancel_acquire(now_us, Owner::from_bits(2), &mut spare);
        });
        assert_eq!(times.load(Ordering::SeqCst), 2, "not under the mutex");
        drop(spare);
        assert_eq!(times.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_step_that_panics_loses_everything_held() {
        let shell = shell();
        let held = hold(&shell, 1);
        assert_eq!(held.loss(local_us()), None);
        let step = AssertUnwindSafe(|| shell.drive(|_, _| panic!("on purpose")));
        catch_unwind(step).expect_err("it panics");
        let loss = held.loss(local_us()).expect("it is lost");
        assert_eq!(loss.cause, LossCause::Unattended);
        assert!(hold(&shell, 2).loss(local_us()).is_some(), "and nothing is held from then on");
    }

    #[test]
    fn a_step_in_the_middle_of_somebody_elses_panic_loses_nothing() {
        struct DrivesWhenDropped(Arc<Shell>);
        impl Drop for DrivesWhenDropped {
            fn drop(&mut self) {
                self.0.drive(|_, _| ());
            }
        }
        let shell = shell();
        let held = hold(&shell, 1);
        let user = AssertUnwindSafe(|| {
            let _guard = DrivesWhenDropped(shell.clone());
            panic!("on purpose");
        });
        catch_unwind(user).expect_err("it panics");
        assert_eq!(held.loss(local_us()), None);
    }

    #[test]
    fn a_lock_whose_runtime_has_ended_is_lost() {
        let shell = shell();
        let held = hold(&shell, 1);
        shell.drive(|session, now_us| session.handle_unattended(now_us));
        assert_eq!(held.loss(local_us()).map(|loss| loss.cause), Some(LossCause::Unattended));
    }
}
