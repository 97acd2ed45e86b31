//! One client of an engine under test, with short names for the requests.

use std::sync::atomic::{AtomicU64, Ordering};

use taketurns::engine::{
    AcquireRequest, Answer, Engine, EngineEvent, Grant, Owner, Place, Reply, Request, WakeEvent,
    Wakes,
};
use taketurns::{Ask, ClientId, Label, Name, View};
use tokio::sync::mpsc;

use crate::{Fixture, PATIENCE};

/// Too long to end during a test, even on a slow machine.
pub(crate) const LEASE_MS: u64 = 30_000;
pub(crate) const WAITER_LEASE_MS: u64 = 10_000;

/// The leases of a [brief](EngineClient::brief) client: short enough to wait for.
pub(crate) const BRIEF_MS: u64 = 2_000;
pub(crate) const BRIEF_WAITER_MS: u64 = 600;

/// A client of the engine.
pub(crate) struct EngineClient {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) id: ClientId,
    lease_ms: u64,
    waiter_lease_ms: u64,
    wakes: Wakes,
    woken: mpsc::UnboundedReceiver<EngineEvent>,
}

/// Returns an owner that no other test uses.
pub(crate) fn owner() -> Owner {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Owner::from_bits(u128::from(std::process::id()) << 64 | u128::from(number))
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).expect("a valid name")
}

impl EngineClient {
    pub(crate) async fn join(fixture: &dyn Fixture) -> Self {
        let id = ClientId::from_bits(owner().expose() as u64 ^ u64::from(std::process::id()) << 32);
        let (wakes, woken) = Wakes::channel();
        let engine = fixture.open(id, wakes.clone()).await;
        Self { engine, id, lease_ms: LEASE_MS, waiter_lease_ms: WAITER_LEASE_MS, wakes, woken }
    }

    /// Gives the client leases short enough that the test can wait for their end.
    pub(crate) fn brief(self) -> Self {
        Self { lease_ms: BRIEF_MS, waiter_lease_ms: BRIEF_WAITER_MS, ..self }
    }

    pub(crate) async fn several<const N: usize>(fixture: &dyn Fixture) -> [Self; N] {
        let mut parties = Vec::new();
        for _ in 0..N {
            parties.push(Self::join(fixture).await);
        }
        parties.try_into().unwrap_or_else(|_| unreachable!("as many as were joined"))
    }

    pub(crate) async fn ask(&self, lock: &str, request: Request) -> Answer {
        if let Request::Acquire(AcquireRequest { owner, .. }) | Request::Renew { owner, .. } =
            &request
        {
            self.wakes.register_owner(&name(lock), *owner);
        }
        self.engine.call(&name(lock), request).await.expect("the engine answers")
    }

    pub(crate) async fn send(&self, lock: &str, request: Request) -> Reply {
        self.ask(lock, request).await.reply
    }

    pub(crate) async fn now_ms(&self) -> u64 {
        self.engine.ping().await.expect("the engine answers").now_ms
    }

    /// Builds an acquire with this client's leases that waits if needed.
    pub(crate) async fn request(&self, owner: Owner, ask: Ask) -> AcquireRequest {
        AcquireRequest {
            owner,
            client: self.id,
            ask,
            at_least_ms: 0,
            lease_ms: self.lease_ms,
            waiter_lease_ms: Some(self.waiter_lease_ms),
            not_after_ms: self.now_ms().await + 10_000,
            ballot: None,
            label: Label::new("suite", "").expect("a valid label"),
        }
    }

    pub(crate) async fn acquire(&self, lock: &str, owner: Owner, ask: Ask) -> Reply {
        let request = self.request(owner, ask).await;
        self.send(lock, Request::Acquire(request)).await
    }

    pub(crate) async fn try_acquire(&self, lock: &str, owner: Owner, ask: Ask) -> Reply {
        let request = self.request(owner, ask).await;
        self.send(lock, Request::Acquire(AcquireRequest { waiter_lease_ms: None, ..request })).await
    }

    /// Acquires at once, or the test fails.
    pub(crate) async fn hold(&self, lock: &str, ask: Ask) -> (Owner, Grant) {
        let owner = owner();
        (owner, granted(self.acquire(lock, owner, ask).await))
    }

    /// Waits in the queue, or the test fails.
    pub(crate) async fn queue(&self, lock: &str, ask: Ask) -> (Owner, Place) {
        let owner = owner();
        match self.acquire(lock, owner, ask).await {
            Reply::Queued(place) => (owner, place),
            other => panic!("expected a place in the queue of {lock}, got {other:?}"),
        }
    }

    pub(crate) async fn release(&self, lock: &str, owner: Owner) -> Reply {
        self.send(lock, Request::Release { owner, bury_until_ms: 0, last_used: None }).await
    }

    pub(crate) async fn renew(&self, lock: &str, owner: Owner) -> Reply {
        self.send(
            lock,
            Request::Renew { owner, client: self.id, lease_ms: self.lease_ms, write_back: None },
        )
        .await
    }

    pub(crate) async fn refresh(&self, lock: &str) -> Reply {
        let request = Request::Refresh { client: self.id, waiter_lease_ms: self.waiter_lease_ms };
        self.send(lock, request).await
    }

    /// A store may wait for some steps before it forgets what is idle.
    pub(crate) async fn take_steps_until_a_sweep(&self) {
        for _ in 0..200 {
            self.send("other", Request::Tick).await;
        }
    }

    pub(crate) async fn view(&self, lock: &str) -> Option<View> {
        self.engine.view(&name(lock), 100).await.expect("the engine answers")
    }

    /// Returns the next wake-up.
    pub(crate) async fn woken(&mut self) -> (Owner, WakeEvent) {
        loop {
            let woken = tokio::time::timeout(PATIENCE, self.woken.recv()).await;
            let event = woken.expect("a wake-up comes").expect("the engine lives");
            if let EngineEvent::Wake { wake, .. } = event {
                assert_eq!(wake.client, self.id, "a wake-up went to the wrong client");
                return (wake.owner, wake.event);
            }
        }
    }

    /// Returns the next wake-up, which must be a grant to this owner.
    pub(crate) async fn woken_with_grant(&mut self, expected: Owner) -> Grant {
        match self.woken().await {
            (owner, WakeEvent::Granted(grant)) if owner == expected => grant,
            (_, event) => panic!("expected a grant to another owner, got {event:?}"),
        }
    }

    /// Has nothing been pushed to this client so far?
    pub(crate) fn heard_nothing(&mut self) -> bool {
        self.woken.try_recv().is_err()
    }
}

pub(crate) fn granted(reply: Reply) -> Grant {
    match reply {
        Reply::Granted(grant) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}
