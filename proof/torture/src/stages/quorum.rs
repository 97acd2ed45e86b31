//! Five servers of all kinds that know nothing of each other. At most two are out at any time: one that
//! has forgotten counts as out for as long as the longest lease, so such a fault lasts for as long.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taketurns_history::Guarantee::{G1, G5};
use taketurns_servers::{Builder, Clock, Flavor, Proxy, Server, module_path};

use super::Stage;
use super::served::{kill_clients, left_at, say};
use crate::dice::Dice;
use crate::faults::{Blow, Fallible, Fault, Outcome};
use crate::plan::MAX_LEASE;

const NODES: usize = 5;

/// For how long a node that forgot is of no use, and some more.
const FORGOTTEN: Duration = MAX_LEASE.saturating_add(Duration::from_secs(1));

struct Node {
    server: Server,
    proxy: Proxy,
    clock: Clock,
    /// Is its clock a second behind?
    behind: AtomicBool,
}

/// The stage.
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
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
        let start = |builder: Builder| -> Fallible<Node> {
            let clock = Clock::ahead(0)?;
            let server = builder.clock(&clock).start()?;
            let proxy = Proxy::start(server.port())?;
            Ok(Node { server, proxy, clock, behind: AtomicBool::new(false) })
        };
        Ok(Self(builders.into_iter().map(start).collect::<Fallible<_>>()?))
    }

    /// Something that happens to one or two of them at once.
    fn some<'a, B: Outcome, E: Outcome>(
        &'a self,
        dice: &mut Dice,
        begin: impl Fn(&Node) -> B + 'a,
        lasting: Duration,
        end: impl Fn(&Node) -> E + 'a,
    ) -> Blow<'a> {
        let count = dice.between(1, 2);
        let nodes = dice.some(count, NODES);
        let names: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
        let again = nodes.clone();
        Blow::on(names.join(" and "))
            .begin(move || nodes.iter().try_for_each(|&node| begin(&self.0[node]).done()))
            .lasting(lasting)
            .end(move || again.iter().try_for_each(|&node| end(&self.0[node]).done()))
    }

    fn of_servers(&self) -> Vec<Fault<'_>> {
        vec![
            // They keep nothing, so they come back empty.
            Fault::new("kill -9, back empty", move |dice| {
                let out = if dice.once_in(3) { dice.time(500, 3_000) } else { dice.time(0, 200) };
                let crash = |node: &Node| node.server.kill();
                self.some(dice, crash, out, |node| node.server.restart()).settling(FORGOTTEN)
            }),
            Fault::new("server stopped", move |dice| {
                let time = dice.time(200, 4_000);
                let resume = |node: &Node| node.server.resume();
                self.some(dice, |node| node.server.pause(), time, resume)
            }),
            Fault::new("FLUSHALL", move |dice| {
                self.some(dice, |node| say(&node.server, &["FLUSHALL"]), FORGOTTEN, |_| ())
            }),
            Fault::new("SCRIPT FLUSH", move |dice| {
                let flush = |node: &Node| say(&node.server, &["SCRIPT", "FLUSH"]);
                self.some(dice, flush, Duration::ZERO, |_| ())
            }),
            Fault::new("CLIENT KILL", move |_| {
                let kill = || self.0.iter().try_for_each(|node| kill_clients(&node.server));
                Blow::on("all nodes").begin(kill)
            }),
        ]
    }

    fn of_network(&self) -> Vec<Fault<'_>> {
        vec![
            Fault::new("cut off", move |dice| {
                let time = dice.time(200, 4_000);
                let cut = |node: &Node| node.proxy.refuse(true).map(|()| node.proxy.cut());
                self.some(dice, cut, time, |node| node.proxy.refuse(false))
            }),
            Fault::new("half-open", move |dice| {
                let time = dice.time(200, 4_000);
                let mend = |node: &Node| node.proxy.hold(false);
                self.some(dice, |node| node.proxy.hold(true), time, mend)
            }),
            Fault::new("network slow", move |dice| {
                let (time, delay) = (dice.time(500, 4_000), dice.time(20, 700));
                let mend = |node: &Node| node.proxy.delay(Duration::ZERO);
                self.some(dice, move |node| node.proxy.delay(delay), time, mend)
            }),
            Fault::new("wake-ups lost", move |dice| {
                let time = dice.time(200, 3_000);
                let mend = |node: &Node| node.proxy.drop_pushes(false);
                self.some(dice, |node| node.proxy.drop_pushes(true), time, mend)
            }),
        ]
    }

    /// A second back, or forward again: less than what a node that forgets is kept out for, so that
    /// tokens increase also over that.
    fn turn_clock(&self, node: usize, behind: bool) -> io::Result<()> {
        self.0[node].behind.store(behind, Ordering::Relaxed);
        self.0[node].clock.set(-i64::from(behind))
    }

    fn of_clocks(&self) -> Vec<Fault<'_>> {
        let turn = move |dice: &mut Dice, behind: bool| {
            // If all are so already, it is one that does not change.
            let are: Vec<usize> = (0..NODES)
                .filter(|&node| self.0[node].behind.load(Ordering::Relaxed) != behind)
                .collect();
            let node = if are.is_empty() { 0 } else { *dice.pick(&are) };
            let blow = Blow::on(format!("node {node}"));
            blow.begin(move || self.turn_clock(node, behind)).lasting(Duration::from_secs(1))
        };
        vec![
            Fault::new("clock set back", move |dice| turn(dice, true)),
            // docs/quorum.md: one holder, as long as no node's clock is set forward within a lease.
            Fault::new("clock set forward", move |dice| turn(dice, false)).excusing(&[G1, G5]),
        ]
    }
}

impl Stage for Nodes {
    fn url(&self) -> String {
        let url = |node: &Node| format!("{}?max_lease={}", node.proxy.url(), MAX_LEASE.as_secs());
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

    fn faults(&self) -> Vec<Fault<'_>> {
        let mut faults = self.of_servers();
        faults.extend(self.of_network());
        faults.extend(self.of_clocks());
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        self.0.iter().flat_map(|node| left_at(&node.server)).collect()
    }
}
