//! What people see: SHOW, LIST, HELP.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use taketurns_servers::{Flavor, PATIENCE, Server, ServerReply, on_both};

use crate::commands::client::{Client, builder, server, waiter};

/// Returns the names of a map, whose names and values alternate.
fn names(map: &ServerReply) -> Vec<&str> {
    let pairs = map.array().expect("a map").chunks_exact(2);
    pairs.map(|pair| pair[0].text().expect("a name")).collect()
}

/// Lists all locks, page by page.
fn listed(client: &mut Client, words: &str) -> Vec<ServerReply> {
    let (mut locks, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = client.lock(format!("LIST {cursor} {words}").trim_end());
        let Some([next, ServerReply::Array(more)]) = page.array() else { panic!("{page}") };
        locks.extend_from_slice(more);
        cursor = next.text().expect("a cursor").to_owned();
        if cursor == "0" {
            return locks;
        }
    }
}

fn keys(locks: &[ServerReply]) -> BTreeSet<String> {
    let key = |lock: &ServerReply| {
        lock.field("key").and_then(ServerReply::text).expect("a key").to_owned()
    };
    locks.iter().map(key).collect()
}

/// Returns the bytes that the server sends for a line, in the given protocol version.
fn wire(server: &Server, version: u8, line: &str) -> String {
    let mut stream = TcpStream::connect(server.addr()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let lines = format!("HELLO {version}\r\nECHO begin\r\n{line}\r\nECHO end\r\n");
    stream.write_all(lines.as_bytes()).expect("it is sent");
    let (mut text, mut bytes) = (String::new(), [0; 4_096]);
    while !text.ends_with("$3\r\nend\r\n") {
        let count = stream.read(&mut bytes).expect("an answer");
        assert_ne!(count, 0, "it hung up: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    let (_, answer) = text.split_once("$5\r\nbegin\r\n").expect("a beginning");
    answer.trim_end_matches("$3\r\nend\r\n").to_owned()
}

on_both! {
    fn a_lock_is_shown_with_all_who_hold_and_wait(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        assert_eq!(client.lock("SHOW p"), ServerReply::Nil, "nothing there");
        client.lock("POOL ADD p a b c");
        let held = client.take("p 600 MEMBER b LABEL holder");
        client.take("p 600 MEMBER c");
        client.lock("POOL REM p c");
        let _waiters = [
            waiter(&server, "p", "600 WAIT 0 MEMBER b LABEL first"),
            waiter(&server, "p", "600 WAIT 0 MEMBER c LABEL second"),
        ];
        let shown = client.lock("SHOW p");
        let all = [
            "kind",
            "token",
            "admitted",
            "quarantine_ms",
            "holders",
            "waiting",
            "waiters",
            "members",
            "work",
        ];
        assert_eq!(names(&shown), all);
        assert_eq!(shown.field("kind").and_then(ServerReply::text), Some("pool"));
        assert_eq!(shown.field("quarantine_ms"), Some(&ServerReply::Int(0)));
        assert_eq!(shown.field("waiting"), Some(&ServerReply::Int(2)));
        let holders = shown.field("holders").and_then(ServerReply::array).expect("holders");
        let each = ["label", "token", "asked", "member", "held_ms", "left_ms", "state"];
        assert!(holders.iter().all(|holder| names(holder) == each));
        let text =
            |reply: &ServerReply, field| reply.field(field).and_then(ServerReply::text).map(str::to_owned);
        assert_eq!(text(&holders[0], "label").as_deref(), Some("holder"));
        assert_eq!(text(&holders[0], "asked").as_deref(), Some("member b"));
        assert_eq!(text(&holders[0], "member").as_deref(), Some("b"));
        assert_eq!(text(&holders[0], "state").as_deref(), Some("held"));
        assert_eq!(holders[0].field("token"), Some(&ServerReply::Int(held.token)));
        let waiters = shown.field("waiters").and_then(ServerReply::array).expect("waiters");
        assert!(waiters.iter().all(|waiter| names(waiter) == ["label", "asks", "waited_ms"]));
        let labels: Vec<_> = waiters.iter().filter_map(|waiter| text(waiter, "label")).collect();
        assert_eq!(labels, ["first", "second"], "in the order in which they came");
        let members = shown.field("members").and_then(ServerReply::array).expect("members");
        assert!(members.iter().all(|member| names(member) == ["name", "state"]));
        let states: Vec<_> = members.iter().filter_map(|member| text(member, "state")).collect();
        assert_eq!(states, ["free", "held", "leaving"]);
        let one = client.lock("SHOW p COUNT 1");
        assert_eq!(one.field("waiters").and_then(ServerReply::array).map(<[_]>::len), Some(1));
        assert_eq!(one.field("waiting"), Some(&ServerReply::Int(2)), "all are counted");
        for wrong in ["SHOW p 1", "SHOW p COUNT", "SHOW p LIMIT 1"] {
            assert!(client.error(wrong).starts_with("ERR syntax error"), "{wrong}");
        }
        for wrong in ["0", "-1", "x", "10001"] {
            let error = client.error(&format!("SHOW p COUNT {wrong}"));
            assert!(error.starts_with("ERR COUNT takes a number"), "{wrong}: {error}");
        }
    }

    fn looking_changes_nothing(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("k 600");
        let before = client.words(&["DEBUG", "DIGEST-VALUE", "k"]);
        client.lock("SHOW k");
        client.lock("LIST");
        assert_eq!(client.words(&["DEBUG", "DIGEST-VALUE", "k"]), before);
    }

    fn what_is_shown_is_a_map_where_there_are_maps(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("k 600");
        let new = wire(&server, 3, "FENCELOCK.SHOW k");
        assert!(new.starts_with("%9\r\n$4\r\nkind\r\n$5\r\nmutex\r\n"), "{new}");
        assert!(new.contains("$7\r\nholders\r\n*1\r\n%7\r\n$5\r\nlabel\r\n"), "{new}");
        let old = wire(&server, 2, "FENCELOCK.SHOW k");
        assert!(old.starts_with("*18\r\n$4\r\nkind\r\n$5\r\nmutex\r\n"), "{old}");
        assert!(old.contains("$7\r\nholders\r\n*1\r\n*14\r\n$5\r\nlabel\r\n"), "{old}");
        let new = wire(&server, 3, "FENCELOCK.LIST");
        assert!(new.starts_with("*2\r\n$1\r\n0\r\n*1\r\n%5\r\n$3\r\nkey\r\n$1\r\nk\r\n"), "{new}");
        let old = wire(&server, 2, "FENCELOCK.LIST");
        assert!(old.starts_with("*2\r\n$1\r\n0\r\n*1\r\n*10\r\n$3\r\nkey\r\n$1\r\nk\r\n"), "{old}");
        assert_eq!(wire(&server, 3, "FENCELOCK.ACQUIRE k 5"), "_\r\n");
        assert_eq!(wire(&server, 2, "FENCELOCK.ACQUIRE k 5"), "$-1\r\n", "the null bulk reply");
        assert_eq!(wire(&server, 3, "FENCELOCK.ACQUIRE k 5 WAIT 0.02"), "_\r\n");
        assert_eq!(wire(&server, 2, "FENCELOCK.ACQUIRE k 5 WAIT 0.02"), "$-1\r\n");
        for version in [2, 3] {
            let granted = wire(&server, version, &format!("FENCELOCK.ACQUIRE new{version} 5"));
            let lines: Vec<&str> = granted.split("\r\n").collect();
            assert_eq!((lines[0], lines.len()), ("*2", 4), "{granted}");
            assert!(lines[1].starts_with(':') && lines[2].starts_with(':'), "{granted}");
        }
    }

    fn a_listing_has_every_lock_and_nothing_else(flavor: Flavor) {
        const LOCKS: usize = 300;
        let server = server(flavor);
        let mut client = Client::of(&server);
        for n in 0..LOCKS {
            client.take(&format!("lock{n} 600"));
            client.say(&format!("SET text{n} x"));
        }
        client.take("shared 600 SHARED");
        client.take("shared 600 SHARED");
        let _waiting = waiter(&server, "shared", "600 WAIT 0 EXCLUSIVE");
        for count in ["", "COUNT 1", "COUNT 50", "COUNT 10000"] {
            assert_eq!(keys(&listed(&mut client, count)).len(), LOCKS + 1, "{count}");
        }
        let some = keys(&listed(&mut client, "MATCH lock1? COUNT 10"));
        assert_eq!(some, (10..20).map(|n| format!("lock{n}")).collect());
        let shared = listed(&mut client, "MATCH shared");
        assert_eq!(names(&shared[0]), ["key", "kind", "holders", "waiting", "token"]);
        assert_eq!(shared[0].field("kind").and_then(ServerReply::text), Some("rwlock"));
        assert_eq!(shared[0].field("holders"), Some(&ServerReply::Int(2)));
        assert_eq!(shared[0].field("waiting"), Some(&ServerReply::Int(1)));
        client.say("SELECT 1");
        assert_eq!(listed(&mut client, ""), [], "of this database alone");
        for wrong in ["x", "0 1", "0 MATCH", "MATCH a MATCH b", "COUNT 1 COUNT 2", "TYPE hash"] {
            let error = client.error(&format!("LIST {wrong}"));
            assert!(error.starts_with("ERR syntax error"), "{wrong}: {error}");
        }
        for wrong in ["0", "-1", "x", "10001"] {
            let error = client.error(&format!("LIST COUNT {wrong}"));
            assert!(error.starts_with("ERR COUNT takes a number"), "{wrong}: {error}");
        }
    }

    fn a_listing_has_only_what_its_reader_may_read(flavor: Flavor) {
        let started = builder(flavor, &[])
            .acl_user("some on >x ~mine:* %R~read:* %W~written:* +@all")
            .acl_user("none on >x +@all");
        let server = started.start().expect("a server");
        let mut client = Client::of(&server);
        for key in ["mine:a", "read:a", "written:a", "other:a", "mine"] {
            client.take(&format!("{key} 600"));
        }
        let seen = keys(&listed(&mut Client::user(&server, "some", "x"), ""));
        assert_eq!(seen, ["mine:a", "read:a"].map(str::to_owned).into());
        assert_eq!(listed(&mut Client::user(&server, "none", "x"), ""), []);
        assert_eq!(keys(&listed(&mut client, "")).len(), 5);
    }

    fn help_has_every_command_that_is_for_people(flavor: Flavor) {
        let server = server(flavor);
        let help = Client::of(&server).lock("HELP");
        let lines: Vec<&str> =
            help.array().expect("lines").iter().filter_map(ServerReply::text).collect();
        for command in
            [
            "ACQUIRE", "DONE", "FAIL", "UNDO", "RELEASE", "RENEW", "CHECK", "SHOW", "LIST", "BREAK",
            "POOL ADD|REM",
        ]
        {
            let count =
                lines.iter().filter(|line| line.starts_with(&format!("{command} "))).count();
            assert_eq!(count, 1, "{command} in {lines:#?}");
        }
        let text = lines.join(" ");
        for word in
            ["MS", "WAIT", "SHARED", "EXCLUSIVE", "PERMITS", "ANY", "MEMBER", "LABEL", "BOUND", "ONCE", "ATLEAST"]
        {
            assert!(text.contains(word), "{word}");
        }
    }
}
