//! Three masters that share the slots, with a replica each.

use std::time::{Duration, Instant};

use taketurns_servers::{Cluster, Flavor, Server, eventually, stats};

use super::TortureStage;
use super::servers::{FORGETS, kill_clients, left_at, options, say};
use crate::dice::RunDice;
use crate::faults::{Fallible, Injection, StepResult, StoreFault};
use crate::plan;

/// On a busy machine nodes take each other for dead now and then, and vote again.
const SETTLES_WITHIN: Duration = Duration::from_secs(120);

/// Does a node find the cluster whole, and follow its master if it has one? Else what it says.
fn is_whole(node: &Server) -> Result<(), String> {
    let reply = node.try_cli(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?;
    let state = stats::info(reply.text().unwrap_or_default()).remove("cluster_state");
    let link = node.info("replication").remove("master_link_status");
    match (state.as_deref(), link.as_deref()) {
        (Some("ok"), None | Some("up")) => Ok(()),
        other => Err(format!("state and link {other:?}")),
    }
}

/// The stage.
pub(super) struct ClusterStage(Cluster);

impl ClusterStage {
    pub(super) fn start(flavor: Flavor) -> Fallible<Self> {
        Ok(Self(Cluster::builder(flavor).replicas(true).start()?))
    }

    /// The nodes that are masters now, or replicas, by their numbers.
    fn with_role(&self, role: &str) -> Vec<usize> {
        let has = |node: &Server| node.info("replication").get("role").is_some_and(|is| is == role);
        (0..self.0.nodes.len()).filter(|&index| has(&self.0.nodes[index])).collect()
    }

    fn one_with_role(&self, dice: &mut RunDice, role: &str) -> usize {
        let nodes = self.with_role(role);
        // Between two faults there is always one.
        if nodes.is_empty() { 0 } else { *dice.pick(&nodes) }
    }

    /// Waits until all nodes find the cluster whole, and replicas follow their masters. Whose they are is
    /// the cluster's to decide: after two fail-overs one master may have two, and another none.
    fn settle(&self) -> StepResult {
        let deadline = Instant::now() + SETTLES_WITHIN;
        for (number, node) in self.0.nodes.iter().enumerate() {
            while let Err(how) = is_whole(node) {
                if Instant::now() >= deadline {
                    return Err(
                        format!("the cluster does not mend: node {number} says {how}").into()
                    );
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// A lock's slot goes to another master, with a pause in each step.
    fn migration(&self, dice: &mut RunDice) -> Injection<'_> {
        let locks = plan::locks(false);
        let name = dice.pick(&locks).name.clone();
        let slot = self.0.slot_of(format!("tt:{name}"));
        let mut others = self.with_role("master");
        others.retain(|&node| self.0.owner_of(slot).ok() != Some(node));
        let to = *dice.pick(&others);
        let pauses = [dice.time(0, 500), dice.time(0, 500)];
        Injection::on(format!("{name} to node {to}")).begin(move || {
            // A cluster that is too busy finds itself down for a moment, and refuses. Then it is told
            // again, as an operator would.
            let begin = || self.0.begin_migration(slot, to).ok();
            let migration = eventually("a slot begins to move", begin)?;
            std::thread::sleep(pauses[0]);
            if eventually("its keys move", || self.0.move_keys(migration).ok()).is_err() {
                // After a fail-over meanwhile it is not there to be moved any more, or there already. An
                // operator leaves it where it is then.
                return self.stay(slot);
            }
            std::thread::sleep(pauses[1]);
            Ok(eventually("it is the other's", || self.0.finish_migration(migration).ok())?)
        })
    }

    /// A slot moves no further.
    fn stay(&self, slot: u16) -> StepResult {
        for node in self.with_role("master") {
            say(&self.0.nodes[node], &["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"])?;
        }
        Ok(())
    }

    fn becomes_master(&self, node: usize) -> StepResult {
        Ok(eventually("a replica takes over", || {
            self.with_role("master").contains(&node).then_some(())
        })?)
    }

    fn node_faults(&self) -> Vec<StoreFault<'_>> {
        vec![
            StoreFault::new("slot moved", move |dice| self.migration(dice)),
            StoreFault::new("fail-over by hand", move |dice| {
                let node = self.one_with_role(dice, "slave");
                Injection::on(format!("the master of node {node}"))
                    .begin(move || {
                        say(&self.0.nodes[node], &["CLUSTER", "FAILOVER"])?;
                        self.becomes_master(node)
                    })
                    .end(|| self.settle())
            })
            .excusing(FORGETS),
            StoreFault::new("kill -9", move |dice| {
                let node = self.one_with_role(dice, "master");
                let server = &self.0.nodes[node];
                Injection::on(format!("node {node}"))
                    .begin(|| server.kill())
                    .lasting(dice.time(0, 4_000))
                    .end(|| {
                        server.restart()?;
                        self.settle()
                    })
            })
            .excusing(FORGETS),
            StoreFault::new("server stopped", move |dice| {
                let node = self.one_with_role(dice, "master");
                let server = &self.0.nodes[node];
                Injection::on(format!("node {node}"))
                    .begin(|| server.pause())
                    .lasting(dice.time(200, 4_000))
                    .end(|| {
                        server.resume();
                        self.settle()
                    })
            })
            .excusing(FORGETS),
        ]
    }

    fn command_faults(&self) -> Vec<StoreFault<'_>> {
        let at_master = |then: fn(&Server) -> StepResult| {
            move |dice: &mut RunDice| {
                let node = self.one_with_role(dice, "master");
                Injection::on(format!("node {node}")).begin(move || then(&self.0.nodes[node]))
            }
        };
        vec![
            StoreFault::new("FLUSHALL", at_master(|node| say(node, &["FLUSHALL"])))
                .excusing(FORGETS),
            StoreFault::new("SCRIPT FLUSH", at_master(|node| say(node, &["SCRIPT", "FLUSH"]))),
            StoreFault::new("CLIENT KILL", at_master(kill_clients)),
        ]
    }
}

impl TortureStage for ClusterStage {
    fn url(&self) -> String {
        self.0.url() + &options()
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        let mut faults = self.node_faults();
        faults.extend(self.command_faults());
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        self.0.nodes.iter().flat_map(left_at).collect()
    }
}
