//! Locks that end with their holder's connection.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Instant;

use taketurns_servers::{Flavor, Server, ServerReply, eventually, on_both};

use crate::commands::client::{Client, Grant, info, server, waiter};

/// Starts a process that holds the lock `k` by its connection, and keeps running.
fn process(server: &Server) -> Child {
    let mut command = server.redis_cli();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a client");
    let stdin = child.stdin.as_mut().expect("its input");
    stdin.write_all(b"FENCELOCK.ACQUIRE k 600 BOUND\n").expect("it listens");
    let mut answer = String::new();
    let stdout = child.stdout.as_mut().expect("its output");
    BufReader::new(stdout).read_line(&mut answer).expect("it answers");
    assert!(answer.trim().parse::<i64>().is_ok(), "not granted: {answer}");
    child
}

#[track_caller]
fn nothing_left(server: &Server) {
    let left = || (info(server, "bound_locks") == 0).then_some(());
    eventually("nothing is tied to any connection", left).expect("nothing");
}

on_both! {
    fn a_bound_lock_ends_with_its_connection(flavor: Flavor) {
        let server = server(flavor);
        for ask in ["", " SHARED", " PERMITS 2 2"] {
            let mut holder = Client::of(&server);
            holder.take(&format!("k 600 BOUND{ask}"));
            let other = if ask == " SHARED" { " EXCLUSIVE" } else { ask };
            let mut next = waiter(&server, "k", &format!("600 WAIT 0{other}"));
            assert_eq!(info(&server, "bound_locks"), 1);
            drop(holder);
            let grant = Grant::of(&next.answer());
            next.give("k", &grant);
            nothing_left(&server);
        }
    }

    fn a_bound_member_ends_with_its_connection(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        holder.lock("POOL ADD p m");
        holder.take("p 600 ANY BOUND");
        let mut next = waiter(&server, "p", "600 WAIT 0 MEMBER m");
        drop(holder);
        Grant::of(&next.answer());
    }

    fn a_lock_that_is_not_bound_does_not_end_with_its_connection(flavor: Flavor) {
        let server = server(flavor);
        let mut looker = Client::of(&server);
        let mut holder = Client::of(&server);
        let free = holder.take("free 600");
        holder.take("bound 600 BOUND");
        drop(holder);
        looker.until_held("bound", 0);
        assert!(looker.renew("free", &free).is_ok());
    }

    fn a_bound_lock_ends_when_its_client_is_killed(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let id = holder.id();
        holder.take("k 600 BOUND");
        let mut next = waiter(&server, "k", "600 WAIT 0 BOUND");
        assert_eq!(server.cli(&["CLIENT", "KILL", "ID", &id.to_string()]), ServerReply::Int(1));
        Grant::of(&next.answer());
        drop(next);
        nothing_left(&server);
        Client::of(&server).take("k 600");
    }

    fn a_bound_lock_has_a_lease_as_well(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let lost = holder.take("k 200 MS BOUND");
        let mut next = Client::of(&server);
        next.begin("ACQUIRE k 600 WAIT 0");
        let grant = Grant::of(&next.answer());
        assert_eq!(holder.renew("k", &lost), ServerReply::Nil);
        drop(holder);
        nothing_left(&server);
        assert!(next.renew("k", &grant).is_ok(), "it is the next one's");
    }

    fn one_that_waited_holds_by_its_connection_from_then_on(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        let mut bound = waiter(&server, "k", "600 WAIT 0 BOUND");
        let mut next = waiter(&server, "k", "600 WAIT 0");
        holder.give("k", &grant);
        Grant::of(&bound.answer());
        assert_eq!(holder.waiting("k"), 1);
        drop(bound);
        Grant::of(&next.answer());
        nothing_left(&server);
    }

    fn a_bound_lock_that_was_renewed_is_still_bound(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut other) = (Client::of(&server), Client::of(&server));
        let direct = holder.take("direct 60 BOUND");
        let before = other.take("waited 600");
        holder.begin("ACQUIRE waited 60 WAIT 0 BOUND");
        other.until_waiting("waited", 1);
        other.give("waited", &before);
        let waited = Grant::of(&holder.answer());
        // By the holder's connection, and by another, which does not become the holder by that.
        for client in [&mut holder, &mut other] {
            for (key, grant) in [("direct", &direct), ("waited", &waited)] {
                assert!(client.renew(key, grant).is_ok());
            }
        }
        drop(holder);
        other.until_held("direct", 0);
        other.until_held("waited", 0);
        nothing_left(&server);
    }

    fn a_connection_that_gave_its_lock_back_does_not_take_it_from_the_next(flavor: Flavor) {
        let server = server(flavor);
        let mut first = Client::of(&server);
        let grant = first.take("k 600 BOUND");
        first.give("k", &grant);
        let mut next = Client::of(&server);
        let held = next.take("k 600");
        let marker = first.take("marker 600 BOUND");
        drop(first);
        next.until_held("marker", 0);
        assert!(next.renew("k", &held).is_ok(), "{marker:?} is gone, and nothing else");
        let mut broken = Client::of(&server);
        broken.take("l 600 BOUND");
        assert_eq!(next.lock("BREAK l NOW"), ServerReply::Int(1));
        let held = next.take("l 600");
        broken.take("marker 600 BOUND");
        drop(broken);
        next.until_held("marker", 0);
        assert!(next.renew("l", &held).is_ok());
        nothing_left(&server);
    }

    fn all_locks_of_a_connection_end_with_it(flavor: Flavor) {
        const LOCKS: usize = 1_500;
        let server = server(flavor);
        let (mut holder, mut looker) = (Client::of(&server), Client::of(&server));
        (0..LOCKS).for_each(|n| drop(holder.take(&format!("k{n} 600 BOUND"))));
        assert_eq!(info(&server, "bound_locks"), LOCKS as u64);
        drop(holder);
        for n in 0..LOCKS {
            looker.until_held(&format!("k{n}"), 0);
        }
        nothing_left(&server);
    }

    fn a_bound_lock_moves_with_its_key(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut looker) = (Client::of(&server), Client::of(&server));
        holder.take("k 600 BOUND");
        assert!(looker.say("RENAME k l").is_ok());
        looker.until_held("l", 1);
        drop(holder);
        looker.until_held("l", 0);
    }

    fn in_a_transaction_it_is_bound_and_in_a_script_it_is_refused(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut looker) = (Client::of(&server), Client::of(&server));
        let replies = holder.multi(&["FENCELOCK.ACQUIRE k 600 BOUND WAIT 0".to_owned()]);
        Grant::of(&replies[0]);
        let script = "return redis.call('FENCELOCK.ACQUIRE', KEYS[1], 600, 'BOUND')";
        let reply = holder.words(&["EVAL", script, "1", "l"]);
        let error = reply.error().expect("a refusal");
        assert!(error.starts_with("ERR BOUND needs a connection of its own"), "{error}");
        assert_eq!(holder.say("EXISTS l"), ServerReply::Int(0));
        drop(holder);
        looker.until_held("k", 0);
    }

    fn thousands_of_bound_locks_leave_nothing(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for n in 0..3_000 {
            let key = format!("k{}", n % 7);
            let grant = client.take(&format!("{key} 600 BOUND"));
            client.give(&key, &grant);
        }
        assert_eq!(info(&server, "bound_locks"), 0);
    }

    fn bound_locks_that_end_otherwise_do_not_pile_up(flavor: Flavor) {
        const TIMES: usize = 3_000;
        let server = server(flavor);
        let (mut client, mut other) = (Client::of(&server), Client::of(&server));
        for n in 0..TIMES {
            let grant = client.take("k 600 BOUND");
            match n % 2 {
                0 => other.give("k", &grant),
                _ => assert_eq!(other.lock("BREAK k NOW"), ServerReply::Int(1)),
            }
        }
        let left = info(&server, "bound_locks");
        assert!(left < TIMES as u64 / 2, "{left} are remembered of a lock that nobody holds");
    }

    fn nor_do_they_while_somebody_always_waits(flavor: Flavor) {
        const TIMES: usize = 3_000;
        let server = server(flavor);
        let (mut one, mut other, mut third) =
            (Client::of(&server), Client::of(&server), Client::of(&server));
        let mut grant = one.take("k 600 BOUND");
        for _ in 0..TIMES {
            other.begin("ACQUIRE k 600 WAIT 0 BOUND");
            third.until_waiting("k", 1);
            third.give("k", &grant);
            grant = Grant::of(&other.answer());
            std::mem::swap(&mut one, &mut other);
        }
        let left = info(&server, "bound_locks");
        assert!(left < TIMES as u64 / 2, "{left} are remembered of a lock that one holds");
    }

    fn the_lock_of_a_process_that_is_killed_passes_on_at_once(flavor: Flavor) {
        let server = server(flavor);
        for _ in 0..3 {
            let mut process = process(&server);
            let mut next = waiter(&server, "k", "600 WAIT 0");
            let killed = Instant::now();
            process.kill().expect("it is killed");
            // The lease would last ten minutes, longer than the wait for an answer.
            let grant = Grant::of(&next.answer());
            println!("{flavor}: granted {:?} after the process was killed", killed.elapsed());
            process.wait().expect("it ends");
            next.give("k", &grant);
        }
        nothing_left(&server);
    }
}
