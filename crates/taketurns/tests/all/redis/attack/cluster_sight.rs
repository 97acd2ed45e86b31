//! What the scripts of a Cluster can't see by themselves, since the marker is in another slot: the
//! client looks, and is not locked out when it can't.

use std::time::{Duration, Instant};

use taketurns_servers::{Cluster, Flavor, PATIENCE, Server, eventually, on_both};

use super::cluster::at_first_node;
use super::party::{
    AttemptResult, Party, assert_quarantined, assert_quarantined_since, on_runtime,
};

/// A Cluster whose first slot, with all keys, is moving from its first node to the second.
struct MovingCluster {
    cluster: Cluster,
    url: String,
    /// At the first node.
    lock: String,
    /// One that has used the lock before.
    known: Party,
}

impl MovingCluster {
    async fn begin(flavor: Flavor, max_lease_s: u32) -> Self {
        let cluster = Cluster::start(flavor).expect("a Cluster");
        let url = format!("{}?max_lease={max_lease_s}", cluster.url());
        let lock = at_first_node("l");
        let known = Party::open(&url, 1).await;
        known.use_once(&lock, 10).await;
        let migration = cluster.begin_migration(0, 1).expect("it begins");
        cluster.move_keys(migration).expect("the keys move");
        Self { cluster, url, lock, known }
    }
}

on_both! {
    fn a_node_can_be_used_by_newcomers_while_its_first_slot_is_on_its_way(flavor: Flavor) {
        on_runtime(async {
            let MovingCluster { cluster: _cluster, url, lock, known } = MovingCluster::begin(flavor, 1).await;
            known.use_once(&lock, 11).await;
            // It can't know what was before it came.
            let newcomer = Party::open(&url, 2).await;
            newcomer.acquire_after_quarantine(&lock, 20, 1_000).await;
        });
    }
}

on_both! {
    fn newcomers_are_granted_nothing_by_a_node_whose_first_slot_is_on_its_way(flavor: Flavor) {
        on_runtime(async {
            let MovingCluster { cluster: _cluster, url, lock, known: _known } = MovingCluster::begin(flavor, 600).await;
            let newcomer = Party::open(&url, 2).await;
            assert_quarantined(newcomer.acquire(&lock, 20, 1_000).await, Duration::from_secs(600));
        });
    }
}

on_both! {
    fn a_node_that_forgets_while_its_first_slot_is_on_its_way_is_quarantined(flavor: Flavor) {
        on_runtime(async {
            let MovingCluster { cluster, lock, known, .. } = MovingCluster::begin(flavor, 600).await;
            cluster.nodes[0].restart().expect("it starts again");
            eventually("the Cluster is whole again", || {
                let info = cluster.nodes[0].cli(&["CLUSTER", "INFO"]);
                info.text().is_some_and(|text| text.contains("cluster_state:ok")).then_some(())
            }).expect("whole");
            assert_quarantined(known.acquire(&lock, 11, 1_000).await, Duration::from_secs(600));
        });
    }
}

fn becomes(node: &Server, role: &str) {
    let is_so = || node.info("replication").get("role").is_some_and(|is| is == role).then_some(());
    eventually("its role", is_so).expect("its role");
}

/// A client uses one lock, and sleeps while its node becomes a replica and then the master again,
/// without what was granted meanwhile. Another lock, or the same, is what it asks for when it wakes.
async fn sleeps_through_two_fail_overs(flavor: Flavor, used: &str) {
    let cluster = Cluster::builder(flavor).replicas(true).start().expect("a Cluster");
    let url = format!("{}?max_lease=1", cluster.url());
    let (lock, used) = (at_first_node("l"), at_first_node(used));
    let [first, second] = [&cluster.nodes[0], &cluster.nodes[3]];
    let sleeper = Party::open(&url, 1).await;
    sleeper.use_once(&used, 10).await;
    let offset = |node: &Server| node.info("replication").get("master_repl_offset").cloned();
    let in_step = || (offset(first) == offset(second)).then_some(());
    eventually("the replica is up to date", in_step).expect("up to date");
    second.cli(&["CLUSTER", "FAILOVER"]);
    becomes(second, "master");
    becomes(first, "slave");
    let holder = Party::open(&url, 2).await;
    holder.acquire_after_quarantine(&at_first_node("other"), 20, 1_000).await;
    let mut wire = second.connect().expect("a connection");
    wire.command(&["CONFIG", "SET", "requirepass", "nobody knows"]).expect("set");
    wire.command(&["CLIENT", "KILL", "TYPE", "replica"]).expect("killed");
    holder.acquire_after_quarantine(&lock, 21, 1_000).await;
    second.kill();
    let forgotten = Instant::now();
    first.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    becomes(first, "master");
    let went = sleeper.acquire(&lock, 11, 1_000).await;
    assert_quarantined_since(forgotten, Duration::from_secs(1), went);
}

on_both! {
    fn a_node_that_was_a_replica_meanwhile_grants_nothing_at_first(flavor: Flavor) {
        on_runtime(sleeps_through_two_fail_overs(flavor, "used"));
    }

    fn it_grants_no_lock_to_them_either_that_they_had_used_before(flavor: Flavor) {
        on_runtime(sleeps_through_two_fail_overs(flavor, "l"));
    }
}

on_both! {
    fn a_node_that_was_flushed_grants_nothing_to_those_who_stayed_connected(flavor: Flavor) {
        on_runtime(async {
            let cluster = Cluster::start(flavor).expect("a Cluster");
            let (held, used) = (at_first_node("held"), at_first_node("used"));
            let (holder, other) =
                (Party::open(&cluster.url(), 1).await, Party::open(&cluster.url(), 2).await);
            other.use_once(&used, 20).await;
            assert_eq!(holder.acquire(&held, 10, 60_000).await, AttemptResult::Granted);
            cluster.nodes[0].cli(&["FLUSHALL"]);
            let went = other.acquire(&held, 21, 1_000).await;
            assert!(matches!(went, AttemptResult::Quarantined(_)), "{went:?}");
        });
    }
}

on_both! {
    fn a_node_that_gave_away_its_first_slot_has_its_marker_elsewhere(flavor: Flavor) {
        on_runtime(async {
            let cluster = Cluster::start(flavor).expect("a Cluster");
            let (held, used) = (at_first_node("held"), at_first_node("used"));
            let node = &cluster.nodes[0];
            let (holder, other) =
                (Party::open(&cluster.url(), 1).await, Party::open(&cluster.url(), 2).await);
            other.use_once(&used, 20).await;
            assert_eq!(holder.acquire(&held, 10, 60_000).await, AttemptResult::Granted);
            cluster.migrate(0, 1).expect("the slot moves");
            let markers = || node.cli(&["KEYS", "tt:\u{1}run*"]).array().map_or(0, <[_]>::len);
            assert_eq!(markers(), 0, "it went with its slot");
            let until = Instant::now() + PATIENCE;
            for owner in 21.. {
                other.use_once(&used, owner).await;
                if markers() > 0 {
                    break;
                }
                assert!(Instant::now() < until, "it is never noticed that the slot has moved");
            }
            node.cli(&["FLUSHALL"]);
            let went = other.acquire(&held, 20, 1_000).await;
            assert!(matches!(went, AttemptResult::Quarantined(_)), "{went:?}");
        });
    }
}
