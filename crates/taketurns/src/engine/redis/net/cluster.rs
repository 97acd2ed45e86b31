//! A Cluster: who has which slot, a session with each, and one home that hears the wake-ups.
//!
//! ```text
//!   key ─► slot ─► node ─► Door ─► Session
//!                              ▲ MOVED, ASK: another node, and the map is read anew
//!   home ─► the one node whose link is SUBSCRIBEd: PUBLISH reaches it from all others
//! ```

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::cmd;

use super::check::refusal;
use super::door::{Door, Opening};
use super::errand::{Errand, To};
use super::failure::Failure;
use super::line::Task;
use super::link::Link;
use super::look::{self, Look, Seen};
use super::nodes::{Map, Node};
use super::opener::{Opener, Wanted};
use super::session::{Again, Next, Patience, Session};
use super::slots::{self, Range};
use super::topology::Told;
use super::url::Address;
use crate::clock::local_us;
use crate::runtime::{entered, sleep};
use crate::sync::lock;

const REDIRECTS_MAX: usize = 5;
/// A key that is being moved is back in a moment.
const TRY_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(30), Duration::from_millis(90)];

/// While a node is down, every call to it would have the map read.
const REFRESH_REST: Duration = Duration::from_millis(50);

pub(crate) struct Cluster {
    opener: Arc<Opener>,
    seeds: Vec<Address>,
    map: Mutex<Map>,
    home: Door,
    /// The reading of the map that is under way, or the last one.
    refresh: Mutex<Option<Refresh>>,
}

struct Refresh {
    since: Instant,
    under_way: Arc<()>,
    _task: Task,
}

impl Cluster {
    pub(crate) async fn open(
        opener: Arc<Opener>,
        seeds: Vec<Address>,
    ) -> Result<Arc<Self>, Failure> {
        let cluster = Arc::new(Self {
            opener,
            seeds,
            map: Mutex::new(Map::new()),
            home: Door::default(),
            refresh: Mutex::default(),
        });
        cluster.read_map().await?;
        cluster.home().await?;
        Ok(cluster)
    }

    pub(crate) fn source(&self, key: &[u8]) -> u64 {
        lock(&self.map).owner(slots::slot(key)).map_or(0, |node| node.source)
    }

    /// The session with whoever has the key, by the map that we have. The home is up by then.
    pub(crate) async fn session_for(self: &Arc<Self>, key: &[u8]) -> Result<Arc<Session>, Failure> {
        self.home().await?;
        let node = self.owner_of(key)?;
        self.session(&node).await
    }

    fn owner_of(self: &Arc<Self>, key: &[u8]) -> Result<Arc<Node>, Failure> {
        let slot = slots::slot(key);
        let owner = lock(&self.map).owner(slot);
        owner.ok_or_else(|| {
            self.refresh();
            Failure::Unreachable(format!("no node of the Cluster has slot {slot}"))
        })
    }

    async fn session(self: &Arc<Self>, node: &Arc<Node>) -> Result<Arc<Session>, Failure> {
        let session = node.door.session(&self.opener, |first| self.opening(node, first)).await;
        let session = session.inspect_err(|failure| self.note(failure))?;
        let home_key = self.home_key(node);
        if session.home_key == home_key || home_key.is_empty() {
            return Ok(session);
        }
        // It has another first slot, and so its marker another place: without one there, nobody would
        // know of this run once the node has failed over.
        let again = self.again_on(node, &session, Again::Greet).await;
        again.inspect_err(|failure| self.note(failure))
    }

    /// The node of a session is not as it was when it was greeted.
    pub(crate) async fn greet_again(&self, session: &Arc<Session>) -> Result<(), Failure> {
        let nodes = lock(&self.map).nodes();
        match nodes.iter().find(|node| node.source == session.link.source) {
            Some(node) => self.again_on(node, session, Again::Greet).await.map(|_| ()),
            None => Ok(()),
        }
    }

    fn opening(&self, node: &Arc<Node>, first: bool) -> Opening {
        let opener = self.opener.clone();
        let wanted = Wanted {
            address: node.address.clone(),
            source: node.source,
            home_key: self.home_key(node),
            listen: false,
            first,
        };
        Box::pin(async move { opener.session(wanted).await })
    }

    fn home_key(&self, node: &Arc<Node>) -> Vec<u8> {
        let lowest = lock(&self.map).lowest(node);
        node.home_key(&self.opener.config.prefix, lowest)
    }

    async fn again_on(
        &self,
        node: &Arc<Node>,
        session: &Arc<Session>,
        again: Again,
    ) -> Result<Arc<Session>, Failure> {
        let replacing = || -> Opening {
            let (opener, old) = (self.opener.clone(), session.clone());
            let home_key = self.home_key(node);
            Box::pin(async move { opener.rebind(&old, again, home_key).await })
        };
        node.door.replace(&self.opener, session, replacing).await
    }

    /// Runs one command where its key is, however often it is sent on to another node.
    pub(crate) async fn call(
        self: &Arc<Self>,
        key: &[u8],
        errand: &dyn Errand,
        look: Look,
    ) -> Result<(Told, bool), Failure> {
        self.home().await?;
        let mut node = self.owner_of(key)?;
        let (mut asking, mut redirects) = (false, 0);
        let (mut patience, mut pauses) = (Patience::default(), TRY_AGAIN_AFTER.iter());
        loop {
            let session = self.session(&node).await?;
            let way = errand.way(&session);
            let (words, sent_us) = (To { errand, session: &session, way }, Some(local_us()));
            let failure = match look::send(&session, &words, asking, look).await {
                Ok((value, seen)) => {
                    if seen == Seen::Elsewhere {
                        self.refresh();
                    }
                    return Ok((Told { value, session, sent_us }, seen != Seen::Changed));
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
                    Some(pause) => entered(&self.opener.runtime, sleep(*pause)).await,
                    None => return Err(failure),
                },
                _ => match patience.again(failure, || errand.turn(&session, way)) {
                    Ok(Next::Now) => {}
                    Ok(Next::After(again)) => {
                        self.again_on(&node, &session, again).await?;
                    }
                    Err(failure) => {
                        self.note(&failure);
                        return Err(failure);
                    }
                },
            }
        }
    }

    /// A node says that this slot is elsewhere: there may be more that we have wrong.
    fn moved(self: &Arc<Self>, slot: u16, address: &Address) -> Arc<Node> {
        let node = lock(&self.map).give(slot, address);
        self.refresh();
        node
    }

    /// What a failure says about our map.
    pub(crate) fn note(self: &Arc<Self>, failure: &Failure) {
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
    pub(crate) async fn masters(self: &Arc<Self>) -> Result<Vec<Arc<Session>>, Failure> {
        self.home().await?;
        let nodes = lock(&self.map).masters();
        let mut sessions = Vec::with_capacity(nodes.len());
        for node in nodes {
            sessions.push(self.session(&node).await?);
        }
        Ok(sessions)
    }

    pub(crate) fn current(&self) -> Vec<Arc<Session>> {
        let nodes = lock(&self.map).nodes();
        nodes.iter().filter_map(|node| node.door.current()).collect()
    }

    /// The home is up, or is chosen anew.
    async fn home(self: &Arc<Self>) -> Result<(), Failure> {
        let opening = |_| -> Opening {
            let cluster = self.clone();
            Box::pin(async move { cluster.choose_home().await })
        };
        self.home.session(&self.opener, opening).await.map(|_| ())
    }

    async fn choose_home(self: &Arc<Self>) -> Result<Arc<Session>, Failure> {
        let mut nodes = lock(&self.map).masters();
        // One that is connected is there; another may take seconds to be found gone.
        nodes.sort_by_key(|node| node.door.current().is_none());
        let mut last = Failure::Unreachable("no node of the Cluster has any slot".to_owned());
        for node in nodes {
            let found = async {
                let session = self.session(&node).await?;
                session.link.listen(&self.opener).await.map(|()| session)
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
        let busy = |refresh: &Refresh| {
            Arc::strong_count(&refresh.under_way) > 1 || refresh.since.elapsed() < REFRESH_REST
        };
        if refresh.as_ref().is_some_and(busy) || self.opener.is_finished() {
            return;
        }
        let under_way = Arc::new(());
        let (cluster, mark) = (self.clone(), under_way.clone());
        let task = self.opener.spawn(async move {
            if let Err(failure) = cluster.read_map().await {
                tracing::debug!(?failure, "the map of the Cluster could not be read");
            }
            drop(mark);
        });
        *refresh = Some(Refresh { since: Instant::now(), under_way, _task: task });
    }

    /// Asks one node after the other, those first that we are connected to.
    async fn read_map(&self) -> Result<(), Failure> {
        for session in self.current() {
            if let Ok(ranges) = ask_map(&session.link).await {
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
                let link = Link::open(&self.opener, &address, 0, false).await?;
                match refusal(&address, &link.facts, self.opener.placement, true) {
                    Some(broken @ Failure::Broken(_)) => Err(broken),
                    _ => ask_map(&link).await,
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
            let at_home = |home: &Arc<Session>| home.link.source == node.source;
            let session = node.door.clear();
            if home.as_ref().is_some_and(at_home) {
                // What is published may not reach it any more.
                self.home.clear();
                session.iter().for_each(|session| session.link.kill());
            }
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.refresh) = None;
        self.home.close();
        let nodes = lock(&self.map).nodes();
        nodes.iter().for_each(|node| node.door.close());
    }
}

fn announced(addr: &str, by: &Session) -> Result<Address, Failure> {
    let asked = &by.link.address;
    Address::announced(addr, &asked.host).ok_or_else(|| {
        Failure::Broken(format!("{asked} sends us to {addr:?}, which is no address"))
    })
}

async fn ask_map(link: &Link) -> Result<Vec<Range>, Failure> {
    let reply = link.send(cmd("CLUSTER").arg("SLOTS")).await?;
    let ranges = slots::parse(&reply, &link.address.host);
    ranges.filter(|ranges| !ranges.is_empty()).ok_or_else(|| {
        Failure::Unreachable(format!("{} knows of no slots in the Cluster", link.address))
    })
}
