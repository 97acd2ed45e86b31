use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use taketurns_core::session::{
    AcquireAction, AcquireSpec, Anchor, Hold, HoldTerms, LossCause, Origin, WaitLimit, WakerSwap,
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
    let grant = Grant {
        token: None,
        tokens: 1,
        wanted: false,
        deadline_ms: 30_000,
        member: None,
        vote: None,
    };
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
        at_least_ms: 0,
        label: Label::default(),
        wait_limit: WaitLimit::Endless,
    };
    let mut spare = WakerSwap::new(waker);
    let next = shell.drive(|session, now_us| {
        session.begin_acquire(now_us, wanted);
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
