//! Getting to know a server before it is asked about a lock.
//!
//! ```text
//!   connect ─► INFO, TIME (query) ─► will it do? (requirements) ─► warnings, once
//!           ─► marker: did it forget anything? quarantine? (marker, verifier) ─► scripts, module ─► ServerSession
//! ```
//!
//! A server that may have forgotten who holds what grants nothing until that can't matter any more: the
//! quarantine, which is decided here and nowhere else.

pub(crate) mod facts;
pub(crate) mod marker;
pub(crate) mod module;
pub(crate) mod query;
mod replicas;
pub(crate) mod requirements;
pub(crate) mod verifier;

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::backend::{Backend, Repair};
use super::connection::OnMessage;
use super::connection::ServerConnection;
use super::connection::connector::Connector;
use super::connection::failure::Failure;
use super::url::{Address, RedisConfig};
use crate::engine::{EngineFuture, Wakes};
use crate::sync::lock;
use crate::telling::target;
use facts::ServerFacts;
use query::{ask_facts, wall_ms};
use replicas::without_module;
use requirements::{ConnectionTraits, Placement, Warning, refusal, warnings};

/// A server at the other end of a connection, and what it said about itself.
pub(crate) struct ServerPeer {
    pub(crate) connection: Arc<ServerConnection>,
    pub(crate) facts: ServerFacts,
    /// Our wall clock when the facts came.
    pub(crate) opened_ms: u64,
    /// After how long without replicas this master stops taking writes; `None` if never, or if it
    /// does not say. Asked for Sentinel alone.
    pub(crate) lag: Option<Duration>,
}

/// A peer whose backend is known. Replaced as a whole when the backend changes; the peer stays.
pub(crate) struct ServerSession {
    pub(crate) peer: Arc<ServerPeer>,
    pub(crate) backend: Backend,
    /// The key of this server's marker. Empty on a node of a Cluster that has no slot, and so can have
    /// no key.
    pub(crate) marker_key: Vec<u8>,
}

impl ServerSession {
    pub(crate) fn connection(&self) -> &Arc<ServerConnection> {
        &self.peer.connection
    }
}

/// Verifies servers: see [`verifier`].
pub(crate) trait Verify: Send + Sync {
    /// Verifies a server after a connection was opened, or after a script reported that the server needs it again.
    fn verify<'a>(
        &'a self,
        peer: &'a ServerPeer,
        marker_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Backend, Failure>>;

    /// The server does not know the scripts.
    fn load_scripts<'a>(
        &'a self,
        peer: &'a ServerPeer,
        marker_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Backend, Failure>>;
}

/// Opens sessions with the servers of one store, for one client.
pub(crate) struct Handshake {
    pub(crate) connector: Connector,
    pub(crate) placement: Placement,
    verifier: Arc<dyn Verify>,
    warned: Mutex<HashSet<(Address, Discriminant<Warning>)>>,
}

/// Which session is wanted.
pub(crate) struct SessionTarget {
    pub(crate) address: Address,
    pub(crate) source: u64,
    pub(crate) marker_key: Vec<u8>,
    /// Listen to the client's channels.
    pub(crate) subscribe: bool,
    /// There has been no session with this server yet.
    pub(crate) first: bool,
}

impl Handshake {
    /// Makes a handshake. Call it on the runtime that drives the connections.
    pub(crate) fn new(
        config: Arc<RedisConfig>,
        channels: Vec<String>,
        on_message: OnMessage,
        wakes: Wakes,
        verifier: Arc<dyn Verify>,
    ) -> Result<Self, Failure> {
        let placement = Placement::of(&config.servers);
        let connector = Connector::new(config, channels, on_message, wakes)?;
        Ok(Self { connector, placement, verifier, warned: Mutex::default() })
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.connector.config
    }

    pub(crate) async fn open(
        self: &Arc<Self>,
        target: SessionTarget,
    ) -> Result<Arc<ServerSession>, Failure> {
        let SessionTarget { address, source, marker_key, subscribe, first } = target;
        let peer = Arc::new(self.meet(&address, source, subscribe).await?);
        self.judge(&peer, first)?;
        let backend = self.verifier.verify(&peer, marker_key.clone()).await?;
        if backend.has_module() && self.config().strict {
            let lacking = without_module(self, &peer.facts.replicas).await;
            self.warn(&peer, Warning::lacking(&lacking).into_iter().collect())?;
        } else if backend.has_module() {
            self.check_replicas(&peer);
        }
        Ok(Arc::new(ServerSession { peer, backend, marker_key }))
    }

    /// Connects, and asks the server who it is.
    pub(crate) async fn meet(
        &self,
        address: &Address,
        source: u64,
        subscribe: bool,
    ) -> Result<ServerPeer, Failure> {
        let connection = self.connector.connect(address, source, subscribe).await?;
        let (facts, lag) = ask_facts(self, &connection).await?;
        Ok(ServerPeer { connection, facts, opened_ms: wall_ms(), lag })
    }

    /// For one look at a server that will do: it is not subscribed to, and nobody is warned.
    pub(crate) async fn visit(&self, address: &Address) -> Result<ServerPeer, Failure> {
        let peer = self.meet(address, 0, false).await?;
        match refusal(address, &peer.facts, self.placement, true) {
            Some(refusal) => Err(refusal),
            None => Ok(peer),
        }
    }

    /// A session with the same peer, whose backend is up to date.
    pub(crate) async fn repair(
        self: &Arc<Self>,
        old: &ServerSession,
        repair: Repair,
        marker_key: Vec<u8>,
    ) -> Result<Arc<ServerSession>, Failure> {
        let peer = &old.peer;
        let backend = match repair {
            Repair::LoadScripts => self.verifier.load_scripts(peer, marker_key.clone()).await?,
            Repair::Verify => self.verifier.verify(peer, marker_key.clone()).await?,
        };
        if backend.has_module() && !old.backend.has_module() {
            // Never refused: there may be locks held by this very connection.
            self.check_replicas(peer);
        }
        Ok(Arc::new(ServerSession { peer: peer.clone(), backend, marker_key }))
    }

    /// Warns of replicas that lack the module of their master. Nobody waits for it.
    fn check_replicas(self: &Arc<Self>, peer: &Arc<ServerPeer>) {
        if peer.facts.replicas.is_empty() {
            return;
        }
        let (handshake, weak) = (self.clone(), Arc::downgrade(peer));
        let replicas = peer.facts.replicas.clone();
        peer.connection.attach(self.connector.spawn(async move {
            let lacking = without_module(&handshake, &replicas).await;
            if let (Some(warning), Some(peer)) = (Warning::lacking(&lacking), weak.upgrade()) {
                handshake.log(&peer, warning);
            }
        }));
    }

    fn judge(&self, peer: &ServerPeer, first: bool) -> Result<(), Failure> {
        let address = &peer.connection.address;
        if let Some(failure) = refusal(address, &peer.facts, self.placement, first) {
            return Err(failure);
        }
        let traits = ConnectionTraits {
            placement: self.placement,
            resp3: peer.connection.resp3,
            local_ms: peer.opened_ms,
            lag: peer.lag,
        };
        self.warn(peer, warnings(&peer.facts, traits))
    }

    fn warn(&self, peer: &ServerPeer, warnings: Vec<Warning>) -> Result<(), Failure> {
        if self.config().strict && !warnings.is_empty() {
            let address = &peer.connection.address;
            let all: Vec<_> = warnings.iter().map(Warning::to_string).collect();
            let all = all.join("; ");
            return Err(Failure::Broken(format!("{address} (strict=true): {all}")));
        }
        warnings.into_iter().for_each(|warning| self.log(peer, warning));
        Ok(())
    }

    /// Once.
    fn log(&self, peer: &ServerPeer, warning: Warning) {
        let address = &peer.connection.address;
        if lock(&self.warned).insert((address.clone(), discriminant(&warning))) {
            tracing::warn!(target: target::SETUP, server = %address, "{warning}");
        }
    }
}
