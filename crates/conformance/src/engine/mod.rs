//! What the engine itself must do, request by request.

mod ballots;
mod keeping;
mod kinds;
mod leases;
mod once;
mod order;
mod pools;
mod repeats;
mod seeing;

pub use ballots::*;
pub use keeping::*;
pub use kinds::*;
pub use leases::*;
pub use once::*;
pub use order::*;
pub use pools::*;
pub use repeats::*;
pub use seeing::*;

/// Makes a test of each behaviour of an engine.
#[macro_export]
macro_rules! engine_tests {
    ($fixture:expr) => {
        $crate::tests_of! { $fixture, engine:
            one_holds_and_the_others_wait_in_the_order_they_came
            a_release_wakes_the_next_and_nobody_else
            a_waiter_who_leaves_is_passed_over
            who_would_not_wait_is_told_busy_and_leaves_no_place
            a_newcomer_does_not_overtake_a_waiter
            a_dead_waiter_is_skipped_after_one_waiter_lease
            many_dead_waiters_cost_one_waiter_lease_together
            one_refresh_keeps_all_places_of_a_client_alive
            a_client_known_to_be_dead_loses_its_places_at_once
            a_hand_over_lasts_a_waiter_lease_until_it_is_renewed
            a_refresh_finds_a_hand_over_whose_wake_up_was_lost
            a_lease_that_ran_out_is_gone_for_good
            a_dead_holders_lock_passes_on_when_its_lease_ends
            a_renewal_moves_the_deadline
            tokens_increase_with_every_grant
            tokens_reserved_with_a_grant_are_nobody_elses
            reserved_tokens_that_were_not_used_go_back_with_the_release
            reserved_tokens_do_not_run_ahead_of_the_clock
            leases_outside_the_limits_are_refused
            who_keeps_a_lock_is_told_when_somebody_wants_it
            a_grant_says_that_others_want_the_lock
            who_would_not_wait_is_told_that_the_lock_is_kept
            a_break_matches_each_token_of_a_grant
            an_idle_lock_is_forgotten_after_its_retention
            a_lock_used_again_is_remembered_for_longer
            a_revoked_holder_keeps_the_lock_until_its_deadline_and_no_longer
            a_lock_broken_at_once_passes_on_at_once
            breaking_by_token_spares_the_other_holders
            an_acquire_sent_twice_gives_the_same_grant
            an_acquire_sent_twice_gives_the_same_place
            an_acquire_that_comes_too_late_changes_nothing
            a_cancelled_owner_does_not_come_back
            a_wrong_owner_can_neither_renew_nor_release
            several_calls_at_once_are_answered_in_order
            readers_share_and_a_waiting_writer_stops_later_readers
            readers_behind_a_writer_are_granted_together
            a_crowd_of_readers_is_granted_in_bounded_steps
            permits_add_up_to_what_the_semaphore_has
            a_large_request_at_the_head_holds_up_those_behind
            a_semaphore_can_be_resized_in_use
            permits_that_no_semaphore_can_give_are_refused
            the_kind_is_fixed_while_the_lock_is_in_use
            an_idle_lock_may_take_another_kind_and_keeps_its_token
            any_takes_the_member_free_for_longest
            two_never_have_the_same_member
            a_waiter_for_a_busy_member_does_not_hold_up_others
            takers_of_any_are_served_in_order
            a_wait_for_a_member_ends_when_it_is_added
            a_held_member_that_is_removed_goes_at_its_release
            members_stay_until_they_are_removed
            everybody_is_told_who_did_the_work
            done_is_recorded_once_however_often_it_is_sent
            an_attempt_that_failed_is_counted_and_followed_by_a_pause
            an_attempt_counts_if_its_worker_knew_of_it
            what_is_done_is_forgotten_when_its_time_is_over
            work_that_is_undone_is_to_be_done_again
            a_once_is_no_other_lock
            a_lock_stays_taken_for_at_least_so_long
            a_ballots_token_is_its_hint_or_the_next
            a_token_that_is_written_back_leaves_the_number_of_the_grant
            a_write_back_to_another_grant_changes_nothing
            tickets_are_served_in_their_order_and_equal_ones_by_owner
            a_settled_ticket_is_taken_as_it_is
            a_lower_ticket_inquires_about_the_vote
            a_vote_given_up_goes_to_the_lower_ticket
            looking_shows_who_holds_and_who_waits
            looking_changes_nothing
            a_listing_is_sorted_filtered_and_paged
            an_unknown_lock_is_shown_as_none
        }
    };
}
