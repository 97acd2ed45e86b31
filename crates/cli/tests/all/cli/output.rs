//! What the commands print, for people and as JSON; and the shell's own way to hold a lock.

use serde_json::json;

use crate::cli::helper::{Done, Store, in_vain};

#[test]
fn acquire_renew_and_release_hold_a_lock_from_the_shell() {
    let store = Store::new();
    let handle = store.run(&["acquire", "--lease", "40", "door"]).ok().stdout;
    assert_eq!(handle.lines().count(), 1);
    let with = |args: &[&str]| Done::of(store.command(args).env("TAKETURNS_HANDLE", handle.trim()));
    assert_eq!(store.show("door")["state"], "held");
    let who = store.show("door")["holders"][0]["who"].as_str().unwrap().to_owned();
    let us = format!(":{} acquire", std::process::id());
    assert!(who.ends_with(&us), "the holder is shown as the process that started it: {who}");
    store.run(&["run", "-n", "door", "--", "true"]).failed(75, "door is held by ");

    let token = store.show("door")["last_token"].clone();
    let renewed = with(&["renew", "--lease", "50", "--json"]).ok().json();
    assert_eq!((&renewed["lock"], &renewed["token"]), (&json!("door"), &token));
    let valid_for_ms = renewed["valid_for_ms"].as_u64().unwrap();
    assert!((30_000..50_000).contains(&valid_for_ms), "{valid_for_ms}");
    assert!(with(&["renew"]).ok().stdout.starts_with("lock door is held for "));

    assert_eq!(with(&["release", "--json"]).ok().json(), json!({"lock": "door", "token": token}));
    assert_eq!(store.show("door")["state"], "idle");
    with(&["release"]).failed(76, "not held");
    with(&["renew"]).failed(76, "not held");
}

#[test]
fn a_handle_is_of_the_lock_whose_name_it_has_also_if_that_ends_with_a_space() {
    let store = Store::new();
    let handle = store.run(&["acquire", "door "]).ok().stdout;
    let with = |args: &[&str]| Done::of(store.command(args).env("TAKETURNS_HANDLE", &handle));
    assert_eq!(with(&["renew", "--json"]).ok().json()["lock"], "door ");
    with(&["release"]).ok();
    assert_eq!(store.show("door ")["state"], "idle");
}

#[test]
fn a_handle_may_come_on_stdin_and_is_shown_nowhere_else() {
    let store = Store::new();
    let (_, acquired) =
        in_vain(|wait| store.run(&["acquire", "--json", "--pool", "-w", wait, "rooms"]));
    acquired.failed(75, "rooms");
    store.run(&["pool", "add", "rooms", "blue"]).ok();
    let acquired = store.run(&["acquire", "--json", "--pool", "rooms"]).ok().json();
    assert_eq!((&acquired["lock"], &acquired["member"]), (&json!("rooms"), &json!("blue")));
    assert!(acquired["valid_for_ms"].as_u64().unwrap() <= 30_000);
    let handle = acquired["handle"].as_str().unwrap();
    let secret = handle.split('.').nth(1).unwrap();
    for args in [&["show", "rooms"][..], &["show", "--json", "rooms"], &["ls", "--json"]] {
        assert!(!store.run(args).ok().stdout.contains(secret));
    }
    let file = store.path("handle");
    std::fs::write(&file, handle).unwrap();
    let mut release = store.command(&["release"]);
    Done::of(release.stdin(std::fs::File::open(file).unwrap())).ok();
    assert_eq!(store.show("rooms")["state"], "idle");
}

#[test]
fn a_handle_that_nobody_could_read_is_released() {
    let store = Store::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut acquire = store.command(&["acquire", "door"]);
    let status = acquire.stdout(full).stderr(std::process::Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(74));
    assert_eq!(store.show("door")["state"], "idle");
}

#[test]
fn a_handle_whose_reader_went_away_is_released_and_was_not_acquired() {
    let store = Store::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut acquire = store.command(&["acquire", "door"]);
    assert_eq!(acquire.stdout(writer).status().unwrap().code(), Some(74));
    assert_eq!(store.show("door")["state"], "idle");
}

#[test]
fn ls_lists_what_matches_by_name() {
    let store = Store::new();
    assert_eq!(store.run(&["ls", "--json"]).ok().json(), json!({"locks": []}));
    store.run(&["run", "orders/2", "--", "true"]).ok();
    let holder = store.hold(&["orders/1"]);
    store.run(&["run", "-s", "other", "--", "true"]).ok();

    let text = store.run(&["ls", "orders/*"]).ok().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("LOCK      KIND   WAITING  HELD") && lines[0].ends_with(" HOLDER"),
        "{text}"
    );
    assert!(lines[1].starts_with("orders/1  mutex  0") && lines[1].ends_with(" sh"), "{text}");
    assert!(lines[2].starts_with("orders/2  mutex  0") && lines[2].ends_with(" nobody"), "{text}");
    assert_eq!(lines.len(), 3);

    let listed = store.run(&["ls", "--json"]).ok().json();
    let names: Vec<&str> =
        listed["locks"].as_array().unwrap().iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["orders/1", "orders/2", "other"]);
    assert_eq!(listed["locks"][2]["kind"], "rwlock");
    holder.finish();
}

#[test]
fn show_has_all_documented_fields() {
    let store = Store::new();
    let unused = json!({
        "name": "x", "kind": null, "permits": null, "state": "unused", "quarantine_ms": null, "last_token": null,
        "holders": [], "waiting": 0, "waiters": [], "members": [], "work": null
    });
    assert_eq!(store.show("x"), unused);
    assert_eq!(store.run(&["show", "x"]).ok().stdout, "x: unused\n");

    let holder = store.hold(&["--permits", "2/3", "--why", "w", "gpu"]);
    let shown = store.show("gpu");
    assert_eq!(shown["kind"], "semaphore");
    assert_eq!(shown["permits"], 3);
    let mut first = shown["holders"][0].clone();
    for varying in ["who", "client", "token", "held_ms", "left_ms"] {
        assert!(!first[varying].is_null(), "{varying}");
        first[varying] = json!(0);
    }
    let expected = json!({
        "who": 0, "why": "w", "client": 0, "mode": "permits", "permits": 2, "token": 0,
        "member": null, "held_ms": 0, "left_ms": 0, "broken": false, "at_least_ms": null,
        "resting": false
    });
    assert_eq!(first, expected);
    holder.finish();
    let text = store.run(&["show", "gpu"]).ok().stdout;
    assert!(text.starts_with("gpu: semaphore of 3, idle, last token "), "{text}");
}

#[test]
fn show_has_all_documented_fields_of_waiters_and_members() {
    let store = Store::new();
    store.run(&["pool", "add", "rooms", "blue"]).ok();
    let holder = store.hold(&["--pool", "rooms"]);
    assert_eq!(store.show("rooms")["holders"][0]["member"], "blue");
    assert_eq!(
        store.show("rooms")["members"],
        json!([{"name": "blue", "held": true, "leaving": false, "stale": false}])
    );
    let _waiter =
        store.start(&["run", "--pool", "--member", "blue", "--why", "w", "rooms", "--", "true"]);
    store.until_waiting("rooms", 1);
    let mut waiter = store.show("rooms")["waiters"][0].clone();
    for varying in ["who", "client", "waited_ms"] {
        assert!(!waiter[varying].is_null(), "{varying}");
        waiter[varying] = json!(0);
    }
    let expected = json!({
        "place": 1, "who": 0, "why": "w", "client": 0, "mode": "member", "permits": null,
        "member": "blue", "waited_ms": 0
    });
    assert_eq!(waiter, expected);
    holder.finish();
}

#[test]
fn show_has_all_documented_fields_of_work() {
    let store = Store::new();
    store.run(&["once", "--why", "w", "--result", "r", "nightly", "--", "true"]).quiet();
    let shown = store.show("nightly");
    let mut work = shown["work"].clone();
    for varying in ["/forgotten_ms", "/done/who", "/done/token", "/done/at_ms", "/done/until_ms"] {
        let value = work.pointer_mut(varying).expect(varying);
        assert!(!value.is_null(), "{varying}");
        *value = json!(0);
    }
    let expected = json!({"failed": 0, "retry_ms": null, "forgotten_ms": 0, "done": {
        "who": 0, "why": "w", "token": 0, "at_ms": 0, "until_ms": 0, "failed": 0, "result": "r"}});
    assert_eq!((work, &shown["kind"]), (expected, &json!("once")));
}

#[test]
fn pool_members_are_added_listed_and_removed() {
    let store = Store::new();
    assert_eq!(
        store.run(&["pool", "add", "rooms", "blue", "red"]).ok().stdout,
        "blue added\nred added\n"
    );
    let changes = store.run(&["pool", "add", "--json", "rooms", "red", "green"]).ok().json();
    let expected = json!({"pool": "rooms", "members": [
        {"name": "red", "changed": false}, {"name": "green", "changed": true}]});
    assert_eq!(changes, expected);

    let holder = store.hold(&["--pool", "--member", "red", "rooms"]);
    assert_eq!(
        store.run(&["pool", "rm", "rooms", "red", "x"]).ok().stdout,
        "red removed\nx was not there\n"
    );
    let text = store.run(&["pool", "ls", "rooms"]).ok().stdout;
    assert!(text.contains("held, leaving") && text.starts_with("MEMBER  STATE"), "{text}");
    holder.finish();
    let members = store.run(&["pool", "ls", "--json", "rooms"]).ok().json()["members"].clone();
    let free = |name| json!({"name": name, "held": false, "leaving": false, "stale": false});
    let mut names = members.as_array().unwrap().clone();
    names.sort_by_key(|member| member["name"].as_str().unwrap().to_owned());
    assert_eq!(names, [free("blue"), free("green")]);

    let mutex = store.hold(&["door"]);
    store.run(&["pool", "add", "door", "m"]).failed(64, "door is in use as another kind (mutex)");
    store.run(&["pool", "ls", "door"]).failed(64, "door is a mutex, not a pool");
    mutex.finish();
    assert_eq!(store.run(&["pool", "ls", "nope"]).ok().stdout, "nope has no members\n");
}
