//! The same scenarios for the packages of every language, alone and against each other, on each kind of store.
//!
//! A scenario talks to *agents*, a process for each language (PROTOCOL.md). The agents of a store are shared by its
//! scenarios, which use locks of their own; a scenario that kills agents starts its own.

mod agent;
mod death;
mod kinds;
mod languages;
mod once;
mod order;
mod stage;
mod waiting;

/// Makes a test of each scenario on each store: `file::fifo`, `redis::fifo`, … The second list is for stores that have
/// more than mutexes.
macro_rules! scenarios {
    ([$($every:path as $every_name:ident),* $(,)?], [$($full:path as $full_name:ident),* $(,)?]) => {
        scenarios!(@store file, [$($every as $every_name),*], [$($full as $full_name),*]);
        scenarios!(@store redis, [$($every as $every_name),*], [$($full as $full_name),*]);
        scenarios!(@store postgres, [$($every as $every_name),*], [$($full as $full_name),*]);
        scenarios!(@store quorum, [$($every as $every_name),*], [
            crate::once::refused as a_store_without_once_says_so_in_every_language
        ]);
    };
    (@store $store:ident, [$($every:path as $every_name:ident),*], [$($full:path as $full_name:ident),*]) => {
        mod $store {
            $(
                #[test]
                fn $every_name() {
                    $every($crate::stage::$store());
                }
            )*
            $(
                #[test]
                fn $full_name() {
                    $full($crate::stage::$store());
                }
            )*
        }
    };
}

scenarios!(
    [
        crate::order::fifo
            as clients_of_all_languages_are_granted_a_lock_in_the_order_of_their_requests,
        crate::order::turns as turns_of_all_languages_never_overlap,
        crate::order::handles as a_held_lock_goes_from_any_language_to_any_other,
        crate::waiting::tries as a_try_of_a_held_lock_gives_nothing_in_every_language,
        crate::waiting::timeouts as a_wait_ends_after_its_time_in_every_language,
        crate::waiting::cancels as a_cancelled_wait_leaves_no_place_in_every_language,
        crate::waiting::losses as a_broken_lock_is_reported_as_lost_in_every_language,
        crate::waiting::max_hold as a_hold_ends_after_max_hold_in_every_language,
        crate::death::of_holders as the_lock_of_a_killed_process_of_any_language_passes_on,
        crate::death::of_waiters as a_killed_waiter_of_any_language_is_skipped,
        crate::death::of_closed as a_closed_client_leaves_nothing_behind_in_every_language,
        crate::kinds::views as every_language_sees_the_same_holder,
        crate::kinds::all as several_locks_are_acquired_together_in_every_language,
        crate::kinds::elections as every_language_sees_the_leader_of_any_other,
        crate::kinds::errors as errors_have_the_same_kind_in_every_language,
    ],
    [
        crate::kinds::readers as readers_of_all_languages_share_and_a_writer_waits,
        crate::kinds::permits as permits_are_shared_among_all_languages,
        crate::kinds::pools as members_of_a_pool_go_to_all_languages,
        crate::once::done as work_is_done_by_one_language_and_then_for_all,
        crate::once::undone as what_one_language_did_another_one_undoes,
        crate::once::failed as a_failed_attempt_passes_on_in_order_to_the_other_languages,
        crate::kinds::mismatches as a_lock_in_use_as_another_kind_is_refused_in_every_language,
    ]
);
