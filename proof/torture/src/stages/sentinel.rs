//! A master with two replicas, and three sentinels that choose another when it is gone. A master takes no
//! writes while no replica follows, as docs/redis.md asks for.

use taketurns_servers::{Flavor, MASTER_NAME, ReplicaSet, Server, ServerReply, eventually};

use super::TortureStage;
use super::servers::{FORGETS, kill_clients, left_at, options, say};
use crate::dice::RunDice;
use crate::faults::{Fallible, Injection, StepResult, StoreFault};

const MASTER: &str = "the master";

/// The stage.
pub(super) struct SentinelStage(ReplicaSet);

impl SentinelStage {
    pub(super) fn start(flavor: Flavor) -> Fallible<Self> {
        Ok(Self(ReplicaSet::builder(flavor).min_replicas(true).start()?))
    }

    /// Waits until there is a master that all replicas follow.
    fn settle(&self) -> StepResult {
        let followed = || {
            let master = self.0.master().ok().filter(|master| master.is_running())?;
            let replication = master.info("replication");
            let is_master = replication.get("role")? == "master";
            let replicas: usize = replication.get("connected_slaves")?.parse().ok()?;
            let whole = is_master && replicas == self.0.servers.len() - 1;
            (whole && self.0.sentinels.iter().all(is_content)).then_some(())
        };
        let settled = eventually("all replicas follow one master", followed);
        Ok(settled.map_err(|error| format!("{error}: {}", self.seen()))?)
    }

    /// What each server says that it is, and each sentinel which of them is the master.
    fn seen(&self) -> String {
        let mut seen = String::new();
        for server in &self.0.servers {
            let is = server.info("replication");
            let of = |name: &str| is.get(name).map_or("?", String::as_str);
            let words = [of("role"), of("master_port"), of("master_link_status")].join(" ");
            seen += &format!("{} is {words}; ", server.port());
        }
        for sentinel in &self.0.sentinels {
            let master = sentinel.try_cli(&["SENTINEL", "MASTER", MASTER_NAME]);
            seen += &master.map_or_else(|error| error.to_string(), |it| it.to_string());
        }
        seen
    }

    /// The master is killed, and one of its replicas takes over.
    fn take_over(&self) -> StepResult {
        let old = self.0.master()?;
        old.kill();
        self.0.failed_over(old)?;
        Ok(old.restart()?)
    }

    /// The sentinels are asked to choose another master, which they do while the old one runs.
    fn hand_over(&self) -> StepResult {
        let old = self.0.master()?;
        let sentinel = &self.0.sentinels[0];
        eventually("a fail-over begins", || {
            let reply = sentinel.try_cli(&["SENTINEL", "FAILOVER", MASTER_NAME]).ok()?;
            reply.is_ok().then_some(())
        })?;
        self.0.failed_over(old)?;
        Ok(())
    }

    fn master_faults(&self) -> Vec<StoreFault<'_>> {
        let settle = || self.settle();
        vec![
            StoreFault::new("fail-over by hand", move |_| {
                Injection::on(MASTER).begin(|| self.hand_over()).end(settle)
            })
            .excusing(FORGETS),
            StoreFault::new("kill -9", move |_| {
                Injection::on(MASTER).begin(|| self.take_over()).end(settle)
            })
            .excusing(FORGETS),
            // The replicas miss the last moments. The longest lease and the lag within which a master
            // may still grant are waited for.
            StoreFault::new("stale replica takes over", move |dice| {
                let stale = dice.time(100, 1_500);
                Injection::on(MASTER)
                    .begin(move || {
                        self.0.cut_replication()?;
                        std::thread::sleep(stale);
                        self.take_over()
                    })
                    .end(settle)
            })
            .excusing(FORGETS),
            StoreFault::new("replicas cut off", move |dice| {
                Injection::on(MASTER)
                    .begin(|| self.0.cut_replication())
                    .lasting(dice.time(200, 3_000))
                    .end(|| {
                        self.0.mend_replication()?;
                        self.settle()
                    })
            }),
            StoreFault::new("server stopped", move |dice| self.stop(dice, MASTER)),
            StoreFault::new("replica stopped", move |dice| self.stop(dice, "a replica")),
        ]
    }

    fn stop(&self, dice: &mut RunDice, on: &'static str) -> Injection<'_> {
        let others = self.0.replicas().unwrap_or_default();
        let who = if on == MASTER || others.is_empty() {
            self.0.master().unwrap_or(&self.0.servers[0])
        } else {
            *dice.pick(&others)
        };
        Injection::on(on).begin(|| who.pause()).lasting(dice.time(200, 4_000)).end(|| {
            who.resume();
            self.settle()
        })
    }

    fn command_faults(&self) -> Vec<StoreFault<'_>> {
        let at_master = |then: fn(&Server) -> StepResult| {
            move |_: &mut RunDice| Injection::on(MASTER).begin(move || then(self.0.master()?))
        };
        vec![
            StoreFault::new("FLUSHALL", at_master(|master| say(master, &["FLUSHALL"])))
                .excusing(FORGETS),
            StoreFault::new("SCRIPT FLUSH", at_master(|master| say(master, &["SCRIPT", "FLUSH"]))),
            StoreFault::new("CLIENT KILL", at_master(kill_clients)),
            StoreFault::new("sentinel killed", move |dice| {
                let sentinel = dice.pick(&self.0.sentinels);
                Injection::on("a sentinel")
                    .begin(|| sentinel.kill())
                    .lasting(dice.time(200, 3_000))
                    .end(|| sentinel.restart())
            }),
        ]
    }
}

/// A sentinel that takes the master for dead goes on with its fail-over, also if that is back by then.
fn is_content(sentinel: &Server) -> bool {
    let master = sentinel.try_cli(&["SENTINEL", "MASTER", MASTER_NAME]);
    master.is_ok_and(|it| it.field("flags").and_then(ServerReply::text) == Some("master"))
}

impl TortureStage for SentinelStage {
    fn url(&self) -> String {
        self.0.url() + &options()
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        let mut faults = self.master_faults();
        faults.extend(self.command_faults());
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        self.0.servers.iter().flat_map(left_at).collect()
    }
}
