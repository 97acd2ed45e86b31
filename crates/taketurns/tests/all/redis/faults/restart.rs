//! Restarts: a server that may have forgotten grants makes none until that can't matter any more.

use std::time::Duration;

use taketurns::ErrorKind;
use taketurns_servers::{Flavor, Server, on_both};

use super::load::Load;
use super::{MAX_LEASE, block_on, connect, connect_for, lasting, seen, soon, store, wall_us};
use crate::support::in_vain::in_vain;

/// How long a quarantine lasts where a test looks at it: long enough for all that it looks at.
const LONG: Duration = Duration::from_secs(10);

fn long(url: &str) -> String {
    format!("{url}?max_lease={}", LONG.as_secs())
}

/// Kills it, and starts it again. The time is one at which it did not run.
fn restart(server: &Server) -> u64 {
    server.kill();
    let down_us = wall_us();
    server.restart().expect("it comes back");
    down_us
}

on_both! {
    fn a_restarted_server_grants_nothing_under_load_until_every_lease_is_over(flavor: Flavor) {
        let server = lasting(flavor);
        let load = Load::start(&[store(&server.url())]);
        let mut down_us = Vec::new();
        for _ in 0..2 {
            load.goes_on(100);
            down_us.push(restart(&server));
        }
        load.goes_on(100);
        let history = load.finish();
        for down_us in down_us {
            history.pauses(down_us, MAX_LEASE);
        }
    }

    fn in_quarantine_holders_renew_and_release_and_waiters_keep_their_places(flavor: Flavor) {
        block_on(async {
            let server = lasting(flavor);
            let url = long(&server.url());
            let (one, two) = (connect(&url).await, connect(&url).await);
            let kept = one.mutex("kept").acquire().lease(LONG).await.expect("a fresh server");
            let passed = one.mutex("passed").acquire().lease(LONG).await.expect("free");
            let waits = tokio::spawn({
                let acquire = two.mutex("passed").acquire().lease(LONG);
                async move { acquire.await.expect("a turn") }
            });
            seen("it waits", &one, "passed", |view| view.waiting == 1).await;
            let down_us = restart(&server);

            // One who comes new.
            let newcomer = connect(&url).await;
            let error = newcomer.mutex("free").try_acquire().lease(LONG).await;
            let error = error.expect_err("nothing is granted");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            let view = newcomer.inspect("free").await.expect("it answers").expect("what it says");
            assert!(view.is_blank());
            let left = view.quarantine_left.expect("in quarantine");
            assert!(left <= LONG, "{left:?}");

            // One who holds: renews.
            let first = newcomer.inspect("kept").await.expect("it answers").expect("held");
            assert_eq!(first.holders[0].token, Some(kept.token()), "it outlived the restart");
            let renewed = |view: &taketurns::View| {
                view.quarantine_left.is_some() && view.holders[0].left > first.holders[0].left
            };
            seen("a lease is renewed in quarantine", &newcomer, "kept", renewed).await;
            assert!(kept.is_held());

            // One who lets go, and one who waits: its place is kept, and it is not granted.
            soon("a release in quarantine", passed.release()).await.expect("held");
            let free = |view: &taketurns::View| {
                view.quarantine_left.is_some() && view.holders.is_empty() && view.waiting == 1
            };
            seen("it is free, and one still waits", &newcomer, "passed", free).await;
            assert!(!waits.is_finished());

            let next = soon("the quarantine ends", waits).await.expect("no panic");
            let granted_us = next.token().raw();
            let long_us = u64::try_from(LONG.as_micros()).expect("short");
            assert!(granted_us >= down_us + long_us, "granted too soon");
            assert!(kept.is_held(), "it was renewed all the time");
            let free = newcomer.mutex("free").try_acquire().lease(LONG).await;
            assert!(free.expect("no quarantine any more").is_some());
        });
    }

    fn who_waits_until_its_time_is_over_is_told_of_the_quarantine(flavor: Flavor) {
        block_on(async {
            let server = lasting(flavor);
            let day = format!("{}?max_lease=86400", server.url());
            let holder = connect(&day).await;
            let _held = holder.mutex("held").acquire().await.expect("a first use");
            // One who had its place before hears of it by a refresh.
            let before = connect(&day).await;
            let waits = tokio::spawn({
                let acquire = before.mutex("held").acquire().within(Duration::from_secs(12));
                async move { acquire.await.expect_err("nothing is granted") }
            });
            seen("it waits", &holder, "held", |view| view.waiting == 1).await;
            restart(&server);
            // One who comes later is told with its place, long before it refreshes that.
            let later = connect_for(Duration::from_secs(60), &day).await;
            let error = in_vain(|within| later.mutex("free").acquire().within(within)).await;
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            let error = soon("its time is over", waits).await.expect("no panic");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
        });
    }

    fn how_a_store_is_to_take_a_restart_is_up_to_its_url(flavor: Flavor) {
        block_on(async {
            let server = lasting(flavor);
            let day = format!("{}?max_lease=86400", server.url());
            let fresh = connect(&day).await;
            let granted = fresh.mutex("l").try_acquire().await.expect("a first use");
            granted.expect("granted at once").release().await.expect("held");
            restart(&server);
            let cautious = connect(&day).await;
            let error = cautious.mutex("l").try_acquire().await.expect_err("restarted");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            let hasty = connect(&format!("{day}&failover=immediate")).await;
            let granted = hasty.mutex("new").try_acquire().await.expect("no quarantine");
            assert!(granted.is_some(), "granted at once");

            let young = Server::start(flavor).expect("a server");
            let strict = format!("{}?max_lease=86400&failover=strict", young.url());
            let error = connect(&strict).await.mutex("l").try_acquire().await.expect_err("young");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
        });
    }
}
