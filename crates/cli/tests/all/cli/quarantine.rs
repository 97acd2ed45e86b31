//! After a restart nothing is granted until every lease is over that the server may have forgotten:
//! how that is shown, how it is waited for, and that it ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taketurns_servers::{Builder, Flavor, ReplicaSet, Server, ServerClock, on_both};

use crate::cli::helper::{Done, Running, Store, in_vain, until};

const CAUSE: &str = "its store was restarted or failed over";

/// A server that remembers all that it has answered. With the usual `everysec` a write may be put off
/// while another is being synced, and then a restart forgets it.
pub(crate) fn keeping(flavor: Flavor) -> Server {
    keeping_all(Server::builder(flavor)).start().expect("a server")
}

fn keeping_all(builder: Builder) -> Builder {
    builder.appendonly(true).args(["--appendfsync", "always"])
}

/// The same with a clock that the test sets, so that a quarantine lasts until the test has seen it.
pub(crate) fn keeping_by(flavor: Flavor) -> (Server, ServerClock) {
    let clock = ServerClock::ahead(0).expect("a clock");
    let server = keeping_all(Server::builder(flavor)).clock(&clock).start().expect("a server");
    (server, clock)
}

/// Sets the clock past the end of the quarantine.
pub(crate) fn let_it_end(clock: &ServerClock) {
    clock.set(62).expect("set");
}

/// One that was used, and restarted since.
fn restarted(flavor: Flavor, use_it: impl FnOnce(&Store)) -> (Server, Store) {
    let server = keeping(flavor);
    let store = Store::at(server.url());
    use_it(&store);
    server.restart().expect("it starts again");
    (server, store)
}

/// For how long, which is at most a minute, and with Sentinel a second more, for as long as the old
/// master may have gone on taking writes. What comes first may take a few seconds of it.
#[track_caller]
fn is_in_quarantine(shown: &Value) {
    let left_ms = shown["quarantine_ms"].as_u64().unwrap_or_else(|| panic!("{shown}"));
    assert!((1..=61_000).contains(&left_ms), "{shown}");
}

on_both! {
    fn a_quarantine_is_shown_by_show_and_ls_for_people_and_as_json(flavor: Flavor) {
        let (_server, store) = restarted(flavor, |store| {
            store.run(&["run", "door", "--", "true"]).quiet();
        });
        let shown = store.run(&["show", "door"]).quiet().stdout;
        assert!(shown.starts_with("door: mutex, idle, last token "), "{shown}");
        let end = "s (store restarted or failed over; not granted until then)\n";
        assert!(shown.contains(", in quarantine for ") && shown.ends_with(end), "{shown}");
        let shown = store.show("door");
        is_in_quarantine(&shown);
        assert_eq!((&shown["kind"], &shown["state"]), (&json!("mutex"), &json!("idle")));

        let listed = store.run(&["ls"]).quiet().stdout;
        assert!(listed.contains("nobody [quarantine ") && listed.ends_with("s]\n"), "{listed}");
        is_in_quarantine(&store.run(&["ls", "--json"]).quiet().json()["locks"][0]);
    }

    fn a_lock_that_is_not_known_is_shown_as_unused_and_in_quarantine(flavor: Flavor) {
        let (_server, store) = restarted(flavor, |store| {
            store.run(&["run", "door", "--", "true"]).quiet();
        });
        let shown = store.run(&["show", "other"]).quiet().stdout;
        assert!(shown.starts_with("other: unused, in quarantine for "), "{shown}");
        let shown = store.show("other");
        is_in_quarantine(&shown);
        assert_eq!((&shown["kind"], &shown["state"]), (&json!(null), &json!("unused")));
        let members = store.run(&["pool", "ls", "other"]).quiet().stdout;
        assert_eq!(members, "other has no members\n", "and it is no mutex either");
    }

    fn a_wait_that_is_too_short_ends_with_75_and_the_reason(flavor: Flavor) {
        let (_server, store) = restarted(flavor, |store| {
            store.run(&["run", "door", "--", "true"]).quiet();
        });
        let saying = format!("s more: {CAUSE}, and grants nothing until every lease");
        for lock in ["door", "never used"] {
            let run = |how: &[&str]| store.run(&[&["run"], how, &[lock, "--", "echo", "never"]].concat());
            let acquire = |how: &[&str]| store.run(&[&["acquire", "--json"], how, &[lock]].concat());
            let (_, run_in_vain) = in_vain(|wait| run(&["-w", wait]));
            let (_, acquire_in_vain) = in_vain(|wait| acquire(&["-w", wait]));
            for done in [run(&["-n"]), run_in_vain, run(&["-v", "-n"])] {
                done.failed(75, &saying);
            }
            for done in [acquire(&["-n"]), acquire_in_vain, acquire(&["-v", "-n"])] {
                done.failed(75, &format!("lock {lock} is in quarantine for "));
            }
        }
        store.run(&["run", "-n", "-E", "3", "door", "--", "true"]).failed(3, &saying);
    }

    fn what_is_held_can_be_renewed_and_released_meanwhile(flavor: Flavor) {
        let mut handle = String::new();
        let (_server, store) = restarted(flavor, |store| {
            let acquired = store.run(&["acquire", "--lease", "55", "door"]).quiet().stdout;
            handle = acquired.trim().to_owned();
        });
        let with = |args: &[&str]| Done::of(store.command(args).env("TAKETURNS_HANDLE", &handle));
        let shown = store.show("door");
        is_in_quarantine(&shown);
        assert_eq!(shown["state"], "held");
        with(&["renew"]).quiet();
        with(&["release"]).quiet();
        assert_eq!(store.show("door")["state"], "idle");
    }

    fn a_waiter_is_told_why_once_and_granted_when_it_is_over(flavor: Flavor) {
        let server = keeping(flavor);
        let store = Store::at(format!("{}?max_lease=4", server.url()));
        let run = ["run", "--lease", "4", "door", "--", "echo", "in"];
        store.run(&run).quiet();
        server.restart().expect("it starts again");

        let since = Instant::now();
        let done = store.run(&run).ok();
        let waited = since.elapsed();
        assert!(waited >= Duration::from_secs(4), "the longest lease may not be over: {waited:?}");
        assert_eq!(done.stdout, "in\n");
        let said = format!("taketurns: lock door: in quarantine: {CAUSE} (");
        assert!(done.stderr.starts_with(&said), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        store.run(&run).quiet();
        assert_eq!(store.show("door")["quarantine_ms"], json!(null));
    }

    fn a_waiter_keeps_its_place_over_a_restart_and_is_told(flavor: Flavor) {
        let (server, clock) = keeping_by(flavor);
        let store = Store::at(server.url());
        let holder = store.hold(&["--lease", "60", "door"]);
        let errors = store.path("errors");
        let mut waiter = store.command(&["run", "door", "--", "echo", "in"]);
        let mut waiter = Running::start(waiter.stderr(std::fs::File::create(&errors).unwrap()));
        store.until_waiting("door", 1);
        server.restart().expect("it starts again");
        holder.finish();
        let said = || std::fs::read_to_string(&errors).unwrap();
        let told = || said().contains("in quarantine, and grants nothing until it is over");
        until("the waiter is told", told);
        let_it_end(&clock);
        assert_eq!(waiter.line(), "in");
        assert_eq!(waiter.code(), 0);
        let said = said();
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    fn a_fail_over_by_sentinel_is_shown_as_a_quarantine_too(flavor: Flavor) {
        let set = ReplicaSet::builder(flavor).min_replicas(true).start().expect("a set");
        let store = Store::at(set.url());
        store.run(&["run", "door", "--", "true"]).quiet();
        let master = set.master().expect("a master");
        let offset = |server: &Server, of: &str| -> u64 {
            server.info("replication").get(of).map_or(0, |offset| offset.parse().unwrap())
        };
        let written = offset(master, "master_repl_offset");
        for replica in set.replicas().expect("replicas") {
            let has_all = || offset(replica, "slave_repl_offset") >= written;
            until("a replica has all that was written", has_all);
        }
        master.kill();
        // Until there is another master, nobody answers.
        until("the new master answers", || store.run(&["show", "door"]).code == 0);
        is_in_quarantine(&store.show("door"));
        store.run(&["run", "-n", "door", "--", "true"]).failed(75, CAUSE);
    }
}
