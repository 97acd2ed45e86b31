//! Connecting to a fake store that is loading its data: no server, and timing doesn't matter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::ErrorKind;
use crate::engine::{Engine, EngineFuture, MemoryStore};

/// A store that reports `Loading` a given number of times.
#[derive(Clone)]
struct Loads {
    times: u32,
    asked: Arc<AtomicU32>,
    can_retry: bool,
}

impl Loads {
    fn new(times: u32) -> Self {
        Self { times, asked: Arc::default(), can_retry: true }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Open for Loads {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::SeqCst) < self.times {
                return Err(EngineError::Loading("h:1 is still loading its data".to_owned()));
            }
            Ok(Box::new(MemoryStore::named("").engine(client, wakes)) as Box<dyn Engine>)
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        self.can_retry.then(|| Box::new(self.clone()) as Box<dyn Open>)
    }
}

/// Connects, and counts how often the callback was called.
async fn open(store: &Loads, within: Option<Duration>) -> (Result<Locks, Error>, u32) {
    let told = Arc::new(AtomicU32::new(0));
    let count = told.clone();
    let mut connect = Connect::engine(store.clone()).on_loading(move |why| {
        assert_eq!(why, "h:1 is still loading its data");
        count.fetch_add(1, Ordering::SeqCst);
    });
    connect.within = within;
    let opened = connect.open_on(Tokio::current()).await;
    (opened, told.load(Ordering::SeqCst))
}

fn unreachable(opened: Result<Locks, Error>) -> String {
    let error = opened.expect_err("it is still loading");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    error.to_string()
}

/// Waits until a condition is true, while other tasks run.
async fn until(is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.expect("it comes to that");
}

#[tokio::test]
async fn a_store_that_is_loading_is_waited_for() {
    let store = Loads::new(3);
    let (opened, told) = open(&store, None).await;
    let locks = opened.expect("it has loaded");
    assert_eq!((store.asked(), told), (4, 3));
    drop(locks.mutex("a").acquire().await.expect("free"));
}

#[tokio::test]
async fn when_the_time_is_over_the_error_says_what_was_waited_for() {
    let store = Loads::new(u32::MAX);
    let (opened, told) = open(&store, Some(Duration::from_millis(30))).await;
    let why = unreachable(opened);
    assert!(why.ends_with("h:1 is still loading its data; waited 30ms for it"), "{why}");
    assert_eq!(store.asked(), told + 1, "one more attempt when the time is over");
}

#[tokio::test]
async fn without_time_it_fails_at_once() {
    let store = Loads::new(u32::MAX);
    let (opened, told) = open(&store, Some(Duration::ZERO)).await;
    let why = unreachable(opened);
    assert!(why.ends_with("h:1 is still loading its data"), "{why}");
    assert_eq!((store.asked(), told), (1, 0));
}

#[tokio::test]
async fn an_opener_for_one_use_is_used_once() {
    let store = Loads { can_retry: false, ..Loads::new(1) };
    let (opened, told) = open(&store, None).await;
    unreachable(opened);
    assert_eq!((store.asked(), told), (1, 0));
}

#[tokio::test]
async fn who_stops_waiting_leaves_nothing_behind() {
    let store = Loads::new(u32::MAX);
    let kept = Arc::new(());
    let mine = kept.clone();
    let connect = Connect::engine(store.clone()).on_loading(move |_| drop(mine.clone()));
    let opening = tokio::spawn(connect.open_on(Tokio::current()));
    until(|| store.asked() >= 3).await;
    assert_eq!(Arc::strong_count(&kept), 2);
    opening.abort();
    assert!(opening.await.is_err(), "it was waiting");
    assert_eq!(Arc::strong_count(&kept), 1, "nobody is told any more");
    // The attempt in flight ends by itself, and no other follows.
    until(|| Arc::strong_count(&store.asked) == 1).await;
}
