//! Servers that are full, that answer nonsense, that hang up: nothing panics, nothing runs hot.

use std::time::{Duration, Instant};

use taketurns::engine::{Pattern, Reply};
use taketurns::{Connect, Error, Name};
use taketurns_servers::{Flavor, Proxy, Server, eventually, on_both};

use super::party::{AttemptResult, Party, on_runtime};
use crate::support::redis_fixture::PATIENT;

/// How often a server hangs up.
const TIMES: u32 = 20;
const MARKER: &str = "tt:\u{1}run";

on_both! {
    fn what_is_held_can_be_given_back_though_a_server_came_back_out_of_memory(flavor: Flavor) {
        on_runtime(async {
            let server = Server::builder(flavor).appendonly(true).start().expect("a server");
            let party = Party::open(&server.url(), 1).await;
            assert_eq!(party.acquire("l", 10, 60_000).await, AttemptResult::Granted);
            server.restart().expect("it starts again");
            server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
            assert_eq!(party.release("l", 10).await, Reply::Released);
        });
    }

    fn a_marker_with_absurd_numbers_is_refused_without_a_panic(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let absurd = format!("taketurns4 somebody {0} {0} {0} ", u64::MAX);
            server.cli(&["SET", MARKER, &absurd]);
            match Connect::new(&server.url()).open().await {
                Err(error @ Error::Store(_)) => assert!(error.to_string().contains("marker"), "{error}"),
                other => panic!("{other:?}"),
            }
        });
    }

    fn a_listing_of_many_crowded_locks_does_not_cost_the_connection(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            // Copying and listing 124 000 readers takes a busy machine longer than the client waits by default.
            let url = format!("{}?{PATIENT}", server.url());
            let locks = Connect::new(&url).open().await.expect("a server");
            let mut guards = Vec::new();
            for _ in 0..1_024 {
                let read = locks.rwlock("crowd").read().why("x".repeat(200));
                guards.push(read.await.expect("a reader"));
            }
            for copy in 0..120 {
                server.cli(&["COPY", "tt:crowd", &format!("tt:crowd{copy:03}")]);
            }
            let party = Party::open(&url, 1).await;
            let listed = party.engine.list(&Pattern::new("crowd*"), None, 500, 1).await;
            assert_eq!(listed.expect("a listing").len(), 121);
            drop(guards);
        });
    }

    fn a_server_that_hangs_up_again_and_again_is_not_called_without_pause(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let proxy = Proxy::start(server.port()).expect("a proxy");
            let holder = Connect::new(&server.url()).open().await.expect("a server");
            let _guard = holder.mutex("l").acquire().await.expect("the lock");
            let waiter = Connect::new(&proxy.url()).open().await.expect("a server");
            let waiting = tokio::spawn(async move { waiter.mutex("l").acquire().await });
            let name = Name::new("l").expect("a name");
            eventually("it waits", || {
                let view = server.cli(&["HGET", &format!("tt:{name}"), "q"]);
                view.text().is_some_and(|queue| queue.starts_with('1')).then_some(())
            }).expect("it waits");
            let calls = || server.command_stats().get("evalsha").map_or(0, |stats| stats.calls);
            let since = Instant::now();
            for _ in 0..TIMES {
                let before = calls();
                proxy.cut();
                eventually("it asks again", || (calls() > before).then_some(())).expect("it asks");
            }
            let least = Duration::from_millis(50) * (TIMES - 1);
            assert!(since.elapsed() >= least, "{TIMES} sessions in {:?}", since.elapsed());
            waiting.abort();
        });
    }

    fn a_hash_of_somebody_else_does_not_hide_the_locks_from_a_listing(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let party = Party::open(&server.url(), 1).await;
            assert_eq!(party.acquire("ours", 10, 60_000).await, AttemptResult::Granted);
            server.cli(&["HSET", "tt:theirs", "H", "1", "k", "what?"]);
            let listed = party.engine.list(&Pattern::new("*"), None, 500, 1).await;
            let names: Vec<_> = listed.expect("a listing").into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, [Name::new("ours").expect("a name")]);
        });
    }
}
