//! What happens when processes are killed: the next one waits for one lease, and for one only.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cli::helper::{Running, Store, is_alive, until};

#[test]
fn when_the_holder_is_killed_the_next_starts_as_its_lease_ends() {
    let store = Store::new();
    let mut holder = store.hold(&["--lease", "5", "door"]);
    let mut next = store.start(&["run", "door", "--", "echo", "in"]);
    store.until_waiting("door", 1);

    let before = Instant::now();
    // A renewal between this and the kill makes the lease end later, never earlier.
    let left = store.show("door")["holders"][0]["left_ms"].as_u64().expect("still held");
    let left = Duration::from_millis(left);
    holder.kill();
    assert_eq!(next.line(), "in");
    let started = Instant::now();
    assert!(started >= before + left, "{:?} too early", (before + left) - started);
    println!("started {:?} after the lease had ended", started - before - left);
    assert_eq!(next.code(), 0);
}

#[test]
fn the_command_dies_with_the_program() {
    let store = Store::new();
    let mut holder = store.hold(&["door"]);
    holder.kill();
    until("the command is gone", || !is_alive(holder.child()));
}

#[test]
fn ten_waiters_killed_at_once_cost_the_one_behind_them_one_waiter_lease() {
    let store = Store::new();
    let holder = store.hold(&["door"]);
    let mut doomed: Vec<Running> = Vec::new();
    for number in 1..=10 {
        doomed.push(store.start(&["run", "door", "--", "echo", "never"]));
        store.until_waiting("door", number);
    }
    let live = store.start(&["run", "--why", "live", "door", "--", "cat"]);
    store.until_waiting("door", 11);

    doomed.iter().for_each(|waiter| waiter.signal(Signal::KILL));
    let released = Instant::now();
    holder.finish();
    // A dead waiter that is granted the lock has it for one waiter lease, which is long enough to be seen.
    let mut dead = BTreeSet::new();
    until("the live waiter has it", || {
        let holder = store.show("door")["holders"][0].clone();
        let is_live = holder["why"] == "live";
        dead.extend(holder["token"].as_u64().filter(|_| !is_live));
        is_live
    });
    println!("the live waiter started {:?} after the release", released.elapsed());
    assert!(dead.len() <= 1, "the lock was held for the dead {} times", dead.len());
    live.finish();
    assert!(doomed.iter_mut().all(|waiter| waiter.line().is_empty()));
}

#[test]
fn a_place_given_up_on_a_signal_is_gone_at_once() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let store = Store::without_terminal();
        let holder = store.hold(&["door"]);
        let mut waiter = store.start(&["run", "door", "--", "echo", "never"]);
        store.until_waiting("door", 1);
        waiter.signal(signal);
        assert_eq!(waiter.code(), code);
        assert_eq!(waiter.line(), "");
        assert_eq!(store.show("door")["waiting"], 0);
        holder.finish();
    }
}
