//! `protocol=python-redis-lock`: each release pushes to a list on which all waiters block.

use taketurns_servers::{Connection, Flavor, ServerClock, on_both};

use super::*;

const LOCK: &str = "lock:orders";
const SIGNAL: &str = "lock-signal:orders";

/// What the library does to release.
const RELEASE: &str = "
    redis.call('DEL', KEYS[2])
    redis.call('LPUSH', KEYS[2], 1)
    redis.call('PEXPIRE', KEYS[2], 1000)
    return redis.call('DEL', KEYS[1])";

fn starts(flavor: Flavor) -> Server {
    Server::start(flavor).expect("a server")
}

fn takes(server: &Server) -> bool {
    server.cli(&["SET", LOCK, "a foreign client's", "NX", "PX", "600000"]).is_ok()
}

/// A foreign client that takes the lock as soon as it is signalled, within the same moment of the server.
fn blocks(server: &Server) -> Connection {
    let mut blocked = server.connect().expect("a server");
    blocked.send(&["BLPOP", SIGNAL, "0"]).expect("sent");
    blocked.send(&["SET", LOCK, "a foreign client's", "NX", "PX", "600000"]).expect("sent");
    blocked
}

/// It was signalled. Has it the lock?
fn came(blocked: &mut Connection) -> bool {
    blocked.read().expect("a signal").array().is_some()
        && blocked.read().expect("an answer").is_ok()
}

fn blocked_clients(server: &Server) -> u64 {
    let info = server.cli(&["INFO", "clients"]);
    let lines = info.text().expect("text").lines();
    let count = lines.filter_map(|line| line.strip_prefix("blocked_clients:")).next();
    count.expect("a count").parse().expect("a number")
}

on_both! {
    fn a_release_signals_those_who_block_on_the_list(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "python-redis-lock").await;
            let guard = acquires(&locks, "orders").await;
            assert_eq!(foreign_keys(&server), [LOCK]);
            assert!(!takes(&server), "a foreign client is kept out");
            let mut blocked = blocks(&server);
            guard.release().await.expect("held");
            assert!(came(&mut blocked), "it has the lock");
            assert!(is_busy(&locks, "orders").await, "and we have not");
        });
    }

    fn a_signal_that_nobody_takes_expires(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "python-redis-lock").await;
            for _ in 0..3 {
                acquires(&locks, "orders").await.release().await.expect("held");
            }
            assert_eq!(server.cli(&["LLEN", SIGNAL]).int(), Some(1), "one, and not one per release");
            let left_ms = server.cli(&["PTTL", SIGNAL]).int().expect("a number");
            assert!((1..=1_000).contains(&left_ms), "{left_ms}");
        });
    }

    fn a_foreign_release_wakes_ours_by_the_signal(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let url = format!("{}?protocol=python-redis-lock&unfenced=ok", server.url());
            let locks = sleeper(&url, AllowedLooks::Never).await;
            for _ in 0..3 {
                assert!(takes(&server));
                let waiting = tokio::spawn({
                    let locks = locks.clone();
                    async move { acquires(&locks, "orders").await }
                });
                waits(&server, "orders", 1);
                assert_eq!(server.cli(&["EVAL", RELEASE, "2", LOCK, SIGNAL]).int(), Some(1));
                let guard = soon("its turn", waiting).await.expect("no panic");
                guard.release().await.expect("held");
            }
        });
    }

    fn a_signal_that_ours_take_from_a_lock_left_to_others_reaches_them(flavor: Flavor) {
        // No time passes: the lock is left to foreign clients until one has it.
        let clock = ServerClock::stopped().expect("a clock");
        let server = Server::builder(flavor).clock(&clock).start().expect("a server");
        block_on(async {
            let (one, other) =
                (speaks(&server, "python-redis-lock").await, speaks(&server, "python-redis-lock").await);
            let guard = acquires(&one, "orders").await;
            // Without a limit: giving up would push a signal too.
            let waiting = tokio::spawn(other.mutex("orders").acquire().lease(LEASE).into_future());
            waits(&server, "orders", 1);
            // As if foreign clients had come the last time: the release leaves the lock to them.
            server.cli(&["HSET", "tt:orders", "gc", "0 0 0"]);
            // Ours blocks on the list before the foreign client does, so it is woken first.
            eventually("ours blocks", || (blocked_clients(&server) == 1).then_some(())).expect("blocked");
            let mut blocked = blocks(&server);
            eventually("it blocks", || (blocked_clients(&server) == 2).then_some(())).expect("blocked");
            guard.release().await.expect("held");
            assert!(came(&mut blocked), "it has the lock");
            waiting.abort();
        });
    }

    fn a_signal_that_ours_take_after_their_turn_reaches_foreign_clients(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (one, other) =
                (speaks(&server, "python-redis-lock").await, speaks(&server, "python-redis-lock").await);
            let guard = acquires(&one, "orders").await;
            let waiting = tokio::spawn(async move { acquires(&other, "orders").await });
            waits(&server, "orders", 1);
            // It still blocks on the list when it has had its turn, and has done so for longer than the other.
            eventually("ours blocks", || (blocked_clients(&server) == 1).then_some(())).expect("blocked");
            let mut blocked = blocks(&server);
            eventually("it blocks", || (blocked_clients(&server) == 2).then_some(())).expect("blocked");
            guard.release().await.expect("held");
            soon("its turn", waiting).await.expect("no panic").release().await.expect("held");
            assert!(came(&mut blocked), "it has the lock");
        });
    }

    fn a_release_signals_others_also_if_only_the_dead_are_in_our_queue(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (proxy, dead) = mortal(&server, "python-redis-lock").await;
            let locks = speaks(&server, "python-redis-lock").await;
            let guard = acquires(&locks, "orders").await;
            let never = tokio::spawn(async move { acquires(&dead, "orders").await });
            waits(&server, "orders", 1);
            // Its connections end with it: the server would give the signal to one that still blocks on the list.
            proxy.hold(true);
            proxy.cut();
            eventually("nobody blocks", || (blocked_clients(&server) == 0).then_some(())).expect("gone");
            tokio::time::sleep(MORTAL_LEASE * 2).await;
            let mut blocked = blocks(&server);
            guard.release().await.expect("held");
            assert!(came(&mut blocked), "it has the lock");
            never.abort();
        });
    }
}
