//! A server as a node of a quorum: who it is, what it looks like before it is used, and that it is not
//! taken for fresh where the other nodes know better.
//!
//! ```text
//!   node_address ─► peek at all nodes ─► some are old: distrust those without a marker ─► open
//! ```

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::OpenRedis;
use super::connection::failure::Failure;
use super::foreign::protocol::ForeignProtocol;
use super::handshake::Handshake;
use super::handshake::marker::MarkerSighting;
use super::handshake::verifier::Verifier;
use super::url::{Address, Failover, RedisConfig, Servers};
use crate::engine::{EngineError, EngineFuture, Wakes};

impl OpenRedis {
    /// The longest lease that the URL allows.
    pub(crate) fn max_lease(&self) -> Duration {
        self.config.max_lease
    }

    /// A missing marker means from now on that the server has lost its state, also where this client
    /// never saw one: then nothing is granted there for as long as the longest lease, here or that others
    /// know of.
    pub(crate) fn distrust(&mut self, longest: Duration) {
        self.config.distrust = Some(longest);
    }

    /// If it uses `protocol=plain`: does its URL accept that there are no tokens?
    ///
    /// # Errors
    /// Says why no node can speak another.
    pub(crate) fn plain(&self) -> Result<Option<bool>, String> {
        match &self.config.protocol {
            None => Ok(None),
            Some(protocol) if protocol.wire == ForeignProtocol::Plain => {
                Ok(Some(protocol.unfenced))
            }
            Some(_) => {
                Err("of the foreign protocols, a quorum can use only protocol=plain".to_owned())
            }
        }
    }

    /// The same server for our own lock alone, which has pools.
    pub(crate) fn natively(&mut self) {
        self.config.protocol = None;
    }

    /// The same for all who mean the same locks on the same server, however they get there and log in.
    ///
    /// # Errors
    /// Says why this can be no node.
    pub(crate) fn node_address(&self) -> Result<String, String> {
        let Address { host, port } = node(&self.config)?;
        let host = match host.parse::<IpAddr>() {
            Ok(number) => number.to_string(),
            Err(_) => host.trim_end_matches('.').to_ascii_lowercase(),
        };
        let address = Address { host, port: *port };
        Ok(format!("{address}/{} {}", self.config.db, self.config.prefix))
    }

    /// Looks at the marker, and leaves everything as it is. To be polled on the runtime that is to
    /// drive the connection, and bounded in time as any connect is.
    pub(crate) fn peek(&self) -> EngineFuture<'_, Result<MarkerSighting, EngineError>> {
        Box::pin(async move {
            let address = node(&self.config).map_err(EngineError::Unsupported)?;
            let visitor = Visitor::new(&self.config)?;
            let seen = visitor.peek(address).await;
            visitor.leave().await;
            // Nothing was asked for that may have been carried out.
            seen.map_err(|failure| failure.before_sending().into())
        })
    }
}

/// Where it is, if a quorum can have it.
fn node(config: &RedisConfig) -> Result<&Address, String> {
    let Servers::One(address) = &config.servers else {
        return Err(
            "a node of a quorum is a server of its own, with a redis:// or rediss:// URL: \
                    neither a Cluster nor what Sentinels watch over"
                .to_owned(),
        );
    };
    if config.failover == Failover::Immediate {
        return Err(
            "failover=immediate would let a node vote that has forgotten its votes: leave \
                    it out"
                .to_owned(),
        );
    }
    Ok(address)
}

/// Looks at a server once, without using it.
pub(super) struct Visitor {
    verifier: Arc<Verifier>,
    pub(super) handshake: Handshake,
}

impl Visitor {
    pub(super) fn new(config: &RedisConfig) -> Result<Self, Failure> {
        // Nobody listens there, and nobody is told.
        let (channel, (wakes, _)) = (config.channels(), Wakes::channel());
        let wire = config.protocol.as_ref().map(|protocol| protocol.wire);
        let verifier = Arc::new(Verifier::new(config, wire));
        let config = Arc::new(config.clone());
        let on_message = Arc::new(|_: &[u8], _: &[u8]| ());
        let handshake = Handshake::new(config, vec![channel], on_message, wakes, verifier.clone())?;
        Ok(Self { verifier, handshake })
    }

    async fn peek(&self, address: &Address) -> Result<MarkerSighting, Failure> {
        let peer = self.handshake.visit(address).await?;
        self.verifier.peek(&peer, &self.handshake.config().marker_key()).await
    }

    /// The connections are gone, and their tasks end with them.
    pub(super) async fn leave(self) {
        self.handshake.connector.finish();
        self.handshake.connector.finished().await;
    }
}
