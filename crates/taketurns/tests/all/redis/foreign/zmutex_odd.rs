//! `protocol=zmutex`: what is odd, dead or native, and what that must not do to the rest.

use taketurns::Ask;
use taketurns::engine::Reply;
use taketurns_servers::{Flavor, PATIENCE, on_both};

use super::zmutex::*;
use super::zmutex_clients::{TIMEOUT_S, asks, lifeless};
use super::*;

/// A client that only a message wakes.
async fn sleeps(server: &Server) -> Locks {
    let url = format!("{}?protocol=zmutex&timeout={TIMEOUT_S}&unfenced=ok", server.url());
    sleeper(&url, AllowedLooks::AtForeignClients).await
}

/// So long ago that the places of this client are over.
fn was_last_heard_of_long_ago(server: &Server, set: &str, client: taketurns::ClientId) {
    let (key, field) = (format!("tt:{set}"), format!("c{client}"));
    let known = server.cli(&["HGET", &key, &field]);
    let (_deadline, rest) = known.text().expect("a client").split_once(' ').expect("a deadline");
    assert_eq!(server.cli(&["HSET", &key, &field, &format!("1 {rest}")]).int(), Some(0));
}

on_both! {
    fn whatever_the_score_was_it_is_the_servers_time_while_a_member_is_held(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let jobs = locks.pool("jobs");
            // No difference to the time can be added to these without an error of rounding.
            for odd in ["-1e300", "-9007199254740994.0e3", "0.125", "0.375"] {
                for _ in 0..4 {
                    assert!(server.cli(&["ZADD", "jobs", odd, "a"]).int().is_some());
                    let before = time_us(&server);
                    let guard = gets(&jobs, "a").await;
                    let held = score(&server, "jobs", "a");
                    let is_now = held.is_some_and(|held| (before..=time_us(&server)).contains(&held));
                    assert!(is_now, "{odd}: {held:?}");
                    assert!(!takes(&server, "jobs", "a", "60"), "{odd}: a foreign client is kept out");
                    guard.release().await.expect("held");
                }
            }
        });
    }

    fn a_leaving_member_is_had_by_nobody_else_while_a_native_client_has_it(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let jobs = locks.pool("jobs");
            creates(&server, "jobs", "a");
            assert!(takes(&server, "jobs", "a", "60"));
            assert!(jobs.remove("a").await.expect("a server"), "when the foreign client's time is over");
            let guard = gets(&native.pool("jobs"), "a").await;
            // The foreign client's time is over, and the member is added again.
            scores(&server, "jobs", "a", 0);
            assert!(jobs.add("a").await.expect("a server"));
            let tried = soon("a try", jobs.try_any()).await.expect("a server");
            assert!(tried.is_none(), "two have it at once");
            guard.release().await.expect("held");
            gets(&jobs, "a").await.release().await.expect("held");
        });
    }

    fn what_we_add_makes_no_set_larger_than_we_can_read(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let jobs = locks.pool("jobs");
            // One of them is no name to us.
            let mut command = vec!["ZADD".to_owned(), "jobs".to_owned(), "0".to_owned(), String::new()];
            command.extend((1..1024).flat_map(|number| ["0".to_owned(), format!("m{number}")]));
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            assert_eq!(server.cli(&command).int(), Some(1024));
            let guard = gets(&jobs, "m1").await;
            jobs.add("more").await.expect_err("there is no room");
            assert_eq!(score(&server, "jobs", "more"), None);
            guard.release().await.expect("held, and it can be told");
        });
    }

    fn the_dead_at_the_head_of_the_line_keep_no_news_from_those_behind(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (locks, dead) = (sleeps(&server).await, lifeless(&server).await);
            let (jobs, name) = (locks.pool("jobs"), taketurns::Name::new("jobs").expect("one"));
            creates(&server, "jobs", "a");
            creates(&server, "jobs", "b");
            // Their renewals would find out, too, and are too late for that.
            let long = 4 * PATIENCE;
            let a = soon("a", jobs.member("a").lease(long)).await.expect("the member");
            let b = soon("b", jobs.member("b").lease(long)).await.expect("the member");
            let member = taketurns::Member::new("b").expect("one");
            let answer = dead.call(&name, asks(1, Ask::Member(member), 600_000)).await.expect("a server");
            assert!(matches!(answer.reply, Reply::Queued(_)), "{:?}", answer.reply);
            dead.close().await;
            let waiting = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 2);
            was_last_heard_of_long_ago(&server, "jobs", taketurns::ClientId::from_bits(7));
            // As if a foreign client had come when a member was left free the last time.
            assert!(server.cli(&["HSET", "tt:jobs", "gc", "0 0 0"]).int().is_some());
            a.release().await.expect("held");
            soon("a turn", waiting).await.expect("no panic").release().await.expect("held");
            b.release().await.expect("held");
        });
    }

    fn what_a_native_client_took_over_and_handed_on_is_handed_on_by_the_wire(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (locks, dead) = (sleeps(&server).await, lifeless(&server).await);
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let name = taketurns::Name::new("jobs").expect("one");
            creates(&server, "jobs", "a");
            let answer = dead.call(&name, asks(1, Ask::Any, 700)).await.expect("a server");
            assert!(matches!(answer.reply, Reply::Granted(_)), "{:?}", answer.reply);
            dead.close().await;
            let guard = gets(&native.pool("jobs"), "a").await;
            let first = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            guard.release().await.expect("held");
            let first = soon("a turn", first).await.expect("no panic");
            let second = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            first.release().await.expect("held");
            soon("a turn", second).await.expect("no panic").release().await.expect("held");
            assert_eq!(score(&server, "jobs", "a"), Some(0));
        });
    }
}
