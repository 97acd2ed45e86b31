//! What becomes of work that is done when its server restarts, fails over or is flushed. `docs/engines.md` says the same.

use std::time::Duration;

use taketurns::{Attempt, Begun, Completion, Locks, Token};
use taketurns_servers::{Flavor, ReplicaSet, Server, eventually, on_both};

use super::{MAX_LEASE, block_on, connect, lasting, soon, store, wall_us};

async fn attempt(locks: &Locks) -> Attempt {
    match soon("the first attempt begins", locks.once("l").begin())
        .await
        .expect("the store answers")
    {
        Begun::Attempt(attempt) => attempt,
        Begun::DoneBefore(done) => panic!("it must be done again: {done:?}"),
    }
}

async fn do_work(locks: &Locks) -> Token {
    let attempt = attempt(locks).await;
    let token = attempt.token();
    attempt.done_with("three tables").await.expect("recorded");
    token
}

async fn told(locks: &Locks) -> Completion {
    match soon("it is done", locks.once("l").begin()).await.expect("the store answers") {
        Begun::DoneBefore(done) => done,
        Begun::Attempt(attempt) => panic!("it was done, and is granted with {}", attempt.token()),
    }
}

/// It must be done again, but not before every earlier lease is over, and with a larger token.
async fn is_to_be_done_again(locks: &Locks, lost_us: u64, before: Token) {
    let again = attempt(locks).await;
    let max_lease_us = u64::try_from(MAX_LEASE.as_micros()).expect("short");
    assert!(again.token() > before && again.token().raw() >= lost_us + max_lease_us);
    again.done().await.expect("recorded");
    assert!(told(locks).await.token > before);
}

on_both! {
    fn what_is_done_outlives_a_restart_with_an_append_only_file(flavor: Flavor) {
        block_on(async {
            let server = lasting(flavor);
            // Its quarantine would outlast the test.
            let url = format!("{}?max_lease=600", server.url());
            let (one, two) = (connect(&url).await, connect(&url).await);
            let token = do_work(&one).await;
            server.kill();
            server.restart().expect("it comes back");
            let done = told(&two).await;
            assert_eq!((done.token, done.result.as_str()), (token, "three tables"));
            assert_eq!(told(&connect(&url).await).await, done, "a new client is told as well");
            assert!(one.once("l").undo().await.expect("the store answers"), "nothing is granted, but forgotten");
        });
    }

    fn a_restart_without_persistence_forgets_what_is_done(flavor: Flavor) {
        block_on(async {
            let server = Server::start(flavor).expect("a server");
            let locks = connect(&store(&server.url())).await;
            let token = do_work(&locks).await;
            server.kill();
            let down_us = wall_us();
            server.restart().expect("it comes back");
            is_to_be_done_again(&locks, down_us, token).await;
        });
    }

    fn a_flush_forgets_what_is_done(flavor: Flavor) {
        block_on(async {
            let server = Server::start(flavor).expect("a server");
            let locks = connect(&store(&server.url())).await;
            let token = do_work(&locks).await;
            let flushed_us = wall_us();
            assert!(server.cli(&["FLUSHALL"]).is_ok());
            is_to_be_done_again(&locks, flushed_us, token).await;
        });
    }

    fn a_replica_that_takes_over_knows_what_it_heard_of(flavor: Flavor) {
        block_on(async {
            let set = ReplicaSet::start(flavor).expect("a set");
            let locks = connect(&store(&set.url())).await;
            let old = set.master().expect("a master");
            let heard_of = do_work(&locks).await;
            for replica in set.replicas().expect("replicas") {
                let heard = || replica.cli(&["HEXISTS", "tt:l", "x"]).int().filter(|count| *count == 1);
                eventually("the replicas know that it is done", heard).expect("they do");
            }
            set.cut_replication().expect("a cut");
            assert!(locks.once("l").undo().await.expect("the store answers"));
            let unheard = do_work(&locks).await;
            assert!(heard_of < unheard);
            old.kill();
            set.failed_over(old).expect("a fail-over");
            // It never heard of the undo either: what it remembers is as old as its data.
            assert_eq!(told(&locks).await.token, heard_of);
            assert!(locks.once("l").undo().await.expect("the store answers"));
            let again = attempt(&locks).await;
            assert!(again.token() > unheard, "tokens grow all the same");
        });
    }

    fn a_replica_that_is_behind_grants_work_that_was_done(flavor: Flavor) {
        block_on(async {
            let set = ReplicaSet::start(flavor).expect("a set");
            let locks = connect(&store(&set.url())).await;
            let old = set.master().expect("a master");
            locks.mutex("m").acquire().await.expect("free").release().await.expect("held");
            for replica in set.replicas().expect("replicas") {
                let heard = || replica.cli(&["EXISTS", "tt:m"]).int().filter(|count| *count == 1);
                eventually("the replicas follow", heard).expect("they do");
            }
            set.cut_replication().expect("a cut");
            let token = do_work(&locks).await;
            old.kill();
            let down_us = wall_us();
            set.failed_over(old).expect("a fail-over");
            is_to_be_done_again(&locks, down_us, token).await;
        });
    }
}

/// An eviction takes a key of a once like any other that expires.
#[test]
fn the_keys_of_work_that_is_done_expire_when_it_is_forgotten() {
    block_on(async {
        let server = Server::start(Flavor::Redis).expect("a server");
        let locks = connect(&server.url()).await;
        do_work(&locks).await;
        let left = server.cli(&["PTTL", "tt:l"]).int().expect("a time");
        let day = i64::try_from(Duration::from_secs(86_400).as_millis()).expect("short");
        assert!((day - 60_000..=day + 600_000).contains(&left), "{left}");
        assert!(locks.once("l").undo().await.expect("the store answers"));
        let left = server.cli(&["PTTL", "tt:l"]).int().expect("a time");
        assert!(left <= 3_600_000 + 600_000, "{left}");
    });
}
