//! The kinds of lock, and the options of an acquire that fit no kind.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, server, waiter};

/// How a client asks for each kind, the kind's name, and the hint in the error.
const KINDS: [(&str, &str, &str); 6] = [
    ("", "mutex", "leave out"),
    ("SHARED", "rwlock", "say SHARED or EXCLUSIVE"),
    ("EXCLUSIVE", "rwlock", "say SHARED or EXCLUSIVE"),
    ("PERMITS 1 2", "semaphore of 2", "say PERMITS with the same number"),
    ("PERMITS 1 3", "semaphore of 3", "say PERMITS with the same number"),
    ("ANY", "pool", "say ANY or MEMBER"),
];

fn line(key: &str, ask: &str) -> String {
    format!("{key} 600 {ask}").trim_end().to_owned()
}

on_both! {
    fn readers_share_and_a_writer_is_alone(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let readers = [client.take("k 600 SHARED"), client.take("k 600 SHARED")];
        assert_eq!(client.lock("ACQUIRE k 600 EXCLUSIVE"), ServerReply::Nil);
        let mut writer = waiter(&server, "k", "600 WAIT 0 EXCLUSIVE");
        assert_eq!(client.lock("ACQUIRE k 600 SHARED"), ServerReply::Nil, "a writer waits");
        client.give("k", &readers[0]);
        assert_eq!(client.waiting("k"), 1, "one still reads");
        client.give("k", &readers[1]);
        let grant = Grant::of(&writer.answer());
        assert!(grant.token > readers[1].token && readers[1].token > readers[0].token);
        assert_eq!(client.lock("ACQUIRE k 600 SHARED"), ServerReply::Nil);
        assert_eq!(client.lock("ACQUIRE k 600 EXCLUSIVE"), ServerReply::Nil);
        client.give("k", &grant);
        client.take("k 600 SHARED");
    }

    fn permits_are_counted(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let two = client.take("k 600 PERMITS 2 3");
        assert_eq!(client.lock("ACQUIRE k 600 PERMITS 2 3"), ServerReply::Nil, "one is left");
        let one = client.take("k 600 PERMITS 1 3");
        assert_eq!(client.lock("ACQUIRE k 600 PERMITS 1 3"), ServerReply::Nil, "none is left");
        client.give("k", &one);
        let mut three = waiter(&server, "k", "600 WAIT 0 PERMITS 3 3");
        assert_eq!(client.lock("ACQUIRE k 600 PERMITS 1 3"), ServerReply::Nil, "somebody waits for all");
        client.give("k", &two);
        client.give("k", &Grant::of(&three.answer()));
        for wrong in ["0 3", "4 3", "1 0", "-1 3", "x 3", "1 x", "1 1000001", "1 4294967297"] {
            let error = client.error(&format!("ACQUIRE k 600 PERMITS {wrong}"));
            assert!(error.starts_with("ERR PERMITS takes "), "{wrong}: {error}");
        }
        client.take("most 600 PERMITS 1000000 1000000");
    }

    fn a_lock_in_use_is_of_one_kind(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let mut last = 0;
        for (held, kind, hint) in KINDS {
            if held == "ANY" {
                assert_eq!(client.lock("POOL ADD k m"), ServerReply::Int(1));
            }
            let grant = client.take(&line("k", held));
            assert!(grant.token > last, "an idle lock takes another kind and keeps its token");
            last = grant.token;
            for (asked, other, _) in KINDS.into_iter().filter(|(_, other, _)| *other != kind) {
                for wait in ["", " WAIT 5"] {
                    let error = client.error(&format!("ACQUIRE {}{wait}", line("k", asked)));
                    let start = format!("KIND the lock is in use as a {kind}: {hint}");
                    assert!(error.starts_with(&start), "{other}{wait}: {error}");
                }
            }
            if held != "ANY" {
                for verb in ["ADD", "REM"] {
                    let error = client.error(&format!("POOL {verb} k m"));
                    assert!(error.starts_with("KIND "), "{verb}: {error}");
                }
            }
            client.give("k", &grant);
        }
        // A pool is in use as long as it has members.
        assert!(client.error("ACQUIRE k 600").starts_with("KIND "));
        assert_eq!(client.lock("POOL REM k m"), ServerReply::Int(1));
        client.take("k 600");
    }

    fn a_label_is_what_people_see(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let label = "nightly report: Köln, \"p. 7\"";
        Grant::of(&client.words(&["FENCELOCK.ACQUIRE", "k", "600", "LABEL", label]));
        assert_eq!(client.holders("k")[0].field("label").and_then(ServerReply::text), Some(label));
        let id = client.id();
        client.take("nameless 600");
        let nameless = client.holders("nameless");
        let shown = nameless[0].field("label").and_then(ServerReply::text);
        assert_eq!(shown, Some(format!("client {id}").as_str()));
        let long = "x".repeat(257);
        for wrong in [long.as_bytes(), b"two\nlines", b"\x01", b"\xff\xfe"] {
            let words: [&[u8]; 5] = [b"FENCELOCK.ACQUIRE", b"free", b"600", b"LABEL", wrong];
            let reply = client.words(&words);
            let error = reply.error().expect("no label");
            assert!(error.starts_with("ERR a label is "), "{error}");
        }
        client.take(&format!("longest 600 LABEL {}", &long[1..]));
    }

    fn options_come_in_any_order_and_case(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("a 600000 LABEL x BOUND PERMITS 1 2 WAIT 1.5 MS");
        client.take("b 600000 wait 1 bound ms label x permits 1 2");
        client.take("c 600 LABEL WAIT WAIT 1");
        let label = client.holders("c")[0].field("label").cloned();
        assert_eq!(label.as_ref().and_then(ServerReply::text), Some("WAIT"), "a label may be a word");
        for wrong in [
            "MS MS",
            "BOUND BOUND",
            "WAIT",
            "WAIT 1 WAIT 1",
            "LABEL",
            "LABEL a LABEL b",
            "MEMBER",
            "PERMITS",
            "PERMITS 1",
            "SHARED EXCLUSIVE",
            "SHARED SHARED",
            "ANY MEMBER m",
            "ANY PERMITS 1 2",
            "NX",
            "60",
        ] {
            let error = client.error(&format!("ACQUIRE free 600 {wrong}"));
            assert_eq!(error, "ERR syntax error: see FENCELOCK.HELP", "{wrong}");
        }
        for wrong in ["-1", "x", "1.", ".5", "1.2345", "1e3", "86401", "86400.001"] {
            let error = client.error(&format!("ACQUIRE free 600 WAIT {wrong}"));
            assert!(error.starts_with("ERR WAIT takes seconds "), "{wrong}: {error}");
        }
        assert_eq!(client.say("EXISTS free"), ServerReply::Int(0));
    }

    fn a_key_is_taken_as_it_is_given(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let long = vec![b'k'; 100_000];
        let keys: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"\xff\xfe", b"a b\r\nc", b"{}x", b"*", &long];
        let mut grants = Vec::new();
        for key in keys {
            let reply = client.words(&[b"FENCELOCK.ACQUIRE", key, b"600"]);
            grants.push(Grant::of(&reply));
            assert_eq!(client.words(&[b"FENCELOCK.ACQUIRE", key, b"600"]), ServerReply::Nil);
            let mut next = Client::of(&server);
            assert_eq!(
                next.words(&[b"FENCELOCK.ACQUIRE", key, b"600", b"WAIT", b"0.02"]),
                ServerReply::Nil
            );
        }
        for (key, grant) in keys.iter().zip(&grants) {
            let secret = grant.secret.to_string();
            assert!(client.words(&[b"FENCELOCK.RELEASE", *key, secret.as_bytes()]).is_ok());
        }
    }
}
