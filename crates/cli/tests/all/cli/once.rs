//! `once` and `undo`: work that is done once, on any one of several machines; and `run --at-least`.

use std::fs::{self, File};
use std::io::Write;

use rustix::process::Signal;
use serde_json::Value;
use taketurns_servers::{Flavor, Server};

use crate::cli::helper::{Done, PROGRAM, Running, Store, until};

/// Says that it works, and ends with the code that it reads.
const WORK: &str = "echo in; read code; exit $code";

fn begin(store: &Store, args: &[&str]) -> Running {
    let mut work = store.start(&[&["once"], args, &["nightly", "--", "sh", "-c", WORK]].concat());
    assert_eq!(work.line(), "in");
    work
}

fn end(work: Running, code: i32) {
    end_as(work, code, code);
}

/// Ends the command with one code, and the program ends with the other.
fn end_as(mut work: Running, command: i32, program: i32) {
    writeln!(work.stdin(), "{command}").expect("it reads");
    assert_eq!(work.code(), program);
}

fn done(store: &Store) -> Value {
    store.show("nightly")["work"]["done"].clone()
}

#[test]
fn a_command_runs_once_and_the_next_one_is_told_who_did_it_and_when() {
    let store = Store::new();
    let first = ["once", "--why", "backup", "--result", "3 files", "nightly", "--", "echo", "done"];
    assert_eq!(store.run(&first).quiet().stdout, "done\n");
    let again = store.run(&["once", "nightly", "--", "echo", "again"]).ok();
    assert_eq!(again.stdout, "");
    let said = "echo (backup) at 20";
    assert!(again.stderr.starts_with("taketurns: nightly is done by "), "{again:?}");
    assert!(again.stderr.contains(said) && again.stderr.lines().count() == 1, "{again:?}");
    assert!(
        again.stderr.contains(" UTC, with the result \"3 files\"; not running it"),
        "{again:?}"
    );
    assert_eq!(store.run(&["once", "-q", "nightly", "--", "echo", "again"]).quiet().stdout, "");
    assert_eq!(store.run(&["once", "other", "--", "echo", "other"]).quiet().stdout, "other\n");
    let lock = store.show("nightly");
    assert_eq!((&lock["kind"], &lock["state"]), (&"once".into(), &"done".into()));
    assert_eq!(lock["work"]["done"]["result"], "3 files");
    assert_eq!(lock["last_token"], lock["work"]["done"]["token"]);
}

#[test]
fn the_code_is_that_of_a_command_that_fails_and_the_next_one_tries() {
    let store = Store::new();
    for (failed, code) in [("exit 3", 3), ("kill -9 $$", 137), ("no-such-command", 127)] {
        let done = store.run(&["once", "nightly", "--", "sh", "-c", failed]);
        assert_eq!(done.code, code, "{done:?}");
    }
    store.run(&["once", "nightly", "--", "no-such-command"]).failed(127, "command not found");
    assert_eq!(store.show("nightly")["work"]["failed"], 4);
    assert!(store.run(&["ls"]).ok().stdout.contains("nobody [4 failed]"));
    store.run(&["once", "nightly", "--", "true"]).quiet();
    assert_eq!(done(&store)["failed"], 4);
    let shown = store.run(&["show", "nightly"]).ok().stdout;
    assert!(shown.contains(" UTC, after 4 attempts that failed; forgotten in 23h59m"), "{shown}");
}

#[test]
fn waiters_are_told_when_it_is_done_and_do_not_run() {
    let store = Store::new();
    let work = begin(&store, &[]);
    let mut waiters: Vec<_> =
        (0..3).map(|_| store.start(&["once", "-q", "nightly", "--", "echo", "too much"])).collect();
    store.until_waiting("nightly", 3);
    end(work, 0);
    for waiter in &mut waiters {
        assert_eq!((waiter.line(), waiter.code()), (String::new(), 0));
    }
}

/// Who waits when an attempt ends, which is how `end` ends it.
fn waiter_after(store: &Store, first: Running, end: impl FnOnce(Running)) -> Running {
    let mut waiter = store.start(&["once", "nightly", "--", "sh", "-c", WORK]);
    store.until_waiting("nightly", 1);
    end(first);
    assert_eq!(waiter.line(), "in");
    waiter
}

fn failed(store: &Store) -> Value {
    store.show("nightly")["work"]["failed"].clone()
}

#[test]
fn a_waiter_takes_over_from_one_that_fails_or_is_told_to_end() {
    let store = Store::without_terminal();
    let second = waiter_after(&store, begin(&store, &[]), |first| end(first, 4));
    assert_eq!(failed(&store), 1);
    let third = waiter_after(&store, second, |mut second| {
        second.signal(Signal::TERM);
        assert_eq!(second.code(), 143);
    });
    assert_eq!(failed(&store), 2);
    end(third, 0);
    assert_eq!(done(&store)["failed"], 2);
}

#[test]
fn a_waiter_takes_over_from_one_whose_lock_is_broken() {
    let store = Store::new();
    let second = waiter_after(&store, begin(&store, &[]), |mut first| {
        store.run(&["break", "nightly"]).ok();
        assert_eq!(first.code(), 76);
    });
    assert_eq!(failed(&store), 1);
    end(second, 0);
}

#[test]
fn a_waiter_takes_over_from_one_that_is_killed() {
    let store = Store::new();
    let mut first = begin(&store, &["--lease", "0.5"]);
    let mut second = store.start(&["once", "nightly", "--", "sh", "-c", WORK]);
    // Not when the second one is seen to wait: on a busy machine the first may lose so short a lease before that.
    first.kill();
    assert_eq!(second.line(), "in");
    assert_eq!(failed(&store), 1);
    end(second, 0);
}

#[test]
fn who_does_not_wait_is_told_who_works_or_that_it_is_a_pause() {
    let store = Store::new();
    let work = begin(&store, &["--why", "backup"]);
    let nobody = |args: &[&str]| store.run(&[&["once"], args, &["nightly", "--", "true"]].concat());
    nobody(&["-n"]).failed(75, "lock nightly is held by ");
    nobody(&["-n", "-E", "3"]).failed(3, "(backup) for ");
    nobody(&["-w", "0.05"]).failed(75, "gave up after 50ms (-w)");
    end(work, 1);
    let pause = "is not held, but 1 attempt failed, and the pause after the last one is not over";
    nobody(&["-n", "--pause", "1h"]).failed(75, pause);
    nobody(&["-n"]).quiet();
}

#[test]
fn work_is_given_up_after_so_many_attempts_until_it_is_undone() {
    let store = Store::new();
    let tried = |command: &str| store.run(&["once", "--attempts", "2", "nightly", "--", command]);
    for _ in 0..2 {
        assert_eq!(tried("false").code, 1);
    }
    tried("true").failed(70, "nightly was given up: 2 attempts failed (--attempts)");
    let undo = |args: &[&str]| store.run(&[&["undo", "nightly"], args].concat()).quiet();
    assert_eq!(undo(&[]).stdout, "nightly: forgotten, so it can run again\n");
    tried("true").quiet();
    assert_eq!(undo(&["--json"]).json()["undone"], true);
    assert_eq!(undo(&["--json"]).json()["undone"], false);
    assert_eq!(undo(&[]).stdout, "nightly: not done, nothing to undo\n");
    assert_eq!(store.show("nightly")["work"], Value::Null);
}

#[test]
fn json_is_one_line_after_what_the_command_printed() {
    let store = Store::new();
    let json = |command: &str| {
        let run = store.run(&["once", "--json", "-q", "nightly", "--", "sh", "-c", command]);
        let last = run.stdout.lines().last().expect("a line").to_owned();
        (run.code, serde_json::from_str::<Value>(&last).expect("JSON"))
    };
    let (code, failed) = json("echo out; exit 5");
    let expected = r#"{"code":5,"done":null,"name":"nightly","outcome":"failed"}"#;
    assert_eq!((code, failed.to_string().as_str()), (5, expected));
    let (code, did_it) = json("echo out");
    assert_eq!((code, &did_it["outcome"]), (0, &"did_it".into()));
    assert_eq!(did_it["done"], done(&store));
    let (code, before) = json("echo out");
    assert_eq!((code, &before["outcome"]), (0, &"done_before".into()));
    assert_eq!(before["done"], did_it["done"]);
}

#[test]
fn the_command_is_run_as_by_run() {
    let store = Store::new();
    let print = "echo $TAKETURNS_LOCK $TAKETURNS_TOKEN ${TAKETURNS_MEMBER-none}";
    let run = store.run(&["once", "nightly", "--", "sh", "-c", print]).quiet();
    let token = store.show("nightly")["last_token"].as_u64().expect("a token");
    assert_eq!(run.stdout, format!("nightly {token} none\n"));

    let inner = format!("{PROGRAM} once door -- echo in");
    let inside = store.run(&["once", "door", "--", "sh", "-c", &inner]);
    inside.failed(64, "lock door is held by the taketurns that started");

    let slow = ["once", "--max-hold", "0.3", "slow", "--", "sleep", "600"];
    let ended = store.run(&slow);
    assert_eq!(ended.code, 76, "{ended:?}");
    assert_eq!(store.show("slow")["work"]["failed"], 1);
}

#[test]
fn once_and_a_mutex_of_one_name_keep_apart() {
    let store = Store::new();
    store.run(&["once", "nightly", "--", "true"]).quiet();
    store
        .run(&["run", "nightly", "--", "true"])
        .failed(64, "make the store forget it with `taketurns undo`");
    let mut holder = store.hold(&["door"]);
    store
        .run(&["once", "door", "--", "true"])
        .failed(64, "lock door is in use as another kind (mutex)");
    holder.close_stdin();
}

#[test]
fn work_that_is_forgotten_runs_again() {
    let store = Store::new();
    let run =
        |args: &[&str]| store.run(&[&["once", "-q"], args, &["nightly", "echo", "in"]].concat());
    assert_eq!(run(&["--for", "1s"]).quiet().stdout, "in\n");
    until("it is forgotten", || run(&["--for", "1h"]).quiet().stdout == "in\n");
    assert_eq!(run(&["--for", "1h"]).quiet().stdout, "");
}

#[test]
fn bad_options_say_what_to_write() {
    let store = Store::new();
    let refused = |args: &[&str], why: &str| {
        store.run(&[&["once"], args, &["a", "--", "true"]].concat()).failed(64, why);
    };
    refused(&["--every", "nightly"], "--every nightly: write hour, day, week, a weekday");
    refused(&["--every", "day", "--for", "1h"], "cannot be used with");
    refused(&["--for", "32d"], "--for 32d: it is between 1 second and 31 days");
    refused(&["--attempts", "0"], "--attempts 0: ");
    refused(&["--pause", "2d"], "--pause 2d: it is at most 24 hours");
    refused(&["--result", "a\nb"], "--result \"a\\nb\": ");
}

#[test]
fn work_whose_record_the_store_does_not_confirm_says_so() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let store = Store::at(server.url());
    let log = store.path("log");
    let mut command = store.command(&["once", "--lease", "10", "nightly", "--", "sh", "-c", WORK]);
    let mut work = Running::start(command.stderr(File::create(&log).expect("a file")));
    assert_eq!(work.line(), "in");
    server.kill();
    end_as(work, 0, 69);
    let said = fs::read_to_string(log).expect("a file");
    assert!(
        said.contains("nightly: the command succeeded, but the store did not confirm"),
        "{said}"
    );
    assert!(said.contains("; if it is not, it runs again"), "{said}");
}

#[test]
fn every_store_but_a_quorum_remembers_work() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor).expect("a server");
        let store = Store::at(server.url());
        let once = |args: &[&str]| {
            store.run(&[&["once", "-q"], args, &["nightly", "echo", "in"]].concat())
        };
        assert_eq!(once(&["--every", "day"]).quiet().stdout, "in\n");
        assert_eq!(once(&["--every", "day"]).quiet().stdout, "");
        assert!(store.run(&["ls"]).ok().stdout.contains("done by "));
        store.run(&["undo", "nightly"]).ok();
        assert_eq!(once(&[]).quiet().stdout, "in\n");
    }
    let servers = [0; 3].map(|_| Server::start(Flavor::Redis).expect("a server"));
    let nodes = servers.each_ref().map(Server::url).join(",");
    for url in
        [format!("quorum:{nodes}"), format!("{}?protocol=plain&unfenced=ok", servers[0].url())]
    {
        let store = Store::at(url);
        store.run(&["once", "nightly", "--", "true"]).failed(64, "once");
        store.run(&["run", "--at-least", "1", "nightly", "--", "true"]).failed(64, "at_least");
    }
}

#[test]
fn a_lock_is_kept_from_others_for_a_while_even_if_the_command_is_quick() {
    let store = Store::new();
    let run = |args: &[&str]| store.run(&[&["run", "-n"], args, &["ping", "--", "true"]].concat());
    run(&["--at-least", "30"]).quiet();
    run(&[]).failed(75, "[ended, not free for 2");
    let holder = store.show("ping")["holders"][0].clone();
    assert_eq!(holder["resting"], true);
    assert!(holder["at_least_ms"].as_u64().is_some_and(|left| left <= 30_000), "{holder}");
    assert!(store.run(&["ls"]).ok().stdout.contains("[ended, not free for 2"));
    assert!(store.run(&["show", "ping"]).ok().stdout.contains("[ended, not free for 2"));
    store.run(&["break", "ping"]).ok();
    run(&[]).quiet();
    run(&["--at-least", "86401"])
        .failed(64, "--at-least 86401: it is between 0.01 s and the longest lease");
    let conflict: Done = store.run(&["run", "--at-least", "x", "ping", "--", "true"]);
    conflict.failed(64, "--at-least x: it is not a number of seconds");
}
