//! A lock that is handed to a client at the moment the client leaves: either the lock is released, or the client was
//! told and holds it. One of the two always happens.

use std::process::{Child, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use taketurns_servers::{Flavor, Server, ServerReply, on_both};

use crate::commands::client::{Client, Grant, connection_at, info, is_error, server, waiter};

/// How many rounds a race is tried for.
const ROUNDS: usize = 100;

/// In one step of the server, the lock is handed to a client and `happens` runs for that client. Afterwards the next
/// waiter holds the lock, or nobody if there is none. Returns the reply to the client.
#[track_caller]
fn handed_and_gone(
    server: &Server,
    words: &str,
    happens: &str,
    alone: bool,
) -> Option<ServerReply> {
    let mut holder = Client::of(server);
    let grant = holder.take("k 600");
    let mut first = waiter(server, "k", words);
    let second = (!alone).then(|| waiter(server, "k", "600 WAIT 0"));
    let id = connection_at(&mut holder, "k", 0);
    let release = format!("FENCELOCK.RELEASE k {}", grant.secret);
    let replies = holder.multi(&[release, happens.replace('#', &id.to_string())]);
    assert!(replies[0].is_ok(), "{replies:?}");
    assert_eq!(replies[1], ServerReply::Int(1), "{happens}");
    let told = first.answer_or_end();
    if let Some(mut second) = second {
        let passed = Grant::of(&second.answer());
        second.give("k", &passed);
    }
    holder.until_held("k", 0);
    assert_eq!((info(server, "blocked_clients"), info(server, "bound_locks")), (0, 0));
    told
}

/// Starts a process that waits for a lock.
fn process(server: &Server, words: &[&str]) -> Child {
    let mut command = server.redis_cli();
    let command = command.args(["FENCELOCK.ACQUIRE", "k"]).args(words);
    command.stdout(Stdio::null()).spawn().expect("a client")
}

on_both! {
    fn handed_to_one_that_is_killed_in_the_same_moment(flavor: Flavor) {
        let server = server(flavor);
        for words in ["600 WAIT 0", "600 WAIT 0 BOUND"] {
            for alone in [true, false] {
                assert_eq!(handed_and_gone(&server, words, "CLIENT KILL ID #", alone), None);
            }
        }
    }

    fn handed_to_one_that_is_unblocked_with_an_error_in_the_same_moment(flavor: Flavor) {
        let server = server(flavor);
        for words in ["600 WAIT 0", "600 WAIT 0 BOUND"] {
            for alone in [true, false] {
                let told = handed_and_gone(&server, words, "CLIENT UNBLOCK # ERROR", alone);
                let told = told.expect("an answer");
                assert!(is_error(&told, "UNBLOCKED"), "{told}");
            }
        }
    }

    fn handed_to_a_client_that_is_unblocked_with_a_timeout_at_once(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        let mut first = waiter(&server, "k", "600 WAIT 0");
        let id = connection_at(&mut holder, "k", 0);
        let release = format!("FENCELOCK.RELEASE k {}", grant.secret);
        holder.multi(&[release, format!("CLIENT UNBLOCK {id} TIMEOUT")]);
        // Redis 7.0 never answers such a client, whatever a module does: it must not hold the lock.
        if flavor == Flavor::Valkey {
            let held = Grant::of(&first.answer());
            first.give("k", &held);
        }
        holder.until_held("k", 0);
        holder.take("k 600");
    }

    fn taken_back_from_one_that_is_killed_when_it_was_granted_by_a_break(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        holder.take("k 600");
        let _first = waiter(&server, "k", "600 WAIT 0");
        let mut second = waiter(&server, "k", "600 WAIT 0");
        let id = connection_at(&mut holder, "k", 0);
        holder.multi(&["FENCELOCK.BREAK k NOW".to_owned(), format!("CLIENT KILL ID {id}")]);
        Grant::of(&second.answer());
    }

    fn handed_to_one_that_hangs_up_at_about_that_time(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        for round in 0..ROUNDS {
            let grant = holder.take("k 600");
            let bound = waiter(&server, "k", "600 WAIT 0 BOUND");
            let mut next = waiter(&server, "k", "600 WAIT 0");
            thread::scope(|scope| {
                let release = scope.spawn(|| holder.give("k", &grant));
                // Half of the rounds start with one, half with the other.
                if round % 2 == 0 {
                    thread::yield_now();
                }
                drop(bound);
                release.join().expect("a release");
            });
            let passed = Grant::of(&next.answer());
            holder.give("k", &passed);
        }
        assert_eq!((info(&server, "blocked_clients"), info(&server, "bound_locks")), (0, 0));
    }

    fn handed_to_a_process_that_was_stopped_and_is_killed(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        for kill_first in [true, false] {
            let grant = holder.take("k 600");
            let mut stopped = process(&server, &["600", "WAIT", "0", "BOUND"]);
            holder.until_waiting("k", 1);
            let mut next = waiter(&server, "k", "600 WAIT 0");
            kill_process(Pid::from_child(&stopped), Signal::STOP).expect("it stops");
            if kill_first {
                stopped.kill().expect("it is killed");
                holder.give("k", &grant);
            } else {
                holder.give("k", &grant);
                stopped.kill().expect("it is killed");
            }
            stopped.wait().expect("it ends");
            let passed = Grant::of(&next.answer());
            holder.give("k", &passed);
        }
    }

    fn a_process_that_is_killed_with_a_lease_keeps_it_for_that_long_at_most(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        for _ in 0..5 {
            let grant = holder.take("k 600");
            let mut process = process(&server, &["500", "MS", "WAIT", "0"]);
            holder.until_waiting("k", 1);
            let mut next = waiter(&server, "k", "600 WAIT 0");
            holder.begin(&format!("RELEASE k {}", grant.secret));
            process.kill().expect("it is killed");
            process.wait().expect("it ends");
            assert!(holder.answer().is_ok());
            let passed = Grant::of(&next.answer());
            holder.give("k", &passed);
        }
    }

    fn a_wait_that_ends_when_the_lock_is_handed_over_has_one_outcome(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let mut outcomes = [0; 2];
        for round in 0..ROUNDS {
            // Both at about the same time, with a different offset in each round.
            let lease_ms = 15 + round % 10;
            let mut waits = Client::of(&server);
            let lost = holder.take(&format!("k {lease_ms} MS"));
            waits.begin("ACQUIRE k 600 WAIT 0.020");
            let reply = waits.answer();
            if reply == ServerReply::Nil {
                outcomes[0] += 1;
                holder.until_waiting("k", 0);
                holder.until_held("k", 0);
            } else {
                outcomes[1] += 1;
                let grant = Grant::of(&reply);
                assert!(grant.token > lost.token);
                holder.give("k", &grant);
            }
        }
        println!("{flavor}: {} timed out, {} were granted", outcomes[0], outcomes[1]);
        assert_eq!(info(&server, "blocked_clients"), 0);
    }
}
