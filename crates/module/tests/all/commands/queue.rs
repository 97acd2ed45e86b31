//! Waiting: in order, with a timeout, and not at all where a client can't block.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, builder, info, server, waiter};

/// How many clients wait in one queue.
const CLIENTS: usize = 50;

on_both! {
    fn clients_are_granted_in_the_order_in_which_they_came(flavor: Flavor) {
        let server = server(flavor);
        let mut first = Client::of(&server);
        let mut grant = first.take("k 600");
        let mut queue: Vec<Client> =
            (0..CLIENTS).map(|_| waiter(&server, "k", "600 WAIT 0")).collect();
        assert_eq!(info(&server, "blocked_clients"), CLIENTS as u64);
        for (at, client) in queue.iter_mut().enumerate() {
            assert_eq!(first.waiting("k"), (CLIENTS - at) as i64, "one at a time");
            first.give("k", &grant);
            let next = Grant::of(&client.answer());
            assert!(next.token > grant.token);
            grant = next;
        }
        first.give("k", &grant);
        assert_eq!(info(&server, "blocked_clients"), 0);
        assert_eq!(info(&server, "hand_overs"), CLIENTS as u64);
    }

    fn who_has_waited_long_enough_is_told_so_and_leaves_the_queue(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut client) = (Client::of(&server), Client::of(&server));
        let grant = holder.take("k 600");
        for wait in ["0.001", "0.05", "0.1"] {
            assert_eq!(client.lock(&format!("ACQUIRE k 600 WAIT {wait}")), ServerReply::Nil, "{wait}");
        }
        holder.until_waiting("k", 0);
        let mut patient = waiter(&server, "k", "600 WAIT 600");
        assert_eq!(client.lock("ACQUIRE k 600 WAIT 0.05"), ServerReply::Nil, "behind another");
        holder.until_waiting("k", 1);
        holder.give("k", &grant);
        Grant::of(&patient.answer());
        assert_eq!(client.say("PING").text(), Some("PONG"), "the connection is as it was");
        assert_eq!(info(&server, "blocked_clients"), 0);
    }

    fn who_does_not_have_to_wait_does_not(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600 WAIT 0");
        client.give("k", &grant);
        client.take("k 600 WAIT 600");
        assert_eq!(info(&server, "queued"), 0);
    }

    fn nobody_overtakes_who_waits(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let two = client.take("k 600 PERMITS 2 3");
        let mut large = waiter(&server, "k", "600 WAIT 0 PERMITS 2 3");
        let mut small = waiter(&server, "k", "600 WAIT 0 PERMITS 1 3");
        assert_eq!(client.lock("ACQUIRE k 600 PERMITS 1 3"), ServerReply::Nil, "though it would fit");
        client.give("k", &two);
        let (large, small) = (Grant::of(&large.answer()), Grant::of(&small.answer()));
        assert!(large.token < small.token, "both at once, in turn");
    }

    fn readers_are_let_in_together(flavor: Flavor) {
        const READERS: usize = 10;
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600 EXCLUSIVE");
        let wait = |ask: &str| waiter(&server, "k", &format!("600 WAIT 0 {ask}"));
        let mut readers: Vec<Client> = (0..READERS).map(|_| wait("SHARED")).collect();
        let mut writer = wait("EXCLUSIVE");
        let mut late = wait("SHARED");
        client.give("k", &grant);
        let grants: Vec<Grant> =
            readers.iter_mut().map(|reader| Grant::of(&reader.answer())).collect();
        assert!(grants.is_sorted_by_key(|grant| grant.token));
        assert_eq!((client.holders("k").len(), client.waiting("k")), (READERS, 2));
        grants.iter().for_each(|grant| client.give("k", grant));
        let written = Grant::of(&writer.answer());
        assert_eq!(client.waiting("k"), 1);
        client.give("k", &written);
        Grant::of(&late.answer());
    }

    fn a_crowd_of_readers_is_let_in_though_one_step_is_not_enough(flavor: Flavor) {
        // More than one step grants: 64.
        const READERS: usize = 150;
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600 EXCLUSIVE");
        let mut readers: Vec<Client> = (0..READERS).map(|_| Client::of(&server)).collect();
        readers.iter_mut().for_each(|reader| reader.begin("ACQUIRE k 600 WAIT 0 SHARED"));
        client.until_waiting("k", READERS as i64);
        client.give("k", &grant);
        for reader in &mut readers {
            Grant::of(&reader.answer());
        }
        assert_eq!(client.holders("k").len(), READERS);
    }

    fn in_a_transaction_and_in_a_script_nobody_waits(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut client) = (Client::of(&server), Client::of(&server));
        let grant = holder.take("k 600");
        let replies = client.multi(&[
            "FENCELOCK.ACQUIRE k 600 WAIT 0".to_owned(),
            "FENCELOCK.ACQUIRE free 600 WAIT 0".to_owned(),
        ]);
        assert_eq!(replies[0], ServerReply::Nil);
        Grant::of(&replies[1]);
        let script = "return redis.call('FENCELOCK.ACQUIRE', KEYS[1], 600, 'WAIT', 0)";
        assert_eq!(client.words(&["EVAL", script, "1", "k"]), ServerReply::Nil);
        Grant::of(&client.words(&["EVAL", script, "1", "free2"]));
        assert_eq!(client.waiting("k"), 0, "nobody took a place");
        holder.give("k", &grant);
        client.take("k 600");
    }

    fn a_script_gets_integers_that_it_can_give_back(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let script = "local g = redis.call('FENCELOCK.ACQUIRE', KEYS[1], 600); \
                      return redis.call('FENCELOCK.RELEASE', KEYS[1], string.format('%.0f', g[1]))";
        for _ in 0..20 {
            assert!(client.words(&["EVAL", script, "1", "k"]).is_ok());
        }
    }

    fn who_waits_in_quarantine_is_granted_when_it_is_over(flavor: Flavor) {
        let args = ["failover", "quarantine", "max-lease", "2"];
        let server = builder(flavor, &args).start().expect("a server");
        let until_ms = info(&server, "quarantine_until_ms");
        let mut clients = [(); 3].map(|()| Client::of(&server));
        for client in &mut clients {
            client.begin("ACQUIRE k 2 WAIT 0 SHARED");
        }
        for client in &mut clients {
            let grant = Grant::of(&client.answer());
            assert!(grant.token as u64 >= until_ms * 1_000, "not before its end");
        }
    }

    fn a_wait_ends_with_the_lock_it_is_for(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for end in ["DEL k", "UNLINK k", "FLUSHDB", "FLUSHALL ASYNC", "SET k x", "RENAME other k"] {
            client.say("DEL k");
            client.say("SET other x");
            client.take("k 600");
            let mut waits =
                [waiter(&server, "k", "600 WAIT 0"), waiter(&server, "k", "600 WAIT 0 BOUND")];
            assert_eq!(client.say(end).error(), None, "{end}");
            for waiter in &mut waits {
                let reply = waiter.answer();
                let error = reply.error().unwrap_or_else(|| panic!("{end}: {reply}"));
                assert!(error.starts_with("TRYAGAIN "), "{end}: {error}");
            }
        }
        assert_eq!((info(&server, "blocked_clients"), info(&server, "bound_locks")), (0, 0));
    }

    fn a_wait_goes_with_the_lock_to_its_new_name(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600");
        let mut waits = waiter(&server, "k", "600 WAIT 0");
        assert!(client.say("RENAME k l").is_ok());
        assert_eq!(client.waiting("l"), 1);
        client.give("l", &grant);
        let passed = Grant::of(&waits.answer());
        client.give("l", &passed);
    }
}
