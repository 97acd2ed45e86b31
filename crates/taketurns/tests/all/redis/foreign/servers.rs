//! Foreign protocols on more than one server. In a Cluster our own state is in the slot of the foreign key, whatever
//! the key's name. After a failover or a restart our clients wait until every holder that may be forgotten has ended.

use taketurns::ErrorKind;
use taketurns_servers::{Cluster, Flavor, ReplicaSet, on_both};

use super::*;

/// Names that have their slot in all the ways there are.
const NAMES: [&str; 6] = ["orders", "{orders}", "{a}b", "}x", "a}b", "{}x"];

on_both! {
    fn in_a_cluster_each_name_is_a_lock(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a Cluster");
        block_on(async {
            let url = format!("{}?protocol=plain&unfenced=ok", cluster.url());
            let one = soon("connecting", taketurns::connect(&url)).await.expect("a Cluster");
            let other = soon("connecting", taketurns::connect(&url)).await.expect("a Cluster");
            let mut guards = Vec::new();
            for name in NAMES {
                let node = cluster.owner_of(cluster.slot_of(name)).expect("an owner");
                assert!(cluster.nodes[node].cli(&["SET", name, "x", "NX", "PX", "60000"]).is_ok());
                assert!(is_busy(&one, name).await, "{name}: a foreign client has it");
                cluster.nodes[node].cli(&["DEL", name]);
                guards.push(acquires(&one, name).await);
                assert_eq!(cluster.nodes[node].cli(&["EXISTS", name]).int(), Some(1), "{name}");
                assert!(is_busy(&other, name).await, "{name}");
            }
            let listed = soon("a listing", other.list("*orders*")).await.expect("a Cluster");
            let listed: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(listed, ["orders", "{orders}"]);
            for guard in guards {
                guard.release().await.expect("held");
            }
            for node in &cluster.nodes {
                assert_eq!(foreign_keys(node), [""; 0]);
            }
        });
    }

    fn after_a_fail_over_nothing_is_taken_that_may_be_held(flavor: Flavor) {
        let set = ReplicaSet::start(flavor).expect("a set");
        block_on(async {
            let url = format!("{}?protocol=plain&unfenced=ok&max_lease=60", set.url());
            let locks = soon("connecting", taketurns::connect(&url)).await.expect("a master");
            let lease = Duration::from_secs(60);
            let old = set.master().expect("a master");
            drop(soon("a first use", locks.mutex("orders").acquire().lease(lease)).await.expect("free"));
            set.cut_replication().expect("a cut");
            // A foreign client's lock that no replica has heard of.
            assert!(old.cli(&["SET", "orders", "a foreign client's", "NX", "PX", "60000"]).is_ok());
            old.kill();
            let new = set.failed_over(old).expect("a fail-over");
            assert_eq!(new.cli(&["EXISTS", "orders"]).int(), Some(0), "it has not");
            let refused = soon("the new master answers", async {
                loop {
                    match locks.mutex("orders").try_acquire().lease(lease).await {
                        Err(error) if error.kind() == ErrorKind::Quarantined => return true,
                        Ok(_) => return false,
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            });
            assert!(refused.await, "the foreign client may still be at work");
        });
    }
}
