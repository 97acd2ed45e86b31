//! What programs and Prometheus ask.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::json;
use taketurns_servers::{Flavor, Server};

use super::http::{ask, get};
use super::{Serving, TOKEN, command};
use crate::cli::helper::{Done, Store, until};

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_lock_in_a_file_is_listed_shown_and_counted() {
    a_lock_is_listed_shown_and_counted(&Store::new());
}

pub(crate) fn a_lock_is_listed_shown_and_counted(store: &Store) {
    let serving = Serving::start(store, &[]);
    let at = &serving.at;
    let _holder = store.hold(&["--why", "first", "door"]);
    let _next = store.start(&["run", "door", "--", "true"]);
    until("both are seen", || get(at, "/api/status").json()["totals"]["waiting"] == 1);

    let listed = get(at, "/api/locks?filter=first").json();
    assert_eq!((&listed["matching"], &listed["locks"][0]["name"]), (&json!(1), &json!("door")));
    assert_eq!(get(at, "/api/locks?filter=nobody").json()["matching"], 0);
    let shown = get(at, "/api/lock?name=door").json();
    let mut by_program = store.show("door");
    for (part, field) in [("holders", "held_ms"), ("holders", "left_ms"), ("waiters", "waited_ms")]
    {
        by_program[part][0][field] = shown[part][0][field].clone();
    }
    assert_eq!(shown, by_program, "the same as `show --json` has it");
    assert_eq!(get(at, "/api/lock?name=new").json()["state"], "unused");
    assert_eq!(get(at, "/api/turns").json()["turns"][0]["why"], "first");

    let metrics = get(at, "/metrics");
    assert!(metrics.header("content-type").is_some_and(|kind| kind.contains("version=0.0.4")));
    for line in ["taketurns_store_up 1", "taketurns_store_lock_waiting{lock=\"door\"} 1"] {
        assert!(
            metrics.body.lines().any(|found| found == line),
            "{line} is not in {}",
            metrics.body
        );
    }
    assert_eq!(get(at, "/healthz").body, "ok\n");
}

#[test]
fn the_first_picture_is_there_at_once_and_has_all() {
    let store = Store::new();
    let _holder = store.hold(&["door"]);
    // It looks once, and not again while this test runs.
    let serving = Serving::start(&store, &["--every", "3600"]);
    until("it has looked", || get(&serving.at, "/healthz").status == 200);
    let events = get(&serving.at, "/api/events?pictures=1").body;
    assert!(events.contains("event: picture") && events.contains("\"lock\":\"door\""), "{events}");
}

#[test]
fn a_turn_is_told_of_once_as_long_as_nothing_is_new() {
    let store = Store::new();
    let _holder = store.hold(&["door"]);
    let serving = Serving::start(&store, &[]);
    let events = get(&serving.at, "/api/events?pictures=3").body;
    assert_eq!(events.matches("event: picture").count(), 3, "{events}");
    assert_eq!(events.matches("\"lock\":\"door\"").count(), 1, "{events}");
}

#[test]
fn a_break_needs_the_token_a_reason_and_the_same_site() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let at = &serving.at;
    let mut holder = store.hold(&["door"]);
    let bearer = format!("Bearer {TOKEN}");
    let auth = ("Authorization", bearer.as_str());
    let order = r#"{"name": "door", "why": "a test"}"#;
    let post = |headers: &[(&str, &str)], body: &str| ask(at, "POST", "/api/break", headers, body);

    assert_eq!(post(&[JSON], order).status, 401);
    assert_eq!(post(&[JSON, ("Authorization", "Bearer wrong")], order).status, 401);
    assert_eq!(post(&[JSON, auth, ("Origin", "http://evil.example")], order).status, 403);
    assert_eq!(post(&[JSON, auth, ("Sec-Fetch-Site", "cross-site")], order).status, 403);
    assert_eq!(post(&[JSON, auth, ("Host", "evil.example")], order).status, 403);
    assert_eq!(post(&[auth], order).status, 415, "a form of another site could send that");
    assert_eq!(post(&[JSON, auth], r#"{"name": "door", "why": " "}"#).status, 400);
    assert_eq!(post(&[JSON, auth], r#"{"name": "door"}"#).status, 422);
    assert_eq!(post(&[JSON, auth], r#"{"name": "door", "why": "x", "token": 1.5}"#).status, 400);
    let other = r#"{"name": "door", "why": "x", "token": 1}"#;
    assert_eq!(post(&[JSON, auth], other).json()["broken"], 0, "no holder has that token");
    assert_eq!(store.show("door")["holders"][0]["broken"], false);

    let origin = format!("http://{at}");
    let broken = post(&[JSON, auth, ("Origin", &origin)], order);
    assert_eq!(broken.json(), json!({"lock": "door", "broken": 1, "at_once": false}));
    assert_eq!(holder.code(), 76);
    let metrics = get(at, "/metrics").body;
    assert!(metrics.contains("\ntaketurns_store_breaks_total 1\n"), "{metrics}");
}

#[test]
fn what_was_broken_and_why_stands_in_the_log() {
    let store = Store::new();
    let log = store.path("log");
    let mut command = command(&store, &[]);
    let serving = Serving::of(command.stderr(std::fs::File::create(&log).unwrap()));
    let bearer = format!("Bearer {TOKEN}");
    let order = r#"{"name": "door", "why": "ticket 812", "at_once": true}"#;
    ask(&serving.at, "POST", "/api/break", &[JSON, ("Authorization", &bearer)], order);
    let log = std::fs::read_to_string(log).unwrap();
    let said = "taketurns: door broken for 0 (at once: true) by 127.0.0.1:";
    assert!(log.starts_with(said) && log.ends_with(": ticket 812\n"), "{log}");
}

#[test]
fn what_is_not_shown_can_be_neither_asked_for_nor_broken() {
    let store = Store::new();
    let _held = ["orders/1", "private"].map(|lock| store.hold(&[lock]));
    let serving = Serving::start(&store, &["orders/*"]);
    let at = &serving.at;
    assert_eq!(get(at, "/api/lock?name=orders/1").json()["state"], "held");
    assert_eq!(get(at, "/api/lock?name=private").status, 404);
    let bearer = format!("Bearer {TOKEN}");
    let order = r#"{"name": "private", "why": "a test"}"#;
    let broken = ask(at, "POST", "/api/break", &[JSON, ("Authorization", &bearer)], order);
    assert_eq!(broken.status, 404);
    assert_eq!(store.show("private")["holders"][0]["broken"], false);
}

#[test]
fn nothing_that_is_told_has_a_secret_in_it() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let handle = store.run(&["acquire", "--lease", "60", "door"]).ok().stdout;
    let secret = handle.split('.').nth(1).unwrap();
    until("it is seen", || get(&serving.at, "/api/status").json()["totals"]["held"] == 1);
    for path in [
        "/api/status",
        "/api/locks",
        "/api/lock?name=door",
        "/api/turns",
        "/metrics",
        "/api/events?pictures=1",
    ] {
        let answer = get(&serving.at, path);
        assert_eq!(answer.status, 200);
        assert!(!answer.body.contains(secret) && !answer.body.contains(TOKEN), "{path}");
    }
}

#[test]
fn what_is_closed_tells_nothing_without_the_token() {
    let store = Store::new();
    let serving = Serving::start(&store, &["--closed"]);
    let bearer = format!("Bearer {TOKEN}");
    for path in
        ["/api/status", "/api/locks", "/api/lock?name=a", "/api/turns", "/api/waits", "/metrics"]
    {
        let refused = get(&serving.at, path);
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Bearer")),
            "{path}"
        );
        let answer = ask(&serving.at, "GET", path, &[("Authorization", &bearer)], "");
        assert_eq!(answer.status, 200, "{path}");
    }
    for path in ["/", "/page.js", "/page.css", "/icon.svg", "/openapi.json"] {
        let answer = get(&serving.at, path);
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    }
}

#[test]
fn bad_requests_are_told_what_is_wrong_with_them() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let cases = [
        ("/api/lock", 400, "name"),
        ("/api/lock?name=", 400, "must not be empty"),
        ("/api/lock?name=a%00b", 400, "control"),
        ("/api/locks?limit=0", 400, "between 1 and 1000"),
        ("/api/locks?limit=x", 400, "limit"),
        ("/api/locks?sort=colour", 400, "colour"),
        ("/api/locks?limits=1", 400, "limits"),
        ("/api/events?pictures=0", 400, "1 or more"),
        ("/nowhere", 404, "there is no /nowhere"),
    ];
    for (path, status, saying) in cases {
        let answer = get(&serving.at, path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.error().contains(saying), "{path}: {}", answer.error());
    }
    let deleted = ask(&serving.at, "DELETE", "/api/locks", &[], "");
    assert_eq!((deleted.status, deleted.header("allow")), (405, Some("GET,HEAD")));
}

#[test]
fn what_can_not_be_served_is_said_in_one_line() {
    let store = Store::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    store.run(&["serve", "--listen", &address]).failed(69, "can't be listened on");
    store.run(&["serve", "--listen", "0.0.0.0:0"]).failed(64, "give a token");
    store
        .run(&["serve", "--listen", "nonsense"])
        .failed(64, "--listen nonsense: not an IP address with a port");
    store.run(&["serve", "--closed"]).failed(64, "give a token");
    store.run(&["serve", "--token-file", "/nonexistent"]).failed(64, "can't read it");
    let mut short = store.command(&["serve"]);
    Done::of(short.env("TAKETURNS_SERVE_TOKEN", "short")).failed(64, "fewer than 16 characters");
}

#[test]
fn it_ends_well_when_told_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut serving = Serving::start(&Store::new(), &[]);
        serving.running.signal(signal);
        assert_eq!(serving.running.code(), 0);
    }
}

#[test]
fn a_store_that_does_not_answer_is_told_of() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let store = Store::at(server.url());
    let serving = Serving::start(&store, &[]);
    let at = &serving.at;
    until("it is up", || get(at, "/healthz").status == 200);
    server.kill();
    until("it is down", || get(at, "/healthz").status == 503);
    let status = get(at, "/api/status").json();
    assert_eq!(status["up"], false);
    assert!(status["error"].as_str().is_some_and(|why| !why.is_empty()), "{status}");
    assert!(get(at, "/metrics").body.contains("taketurns_store_up 0\n"));
    server.restart().expect("it starts again");
    until("it is up again", || get(at, "/healthz").status == 200);
}

#[test]
fn those_who_watch_cost_the_store_nothing() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let store = Store::at(server.url());
    let serving = Serving::start(&store, &[]);
    let at = &serving.at;
    until("it has looked", || get(at, "/healthz").status == 200);
    let looks = || -> (u64, u64) {
        let metrics = get(at, "/metrics").body;
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("taketurns_store_listings_total "));
        let stats = server.cli(&["INFO", "commandstats"]).text().unwrap_or_default().to_owned();
        let scan = stats.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
        let scans = scan.and_then(|rest| rest.split(',').next()?.parse().ok());
        (line.unwrap().parse().unwrap(), scans.unwrap_or(0))
    };
    // Each look begins with one SCAN, with few locks, however many listen and ask meanwhile.
    let viewers: Vec<_> = (0..8)
        .map(|_| {
            let at = at.clone();
            std::thread::spawn(move || get(&at, "/api/events?pictures=5").body)
        })
        .collect();
    for _ in 0..50 {
        get(at, "/api/locks");
    }
    for viewer in viewers {
        assert_eq!(viewer.join().unwrap().matches("event: picture").count(), 5);
    }
    let (before, _) = looks();
    let (_, scans) = looks();
    let (after, _) = looks();
    assert!((before..=after + 1).contains(&scans), "{before} ≤ {scans} ≤ {after} + 1");
}
