//! What is refused, with which code, and that nothing has changed afterwards.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, builder, info, is_error, replica_of, server, waiter};

/// The most waiters of one lock.
const QUEUE_MAX: i64 = 100_000;

/// Every command with one word too few, and with one too many where the arity is fixed.
const WRONG_ARITY: [&str; 19] = [
    "ACQUIRE",
    "ACQUIRE k",
    "RELEASE",
    "RELEASE k",
    "RELEASE k 1 2",
    "RENEW k",
    "RENEW k 1",
    "CHECK k",
    "CHECK k 1 2",
    "SHOW",
    "BREAK",
    "POOL",
    "POOL ADD",
    "POOL ADD k",
    "HELP me",
    "BIND a b c d e f",
    "BIND a b c d e f g h",
    "DO k b",
    "APPLY k",
];

/// Binds a program to this server, without a marker.
pub(crate) fn bind(client: &mut Client, run: &str) -> ServerReply {
    client.words(&["FENCELOCK.BIND", run, "", "", "", "0", "60000", "tt:wake:"])
}

on_both! {
    fn a_command_with_too_few_words_or_too_many_is_refused(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for line in WRONG_ARITY {
            let error = client.error(line);
            assert!(error.starts_with("ERR wrong number of arguments for"), "{line}: {error}");
        }
        assert!(client.error("RENEW k 1 5 MS MS").starts_with("ERR syntax error"));
        assert!(client.error("POOL DROP k m").starts_with("ERR syntax error"));
        assert!(client.error("UNLOCK k").starts_with("ERR unknown command"));
        assert_eq!(client.say("DBSIZE"), ServerReply::Int(0));
    }

    fn a_secret_is_an_integer_in_its_range(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600");
        let padded = format!(" {}", grant.secret);
        for wrong in
            ["0", "-1", "", "x", "1.0", "9007199254740992", "18446744073709551617", &padded]
        {
            for words in
                [vec!["FENCELOCK.RELEASE", "k", wrong], vec!["FENCELOCK.RENEW", "k", wrong, "9"]]
            {
                let reply = client.words(&words);
                let error = reply.error().expect("no secret");
                assert!(error.starts_with("ERR the secret is "), "{words:?}: {error}");
                assert!(wrong.len() < 2 || !error.contains(wrong), "{error}");
            }
        }
        assert!(client.renew("k", &grant).is_ok());
    }

    fn without_memory_nothing_is_taken_and_all_is_given_back(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.lock("POOL ADD p m");
        let (grant, member) = (client.take("k 600"), client.take("p 600 ANY"));
        let mut next = waiter(&server, "k", "600 WAIT 0");
        assert!(client.say("CONFIG SET maxmemory 1").is_ok());
        for line in [
            "ACQUIRE new 600".to_owned(),
            "ACQUIRE new 600 WAIT 5 BOUND".to_owned(),
            "POOL ADD p another".to_owned(),
            format!("CHECK k {}", grant.token),
        ] {
            assert!(client.error(&line).starts_with("OOM "), "{line}");
        }
        assert!(client.renew("k", &grant).is_ok(), "what is held stays held");
        assert!(client.lock("SHOW k").array().is_some());
        client.give("k", &grant);
        let passed = Grant::of(&next.answer());
        next.give("k", &passed);
        assert_eq!(client.lock("POOL REM p m"), ServerReply::Int(1));
        client.give("p", &member);
        assert!(client.say("CONFIG SET maxmemory 0").is_ok());
        client.take("k 600");
    }

    fn a_replica_is_for_looking(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(&master);
        let (mut client, mut reader) = (Client::of(&master), Client::of(&replica));
        let grant = client.take("k 600");
        reader.until_held("k", 1);
        // Even if the replica is writable: a lock there would belong to nobody.
        for read_only in ["yes", "no"] {
            assert!(reader.say(&format!("CONFIG SET replica-read-only {read_only}")).is_ok());
            for line in [
                "ACQUIRE new 600".to_owned(),
                "ACQUIRE k 600 WAIT 5".to_owned(),
                format!("RELEASE k {}", grant.secret),
                format!("RENEW k {} 600", grant.secret),
                format!("CHECK k {}", grant.token),
                "BREAK k NOW".to_owned(),
                "POOL ADD p m".to_owned(),
                "POOL REM p m".to_owned(),
            ] {
                let error = reader.error(&line);
                assert!(error.starts_with("READONLY "), "{read_only}, {line}: {error}");
            }
        }
        assert_eq!(reader.of_holder("k", "token"), grant.token);
        assert!(client.renew("k", &grant).is_ok());
    }

    fn a_queue_that_is_full_takes_no_more(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let run = server.info("server").get("run_id").expect("a run").clone();
        let binding = bind(&mut client, &run).text().expect("a binding").to_owned();
        let grant = client.take("k 600");
        // Programs that wait without blocking: 100 000 connections would be too many for a test.
        let mut acquire = |owner: i64| {
            let owner = format!("{owner:032x}");
            let far = u64::MAX.to_string();
            let acquire = format!("{:08}{owner}0000000000000007m\nprogram\n", 1_000);
            let words = ["FENCELOCK.DO", "k", &binding, "acquire", &acquire, "600000", &far];
            client.send(&words);
        };
        (0..QUEUE_MAX).for_each(|n| acquire((1 << 60) + n));
        for _ in 0..QUEUE_MAX {
            let reply = client.answer();
            assert!(reply.text().is_some_and(|text| text.contains(" Q ")), "{reply}");
        }
        for line in ["ACQUIRE k 600 WAIT 5", "ACQUIRE k 600 WAIT 5 BOUND"] {
            let error = Client::of(&server).error(line);
            assert!(error.starts_with("QUEUEFULL "), "{error}");
        }
        assert_eq!(Client::of(&server).lock("ACQUIRE k 600"), ServerReply::Nil, "who does not wait");
        assert!(client.renew("k", &grant).is_ok());
        assert_eq!((info(&server, "blocked_clients"), info(&server, "bound_locks")), (0, 0));
    }

    fn a_program_has_to_verify_the_server_first(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let wrong = "0".repeat(40);
        assert!(is_error(&bind(&mut client, &wrong), "TTVERIFY"));
        assert!(client.error("DO k 0123456789abcdef tick").starts_with("TTVERIFY "));
        let run = server.info("server").get("run_id").expect("a run").clone();
        let binding = bind(&mut client, &run).text().expect("a binding").to_owned();
        assert_eq!(binding.len(), 16);
        for wrong in
            ["jump", "tick now", "acquire", "view", "view x"]
        {
            let error = client.error(&format!("DO k {binding} {wrong}"));
            assert!(error.starts_with("ERR syntax error"), "{wrong}: {error}");
        }
        let words = ["FENCELOCK.BIND", &run, "", "mark", "marker", "0", "60000", "tt:wake:"];
        let marked = client.words(&words).text().expect("a binding").to_owned();
        assert!(client.error(&format!("DO k {marked} tick")).starts_with("TTVERIFY "), "no marker");
        client.say("SET marker mark");
        assert!(client.lock(&format!("DO k {marked} tick")).text().is_some());
        server.restart().expect("it starts again");
        let error = Client::of(&server).error(&format!("DO k {binding} tick"));
        assert!(error.starts_with("TTVERIFY "), "another run: {error}");
    }

    fn what_a_program_asks_may_be_in_one_word(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let run = server.info("server").get("run_id").expect("a run").clone();
        let binding = bind(&mut client, &run).text().expect("a binding").to_owned();
        let mut ask = |verb: &str, arguments: &[&str]| {
            let words = [&["FENCELOCK.DO", "k", &binding, verb], arguments].concat();
            client.words(&words)
        };
        let (owner, far) = (format!("{:032x}", 5), u64::MAX);
        let acquire = format!("00060000{owner}0000000000000007m\nwho\nwhy\t-\t{far}");
        let granted = ask("acquire", &[&acquire]);
        assert!(granted.text().is_some_and(|text| text.contains(" G ")), "{granted}");
        // A tab always separates arguments, so no label and no name contains one.
        for wrong in [&*format!("{acquire}\t"), &acquire.replace("who", "w\tho"), ""] {
            let reply = ask("acquire", &[wrong]);
            assert!(is_error(&reply, "ERR"), "{wrong:?}: {reply}");
        }
        let renewed = ask("renew", &[&format!("00060000{owner}0000000000000007")]);
        assert!(renewed.text().is_some_and(|text| text.contains(" N ")), "{renewed}");
        let shown = ask("view", &["1"]);
        assert!(shown.text().is_some_and(|text| text.contains("why")), "{shown}");
        let released = ask("release", &[&format!("{owner}\t0")]);
        assert!(released.text().is_some_and(|text| text.ends_with(" R")), "{released}");
    }

    fn the_words_of_the_log_are_nobodys_to_say(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for entry in ["", "x", "\0"] {
            let reply = client.words(&["FENCELOCK.APPLY", "k", entry]);
            assert!(is_error(&reply, "NOPERM"), "{reply}");
        }
        let script = "return redis.call('FENCELOCK.APPLY', KEYS[1], 'x')";
        let reply = client.words(&["EVAL", script, "1", "k"]);
        assert!(is_error(&reply, "NOPERM"), "{reply}");
        let replies = client.multi(&["FENCELOCK.APPLY k x".to_owned()]);
        assert!(is_error(&replies[0], "NOPERM"));
    }

    fn in_quarantine_nothing_is_granted_and_leases_are_no_longer_than_it(flavor: Flavor) {
        let args = ["failover", "quarantine", "max-lease", "600"];
        let server = builder(flavor, &args).start().expect("a server");
        let mut client = Client::of(&server);
        assert!(client.error("ACQUIRE k 601").starts_with("ERR a lease is "));
        for line in ["ACQUIRE k 600", "ACQUIRE k 600 BOUND", "ACQUIRE k 600 PERMITS 1 2"] {
            let error = client.error(line);
            assert!(error.starts_with("QUARANTINED "), "{line}: {error}");
        }
        assert_eq!(client.lock("ACQUIRE k 600 WAIT 0.02"), ServerReply::Nil, "who waits may time out");
        assert_eq!(client.holders("k").len(), 0);
        assert_eq!(info(&server, "max_lease_ms"), 600_000);
        assert_eq!(info(&server, "bound_locks"), 0);
    }
}
