//! The module's first two commands as their users know them, and the bugs that they had.

use std::collections::HashSet;

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, crash, server};

/// The largest integer that every client holds exactly.
const SECRET_MAX: i64 = (1 << 53) - 1;

/// Leases that every lock refuses.
const NO_LEASES: [&str; 15] = [
    "0",
    "-1",
    "-9223372036854775808",
    "+5",
    "x",
    "",
    "1.5",
    "5s",
    "0x10",
    "86401",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "0 MS",
    "9 MS",
];

on_both! {
    fn a_lock_is_taken_once_and_given_back_once(flavor: Flavor) {
        let server = server(flavor);
        let (mut one, mut other) = (Client::of(&server), Client::of(&server));
        let grant = one.take("k 60");
        assert_eq!(grant.member, None, "two integers and nothing else");
        assert_eq!(other.lock("ACQUIRE k 60"), ServerReply::Nil);
        assert_eq!(one.lock("ACQUIRE k 60"), ServerReply::Nil, "nothing is re-entrant");
        one.give("k", &grant);
        assert!(one.error(&format!("RELEASE k {}", grant.secret)).starts_with("NOTHELD "));
        assert!(one.error("RELEASE never 7").starts_with("NOTHELD "));
        let next = other.take("k 60");
        assert!(next.token > grant.token && next.secret != grant.secret);
        assert_eq!(one.lock(&format!("RELEASE k {}", grant.secret)), ServerReply::Nil, "an old secret");
        other.give("k", &next);
    }

    fn every_lock_has_a_secret_and_a_token_of_its_own(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let (old, new) = (client.take("old 60"), client.take("new 60"));
        assert_ne!(old.secret, new.secret);
        assert_eq!(client.lock(&format!("RELEASE old {}", new.secret)), ServerReply::Nil);
        assert_eq!(client.lock(&format!("RELEASE new {}", old.secret)), ServerReply::Nil);
        assert_eq!(client.lock("ACQUIRE old 60"), ServerReply::Nil, "it is held");
        assert_eq!(client.lock("ACQUIRE new 60"), ServerReply::Nil, "it is held");
        client.give("old", &old);
        client.give("new", &new);
    }

    fn the_newest_secret_touches_nothing_that_is_no_lock(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for line in
            ["SET text value", "RPUSH list a", "SADD set a", "HSET hash a b", "XADD log 1 a b"]
        {
            assert_eq!(client.say(line).error(), None, "{line}");
        }
        let grant = client.take("k 60");
        for key in ["text", "list", "set", "hash", "log"] {
            let before = client.words(&["DUMP", key]);
            for line in [
                format!("RELEASE {key} {}", grant.secret),
                format!("RENEW {key} {} 60", grant.secret),
                format!("CHECK {key} {}", grant.token),
                format!("ACQUIRE {key} 60"),
                format!("ACQUIRE {key} 60 WAIT 1"),
                format!("ACQUIRE {key} 60 BOUND"),
                format!("BREAK {key} NOW"),
                format!("SHOW {key}"),
                format!("POOL ADD {key} m"),
                format!("POOL REM {key} m"),
            ] {
                assert!(client.error(&line).starts_with("WRONGTYPE "), "{line}");
            }
            assert_eq!(client.words(&["DUMP", key]), before, "{key}");
        }
        client.give("k", &grant);
    }

    fn tokens_grow_over_a_restart_that_forgets_everything(flavor: Flavor) {
        let server = server(flavor);
        let mut last = 0;
        for _ in 0..3 {
            let grant = Client::of(&server).take("k 60");
            assert!(grant.token > last, "{} after {last}", grant.token);
            last = grant.token;
            crash(&server);
            assert_eq!(server.cli(&["DBSIZE"]), ServerReply::Int(0), "all is forgotten");
        }
        let reply = server.cli(&["FLUSHALL"]);
        assert!(reply.is_ok());
        assert!(Client::of(&server).take("k 60").token > last);
    }

    fn tokens_grow_however_fast_they_are_given_out(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let mut last = 0;
        for _ in 0..500 {
            let grant = client.take("k 60");
            assert!(grant.token > last && grant.token <= SECRET_MAX);
            last = grant.token;
            client.give("k", &grant);
        }
    }

    fn a_lease_that_is_none_is_an_error_whether_the_lock_is_held_or_not(flavor: Flavor) {
        let server = server(flavor);
        let (mut client, mut other) = (Client::of(&server), Client::of(&server));
        for lease in NO_LEASES {
            let line = format!("ACQUIRE free {lease}");
            let free = client.error(&line);
            assert!(free.starts_with("ERR a lease is "), "{lease:?}: {free}");
            assert_eq!(client.error(&format!("{line} WAIT 1 BOUND")), free, "{lease:?}");
            let grant = client.take("held 600");
            assert_eq!(other.error(&format!("ACQUIRE held {lease}")), free, "{lease:?}");
            assert_eq!(client.error(&format!("RENEW held {} {lease}", grant.secret)), free);
            assert!(client.of_holder("held", "left_ms") > 300_000, "{lease:?} changed nothing");
            assert_eq!(other.lock("ACQUIRE held 600"), ServerReply::Nil, "{lease:?} ended nothing");
            client.give("held", &grant);
        }
        assert_eq!(client.say("EXISTS free"), ServerReply::Int(0));
        // The longest lease and the shortest.
        client.take("longest 86400");
        client.take("longest-ms 86400000 MS");
        client.take("shortest 10 MS");
    }

    fn a_lease_is_in_seconds_unless_it_is_said_to_be_in_milliseconds(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for (key, words) in [("s", "600"), ("ms", "600000 MS"), ("low", "600000 ms")] {
            client.take(&format!("{key} {words}"));
            let left_ms = client.of_holder(key, "left_ms");
            assert!((300_000..=600_000).contains(&left_ms), "{key}: {left_ms}");
        }
    }

    fn secrets_are_drawn_evenly_from_all_that_a_double_holds(flavor: Flavor) {
        const DRAWS: usize = 4_096;
        const PARTS: usize = 16;
        let server = server(flavor);
        let mut client = Client::of(&server);
        let mut drawn = HashSet::new();
        let mut parts = [0; PARTS];
        let (mut ones, mut zeros) = (0, 0);
        for _ in 0..DRAWS {
            let grant = client.take("k 60");
            client.give("k", &grant);
            let Grant { secret, .. } = grant;
            assert!((1..=SECRET_MAX).contains(&secret), "{secret}");
            assert!(drawn.insert(secret), "{secret} came twice");
            parts[usize::try_from(secret >> 49).expect("a small number")] += 1;
            (ones, zeros) = (ones | secret, zeros | !secret);
        }
        assert_eq!((ones, zeros & SECRET_MAX), (SECRET_MAX, SECRET_MAX), "every bit is used");
        // 256 are expected in each part, with a standard deviation of 16: ten times that does not
        // happen.
        assert!(parts.iter().all(|count| (96..416).contains(count)), "{parts:?}");
    }
}
