//! Locks whose key is deleted, replaced, flushed, expired or evicted: waiters are told, and holders lose the lock.

use taketurns_core::Ask;
use taketurns_servers::{Flavor, ServerReply, eventually, on_both};

use crate::persistence::program::Program;
use crate::persistence::support::{Client, blocked, server};

/// Asserts that the lock ends with its key.
fn ends(flavor: Flavor, commands: &[&str]) {
    let server = server(flavor);
    let mut client = Client::of(&server);
    for &command in commands {
        client.ok("FLUSHALL");
        client.take("other 600");
        let held = client.take("k 600");
        let mut waiters =
            [blocked(&server, "k", "600", "one"), blocked(&server, "k", "600 BOUND", "two")];
        for part in command.split("; ") {
            let reply = client.say(part);
            assert_eq!(reply.error(), None, "{command}: {part}");
        }
        for waiter in &mut waiters {
            waiter.is_told_to_try_again();
            // The connection works as before.
            assert_eq!(waiter.say("PING").text(), Some("PONG"), "{command}");
        }
        let reply = client.release("k", &held);
        let code = reply.error().and_then(|error| error.split(' ').next());
        // Nil if another lock is there now and is held.
        let is_refused = reply == ServerReply::Nil || matches!(code, Some("NOTHELD" | "WRONGTYPE"));
        assert!(is_refused, "{command}: {reply}");
        client.say("DEL k");
        let again = client.take("k 600");
        assert!(again.token > held.token, "{command}");
        assert!(client.release("k", &again).is_ok(), "{command}");
    }
    let info = server.info("fencelock");
    assert_eq!(info["fencelock_blocked_clients"], "0");
    assert_eq!(info["fencelock_bound_locks"], "0");
}

on_both! {
    fn a_lock_that_is_deleted_ends_and_its_waiters_are_told(flavor: Flavor) {
        ends(flavor, &["DEL k", "UNLINK k", "GETDEL x; DEL k x", "MULTI; DEL k; EXEC"]);
    }

    fn a_lock_that_is_flushed_ends_and_its_waiters_are_told(flavor: Flavor) {
        ends(flavor, &["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"]);
        ends(flavor, &["MULTI; FLUSHALL; EXEC", "FLUSHALL SYNC; FLUSHALL ASYNC"]);
    }

    fn a_lock_that_is_replaced_ends_and_its_waiters_are_told(flavor: Flavor) {
        ends(flavor, &["SET k v", "RENAME other k", "COPY other k REPLACE", "SET x v; RENAME x k"]);
    }

    fn a_lock_whose_key_expires_ends_and_its_waiters_are_told(flavor: Flavor) {
        ends(flavor, &["PEXPIRE k 50", "PEXPIRE k 0", "EXPIREAT k 1"]);
    }

    fn a_database_that_is_flushed_leaves_those_of_another_alone(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let held = client.take("k 600");
        let mut waiter = blocked(&server, "k", "600", "one");
        client.ok("SELECT 1");
        client.take("k 600");
        let mut other = Client::of(&server);
        other.ok("SELECT 1");
        other.wait_for("k 600");
        eventually("it waits", || (client.labels("k", "waiters").len() == 1).then_some(()))
            .expect("a place");
        client.ok("FLUSHDB");
        other.is_told_to_try_again();
        client.ok("SELECT 0");
        assert!(client.release("k", &held).is_ok());
        assert!(waiter.granted().token > held.token);
    }

    fn a_lock_that_is_evicted_ends_and_its_waiters_are_told(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let held = client.take("k 600");
        let mut waiter = blocked(&server, "k", "600", "one");
        client.ok("CONFIG SET maxmemory-policy allkeys-lru");
        client.ok("CONFIG SET maxmemory-samples 64");
        let used: u64 = server.info("memory")["used_memory"].parse().expect("a number");
        client.ok(&format!("CONFIG SET maxmemory {}", used + 200_000));
        let text = "x".repeat(10_000);
        for n in 0.. {
            client.ok(&format!("SET filler{n} {text}"));
            if client.int("EXISTS k") == 0 {
                break;
            }
            assert!(n < 100_000, "it is never evicted");
        }
        waiter.is_told_to_try_again();
        let reply = client.release("k", &held);
        assert!(reply.error().is_some_and(|error| error.starts_with("NOTHELD ")), "{reply}");
    }

    fn a_program_whose_lock_is_gone_asks_again_and_gets_it(flavor: Flavor) {
        let server = server(flavor);
        let (mut client, mut program) = (Client::of(&server), Program::of(&server, "", 1));
        let held = client.take("k 600");
        program.wait("k", 1, Ask::Mutex, "program");
        assert_eq!(client.int("DEL k"), 1);
        assert!(program.token("k", 1, Ask::Mutex) > held.token as u64);
        assert_eq!(client.release("k", &held), ServerReply::Nil, "it is the program's");
        program.release("k", 1);
    }
}
