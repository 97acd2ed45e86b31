//! `elect`: one leads at a time, whatever becomes of leaders; and who leads can be seen.

use std::fs::{self, File};
use std::process::Stdio;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use taketurns_servers::{Flavor, Server};

use crate::cli::helper::{PROGRAM, Running, Store, is_alive, until};

/// Says its name, token and number, and works until it is told to end.
fn candidate(store: &Store, name: &str, options: &[&str]) -> Running {
    let script = format!("echo {name} $TAKETURNS_LOCK $TAKETURNS_TOKEN $$; exec sleep 1000");
    let args = [&["elect"], options, &["chief", "--", "sh", "-c", &script]].concat();
    let stderr = File::create(store.path(&format!("{name}.err"))).unwrap();
    Running::start(store.command(&args).stderr(Stdio::from(stderr)))
}

fn said(store: &Store, name: &str) -> String {
    fs::read_to_string(store.path(&format!("{name}.err"))).unwrap()
}

/// The token and the number of a candidate that has begun to lead.
fn leads(candidate: &mut Running, name: &str) -> (u64, Pid) {
    let line = candidate.line();
    let words: Vec<&str> = line.split(' ').collect();
    let [who, lock, token, pid] = words[..] else { panic!("it does not lead: {line:?}") };
    assert_eq!((who, lock), (name, "chief"));
    (token.parse().unwrap(), Pid::from_raw(pid.parse().unwrap()).unwrap())
}

fn observer(store: &Store) -> Running {
    store.start(&["elect", "--observe", "--json", "chief"])
}

/// The token of the next one who leads; `None` if nobody does.
fn seen(observer: &mut Running) -> Option<u64> {
    let told: Value = serde_json::from_str(&observer.line()).expect("a document");
    assert_eq!(told["election"], "chief");
    told["leader"]["token"].as_u64()
}

/// Kills the leader. The other candidate leads when the leader's lease ends.
fn the_other_takes_over(store: &Store) {
    let mut observer = observer(store);
    assert_eq!(seen(&mut observer), None);
    let mut one = candidate(store, "one", &["--lease", "3", "--why", "first"]);
    let (first, child) = leads(&mut one, "one");
    assert_eq!(seen(&mut observer), Some(first));
    let mut two = candidate(store, "two", &["--lease", "3"]);
    store.until_waiting("chief", 1);
    let shown = store.run(&["elect", "--leader", "--json", "chief"]).quiet().json();
    assert_eq!(
        (&shown["leader"]["token"], &shown["leader"]["why"]),
        (&first.into(), &"first".into())
    );
    one.kill();
    until("its command is gone with it", || !is_alive(child));
    let (second, _) = leads(&mut two, "two");
    assert!(second > first);
    // It may have looked when nobody led.
    let next = seen(&mut observer).or_else(|| seen(&mut observer));
    assert_eq!(next, Some(second));
    two.signal(Signal::TERM);
    assert_eq!(two.code(), 143);
    assert_eq!(seen(&mut observer), None, "it has resigned");
    assert_eq!(store.show("chief")["state"], "idle");
    observer.signal(Signal::TERM);
    assert_eq!(observer.code(), 143);
}

#[test]
fn when_the_leader_is_killed_the_other_takes_over() {
    the_other_takes_over(&Store::without_terminal());
}

#[test]
fn when_the_leader_is_killed_the_other_takes_over_on_a_server() {
    let server = Server::start(Flavor::Valkey).expect("a server");
    the_other_takes_over(&Store::at(server.url()));
}

#[test]
fn a_leader_that_is_broken_ends_its_command_and_is_elected_again_later() {
    let store = Store::without_terminal();
    let mut one = candidate(&store, "one", &[]);
    let (first, child) = leads(&mut one, "one");
    let mut two = candidate(&store, "two", &[]);
    store.until_waiting("chief", 1);
    store.run(&["break", "chief"]).ok();
    let (second, _) = leads(&mut two, "two");
    assert!(second > first);
    assert!(!is_alive(child), "it was gone before the next one led");
    store.until_waiting("chief", 1);
    two.signal(Signal::INT);
    assert_eq!(two.code(), 130);
    let (third, _) = leads(&mut one, "one");
    assert!(third > second);
    assert_eq!(
        said(&store, "one"),
        "taketurns: lock chief was lost: somebody broke it; the command was told to end\n\
         taketurns: standing by for election chief again\n"
    );
    one.signal(Signal::TERM);
    assert_eq!(one.code(), 143);
    assert_eq!(store.show("chief")["state"], "idle");
}

#[test]
fn whose_command_ends_resigns_and_exits_with_its_code() {
    let store = Store::new();
    for (command, code) in [("exit 0", 0), ("exit 76", 76), ("kill -9 $$", 137)] {
        let done = store.run(&["elect", "chief", "--", "sh", "-c", command]);
        assert_eq!((done.code, done.stderr.as_str()), (code, ""), "{command}");
        assert_eq!(store.show("chief")["state"], "idle");
    }
    store.run(&["elect", "chief", "--", "no-such-command"]).failed(127, "command not found");
    assert_eq!(store.show("chief")["state"], "idle");
}

#[test]
fn told_to_end_while_it_loses_the_lead_it_does_not_stand_by_again() {
    let store = Store::without_terminal();
    let script = "trap 'echo told' TERM; echo in; while :; do sleep 0.02; done";
    let mut one = store.start(&["elect", "--lease", "3", "chief", "--", "sh", "-c", script]);
    assert_eq!(one.line(), "in");
    one.signal(Signal::TERM);
    assert_eq!(one.line(), "told", "and goes on");
    store.run(&["break", "--now", "chief"]).ok();
    assert_eq!(one.code(), 76);
}

#[test]
fn while_standing_by_a_signal_ends_it() {
    let store = Store::without_terminal();
    let _leader = store.hold(&["chief"]);
    let mut one = candidate(&store, "one", &[]);
    store.until_waiting("chief", 1);
    one.signal(Signal::TERM);
    assert_eq!(one.code(), 143);
    store.until_waiting("chief", 0);
    assert_eq!(
        said(&store, "one"),
        "taketurns: lock chief was not acquired: gave up waiting on SIGTERM\n"
    );
}

#[test]
fn who_leads_is_told_and_if_nobody_does_that_is_a_code() {
    let store = Store::new();
    store.run(&["elect", "--leader", "chief"]).failed(75, "nobody leads election chief");
    let nobody = store.run(&["elect", "--leader", "--json", "chief"]);
    assert_eq!((nobody.code, nobody.stderr.as_str()), (75, ""));
    assert_eq!(nobody.stdout, "{\"election\":\"chief\",\"leader\":null}\n");
    let holder = store.hold(&["--why", "it was first", "chief"]);
    let token = store.show("chief")["last_token"].as_u64().unwrap();
    let told = store.run(&["elect", "--leader", "chief"]).quiet().stdout;
    assert!(told.starts_with("chief: led by "), "{told}");
    assert!(told.contains(&format!(" (it was first), token {token}, for ")), "{told}");
    holder.finish();
    let reader = store.hold(&["-s", "chief"]);
    store.run(&["elect", "--leader", "chief"]).failed(64, "is in use as another kind (rwlock)");
    store.run(&["elect", "chief", "--", "true"]).failed(64, "pass -x or -s, or wait");
    reader.finish();
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_watch() {
    let store = Store::new();
    let script = format!("{{ {PROGRAM} elect --observe chief; echo $? > code; }} | head -1");
    let mut watch = store.start(&["run", "other", "--", "sh", "-c", &script]);
    assert_eq!(watch.line(), "chief: nobody leads");
    let mut leader = candidate(&store, "one", &[]);
    leads(&mut leader, "one");
    assert_eq!(watch.code(), 0);
    assert_eq!(fs::read_to_string(store.path("code")).unwrap(), "0\n");
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let store = Store::new();
    store.run(&["elect", "chief"]).failed(64, "COMMAND");
    store.run(&["elect", "--observe", "chief", "--", "true"]).failed(64, "cannot be used with");
    store.run(&["elect", "--observe", "--leader", "chief"]).failed(64, "cannot be used with");
    store.run(&["elect", "--json", "chief", "--", "true"]).failed(64, "--observe");
    let inside = format!("{PROGRAM} elect chief -- echo in");
    let nested = store.run(&["elect", "chief", "--", "sh", "-c", &inside]);
    nested.failed(64, "lock chief is held by the taketurns that started");
}
