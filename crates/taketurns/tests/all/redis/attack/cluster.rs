//! A Cluster whose slots move: where the marker of a node is changes with them.

use std::time::Duration;

use taketurns_servers::{Cluster, Flavor, Server, eventually, on_both, slot_of};

use super::party::{AttemptResult, Party, assert_quarantined, on_runtime};

const LONG: Duration = Duration::from_secs(600);

/// A name whose key is in the first node's slots, and not in its first.
pub(crate) fn at_first_node(prefix: &str) -> String {
    let in_reach = |name: &String| (2..5_000).contains(&slot_of(format!("tt:{name}")));
    (0..).map(|n| format!("{prefix}{n}")).find(in_reach).expect("one of many")
}

on_both! {
    fn a_node_that_gave_away_its_first_slot_and_forgot_is_quarantined(
        flavor: Flavor
    ) {
        on_runtime(async {
            let cluster = Cluster::start(flavor).expect("a Cluster");
            let url = format!("{}?max_lease=600", cluster.url());
            let (held, used) = (at_first_node("held"), at_first_node("used"));
            let holder = Party::open(&url, 1).await;
            let other = Party::open(&url, 2).await;
            other.use_once(&used, 20).await;
            assert_eq!(holder.acquire(&held, 10, 600_000).await, AttemptResult::Granted);
            cluster.migrate(0, 1).expect("the slot moves");
            cluster.nodes[0].restart().expect("it starts again");
            eventually("the Cluster is whole again", || {
                let info = cluster.nodes[0].cli(&["CLUSTER", "INFO"]);
                info.text().is_some_and(|text| text.contains("cluster_state:ok")).then_some(())
            }).expect("whole");
            assert_quarantined(other.acquire(&held, 21, 1_000).await, LONG);
        });
    }

    fn a_node_in_quarantine_stays_in_it_though_it_gave_away_its_first_slot(flavor: Flavor) {
        on_runtime(async {
            let cluster = Cluster::start(flavor).expect("a Cluster");
            let url = format!("{}?max_lease=600", cluster.url());
            let other = Party::open(&url, 1).await;
            other.use_once(&at_first_node("used"), 10).await;
            cluster.nodes[0].cli(&["FLUSHALL"]);
            assert_quarantined(other.acquire(&at_first_node("a"), 11, 1_000).await, LONG);
            cluster.migrate(0, 1).expect("the slot moves");
            let moved = (0..).map(|n| format!("m{n}")).find(|name| slot_of(format!("tt:{name}")) == 0);
            let _ = other.acquire(&moved.expect("one of many"), 12, 1_000).await;
            // Its scripts are looked for again, and so is its marker.
            cluster.nodes[0].cli(&["SCRIPT", "FLUSH"]);
            for (n, name) in ["b", "c", "d"].into_iter().enumerate() {
                let owner = 20 + n as u128;
                assert_quarantined(other.acquire(&at_first_node(name), owner, 1_000).await, LONG);
            }
        });
    }

    fn a_node_that_gave_away_its_first_slot_and_failed_over_is_quarantined(flavor: Flavor) {
        on_runtime(async {
            let cluster = Cluster::builder(flavor).replicas(true).start().expect("a Cluster");
            let url = format!("{}?max_lease=600", cluster.url());
            let (held, used) = (at_first_node("held"), at_first_node("used"));
            let holder = Party::open(&url, 1).await;
            holder.use_once(&used, 10).await;
            let other = Party::open(&url, 2).await;
            other.use_once(&used, 20).await;
            cluster.migrate(0, 1).expect("the slot moves");
            let moved = (0..).map(|n| format!("m{n}")).find(|name| slot_of(format!("tt:{name}")) == 0);
            let _ = other.acquire(&moved.expect("one of many"), 21, 1_000).await;
            // It knows of the move by now, once it has read the map.
            let [cut, replica] = [&cluster.nodes[0], &cluster.nodes[3]];
            let offset = |node: &Server| node.info("replication").get("master_repl_offset").cloned();
            for owner in 22..26 {
                other.use_once(&used, owner).await;
                eventually("the replica is up to date", || {
                    (offset(cut) == offset(replica)).then_some(())
                }).expect("up to date");
            }
            let mut wire = cut.connect().expect("a connection");
            wire.command(&["CONFIG", "SET", "requirepass", "nobody knows"]).expect("set");
            wire.command(&["CLIENT", "KILL", "TYPE", "replica"]).expect("killed");
            assert_eq!(holder.acquire(&held, 11, 600_000).await, AttemptResult::Granted);
            cut.kill();
            replica.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
            assert_quarantined(other.acquire(&held, 30, 1_000).await, LONG);
        });
    }
}
