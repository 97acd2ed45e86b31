use taketurns_core::{Acquire, Ask, ClientId, Label, Owner, Reply};

use super::*;

const ANYONE: By<'_> = By::Anyone { until_ms: 0 };
const CALLER: ClientId = ClientId::of_caller(5);

fn at(ms: u64) -> Now {
    Now { ms, wall_us: ms * 1_000 }
}

fn fresh() -> Box<Record> {
    Record::new(&"run".into(), &"".into())
}

fn ask(owner: u128, client: ClientId, ask: Ask) -> Request {
    Request::Acquire(Acquire {
        owner: Owner::from_bits(owner),
        client,
        ask,
        lease_ms: 60_000,
        waiter_lease_ms: None,
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    })
}

fn release(owner: u128, bury_until_ms: u64) -> Request {
    Request::Release { owner: Owner::from_bits(owner), bury_until_ms }
}

/// A lock, and the same on a replica.
struct Pair {
    here: Box<Record>,
    there: Box<Record>,
}

impl Pair {
    fn new() -> Self {
        Self { here: fresh(), there: fresh() }
    }

    /// Makes a step here, and repeats it there if it has to be.
    fn step(&mut self, ms: u64, request: &Request) -> Reply {
        let mut bytes = None;
        let step = self.here.step(at(ms), ANYONE, request, |entry| {
            entry.with_bytes(|entry| bytes = Some(entry.to_vec()));
        });
        if let Some(bytes) = bytes {
            self.there.repeat(&Entry::from_bytes(&bytes).expect("an entry"));
        }
        let same = self.here.to_digest() == self.there.to_digest();
        assert!(same, "after {request:?}\n{:#?}\n{:#?}", self.here, self.there);
        step.reply
    }
}

#[test]
fn what_is_not_repeated_elsewhere_leaves_no_trace_here() {
    let (mut pair, bound) = (Pair::new(), ClientId::of_connection(7, true));
    assert!(matches!(pair.step(1_000, &ask(1, CALLER, Ask::Mutex)), Reply::Granted(_)));
    assert_eq!(pair.step(1_001, &ask(2, bound, Ask::Mutex)), Reply::Busy);
    assert_eq!(pair.step(1_002, &release(1, 0)), Reply::Released);
    // Long after: the key would have to live for longer, had anything changed.
    assert_eq!(pair.step(2 * SLACK_MS, &release(1, 0)), Reply::NotHeld);
    assert!(matches!(pair.step(3 * SLACK_MS, &ask(3, CALLER, Ask::Mutex)), Reply::Granted(_)));
    assert_eq!(pair.step(3 * SLACK_MS + 1, &ask(4, bound, Ask::Mutex)), Reply::Busy);
}

#[test]
fn an_idle_lock_is_of_the_same_kind_everywhere() {
    let mut pair = Pair::new();
    pair.step(1_000, &ask(1, CALLER, Ask::Mutex));
    pair.step(1_001, &release(1, 0));
    assert_eq!(pair.step(1_002, &ask(2, CALLER, Ask::Any)), Reply::Busy);
    assert_eq!(pair.step(1_003, &release(1, 9_000)), Reply::NotHeld);
}

#[test]
fn the_server_is_told_once_when_the_key_ends() {
    let mut record = fresh();
    record.step(at(1_000), ANYONE, &ask(1, CALLER, Ask::Mutex), |_| ());
    let end_ms = 1_000 + 60_000 + limits::RETENTION_MS + SLACK_MS;
    assert_eq!(record.new_end_ms(), Some(Some(end_ms)));
    assert_eq!(record.new_end_ms(), None);
    let bytes = record.to_bytes();
    let mut loaded = Record::from_bytes(&bytes).expect("a lock");
    assert_eq!(loaded.new_end_ms(), None, "it is kept with the key");
    let mut repeated = Record::from_entry(&bytes).expect("a lock");
    assert_eq!(repeated.new_end_ms(), Some(Some(end_ms)));
}

#[test]
fn no_quarantine_is_longer_than_the_longest_lease() {
    let mut record = fresh();
    record.lock.quarantine(u64::MAX);
    assert_eq!(record.quarantine_until_ms(at(5), ANYONE), 5 + limits::LEASE_MS_MAX);
}

#[test]
fn a_token_is_admitted_unless_an_older_one_or_nobody_has_it() {
    let (mut record, hour_ms) = (fresh(), limits::RETENTION_MS);
    let now = at(10 * hour_ms);
    let admit = |record: &mut Record, token| record.admit(now, token, |_| ());
    assert_eq!(admit(&mut record, 9 * hour_ms * 1_000 - 1), Err(Stale::Forgotten));
    assert_eq!(admit(&mut record, 11 * hour_ms * 1_000 + 1), Err(Stale::NeverGiven));
    assert_eq!(admit(&mut record, now.wall_us), Ok(()));
    assert_eq!(admit(&mut record, now.wall_us), Ok(()));
    let newest = now.wall_us;
    assert_eq!(admit(&mut record, newest - 1), Err(Stale::Older { newest }));
    record.step(now, ANYONE, &ask(1, CALLER, Ask::Mutex), |_| ());
    assert_eq!(admit(&mut record, newest + 1), Err(Stale::NeverGiven), "the lock knows better");
}
