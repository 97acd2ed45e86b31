//! Bugs that the fuzzer has found, each alone.

use taketurns_core::limits;
use taketurns_core::wire::Head;
use taketurns_servers::{
    Connection, Flavor, Server, ServerReply, eventually, module_path, on_both,
};

use crate::fuzz::quiet::Observer;

const KEY: &str = "lk:a";

fn server(flavor: Flavor) -> Server {
    let path = module_path().expect("the module is built");
    Server::builder(flavor).module(&path, &[]).start().expect("a server")
}

fn connect(server: &Server) -> Connection {
    server.connect().expect("a connection")
}

fn holders(server: &Server) -> usize {
    let shown = server.cli(&["FENCELOCK.SHOW", KEY]);
    shown.field("holders").and_then(ServerReply::array).map_or(0, <[ServerReply]>::len)
}

fn waiting(server: &Server) -> Option<i64> {
    server.cli(&["FENCELOCK.SHOW", KEY]).field("waiting")?.int()
}

on_both! {
    fn a_wait_that_is_over_or_broken_off_leaves_nothing_behind(flavor: Flavor) {
        const WAITS: usize = 40;
        let server = server(flavor);
        let looks = Observer { server: &server, replica: &server, bindings: [b"", b""] };
        let mut holder = connect(&server);
        assert!(holder.command(&["FENCELOCK.ACQUIRE", KEY, "60"]).expect("open").array().is_some());
        let waits = || {
            for seconds in ["0.001", "0"] {
                let mut all: Vec<Connection> = (0..WAITS).map(|_| connect(&server)).collect();
                for waiter in &mut all {
                    waiter.send(&["FENCELOCK.ACQUIRE", KEY, "60", "WAIT", seconds]).expect("open");
                }
                if seconds == "0" {
                    let queued = || (waiting(&server)? == WAITS as i64).then_some(());
                    eventually("all wait", queued).expect("all wait");
                } else {
                    all.iter_mut().for_each(|one| assert_eq!(one.read().expect("open"), ServerReply::Nil));
                }
            }
            let none = || (waiting(&server)? == 0).then_some(());
            eventually("nobody waits", none).expect("nobody waits");
        };
        waits();
        let before = looks.used_memory().expect("a number");
        waits();
        // Each would keep a client in the server, of some thirty kilobytes.
        let back = || (looks.used_memory()? < before + 10_000 * WAITS as u64).then_some(());
        eventually("the memory is given back", back).expect("no leak");
    }

    fn a_grant_in_the_moment_in_which_the_wait_ends_is_told(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut waiter) = (connect(&server), connect(&server));
        let grant = holder.command(&["FENCELOCK.ACQUIRE", KEY, "60"]).expect("open");
        let secret = grant.array().and_then(|grant| grant[0].int()).expect("a secret").to_string();
        waiter.send(&["FENCELOCK.ACQUIRE", KEY, "60", "WAIT", "1"]).expect("open");
        let queued = || (waiting(&server)? == 1).then_some(());
        eventually("it waits", queued).expect("it waits");
        // The server is not back in its loop before the wait times out.
        holder.command(&["MULTI"]).expect("open");
        holder.command(&["FENCELOCK.RELEASE", KEY, &secret]).expect("open");
        holder.command(&["DEBUG", "SLEEP", "1.5"]).expect("open");
        let done = holder.command(&["EXEC"]).expect("open");
        assert_eq!(done.to_string(), "[OK, OK]");
        let reply = waiter.read().expect("a reply");
        assert!(reply.array().is_some(), "{reply}");
    }

    fn who_is_gone_before_it_is_told_of_its_grant_does_not_hold_it(flavor: Flavor) {
        let server = server(flavor);
        for gone in [&["CLIENT", "UNBLOCK"][..], &["CLIENT", "KILL", "ID"]] {
            let (mut holder, mut waiter) = (connect(&server), connect(&server));
            let grant = holder.command(&["FENCELOCK.ACQUIRE", KEY, "3600"]).expect("open");
            let secret = grant.array().and_then(|grant| grant[0].int()).expect("a secret");
            let id = waiter.command(&["CLIENT", "ID"]).expect("open").int().expect("an id");
            waiter.send(&["FENCELOCK.ACQUIRE", KEY, "3600", "WAIT", "0"]).expect("open");
            let queued = || (waiting(&server)? == 1).then_some(());
            eventually("it waits", queued).expect("it waits");
            let (secret, id) = (secret.to_string(), id.to_string());
            let how: &[&str] = if gone.len() == 2 { &["ERROR"] } else { &[] };
            holder.command(&["MULTI"]).expect("open");
            holder.command(&["FENCELOCK.RELEASE", KEY, &secret]).expect("open");
            holder.command(&[gone, &[&id], how].concat()).expect("open");
            assert_eq!(holder.command(&["EXEC"]).expect("open").to_string(), "[OK, 1]");
            let free = || (holders(&server) == 0).then_some(());
            eventually("it is given back", free).expect("nobody was told of it");
        }
    }

    fn a_bound_hold_ends_with_its_connection_after_a_reload_and_a_restore(flavor: Flavor) {
        let server = server(flavor);
        for restored in [false, true] {
            let mut bound = connect(&server);
            let grant = bound.command(&["FENCELOCK.ACQUIRE", KEY, "3600", "BOUND"]).expect("open");
            assert!(grant.array().is_some(), "{grant}");
            if restored {
                let payload = server.cli(&["DUMP", KEY]);
                server.cli(&["DEL", KEY]);
                let payload = payload.bytes().expect("a payload");
                let words = [b"RESTORE", KEY.as_bytes(), b"0", payload];
                assert!(connect(&server).command(&words).expect("open").is_ok());
            } else {
                assert!(server.cli(&["DEBUG", "RELOAD"]).is_ok());
            }
            assert_eq!(holders(&server), 1, "its connection is open");
            drop(bound);
            let free = || (holders(&server) == 0).then_some(());
            eventually("it is let go of", free).expect("restored or reloaded");
        }
    }

    fn a_hash_from_which_no_token_is_left_is_no_lock(flavor: Flavor) {
        let server = server(flavor);
        let head = Head { seen_ms: 1, last_token: limits::TOKEN_MAX, run: "run".into(), ..Head::default() };
        let words: [&[u8]; 4] = [b"HSET", KEY.as_bytes(), Head::FIELD.as_bytes(), &head.to_bytes()];
        assert_eq!(connect(&server).command(&words).expect("open"), ServerReply::Int(1));
        let reply = server.cli(&["FENCELOCK.ACQUIRE", KEY, "1"]);
        assert!(reply.error().is_some_and(|error| error.starts_with("WRONGTYPE")), "{reply}");
    }

    fn a_blank_copy_is_left_where_it_is_by_what_the_replica_is_not_told(flavor: Flavor) {
        let server = server(flavor);
        // A client waits for a member that does not exist yet: no token was given out.
        let mut waiter = connect(&server);
        waiter.send(&["FENCELOCK.ACQUIRE", KEY, "1", "WAIT", "0", "ANY"]).expect("open");
        let queued = || (waiting(&server)? == 1).then_some(());
        eventually("it waits", queued).expect("it waits");
        assert_eq!(server.cli(&["COPY", KEY, "copy"]), ServerReply::Int(1));
        let offset = || server.info("replication")["master_repl_offset"].clone();
        let before = offset();
        assert!(server.cli(&["FENCELOCK.RELEASE", "copy", "5"]).error().is_some());
        assert_eq!(server.cli(&["EXISTS", "copy"]), ServerReply::Int(1));
        assert_eq!(offset(), before, "nothing was repeated");
    }
}
