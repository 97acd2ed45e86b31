//! `protocol=plain`: the key is the lock.

use std::time::{Duration, Instant};

use taketurns::Token;
use taketurns_servers::{Flavor, Server, ServerClock, eventually, on_both};

use super::*;

fn starts(flavor: Flavor) -> Server {
    Server::start(flavor).expect("a server")
}

/// A foreign client takes the lock, as all of them do.
fn takes(server: &Server, name: &str, ms: &str) -> bool {
    server.cli(&["SET", name, "a foreign client's", "NX", "PX", ms]).is_ok()
}

fn value(server: &Server, name: &str) -> Option<String> {
    server.cli(&["GET", name]).text().map(str::to_owned)
}

fn left_ms(server: &Server, name: &str) -> i64 {
    server.cli(&["PTTL", name]).int().expect("a number")
}

/// Waits until the new holder's lease is longer than a waiter lease.
async fn until_kept(locks: &Locks) {
    let waiter_lease = Duration::from_millis(taketurns::limits::WAITER_LEASE_MS_DEFAULT);
    let kept = async {
        loop {
            let view = locks.inspect("orders").await.expect("a server").expect("a lock");
            if view.holders.iter().any(|holder| holder.left > waiter_lease) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("it is renewed", kept).await;
}

on_both! {
    fn the_key_is_there_while_the_lock_is_held_and_has_its_lease(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let guard = acquires(&locks, "orders").await;
            assert_eq!(guard.token(), Token::UNFENCED, "there is no room for one");
            assert!(guard.is_held());
            assert!((20_000..=60_000).contains(&left_ms(&server, "orders")));
            assert!(!takes(&server, "orders", "60000"), "a foreign client is kept out");
            guard.release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
            assert!(takes(&server, "orders", "60000"));
            assert!(is_busy(&locks, "orders").await, "and so are we");
        });
    }

    fn an_idle_lock_is_not_listed(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let guard = acquires(&locks, "orders").await;
            assert_eq!(locks.list("*").await.expect("a server").len(), 1);
            guard.release().await.expect("held");
            assert_eq!(locks.list("*").await.expect("a server"), [], "there is nothing to see");
        });
    }

    fn what_stands_at_the_key_is_not_the_secret(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let guard = acquires(&locks, "orders").await;
            let value = value(&server, "orders").expect("a value");
            let handle = guard.into_handle().await.expect("held");
            assert!(!handle.expose().contains(&value), "a reader of the key could use the handle");
            assert_eq!(value.len(), 40);
        });
    }

    fn a_foreign_release_is_found_and_its_lease_waited_for(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            assert!(takes(&server, "orders", "60000"));
            let waiting = tokio::spawn({
                let locks = locks.clone();
                async move { acquires(&locks, "orders").await }
            });
            waits(&server, "orders", 1);
            server.cli(&["DEL", "orders"]);
            let guard = waiting.await.expect("no panic");
            assert!(guard.is_held());
            guard.release().await.expect("held");
            let began = Instant::now();
            assert!(takes(&server, "orders", "200"));
            drop(acquires(&locks, "orders").await);
            // But for the part of a millisecond that the server's clock does not show.
            assert!(began.elapsed() >= Duration::from_millis(199), "the foreign client's lease was not over");
        });
    }

    fn ours_are_kept_by_renewal(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let lease = Duration::from_secs(6);
            let guard = soon("an acquire", locks.mutex("orders").acquire().lease(lease)).await.expect("it");
            let value_before = value(&server, "orders");
            let mut least_ms = left_ms(&server, "orders");
            eventually("the key lasts longer", || {
                let left_ms = left_ms(&server, "orders");
                least_ms = least_ms.min(left_ms);
                (left_ms > least_ms).then_some(())
            }).expect("a renewal");
            assert!(least_ms > 0, "it was never gone");
            assert!(guard.is_held());
            assert_eq!(value(&server, "orders"), value_before);
        });
    }

    fn a_client_that_took_over_after_our_lease_is_left_alone(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let guard = acquires(&locks, "orders").await;
            // As if our lease had ended, or an operator had done it.
            server.cli(&["DEL", "orders"]);
            assert!(takes(&server, "orders", "60000"));
            assert!(guard.release().await.is_err(), "it was not held any more");
            assert_eq!(value(&server, "orders").as_deref(), Some("a foreign client's"));
        });
    }

    fn a_holder_whose_key_is_gone_is_told(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let guard = acquires(&locks, "orders").await;
            server.cli(&["DEL", "orders"]);
            // Anybody's look finds out, and the next renewal would.
            let other = speaks(&server, "plain").await;
            let next = acquires(&other, "orders").await;
            soon("it is told", guard.lost()).await;
            assert!(next.is_held() && !guard.is_held());
        });
    }

    fn ours_are_served_in_order_and_handed_the_lock(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (one, other) = (speaks(&server, "plain").await, speaks(&server, "plain").await);
            let first = acquires(&one, "orders").await;
            let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..6 {
                let locks = if number % 2 == 0 { &one } else { &other }.clone();
                let sender = sender.clone();
                tokio::spawn(async move {
                    let guard = acquires(&locks, "orders").await;
                    let _ = sender.send(number);
                    guard.release().await.expect("held");
                });
                waits(&server, "orders", number + 1);
            }
            first.release().await.expect("held");
            for expected in 0..6 {
                assert_eq!(soon("a turn", order.recv()).await, Some(expected));
            }
        });
    }

    fn who_polls_is_not_starved_by_those_who_hand_over(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            hand_over_all_the_time(&server, "plain").await;
            for _ in 0..3 {
                eventually("a foreign client gets in", || takes(&server, "orders", "50").then_some(())).expect("a turn");
            }
        });
    }

    fn who_polls_is_not_starved_when_the_clock_is_set_back(flavor: Flavor) {
        let clock = ServerClock::ahead(3_600).expect("a clock");
        let server = Server::builder(flavor).clock(&clock).start().expect("a server");
        block_on(async {
            hand_over_all_the_time(&server, "plain").await;
            // Since when foreign clients have had no chance.
            eventually("they hand it over", || {
                let courtesy = server.cli(&["HGET", "tt:orders", "gc"]);
                (courtesy.text()?.split(' ').nth(1)? != "0").then_some(())
            })
            .expect("a hand-over");
            clock.set(0).expect("set");
            eventually("a foreign client gets in", || takes(&server, "orders", "50").then_some(())).expect("a turn");
        });
    }

    fn a_foreign_client_is_seen_and_can_be_broken(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = speaks(&server, "plain").await;
            assert!(takes(&server, "orders", "600000"));
            let view = locks.inspect("orders").await.expect("a server").expect("a lock");
            assert_eq!(view.holders.len(), 1);
            assert_eq!(view.holders[0].label.why(), "protocol=plain");
            assert!((300_000..=600_000).contains(&view.holders[0].left.as_millis()));
            let error = soon("a break", locks.break_lock("orders")).await.expect_err("it can't be told");
            assert!(error.to_string().contains("a foreign client, which can't be told to stop"), "{error}");
            assert_eq!(value(&server, "orders").as_deref(), Some("a foreign client's"));
            let broken = soon("a break", locks.break_lock("orders").at_once()).await;
            assert_eq!(broken.expect("a server"), 1);
            let guard = acquires(&locks, "orders").await;
            let view = locks.inspect("orders").await.expect("a server").expect("a lock");
            assert_eq!((view.holders.len(), view.holders[0].token, view.last_token), (1, None, None));
            drop(guard);
        });
    }

    fn native_clients_and_those_on_the_wire_exclude_each_other(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let wire = speaks(&server, "plain").await;
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let guard = acquires(&wire, "orders").await;
            assert!(is_busy(&native, "orders").await);
            guard.release().await.expect("held");
            let guard = acquires(&native, "orders").await;
            assert!(guard.token().is_fenced());
            assert!(is_busy(&wire, "orders").await);
            assert_eq!(foreign_keys(&server), [""; 0], "a native client knows no gate");
        });
    }

    fn a_native_client_that_was_handed_the_lock_by_one_on_the_wire_keeps_it(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let wire = speaks(&server, "plain").await;
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let guard = acquires(&wire, "orders").await;
            let waiting = tokio::spawn({
                let native = native.clone();
                async move { acquires(&native, "orders").await }
            });
            waits(&server, "orders", 1);
            guard.release().await.expect("held");
            let guard = waiting.await.expect("no panic");
            assert_eq!(foreign_keys(&server), [""; 0]);
            // A look must not take it for a lock that lost the foreign key.
            assert!(is_busy(&wire, "orders").await);
            until_kept(&native).await;
            assert!(is_busy(&wire, "orders").await);
            assert!(guard.is_held());
            // And the other way about: handed over by a native client, and no gate taken.
            let waiting = tokio::spawn(async move { acquires(&wire, "orders").await });
            waits(&server, "orders", 1);
            guard.release().await.expect("held");
            let guard = waiting.await.expect("no panic");
            assert!(is_busy(&native, "orders").await);
            guard.release().await.expect("held");
            drop(acquires(&native, "orders").await);
        });
    }
}
