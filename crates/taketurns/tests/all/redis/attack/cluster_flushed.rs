//! A node of a Cluster that was flushed, and several clients that stayed connected and have not
//! noticed: each sees what another of them wrote there, and must not take it for what was there.

use std::time::Duration;

use taketurns::engine::{Reply, Request};
use taketurns::{Ask, Member};
use taketurns_servers::{Cluster, Flavor, PATIENCE, on_both};

use super::cluster::at_first_node;
use super::party::{AttemptResult, Party, assert_quarantined, on_runtime};

const LONG: Duration = Duration::from_secs(60);

/// One who holds the lock for long, and two who know the node; then the node forgets it all.
struct FlushedNode {
    cluster: Cluster,
    lock: String,
    one: Party,
    two: Party,
    _holder: Party,
}

impl FlushedNode {
    async fn new(flavor: Flavor, ask: Ask) -> Self {
        let cluster = Cluster::start(flavor).expect("a Cluster");
        let (lock, used) = (at_first_node("held"), at_first_node("used"));
        let holder = Party::open(&cluster.url(), 1).await;
        let (one, two) =
            (Party::open(&cluster.url(), 2).await, Party::open(&cluster.url(), 3).await);
        one.use_once(&used, 20).await;
        two.use_once(&used, 30).await;
        if ask == Ask::Any {
            add(&holder, &lock).await;
        }
        assert_eq!(holder.acquire_as(ask, &lock, 10, 60_000).await, AttemptResult::Granted);
        cluster.nodes[0].cli(&["FLUSHALL"]);
        Self { cluster, lock, one, two, _holder: holder }
    }

    /// The first one asks, and goes away before it could look whether that was right: the node lets
    /// nobody read meanwhile.
    async fn one_asks_and_can_not_look(&self, ask: Ask, lease_ms: u64) {
        let node = &self.cluster.nodes[0];
        assert!(node.cli(&["ACL", "SETUSER", "default", "-get"]).is_ok());
        self.one.acquire_unheard(ask, &self.lock, 21, lease_ms).await;
        assert!(node.cli(&["ACL", "SETUSER", "default", "+get"]).is_ok());
    }
}

async fn add(party: &Party, pool: &str) {
    let member = Member::new("b-1").expect("a member");
    assert_eq!(party.ask(pool, Request::PoolAdd { member }).await.0, Reply::Changed(true));
}

on_both! {
    fn a_repeated_acquire_is_no_grant_if_its_first_answer_was_none(flavor: Flavor) {
        on_runtime(async {
            let flushed = FlushedNode::new(flavor, Ask::Mutex).await;
            flushed.one_asks_and_can_not_look(Ask::Mutex, 60_000).await;
            assert_quarantined(flushed.one.acquire(&flushed.lock, 21, 60_000).await, LONG);
        });
    }

    fn an_acquire_sent_again_after_a_new_connection_is_no_grant_either(flavor: Flavor) {
        on_runtime(async {
            let flushed = FlushedNode::new(flavor, Ask::Mutex).await;
            flushed.one_asks_and_can_not_look(Ask::Mutex, 60_000).await;
            flushed.cluster.nodes[0].cli(&["CLIENT", "KILL", "TYPE", "normal"]);
            assert_quarantined(flushed.one.acquire(&flushed.lock, 21, 60_000).await, LONG);
        });
    }

    fn nobody_shares_a_lock_with_one_who_could_not_look(flavor: Flavor) {
        on_runtime(async {
            let flushed = FlushedNode::new(flavor, Ask::Write).await;
            flushed.one_asks_and_can_not_look(Ask::Read, 60_000).await;
            let went = flushed.two.acquire_as(Ask::Read, &flushed.lock, 31, 60_000).await;
            assert_quarantined(went, LONG);
        });
    }

    fn nobody_is_handed_the_lock_of_one_who_could_not_look(flavor: Flavor) {
        on_runtime(async {
            let flushed = FlushedNode::new(flavor, Ask::Mutex).await;
            flushed.one_asks_and_can_not_look(Ask::Mutex, 60_000).await;
            assert_quarantined(flushed.two.acquire(&flushed.lock, 31, 60_000).await, LONG);
            flushed.one.release(&flushed.lock, 21).await;
            assert_quarantined(flushed.two.acquire(&flushed.lock, 31, 60_000).await, LONG);
        });
    }

    fn a_pool_whose_members_are_added_anew_grants_none_of_them(flavor: Flavor) {
        on_runtime(async {
            let flushed = FlushedNode::new(flavor, Ask::Any).await;
            add(&flushed.one, &flushed.lock).await;
            let went = flushed.two.acquire_as(Ask::Any, &flushed.lock, 31, 60_000).await;
            assert_quarantined(went, LONG);
        });
    }

    fn none_of_many_who_wait_is_handed_the_lock_when_all_ask_again(flavor: Flavor) {
        on_runtime(async {
            let cluster = Cluster::start(flavor).expect("a Cluster");
            let lock = at_first_node("held");
            let holder = taketurns::connect(&cluster.url()).await.expect("a client");
            let guard = holder.mutex(&lock).acquire().lease(LONG).await.expect("held");
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..4 {
                let locks = taketurns::connect(&cluster.url()).await.expect("a client");
                for _ in 0..25 {
                    let mutex = locks.mutex(&lock);
                    tasks.spawn(async move { mutex.acquire().await });
                }
            }
            let until = std::time::Instant::now() + PATIENCE;
            let all_wait = async || {
                let view = holder.inspect(&lock).await.expect("a view");
                (view.map_or(0, |view| view.waiting) == 100).then_some(())
            };
            while all_wait().await.is_none() {
                assert!(std::time::Instant::now() < until, "not all of them wait");
            }
            cluster.nodes[0].cli(&["FLUSHALL"]);
            while all_wait().await.is_none() {
                assert!(tasks.try_join_next().is_none(), "one of them was granted");
                assert!(std::time::Instant::now() < until, "not all of them wait again");
            }
            assert!(guard.is_held(), "what is promised is promised");
        });
    }
}
