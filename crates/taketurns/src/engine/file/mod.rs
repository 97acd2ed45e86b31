//! The engine in a file: SQLite, shared by all processes of one machine.
//!
//! ```text
//!   this process                                another process
//!   ┌──────────────┐  BEGIN IMMEDIATE … COMMIT  ┌──────────────┐
//!   │ store thread ├────────► locks.db ◄────────┤ store thread │
//!   └──────┬───────┘                            └──────┬───────┘
//!          │            after COMMIT: one datagram     │
//!          └──────────────────────────► locks.db-wake/<client>
//!                                               ┌──────┴──────┐
//!                                               │ wake thread │──► Wakes
//!                                               └─────────────┘
//! ```
//!
//! SQLite sends no notifications, so each client binds a datagram socket beside the database. The client that hands the
//! lock over sends a datagram there once the step is committed. A refused datagram proves that the client is dead, and
//! its places with it. A lost datagram costs the time until the waiter's next refresh.
//!
//! A step reads and writes the one row of its lock. The row holds the whole queue. That makes the common case (few or
//! no waiters) two statements; with thousands of waiters the cost grows with the bytes.

mod check;
mod database;
mod exam;
mod rows;
mod store;
mod wake_socket;

use std::path::PathBuf;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

use taketurns_core::{ClientId, Name, Pattern, Request, View, limits};
use tokio::sync::oneshot;

use super::{
    AnswerFuture, Clock, Durability, Engine, EngineError, EngineFuture, Guarantees, Open, Stamp,
    Wakes,
};
pub(crate) use exam::examine;
use store::FileStore;

/// How often a client without a socket looks whether the file has changed.
const POLL: Duration = Duration::from_millis(50);

/// Opens a [`FileEngine`].
pub(crate) struct OpenFile {
    path: PathBuf,
}

impl OpenFile {
    /// What follows `file:` in a URL. `file:///abs` is the same as `file:/abs`; there is no host, and
    /// there are no options.
    pub(crate) fn new(rest: &str) -> Result<Self, crate::Error> {
        let invalid = |why: &str| Err(crate::Error::InvalidUrl(why.to_owned()));
        let path = match rest.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            Some(_) => return invalid("file: takes no host; write file:PATH or file:///PATH"),
            None => rest,
        };
        if path.contains('?') {
            return invalid("file: takes no options, so there can be no ? in it");
        }
        if path.trim_end_matches('/').is_empty() {
            return invalid("file: needs a path, as in file:/var/lib/app/locks.db");
        }
        Ok(Self { path: path.into() })
    }
}

impl Open for OpenFile {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let engine = FileEngine::open(self.path, Clock::System, client, wakes).await?;
            Ok(Box::new(engine) as Box<dyn Engine>)
        })
    }
}

type StoreJob = Box<dyn FnOnce(&mut FileStore) + Send>;

/// Locks in a SQLite file, as one client sees them.
#[derive(Debug)]
pub struct FileEngine {
    jobs: mpsc::Sender<StoreJob>,
    /// Wake-ups come over a socket; without one the engine polls.
    has_socket: bool,
    /// Ends the polling, where there is any.
    _alive: Arc<()>,
}

impl FileEngine {
    /// Opens the file, or creates it if there is none.
    ///
    /// # Errors
    /// [`EngineError::Broken`] if the path can't be a store of ours: it is then left as it was.
    pub async fn open(
        path: PathBuf,
        clock: Clock,
        client: ClientId,
        wakes: Wakes,
    ) -> Result<Self, EngineError> {
        let (jobs, inbox) = mpsc::channel::<StoreJob>();
        let (opened, opening) = oneshot::channel();
        let alive = Arc::new(());
        let poll =
            PollLoop { jobs: jobs.clone(), alive: Arc::downgrade(&alive), wakes: wakes.clone() };
        let run = move || match FileStore::open(&path, clock, client, wakes) {
            Ok(mut store) => {
                // The thread must not keep a sender to itself, or it would never end.
                let has_socket = store.has_socket();
                if has_socket {
                    drop(poll);
                } else {
                    thread::spawn(move || poll.run());
                }
                // Nobody waits for a client that was dropped while it was being opened.
                let _ = opened.send(Ok(has_socket));
                inbox.into_iter().for_each(|job| job(&mut store));
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        };
        thread::Builder::new().name("taketurns-file".into()).spawn(run).map_err(|error| {
            EngineError::Unreachable(format!("no thread could be started: {error}"))
        })?;
        let has_socket = opening.await.map_err(|_| EngineError::Broken(ENDED.into()))??;
        Ok(Self { jobs, has_socket, _alive: alive })
    }

    /// Begun at once, and not first when it is polled.
    fn job<T, W>(&self, work: W) -> impl Future<Output = Result<T, EngineError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut FileStore) -> Result<T, EngineError> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let job = move |store: &mut FileStore| {
            // If nobody waits for it any more it is not started, so that what waits for a busy
            // database does not pile up.
            if !done.is_closed() {
                let _ = done.send(work(store));
            }
        };
        let sent = self.jobs.send(Box::new(job)).map_err(|_| EngineError::Broken(ENDED.into()));
        async move {
            sent?;
            result.await.map_err(|_| EngineError::Unknown(ENDED.into()))?
        }
    }
}

/// It ends before its engine only by a panic.
const ENDED: &str = "the thread of the file engine has ended";

/// Polls the file where there is no socket, until the engine is dropped.
struct PollLoop {
    jobs: mpsc::Sender<StoreJob>,
    alive: Weak<()>,
    wakes: Wakes,
}

impl PollLoop {
    fn run(self) {
        while self.alive.strong_count() > 0 {
            let wakes = self.wakes.clone();
            if self.jobs.send(Box::new(move |store| store.look(&wakes))).is_err() {
                return;
            }
            thread::sleep(POLL);
        }
    }
}

impl Engine for FileEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let lock = lock.clone();
        AnswerFuture::later(self.job(move |store| store.step(&lock, &request)))
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(self.job(|store| Ok(store.stamp())))
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        let lock = lock.clone();
        Box::pin(self.job(move |store| store.view(&lock, waiters_max)))
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        let (pattern, after) = (pattern.clone(), after.cloned());
        Box::pin(self.job(move |store| store.list(&pattern, after.as_ref(), max, waiters_max)))
    }

    fn max_lease(&self) -> Duration {
        Duration::from_millis(limits::LEASE_MS_MAX)
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { event_driven: self.has_socket, ..Guarantees::full(Durability::ProcessExit) }
    }

    /// Waits for what was asked before. The file is closed when the engine is dropped.
    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let _ = self
                .job(|store| {
                    store.close();
                    Ok(())
                })
                .await;
        })
    }
}
