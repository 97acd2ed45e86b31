use taketurns_core::{AcquireRequest, Ask, ClientId, Label, Owner, Refusal, Reply};

use super::*;

const ANYONE: Requester<'_> = Requester::Anyone { until_ms: 0 };
const CALLER: ClientId = ClientId::of_caller(5);

fn at(ms: u64) -> Now {
    Now { ms, wall_us: ms * 1_000 }
}

fn fresh() -> Box<Record> {
    Record::new(&"run".into(), &"".into())
}

fn ask(owner: u128, client: ClientId, ask: Ask) -> Request {
    Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(owner),
        client,
        ask,
        at_least_ms: 0,
        lease_ms: 60_000,
        waiter_lease_ms: None,
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    })
}

fn release(owner: u128, bury_until_ms: u64) -> Request {
    Request::Release { owner: Owner::from_bits(owner), bury_until_ms, last_used: None }
}

/// A lock, and its copy on a replica.
struct Pair {
    here: Box<Record>,
    there: Box<Record>,
}

impl Pair {
    fn new() -> Self {
        Self { here: fresh(), there: fresh() }
    }

    /// Makes a step here, and repeats it on the replica if needed.
    #[track_caller]
    fn step(&mut self, ms: u64, request: &Request) -> Reply {
        self.step_by(ms, ANYONE, request)
    }

    #[track_caller]
    fn step_by(&mut self, ms: u64, by: Requester<'_>, request: &Request) -> Reply {
        let mut bytes = None;
        let step = self.here.step(at(ms), by, request, |entry| {
            entry.with_bytes(|entry| bytes = Some(entry.to_vec()));
        });
        self.repeat(bytes);
        step.reply
    }

    #[track_caller]
    fn admit(&mut self, ms: u64, token: u64) {
        let mut bytes = None;
        let admitted = self.here.admit(at(ms), token, |entry| {
            entry.with_bytes(|entry| bytes = Some(entry.to_vec()));
        });
        assert_eq!(admitted, Ok(()));
        self.repeat(bytes);
    }

    #[track_caller]
    fn repeat(&mut self, bytes: Option<Vec<u8>>) {
        if let Some(bytes) = bytes {
            self.there.repeat(&Entry::from_bytes(&bytes).expect("an entry"));
        }
        let same = self.here.to_digest() == self.there.to_digest();
        assert!(same, "{:#?}\n{:#?}", self.here, self.there);
    }
}

#[test]
fn what_is_not_repeated_elsewhere_leaves_no_trace_here() {
    let (mut pair, bound) = (Pair::new(), ClientId::of_connection(7, true));
    assert!(matches!(pair.step(1_000, &ask(1, CALLER, Ask::Mutex)), Reply::Granted(_)));
    assert_eq!(pair.step(1_001, &ask(2, bound, Ask::Mutex)), Reply::Busy);
    assert_eq!(pair.step(1_002, &release(1, 0)), Reply::Released);
    // Long after: the key's expiry would be later if anything had changed.
    assert_eq!(pair.step(2 * SLACK_MS, &release(1, 0)), Reply::NotHeld);
    assert!(matches!(pair.step(3 * SLACK_MS, &ask(3, CALLER, Ask::Mutex)), Reply::Granted(_)));
    assert_eq!(pair.step(3 * SLACK_MS + 1, &ask(4, bound, Ask::Mutex)), Reply::Busy);
}

#[test]
fn to_find_that_no_lease_is_over_is_the_same_everywhere() {
    let mut pair = Pair::new();
    let renew = |owner: u128, lease_ms| {
        let owner = Owner::from_bits(owner);
        Request::Renew { owner, client: CALLER, lease_ms, write_back: None }
    };
    pair.step(1_000, &ask(1, CALLER, Ask::Read));
    pair.step(2_000, &ask(2, CALLER, Ask::Read));
    assert!(matches!(pair.step(3_000, &renew(1, 90_000)), Reply::Renewed(_)));
    // Without the renewal the first lease would be over.
    assert_eq!(pair.step(61_500, &ask(3, CALLER, Ask::Write)), Reply::Busy);
    assert_eq!(pair.step(61_501, &release(3, 0)), Reply::NotHeld);
    // The same for the only holder that is left.
    assert_eq!(pair.step(61_502, &release(2, 0)), Reply::Released);
    assert_eq!(pair.step(62_500, &ask(3, CALLER, Ask::Write)), Reply::Busy);
}

#[test]
fn a_quarantine_is_the_same_everywhere() {
    let (mut pair, by) = (Pair::new(), Requester::Anyone { until_ms: 9_000 });
    let refused = Reply::Refused(Refusal::Quarantined { until_ms: 9_000 });
    assert_eq!(pair.step_by(1_000, by, &ask(1, CALLER, Ask::Mutex)), refused, "nothing is kept");
    pair.step(1_001, &ask(1, CALLER, Ask::Mutex));
    assert_eq!(pair.step_by(1_002, by, &ask(2, CALLER, Ask::Mutex)), refused);
    assert_eq!(pair.there.lock.quarantine_until_ms(), 9_000);
}

#[test]
fn every_copy_remembers_a_token_equally_long_after_the_clock_is_set_back() {
    let mut pair = Pair::new();
    pair.step(1_000, &ask(1, CALLER, Ask::Mutex));
    pair.step(1_001, &release(1, 0));
    // Nothing changes but the time.
    assert_eq!(pair.step(3 * SLACK_MS, &release(1, 0)), Reply::NotHeld);
    pair.admit(2_000, 1_000_000);
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
    assert_eq!(admit(&mut record, 9 * hour_ms * 1_000 - 1), Err(AdmitRefusal::Forgotten));
    assert_eq!(admit(&mut record, 11 * hour_ms * 1_000 + 1), Err(AdmitRefusal::NeverGiven));
    assert_eq!(admit(&mut record, now.wall_us), Ok(()));
    assert_eq!(admit(&mut record, now.wall_us), Ok(()));
    let newest = now.wall_us;
    assert_eq!(admit(&mut record, newest - 1), Err(AdmitRefusal::Older { newest }));
    record.step(now, ANYONE, &ask(1, CALLER, Ask::Mutex), |_| ());
    assert_eq!(
        admit(&mut record, newest + 1),
        Err(AdmitRefusal::NeverGiven),
        "the lock knows better"
    );
}

#[test]
fn a_wait_is_remembered_for_a_second_and_not_after_the_clock_was_set_back() {
    let mut record = fresh();
    assert!(!record.is_waited_for(5_000, 0));
    record.note_wait(5_000);
    assert!(record.is_waited_for(6_000, 0));
    assert!(!record.is_waited_for(6_001, 0));
    assert!(!record.is_waited_for(4_000, 0), "an hour could pass until then");
}
