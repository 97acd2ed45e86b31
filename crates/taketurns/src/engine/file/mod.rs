//! The engine in a file: SQLite, shared by all processes of one machine.
//!
//! ```text
//!   this process                                another process
//!   ┌──────────────┐  BEGIN IMMEDIATE … COMMIT  ┌──────────────┐
//!   │ caller, or   ├────────► locks.db ◄────────┤ caller, or   │
//!   │ store thread │                            │ store thread │
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
//! A step runs on the caller's thread if the store is free: if this process has no step under way or queued, and no
//! other process writes. Else the store's thread does it, and waits as long as it takes. What syncs a file, and what
//! nobody waits for (renewals, the release of a dropped guard), always goes to that thread.
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
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use taketurns_core::{ClientId, Name, Pattern, Request, View, limits};
use tokio::sync::oneshot;

use super::{
    Answer, AnswerFuture, Clock, Durability, Engine, EngineError, EngineFuture, Guarantees, Open,
    Stamp, Wakes,
};
pub(crate) use exam::examine;
use store::{CommittedStep, FileStore};

use crate::clock::local_us;

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

type StoreJob = Box<dyn FnOnce(&SharedStore) + Send>;

/// Locks in a SQLite file, as one client sees them.
#[derive(Debug)]
pub struct FileEngine {
    jobs: mpsc::Sender<StoreJob>,
    /// The store's thread owns the store and closes it.
    shared: Weak<SharedStore>,
    /// SQLite's locks belong to a process: a forked child must not use the connection.
    pid: u32,
    /// Wake-ups come over a socket; without one the engine polls.
    has_socket: bool,
    /// Ends the polling, where there is any.
    _alive: Arc<()>,
}

/// The store, and who may use it: its thread, or a caller who finds nobody else there.
struct SharedStore {
    store: Mutex<FileStore>,
    /// How many jobs the thread has not done yet. No caller's step goes past them.
    jobs: AtomicUsize,
    /// Until when no step runs on a caller's thread, by the local clock.
    aside_until_us: AtomicU64,
}

/// A step on a caller's thread that takes longer has met a slow disk.
///
/// In unit tests a busy machine may stop a thread in the middle of a step, and that is no slow disk.
const SLOW_STEP_US: u64 = if cfg!(test) { 3_600_000_000 } else { 10_000 };
/// For so long the callers' threads stay away from a slow disk.
const ASIDE_US: u64 = 1_000_000;

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
            Ok(store) => {
                // The thread must not keep a sender to itself, or it would never end.
                let has_socket = store.has_socket();
                let shared = Arc::new(SharedStore::new(store));
                if has_socket {
                    drop(poll);
                } else {
                    thread::spawn(move || poll.run());
                }
                // Nobody waits for a client that was dropped while it was being opened.
                let _ = opened.send(Ok((has_socket, Arc::downgrade(&shared))));
                inbox.into_iter().for_each(|job| job(&shared));
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        };
        thread::Builder::new().name("taketurns-file".into()).spawn(run).map_err(|error| {
            EngineError::Unreachable(format!("no thread could be started: {error}"))
        })?;
        let (has_socket, shared) =
            opening.await.map_err(|_| EngineError::Broken(ENDED.into()))??;
        Ok(Self { jobs, shared, pid: std::process::id(), has_socket, _alive: alive })
    }

    /// What the store's thread does if somebody still waits for it then. So what waits for a busy database does not
    /// pile up.
    fn job<T, W>(&self, work: W) -> impl Future<Output = Result<T, EngineError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut FileStore) -> Result<T, EngineError> + Send + 'static,
    {
        self.enqueue(work, false)
    }

    /// Begun by the store's thread when it gets there, and not first when it is polled.
    fn enqueue<T, W>(
        &self,
        work: W,
        always: bool,
    ) -> impl Future<Output = Result<T, EngineError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut FileStore) -> Result<T, EngineError> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let job = move |shared: &SharedStore| {
            let result = (always || !done.is_closed()).then(|| shared.work(work));
            // Counted off first, so that the caller finds the store free for its next step.
            shared.jobs.fetch_sub(1, Ordering::Release);
            if let Some(Some(result)) = result {
                let _ = done.send(result);
            }
        };
        let sent = self.send(Box::new(job));
        async move {
            sent?;
            result.await.map_err(|_| EngineError::Unknown(ENDED.into()))?
        }
    }

    fn send(&self, job: StoreJob) -> Result<(), EngineError> {
        if self.pid != std::process::id() {
            return Err(EngineError::Broken(FORKED.into()));
        }
        let shared = self.shared.upgrade().ok_or_else(|| EngineError::Broken(ENDED.into()))?;
        shared.jobs.fetch_add(1, Ordering::AcqRel);
        self.jobs.send(job).map_err(|_| EngineError::Broken(ENDED.into()))
    }

    /// A step on the caller's thread, which waits for nobody. `None` if the store's thread has to do it.
    ///
    /// A caller's thread may be a runtime's, so a step there must be short. It never waits for the store's thread nor for
    /// another process, and it never syncs a file: checkpoints are chores of the thread. It writes some pages to the
    /// page cache, some 20 µs. The kernel may still block such a write, if the disk is much slower than what is
    /// written to it, or if it is a network's. That can't be cut short, but it happens to one step a second at most:
    /// after a slow step all go to the thread for a while.
    fn step_here(
        &self,
        lock: &Name,
        request: &Request,
    ) -> Option<Result<CommittedStep, EngineError>> {
        let shared = self.shared.upgrade().filter(|_| self.pid == std::process::id())?;
        let began_us = local_us();
        if shared.jobs.load(Ordering::Acquire) > 0
            || began_us < shared.aside_until_us.load(Ordering::Relaxed)
        {
            return None;
        }
        // A waker that is called in the step, and calls the engine, finds the store taken as well.
        let mut store = shared.store.try_lock().ok()?;
        let step = store.try_step(lock, request);
        let has_chores = store.has_chores();
        drop(store);
        shared.note_step(began_us, local_us());
        if has_chores {
            drop(self.send(Box::new(SharedStore::do_chores)));
        }
        step
    }
}

impl SharedStore {
    const fn new(store: FileStore) -> Self {
        let store = Mutex::new(store);
        Self { store, jobs: AtomicUsize::new(0), aside_until_us: AtomicU64::new(0) }
    }

    /// A step took this long on a caller's thread.
    fn note_step(&self, began_us: u64, ended_us: u64) {
        if ended_us.saturating_sub(began_us) > SLOW_STEP_US {
            self.aside_until_us.store(ended_us + ASIDE_US, Ordering::Relaxed);
        }
    }

    /// On the store's thread. `None` after a step that panicked: the store is not used any more.
    fn work<T>(&self, work: impl FnOnce(&mut FileStore) -> T) -> Option<T> {
        self.store.lock().ok().map(|mut store| work(&mut store))
    }

    fn do_chores(&self) {
        self.work(|store| {
            if store.has_chores() {
                store.do_chores();
            }
        });
        self.jobs.fetch_sub(1, Ordering::Release);
    }
}

impl std::fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").finish_non_exhaustive()
    }
}

/// It ends before its engine only by a panic.
const ENDED: &str = "the thread of the file engine has ended";
const FORKED: &str =
    "this process was forked after it had opened the store; connect again in the child";

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
            let look =
                move |shared: &SharedStore| shared.work(|store| store.look(&wakes)).unwrap_or(());
            if self.jobs.send(Box::new(look)).is_err() {
                return;
            }
            thread::sleep(POLL);
        }
    }
}

impl Engine for FileEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        match self.step_here(lock, &request) {
            None => self.call_aside(lock, request),
            Some(Ok(step)) if !step.dead.is_empty() => {
                let lock = lock.clone();
                // The step is carried out, so its follow-up runs even if the caller is gone.
                AnswerFuture::later(
                    self.enqueue(move |store| Ok(store.follow_up(&lock, step)), true),
                )
            }
            Some(step) => AnswerFuture::now(step.map(|step| step.answer)),
        }
    }

    fn call_aside(&self, lock: &Name, request: Request) -> AnswerFuture {
        let lock = lock.clone();
        AnswerFuture::later(self.job(move |store| {
            let answer = store.step(&lock, &request);
            if store.has_chores() {
                store.do_chores();
            }
            answer
        }))
    }

    /// Renewals and refreshes: nobody's task waits for them, and the thread that calls has timers to keep.
    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        let calls = calls.into_iter().map(|(lock, request)| self.call_aside(&lock, request));
        Box::pin(join_all(calls.collect::<Vec<_>>()))
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

#[cfg(test)]
mod tests;
