//! What users of a store see, with guards, futures and real time.
//!
//! No behaviour depends on the speed of the machine: every wait has one generous timeout, which only a test that hangs
//! reaches.

mod holding;
mod keeping;
mod leaving;
mod once;
mod sharing;
mod turns;

use std::time::Duration;

use taketurns::{Error, Guard, Locks, Token};

use crate::PATIENCE;

pub use holding::*;
pub use keeping::*;
pub use leaving::*;
pub use once::*;
pub use sharing::*;
pub use turns::*;

/// Makes a test of each behaviour of a store's client.
#[macro_export]
macro_rules! client_tests {
    ($fixture:expr) => {
        $crate::mutex_tests!($fixture);
        $crate::tests_of! { $fixture, kinds:
            a_waiting_writer_is_not_starved_by_readers
            a_semaphore_never_gives_more_than_it_has
            a_pool_of_three_serves_ten_takers
            a_listing_of_several_pages_is_whole
            local_turns_are_had_in_order_with_tokens_that_increase
            others_have_their_turn_after_the_local_ones
            a_local_turn_that_is_adopted_keeps_its_token
            a_local_turn_that_nobody_wants_any_more_is_passed_on
            a_lock_lost_during_a_local_turn_is_asked_for_anew
            local_turns_have_limits
            tokens_of_local_turns_that_nobody_had_go_back
            a_kept_lock_is_had_again_at_once
            a_kept_lock_goes_to_others_after_the_turn_under_way
            who_would_not_wait_gets_a_lock_that_is_only_kept
            a_request_on_other_terms_ends_the_keep
            a_kept_lock_that_nobody_uses_is_given_back
            closing_gives_back_what_is_kept
            a_kept_lock_that_is_broken_is_asked_for_anew
            what_can_not_be_kept_is_refused
            of_many_clients_one_does_the_work
            work_that_failed_is_tried_by_the_next
            work_that_failed_too_often_is_not_tried_again
            an_attempt_under_way_keeps_others_from_the_work
            what_no_once_remembers_is_refused
            a_lock_that_was_released_stays_taken
        }
    };
}

/// Makes a test of each behaviour that concerns only mutexes: for a store without other kinds of locks.
#[macro_export]
macro_rules! mutex_tests {
    ($fixture:expr) => {
        $crate::unqueued_mutex_tests!($fixture);
        $crate::tests_of! { $fixture, queue:
            a_released_lock_goes_to_the_next_client
            tasks_of_one_client_take_turns_in_order
            a_revoked_guard_is_lost_before_the_next_one_holds
            a_handle_made_after_a_hand_over_has_a_full_lease
            all_is_not_had_if_one_was_lost_meanwhile
        }
    };
}

/// Makes a test of each behaviour that needs no queue: for a store whose clients retry instead of queueing.
#[macro_export]
macro_rules! unqueued_mutex_tests {
    ($fixture:expr) => {
        $crate::tests_of! { $fixture, client:
            a_guard_renews_itself
            a_guard_is_relied_on_for_less_than_its_lease
            a_broken_lock_is_lost_and_its_holder_is_told
            max_hold_ends_renewal
            a_lock_held_for_its_max_hold_is_released
            work_under_a_lost_lock_is_stopped
            work_that_outlasts_its_lock_was_not_done_under_it
            work_under_a_lock_gives_its_result_and_releases
            a_handle_travels_to_another_client
            a_handle_keeps_its_token_and_its_lease
            a_released_handle_is_worth_nothing
            a_blocked_runtime_keeps_its_locks
            the_blocking_api_works_inside_async_code
            labels_are_seen_by_others
            names_and_leases_are_checked_before_anything_is_sent
            a_dropped_guard_is_released
            a_guard_dropped_outside_a_runtime_is_released
            a_release_goes_on_when_its_future_is_dropped
            an_acquire_dropped_at_any_point_leaves_nothing
            an_acquire_that_times_out_leaves_nothing
            a_try_on_a_held_lock_leaves_nothing
            closing_waits_for_releases
            closing_waits_for_acquires_that_were_dropped
            all_of_several_locks_without_deadlock
            all_gives_up_everything_when_one_times_out
            all_has_one_time_to_wait_for_all
            all_say_why_they_are_wanted
            losing_one_of_all_is_losing_all
            counting_under_the_lock_counts_right
        }
    };
}

async fn soon<T>(what: &str, future: impl IntoFuture<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future.into_future()).await {
        Ok(output) => output,
        Err(_) => panic!("this hangs: {what}"),
    }
}

/// Returns the token of a guard that must be held. `None` only for a store without tokens, which says so.
fn token_of(locks: &Locks, guard: &Guard) -> Option<Token> {
    assert!(guard.is_held());
    match guard.check() {
        Err(Error::Unfenced { .. }) if !locks.guarantees().fenced => None,
        token => Some(token.expect("held")),
    }
}

/// Waits until nobody holds the lock or waits for it: releases run in the background.
async fn is_left_alone(locks: &Locks, lock: &str) {
    soon("nothing is left behind", async {
        loop {
            let view = locks.inspect(lock).await.expect("the store answers");
            match view {
                Some(view) if !view.holders.is_empty() || view.waiting > 0 => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                _ => return,
            }
        }
    })
    .await;
}

/// Waits until the lease of the lock's holder has been extended.
async fn is_renewed(locks: &Locks, lock: &str) {
    soon("the lock is renewed", async {
        let mut least = Duration::MAX;
        loop {
            let view = locks.inspect(lock).await.expect("the store answers").expect("it is held");
            let left = view.holders.first().expect("it is held").left;
            if left > least {
                return;
            }
            least = left;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits until every store has a holder or waiter with this label.
async fn is_known(stores: &[Locks], lock: &str, why: &str) {
    for store in stores {
        soon("it is known", async {
            loop {
                let view =
                    store.inspect(lock).await.expect("the store answers").unwrap_or_default();
                let holders = view.holders.iter().map(|holder| &holder.label);
                let mut labels = holders.chain(view.waiters.iter().map(|waiter| &waiter.label));
                if labels.any(|label| label.why() == why) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

/// Waits until the lock has this number of waiters.
async fn has_waiters(locks: &Locks, lock: &str, waiting: usize) {
    soon("the waiters queue up", async {
        loop {
            let view = locks.inspect(lock).await.expect("the store answers");
            if view.is_some_and(|view| view.waiting == waiting) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
