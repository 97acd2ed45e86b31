//! The suite that every engine must pass: one public function per behaviour.
//!
//! [`engine`] tests the engine itself, request by request, and moves its clock by hand if possible. [`client`] uses the
//! store as users do, with guards, futures and real time.
//!
//! To run the suite for your own engine, say how to open it with a [`Fixture`], and let the macro make a test of each
//! behaviour:
//!
//! ```text
//! taketurns_conformance::tests!(MyFixture::new());
//! ```
//!
//! Every behaviour gets its own fixture and may use any name in it.
//!
//! [`hooks`] is for other tests: they can see and change what passes between a client and its engine.

pub mod client;
pub mod engine;
mod engine_client;
pub mod hooks;

/// The behaviours of [`client`] that concern other locks than mutexes, or several tokens at a time: not every store has
/// those.
pub mod kinds {
    pub use crate::client::{
        a_kept_lock_goes_to_others_after_the_turn_under_way, a_kept_lock_is_had_again_at_once,
        a_kept_lock_that_is_broken_is_asked_for_anew, a_kept_lock_that_nobody_uses_is_given_back,
        a_listing_of_several_pages_is_whole, a_local_turn_that_is_adopted_keeps_its_token,
        a_local_turn_that_nobody_wants_any_more_is_passed_on,
        a_lock_lost_during_a_local_turn_is_asked_for_anew, a_lock_that_was_released_stays_taken,
        a_pool_of_three_serves_ten_takers, a_request_on_other_terms_ends_the_keep,
        a_semaphore_never_gives_more_than_it_has, a_waiting_writer_is_not_starved_by_readers,
        an_attempt_under_way_keeps_others_from_the_work, closing_gives_back_what_is_kept,
        local_turns_are_had_in_order_with_tokens_that_increase, local_turns_have_limits,
        of_many_clients_one_does_the_work, others_have_their_turn_after_the_local_ones,
        tokens_of_local_turns_that_nobody_had_go_back, what_can_not_be_kept_is_refused,
        what_no_once_remembers_is_refused, who_would_not_wait_gets_a_lock_that_is_only_kept,
        work_that_failed_is_tried_by_the_next, work_that_failed_too_often_is_not_tried_again,
    };
}

/// The behaviours of [`client`] that need a queue in the store: not every store has one.
pub mod queue {
    pub use crate::client::{
        a_handle_made_after_a_hand_over_has_a_full_lease, a_released_lock_goes_to_the_next_client,
        a_revoked_guard_is_lost_before_the_next_one_holds,
        all_is_not_had_if_one_was_lost_meanwhile, tasks_of_one_client_take_turns_in_order,
    };
}

use std::time::Duration;

use taketurns::engine::{Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Locks};

/// The timeout for events: a longer wait means that the test hangs. It is no statement about speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How the suite opens a store and lets time pass in it.
pub trait Fixture: Send + Sync + 'static {
    /// Opens the store for one more client. Its clock is the one that [`Fixture::pass`] moves.
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>>;

    /// Lets the engine's time pass: at once if its clock can be moved, else by sleeping.
    fn pass(&self, time: Duration) -> EngineFuture<'_, ()>;

    /// Can an hour pass in a test?
    fn can_skip_hours(&self) -> bool;

    /// Connects one more client, with a clock that runs by itself, to a store that all clients of
    /// this fixture share.
    fn connect(&self) -> EngineFuture<'_, Locks>;

    /// Connects to all stores that must know a waiter before it has its place in the order: the nodes of a quorum. By
    /// default the only store.
    fn stores(&self) -> EngineFuture<'_, Vec<Locks>> {
        Box::pin(async move { vec![self.connect().await] })
    }
}

/// Makes a test of each behaviour. The argument is an expression that creates a [`Fixture`].
#[macro_export]
macro_rules! tests {
    ($fixture:expr) => {
        $crate::engine_tests!($fixture);
        $crate::client_tests!($fixture);
    };
}

/// Makes the functions of a module tests, each with its own fixture.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of {
    ($fixture:expr, $module:ident: $($behaviour:ident)*) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $behaviour() {
                    $crate::run(async { $crate::$module::$behaviour(&$fixture).await });
                }
            )*
        }
    };
}

/// Runs one behaviour on its own runtime.
#[doc(hidden)]
pub fn run(behaviour: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(behaviour);
}
