//! On a store in memory, where nothing happens but what a test does.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use taketurns::{ErrorKind, Keep, Locks};
use tokio::runtime::Handle;

use super::poll_once;
use super::recorded::{RecordedMetrics, record};
use crate::support::patience::soon;

async fn store(runtime: Handle) -> Locks {
    taketurns::connect_on("memory:", runtime).await.expect("a store")
}

fn counts<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected.into_iter().map(|(labels, count)| (labels.to_owned(), count)).collect()
}

/// Nobody holds and nobody waits.
async fn at_rest(recorded: &mut RecordedMetrics) {
    let rests = |recorded: &mut RecordedMetrics| {
        recorded.gauge("taketurns_held") == 0.0 && recorded.gauge("taketurns_waiting") == 0.0
    };
    recorded.until("nobody holds and nobody waits", rests).await;
}

#[test]
fn a_lock_that_is_taken_and_given_back_is_counted_once() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let acquiring = locks.mutex("l").acquire().into_future();
        assert_eq!(recorded.gauge("taketurns_waiting"), 0.0, "nothing happens before it is polled");
        let guard = acquiring.await.expect("free");
        assert_eq!(recorded.gauge("taketurns_held"), 1.0);
        assert_eq!(recorded.gauge("taketurns_waiting"), 0.0);
        guard.release().await.expect("held");
        assert_eq!(recorded.gauge("taketurns_held"), 0.0);
        let waited = recorded.counts("taketurns_acquire_wait_seconds");
        assert_eq!(waited, counts([("{outcome=granted,kind=mutex}", 1)]));
        assert_eq!(recorded.counts("taketurns_hold_seconds"), counts([("{outcome=released}", 1)]));
        assert_eq!(
            recorded.counts("taketurns_store_call_seconds"),
            counts([
                ("{request=acquire,outcome=answered}", 1),
                ("{request=release,outcome=answered}", 1)
            ])
        );
        for silent in ["taketurns_wakeups_total", "taketurns_queue_depth", "taketurns_losses_total"]
        {
            assert_eq!(recorded.counts(silent), counts([]), "{silent}");
        }
        recorded.all_are_described();
    });
}

#[test]
fn every_kind_and_every_outcome_has_its_series() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let mutex = locks.mutex("m").acquire().await.expect("free");
        let reader = locks.rwlock("rw").read().await.expect("free");
        let permit = locks.semaphore("s", 2).acquire().await.expect("free");
        locks.pool("p").add("one").await.expect("added");
        let member = locks.pool("p").any().await.expect("free");
        assert_eq!(recorded.gauge("taketurns_held"), 4.0);
        assert!(locks.mutex("m").try_acquire().await.expect("an answer").is_none());
        let short = Duration::from_millis(300);
        let late = locks.rwlock("rw").write().within(short).await.expect_err("it is read");
        assert_eq!(late.kind(), ErrorKind::Timeout);
        let wrong = locks.rwlock("m").read().await.expect_err("it is a mutex");
        assert_eq!(wrong.kind(), ErrorKind::KindMismatch);
        poll_once(locks.pool("p").any().into_future());
        let waited = recorded.counts("taketurns_acquire_wait_seconds");
        let expected = counts([
            ("{outcome=busy,kind=mutex}", 1),
            ("{outcome=cancelled,kind=pool}", 1),
            ("{outcome=granted,kind=mutex}", 1),
            ("{outcome=granted,kind=pool}", 1),
            ("{outcome=granted,kind=rwlock}", 1),
            ("{outcome=granted,kind=semaphore}", 1),
            ("{outcome=refused,kind=rwlock}", 1),
            ("{outcome=timeout,kind=rwlock}", 1),
        ]);
        assert_eq!(waited, expected);
        let timeout = "taketurns_acquire_wait_seconds{outcome=timeout,kind=rwlock}";
        assert!(recorded.histogram(timeout)[0] >= 0.3, "seconds, and no less than it waited");
        drop((mutex, reader, permit, member));
        at_rest(&mut recorded).await;
        assert_eq!(recorded.counts("taketurns_hold_seconds"), counts([("{outcome=dropped}", 4)]));
    });
}

/// As the recorded wait does, which else could be shorter than the limit.
#[test]
fn the_limit_of_a_wait_counts_from_its_first_poll() {
    record(|runtime, _| async move {
        let locks = store(runtime).await;
        let _held = locks.mutex("l").acquire().await.expect("free");
        let limit = Duration::from_millis(10);
        let mut waiting = pin!(locks.mutex("l").acquire().within(limit).into_future());
        std::thread::sleep(2 * limit);
        let first = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending(), "it has only begun: {first:?}");
    });
}

#[test]
fn a_waiter_is_counted_with_its_place_and_its_wake_up() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let holder = locks.mutex("l").acquire().await.expect("free");
        let mut next = Box::pin(locks.mutex("l").acquire().into_future());
        let mut last = Box::pin(locks.mutex("l").acquire().into_future());
        poll_once(next.as_mut());
        poll_once(last.as_mut());
        assert_eq!(recorded.gauge("taketurns_waiting"), 2.0);
        assert_eq!(recorded.histogram("taketurns_queue_depth"), [1.0, 2.0]);
        holder.release().await.expect("held");
        let next = soon("the next", next).await.expect("its turn");
        assert_eq!(recorded.counter("taketurns_wakeups_total"), 1);
        assert_eq!(recorded.histogram("taketurns_wakeup_delay_seconds").len(), 1);
        drop(last);
        next.release().await.expect("held");
        at_rest(&mut recorded).await;
        assert_eq!(recorded.counter("taketurns_wakeups_total"), 1, "nobody waited any more");
    });
}

#[test]
fn a_lost_lock_is_not_held_while_its_guard_lives() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let broken = locks.mutex("l").acquire().await.expect("free");
        assert_eq!(locks.break_lock("l").await.expect("an answer"), 1);
        soon("it is told", broken.lost()).await;
        assert_eq!(recorded.gauge("taketurns_held"), 0.0);
        let max_hold = Duration::from_millis(10);
        let hung = locks.mutex("h").acquire().max_hold(max_hold).await.expect("free");
        soon("its end", hung.lost()).await;
        drop((broken, hung));
        at_rest(&mut recorded).await;
        let losses = counts([("{cause=max_hold}", 1), ("{cause=revoked}", 1)]);
        assert_eq!(recorded.counts("taketurns_losses_total"), losses);
        assert_eq!(recorded.counts("taketurns_hold_seconds"), counts([("{outcome=lost}", 2)]));
        let call = "taketurns_store_call_seconds{request=break,outcome=answered}";
        assert_eq!(recorded.histogram(call).len(), 1);
    });
}

#[test]
fn renewals_are_counted_for_as_long_as_it_is_held() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let lease = Duration::from_secs(3);
        let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
        let renewed = "taketurns_renewals_total{outcome=renewed}";
        recorded.until("a renewal", |recorded| recorded.counter(renewed) >= 1).await;
        guard.release().await.expect("held");
        let all = recorded.counts("taketurns_renewals_total");
        assert_eq!(all.len(), 1, "none failed: {all:?}");
        let calls = "taketurns_store_call_seconds{request=renew,outcome=answered}";
        assert_eq!(recorded.histogram(calls).len() as u64, recorded.counter(renewed));
    });
}

#[test]
fn a_lock_that_is_carried_to_another_is_held_by_that_one() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let handle = locks.mutex("l").acquire().await.expect("free").into_handle().await;
        assert_eq!(recorded.gauge("taketurns_held"), 0.0);
        let guard = locks.adopt(handle.expect("a handle")).await.expect("in time");
        assert_eq!(recorded.gauge("taketurns_held"), 1.0);
        guard.release().await.expect("held");
        let held = counts([("{outcome=carried}", 1), ("{outcome=released}", 1)]);
        assert_eq!(recorded.counts("taketurns_hold_seconds"), held);
        let renewed = "taketurns_renewals_total{outcome=renewed}";
        assert_eq!(recorded.counter(renewed), 2, "one to carry it, and one to adopt it");
        at_rest(&mut recorded).await;
    });
}

#[test]
fn each_local_turn_is_held_and_waited_for_by_itself() {
    const TURNS: u32 = 20;
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let turn = || async {
            let guard = locks.mutex("l").acquire().keep(Keep::Turns(TURNS)).await.expect("a turn");
            tokio::task::yield_now().await;
            guard.release().await.expect("held");
        };
        let mut turns: Vec<_> = (0..TURNS).map(|_| Box::pin(turn())).collect();
        turns.iter_mut().skip(1).for_each(|turn| poll_once(turn.as_mut()));
        assert_eq!(recorded.gauge("taketurns_waiting"), f64::from(TURNS - 2));
        assert_eq!(recorded.gauge("taketurns_held"), 1.0);
        for turn in turns.into_iter().skip(1) {
            soon("a turn", turn).await;
        }
        at_rest(&mut recorded).await;
        let ended = counts([("{outcome=released}", u64::from(TURNS - 1))]);
        assert_eq!(recorded.counts("taketurns_hold_seconds"), ended);
        let granted = counts([("{outcome=granted,kind=mutex}", u64::from(TURNS - 1))]);
        assert_eq!(recorded.counts("taketurns_acquire_wait_seconds"), granted);
        let calls = "taketurns_store_call_seconds{request=acquire,outcome=answered}";
        assert_eq!(recorded.histogram(calls).len(), 1, "the store was asked once");
    });
}

#[test]
fn a_place_that_is_kept_alive_is_counted_once() {
    record(|runtime, mut recorded| async move {
        let locks = store(runtime).await;
        let guard = locks.mutex("l").acquire().await.expect("free");
        let mut waits = Box::pin(locks.mutex("l").acquire().into_future());
        poll_once(waits.as_mut());
        let refreshed = "taketurns_store_call_seconds{request=refresh,outcome=answered}";
        recorded.until("a refresh", |recorded| !recorded.histogram(refreshed).is_empty()).await;
        assert_eq!(recorded.histogram("taketurns_queue_depth"), [1.0]);
        guard.release().await.expect("held");
        drop(soon("its turn", waits).await.expect("its turn"));
    });
}
