//! The servers as the engine sees them: ask for a key, and get an answer from whoever has it.
//!
//! ```text
//!   call(key, errand) ─► session ─► send ─► answer, and by which session
//!                           ▲         │ NOSCRIPT: load   TTVERIFY: greet   WRONGTYPE: another way
//!                           └─────────┘ none was carried out
//! ```
//!
//! What may have been carried out is never sent again here: the caller is told so.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::check::Placement;
use super::cluster::Cluster;
use super::errand::{Errand, To, Way};
use super::failure::Failure;
use super::line::Task;
use super::look::Look;
use super::opener::{Hear, Opener};
use super::pops::Pops;
use super::sentinel::Sentinels;
use super::session::{Again, Greet, Next, Patience, Session};
use super::solo::{Finder, Solo};
use super::url::{Config, Servers};
use crate::clock::local_us;
use crate::engine::{EngineError, Origin, Wakes};
use crate::runtime::entered;
use crate::sync::lock;

/// Tasks that were told to end do so at their next turn.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// An answer, and by which session.
pub(crate) struct Told {
    pub(crate) value: Value,
    pub(crate) session: Arc<Session>,
    /// When it was asked for on that session, if anybody has looked. Else no sooner than the net was called.
    pub(crate) sent_us: Option<u64>,
}

type Answered = Result<Told, Failure>;

pub(crate) struct Net {
    topology: Topology,
    opener: Arc<Opener>,
    idle: Mutex<Option<mpsc::Receiver<()>>>,
}

enum Topology {
    Solo(Arc<Solo>),
    Cluster(Arc<Cluster>),
}

impl Net {
    /// Connects. To be called on the runtime that is to drive the connections.
    pub(crate) async fn open(
        config: Arc<Config>,
        channels: Vec<String>,
        hear: Hear,
        wakes: Wakes,
        greet: Arc<dyn Greet>,
    ) -> Result<Arc<Self>, EngineError> {
        let placement = Placement::of(&config.servers);
        let (opener, idle) = Opener::new(config.clone(), placement, channels, hear, wakes, greet)?;
        let opener = Arc::new(opener);
        let topology = match config.servers.clone() {
            Servers::Cluster(seeds) => {
                Topology::Cluster(Cluster::open(opener.clone(), seeds).await?)
            }
            Servers::One(address) => {
                Topology::Solo(Solo::new(opener.clone(), Finder::Fixed(address)))
            }
            Servers::Sentinel { sentinels, master, credentials } => {
                let sentinels = Arc::new(Sentinels::new(sentinels, master, credentials));
                Topology::Solo(Solo::new(opener.clone(), Finder::Sentinels(sentinels)))
            }
        };
        let net = Self { topology, opener, idle: Mutex::new(Some(idle)) };
        if let Topology::Solo(solo) = &net.topology {
            solo.session().await?;
        }
        Ok(Arc::new(net))
    }

    /// Is there one server at a time?
    pub(crate) fn has_one_server(&self) -> bool {
        matches!(self.topology, Topology::Solo(_))
    }

    /// Which server serves the key, as far as we know: a small number that stays the same. 0 on a
    /// single server and for Sentinel's master.
    pub(crate) fn source(&self, key: &[u8]) -> u64 {
        match &self.topology {
            Topology::Solo(_) => 0,
            Topology::Cluster(cluster) => cluster.source(key),
        }
    }

    /// Runs one command on the server of the key. `errand` is asked anew for each try.
    pub(crate) async fn call(&self, key: &[u8], errand: &dyn Errand) -> Result<Told, EngineError> {
        Ok(self.call_once(key, errand).await?)
    }

    /// The same, and whether the server was as it was greeted when the command had been carried out.
    /// Where the scripts see that for themselves, it was.
    pub(crate) async fn call_and_look(
        &self,
        key: &[u8],
        errand: &dyn Errand,
    ) -> Result<(Told, bool), EngineError> {
        match &self.topology {
            Topology::Cluster(cluster) => Ok(cluster.call(key, errand, Look::Behind).await?),
            Topology::Solo(_) => Ok((self.call_once(key, errand).await?, true)),
        }
    }

    async fn call_once(&self, key: &[u8], errand: &dyn Errand) -> Answered {
        let solo = match &self.topology {
            Topology::Cluster(cluster) => {
                let answered = cluster.call(key, errand, Look::No).await;
                return answered.map(|(answered, _)| answered);
            }
            Topology::Solo(solo) => solo,
        };
        let mut patience = Patience::default();
        let (mut session, mut sent_us) = match solo.current() {
            Some(session) => (session, None),
            None => (solo.session().await?, Some(local_us())),
        };
        loop {
            let way = errand.way(&session);
            let sent = session.link.send(&To { errand, session: &session, way }).await;
            let failure = match sent {
                Ok(value) => return Ok(Told { value, session, sent_us }),
                Err(failure) => failure,
            };
            match patience.again(failure, || errand.turn(&session, way)) {
                Ok(Next::Now) => {}
                Ok(Next::After(again)) => session = solo.again(&session, again).await?,
                Err(failure) => {
                    solo.note(&session, &failure);
                    return Err(failure);
                }
            }
            sent_us = Some(local_us());
        }
    }

    /// Runs several, each on the server of its key: one write per server, answers in order.
    pub(crate) async fn call_all(
        &self,
        calls: &[(Vec<u8>, Box<dyn Errand + '_>)],
    ) -> Vec<Result<Told, EngineError>> {
        let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, (key, _)) in calls.iter().enumerate() {
            groups.entry(self.source(key)).or_default().push(index);
        }
        let writes = groups.into_values().map(|group| {
            Box::pin(self.call_group(calls, group)) as Pin<Box<dyn Future<Output = _> + Send>>
        });
        let answered = join_all(writes).await;
        let mut answers: Vec<(usize, Answered)> = answered.into_iter().flatten().collect();
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer.map_err(EngineError::from)).collect()
    }

    /// What was not carried out is sent again. The first sees to what was in the way of it, and the
    /// others follow in one write: there may be a thousand, each with a lease that runs.
    async fn call_group(
        &self,
        calls: &[(Vec<u8>, Box<dyn Errand + '_>)],
        group: Vec<usize>,
    ) -> BTreeMap<usize, Answered> {
        let mut answers = self.send_group(calls, group).await;
        let held_up = |(index, answer): (&usize, &Answered)| match answer {
            Err(Failure::NoScript | Failure::Reverify | Failure::WrongType(_)) => Some(*index),
            _ => None,
        };
        let mut held_up: Vec<usize> = answers.iter().filter_map(held_up).collect();
        if let Some(first) = held_up.first().copied() {
            let (key, errand) = &calls[first];
            let answer = self.call_once(key, &**errand).await;
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
                let (key, errand) = &calls[*index];
                *answer = self.call_once(key, &**errand).await;
            }
        }
        answers
    }

    async fn send_group(
        &self,
        calls: &[(Vec<u8>, Box<dyn Errand + '_>)],
        group: Vec<usize>,
    ) -> BTreeMap<usize, Answered> {
        let Some(first) = group.first() else { return BTreeMap::new() };
        let session = match &self.topology {
            Topology::Solo(solo) => solo.session().await,
            Topology::Cluster(cluster) => cluster.session_for(&calls[*first].0).await,
        };
        let session = match session {
            Ok(session) => session,
            Err(failure) => {
                return group.into_iter().map(|index| (index, Err(failure.clone()))).collect();
            }
        };
        let ways: Vec<Way> = group.iter().map(|index| calls[*index].1.way(&session)).collect();
        let words = group.iter().zip(&ways).map(|(index, way)| {
            let (errand, session) = (&*calls[*index].1, &*session);
            To { errand, session, way: *way }
        });
        let (words, sent_us) = (words.collect::<Vec<_>>(), Some(local_us()));
        let answers = session.link.send_all(&words).await;
        drop(words);
        let answered = group.into_iter().zip(ways).zip(answers).map(|((index, way), answer)| {
            match (&answer, &self.topology) {
                (Err(Failure::WrongType(_)), _) => {
                    calls[index].1.turn(&session, way);
                }
                (Err(failure), Topology::Solo(solo)) => solo.note(&session, failure),
                (Err(failure), Topology::Cluster(cluster)) => cluster.note(failure),
                (Ok(_), _) => {}
            }
            (index, answer.map(|value| Told { value, session: session.clone(), sent_us }))
        });
        answered.collect()
    }

    /// A session with every master; of a single server just the one.
    pub(crate) async fn masters(&self) -> Result<Vec<Arc<Session>>, EngineError> {
        match &self.topology {
            Topology::Solo(solo) => Ok(vec![solo.session().await?]),
            Topology::Cluster(cluster) => Ok(cluster.masters().await?),
        }
    }

    /// A connection that pops from lists, to the one server that there is.
    pub(crate) async fn pops(&self) -> Result<Pops, EngineError> {
        let Topology::Solo(solo) = &self.topology else {
            return Err(EngineError::Unsupported("each list of a Cluster has its node".into()));
        };
        Ok(Pops::open(&self.opener, solo.session().await?).await?)
    }

    /// Has a server greeted again that is not as it was when it was greeted.
    pub(crate) async fn greet_again(&self, session: &Arc<Session>) -> Result<(), EngineError> {
        match &self.topology {
            Topology::Solo(solo) => solo.again(session, Again::Greet).await.map(|_| ())?,
            Topology::Cluster(cluster) => cluster.greet_again(session).await?,
        }
        Ok(())
    }

    /// One command on just this session.
    pub(crate) async fn send(
        &self,
        session: &Session,
        command: &Cmd,
    ) -> Result<Value, EngineError> {
        Ok(session.link.send(command).await?)
    }

    /// Whose time it is on the session that is open now with the run whose id begins like this.
    pub(crate) fn origin_of_run(&self, run_prefix: &str) -> Option<Origin> {
        let sessions = match &self.topology {
            Topology::Solo(solo) => solo.current().into_iter().collect(),
            Topology::Cluster(cluster) => cluster.current(),
        };
        let of_run = |session: &&Arc<Session>| {
            !run_prefix.is_empty() && session.link.facts.run.starts_with(run_prefix)
        };
        sessions.iter().find(of_run).map(|session| session.link.origin())
    }

    /// Runs a task on the client's own runtime, until it is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        self.opener.spawn(task)
    }

    /// Ends all connections and tasks, and waits for that. Calls after it fail.
    pub(crate) async fn close(&self) {
        self.shut();
        let idle = lock(&self.idle).take();
        if let Some(mut idle) = idle {
            let ended = async { timeout(CLOSE_WITHIN, idle.recv()).await };
            let _ = entered(&self.opener.runtime, ended).await;
        }
    }

    fn shut(&self) {
        self.opener.finish();
        match &self.topology {
            Topology::Solo(solo) => solo.close(),
            Topology::Cluster(cluster) => cluster.close(),
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.shut();
    }
}
