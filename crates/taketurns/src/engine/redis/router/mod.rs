//! Which server: a command for a key goes to the server that has it.
//!
//! ```text
//!   call(key, command) ─► session ─► send ─► reply, and by which session
//!                            ▲         │ NOSCRIPT: load scripts   TTVERIFY: verify   WRONGTYPE: other dialect
//!                            └─────────┘ none of these was carried out
//! ```
//!
//! A message comes from a server too: [`WakeUpReader`] says whose clock it is on.
//!
//! There is one server at a time ([`single`], which Sentinels may name) or a Cluster ([`cluster`]). A command that
//! may have been carried out is never sent again here: the caller is told so.

mod cluster;
mod marker_check;
pub(crate) mod sentinel;
mod single;
pub(crate) mod slot_map;
pub(crate) mod slots;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::join_all;
use redis::Value;
use taketurns_core::wire::SealedWake;
use taketurns_core::{ClientId, Wake};

use super::backend::{BoundCommand, Dialect, Repair, Retry, RetryBudget, RoutedCommand};
use super::connection::OnMessage;
use super::connection::connector::Connector;
use super::connection::failure::Failure;
use super::handshake::{Handshake, ServerSession, Verify};
use super::url::{RedisConfig, Servers};
use crate::clock::local_us;
use crate::engine::{EngineError, EngineEvent, Origin, Wakes};
use crate::telling::target;
use cluster::ClusterRouter;
use marker_check::MarkerCheck;
use sentinel::Sentinels;
use single::{ServerLocator, SingleServer};

/// A reply, and by which session.
pub(crate) struct RoutedReply {
    pub(crate) value: Value,
    pub(crate) session: Arc<ServerSession>,
    /// When the command was sent, if the router looked at the clock: no sooner than it was called.
    pub(crate) sent_us: Option<u64>,
}

type RouterResult = Result<RoutedReply, Failure>;

/// The servers of one store, for one client.
pub(crate) struct Router {
    topology: Topology,
    handshake: Arc<Handshake>,
}

enum Topology {
    Single(Arc<SingleServer>),
    Cluster(Arc<ClusterRouter>),
}

impl Router {
    /// Connects. To be called on the runtime that drives the connections.
    pub(crate) async fn open(
        config: Arc<RedisConfig>,
        channels: Vec<String>,
        on_message: OnMessage,
        wakes: Wakes,
        verifier: Arc<dyn Verify>,
    ) -> Result<Arc<Self>, EngineError> {
        let servers = config.servers.clone();
        let handshake = Arc::new(Handshake::new(config, channels, on_message, wakes, verifier)?);
        let single = |locator| Topology::Single(SingleServer::new(handshake.clone(), locator));
        let topology = match servers {
            Servers::Cluster(seeds) => {
                Topology::Cluster(ClusterRouter::open(handshake.clone(), seeds).await?)
            }
            Servers::One(address) => single(ServerLocator::Fixed(address)),
            Servers::Sentinel { sentinels, master, credentials } => {
                let sentinels = Sentinels::new(sentinels, master, credentials);
                single(ServerLocator::Sentinels(Arc::new(sentinels)))
            }
        };
        let router = Self { topology, handshake };
        if let Topology::Single(single) = &router.topology {
            single.session().await?;
        }
        Ok(Arc::new(router))
    }

    /// Which server serves the key, as far as we know: a small number that stays the same. 0 on a
    /// single server and for Sentinel's master.
    pub(crate) fn source(&self, key: &[u8]) -> u64 {
        match &self.topology {
            Topology::Single(_) => 0,
            Topology::Cluster(cluster) => cluster.source(key),
        }
    }

    /// Is there one server at a time?
    pub(crate) fn has_one_server(&self) -> bool {
        matches!(self.topology, Topology::Single(_))
    }

    /// Runs one command on the server of the key. The command is written anew for each try.
    pub(crate) async fn call(
        &self,
        key: &[u8],
        command: &dyn RoutedCommand,
    ) -> Result<RoutedReply, EngineError> {
        Ok(self.call_once(key, command).await?)
    }

    /// The same, and whether the server still was what it was verified as when the command had been carried out. For
    /// servers whose scripts can't see that for themselves, those of a Cluster.
    pub(crate) async fn call_and_check(
        &self,
        key: &[u8],
        command: &dyn RoutedCommand,
    ) -> Result<(RoutedReply, bool), EngineError> {
        match &self.topology {
            Topology::Single(_) => Ok((self.call(key, command).await?, true)),
            Topology::Cluster(cluster) => {
                Ok(cluster.call(key, command, MarkerCheck::Behind).await?)
            }
        }
    }

    async fn call_once(&self, key: &[u8], command: &dyn RoutedCommand) -> RouterResult {
        let single = match &self.topology {
            Topology::Single(single) => single,
            Topology::Cluster(cluster) => {
                let replied = cluster.call(key, command, MarkerCheck::No).await;
                return replied.map(|(reply, _)| reply);
            }
        };
        let mut budget = RetryBudget::default();
        let (mut session, mut sent_us) = match single.slot.current() {
            Some(session) => (session, None),
            None => (single.session().await?, Some(local_us())),
        };
        loop {
            let backend = &session.backend;
            let dialect = command.dialect(backend);
            let bound = BoundCommand { command, backend, dialect };
            let failure = match session.connection().send(&bound).await {
                Ok(value) => return Ok(RoutedReply { value, session, sent_us }),
                Err(failure) => failure,
            };
            match budget.retry(failure, || command.handle_wrong_type(backend, dialect)) {
                Ok(Retry::Now) => {}
                Ok(Retry::After(repair)) => session = single.repair(&session, repair).await?,
                Err(failure) => {
                    single.handle_failure(&session, &failure);
                    return Err(failure);
                }
            }
            sent_us = Some(local_us());
        }
    }

    /// Runs several, each on the server of its key: one write per server, answers in order.
    pub(crate) async fn call_all(
        &self,
        calls: &[(Vec<u8>, Box<dyn RoutedCommand + '_>)],
    ) -> Vec<Result<RoutedReply, EngineError>> {
        let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, (key, _)) in calls.iter().enumerate() {
            groups.entry(self.source(key)).or_default().push(index);
        }
        let writes = groups.into_values().map(|group| self.call_group(calls, group));
        let answered = join_all(writes).await;
        let mut answers: Vec<(usize, RouterResult)> = answered.into_iter().flatten().collect();
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer.map_err(EngineError::from)).collect()
    }

    /// What was not carried out is sent again. The first sees to what was in the way of it, and the
    /// others follow in one write: there may be a thousand, each with a lease that runs.
    async fn call_group(
        &self,
        calls: &[(Vec<u8>, Box<dyn RoutedCommand + '_>)],
        group: Vec<usize>,
    ) -> BTreeMap<usize, RouterResult> {
        let mut answers = self.send_group(calls, group).await;
        let held_up = |(index, answer): (&usize, &RouterResult)| match answer {
            Err(Failure::NoScript | Failure::Reverify | Failure::WrongType(_)) => Some(*index),
            _ => None,
        };
        let mut held_up: Vec<usize> = answers.iter().filter_map(held_up).collect();
        if let Some(first) = held_up.first().copied() {
            let (key, command) = &calls[first];
            let answer = self.call_once(key, &**command).await;
            answers.extend(self.send_group(calls, held_up.split_off(1)).await);
            answers.insert(first, answer);
        }
        for (index, answer) in &mut answers {
            let again = match answer {
                Err(Failure::Moved { .. } | Failure::Ask { .. } | Failure::TryAgain(_)) => true,
                Err(Failure::NoScript | Failure::Reverify | Failure::WrongType(_)) => {
                    held_up.first() != Some(index)
                }
                _ => false,
            };
            if again {
                let (key, command) = &calls[*index];
                *answer = self.call_once(key, &**command).await;
            }
        }
        answers
    }

    async fn send_group(
        &self,
        calls: &[(Vec<u8>, Box<dyn RoutedCommand + '_>)],
        group: Vec<usize>,
    ) -> BTreeMap<usize, RouterResult> {
        let Some(first) = group.first() else { return BTreeMap::new() };
        let session = match &self.topology {
            Topology::Single(single) => match single.slot.current() {
                Some(session) => Ok(session),
                None => single.session().await,
            },
            Topology::Cluster(cluster) => cluster.session_for(&calls[*first].0).await,
        };
        let session = match session {
            Ok(session) => session,
            Err(failure) => {
                return group.into_iter().map(|index| (index, Err(failure.clone()))).collect();
            }
        };
        let backend = &session.backend;
        let dialects: Vec<Dialect> =
            group.iter().map(|index| calls[*index].1.dialect(backend)).collect();
        let bound = group.iter().zip(&dialects).map(|(index, dialect)| BoundCommand {
            command: &*calls[*index].1,
            backend,
            dialect: *dialect,
        });
        let (bound, sent_us) = (bound.collect::<Vec<_>>(), Some(local_us()));
        let replies = session.connection().send_all(&bound).await;
        drop(bound);
        let replies = group.into_iter().zip(dialects).zip(replies);
        let replies = replies.map(|((index, dialect), reply)| {
            match (&reply, &self.topology) {
                (Err(Failure::WrongType(_)), _) => {
                    calls[index].1.handle_wrong_type(backend, dialect);
                }
                (Err(failure), Topology::Single(single)) => {
                    single.handle_failure(&session, failure);
                }
                (Err(failure), Topology::Cluster(cluster)) => cluster.handle_failure(failure),
                (Ok(_), _) => {}
            }
            (index, reply.map(|value| RoutedReply { value, session: session.clone(), sent_us }))
        });
        replies.collect()
    }

    /// A session with every master; of a single server just the one.
    pub(crate) async fn masters(&self) -> Result<Vec<Arc<ServerSession>>, EngineError> {
        match &self.topology {
            Topology::Single(single) => Ok(vec![single.session().await?]),
            Topology::Cluster(cluster) => Ok(cluster.masters().await?),
        }
    }

    /// Has a server verified again that is not what it was verified as.
    pub(crate) async fn verify_again(
        &self,
        session: &Arc<ServerSession>,
    ) -> Result<(), EngineError> {
        match &self.topology {
            Topology::Single(single) => single.repair(session, Repair::Verify).await.map(|_| ())?,
            Topology::Cluster(cluster) => cluster.verify_again(session).await?,
        }
        Ok(())
    }

    /// Whose clock it is on the session that is open now with the run whose id begins like this.
    pub(crate) fn origin_of_run(&self, run_prefix: &str) -> Option<Origin> {
        let sessions = match &self.topology {
            Topology::Single(single) => single.slot.current().into_iter().collect(),
            Topology::Cluster(cluster) => cluster.current(),
        };
        let is_of_run = |session: &&Arc<ServerSession>| {
            !run_prefix.is_empty() && session.peer.facts.run.starts_with(run_prefix)
        };
        sessions.iter().find(is_of_run).map(|session| session.connection().origin)
    }

    /// For connections and tasks besides.
    pub(crate) fn connector(&self) -> &Connector {
        &self.handshake.connector
    }

    /// Ends all connections and tasks, and waits for that. Calls after it fail.
    pub(crate) async fn close(&self) {
        self.shut();
        self.handshake.connector.finished().await;
    }

    fn shut(&self) {
        self.handshake.connector.finish();
        match &self.topology {
            Topology::Single(single) => single.close(),
            Topology::Cluster(cluster) => cluster.close(),
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Reads the wake-ups of one client, and pushes them. A wake-up names its owner by a hash and is sealed with the owner's
/// secret, so a right to publish is not enough to forge a grant. A message for nobody is dropped.
pub(crate) struct WakeUpReader {
    client: ClientId,
    pub(crate) wakes: Wakes,
    /// Empty while it connects.
    router: OnceLock<Weak<Router>>,
}

impl WakeUpReader {
    pub(crate) fn new(client: ClientId, wakes: Wakes) -> Self {
        wakes.name_owners();
        Self { client, wakes, router: OnceLock::new() }
    }

    pub(crate) fn set_router(&self, router: &Arc<Router>) {
        let _ = self.router.set(Arc::downgrade(router));
    }

    /// Returns what a connection calls with each message: it pushes what the message says.
    pub(crate) fn on_message(self: &Arc<Self>) -> OnMessage {
        let reader = self.clone();
        Arc::new(move |_channel, message| {
            reader.read(message).into_iter().for_each(|event| reader.wakes.push(event));
        })
    }

    /// What a message says, if it is genuine and for somebody.
    pub(crate) fn read(&self, message: &[u8]) -> Option<EngineEvent> {
        let sealed = SealedWake::parse(message)?;
        let (owner, lock) = self.wakes.find_owner(sealed.id)?;
        let Some(event) = sealed.open(owner) else {
            tracing::warn!(target: target::REDIS, %lock, "a wake-up that its owner's server did not make was ignored");
            return None;
        };
        let wake = Wake { client: self.client, owner, event };
        let router = self.router.get().and_then(Weak::upgrade);
        let origin = router.and_then(|router| router.origin_of_run(sealed.run));
        Some(EngineEvent::Wake { lock, wake, origin: origin.unwrap_or(Origin::UNKNOWN) })
    }
}
