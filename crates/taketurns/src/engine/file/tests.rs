//! Where a step runs: on the caller's thread if the store is free, else on the store's.

use std::sync::mpsc::{Receiver, channel};
use std::task::{Wake, Waker};

use rusqlite::Connection;
use taketurns_core::{AcquireRequest, Ask, Label, Owner, Reply};

use super::*;
use crate::Connect;

/// A store in a folder of its own.
struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    async fn engine(&self, wakes: Wakes) -> Arc<FileEngine> {
        let opened = FileEngine::open(self.path(), Clock::System, ClientId::from_bits(7), wakes);
        Arc::new(opened.await.expect("a store"))
    }

    /// Another process that writes, until this is dropped.
    fn writer(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("it is there");
        connection.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        connection
    }
}

fn acquire(owner: u128) -> Request {
    Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(owner),
        client: ClientId::from_bits(7),
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms: 30_000,
        waiter_lease_ms: Some(30_000),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    })
}

fn release(owner: u128) -> Request {
    Request::Release { owner: Owner::from_bits(owner), bury_until_ms: 0, last_used: None }
}

fn lock(name: &str) -> Name {
    Name::new(name).expect("a name")
}

/// The reply, if it was there when the call returned.
fn at_once(answer: AnswerFuture) -> Option<Reply> {
    match answer {
        AnswerFuture::Now(answer) => Some(answer.expect("one answer").expect("no error").reply),
        AnswerFuture::Later(_) => None,
    }
}

/// Keeps the store's thread from its jobs, but leaves the store free. Ends when this is dropped.
fn occupy(jobs: &mpsc::Sender<StoreJob>) -> mpsc::Sender<()> {
    let (free, is_free) = channel::<()>();
    let (begun, has_begun) = channel();
    let job = move |_: &SharedStore| {
        let _ = begun.send(());
        let _ = is_free.recv();
    };
    jobs.send(Box::new(job)).expect("the thread lives");
    has_begun.recv().expect("the thread lives");
    free
}

#[tokio::test]
async fn a_free_store_has_answered_when_the_call_returns() {
    let scratch = Scratch::new();
    let engine = scratch.engine(Wakes::channel().0).await;
    for _ in 0..3 {
        assert!(matches!(at_once(engine.call(&lock("l"), acquire(1))), Some(Reply::Granted(_))));
        assert_eq!(at_once(engine.call(&lock("l"), release(1))), Some(Reply::Released));
    }
}

#[tokio::test]
async fn while_another_process_writes_the_stores_thread_waits_and_no_caller() {
    let scratch = Scratch::new();
    let engine = scratch.engine(Wakes::channel().0).await;
    let writer = scratch.writer();
    let answer = engine.call(&lock("l"), acquire(1));
    assert!(matches!(answer, AnswerFuture::Later(_)));
    drop(writer);
    assert!(matches!(answer.await.map(|answer| answer.reply), Ok(Reply::Granted(_))));
    let next = at_once(engine.call(&lock("l"), release(1)));
    assert_eq!(next, Some(Reply::Released), "the store is free again");
}

#[tokio::test]
async fn no_step_goes_past_one_that_waits() {
    let scratch = Scratch::new();
    let engine = scratch.engine(Wakes::channel().0).await;
    let busy = occupy(&engine.jobs);
    let first = engine.call_aside(&lock("l"), acquire(1));
    let second = engine.call(&lock("l"), acquire(2));
    assert!(matches!(second, AnswerFuture::Later(_)), "the first has the store's thread");
    drop(busy);
    assert!(matches!(first.await.map(|answer| answer.reply), Ok(Reply::Granted(_))));
    assert!(matches!(second.await.map(|answer| answer.reply), Ok(Reply::Queued(_))));
}

#[tokio::test]
async fn after_a_slow_step_callers_stay_away_for_a_while() {
    let scratch = Scratch::new();
    let engine = scratch.engine(Wakes::channel().0).await;
    let shared = engine.shared.upgrade().expect("the thread lives");
    let now_us = local_us();
    shared.note_step(now_us, now_us + SLOW_STEP_US);
    assert!(at_once(engine.call(&lock("l"), acquire(1))).is_some(), "that was quick enough");
    shared.note_step(now_us, now_us + SLOW_STEP_US + 1);
    let aside = engine.call(&lock("l"), release(1));
    assert!(matches!(aside, AnswerFuture::Later(_)));
    assert_eq!(aside.await.map(|answer| answer.reply), Ok(Reply::Released));
}

#[tokio::test]
async fn a_forked_process_is_refused() {
    let scratch = Scratch::new();
    let engine = scratch.engine(Wakes::channel().0).await;
    let engine = Arc::into_inner(engine).expect("nobody else has it");
    // As a child finds it.
    let engine = FileEngine { pid: engine.pid + 1, ..engine };
    let refused = engine.call(&lock("l"), acquire(1)).await;
    assert_eq!(refused, Err(EngineError::Broken(FORKED.to_owned())));
    assert_eq!(engine.ping().await, Err(EngineError::Broken(FORKED.to_owned())));
}

/// Calls the engine when it is woken, on the thread that wakes.
struct Caller {
    engine: Arc<FileEngine>,
    answers: Mutex<Vec<AnswerFuture>>,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        let answer = self.engine.call(&lock("l"), Request::Tick);
        self.answers.lock().expect("nobody panics").push(answer);
    }
}

#[tokio::test]
async fn a_waker_that_calls_the_engine_in_a_step_does_not_wait_for_that_step() {
    let scratch = Scratch::new();
    let (wakes, mut woken) = Wakes::channel();
    let engine = scratch.engine(wakes).await;
    let caller = Arc::new(Caller { engine: engine.clone(), answers: Mutex::default() });
    let waker = Waker::from(caller.clone());
    assert!(at_once(engine.call(&lock("l"), acquire(1))).is_some());
    assert!(matches!(at_once(engine.call(&lock("l"), acquire(2))), Some(Reply::Queued(_))));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(woken.poll_recv(&mut context).is_pending());
    // The second of this client is woken within the release.
    assert_eq!(at_once(engine.call(&lock("l"), release(1))), Some(Reply::Released));
    let nested = caller.answers.lock().expect("nobody panics").pop().expect("it was woken");
    assert!(matches!(nested, AnswerFuture::Later(_)));
    nested.await.expect("it is carried out after that");
}

/// Opens a store, and lets a test have its jobs.
struct Observed(OpenFile, mpsc::Sender<mpsc::Sender<StoreJob>>);

impl Open for Observed {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let engine = FileEngine::open(self.0.path, Clock::System, client, wakes).await?;
            let _ = self.1.send(engine.jobs.clone());
            Ok(Box::new(engine) as Box<dyn Engine>)
        })
    }
}

#[tokio::test]
async fn a_guard_that_is_dropped_runs_no_step_and_one_that_is_released_does() {
    let scratch = Scratch::new();
    let (told, jobs): (_, Receiver<mpsc::Sender<StoreJob>>) = channel();
    let open = Observed(OpenFile { path: scratch.path() }, told);
    let locks = Connect::engine(open).open().await.expect("a store");
    let jobs = jobs.recv().expect("it was opened");
    let looker = scratch.engine(Wakes::channel().0).await;
    let holders = async |name: &str| {
        looker.view(&lock(name), 0).await.expect("no error").map_or(0, |view| view.holders.len())
    };
    let [dropped, released] = ["dropped", "released"].map(|name| locks.mutex(name).acquire());
    let (dropped, released) = (dropped.await.expect("free"), released.await.expect("free"));

    let busy = occupy(&jobs);
    released.release().await.expect("it needs no other thread");
    assert_eq!(holders("released").await, 0);
    drop(dropped);
    assert_eq!(holders("dropped").await, 1, "its release waits for the store's thread");
    drop(busy);
    // Behind what was dropped.
    let again = locks.mutex("dropped").acquire().await.expect("it was released");
    drop(again);
    locks.close().await;
}

#[tokio::test]
async fn the_journal_stays_short() {
    let scratch = Scratch::new();
    let engine = scratch.engine(Wakes::channel().0).await;
    for owner in 1..3_000 {
        let granted = engine.call(&lock("l"), acquire(owner)).await.expect("no error").reply;
        assert!(matches!(granted, Reply::Granted(_)), "{granted:?}");
        let released = engine.call(&lock("l"), release(owner)).await.expect("no error").reply;
        assert_eq!(released, Reply::Released);
    }
    let journal = std::fs::metadata(scratch.folder.path().join("locks.db-wal")).expect("a journal");
    assert!(journal.len() < 1_500 * 4_096, "{} bytes", journal.len());
}
