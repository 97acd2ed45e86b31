//! A Cluster: who has which slot, a session with each, and one home node that wake-ups come from.
//!
//! ```text
//!   key ─► slot ─► node ─► SessionSlot ─► ServerSession
//!                              ▲ MOVED, ASK: another node, and the map is read anew
//!   home ─► the one node whose connection is SUBSCRIBEd: PUBLISH reaches it from all others
//! ```

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::cmd;

use super::RoutedReply;
use super::marker_check::{self, MarkerCheck, MarkerFinding};
use super::single::{OpenFuture, SessionSlot};
use super::slot_map::{ClusterMember, SlotMap};
use super::slots::{self, Range};
use crate::clock::local_us;
use crate::engine::redis::backend::{BoundCommand, Repair, Retry, RetryBudget, RoutedCommand};
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::ServerSession;
use crate::engine::redis::handshake::requirements::refusal;
use crate::engine::redis::handshake::{Handshake, SessionTarget};
use crate::engine::redis::url::Address;
use crate::runtime::{entered, sleep};
use crate::sync::lock;
use crate::telling::target;
use tokio_util::task::AbortOnDropHandle;

const REDIRECTS_MAX: usize = 5;
/// A key that is being moved is back in a moment.
const TRY_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(30), Duration::from_millis(90)];

/// While a node is down, every call to it would have the map read.
const REFRESH_REST: Duration = Duration::from_millis(50);

pub(crate) struct ClusterRouter {
    handshake: Arc<Handshake>,
    seeds: Vec<Address>,
    map: Mutex<SlotMap>,
    home: SessionSlot,
    /// The reading of the map that is under way, or the last one.
    refresh: Mutex<Option<MapRefresh>>,
}

struct MapRefresh {
    since: Instant,
    under_way: Arc<()>,
    _task: AbortOnDropHandle<()>,
}

impl ClusterRouter {
    pub(crate) async fn open(
        handshake: Arc<Handshake>,
        seeds: Vec<Address>,
    ) -> Result<Arc<Self>, Failure> {
        let cluster = Arc::new(Self {
            handshake,
            seeds,
            map: Mutex::new(SlotMap::new()),
            home: SessionSlot::default(),
            refresh: Mutex::default(),
        });
        cluster.read_map().await?;
        cluster.home().await?;
        Ok(cluster)
    }

    pub(crate) fn source(&self, key: &[u8]) -> u64 {
        lock(&self.map).owner(slots::slot(key)).map_or(0, |node| node.source)
    }

    /// The session with the owner of the key, by the map that we have. The home is up by then.
    pub(crate) async fn session_for(
        self: &Arc<Self>,
        key: &[u8],
    ) -> Result<Arc<ServerSession>, Failure> {
        self.home().await?;
        let node = self.owner_of(key)?;
        self.session(&node).await
    }

    fn owner_of(self: &Arc<Self>, key: &[u8]) -> Result<Arc<ClusterMember>, Failure> {
        let slot = slots::slot(key);
        let owner = lock(&self.map).owner(slot);
        owner.ok_or_else(|| {
            self.refresh();
            Failure::Unreachable(format!("no node of the Cluster has slot {slot}"))
        })
    }

    async fn session(
        self: &Arc<Self>,
        node: &Arc<ClusterMember>,
    ) -> Result<Arc<ServerSession>, Failure> {
        let session = node
            .slot
            .session(&self.handshake.connector, |first| self.open_member(node, first))
            .await;
        let session = session.inspect_err(|failure| self.handle_failure(failure))?;
        let marker_key = self.marker_key(node);
        if session.marker_key == marker_key || marker_key.is_empty() {
            return Ok(session);
        }
        // It has another first slot, and so its marker another place: without one there, nobody would
        // know of this run once the node has failed over.
        let again = self.repair_on(node, &session, Repair::Verify).await;
        again.inspect_err(|failure| self.handle_failure(failure))
    }

    /// The node of a session is not what it was verified as.
    pub(crate) async fn verify_again(&self, session: &Arc<ServerSession>) -> Result<(), Failure> {
        let nodes = lock(&self.map).nodes();
        match nodes.iter().find(|node| node.source == session.connection().origin.source) {
            Some(node) => self.repair_on(node, session, Repair::Verify).await.map(|_| ()),
            None => Ok(()),
        }
    }

    fn open_member(&self, node: &Arc<ClusterMember>, first: bool) -> OpenFuture {
        let handshake = self.handshake.clone();
        let target = SessionTarget {
            address: node.address.clone(),
            source: node.source,
            marker_key: self.marker_key(node),
            subscribe: false,
            first,
        };
        Box::pin(async move { handshake.open(target).await })
    }

    fn marker_key(&self, node: &Arc<ClusterMember>) -> Vec<u8> {
        let lowest = lock(&self.map).lowest(node);
        node.marker_key(&self.handshake.config().prefix, lowest)
    }

    async fn repair_on(
        &self,
        node: &Arc<ClusterMember>,
        session: &Arc<ServerSession>,
        repair: Repair,
    ) -> Result<Arc<ServerSession>, Failure> {
        let replacing = || -> OpenFuture {
            let (handshake, old) = (self.handshake.clone(), session.clone());
            let marker_key = self.marker_key(node);
            Box::pin(async move { handshake.repair(&old, repair, marker_key).await })
        };
        node.slot.replace(&self.handshake.connector, session, replacing).await
    }

    /// Runs one command where its key is, however often it is sent on to another node.
    pub(crate) async fn call(
        self: &Arc<Self>,
        key: &[u8],
        command: &dyn RoutedCommand,
        check: MarkerCheck,
    ) -> Result<(RoutedReply, bool), Failure> {
        self.home().await?;
        let mut node = self.owner_of(key)?;
        let (mut asking, mut redirects) = (false, 0);
        let (mut budget, mut pauses) = (RetryBudget::default(), TRY_AGAIN_AFTER.iter());
        loop {
            let session = self.session(&node).await?;
            let dialect = command.dialect(&session.backend);
            let (bound, sent_us) =
                (BoundCommand { command, backend: &session.backend, dialect }, Some(local_us()));
            let failure = match marker_check::send(&session, &bound, asking, check).await {
                Ok((value, seen)) => {
                    if seen == MarkerFinding::Elsewhere {
                        self.refresh();
                    }
                    return Ok((
                        RoutedReply { value, session, sent_us },
                        seen != MarkerFinding::Changed,
                    ));
                }
                Err(failure) => failure,
            };
            match &failure {
                Failure::Moved { slot, addr } if redirects < REDIRECTS_MAX => {
                    let address = announced(addr, &session)?;
                    (node, asking) = (self.moved(*slot, &address), false);
                    redirects += 1;
                }
                Failure::Ask { addr, .. } if redirects < REDIRECTS_MAX => {
                    let address = announced(addr, &session)?;
                    (node, asking) = (lock(&self.map).node(&address), true);
                    redirects += 1;
                }
                Failure::TryAgain(_) => match pauses.next() {
                    Some(pause) => entered(&self.handshake.connector.runtime, sleep(*pause)).await,
                    None => return Err(failure),
                },
                _ => match budget
                    .retry(failure, || command.handle_wrong_type(&session.backend, dialect))
                {
                    Ok(Retry::Now) => {}
                    Ok(Retry::After(repair)) => {
                        self.repair_on(&node, &session, repair).await?;
                    }
                    Err(failure) => {
                        self.handle_failure(&failure);
                        return Err(failure);
                    }
                },
            }
        }
    }

    /// A node says that this slot is elsewhere: there may be more that we have wrong.
    fn moved(self: &Arc<Self>, slot: u16, address: &Address) -> Arc<ClusterMember> {
        let node = lock(&self.map).give(slot, address);
        self.refresh();
        node
    }

    /// What a failure says about our map.
    pub(crate) fn handle_failure(self: &Arc<Self>, failure: &Failure) {
        if !matches!(
            failure,
            Failure::Broken(_)
                | Failure::NoCommand(_)
                | Failure::Unsupported(_)
                | Failure::WrongType(_)
                | Failure::NoScript
                | Failure::Reverify
        ) {
            self.refresh();
        }
    }

    /// A session with every master.
    pub(crate) async fn masters(self: &Arc<Self>) -> Result<Vec<Arc<ServerSession>>, Failure> {
        self.home().await?;
        let nodes = lock(&self.map).masters();
        let mut sessions = Vec::with_capacity(nodes.len());
        for node in nodes {
            sessions.push(self.session(&node).await?);
        }
        Ok(sessions)
    }

    pub(crate) fn current(&self) -> Vec<Arc<ServerSession>> {
        let nodes = lock(&self.map).nodes();
        nodes.iter().filter_map(|node| node.slot.current()).collect()
    }

    /// The home is up, or is chosen anew.
    async fn home(self: &Arc<Self>) -> Result<(), Failure> {
        let opening = |_| -> OpenFuture {
            let cluster = self.clone();
            Box::pin(async move { cluster.choose_home().await })
        };
        self.home.session(&self.handshake.connector, opening).await.map(|_| ())
    }

    async fn choose_home(self: &Arc<Self>) -> Result<Arc<ServerSession>, Failure> {
        let mut nodes = lock(&self.map).masters();
        // One that is connected is there; another may take seconds to be found gone.
        nodes.sort_by_key(|node| node.slot.current().is_none());
        let mut last = Failure::Unreachable("no node of the Cluster has any slot".to_owned());
        for node in nodes {
            let found = async {
                let session = self.session(&node).await?;
                self.handshake.connector.subscribe(session.connection()).await.map(|()| session)
            };
            match found.await {
                Ok(session) => return Ok(session),
                Err(failure) => last = last.or_loading(failure),
            }
        }
        self.refresh();
        Err(last)
    }

    /// Has the map read anew, unless that is under way or was so just now.
    fn refresh(self: &Arc<Self>) {
        let mut refresh = lock(&self.refresh);
        let busy = |refresh: &MapRefresh| {
            Arc::strong_count(&refresh.under_way) > 1 || refresh.since.elapsed() < REFRESH_REST
        };
        if refresh.as_ref().is_some_and(busy) || self.handshake.connector.is_finished() {
            return;
        }
        let under_way = Arc::new(());
        let (cluster, mark) = (self.clone(), under_way.clone());
        let task = self.handshake.connector.spawn(async move {
            if let Err(failure) = cluster.read_map().await {
                tracing::debug!(target: target::REDIS, ?failure, "the map of the Cluster could not be read");
            }
            drop(mark);
        });
        *refresh = Some(MapRefresh { since: Instant::now(), under_way, _task: task });
    }

    /// Asks one node after the other, those first that we are connected to.
    async fn read_map(&self) -> Result<(), Failure> {
        for session in self.current() {
            if let Ok(ranges) = ask_map(session.connection()).await {
                self.apply(&ranges);
                return Ok(());
            }
        }
        // Those first that had slots when we last looked: of all others, however many there were over
        // the years, most are gone, and each takes seconds to be found so.
        let mut addresses: Vec<Address> = Vec::new();
        let masters = lock(&self.map).masters();
        let known = lock(&self.map).addresses();
        let masters = masters.iter().map(|node| &node.address);
        for address in masters.chain(&self.seeds).chain(&known) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        let mut failure = None;
        for address in addresses {
            let asked = async {
                let peer = self.handshake.meet(&address, 0, false).await?;
                match refusal(&address, &peer.facts, self.handshake.placement, true) {
                    Some(broken @ Failure::Broken(_)) => Err(broken),
                    _ => ask_map(&peer.connection).await,
                }
            };
            match asked.await {
                Ok(ranges) => {
                    self.apply(&ranges);
                    return Ok(());
                }
                Err(broken @ Failure::Broken(_)) => failure = Some(broken),
                Err(other) => {
                    failure = match failure {
                        Some(known @ Failure::Broken(_)) => Some(known),
                        Some(known) => Some(other.or_loading(known)),
                        None => Some(other),
                    }
                }
            }
        }
        let nobody = || Failure::Unreachable("the Cluster has no node to ask".to_owned());
        Err(failure.unwrap_or_else(nobody))
    }

    fn apply(&self, ranges: &[Range]) {
        let idle = lock(&self.map).replace(ranges);
        let home = self.home.current();
        for node in idle {
            let at_home =
                |home: &Arc<ServerSession>| home.connection().origin.source == node.source;
            let session = node.slot.clear();
            if home.as_ref().is_some_and(at_home) {
                // What is published may not reach it any more.
                self.home.clear();
                session.iter().for_each(|session| session.connection().kill());
            }
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.refresh) = None;
        self.home.close();
        let nodes = lock(&self.map).nodes();
        nodes.iter().for_each(|node| node.slot.close());
    }
}

fn announced(addr: &str, by: &ServerSession) -> Result<Address, Failure> {
    let asked = &by.connection().address;
    Address::announced(addr, &asked.host).ok_or_else(|| {
        Failure::Broken(format!("{asked} sends us to {addr:?}, which is no address"))
    })
}

async fn ask_map(connection: &ServerConnection) -> Result<Vec<Range>, Failure> {
    let reply = connection.send(cmd("CLUSTER").arg("SLOTS")).await?;
    let ranges = slots::parse(&reply, &connection.address.host);
    ranges.filter(|ranges| !ranges.is_empty()).ok_or_else(|| {
        Failure::Unreachable(format!("{} knows of no slots in the Cluster", connection.address))
    })
}
