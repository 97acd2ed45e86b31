//! Clients that poll beside clients that wait: each gets its turn as long as it polls.
//!
//! The server's clock stands still, and the test moves it: otherwise a place could lapse on a slow machine.

use std::time::Duration;

use taketurns::blocking::Wait;
use taketurns_servers::{Flavor, Server, ServerClock, ServerReply, eventually, on_both};

use crate::commands::client::{Client, Grant, builder, connection_at, info, waiter};

/// How long a place lasts without a poll if the earlier polls came at once.
const PLACE_MS: u64 = 50;
/// A client that asks again after a longer time does not poll.
const INTERVAL_MS_MAX: u64 = 1_000;

const WAIT: &str = "600 WAIT 0";

/// A server whose clock stands still.
struct Still {
    server: Server,
    clock: ServerClock,
}

impl Still {
    fn start(flavor: Flavor) -> Self {
        let clock = ServerClock::stopped().expect("a clock");
        Self { server: builder(flavor, &[]).clock(&clock).start().expect("a server"), clock }
    }

    fn pass(&self, ms: u64) {
        self.clock.pass(Duration::from_millis(ms)).expect("the clock is set");
    }

    fn client(&self) -> Client {
        Client::of(&self.server)
    }

    #[track_caller]
    fn waiter(&self) -> Client {
        waiter(&self.server, "k", WAIT)
    }

    /// Starts a client that takes a place in the queue with two polls.
    #[track_caller]
    fn poller(&self) -> Client {
        self.poller_of("600")
    }

    #[track_caller]
    fn poller_of(&self, words: &str) -> Client {
        let (mut client, mut looker) = (self.client(), self.client());
        let before = looker.waiting("k");
        for places in [before, before + 1] {
            assert_eq!(client.lock(&format!("ACQUIRE k {words}")), ServerReply::Nil);
            assert_eq!(looker.waiting("k"), places);
        }
        client
    }

    /// Returns how many polling clients have a place or an offer.
    fn polling(&self) -> u64 {
        info(&self.server, "polling_clients")
    }
}

/// Polls once, and is refused.
#[track_caller]
fn in_vain(client: &mut Client) {
    assert_eq!(client.lock("ACQUIRE k 600"), ServerReply::Nil);
}

on_both! {
    fn a_client_that_polls_is_served_in_its_turn(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600");
        let mut before = still.waiter();
        // No matter how long it has waited.
        still.pass(2 * INTERVAL_MS_MAX);
        let (mut poller, mut behind) = (still.poller(), still.waiter());
        assert_eq!(connection_at(&mut holder, "k", 1), poller.id(), "shown as any that waits");
        holder.give("k", &held);
        let first = Grant::of(&before.answer());
        in_vain(&mut poller);
        before.give("k", &first);
        assert_eq!(holder.waiting("k"), 1, "it is not passed by");
        let second = poller.take("k 600");
        poller.give("k", &second);
        let third = Grant::of(&behind.answer());
        assert!(held.token < first.token && first.token < second.token);
        assert!(second.token < third.token);
        assert_eq!(still.polling(), 0);
    }

    fn a_client_that_polls_gets_its_share_beside_clients_that_wait(flavor: Flavor) {
        const TURNS: usize = 60;
        let still = Still::start(flavor);
        let mut clients = [still.client(), still.client(), still.client()];
        let ids: Vec<i64> = clients.iter_mut().map(Client::id).collect();
        let mut looker = still.client();
        let mut held = clients[0].take("k 600 WAIT 0");
        clients[1].begin("ACQUIRE k 600 WAIT 0");
        looker.until_waiting("k", 1);
        (0..2).for_each(|_| in_vain(&mut clients[2]));
        let (mut now, mut turns) = (0, [1, 0, 0]);
        for turn in 1..TURNS {
            let next = connection_at(&mut looker, "k", 0);
            looker.give("k", &held);
            // The last holder asks again at once.
            match now {
                2 => (0..2).for_each(|_| in_vain(&mut clients[2])),
                _ => clients[now].begin("ACQUIRE k 600 WAIT 0"),
            }
            looker.until_waiting("k", 2);
            now = ids.iter().position(|id| *id == next).expect("one of the three");
            held = match now {
                2 => clients[2].take("k 600"),
                _ => Grant::of(&clients[now].answer()),
            };
            turns[now] += 1;
            // Some time passes, and the polling client keeps polling.
            still.pass(PLACE_MS / 2);
            if now != 2 {
                in_vain(&mut clients[2]);
            }
            assert_eq!(turns.iter().sum::<usize>(), turn + 1);
        }
        assert_eq!(turns, [TURNS / 3; 3]);
    }

    fn a_client_that_polls_takes_turns_with_one_that_never_has_to_wait(flavor: Flavor) {
        let still = Still::start(flavor);
        let (mut waits, mut polls) = (still.client(), still.client());
        let mut held = waits.take("k 600 WAIT 0");
        for _ in 0..10 {
            (0..2).for_each(|_| in_vain(&mut polls));
            waits.give("k", &held);
            waits.begin("ACQUIRE k 600 WAIT 0");
            polls.until_waiting("k", 1);
            let turn = polls.take("k 600");
            polls.give("k", &turn);
            held = Grant::of(&waits.answer());
        }
    }

    fn a_client_that_polls_takes_turns_with_the_rust_client(flavor: Flavor) {
        let still = Still::start(flavor);
        let locks = taketurns::connect(&still.server.url()).wait().expect("a connection");
        let mutex = locks.mutex("a");
        let mut poller = still.client();
        for _ in 0..5 {
            let guard = mutex.acquire().wait().expect("the lock");
            (0..2).for_each(|_| assert_eq!(poller.lock("ACQUIRE tt:a 600"), ServerReply::Nil));
            let last = guard.check().expect("held").raw() as i64;
            guard.release().wait().expect("released");
            poller.until_held("tt:a", 1);
            let polled = poller.take("tt:a 600");
            assert!(polled.token > last, "{} after {last}", polled.token);
            poller.give("tt:a", &polled);
        }
        assert_eq!(info(&still.server, "hand_overs"), 5);
    }

    fn a_single_try_leaves_no_place(flavor: Flavor) {
        let still = Still::start(flavor);
        let (mut holder, mut tries) = (still.client(), still.client());
        let held = holder.take("k 600");
        let mut waits = still.waiter();
        for _ in 0..3 {
            in_vain(&mut tries);
            // Another lock, another ask, another lease: each of them is a different request.
            assert_eq!(tries.lock("ACQUIRE k 601"), ServerReply::Nil);
            assert_eq!(tries.lock("ACQUIRE k 600 LABEL me"), ServerReply::Nil);
            assert_eq!((holder.waiting("k"), still.polling()), (1, 0));
            still.pass(INTERVAL_MS_MAX + 1);
        }
        holder.give("k", &held);
        let held = Grant::of(&waits.answer());
        waits.give("k", &held);
        holder.take("k 600");
    }

    fn where_nobody_waits_clients_that_poll_are_as_they_were(flavor: Flavor) {
        let still = Still::start(flavor);
        let (mut one, mut other, mut third) = (still.client(), still.client(), still.client());
        let held = one.take("k 600");
        (0..5).for_each(|_| [&mut other, &mut third].into_iter().for_each(in_vain));
        assert_eq!((one.waiting("k"), still.polling()), (0, 0));
        one.give("k", &held);
        third.take("k 600");
    }

    fn a_client_that_polls_no_more_has_lost_its_place(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600");
        let (_first, mut poller, mut behind) = (still.waiter(), still.poller(), still.waiter());
        still.pass(PLACE_MS - 1);
        in_vain(&mut poller);
        still.pass(PLACE_MS);
        in_vain(&mut poller);
        assert_eq!(holder.waiting("k"), 3, "each poll keeps it");
        // The place lasts for three times the longest interval.
        still.pass(3 * PLACE_MS);
        holder.until_waiting("k", 2);
        eventually("nothing is kept of it", || (still.polling() == 0).then_some(())).expect("none");
        let released = holder.multi(&[
            format!("FENCELOCK.RELEASE k {}", held.secret),
            "FENCELOCK.BREAK k NOW".to_owned(),
        ]);
        assert_eq!(released[1], ServerReply::Int(1));
        Grant::of(&behind.answer());
    }

    fn a_client_that_ignores_its_offer_delays_the_next_by_one_waiter_lease(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600 WAIT 0");
        let (mut poller, mut behind) = (still.poller(), still.waiter());
        still.pass(PLACE_MS - 1);
        holder.give("k", &held);
        let offered = holder.of_holder("k", "left_ms");
        assert_eq!(offered, PLACE_MS as i64, "for as long as a place, and not for its lease");
        still.pass(PLACE_MS + 1);
        let next = Grant::of(&behind.answer());
        in_vain(&mut poller);
        behind.give("k", &next);
        let polled = poller.take("k 600");
        assert!(polled.token > next.token);
    }

    fn a_connection_that_closes_leaves_no_place_and_no_offer(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600 WAIT 0");
        let (poller, mut behind) = (still.poller(), still.waiter());
        assert_eq!(still.polling(), 1);
        drop(poller);
        holder.until_waiting("k", 1);
        assert_eq!(still.polling(), 0);
        let poller = still.poller();
        holder.give("k", &held);
        let held = Grant::of(&behind.answer());
        let mut last = still.waiter();
        holder.give("k", &held);
        assert_eq!((holder.waiting("k"), still.polling()), (1, 1), "offered");
        drop(poller);
        // No time passes.
        let held = Grant::of(&last.answer());
        let poller = still.poller();
        holder.give("k", &held);
        holder.until_held("k", 1);
        drop(poller);
        holder.until_held("k", 0);
        assert_eq!(still.polling(), 0);
        holder.take("k 600");
    }

    fn in_a_script_or_a_transaction_nobody_polls(flavor: Flavor) {
        let still = Still::start(flavor);
        let (mut holder, mut client) = (still.client(), still.client());
        let held = holder.take("k 600");
        let mut waits = still.waiter();
        let script = "return redis.call('FENCELOCK.ACQUIRE', KEYS[1], 600)";
        let transaction = ["FENCELOCK.ACQUIRE k 600", "FENCELOCK.ACQUIRE k 600 WAIT 0"];
        let transaction = transaction.map(str::to_owned);
        for _ in 0..3 {
            assert_eq!(client.words(&["EVAL", script, "1", "k"]), ServerReply::Nil);
            assert_eq!(client.multi(&transaction), [ServerReply::Nil, ServerReply::Nil]);
        }
        assert_eq!((holder.waiting("k"), still.polling()), (1, 0));
        in_vain(&mut client);
        assert_eq!(holder.waiting("k"), 1, "nothing was noted of them");
        // Nor are they polls of a connection that has a place.
        in_vain(&mut client);
        assert_eq!(holder.waiting("k"), 2);
        holder.give("k", &held);
        let held = Grant::of(&waits.answer());
        holder.give("k", &held);
        assert_eq!(client.words(&["EVAL", script, "1", "k"]), ServerReply::Nil);
        assert_eq!(client.multi(&transaction[..1]), [ServerReply::Nil]);
        client.take("k 600");
    }

    fn the_secret_of_an_offer_releases_that_grant_and_no_other(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600 WAIT 0");
        let (mut poller, mut behind) = (still.poller(), still.waiter());
        holder.give("k", &held);
        let offered = holder.of_holder("k", "token");
        still.pass(PLACE_MS - 1);
        let polled = poller.take("k 600");
        assert_eq!(polled.token, offered);
        assert_eq!(holder.of_holder("k", "left_ms"), 600_000, "from now on");
        still.pass(10 * INTERVAL_MS_MAX);
        assert!(holder.renew("k", &polled).is_ok());
        assert_eq!(holder.lock(&format!("RELEASE k {}", held.secret)), ServerReply::Nil);
        assert_eq!(holder.of_holder("k", "token"), offered);
        holder.give("k", &polled);
        let next = Grant::of(&behind.answer());
        assert_eq!(holder.lock(&format!("RELEASE k {}", polled.secret)), ServerReply::Nil);
        assert_eq!(holder.of_holder("k", "token"), next.token);
    }

    fn a_poll_in_the_moment_in_which_a_lease_ends_has_the_lock(flavor: Flavor) {
        const LEASE_MS: u64 = 30;
        for _ in 0..5 {
            let still = Still::start(flavor);
            let mut holder = still.client();
            holder.take(&format!("k {LEASE_MS} MS WAIT 0"));
            let mut poller = still.poller();
            // Usually the poll arrives before the server has noticed.
            still.pass(LEASE_MS);
            let polled = poller.take("k 600");
            assert_eq!(holder.of_holder("k", "token"), polled.token);
            assert_eq!(holder.of_holder("k", "left_ms"), 600_000);
            holder.give("k", &polled);
        }
    }

    fn an_offer_that_is_broken_passes_on(flavor: Flavor) {
        for at_once in ["", " NOW"] {
            let still = Still::start(flavor);
            let mut holder = still.client();
            let held = holder.take("k 600 WAIT 0");
            let (mut poller, mut behind) = (still.poller(), still.waiter());
            holder.give("k", &held);
            assert_eq!(holder.lock(&format!("BREAK k{at_once}")), ServerReply::Int(1));
            let next = Grant::of(&behind.answer());
            in_vain(&mut poller);
            assert_eq!(holder.of_holder("k", "token"), next.token);
        }
    }

    fn what_is_polled_for_may_be_bound_to_its_connection(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600 WAIT 0");
        let (mut poller, mut behind) = (still.poller_of("600 BOUND"), still.waiter());
        holder.give("k", &held);
        poller.take("k 600 BOUND");
        assert_eq!((info(&still.server, "bound_locks"), still.polling()), (1, 0));
        drop(poller);
        Grant::of(&behind.answer());
        assert_eq!(info(&still.server, "bound_locks"), 0);
    }

    fn a_member_of_a_pool_and_a_share_are_polled_for_as_well(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        holder.lock("POOL ADD k m");
        let held = holder.take("k 600 ANY WAIT 0");
        let mut poller = still.poller_of("600 MEMBER m");
        holder.give("k", &held);
        assert_eq!(poller.take("k 600 MEMBER m").member.as_deref(), Some("m"));
        holder.say("DEL k");
        let held = holder.take("k 600 EXCLUSIVE WAIT 0");
        let (mut one, mut other) = (still.poller_of("600 SHARED"), still.poller_of("600 SHARED"));
        holder.give("k", &held);
        let grants = [one.take("k 600 SHARED"), other.take("k 600 SHARED")];
        assert_eq!(holder.holders("k").len(), 2);
        grants.iter().for_each(|grant| holder.give("k", grant));
    }

    fn a_lock_that_is_deleted_or_renamed_is_polled_for_anew(flavor: Flavor) {
        for end in ["DEL k", "RENAME k l", "FLUSHALL"] {
            let still = Still::start(flavor);
            let mut holder = still.client();
            holder.take("k 600 WAIT 0");
            let mut poller = still.poller();
            holder.say(end);
            let polled = poller.take("k 600");
            poller.give("k", &polled);
            still.pass(PLACE_MS);
            holder.until_waiting("l", 0);
        }
    }

    fn when_the_clock_is_set_back_who_polls_begins_anew(flavor: Flavor) {
        let still = Still::start(flavor);
        let mut holder = still.client();
        let held = holder.take("k 600");
        let (mut waits, mut poller) = (still.waiter(), still.poller());
        still.clock.set(-3_600).expect("the clock is set");
        holder.until_waiting("k", 1);
        assert_eq!(still.polling(), 0);
        (0..2).for_each(|_| in_vain(&mut poller));
        assert_eq!(holder.waiting("k"), 2);
        holder.give("k", &held);
        let held = Grant::of(&waits.answer());
        waits.give("k", &held);
        poller.take("k 600");
    }

    fn what_polls_are_told_is_counted_as_of_tries(flavor: Flavor) {
        let still = Still::start(flavor);
        let (mut holder, mut poller) = (still.client(), still.client());
        let count = |name| info(&still.server, name);
        let held = holder.take("k 600 WAIT 0");
        (0..10).for_each(|_| in_vain(&mut poller));
        assert_eq!((count("busy"), count("queued")), (10, 0));
        holder.give("k", &held);
        assert_eq!((count("grants"), count("hand_overs")), (1, 1));
        poller.take("k 600");
        assert_eq!((count("grants"), count("hand_overs"), count("renewals")), (1, 1, 0));
    }
}
