//! Only the client that is granted the lock sees its secret.

use std::thread;

use taketurns_servers::{Flavor, Server, ServerReply, eventually, on_both};

use crate::commands::client::{Client, Grant, replica_of, server, waiter};
use crate::commands::errors::bind;
use crate::words;

/// A program's owner, as long as real ones.
const OWNER: &str = "5ec2e75ec2e75ec2e75ec2e75ec2e75e";

/// Every command line that contains a secret, with and without mistakes.
fn lines(grant: &Grant) -> Vec<String> {
    let secret = grant.secret;
    vec![
        format!("FENCELOCK.RENEW k {secret} 600"),
        format!("FENCELOCK.RENEW k {secret} 600000 MS"),
        format!("FENCELOCK.RENEW k {secret} 0"),
        format!("FENCELOCK.RENEW k {secret} x"),
        format!("FENCELOCK.RENEW k {secret} 600 SECONDS"),
        format!("FENCELOCK.RENEW free {secret} 600"),
        format!("FENCELOCK.RENEW text {secret} 600"),
        format!("FENCELOCK.RELEASE free {secret}"),
        format!("FENCELOCK.RELEASE text {secret}"),
        format!("FENCELOCK.RELEASE k {secret}"),
        format!("FENCELOCK.RELEASE k {secret}"),
    ]
}

/// The same for a program, with a known and an unknown binding.
fn program_lines(binding: &str) -> Vec<String> {
    let p = "0000000000000007";
    let acquire = |client, ask| words::acquire((OWNER, client), ask, 60_000, "-", "a");
    let renew = words::renew(OWNER, p, 60_000);
    [binding, "0123456789abcdef"]
        .into_iter()
        .flat_map(|binding| {
            [
                format!("FENCELOCK.DO p {binding} {}", acquire(p, "m")),
                format!("FENCELOCK.DO p {binding} {}", acquire(p, "?")),
                format!("FENCELOCK.DO p {binding} {}", acquire("f000000000000007", "m")),
                format!("FENCELOCK.DO text {binding} {}", acquire(p, "m")),
                format!("FENCELOCK.DO p {binding} {renew}"),
                format!("FENCELOCK.DO p {binding} renew {OWNER}{p}"),
                format!("FENCELOCK.DO p {binding} release {OWNER} 0"),
                format!("FENCELOCK.DO p {binding} release {OWNER}"),
                format!("FENCELOCK.DO p {binding} release {OWNER} 0 0"),
                format!("FENCELOCK.DO p {binding} {renew}\t"),
                format!("FENCELOCK.DO p {binding} release {OWNER}\t0"),
            ]
        })
        .collect()
}

/// Sends everything, and fails if a reply repeats a secret.
fn say_all(server: &Server) -> Vec<String> {
    let mut client = Client::of(server);
    client.say("SET text x");
    let grant = client.take("k 600");
    let mut next = waiter(server, "k", "600 WAIT 0");
    let run = server.info("server").get("run_id").expect("a run").clone();
    let binding = bind(&mut client, &run).text().expect("a binding").to_owned();
    let secret = grant.secret.to_string();
    for line in lines(&grant).into_iter().chain(program_lines(&binding)) {
        let reply = client.say(&line).to_string();
        assert!(!reply.contains(&secret) && !reply.contains(OWNER), "{line}: {reply}");
    }
    let passed = Grant::of(&next.answer());
    for line in lines(&passed) {
        let replies = client.multi(&[line]);
        assert!(!replies[0].to_string().contains(&passed.secret.to_string()), "{replies:?}");
    }
    vec![secret, passed.secret.to_string(), OWNER.to_owned()]
}

#[track_caller]
fn nowhere(secrets: &[String], what: &str, text: &str) {
    for line in text.lines() {
        for secret in secrets {
            assert!(!line.contains(secret), "a secret in {what}: {line}");
        }
    }
}

/// Runs `act` under MONITOR; returns the secrets of `act`, and what MONITOR printed.
fn watched(server: &Server, act: impl FnOnce() -> Vec<String>) -> (Vec<String>, String) {
    let mut monitor = Client::of(server);
    assert!(monitor.say("MONITOR").is_ok());
    let seen = thread::spawn(move || {
        let mut text = String::new();
        while !text.contains("\"stop\"") {
            text += &format!("{}\n", monitor.answer());
        }
        text
    });
    let secrets = act();
    server.cli(&["ECHO", "stop"]);
    (secrets, seen.join().expect("a monitor"))
}

on_both! {
    fn no_secret_is_in_the_slow_log(flavor: Flavor) {
        let server = server(flavor);
        server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        server.cli(&["CONFIG", "SET", "slowlog-max-len", "10000"]);
        let secrets = say_all(&server);
        let log = server.cli(&["SLOWLOG", "GET", "10000"]);
        let entries: Vec<String> =
            log.array().expect("a log").iter().map(ServerReply::to_string).collect();
        let text = entries.join("\n");
        assert!(text.contains("FENCELOCK.RENEW") && text.contains("(redacted)"), "{text}");
        nowhere(&secrets, "the slow log", &text);
    }

    fn no_secret_is_seen_by_a_monitor(flavor: Flavor) {
        let server = server(flavor);
        let (secrets, seen) = watched(&server, || say_all(&server));
        assert!(seen.contains("FENCELOCK.RENEW") && seen.contains("(redacted)"), "{seen}");
        nowhere(&secrets, "MONITOR", &seen);
    }

    fn no_secret_is_seen_at_a_replica(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(&master);
        replica.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        replica.cli(&["CONFIG", "SET", "slowlog-max-len", "10000"]);
        let (secrets, seen) = watched(&replica, || {
            let secrets = say_all(&master);
            master.cli(&["SET", "last", "x"]);
            let last = || (replica.cli(&["EXISTS", "last"]) == ServerReply::Int(1)).then_some(());
            eventually("the replica has it all", last).expect("the last");
            secrets
        });
        nowhere(&secrets, "MONITOR", &seen);
        assert!(!seen.contains("FENCELOCK.APPLY"), "{seen}");
        let log = replica.cli(&["SLOWLOG", "GET", "10000"]).to_string();
        assert!(!log.contains("FENCELOCK.APPLY"), "{log}");
    }

    fn no_secret_is_shown(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let run = server.info("server").get("run_id").expect("a run").clone();
        let binding = bind(&mut client, &run).text().expect("a binding").to_owned();
        let grant = client.take("k 600");
        let mut waits = waiter(&server, "k", "600 WAIT 0 BOUND");
        let mut seen = String::new();
        for line in [
            "FENCELOCK.SHOW k",
            "FENCELOCK.LIST",
            "INFO everything",
            "CLIENT LIST",
            "LATENCY HISTOGRAM",
            "COMMAND DOCS fencelock.acquire",
            "OBJECT ENCODING k",
            "DEBUG OBJECT k",
        ] {
            seen += &format!("{}\n", client.say(line));
        }
        for verb in ["view 100", "refresh 0000000000000000 1000", "tick"] {
            let reply = client.lock(&format!("DO k {binding} {verb}"));
            assert!(reply.text().is_some(), "{verb}: {reply}");
            seen += &format!("{reply}\n");
        }
        client.give("k", &grant);
        let passed = Grant::of(&waits.answer());
        seen += &format!("{}\n{}\n", client.lock("SHOW k"), client.say("CLIENT LIST"));
        seen += &server.log();
        let secrets = [grant.secret, passed.secret].map(|secret| secret.to_string());
        nowhere(&secrets, "what is shown", &seen);
    }
}
