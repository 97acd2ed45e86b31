//! `protocol=fairqueue`: the connection on which calls are heard, and the rights that all of it needs.

use taketurns_servers::{Connection, Flavor, ReplicaSet, ServerReply, on_both};

use super::rights::rights;
use super::*;

/// In the database of the test.
fn opens(server: &Server, db: &str) -> Connection {
    let mut connection = server.connect().expect("a server");
    assert!(connection.command(&["SELECT", db]).expect("an answer").is_ok());
    connection
}

/// A command of a foreign client, on a connection of its own: after a fail-over Sentinel ends those that there are.
fn asks(server: &Server, db: &str, words: &[&str]) -> Option<ServerReply> {
    let mut connection = server.connect().ok()?;
    connection.command(&["SELECT", db]).ok()?;
    connection.command(words).ok()
}

/// Calls the first waiter until it hears the call.
fn is_heard(server: &Server, db: &str, lock: &str) {
    let line = format!("lock-queue:{lock}");
    let first = || asks(server, db, &["LINDEX", &line, "0"]);
    let head = eventually("it waits", || Some(first()?.text()?.to_owned())).expect("a place");
    let calls = format!("lock-notify:{head}");
    eventually("it is called", || asks(server, db, &["RPUSH", &calls, "x"])).expect("a call");
    eventually("a call is heard", || {
        (asks(server, db, &["LLEN", &calls])?.int() == Some(0)).then_some(())
    })
    .expect("an ear");
    let still = eventually("an answer", first).expect("a server");
    assert_eq!(still.text(), Some(head.as_str()), "it has not just given up");
}

async fn opens_ours(url: &str) -> Locks {
    let url = format!("{url}?protocol=fairqueue&unfenced=ok");
    soon("connecting", taketurns::connect(&url)).await.expect("a server")
}

fn waits_for_it(ours: &Locks, lock: &'static str) -> tokio::task::JoinHandle<Guard> {
    let ours = ours.clone();
    tokio::spawn(async move { acquires(&ours, lock).await })
}

on_both! {
    fn calls_are_heard_also_after_the_connection_was_lost(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let ours = opens_ours(&format!("{}/3", server.url())).await;
            let mut foreign = opens(&server, "3");
            foreign.command(&["SET", "lock:orders", "a foreign client"]).expect("an answer");
            let waiting = waits_for_it(&ours, "orders");
            is_heard(&server, "3", "orders");
            server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            let mut foreign = opens(&server, "3");
            is_heard(&server, "3", "orders");
            foreign.command(&["DEL", "lock:orders"]).expect("an answer");
            drop(soon("its turn", waiting).await.expect("no panic"));
        });
    }

    fn after_a_fail_over_calls_are_heard_on_the_new_master(flavor: Flavor) {
        let set = ReplicaSet::start(flavor).expect("a set");
        block_on(async {
            let ours = opens_ours(&set.url()).await;
            let old = set.master().expect("a master");
            let mut foreign = opens(old, "0");
            foreign.command(&["SET", "lock:orders", "a foreign client"]).expect("an answer");
            let waiting = waits_for_it(&ours, "orders");
            is_heard(old, "0", "orders");
            old.kill();
            let new = set.failed_over(old).expect("a fail-over");
            is_heard(new, "0", "orders");
            waiting.abort();
        });
    }

    fn a_new_waiter_is_listened_for_at_once(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let ours = opens_ours(&server.url()).await;
            let listened = || server.command_stats().get("blpop").map_or(0, |stats| stats.calls);
            let before = listened();
            let expired = || server.info("stats").get("expired_keys").cloned();
            let expired_before = expired();
            let locks = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
            let mut waiting = Vec::new();
            for lock in locks {
                server.cli(&["SET", &format!("lock:{lock}"), "a foreign client"]);
                waiting.push(waits_for_it(&ours, lock));
                waits(&server, lock, 1);
                eventually("it listens anew", || {
                    let told = server.cli(&["KEYS", "tt:wake:*"]);
                    told.array()?.is_empty().then_some(())
                })
                .expect("an ear");
            }
            let calls = listened() - before;
            // Each was heard, which is the end of one command, and none was just too old to be heard.
            assert!(calls >= locks.len() as u64, "{calls} times");
            assert_eq!(expired(), expired_before, "not heard");
            waiting.iter().for_each(tokio::task::JoinHandle::abort);
            eventually("the connection ends", || {
                let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
                (!clients.text()?.contains("cmd=blpop")).then_some(())
            })
            .expect("nobody waits");
        });
    }

    fn what_is_done_about_foreign_clients_needs_no_more_rights(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let words = rights(include_str!("../../../../../../docs/protocols/fairqueue.md"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(server.cli(&words).is_ok(), "{words:?}");
        block_on(async {
            let ours = opens_ours(&format!("redis://taketurns:secret@127.0.0.1:{}", server.port())).await;
            let mut foreign = opens(&server, "0");
            foreign.command(&["SET", "lock:orders/1", "first"]).expect("an answer");
            foreign.command(&["RPUSH", "lock-queue:orders/1", "dead"]).expect("an answer");
            let waiting = waits_for_it(&ours, "orders/1");
            waits(&server, "orders/1", 1);
            foreign.command(&["DEL", "lock:orders/1"]).expect("an answer");
            let guard = soon("its turn", waiting).await.expect("no panic");
            foreign.command(&["SET", "lock:orders/1", "second"]).expect("an answer");
            let waiting = waits_for_it(&ours, "orders/1");
            is_heard(&server, "0", "orders/1");
            assert!(ours.inspect("orders/1").await.expect("a server").is_some());
            assert_eq!(ours.break_lock("orders/1").at_once().await.expect("a server"), 1);
            soon("its turn", waiting).await.expect("no panic").release().await.expect("held");
            assert!(guard.release().await.is_err(), "it was lost");
            let denied = server.cli(&["ACL", "LOG"]);
            assert_eq!(denied.array().map(<[_]>::len), Some(0), "{denied}");
        });
    }
}
