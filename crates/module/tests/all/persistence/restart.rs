//! A server that is stopped in any way and started again from its files.

use std::collections::BTreeMap;

use taketurns_core::{Ask, Member};
use taketurns_servers::{Builder, Flavor, Server, ServerClock, ServerReply, eventually, on_both};

use crate::persistence::program::{Program, run_of};
use crate::persistence::support::{Client, HeldLock, blocked, builder, logging, restart};

/// Locks of every kind, with holders and waiters.
struct Scene {
    held: Vec<(&'static str, HeldLock)>,
    before: BTreeMap<&'static str, LockView>,
    digests: Vec<(&'static str, String)>,
    run: String,
    /// Connections that will break.
    _open: Vec<Client>,
}

/// What SHOW says about one lock, without its connections.
#[derive(Debug)]
struct LockView {
    kind: String,
    token: i64,
    /// Label, token, what was asked, member, state.
    holders: Vec<[String; 5]>,
    /// The two times between which each lease ends.
    ends_ms: Vec<(u64, u64)>,
    waiters: Vec<String>,
}

/// The locks whose state does not depend on connections.
const STEADY: [&str; 3] = ["rw", "sem", "pool"];
const ALL: [&str; 4] = ["mutex", "rw", "sem", "pool"];

fn seen(client: &mut Client, key: &str) -> LockView {
    let from_ms = client.time_us() / 1_000;
    let show = client.show(key);
    let until_ms = client.time_us() / 1_000 + 1;
    let text = |reply: &ServerReply, name: &str| {
        reply.field(name).map(ToString::to_string).expect("a field of that name")
    };
    let list = |name: &str| show.field(name).and_then(ServerReply::array).expect("a list");
    let ends_ms = list("holders").iter().map(|holder| {
        let left_ms = holder.field("left_ms").and_then(ServerReply::int).expect("a number") as u64;
        (from_ms + left_ms, until_ms + left_ms)
    });
    let holder = |holder: &ServerReply| {
        ["label", "token", "asked", "member", "state"].map(|name| text(holder, name))
    };
    LockView {
        kind: text(&show, "kind"),
        token: show.field("token").and_then(ServerReply::int).expect("a token"),
        holders: list("holders").iter().map(holder).collect(),
        ends_ms: ends_ms.collect(),
        waiters: client.labels(key, "waiters"),
    }
}

fn member(name: &str) -> Ask {
    Ask::Member(Member::new(name).expect("a member"))
}

impl Scene {
    fn set(server: &Server) -> Self {
        let mut client = Client::of(server);
        let mut program = Program::of(server, "", 7);
        let mut held = vec![("mutex", client.take("mutex 600 LABEL a"))];
        program.wait("mutex", 1, Ask::Mutex, "program");
        let second = blocked(server, "mutex", "600", "gone");
        held.push(("rw", client.take("rw 500 SHARED LABEL a")));
        held.push(("rw", client.take("rw 600 SHARED LABEL b")));
        program.wait("rw", 2, Ask::Write, "program");
        held.push(("sem", client.take("sem 600 PERMITS 2 3 LABEL a")));
        held.push(("sem", client.take("sem 700 PERMITS 1 3 LABEL b")));
        program.wait("sem", 3, Ask::Permits { take: 3, of: 3 }, "program");
        assert_eq!(client.int("FENCELOCK.POOL ADD pool x y"), 2);
        held.push(("pool", client.take("pool 600 ANY LABEL a")));
        held.push(("pool", client.take("pool 600 MEMBER y LABEL b")));
        program.wait("pool", 4, member("x"), "program");
        let mut bound = Client::of(server);
        bound.take("bound 600 BOUND LABEL bound");
        program.wait("bound", 5, Ask::Mutex, "program");
        client.take("short 30 LABEL short");
        program.wait("short", 6, Ask::Mutex, "program");
        let digests = STEADY.map(|key| (key, client.digest(key))).into();
        let before = ALL.map(|key| (key, seen(&mut client, key))).into();
        Self { held, before, digests, run: run_of(server), _open: vec![second, bound] }
    }

    /// Asserts that everything is as before, except clients that were connections. Then the clock is set, and the short
    /// lease is over.
    fn is_still_there(&self, server: &Server, clock: &ServerClock) {
        let mut client = Client::of(server);
        client.is_waited_for_by("mutex", &["program"]);
        for (key, digest) in &self.digests {
            assert_eq!(client.digest(key), *digest, "{key}");
        }
        for (key, before) in &self.before {
            let after = seen(&mut client, key);
            assert_eq!(after.kind, before.kind, "{key}");
            assert_eq!(after.token, before.token, "{key}");
            assert_eq!(after.holders, before.holders, "{key}");
            assert_eq!(after.waiters, ["program"], "{key}");
            for (now, then) in after.ends_ms.iter().zip(&before.ends_ms) {
                let same = now.0 <= then.1 && then.0 <= now.1;
                assert!(same, "{key}: a lease ends at {now:?}, it was {then:?}");
            }
        }
        // Nobody asks for these: a connection that is gone, and a lease that is over. In another incarnation nothing is
        // handed to a program before one has looked.
        clock.set(40).expect("set");
        let expected: &[&str] = if run_of(server) == self.run { &["program"] } else { &[] };
        for key in ["bound", "short"] {
            client.is_held_by(key, expected);
        }
    }

    /// Secrets are still valid, and the queues are served in order.
    fn goes_on(&self, server: &Server) {
        let mut client = Client::of(server);
        let mut program = Program::of(server, &self.run, 7);
        for (key, owner) in [("bound", 5), ("short", 6)] {
            program.token(key, owner, Ask::Mutex);
        }
        let again = blocked(server, "mutex", "600", "again");
        for (key, held) in &self.held {
            assert!(client.renew(key, held).is_ok(), "{key}");
        }
        for (key, held) in &self.held {
            let wrong = HeldLock { secret: held.secret ^ 1, ..held.clone() };
            assert_eq!(client.release(key, &wrong), ServerReply::Nil, "{key}");
            assert!(client.release(key, held).is_ok(), "{key}");
        }
        let asks = [Ask::Mutex, Ask::Write, Ask::Permits { take: 3, of: 3 }, member("x")];
        for ((key, owner), ask) in ALL.into_iter().zip(1..).zip(asks) {
            let token = program.token(key, owner, ask);
            assert!(token > self.before[key].token as u64, "{key}: {token}");
            program.release(key, owner);
        }
        // Clients that were blocked come back, and get the lock in order.
        let mut again = again;
        let held = again.granted();
        assert!(held.token > self.before["mutex"].token);
        assert!(again.release("mutex", &held).is_ok());
    }
}

/// Starts a server, stops it with `end`, and checks the locks.
fn over(builder: Builder, end: impl FnOnce(&Server)) {
    let clock = ServerClock::ahead(0).expect("a clock");
    let server = builder.clock(&clock).start().expect("a server");
    let scene = Scene::set(&server);
    end(&server);
    restart(&server);
    scene.is_still_there(&server, &clock);
    scene.goes_on(&server);
}

fn with_log(flavor: Flavor, preamble: &str) -> Builder {
    logging(flavor, &[]).args(["--aof-use-rdb-preamble", preamble])
}

fn rewrite_log(server: &Server) {
    let reply = server.cli(&["BGREWRITEAOF"]);
    assert!(reply.text().is_some(), "{reply}");
    let is_done = || {
        let info = server.info("persistence");
        let is = |name: &str, value: &str| info.get(name).is_some_and(|is| is == value);
        let idle = is("aof_rewrite_in_progress", "0") && is("aof_rewrite_scheduled", "0");
        (idle && is("aof_last_bgrewrite_status", "ok")).then_some(())
    };
    eventually("the log is rewritten", is_done).expect("a rewrite");
}

on_both! {
    fn a_saved_file_brings_everything_back(flavor: Flavor) {
        over(builder(flavor, &[]), |server| {
            assert!(server.cli(&["SAVE"]).is_ok());
            server.kill();
        });
    }

    fn a_shutdown_with_save_brings_everything_back(flavor: Flavor) {
        over(builder(flavor, &[]), |server| {
            // The server exits without a reply.
            let _ = server.try_cli(&["SHUTDOWN", "SAVE"]);
            let ended = || (!server.is_running()).then_some(());
            eventually("the server has ended", ended).expect("an end");
        });
    }

    fn a_log_of_steps_brings_everything_back_after_a_crash(flavor: Flavor) {
        over(with_log(flavor, "no"), Server::kill);
    }

    fn a_log_of_steps_brings_everything_back_also_behind_a_saved_beginning(flavor: Flavor) {
        over(with_log(flavor, "yes"), Server::kill);
    }

    fn a_log_that_was_rewritten_as_commands_brings_everything_back(flavor: Flavor) {
        over(with_log(flavor, "no"), |server| {
            rewrite_log(server);
            server.kill();
        });
    }

    fn a_log_that_was_rewritten_as_a_saved_file_brings_everything_back(flavor: Flavor) {
        over(with_log(flavor, "yes"), |server| {
            rewrite_log(server);
            server.kill();
        });
    }

    fn a_log_goes_on_behind_what_was_rewritten(flavor: Flavor) {
        let server = with_log(flavor, "no").start().expect("a server");
        let mut client = Client::of(&server);
        let first = client.take("a 600 LABEL first");
        rewrite_log(&server);
        assert!(client.release("a", &first).is_ok());
        let second = client.take("a 600 LABEL second");
        let digest = client.digest("a");
        server.kill();
        restart(&server);
        let mut client = Client::of(&server);
        assert_eq!(client.digest("a"), digest);
        assert_eq!(client.release("a", &first), ServerReply::Nil);
        assert!(client.release("a", &second).is_ok());
        assert!(client.take("a 600").token > second.token);
    }
}
