//! Locks that get another name, another database or another process keep their holders and waiters, secrets and timers.

use taketurns_core::Ask;
use taketurns_servers::{Flavor, Server, ServerReply, on_both};

use crate::persistence::program::Program;
use crate::persistence::support::{Client, blocked, server};

/// A database and a key in it.
type Place = (u8, &'static str);

fn at(server: &Server, place: Place) -> Client {
    let mut client = Client::of(server);
    client.ok(&format!("SELECT {}", place.0));
    client
}

/// Moves the lock `k` of database 0 with these commands; its waiters must move with it.
fn moves(flavor: Flavor, commands: &str, to: Place) {
    let server = server(flavor);
    let mut client = Client::of(&server);
    let mut bound = Client::of(&server);
    let held = bound.take("k 600 BOUND LABEL bound");
    let mut first = blocked(&server, "k", "600", "first");
    let leaves = blocked(&server, "k", "600", "leaves");
    let mut last = blocked(&server, "k", "600", "last");
    for part in commands.split("; ") {
        assert_eq!(client.say(part).error(), None, "{part}");
    }
    let mut there = at(&server, to);
    let key = to.1;
    // The module must notice closed connections at the lock's new place, before any command names it.
    drop(leaves);
    there.is_waited_for_by(key, &["first", "last"]);
    assert!(there.renew(key, &held).is_ok());
    if to != (0, "k") {
        let reply = client.renew("k", &held);
        assert!(reply.error().is_some_and(|error| error.starts_with("NOTHELD ")), "{reply}");
    }
    drop(bound);
    let held = first.granted();
    assert!(there.release(key, &held).is_ok());
    let last = last.granted();
    assert!(last.token > held.token);
    assert!(there.release(key, &last).is_ok());
}

/// The same for a lock that passes on when its lease is over.
fn timer_follows(flavor: Flavor, command: &str, to: Place) {
    let server = server(flavor);
    let (mut client, mut program) = (Client::of(&server), Program::of(&server, "", 1));
    client.take("k 3 LABEL short");
    program.wait("k", 1, Ask::Mutex, "program");
    assert_eq!(client.say(command).error(), None, "{command}");
    at(&server, to).is_held_by(to.1, &["program"]);
}

on_both! {
    fn a_lock_that_is_renamed_takes_all_along(flavor: Flavor) {
        moves(flavor, "RENAME k new", (0, "new"));
        moves(flavor, "RENAMENX k new", (0, "new"));
        moves(flavor, "RENAME k k", (0, "k"));
        moves(flavor, "MULTI; RENAME k other; RENAME other new; EXEC", (0, "new"));
    }

    fn a_lock_that_is_moved_to_another_database_takes_all_along(flavor: Flavor) {
        moves(flavor, "MOVE k 3", (3, "k"));
        moves(flavor, "MULTI; MOVE k 3; EXEC", (3, "k"));
    }

    fn locks_of_databases_that_change_places_take_all_along(flavor: Flavor) {
        moves(flavor, "SWAPDB 0 5", (5, "k"));
        moves(flavor, "SWAPDB 0 5; SWAPDB 5 2", (2, "k"));
    }

    fn timers_follow_a_lock_wherever_it_goes(flavor: Flavor) {
        timer_follows(flavor, "RENAME k new", (0, "new"));
        timer_follows(flavor, "MOVE k 3", (3, "k"));
        timer_follows(flavor, "SWAPDB 0 5", (5, "k"));
        timer_follows(flavor, "DEBUG RELOAD", (0, "k"));
    }

    fn a_lock_renamed_onto_another_ends_that_one(flavor: Flavor) {
        for commands in [&["RENAME k other"][..], &["MULTI", "RENAME k other", "EXEC"]] {
            let server = server(flavor);
            let mut client = Client::of(&server);
            let (held, ended) = (client.take("k 600"), client.take("other 600"));
            let mut stays = blocked(&server, "k", "600", "stays");
            let mut told = blocked(&server, "other", "600", "told");
            for command in commands {
                assert_eq!(client.say(command).error(), None);
            }
            told.is_told_to_try_again();
            assert_eq!(client.release("other", &ended), ServerReply::Nil, "another lock is here");
            assert!(client.release("other", &held).is_ok());
            assert!(stays.granted().token > held.token);
        }
    }

    fn a_copy_is_idle_and_goes_on_with_the_tokens(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.int("FENCELOCK.POOL ADD pool x y");
        let held = client.take("pool 600 MEMBER x LABEL a");
        let mut waiter = blocked(&server, "pool", "600 MEMBER x", "waits");
        assert_eq!(client.int("COPY pool copy"), 1);
        assert_eq!(client.labels("copy", "holders"), [""; 0]);
        assert_eq!(client.labels("copy", "waiters"), [""; 0]);
        let reply = client.release("copy", &held);
        assert!(reply.error().is_some_and(|error| error.starts_with("NOTHELD ")), "{reply}");
        let other = client.take("copy 600 MEMBER x");
        assert!(other.token > held.token);
        assert!(client.release("pool", &held).is_ok());
        assert!(waiter.granted().token > held.token);
        assert!(client.release("copy", &other).is_ok());
    }

    fn a_restored_lock_keeps_its_holders_and_programs(flavor: Flavor) {
        let server = server(flavor);
        let (mut client, mut program) = (Client::of(&server), Program::of(&server, "", 1));
        let held = client.take("k 600");
        program.wait("k", 1, Ask::Mutex, "program");
        let mut waiter = blocked(&server, "k", "600", "waits");
        let dump = client.say("DUMP k");
        let dump = dump.bytes().expect("a dump").to_vec();
        let restore: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &dump, b"REPLACE"];
        assert!(client.0.command(&restore).expect("a reply").is_ok());
        waiter.is_told_to_try_again();
        client.is_waited_for_by("k", &["program"]);
        let again = blocked(&server, "k", "600", "again");
        assert!(client.release("k", &held).is_ok());
        assert!(program.token("k", 1, Ask::Mutex) > held.token as u64);
        program.release("k", 1);
        let mut again = again;
        again.granted();
    }

    fn whoever_waits_for_a_lock_is_never_given_its_double(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let held = client.take("k 600");
        let mut waiter = blocked(&server, "k", "600", "waits");
        let mut bound = Client::of(&server);
        bound.take("bound 600 BOUND LABEL bound");
        for (key, double) in [("k", "double"), ("bound", "bound double")] {
            let dump = client.say(&format!("DUMP {key}"));
            let dump = dump.bytes().expect("a dump").to_vec();
            let restore: [&[u8]; 4] = [b"RESTORE", double.as_bytes(), b"0", &dump];
            assert!(client.0.command(&restore).expect("a reply").is_ok());
        }
        // The waiter is in one queue only, and a hold that is bound to a connection exists once.
        client.is_waited_for_by("double", &[]);
        let show = || -> Vec<ServerReply> {
            let mut client = Client::of(&server);
            let reply = client.0.command(&["FENCELOCK.SHOW", "bound double"]).expect("a reply");
            reply.field("holders").and_then(ServerReply::array).unwrap_or_default().to_vec()
        };
        taketurns_servers::eventually("nobody holds the double", || {
            show().is_empty().then_some(())
        })
        .expect("free");
        assert!(client.release("double", &held).is_ok());
        client.is_waited_for_by("k", &["waits"]);
        assert!(client.release("k", &held).is_ok());
        let granted = waiter.granted();
        assert!(client.release("k", &granted).is_ok(), "it was given what it waited for");
    }

    fn a_reload_keeps_holders_and_tells_those_who_wait(flavor: Flavor) {
        let server = server(flavor);
        let (mut client, mut program) = (Client::of(&server), Program::of(&server, "", 1));
        let held = client.take("k 600");
        program.wait("k", 1, Ask::Mutex, "program");
        let mut waiter = blocked(&server, "k", "600", "waits");
        client.ok("DEBUG RELOAD");
        waiter.is_told_to_try_again();
        client.is_waited_for_by("k", &["program"]);
        assert!(client.renew("k", &held).is_ok());
        assert!(client.release("k", &held).is_ok());
        client.is_held_by("k", &["program"]);
    }

    fn what_is_bound_to_a_connection_is_so_after_a_reload(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let mut bound = Client::of(&server);
        let held = bound.take("k 600 BOUND LABEL bound");
        client.ok("DEBUG RELOAD");
        assert!(bound.renew("k", &held).is_ok(), "its connection is open");
        drop(bound);
        client.is_held_by("k", &[]);
        client.take("k 600");
    }
}
