//! How clients of different kinds affect each other on one lock.

use std::time::Duration;

use taketurns::blocking::Wait;
use taketurns_servers::{Flavor, Server, eventually, on_both};

use crate::clients::party::{Answer, Ask, Party, one_of_each};
use crate::clients::{NAME, of_holder, server, until_waiting};

/// Longer than any of these tests takes.
const LEASE_MS: u64 = 20_000;
const WAIT: Ask = Ask::Wait { lease_ms: LEASE_MS, wait_ms: 60_000 };

#[track_caller]
fn granted(answer: Answer) -> u64 {
    if let Answer::Granted(token) = answer { token } else { panic!("not granted: {answer:?}") }
}

/// Waits for a short time without getting the lock. On a busy machine the time may pass without an answer: then it
/// waits twice as long.
fn in_vain(party: &mut dyn Party) -> Answer {
    let mut wait_ms = 50;
    loop {
        match party.ask(Ask::Wait { lease_ms: LEASE_MS, wait_ms }) {
            Answer::Error(why) if why.contains(" in the time given") && wait_ms < 60_000 => {
                wait_ms *= 2;
            }
            answer => return answer,
        }
    }
}

/// Runs `show` for each pair of a holder and another client that wants the lock.
fn for_each_pair(flavor: Flavor, show: impl Fn(&Server, &mut dyn Party, &mut dyn Party)) {
    let server = server(flavor);
    let mut parties = one_of_each(&server);
    for holder in 0..parties.len() {
        for other in (0..parties.len()).filter(|other| *other != holder) {
            println!("{} holds, {} wants it", parties[holder].0, parties[other].0);
            let [holder, other] = parties.get_disjoint_mut([holder, other]).expect("two of them");
            show(&server, &mut *holder.1, &mut *other.1);
        }
    }
}

on_both! {
    fn they_are_granted_in_the_order_in_which_they_asked(flavor: Flavor) {
        let server = server(flavor);
        let mut parties = one_of_each(&server);
        let mut last = 0;
        for round in 0..2 * parties.len() {
            parties.rotate_left(1);
            if round == parties.len() {
                parties.reverse();
            }
            let names: Vec<_> = parties.iter().map(|(name, _)| *name).collect();
            println!("they come in this order: {names:?}");
            let first = granted(parties[0].1.ask(Ask::Try { lease_ms: LEASE_MS }));
            assert!(first > last, "{first} after {last}");
            last = first;
            for (at, (_, party)) in parties.iter_mut().enumerate().skip(1) {
                party.begin(WAIT);
                until_waiting(&server, at);
            }
            for at in 1..parties.len() {
                assert_eq!(parties[at - 1].1.ask(Ask::Release), Answer::Done);
                let token = granted(parties[at].1.answer());
                assert!(token > last, "{token} after {last}");
                last = token;
                until_waiting(&server, parties.len() - 1 - at);
            }
            let holder = parties.last_mut().expect("four");
            assert_eq!(holder.1.ask(Ask::Release), Answer::Done);
        }
    }

    fn who_holds_is_left_alone_until_it_releases(flavor: Flavor) {
        for_each_pair(flavor, |server, holder, other| {
            let first = granted(holder.ask(Ask::Try { lease_ms: LEASE_MS }));
            assert_eq!(other.ask(Ask::Try { lease_ms: LEASE_MS }), Answer::No);
            assert_eq!(in_vain(other), Answer::No, "its time is up");
            until_waiting(server, 0);
            other.begin(WAIT);
            until_waiting(server, 1);
            assert_eq!(holder.ask(Ask::Renew { lease_ms: 3 * LEASE_MS }), Answer::Done);
            let left_ms = of_holder(server, "left_ms").expect("held");
            assert!(left_ms > LEASE_MS as i64, "{left_ms} ms are left");
            assert_eq!(of_holder(server, "token"), Some(first as i64));
            assert_eq!(holder.ask(Ask::Release), Answer::Done);
            let second = granted(other.answer());
            assert!(second > first, "{second} after {first}");
            for late in [Ask::Release, Ask::Renew { lease_ms: LEASE_MS }] {
                assert_eq!(holder.ask(late), Answer::No, "{late:?} of what it has no more");
            }
            assert_eq!(of_holder(server, "token"), Some(second as i64));
            assert_eq!(other.ask(Ask::Release), Answer::Done);
        });
    }

    fn who_runs_out_of_time_is_followed_by_who_waits(flavor: Flavor) {
        for_each_pair(flavor, |server, holder, other| {
            let first = granted(holder.ask(Ask::Try { lease_ms: holder.short_ms() }));
            let second = granted(other.ask(WAIT));
            assert!(second > first, "{second} after {first}");
            for late in [Ask::Renew { lease_ms: LEASE_MS }, Ask::Release] {
                assert_eq!(holder.ask(late), Answer::No, "{late:?} of what it has no more");
            }
            assert_eq!(of_holder(server, "token"), Some(second as i64));
            assert_eq!(other.ask(Ask::Release), Answer::Done);
        });
    }

    fn the_rust_client_renews_by_itself_while_others_wait(flavor: Flavor) {
        let server = server(flavor);
        let mut parties = one_of_each(&server);
        let locks = taketurns::connect(&server.url()).wait().expect("a connection");
        let lease = Duration::from_secs(5);
        let guard = locks.mutex(NAME).acquire().lease(lease).wait().expect("the lock");
        for (at, (_, party)) in parties.iter_mut().enumerate() {
            party.begin(WAIT);
            until_waiting(&server, at + 1);
        }
        let held_ms = || of_holder(&server, "held_ms").expect("held");
        let long = || (held_ms() > lease.as_millis() as i64).then_some(());
        eventually("it was held for longer than a lease", long).expect("it was");
        let mut last = guard.check().expect("held").raw();
        guard.release().wait().expect("released");
        for (name, party) in &mut parties {
            let token = granted(party.answer());
            assert!(token > last, "{name}: {token} after {last}");
            last = token;
            assert_eq!(party.ask(Ask::Release), Answer::Done);
        }
    }
}
