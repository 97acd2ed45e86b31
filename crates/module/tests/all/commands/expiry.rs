//! Holders that die silently: at the end of their lease the server itself hands the lock on.
//! Meanwhile nobody but the waiter sends anything.

use taketurns_servers::{Flavor, on_both};

use crate::commands::client::{Client, Grant, server};

/// Takes a lock for a moment and asks for it elsewhere; only the timer grants it.
#[track_caller]
fn passes_on(flavor: Flavor, held: &str, asked: &str) -> (Grant, Grant) {
    let server = server(flavor);
    let mut holder = Client::of(&server);
    if held.contains("ANY") || held.contains("MEMBER") {
        holder.lock("POOL ADD k m");
    }
    let mut next = Client::of(&server);
    let lost = holder.take(format!("k 200 MS {held}").trim_end());
    drop(holder);
    next.begin(format!("ACQUIRE k 600 WAIT 0 {asked}").trim_end());
    let passed = Grant::of(&next.answer());
    assert!(passed.token > lost.token);
    let lease_us = 200_000;
    assert!(passed.token - lost.token >= lease_us - 1_000, "not before the lease was over");
    (lost, passed)
}

on_both! {
    fn a_mutex_passes_on(flavor: Flavor) {
        passes_on(flavor, "", "");
    }

    fn a_read_write_lock_passes_on(flavor: Flavor) {
        passes_on(flavor, "SHARED", "EXCLUSIVE");
        passes_on(flavor, "EXCLUSIVE", "SHARED");
    }

    fn permits_pass_on(flavor: Flavor) {
        passes_on(flavor, "PERMITS 2 3", "PERMITS 3 3");
    }

    fn a_member_passes_on(flavor: Flavor) {
        for (held, asked) in [("ANY", "ANY"), ("MEMBER m", "ANY"), ("ANY", "MEMBER m")] {
            let (_, passed) = passes_on(flavor, held, asked);
            assert_eq!(passed.member.as_deref(), Some("m"));
        }
    }

    fn a_row_of_holders_that_die_costs_a_lease_each_and_no_more(flavor: Flavor) {
        let server = server(flavor);
        let mut clients: Vec<Client> = (0..10).map(|_| Client::of(&server)).collect();
        for client in &mut clients {
            client.begin("ACQUIRE k 50 MS WAIT 0");
        }
        let mut last = 0;
        let mut tokens: Vec<i64> =
            clients.iter_mut().map(|client| Grant::of(&client.answer()).token).collect();
        tokens.sort_unstable();
        for token in tokens {
            assert!(token - last >= 49_000, "two at a time");
            last = token;
        }
    }

    fn many_locks_end_at_once_and_each_passes_on(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let mut clients: Vec<Client> = (0..300).map(|_| Client::of(&server)).collect();
        for at in 0..clients.len() {
            holder.take(&format!("k{at} 300 MS"));
        }
        for (at, client) in clients.iter_mut().enumerate() {
            client.begin(&format!("ACQUIRE k{at} 600 WAIT 0"));
        }
        for client in &mut clients {
            Grant::of(&client.answer());
        }
    }

    fn in_another_database_too(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut next) = (Client::of(&server), Client::of(&server));
        for client in [&mut holder, &mut next] {
            assert!(client.say("SELECT 9").is_ok());
        }
        holder.take("k 200 MS");
        next.begin("ACQUIRE k 600 WAIT 0");
        Grant::of(&next.answer());
    }
}
