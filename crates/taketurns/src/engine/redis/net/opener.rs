//! What all links of one client have in common, and how a session begins.
//!
//! ```text
//!   Link::open ─► will it do? (check) ─► warnings, once ─► greet ─► Session
//! ```

use std::collections::HashSet;
use std::future::Future;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::check::{Placement, Seen, Warning, refusal, warnings};
use super::dial::Dialer;
use super::failure::Failure;
use super::line::{Died, Task};
use super::link::Link;
use super::replicas::lacking;
use super::session::{Again, Greet, Session};
use super::url::{Address, Config};
use crate::engine::{EngineEvent, Wakes};
use crate::sync::lock;

/// Called with each message on the client's channels; of any other, with its name, a space, and the
/// message. It must not block.
pub(crate) type Hear = Arc<dyn Fn(&[u8]) + Send + Sync>;

pub(crate) struct Opener {
    pub(crate) config: Arc<Config>,
    pub(crate) dialer: Dialer,
    /// The client's own, and where else it listens.
    pub(crate) channels: Vec<String>,
    pub(crate) hear: Hear,
    pub(crate) wakes: Wakes,
    pub(crate) placement: Placement,
    pub(crate) runtime: Handle,
    greet: Arc<dyn Greet>,
    epochs: AtomicU64,
    warned: Mutex<HashSet<(Address, Discriminant<Warning>)>>,
    /// Every task has a clone of it.
    busy: Mutex<Option<mpsc::Sender<()>>>,
}

/// Which session is wanted.
pub(crate) struct Wanted {
    pub(crate) address: Address,
    pub(crate) source: u64,
    pub(crate) home_key: Vec<u8>,
    /// On the client's channels.
    pub(crate) listen: bool,
    /// There has been none of this server yet.
    pub(crate) first: bool,
}

impl Opener {
    /// With what is received from once every task has ended.
    pub(crate) fn new(
        config: Arc<Config>,
        placement: Placement,
        channels: Vec<String>,
        hear: Hear,
        wakes: Wakes,
        greet: Arc<dyn Greet>,
    ) -> Result<(Self, mpsc::Receiver<()>), Failure> {
        let dialer = Dialer::new(config.tls.as_ref(), config.timeouts.connect);
        let dialer = dialer.map_err(Failure::Broken)?;
        let (busy, idle) = mpsc::channel(1);
        let opener = Self {
            config,
            dialer,
            channels,
            hear,
            wakes,
            placement,
            runtime: Handle::current(),
            greet,
            epochs: AtomicU64::new(0),
            warned: Mutex::default(),
            busy: Mutex::new(Some(busy)),
        };
        Ok((opener, idle))
    }

    pub(crate) async fn session(self: &Arc<Self>, wanted: Wanted) -> Result<Arc<Session>, Failure> {
        let link = Link::open(self, &wanted.address, wanted.source, wanted.listen).await?;
        self.judge(&link, wanted.first)?;
        let bound = self.greet.greet(&link, wanted.home_key.clone()).await?;
        let link = Arc::new(link);
        if bound.has_module() && self.config.strict {
            let lacking = lacking(self, &link.facts.replicas).await;
            self.warn(&link, Warning::lacking(&lacking).into_iter().collect())?;
        } else if bound.has_module() {
            self.look_at_replicas(&link);
        }
        Ok(Arc::new(Session { link, bound, home_key: wanted.home_key }))
    }

    /// A link for one look at a server that will do: nothing is listened to, and nobody is warned.
    pub(crate) async fn visit(&self, address: &Address) -> Result<Link, Failure> {
        let link = Link::open(self, address, 0, false).await?;
        let refusal = refusal(&link.address, &link.facts, self.placement, true);
        refusal.map_or(Ok(link), Err)
    }

    /// A session on the same link that knows better.
    pub(crate) async fn rebind(
        self: &Arc<Self>,
        old: &Session,
        again: Again,
        home_key: Vec<u8>,
    ) -> Result<Arc<Session>, Failure> {
        let link = &old.link;
        let bound = match again {
            Again::Load => self.greet.load(link, home_key.clone()).await?,
            Again::Greet => self.greet.greet(link, home_key.clone()).await?,
        };
        if bound.has_module() && !old.bound.has_module() {
            // Never refused: there may be locks held by this very link.
            self.look_at_replicas(link);
        }
        Ok(Arc::new(Session { link: link.clone(), bound, home_key }))
    }

    /// Warns of replicas that lack the module of their master. Nobody waits for it.
    fn look_at_replicas(self: &Arc<Self>, link: &Arc<Link>) {
        if link.facts.replicas.is_empty() {
            return;
        }
        let (opener, of) = (self.clone(), Arc::downgrade(link));
        let replicas = link.facts.replicas.clone();
        link.keep(self.spawn(async move {
            let lacking = lacking(&opener, &replicas).await;
            if let (Some(warning), Some(link)) = (Warning::lacking(&lacking), of.upgrade()) {
                opener.log(&link, warning);
            }
        }));
    }

    fn judge(&self, link: &Link, first: bool) -> Result<(), Failure> {
        if let Some(failure) = refusal(&link.address, &link.facts, self.placement, first) {
            return Err(failure);
        }
        let seen = Seen {
            placement: self.placement,
            resp3: link.resp3,
            local_ms: link.opened_ms,
            lag: link.lag,
        };
        self.warn(link, warnings(&link.facts, seen))
    }

    fn warn(&self, link: &Link, warnings: Vec<Warning>) -> Result<(), Failure> {
        if self.config.strict && !warnings.is_empty() {
            let all: Vec<_> = warnings.iter().map(Warning::to_string).collect();
            let all = all.join("; ");
            return Err(Failure::Broken(format!("{} (strict=true): {all}", link.address)));
        }
        warnings.into_iter().for_each(|warning| self.log(link, warning));
        Ok(())
    }

    /// Once.
    fn log(&self, link: &Link, warning: Warning) {
        let key = (link.address.clone(), discriminant(&warning));
        if lock(&self.warned).insert(key) {
            tracing::warn!(target: "taketurns::redis::setup", server = %link.address, "{warning}");
        }
    }

    pub(crate) fn next_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What a link that dies does: wake-ups may be lost from then on.
    pub(crate) fn died(&self) -> Died {
        let wakes = self.wakes.clone();
        Arc::new(move || wakes.push(EngineEvent::Recheck))
    }

    /// Runs a task on the client's own runtime, until it is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        let busy = lock(&self.busy).clone();
        let handle = self.runtime.spawn(async move {
            task.await;
            drop(busy);
        });
        Task(handle.abort_handle())
    }

    /// From now on nothing new counts as a task to wait for.
    pub(crate) fn finish(&self) {
        *lock(&self.busy) = None;
    }

    pub(crate) fn is_finished(&self) -> bool {
        lock(&self.busy).is_none()
    }
}
