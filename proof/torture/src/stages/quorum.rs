//! Five servers of all kinds that know nothing of each other. At most two are out at any time: one that
//! has forgotten counts as out for as long as the longest lease, so such a fault lasts for as long.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taketurns_history::Guarantee::{G1, G5};
use taketurns_servers::{Builder, Flavor, Proxy, Server, ServerClock, module_path};

use super::TortureStage;
use super::servers::{kill_clients, left_at, say};
use crate::dice::RunDice;
use crate::faults::{Fallible, Injection, IntoStepResult, StoreFault};
use crate::plan::MAX_LEASE;

const NODES: usize = 5;

/// For how long a node that forgot is of no use, and some more.
const FORGOTTEN: Duration = MAX_LEASE.saturating_add(Duration::from_secs(1));

struct QuorumServer {
    server: Server,
    proxy: Proxy,
    clock: ServerClock,
    /// Is its clock a second behind?
    behind: AtomicBool,
}

/// The stage.
pub(super) struct QuorumStage(Vec<QuorumServer>);

impl QuorumStage {
    pub(super) fn start() -> Fallible<Self> {
        let [redis, valkey] = [Flavor::Redis, Flavor::Valkey].map(Server::builder);
        let module = module_path()?;
        let with_module = |builder: &Builder| builder.clone().module(&module, &[]);
        let builders = [
            redis.clone(),
            with_module(&valkey),
            valkey.clone(),
            with_module(&redis),
            redis.clone(),
        ];
        let start = |builder: Builder| -> Fallible<QuorumServer> {
            let clock = ServerClock::ahead(0)?;
            let server = builder.clock(&clock).start()?;
            let proxy = Proxy::start(server.port())?;
            Ok(QuorumServer { server, proxy, clock, behind: AtomicBool::new(false) })
        };
        Ok(Self(builders.into_iter().map(start).collect::<Fallible<_>>()?))
    }

    /// Something that happens to one or two of them at once.
    fn on_one_or_two<'a, B: IntoStepResult, E: IntoStepResult>(
        &'a self,
        dice: &mut RunDice,
        begin: impl Fn(&QuorumServer) -> B + 'a,
        lasting: Duration,
        end: impl Fn(&QuorumServer) -> E + 'a,
    ) -> Injection<'a> {
        let count = dice.between(1, 2);
        let nodes = dice.some(count, NODES);
        let names: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
        let again = nodes.clone();
        Injection::on(names.join(" and "))
            .begin(move || {
                nodes.iter().try_for_each(|&node| begin(&self.0[node]).into_step_result())
            })
            .lasting(lasting)
            .end(move || again.iter().try_for_each(|&node| end(&self.0[node]).into_step_result()))
    }

    fn server_faults(&self) -> Vec<StoreFault<'_>> {
        vec![
            // They keep nothing, so they come back empty.
            StoreFault::new("kill -9, back empty", move |dice| {
                let out = if dice.once_in(3) { dice.time(500, 3_000) } else { dice.time(0, 200) };
                let crash = |node: &QuorumServer| node.server.kill();
                self.on_one_or_two(dice, crash, out, |node| node.server.restart())
                    .settling(FORGOTTEN)
            }),
            StoreFault::new("server stopped", move |dice| {
                let time = dice.time(200, 4_000);
                let resume = |node: &QuorumServer| node.server.resume();
                self.on_one_or_two(dice, |node| node.server.pause(), time, resume)
            }),
            StoreFault::new("FLUSHALL", move |dice| {
                self.on_one_or_two(dice, |node| say(&node.server, &["FLUSHALL"]), FORGOTTEN, |_| ())
            }),
            StoreFault::new("SCRIPT FLUSH", move |dice| {
                let flush = |node: &QuorumServer| say(&node.server, &["SCRIPT", "FLUSH"]);
                self.on_one_or_two(dice, flush, Duration::ZERO, |_| ())
            }),
            StoreFault::new("CLIENT KILL", move |_| {
                let kill = || self.0.iter().try_for_each(|node| kill_clients(&node.server));
                Injection::on("all nodes").begin(kill)
            }),
        ]
    }

    fn network_faults(&self) -> Vec<StoreFault<'_>> {
        vec![
            StoreFault::new("cut off", move |dice| {
                let time = dice.time(200, 4_000);
                let cut = |node: &QuorumServer| node.proxy.refuse(true).map(|()| node.proxy.cut());
                self.on_one_or_two(dice, cut, time, |node| node.proxy.refuse(false))
            }),
            StoreFault::new("half-open", move |dice| {
                let time = dice.time(200, 4_000);
                let mend = |node: &QuorumServer| node.proxy.hold(false);
                self.on_one_or_two(dice, |node| node.proxy.hold(true), time, mend)
            }),
            StoreFault::new("network slow", move |dice| {
                let (time, delay) = (dice.time(500, 4_000), dice.time(20, 700));
                let mend = |node: &QuorumServer| node.proxy.delay(Duration::ZERO);
                self.on_one_or_two(dice, move |node| node.proxy.delay(delay), time, mend)
            }),
            StoreFault::new("wake-ups lost", move |dice| {
                let time = dice.time(200, 3_000);
                let mend = |node: &QuorumServer| node.proxy.drop_pushes(false);
                self.on_one_or_two(dice, |node| node.proxy.drop_pushes(true), time, mend)
            }),
        ]
    }

    /// A second back, or forward again: less than what a node that forgets is kept out for, so that
    /// tokens increase also over that.
    fn turn_clock(&self, node: usize, behind: bool) -> io::Result<()> {
        self.0[node].behind.store(behind, Ordering::Relaxed);
        self.0[node].clock.set(-i64::from(behind))
    }

    fn clock_faults(&self) -> Vec<StoreFault<'_>> {
        let turn = move |dice: &mut RunDice, behind: bool| {
            // If all are so already, it is one that does not change.
            let are: Vec<usize> = (0..NODES)
                .filter(|&node| self.0[node].behind.load(Ordering::Relaxed) != behind)
                .collect();
            let node = if are.is_empty() { 0 } else { *dice.pick(&are) };
            let injection = Injection::on(format!("node {node}"));
            injection.begin(move || self.turn_clock(node, behind)).lasting(Duration::from_secs(1))
        };
        vec![
            StoreFault::new("clock set back", move |dice| turn(dice, true)),
            // docs/quorum.md: one holder, as long as no node's clock is set forward within a lease.
            StoreFault::new("clock set forward", move |dice| turn(dice, false)).excusing(&[G1, G5]),
        ]
    }
}

impl TortureStage for QuorumStage {
    fn url(&self) -> String {
        let url =
            |node: &QuorumServer| format!("{}?max_lease={}", node.proxy.url(), MAX_LEASE.as_secs());
        format!("quorum:{}", self.0.iter().map(url).collect::<Vec<_>>().join(","))
    }

    fn only_mutexes(&self) -> bool {
        true
    }

    /// docs/quorum.md: first come, first served is who has a ticket that a majority has confirmed. Those
    /// who ask at the same time may be seen in another order before.
    fn placed_after(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        let mut faults = self.server_faults();
        faults.extend(self.network_faults());
        faults.extend(self.clock_faults());
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        self.0.iter().flat_map(|node| left_at(&node.server)).collect()
    }
}
