//! One server at a time: the one in the URL, or the one that Sentinels say is the master.

use std::sync::{Arc, Mutex};

use tokio_util::task::AbortOnDropHandle;

use super::sentinel::Sentinels;
use super::session_slot::{OpenFuture, SessionSlot};
use crate::engine::redis::backend::Repair;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::session::ServerSession;
use crate::engine::redis::handshake::{Handshake, SessionTarget};
use crate::engine::redis::url::Address;
use crate::sync::lock;
use crate::telling::target;

/// How the server is found.
#[derive(Clone)]
pub(crate) enum ServerLocator {
    Fixed(Address),
    Sentinels(Arc<Sentinels>),
}

pub(crate) struct SingleServer {
    handshake: Arc<Handshake>,
    locator: ServerLocator,
    pub(super) slot: SessionSlot,
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl SingleServer {
    pub(crate) fn new(handshake: Arc<Handshake>, locator: ServerLocator) -> Arc<Self> {
        let (slot, watch) = (SessionSlot::default(), Mutex::default());
        let single = Arc::new(Self { handshake, locator, slot, watch });
        if let ServerLocator::Sentinels(sentinels) = &single.locator {
            let handshake = single.handshake.clone();
            let watch = sentinels.clone().watch(handshake, Arc::downgrade(&single));
            *lock(&single.watch) = Some(single.handshake.connector.spawn(watch));
        }
        single
    }

    /// The session that is open, or a new one.
    pub(crate) async fn session(&self) -> Result<Arc<ServerSession>, Failure> {
        self.slot.session(&self.handshake.connector, |first| self.open(first)).await
    }

    fn open(&self, first: bool) -> OpenFuture {
        let (handshake, locator) = (self.handshake.clone(), self.locator.clone());
        let marker_key = handshake.config().marker_key();
        Box::pin(async move {
            let address = match &locator {
                ServerLocator::Fixed(address) => address.clone(),
                ServerLocator::Sentinels(sentinels) => sentinels.find(&handshake.connector).await?,
            };
            let target = SessionTarget { address, source: 0, marker_key, subscribe: true, first };
            let session = handshake.open(target).await;
            if let (Err(_), ServerLocator::Sentinels(sentinels)) = (&session, &locator) {
                // Perhaps it is the Sentinel that is behind the times.
                sentinels.try_next_first();
            }
            session
        })
    }

    /// A session whose backend is up to date, on the same connection.
    pub(crate) async fn repair(
        &self,
        session: &Arc<ServerSession>,
        repair: Repair,
    ) -> Result<Arc<ServerSession>, Failure> {
        let replace = || -> OpenFuture {
            let (handshake, old) = (self.handshake.clone(), session.clone());
            Box::pin(async move { handshake.repair(&old, repair, old.marker_key.clone()).await })
        };
        self.slot.replace(&self.handshake.connector, session, replace).await
    }

    /// A request failed: that may say something about the server.
    pub(crate) fn handle_failure(&self, session: &ServerSession, failure: &Failure) {
        if failure.wants_master() {
            session.connection().kill();
        }
    }

    /// Sentinels say where the master is.
    pub(crate) fn handle_master(&self, address: &Address) {
        if let Some(session) = self.slot.current()
            && session.connection().address != *address
        {
            let from = &session.connection().address;
            tracing::info!(target: target::REDIS, %from, to = %address, "the master has moved");
            session.connection().kill();
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.watch) = None;
        self.slot.close();
    }
}
