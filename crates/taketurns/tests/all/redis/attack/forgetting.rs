//! A single server that forgets: for how long it grants nothing, and whether everybody knows.

use std::time::{Duration, Instant};

use taketurns::Name;
use taketurns_core::wire::Head;
use taketurns_servers::{Flavor, Server, ServerReply, eventually, on_both};

use super::party::{
    AttemptResult, Party, assert_quarantined, assert_quarantined_since, on_runtime,
};

/// Long enough that nothing of it passes during a test.
const LONG: Duration = Duration::from_secs(600);
/// Short enough to be waited for.
const SHORT: Duration = Duration::from_secs(1);
const MARKER: &str = "tt:\u{1}run";

fn long(server: &Server) -> String {
    format!("{}?max_lease=600", server.url())
}

fn short(server: &Server) -> String {
    format!("{}?max_lease={}", server.url(), SHORT.as_secs())
}

fn marker(server: &Server) -> String {
    server.cli(&["GET", MARKER]).text().expect("a marker").to_owned()
}

on_both! {
    fn a_server_that_forgot_grants_nothing_for_anybodys_longest_lease(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let holder = Party::open(&long(&server), 1).await;
            let other = Party::open(&short(&server), 2).await;
            other.use_once("used", 20).await;
            assert_eq!(holder.acquire("held", 10, 600_000).await, AttemptResult::Granted);
            server.cli(&["FLUSHALL"]);
            assert_quarantined(other.acquire("held", 21, 1_000).await, LONG);
        });
    }

    fn a_newcomer_does_not_take_a_flushed_server_for_a_fresh_one(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let holder = Party::open(&long(&server), 1).await;
            assert_eq!(holder.acquire("held", 10, 600_000).await, AttemptResult::Granted);
            server.cli(&["FLUSHALL"]);
            let newcomer = Party::open(&long(&server), 2).await;
            assert_quarantined(newcomer.acquire("held", 20, 1_000).await, LONG);
        });
    }

    fn so_it_does_if_the_longer_lease_came_after_we_had_looked(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let other = Party::open(&short(&server), 2).await;
            other.use_once("used", 20).await;
            let holder = Party::open(&long(&server), 1).await;
            assert_eq!(holder.acquire("held", 10, 600_000).await, AttemptResult::Granted);
            other.use_once("used", 21).await;
            server.cli(&["FLUSHALL"]);
            assert_quarantined(other.acquire("held", 22, 1_000).await, LONG);
        });
    }

    fn a_restart_without_its_data_counts_with_anybodys_longest_lease(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let holder = Party::open(&long(&server), 1).await;
            let other = Party::open(&short(&server), 2).await;
            assert_eq!(holder.acquire("held", 10, 600_000).await, AttemptResult::Granted);
            server.restart().expect("it starts again");
            assert_quarantined(other.acquire("held", 21, 1_000).await, LONG);
        });
    }

    fn a_quarantine_that_one_client_finds_necessary_is_for_locks_in_use_too(
        flavor: Flavor
    ) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let old = Party::open(&long(&server), 1).await;
            old.use_once("used", 10).await;
            server.cli(&["FLUSHALL"]);
            // To one who knows nothing of the past it is a first use, if the witness is gone too.
            server.cli(&["SCRIPT", "FLUSH"]);
            let newcomer = Party::open(&long(&server), 2).await;
            newcomer.use_once("new", 20).await;
            assert_quarantined(old.acquire("used", 11, 1_000).await, LONG);
            assert_quarantined(newcomer.acquire("new", 21, 1_000).await, LONG);
        });
    }

    fn a_master_that_was_a_replica_meanwhile_grants_nothing_at_first(flavor: Flavor) {
        on_runtime(async {
            let first = Server::start(flavor).expect("a server");
            let second = Server::builder(flavor).replica_of(first.port()).start().expect("another");
            let sleeper = Party::open(&short(&first), 1).await;
            sleeper.use_once("l", 10).await;
            let follows = |who: &Server, marker: &str| {
                eventually("the replica has it", || {
                    (who.cli(&["GET", MARKER]).text() == Some(marker)).then_some(())
                }).expect("replicated");
            };
            follows(&second, &marker(&first));
            eventually("the replica has the lock", || {
                (second.cli(&["EXISTS", "tt:l"]) == ServerReply::Int(1)).then_some(())
            }).expect("replicated");

            second.cli(&["REPLICAOF", "NO", "ONE"]);
            let port = second.port().to_string();
            first.cli(&["REPLICAOF", "127.0.0.1", &port]);
            let holder = Party::open(&short(&second), 2).await;
            follows(&first, &marker(&second));
            // Cut off: what is granted from now on is lost with the second server.
            let mut wire = second.connect().expect("a connection");
            wire.command(&["CONFIG", "SET", "requirepass", "nobody knows"]).expect("set");
            wire.command(&["CLIENT", "KILL", "TYPE", "replica"]).expect("killed");
            holder.acquire_after_quarantine("l", 20, 1_000).await;
            second.kill();
            let forgotten = Instant::now();
            first.cli(&["REPLICAOF", "NO", "ONE"]);

            let went = sleeper.acquire("l", 11, 1_000).await;
            assert_quarantined_since(forgotten, SHORT, went);
        });
    }

    fn a_quarantine_is_one_longest_lease_though_the_clock_was_set_back(
        flavor: Flavor
    ) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            drop(Party::open(&short(&server), 1).await);
            // As it looks after a clock that was an hour ahead was put right.
            let text = marker(&server);
            let words: Vec<&str> = text.split(' ').collect();
            let far = words[2].parse::<u64>().expect("when it was made") + 3_600_000;
            let far = [words[0], words[1], words[2], &far.to_string(), words[4], words[5]].join(" ");
            server.cli(&["SET", MARKER, &far]);
            let party = Party::open(&short(&server), 2).await;
            party.acquire_after_quarantine("l", 20, 1_000).await;
        });
    }

    fn once_a_quarantine_is_over_it_is_so_for_locks_that_nobody_touched_in_it(flavor: Flavor) {
        on_runtime(async {
            let server = Server::builder(flavor).appendonly(true).start().expect("a server");
            let url = format!("{}?max_lease=3", server.url());
            let party = Party::open(&url, 1).await;
            party.use_once("touched", 10).await;
            for n in 0..20 {
                party.use_once(&format!("left alone {n}"), 100 + n).await;
            }
            server.restart().expect("it starts again");
            party.acquire_after_quarantine("touched", 11, 1_000).await;
            for n in 0..20 {
                let went = party.acquire(&format!("left alone {n}"), 200 + n, 1_000).await;
                assert_eq!(went, AttemptResult::Granted);
            }
        });
    }

    fn so_is_that_of_a_lock_which_wrote_it_down(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let party = Party::open(&format!("{}?max_lease=5", server.url()), 1).await;
            party.use_once("l", 10).await;
            let stored = server.cli(&["HGET", "tt:l", Head::FIELD]);
            let (head, _) = Head::parse(stored.bytes().expect("bytes")).expect("a head");
            let quarantine_until_ms = head.seen_ms + 3_600_000;
            let head = Head { quarantine_until_ms, ..head }.to_bytes();
            let words: [&[u8]; 4] = [b"HSET", b"tt:l", Head::FIELD.as_bytes(), &head];
            server.connect().expect("a connection").command(&words).expect("set");
            let view = party.engine.view(&Name::new("l").expect("a name"), 1).await;
            let left = view.expect("it answers").expect("it is there").quarantine_left;
            assert!(left.is_some_and(|left| left <= Duration::from_secs(5)), "{left:?} is shown");
            party.acquire_after_quarantine("l", 11, 1_000).await;
        });
    }
}
