//! A command never runs on without its lock.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use taketurns::Token;
use taketurns::fence::Fence;

use crate::cli::helper::{Done, Running, Store, is_alive, until};

/// Writes its token, then a mark over and over, deaf to SIGTERM, and opens `life`, which ends with it.
const STUBBORN: &str = "trap 'echo term >> told' TERM; exec 3> life; echo $TAKETURNS_TOKEN; \
                        while :; do sleep 0.02; done";

/// Says its number, and does not end by itself.
const STUBBORN_BY_NUMBER: &str = "trap '' TERM; echo $$; while :; do sleep 0.02; done";

/// The end of whatever has `life` open for writing.
struct Life(File);

impl Life {
    fn path(store: &Store) -> std::path::PathBuf {
        let path = store.path("life");
        Done::of(Command::new("mkfifo").arg(&path)).ok();
        path
    }

    fn of(store: &Store, start: impl FnOnce() -> Running) -> (Self, Running) {
        let path = Self::path(store);
        let running = start();
        (Self(File::open(path).unwrap()), running)
    }

    fn end(mut self) -> Instant {
        self.0.read_to_end(&mut Vec::new()).unwrap();
        Instant::now()
    }
}

/// A holder whose stderr can be read afterwards.
fn start_telling(store: &Store, args: &[&str]) -> Running {
    let stderr = File::create(store.path("stderr")).unwrap();
    Running::start(store.command(args).stderr(Stdio::from(stderr)))
}

fn said(store: &Store) -> String {
    fs::read_to_string(store.path("stderr")).unwrap()
}

#[test]
fn stopped_past_its_lease_it_is_killed_as_soon_as_it_goes_on() {
    let store = Store::new();
    let command = "echo $$ $TAKETURNS_TOKEN; while :; do echo x >> work; sleep 0.02; done";
    let args = ["run", "--lease", "3", "door", "--", "sh", "-c", command];
    let mut first = start_telling(&store, &args);
    let line = first.line();
    let (pid, token) = line.split_once(' ').unwrap();
    let child = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    let first_token: u64 = token.parse().unwrap();
    until("it works", || store.path("work").exists());
    first.signal(Signal::STOP);
    rustix::process::kill_process_group(child, Signal::STOP).unwrap();

    let second = store.run(&["run", "door", "--", "sh", "-c", "echo $TAKETURNS_TOKEN"]).ok();
    let second_token: u64 = second.stdout.trim().parse().unwrap();
    assert!(first_token < second_token, "tokens are in the order of the grants");
    let fence = Fence::new();
    fence.admit("file", Token::from_raw(second_token)).unwrap();
    assert!(fence.admit("file", Token::from_raw(first_token)).is_err(), "the first is stale");

    let done = fs::read(store.path("work")).unwrap().len();
    first.signal(Signal::CONT);
    assert_eq!(first.code(), 76);
    until("the command is gone", || !is_alive(child));
    assert_eq!(fs::read(store.path("work")).unwrap().len(), done, "it did nothing more");
    assert_eq!(
        said(&store),
        "taketurns: lock door was lost: its lease ran out before it could be renewed; the command was killed\n"
    );
}

#[test]
fn with_the_store_out_of_reach_the_command_is_gone_before_its_lease_ends() {
    let store = Store::new();
    let lease = Duration::from_secs(9);
    let args = ["run", "--lease", "9", "door", "--", "sh", "-c", STUBBORN];
    let (life, mut run) = Life::of(&store, || start_telling(&store, &args));
    run.line();
    // The kill comes a fifth of a second before the lease ends, which a busy machine may be late by. So the
    // lease has been running for two seconds when its length is counted from, with a second to the renewal.
    let left_ms = || store.show("door")["holders"][0]["left_ms"].as_u64().expect("held");
    until("the lease has run for a while", || left_ms() <= 7_000);

    let database = rusqlite::Connection::open(store.path("locks.db")).unwrap();
    database.busy_timeout(Duration::from_secs(10)).unwrap();
    database.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // No renewal can come after this, so the lease ends within its length from now.
    let out_of_reach = Instant::now();
    let ended = life.end();
    let after = ended - out_of_reach;
    println!("the command was gone {after:?} after the store, with a lease of {lease:?}");
    assert!(after < lease, "{after:?}");
    assert_eq!(run.code(), 76);
    assert_eq!(fs::read_to_string(store.path("told")).unwrap(), "term\n", "it was told before");
    assert!(
        said(&store).starts_with("taketurns: lock door could not be renewed ("),
        "{}",
        said(&store)
    );
}

#[test]
fn a_short_outage_costs_nothing() {
    let store = Store::new();
    let holder = store.hold(&["--lease", "6", "door"]);
    let database = rusqlite::Connection::open(store.path("locks.db")).unwrap();
    database.busy_timeout(Duration::from_secs(10)).unwrap();
    database.execute_batch("BEGIN EXCLUSIVE").unwrap();
    std::thread::sleep(Duration::from_millis(2_500)); // past the renewal at a third
    database.execute_batch("ROLLBACK").unwrap();
    let renewed =
        || store.show("door")["holders"][0]["left_ms"].as_u64().is_some_and(|ms| ms > 4_500);
    until("it is renewed", renewed);
    holder.finish();
}

#[test]
fn a_broken_lock_ends_the_command_with_sigterm_first() {
    let store = Store::new();
    let command = "trap 'echo bye; exit 3' TERM; echo in; while :; do sleep 0.02; done";
    let mut run = start_telling(&store, &["run", "door", "--", "sh", "-c", command]);
    assert_eq!(run.line(), "in");
    let text = store.run(&["break", "door"]).ok().stdout;
    assert_eq!(
        text,
        "door: broken for 1 holder; free when the holder stops, at the latest when its lease ends\n"
    );
    assert_eq!(run.line(), "bye");
    assert_eq!(run.code(), 76);
    assert!(
        said(&store).contains("somebody broke it; the command was told to end"),
        "{}",
        said(&store)
    );
    store.run(&["run", "-w", "60", "door", "--", "true"]).ok();
}

#[test]
fn a_stopped_command_is_continued_so_that_it_can_say_goodbye() {
    let store = Store::new();
    let command = "trap 'echo bye; exit 3' TERM; echo $$; while :; do sleep 0.02; done";
    let mut run = start_telling(&store, &["run", "door", "--", "sh", "-c", command]);
    let child = rustix::process::Pid::from_raw(run.line().parse().unwrap()).unwrap();
    rustix::process::kill_process_group(child, Signal::STOP).unwrap();
    store.run(&["break", "door"]).ok();
    assert_eq!(run.line(), "bye");
    assert_eq!(run.code(), 76);
}

#[test]
fn a_lock_that_was_passed_on_at_once_leaves_no_time_to_say_goodbye() {
    let store = Store::new();
    let args = ["run", "door", "--", "sh", "-c", STUBBORN];
    let (life, mut run) = Life::of(&store, || start_telling(&store, &args));
    run.line();
    let broken = store.run(&["break", "--now", "--json", "door"]).ok().json();
    assert_eq!(broken, serde_json::json!({"lock": "door", "broken": 1, "at_once": true}));
    life.end();
    assert_eq!(run.code(), 76);
}

#[test]
fn a_lock_broken_at_once_is_free_though_its_holder_does_not_know() {
    let store = Store::new();
    let mut holder = store.hold(&["--lease", "3600", "door"]);
    holder.signal(Signal::STOP);
    assert_eq!(store.run(&["break", "--now", "door"]).ok().stdout, "door: taken from 1 holder\n");
    store.run(&["run", "-w", "60", "door", "--", "true"]).ok();
    holder.kill();
}

#[test]
fn the_command_of_a_broken_lock_is_gone_before_the_next_one_starts() {
    let store = Store::new();
    // The lease outlasts the time that the command is given to end, so only its release lets the next one in.
    let args = ["run", "--lease", "30", "door", "--", "sh", "-c", STUBBORN_BY_NUMBER];
    let mut run = start_telling(&store, &args);
    let number = run.line();
    let look = format!("kill -0 {number} 2> /dev/null && echo both || echo alone");
    let mut next = store.start(&["run", "door", "--", "sh", "-c", &look]);
    store.until_waiting("door", 1);
    store.run(&["break", "door"]).ok();
    assert_eq!(store.show("door")["holders"][0]["broken"], true);
    assert_eq!(next.line(), "alone");
    assert_eq!(run.code(), 76);
}

#[test]
fn only_the_holder_with_the_given_token_is_broken() {
    let store = Store::new();
    let holder = store.hold(&["door"]);
    let token = store.show("door")["last_token"].as_u64().unwrap();
    let (other, ours) = ((token - 1).to_string(), token.to_string());
    let text = store.run(&["break", "--token", &other, "door"]).ok().stdout;
    assert_eq!(text, format!("door: no holder with token {other}, nothing to break\n"));
    assert_eq!(store.run(&["break", "--token", &ours, "--json", "door"]).ok().json()["broken"], 1);
    drop(holder);
}

#[test]
fn a_command_is_ended_at_its_max_hold() {
    let store = Store::new();
    let args = ["run", "--max-hold", "3", "door", "--", "sh", "-c", STUBBORN];
    let (life, mut run) = Life::of(&store, || start_telling(&store, &args));
    run.line();
    life.end();
    assert_eq!(run.code(), 76);
    let told = "taketurns: lock door was held for nearly its --max-hold of 3s: the command was told to end\n";
    assert!(said(&store).starts_with(told), "{}", said(&store));
    store.run(&["run", "-w", "60", "door", "--", "true"]).ok();
}

#[test]
fn those_the_command_started_are_ended_with_it() {
    let store = Store::new();
    let command = "exec 3> life; sh -c 'trap \"\" TERM; echo in; while :; do sleep 0.02; done'";
    let args = ["run", "--lease", "3", "door", "--", "sh", "-c", command];
    let (life, mut run) = Life::of(&store, || start_telling(&store, &args));
    assert_eq!(run.line(), "in");
    store.run(&["break", "door"]).ok();
    life.end();
    assert_eq!(run.code(), 76);
}
