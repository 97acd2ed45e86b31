//! One client of an engine, without the machinery of guards: what it asks is what is sent.

use std::time::{Duration, Instant};

use taketurns::engine::{self, AcquireRequest, Engine, EngineError, Owner, Reply, Request, Wakes};
use taketurns::{Ask, ClientId, Label, Name};
use taketurns_servers::PATIENCE;

pub(crate) struct Party {
    pub(crate) engine: Box<dyn Engine>,
    client: ClientId,
}

/// How an acquire went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Granted,
    /// Nothing is granted for this number of milliseconds.
    Quarantined(u64),
    Queued,
}

impl Party {
    pub(crate) async fn open(url: &str, client: u64) -> Self {
        let client = ClientId::from_bits(client);
        let (wakes, _) = Wakes::channel();
        Self { engine: engine::open(url, client, wakes).await.expect("a server"), client }
    }

    /// Sends it until it is carried out, as a client would.
    pub(crate) async fn ask(&self, lock: &str, request: Request) -> (Reply, u64) {
        let name = Name::new(lock).expect("a name");
        let until = Instant::now() + PATIENCE;
        loop {
            match self.engine.call(&name, request.clone()).await {
                Ok(answer) => return (answer.reply, answer.stamp.map_or(0, |stamp| stamp.now_ms)),
                Err(EngineError::Broken(why)) => panic!("{lock}: {why}"),
                Err(error) if Instant::now() > until => panic!("{lock}: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Asks for a mutex, and takes a place in its queue if need be.
    pub(crate) async fn acquire(&self, lock: &str, owner: u128, lease_ms: u64) -> AttemptResult {
        self.acquire_as(Ask::Mutex, lock, owner, lease_ms).await
    }

    /// The same for another kind of lock.
    pub(crate) async fn acquire_as(
        &self,
        ask: Ask,
        lock: &str,
        owner: u128,
        lease_ms: u64,
    ) -> AttemptResult {
        let request = self.request(ask, owner, lease_ms);
        match self.ask(lock, request).await {
            (Reply::Granted(_), _) => AttemptResult::Granted,
            (Reply::Queued(place), now_ms) => match place.quarantined_until_ms {
                Some(until_ms) => AttemptResult::Quarantined(until_ms - now_ms),
                None => AttemptResult::Queued,
            },
            (other, _) => panic!("{lock}: {other:?}"),
        }
    }

    fn request(&self, ask: Ask, owner: u128, lease_ms: u64) -> Request {
        Request::Acquire(AcquireRequest {
            owner: Owner::from_bits(owner),
            client: self.client,
            ask,
            at_least_ms: 0,
            lease_ms,
            waiter_lease_ms: Some(3_000),
            not_after_ms: u64::MAX,
            ballot: None,
            label: Label::new("party", "").expect("a label"),
        })
    }

    /// Asks just once, and can't know how that went.
    pub(crate) async fn acquire_unheard(&self, ask: Ask, lock: &str, owner: u128, lease_ms: u64) {
        let name = Name::new(lock).expect("a name");
        let answer = self.engine.call(&name, self.request(ask, owner, lease_ms)).await;
        assert!(matches!(answer, Err(EngineError::Unknown(_))), "{answer:?}");
    }

    pub(crate) async fn release(&self, lock: &str, owner: u128) -> Reply {
        let request =
            Request::Release { owner: Owner::from_bits(owner), bury_until_ms: 0, last_used: None };
        self.ask(lock, request).await.0
    }

    /// Holds it once, so that the server has it.
    pub(crate) async fn use_once(&self, lock: &str, owner: u128) {
        assert_eq!(self.acquire(lock, owner, 1_000).await, AttemptResult::Granted);
        assert_eq!(self.release(lock, owner).await, Reply::Released);
    }

    /// Asks again and again until the quarantine is over.
    pub(crate) async fn acquire_after_quarantine(&self, lock: &str, owner: u128, lease_ms: u64) {
        let until = Instant::now() + PATIENCE;
        while self.acquire(lock, owner, lease_ms).await != AttemptResult::Granted {
            assert!(Instant::now() < until, "{lock} is never granted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs a test with the engines' connections on a runtime of their own.
pub(crate) fn on_runtime(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all();
    runtime.build().expect("a runtime").block_on(test);
}

/// Nothing is granted until every lease is over that may have been forgotten at this instant. On a busy machine
/// that may be so by the time of the answer.
#[track_caller]
pub(crate) fn assert_quarantined_since(
    forgotten: Instant,
    max_lease: Duration,
    went: AttemptResult,
) {
    let is_over = || forgotten.elapsed() >= max_lease;
    let is_right = matches!(went, AttemptResult::Quarantined(_))
        || went == AttemptResult::Granted && is_over();
    assert!(is_right, "{went:?} after {:?}", forgotten.elapsed());
}

/// At least so long; a little less, since time goes on between two looks.
#[track_caller]
pub(crate) fn assert_quarantined(went: AttemptResult, about: Duration) {
    let least = about.as_millis() as u64 / 2;
    assert!(
        matches!(went, AttemptResult::Quarantined(left) if left > least),
        "{went:?}, not {about:?}"
    );
}
