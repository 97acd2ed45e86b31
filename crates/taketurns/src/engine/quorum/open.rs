//! Opening a quorum: who the nodes are, which of them may have forgotten what they knew, and
//! connecting to each for as long as it takes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns_core::client::Backoff;
use taketurns_core::{ClientId, limits};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::{Engine, EngineError, EngineFuture, Open, Wakes};
use super::QuorumEngine;
use super::driver::Quorum;
use super::members::Membership;
use super::node::{Node, lock, next};
use super::trust::{Trust, look_around};
use super::url::{Members, NodeUrl, Opener};
use crate::random;

/// For how long the slow are waited for once a majority is there.
const GRACE: Duration = Duration::from_millis(300);

/// A store URL that was understood.
#[derive(Debug)]
pub(crate) struct OpenQuorum {
    members: Members,
}

impl OpenQuorum {
    /// Reads what follows `quorum:`.
    pub(crate) fn new(list: &str) -> Result<Self, crate::Error> {
        let members = Members::parse(list).map_err(crate::Error::InvalidUrl)?;
        Ok(Self { members })
    }

    async fn connect(self, client: ClientId, wakes: Wakes) -> Result<QuorumEngine, EngineError> {
        let Members { nodes: urls, fingerprint } = self.members;
        let trust = look_around(&urls).await;
        let (busy, idle) = mpsc::channel(1);
        let quorum = Arc::new(Quorum {
            nodes: urls.iter().map(|url| Node::new(url.place.clone())).collect(),
            client,
            runs: Mutex::default(),
            watched: Mutex::default(),
            wakes,
            releasing: Mutex::default(),
            runtime: Handle::current(),
            busy: Mutex::new(Some(busy)),
        });
        let (sender, mut first) = mpsc::unbounded_channel();
        let mut engine = QuorumEngine {
            max_lease: max_lease(&urls)?,
            quorum: quorum.clone(),
            tasks: Vec::new(),
            idle: tokio::sync::Mutex::new(idle),
        };
        let mut memberships = Vec::new();
        for (number, url) in urls.into_iter().enumerate() {
            let of = quorum.nodes.len();
            let membership =
                Membership { number: number + 1, of, fingerprint: fingerprint.clone() };
            memberships.push(membership.clone());
            let link = Link { quorum: quorum.clone(), number, url, membership };
            let task = tokio::spawn(link.run(trust, sender.clone()));
            engine.tasks.push(task.abort_handle());
        }
        drop(sender);
        let (mut there, mut troubles, mut mistake) = (0, Vec::new(), None);
        loop {
            let is_decided = there >= quorum.majority() || mistake.is_some();
            match next(&mut first, is_decided.then_some(GRACE)).await {
                Some((_, Ok(()))) => there += 1,
                // A mistake in the list of nodes, and better found now than by a second holder.
                Some((_, Err(error @ (EngineError::Broken(_) | EngineError::Unsupported(_))))) => {
                    mistake = Some(error);
                }
                Some((node, Err(error))) => troubles.push(quorum.trouble(node, error.to_string())),
                None => break,
            }
        }
        if mistake.is_some() {
            forget_members(&engine, &memberships).await;
        }
        let error = match mistake {
            None if there < quorum.majority() => Some(quorum.no_quorum(troubles.clone())),
            mistake => mistake,
        };
        if let Some(error) = error {
            engine.close().await;
            return Err(error);
        }
        for trouble in troubles {
            tracing::warn!("a node of the quorum is missing: {trouble}");
        }
        Ok(engine)
    }
}

impl Open for OpenQuorum {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let engine = self.connect(client, wakes).await?;
            Ok(Box::new(engine) as Box<dyn Engine>)
        })
    }
}

/// A list of nodes that is refused leaves no trace: the next one, without the mistake, is another.
async fn forget_members(engine: &QuorumEngine, memberships: &[Membership]) {
    for (node, membership) in engine.quorum.nodes.iter().zip(memberships) {
        if let Some(engine) = node.engine().filter(|_| node.is_new.load(Ordering::Relaxed)) {
            membership.leave(engine).await;
        }
    }
}

/// The way to one node.
struct Link {
    quorum: Arc<Quorum>,
    number: usize,
    url: NodeUrl,
    membership: Membership,
}

/// How the first try ended.
type First = mpsc::UnboundedSender<(usize, Result<(), EngineError>)>;

impl Link {
    /// Connects, however often it takes (in the end about once a second), and passes on what the node
    /// pushes.
    async fn run(self, mut trust: Trust, first: First) {
        let (mut backoff, mut first) = (Backoff::default(), Some(first));
        let mut woken = loop {
            match self.open(trust).await {
                Ok(woken) => break woken,
                Err(error) => {
                    self.quorum.nodes[self.number].is_missing(&error);
                    tracing::debug!(%error, "a node of the quorum can't be used");
                    if let Some(first) = first.take() {
                        let _ = first.send((self.number, Err(error)));
                    }
                }
            }
            trust.is_first_day = false;
            sleep(Duration::from_micros(backoff.pause_us(random::bits64()))).await;
        };
        if let Some(first) = first {
            let _ = first.send((self.number, Ok(())));
        } else {
            tracing::info!(node = self.url.place, "a node of the quorum is there again");
        }
        while let Some(event) = woken.recv().await {
            self.quorum.woken(self.number, event);
        }
    }

    async fn open(
        &self,
        trust: Trust,
    ) -> Result<mpsc::UnboundedReceiver<super::Woken>, EngineError> {
        let (wakes, woken) = Wakes::channel();
        let client = self.quorum.client;
        let engine = match self.url.opener().map_err(EngineError::Broken)? {
            Opener::Memory(store) => Box::new(store.engine(client, wakes)) as Box<dyn Engine>,
            Opener::Redis(mut redis) => {
                if !trust.is_first_day {
                    redis.distrust(trust.longest);
                }
                redis.open(client, wakes).await?
            }
        };
        let address = &self.url.place;
        let node = &self.quorum.nodes[self.number];
        match self.membership.join(&*engine, address).await {
            Ok(is_new) => node.is_new.store(is_new, Ordering::Relaxed),
            Err(error) => {
                engine.close().await;
                return Err(error);
            }
        }
        let asked_us = crate::clock::local_us();
        node.observe(asked_us, engine.ping().await?);
        let watched = lock(&self.quorum.watched);
        for (owner, (name, count)) in watched.iter() {
            (0..*count).for_each(|_| engine.watch(name, *owner));
        }
        node.install(engine);
        Ok(woken)
    }
}

/// The least that any node allows.
fn max_lease(urls: &[NodeUrl]) -> Result<Duration, EngineError> {
    let mut least = Duration::from_millis(limits::LEASE_MS_MAX);
    for url in urls {
        match url.opener().map_err(EngineError::Broken)? {
            Opener::Memory(_) => {}
            Opener::Redis(redis) => least = least.min(redis.max_lease()),
        }
    }
    Ok(least)
}
