//! A store whose clock is set: leases end before their holders could know.

use std::time::Duration;

use std::sync::Arc;

use taketurns::engine::{Clock, ManualClock, MemoryStore};
use taketurns::{Connect, LossCause};

use super::faulty::Faults;
use super::{connect_for, has_waiters, soon};

const LEASE: Duration = Duration::from_secs(3_600);

/// The lease itself is long enough for the jump, and yet: another's may not have been.
#[tokio::test]
async fn a_clock_set_forward_loses_what_is_held_there() {
    let manual = ManualClock::default();
    let store = MemoryStore::new(Clock::Manual(manual.clone()));
    let locks = Connect::engine(store.clone()).open().await.expect("memory");
    let elsewhere = Connect::engine(MemoryStore::default()).open().await.expect("memory");
    let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
    let spared = elsewhere.mutex("l").acquire().lease(LEASE).await.expect("free");
    manual.advance(Duration::from_secs(60));
    // Any answer shows it.
    locks.mutex("other").try_acquire().await.expect("memory answers");
    assert_eq!(soon("it is told", guard.lost()).await, LossCause::ClockSet);
    assert!(guard.check().is_err() && spared.is_held());
    let next = locks.mutex("l").acquire();
    drop(soon("it was given back", next).await.expect("free"));
}

/// Nobody's lease ends early by that.
#[tokio::test]
async fn a_clock_set_back_loses_nothing() {
    let manual = ManualClock::default();
    manual.advance(Duration::from_secs(600));
    let store = MemoryStore::new(Clock::Manual(manual.clone()));
    let locks = Connect::engine(store).open().await.expect("memory");
    let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
    manual.set_back(Duration::from_secs(60));
    locks.mutex("other").try_acquire().await.expect("memory answers");
    assert!(guard.is_held());
    guard.release().await.expect("held");
}

/// The wake-up says until when on the clock as it was, and what was heard since says what time it is on
/// the clock as it is now.
#[tokio::test]
async fn a_wake_up_under_way_while_the_clock_was_set_back_lasts_no_longer() {
    let waiter_lease = Duration::from_secs(30);
    let manual = ManualClock::default();
    manual.advance(Duration::from_secs(600));
    let store = MemoryStore::new(Clock::Manual(manual.clone()));
    let faults = Arc::new(Faults::default());
    let (one, two) = (
        connect_for(waiter_lease, &store, &Arc::default()).await,
        connect_for(waiter_lease, &store, &faults).await,
    );
    let guard = one.mutex("l").acquire().lease(LEASE).await.expect("free");
    let waits = tokio::spawn(two.mutex("l").acquire().lease(LEASE).into_future());
    has_waiters(&one, 1).await;
    faults.hold_up_wakes(true);
    guard.release().await.expect("held");
    manual.set_back(Duration::from_secs(60));
    two.mutex("other").try_acquire().await.expect("memory answers");
    faults.hold_up_wakes(false);
    faults.deliver_wakes();
    let guard = soon("it is handed over", waits).await.expect("no panic").expect("a turn");
    assert!(guard.left() <= waiter_lease, "{:?} are left of {waiter_lease:?}", guard.left());
}
