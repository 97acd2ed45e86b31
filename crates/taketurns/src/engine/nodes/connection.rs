//! Connections to all nodes: a majority before the engine is opened, the others in the background, each
//! retried until it succeeds.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns_core::session::Backoff;
use taketurns_core::{ClientId, limits};
use tokio::sync::{mpsc, watch};

use super::super::{Engine, EngineError, EngineEvent, Open, Wakes};
use super::membership::Membership;
use super::node::{QuorumNode, lock, next};
use super::trust::{Trust, inspect_nodes};
use super::url::{NodeList, NodeOpener, NodeUrl};
use super::{LateCalls, NodeListener, NodeSet};
use crate::random;
use crate::runtime::{Runtime, sleep, timeout};
use crate::telling::target;

/// How long slow nodes are waited for once a majority is connected.
const GRACE: Duration = Duration::from_millis(300);

/// How long closing waits for releases to reach all nodes that can be reached.
const CLOSE_WITHIN: Duration = Duration::from_millis(300);

/// The connections to all nodes. Closing or dropping it ends their tasks.
pub(crate) struct NodeConnections {
    pub(crate) max_lease: Duration,
    nodes: Arc<NodeSet>,
    /// Ends the tasks that connect nodes and pass on what they push; so does dropping it.
    stop: watch::Sender<bool>,
    /// Ends when every release is answered.
    idle: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl NodeConnections {
    /// Connects to all nodes: to a majority before it answers, to the others for as long as it takes. `drive`
    /// makes the engine that is told what they push.
    pub(crate) async fn open<D: NodeListener>(
        members: NodeList,
        client: ClientId,
        drive: impl FnOnce(Arc<NodeSet>) -> D,
    ) -> Result<(Arc<D>, Self), EngineError> {
        let NodeList { nodes: urls, fingerprint, .. } = members;
        let trust = inspect_nodes(&urls).await;
        let (busy, idle) = mpsc::channel(1);
        let nodes = Arc::new(NodeSet {
            all: urls.iter().map(|url| QuorumNode::new(url.place.clone())).collect(),
            client,
            runtime: Runtime::current(),
            late: LateCalls::default(),
            releasing: Mutex::default(),
            busy: Mutex::new(Some(busy)),
        });
        let driver = Arc::new(drive(nodes.clone()));
        let (sender, mut first) = mpsc::unbounded_channel();
        let links = Self {
            max_lease: max_lease(&urls)?,
            nodes: nodes.clone(),
            stop: watch::Sender::new(false),
            idle: tokio::sync::Mutex::new(idle),
        };
        let mut memberships = Vec::new();
        for (number, url) in urls.into_iter().enumerate() {
            let of = nodes.count();
            let membership =
                Membership { number: number + 1, of, fingerprint: fingerprint.clone() };
            memberships.push((url.clone(), membership.clone()));
            let link = NodeConnection { driver: driver.clone(), number, url, membership };
            let (first, mut stop) = (sender.clone(), links.stop.subscribe());
            nodes.runtime.spawn(async move {
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop) => {}
                    () = link.run(trust, first) => {}
                }
            });
        }
        drop(sender);
        let (mut there, mut troubles, mut mistake) = (0, Vec::new(), None);
        loop {
            let is_decided = there >= nodes.majority() || mistake.is_some();
            match next(&mut first, is_decided.then_some(GRACE)).await {
                Some((_, Ok(()))) => there += 1,
                // A mistake in the list of nodes, and better found now than by a second holder.
                Some((_, Err(error @ (EngineError::Broken(_) | EngineError::Unsupported(_))))) => {
                    mistake = Some(error);
                }
                Some((node, Err(error))) => {
                    troubles.push(nodes.trouble(node, error.to_string(), error.is_loading()));
                }
                None => break,
            }
        }
        if mistake.is_some() {
            forget_members(&nodes, &memberships).await;
        }
        let error = match mistake {
            None if there < nodes.majority() => Some(nodes.no_quorum_of(troubles.clone())),
            mistake => mistake,
        };
        if let Some(error) = error {
            links.close().await;
            return Err(error);
        }
        for trouble in troubles {
            tracing::warn!(target: target::QUORUM, "a node of the quorum is missing: {trouble}");
        }
        Ok((driver, links))
    }

    /// Closes them, once all nodes that can be reached have answered the client's releases.
    pub(crate) async fn close(&self) {
        *lock(&self.nodes.busy) = None;
        let _ = timeout(CLOSE_WITHIN, self.idle.lock().await.recv()).await;
        self.stop.send_replace(true);
        for engine in self.nodes.all.iter().filter_map(QuorumNode::engine) {
            engine.close().await;
        }
    }
}

/// A list of nodes that is refused leaves no trace: the next one, without the mistake, is another.
async fn forget_members(nodes: &NodeSet, memberships: &[(NodeUrl, Membership)]) {
    for (node, (url, membership)) in nodes.all.iter().zip(memberships) {
        let Some(engine) = node.engine().filter(|_| node.is_new.load(Ordering::Relaxed)) else {
            continue;
        };
        // Its marker was seen when it was opened.
        match registry(url, nodes.client, None).await {
            Ok(None) => membership.leave(engine).await,
            Ok(Some(registry)) => {
                membership.leave(&*registry).await;
                registry.close().await;
            }
            Err(error) => tracing::warn!(
                target: target::QUORUM,
                %error,
                "the refused list of nodes could not be removed from a node"
            ),
        }
    }
}

/// A native engine for the membership pool, where the node speaks a foreign protocol: those have no pools.
async fn registry(
    url: &NodeUrl,
    client: ClientId,
    distrust: Option<Duration>,
) -> Result<Option<Box<dyn Engine>>, EngineError> {
    let NodeOpener::Redis(mut redis) = url.opener().map_err(EngineError::Broken)? else {
        return Ok(None);
    };
    if url.plain.is_none() {
        return Ok(None);
    }
    redis.natively();
    if let Some(longest) = distrust {
        redis.distrust(longest);
    }
    redis.open(client, Wakes::channel().0).await.map(Some)
}

/// The connection to one node.
struct NodeConnection<D> {
    driver: Arc<D>,
    number: usize,
    url: NodeUrl,
    membership: Membership,
}

/// Where each connection reports how its first attempt ended.
type FirstAttempts = mpsc::UnboundedSender<(usize, Result<(), EngineError>)>;

impl<D: NodeListener> NodeConnection<D> {
    /// Connects, however often it takes (in the end about once a second), and passes on what the node
    /// pushes.
    async fn run(self, mut trust: Trust, first: FirstAttempts) {
        let (mut backoff, mut first) = (Backoff::default(), Some(first));
        let mut woken = loop {
            match self.open(trust).await {
                Ok(woken) => break woken,
                Err(error) => {
                    self.driver.nodes().all[self.number].is_missing(&error);
                    tracing::debug!(target: target::QUORUM, %error, "connecting to a node failed");
                    if let Some(first) = first.take() {
                        let _ = first.send((self.number, Err(error)));
                    }
                }
            }
            trust.is_unused = false;
            sleep(Duration::from_micros(backoff.pause_us(random::bits64()))).await;
        };
        if let Some(first) = first {
            let _ = first.send((self.number, Ok(())));
        } else {
            tracing::info!(target: target::QUORUM, node = self.url.place, "a node is connected again");
        }
        while let Some(event) = woken.recv().await {
            self.driver.handle_event(self.number, event);
        }
    }

    async fn open(
        &self,
        trust: Trust,
    ) -> Result<mpsc::UnboundedReceiver<EngineEvent>, EngineError> {
        let (wakes, woken) = self.driver.wakes().intercept();
        let nodes = self.driver.nodes();
        let engine = match self.url.opener().map_err(EngineError::Broken)? {
            NodeOpener::Memory(store) => {
                Box::new(store.engine(nodes.client, wakes)) as Box<dyn Engine>
            }
            #[cfg(feature = "simulation")]
            NodeOpener::Simulated(store) => store.open(nodes.client, wakes).await?,
            NodeOpener::Redis(mut redis) => {
                if !trust.is_unused {
                    redis.distrust(trust.longest);
                }
                redis.open(nodes.client, wakes).await?
            }
        };
        let node = &nodes.all[self.number];
        match self.join(&*engine, (!trust.is_unused).then_some(trust.longest)).await {
            Ok(is_new) => node.is_new.store(is_new, Ordering::Relaxed),
            Err(error) => {
                engine.close().await;
                return Err(error);
            }
        }
        let asked_us = crate::clock::local_us();
        node.observe(asked_us, engine.ping().await?);
        node.install(engine);
        Ok(woken)
    }

    /// Makes sure that the node is one of these. True if that was not written there before.
    async fn join(
        &self,
        engine: &dyn Engine,
        distrust: Option<Duration>,
    ) -> Result<bool, EngineError> {
        let place = &self.url.place;
        match registry(&self.url, self.driver.nodes().client, distrust).await? {
            None => self.membership.join(engine, place).await,
            Some(registry) => {
                let joined = self.membership.join(&*registry, place).await;
                registry.close().await;
                joined
            }
        }
    }
}

/// The least that any node allows.
fn max_lease(urls: &[NodeUrl]) -> Result<Duration, EngineError> {
    let mut least = Duration::from_millis(limits::LEASE_MS_MAX);
    for url in urls {
        match url.opener().map_err(EngineError::Broken)? {
            NodeOpener::Memory(_) => {}
            #[cfg(feature = "simulation")]
            NodeOpener::Simulated(_) => {}
            NodeOpener::Redis(redis) => least = least.min(redis.max_lease()),
        }
    }
    Ok(least)
}
