//! The same without clients: request by request, so that nothing else is counted, and what the
//! scripts do inside can be compared command by command.

use std::collections::VecDeque;

use taketurns::engine::{self, AcquireRequest, Engine, Owner, Reply, Request, Wakes};
use taketurns::{Ask, ClientId, Label, Name};
use taketurns_servers::{Flavor, Server, on_both};

use taketurns_core::limits;

use super::{Calls, block_on, calls, stats};

/// The number of steps that are examined one by one.
const COUNTED: u64 = 100;
/// The number of steps that are timed.
const TIMED: u64 = if cfg!(debug_assertions) { 200 } else { 5_000 };
const CLIENT: u64 = 7;
/// Nobody's place or lease ends before the test does. After longer leases there are no short cuts.
const LEASE_MS: u64 = limits::EXPIRY_SLACK_MS / 2;

struct Line {
    engine: Box<dyn Engine>,
    lock: Name,
    /// In the order they came: the first one holds the lock.
    owners: VecDeque<Owner>,
    came: u128,
    /// No request arrives as late as this.
    not_after_ms: u64,
}

impl Line {
    async fn of(server: &Server, waiters: usize) -> Self {
        let (wakes, _) = Wakes::channel();
        let client = ClientId::from_bits(CLIENT);
        let engine = engine::open(&server.url(), client, wakes).await.expect("a server");
        let not_after_ms = engine.ping().await.expect("an answer").now_ms + LEASE_MS;
        let lock = Name::new("l").expect("a name");
        let owners = VecDeque::new();
        let mut line = Self { engine, lock, owners, came: 0, not_after_ms };
        let reply = line.join().await;
        assert!(matches!(reply, Reply::Granted(_)), "{reply:?}");
        for _ in 0..waiters.div_ceil(500) {
            let many = waiters + 1 - line.owners.len();
            let calls = (0..many.min(500)).map(|_| (line.lock.clone(), line.request())).collect();
            for answer in line.engine.call_all(calls).await {
                let reply = answer.expect("an answer").reply;
                assert!(matches!(reply, Reply::Queued(_)), "{reply:?}");
            }
        }
        assert_eq!(line.owners.len(), waiters + 1);
        line
    }

    /// One more who wants the lock.
    fn request(&mut self) -> Request {
        self.came += 1;
        let owner = Owner::from_bits(self.came << 64);
        self.owners.push_back(owner);
        Request::Acquire(AcquireRequest {
            owner,
            client: ClientId::from_bits(CLIENT),
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: LEASE_MS,
            waiter_lease_ms: Some(LEASE_MS),
            not_after_ms: self.not_after_ms,
            ballot: None,
            label: Label::new("costs", "").expect("a label"),
        })
    }

    async fn join(&mut self) -> Reply {
        let request = self.request();
        self.engine.call(&self.lock, request).await.expect("an answer").reply
    }

    /// One comes, and waits.
    async fn come(&mut self) {
        let reply = self.join().await;
        assert!(matches!(reply, Reply::Queued(_)), "{reply:?}");
    }

    /// The first one goes, and the next one holds the lock.
    async fn go(&mut self) {
        let owner = self.owners.pop_front().expect("a holder");
        let release = Request::Release { owner, bury_until_ms: 0, last_used: None };
        let reply = self.engine.call(&self.lock, release).await.expect("an answer").reply;
        assert!(matches!(reply, Reply::Released), "{reply:?}");
    }
}

/// What a hand-over took.
struct Cost {
    /// All acquires together.
    acquires: Calls,
    /// All releases together.
    releases: Calls,
    /// Microseconds of the server's time per script.
    usec: f64,
}

async fn hand_overs(server: &Server, waiters: usize) -> Cost {
    let mut line = Line::of(server, waiters).await;
    line.come().await;
    line.go().await;
    let (mut acquires, mut releases) = (Calls::new(), Calls::new());
    for _ in 0..COUNTED {
        server.reset_stats();
        line.come().await;
        add(&mut acquires, calls(server));
        server.reset_stats();
        line.go().await;
        add(&mut releases, calls(server));
    }
    server.reset_stats();
    for _ in 0..TIMED {
        line.come().await;
        line.go().await;
    }
    let evalsha = stats(server)["evalsha"];
    assert_eq!(evalsha.calls, 2 * TIMED);
    Cost { acquires, releases, usec: evalsha.usec_per_call }
}

fn add(sum: &mut Calls, calls: Calls) {
    for (name, calls) in calls {
        *sum.entry(name).or_default() += calls;
    }
}

on_both! {
    fn a_step_does_the_same_with_1_and_100_and_10_000_waiters(flavor: Flavor) {
        let [one, hundred, ten_thousand] = [1, 100, 10_000].map(|waiters| {
            let server = Server::start(flavor).expect("a server");
            let cost = block_on(hand_overs(&server, waiters));
            println!("{flavor}, {waiters} waiters: {:.1} µs of the server per script", cost.usec);
            println!("  {COUNTED} acquires: {:?}", cost.acquires);
            println!("  {COUNTED} releases: {:?}", cost.releases);
            cost
        });
        println!("{flavor}, 10 000 to 1 waiters: {:.2}", ten_thousand.usec / one.usec);
        assert_eq!(one.releases, ten_thousand.releases);
        assert_eq!(hundred.releases, ten_thousand.releases);
        // Each enqueue checks two places and drops dead ones. It sees a lone place twice, and the last place has none
        // behind it. So it reads less there, and never more.
        let [looks_1, looks_100, looks_10_000] =
            [&one, &hundred, &ten_thousand].map(|cost| cost.acquires["hget"]);
        assert!(looks_1 <= looks_100 && looks_100 <= looks_10_000, "{looks_1} {looks_100}");
        assert!(looks_10_000 <= looks_1 + 3 * COUNTED, "{looks_1} {looks_10_000}");
        let but_looks = |cost: &Cost| {
            let mut calls = cost.acquires.clone();
            calls.remove("hget");
            calls
        };
        assert_eq!(but_looks(&one), but_looks(&ten_thousand));
        assert_eq!(but_looks(&hundred), but_looks(&ten_thousand));
    }
}
