//! One server at a time: the one in the URL, or the one that Sentinels say is the master.

use std::sync::{Arc, Mutex};

use super::door::{Door, Opening};
use super::failure::Failure;
use super::line::Task;
use super::opener::{Opener, Wanted};
use super::sentinel::Sentinels;
use super::session::{Again, Session};
use super::url::Address;
use crate::sync::lock;

/// Where the server is found.
#[derive(Clone)]
pub(crate) enum Finder {
    Fixed(Address),
    Sentinels(Arc<Sentinels>),
}

pub(crate) struct Solo {
    opener: Arc<Opener>,
    finder: Finder,
    door: Door,
    watch: Mutex<Option<Task>>,
}

impl Solo {
    pub(crate) fn new(opener: Arc<Opener>, finder: Finder) -> Arc<Self> {
        let solo =
            Arc::new(Self { opener, finder, door: Door::default(), watch: Mutex::default() });
        if let Finder::Sentinels(sentinels) = &solo.finder {
            let opener = solo.opener.clone();
            let watch = sentinels.clone().watch(opener, Arc::downgrade(&solo));
            *lock(&solo.watch) = Some(solo.opener.spawn(watch));
        }
        solo
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>, Failure> {
        self.door.session(&self.opener, |first| self.opening(first)).await
    }

    fn opening(&self, first: bool) -> Opening {
        let (opener, finder) = (self.opener.clone(), self.finder.clone());
        let home_key = opener.config.marker_key();
        Box::pin(async move {
            let address = match &finder {
                Finder::Fixed(address) => address.clone(),
                Finder::Sentinels(sentinels) => sentinels.find(&opener).await?,
            };
            let wanted = Wanted { address, source: 0, home_key, listen: true, first };
            let session = opener.session(wanted).await;
            if let (Err(_), Finder::Sentinels(sentinels)) = (&session, &finder) {
                // Perhaps it is the Sentinel that is behind the times.
                sentinels.turn();
            }
            session
        })
    }

    pub(crate) async fn again(
        &self,
        session: &Arc<Session>,
        again: Again,
    ) -> Result<Arc<Session>, Failure> {
        let replacing = || -> Opening {
            let (opener, old) = (self.opener.clone(), session.clone());
            Box::pin(async move { opener.rebind(&old, again, old.home_key.clone()).await })
        };
        self.door.replace(&self.opener, session, replacing).await
    }

    /// What a failed request says about the server.
    pub(crate) fn note(&self, session: &Session, failure: &Failure) {
        if failure.wants_master() {
            session.link.kill();
        }
    }

    /// Sentinels say that the master is there.
    pub(crate) fn master_is(&self, address: &Address) {
        if let Some(session) = self.door.current()
            && session.link.address != *address
        {
            tracing::info!(from = %session.link.address, to = %address, "the master has moved");
            session.link.kill();
        }
    }

    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        self.door.current()
    }

    pub(crate) fn close(&self) {
        *lock(&self.watch) = None;
        self.door.close();
    }
}
