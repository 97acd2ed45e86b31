//! What else clients do with a lock: hand it on, break it, and look at it.

use std::time::Duration;

use taketurns::{Error, ErrorKind, Handle, LossCause};

use super::nodes::{LONG_LEASE, Nodes, nothing_is_left, seen};
use crate::support::patience::{block_on, soon};

#[test]
fn a_handle_travels_and_any_process_can_use_it() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (one, two) = (nodes.connect().await, nodes.connect().await);
        let guard = one.mutex("l").acquire().lease(Duration::from_secs(20)).await.expect("free");
        let token = guard.token();
        let text = guard.into_handle().await.expect("held").expose();
        one.close().await;
        let handle = Handle::parse(&text).expect("as it was given");

        let left = two.renew(&handle, Some(Duration::from_secs(60))).await.expect("held");
        assert!(left > Duration::from_secs(20), "{left:?}");
        let guard = two.adopt(handle).await.expect("held");
        assert_eq!(guard.token(), token);
        guard.check().expect("held");
        assert!(two.mutex("l").try_acquire().await.expect("an answer").is_none());

        let three = nodes.connect().await;
        let handle = guard.into_handle().await.expect("held");
        three.release(&handle).await.expect("held");
        nothing_is_left(&nodes.each().await, "l").await;
        for error in [
            three.release(&handle).await.expect_err("released"),
            two.renew(&handle, None).await.expect_err("released"),
            two.adopt(handle).await.expect_err("released"),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
        }
    });
}

#[test]
fn a_broken_lock_is_lost_to_its_holder_and_goes_to_the_next() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (one, two, three) =
            (nodes.connect().await, nodes.connect().await, nodes.connect().await);
        // Not renewed while this runs: it is told.
        let guard = one.mutex("l").acquire().lease(LONG_LEASE).await.expect("free");
        let waits = tokio::spawn({
            let acquire = two.mutex("l").acquire();
            async move { acquire.await.expect("a turn") }
        });
        seen("it waits", &three, "l", |view| view.waiting == 1).await;
        let broken = three.break_lock("l").at_once().await.expect("broken");
        assert_eq!(broken, 1);
        assert_eq!(soon("it hears of it", guard.lost()).await, LossCause::Revoked);
        let lost = guard.check().expect_err("broken");
        assert!(matches!(lost, Error::Lost { cause: LossCause::Revoked, .. }), "{lost}");
        let next = soon("it is handed over", waits).await.expect("no panic");
        assert!(next.token() > guard.token());
        next.check().expect("held");
        drop(guard);
        next.release().await.expect("held, whatever was before");
        nothing_is_left(&nodes.each().await, "l").await;
    });
}

#[test]
fn what_is_seen_of_a_lock_is_one_holder_and_one_queue() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (one, two, looks) =
            (nodes.connect().await, nodes.connect().await, nodes.connect().await);
        assert_eq!(looks.inspect("a").await.expect("an answer"), None);
        let guard = one.mutex("a").acquire().why("to be seen").await.expect("free");
        let other = one.mutex("b").acquire().await.expect("free");
        let waits = tokio::spawn({
            let acquire = two.mutex("a").acquire().why("to be next");
            async move { acquire.await.expect("a turn") }
        });
        let view = seen("it waits", &looks, "a", |view| view.waiting == 1).await;
        let [holder] = &view.holders[..] else { panic!("{view:?}") };
        assert_eq!((holder.client, holder.token), (one.client_id(), Some(guard.token())));
        assert_eq!(holder.label.why(), "to be seen");
        assert_eq!(view.last_token, Some(guard.token()));
        let [waiter] = &view.waiters[..] else { panic!("{view:?}") };
        assert_eq!((waiter.client, waiter.label.why()), (two.client_id(), "to be next"));

        let names = async |pattern: &str| -> Vec<String> {
            let all = looks.list(pattern).await.expect("an answer");
            all.into_iter().map(|(name, _)| name.to_string()).collect()
        };
        assert_eq!(names("*").await, ["a", "b"]);
        assert_eq!(names("b*").await, ["b"]);

        // With a minority down it is seen as before.
        nodes.servers[..2].iter().for_each(taketurns_servers::Server::kill);
        let view = seen("it is held", &looks, "a", |view| view.holders.len() == 1).await;
        assert_eq!((view.holders[0].token, view.waiting), (Some(guard.token()), 1));
        assert_eq!(names("*").await, ["a", "b"]);
        drop(other);
        guard.release().await.expect("held");
        soon("a turn", waits).await.expect("no panic").release().await.expect("held");
    });
}

#[test]
fn with_a_minority_down_a_held_lock_is_busy_and_a_free_one_is_not() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (one, two) = (nodes.connect().await, nodes.connect().await);
        let guard = one.mutex("held").acquire().await.expect("free");
        nodes.servers[3..].iter().for_each(taketurns_servers::Server::kill);
        for _ in 0..50 {
            let tried = two.mutex("held").try_acquire().await.expect("three nodes answer");
            assert!(tried.is_none(), "it is held");
            let tried = two.mutex("free").try_acquire().await.expect("three nodes answer");
            tried.expect("it is free").release().await.expect("held");
        }
        guard.check().expect("held");
        guard.release().await.expect("held");
    });
}
