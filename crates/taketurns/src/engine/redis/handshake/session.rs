//! A server that is connected and verified.

use std::sync::Arc;
use std::time::Duration;

use super::facts::ServerFacts;
use crate::engine::EngineFuture;
use crate::engine::redis::backend::Backend;
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::failure::Failure;

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

/// Verifies servers: see [`super::verifier`].
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
