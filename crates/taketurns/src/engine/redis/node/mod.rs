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

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::OpenRedis;
use super::greeter::Greeter;
use super::net::check::Placement;
use super::net::failure::Failure;
use super::net::opener::Opener;
use super::net::topology::CLOSE_WITHIN;
use super::net::url::{Address, Config, Failover, Servers};
use super::protocol::Wire;
use crate::engine::{EngineError, EngineFuture, Wakes};

/// What a server looks like to one who has not used it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nobody has used it with this prefix, or it has forgotten that.
    Nothing,
    /// It is in use.
    Marker {
        /// For how long, on its own clock.
        age: Duration,
        /// It grants nothing now, or won't as soon as anybody greets it.
        in_quarantine: bool,
        /// The longest lease that any client of it allows.
        max_lease: Duration,
    },
}

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

    /// If it speaks the plain wire: is it known that there are no tokens?
    ///
    /// # Errors
    /// Says why no node can speak another.
    pub(crate) fn plain(&self) -> Result<Option<bool>, String> {
        match &self.config.protocol {
            None => Ok(None),
            Some(protocol) if protocol.wire == Wire::Plain => Ok(Some(protocol.unfenced)),
            Some(_) => {
                Err("of the protocols of others, a quorum speaks protocol=plain alone".to_owned())
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
    pub(crate) fn peek(&self) -> EngineFuture<'_, Result<Seen, EngineError>> {
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
fn node(config: &Config) -> Result<&Address, String> {
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

/// One who looks and goes.
pub(super) struct Visitor {
    greeter: Arc<Greeter>,
    pub(super) opener: Opener,
    idle: mpsc::Receiver<()>,
}

impl Visitor {
    pub(super) fn new(config: &Config) -> Result<Self, Failure> {
        let config = Arc::new(config.clone());
        // Nobody listens there, and nobody is told.
        let channel = format!("{}wake:", config.prefix);
        let (hear, (wakes, _)) = (Arc::new(|_: &[u8]| ()), Wakes::channel());
        let greeter = Arc::new(Greeter::new(&config, channel.clone()));
        let placement = Placement::of(&config.servers);
        let (opener, idle) =
            Opener::new(config, placement, vec![channel], hear, wakes, greeter.clone())?;
        Ok(Self { greeter, opener, idle })
    }

    async fn peek(&self, address: &Address) -> Result<Seen, Failure> {
        let link = self.opener.visit(address).await?;
        self.greeter.peek(&link, &self.opener.config.marker_key()).await
    }

    /// The links are gone, and their tasks end with them.
    pub(super) async fn leave(mut self) {
        self.opener.finish();
        let _ = timeout(CLOSE_WITHIN, self.idle.recv()).await;
    }
}
