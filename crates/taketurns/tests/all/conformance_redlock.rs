//! The conformance suite on a Redlock, as far as it can hold: nobody but its own client sees who waits, so
//! nothing that counts those first.

use std::time::Duration;

use taketurns::engine::{Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Locks};
use taketurns_conformance::Fixture;
use taketurns_servers::{Flavor, Server};

/// A Redlock that this fixture has for itself, of two kinds of servers.
struct Redlock {
    url: String,
    _servers: [Server; 3],
}

impl Redlock {
    fn start() -> Self {
        let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
        let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
        let url = |server: &Server| format!("{}?protocol=plain&unfenced=ok", server.url());
        let nodes: Vec<_> = servers.iter().map(url).collect();
        Self { url: format!("quorum:{}", nodes.join(",")), _servers: servers }
    }
}

impl Fixture for Redlock {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        let opened = taketurns::engine::open(&self.url, client, wakes);
        Box::pin(async move { opened.await.expect("a Redlock") })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn can_skip_hours(&self) -> bool {
        false
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        Box::pin(async move { taketurns::connect(&self.url).await.expect("a Redlock") })
    }
}

taketurns_conformance::tests_of! { Redlock::start(), client:
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
