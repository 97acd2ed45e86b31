//! Work that is done once, and locks that stay taken for a time.

use std::time::Duration;

use taketurns::engine::{
    AcquireRequest, AttemptEnd, Grant, Owner, Refusal, Reply, Request, WakeEvent,
};
use taketurns::{Ask, Completion, Kind, Note, OnceTerms, Token};

use crate::Fixture;
use crate::engine_client::{EngineClient, LEASE_MS, granted, owner};

const TERMS: OnceTerms = OnceTerms { keep_ms: 60_000, offset_ms: None, attempts: 0, pause_ms: 0 };
const WORK: Ask = Ask::Once(TERMS);

fn done(result: &str) -> AttemptEnd {
    AttemptEnd::Done(Note::new(result).expect("a note"))
}

async fn finish(party: &EngineClient, owner: Owner, grant: &Grant, end: AttemptEnd) -> Reply {
    let token = grant.token.expect("a token");
    party.send("l", Request::Finish { owner, token, end, bury_until_ms: 0 }).await
}

fn told(reply: Reply) -> Completion {
    match reply {
        Reply::DoneBefore(done) => *done,
        other => panic!("the work is done: {other:?}"),
    }
}

/// Those who wait, those who ask later, and those who would not wait.
pub async fn everybody_is_told_who_did_the_work(fixture: &dyn Fixture) {
    let [worker, mut waiter, mut other] = EngineClient::several(fixture).await;
    let (works, grant) = worker.hold("l", WORK).await;
    let (waits, _) = waiter.queue("l", WORK).await;
    let (waits_too, _) = other.queue("l", WORK).await;
    assert_eq!(other.try_acquire("l", owner(), WORK).await, Reply::Busy);
    assert_eq!(finish(&worker, works, &grant, done("3 tables")).await, Reply::Released);
    let done = told(other.try_acquire("l", owner(), WORK).await);
    assert_eq!((Some(done.token), done.by.who(), done.failed), (grant.token, "suite", 0));
    assert_eq!((done.result.as_str(), done.until_ms - done.at_ms), ("3 tables", TERMS.keep_ms));
    let event = WakeEvent::DoneBefore(Box::new(done.clone()));
    assert_eq!(waiter.woken().await, (waits, event.clone()));
    assert_eq!(other.woken().await, (waits_too, event));
    assert_eq!(told(worker.acquire("l", owner(), WORK).await), done, "also who did it");
    let view = waiter.view("l").await.expect("it is remembered");
    let work = view.work.expect("work");
    assert_eq!((view.kind, view.waiting, work.failed), (Kind::Once, 0, 0));
    assert_eq!(work.done, Some(done));
    assert!(work.forgotten_in <= Duration::from_millis(TERMS.keep_ms));
}

/// The reply may have been lost. Nobody else can say *done*, and no earlier attempt can.
pub async fn done_is_recorded_once_however_often_it_is_sent(fixture: &dyn Fixture) {
    let [worker, other] = EngineClient::several(fixture).await;
    let (stale, old) = worker.hold("l", WORK).await;
    assert_eq!(finish(&worker, stale, &old, AttemptEnd::Failed).await, Reply::Released);
    let (works, grant) = other.hold("l", WORK).await;
    assert_eq!(finish(&worker, stale, &old, done("stale")).await, Reply::NotHeld);
    assert_eq!(finish(&worker, works, &old, done("stale")).await, Reply::NotHeld);
    assert_eq!(finish(&other, works, &grant, done("new")).await, Reply::Released);
    assert_eq!(finish(&other, works, &grant, done("again")).await, Reply::Released);
    assert_eq!(finish(&other, works, &grant, AttemptEnd::Failed).await, Reply::NotHeld);
    let done = told(worker.acquire("l", owner(), WORK).await);
    assert_eq!((done.result.as_str(), done.failed), ("new", 1));
}

/// After the pause, in order, until the limit.
pub async fn an_attempt_that_failed_is_counted_and_followed_by_a_pause(fixture: &dyn Fixture) {
    let [first, mut second, third] = EngineClient::several(fixture).await;
    let ask = || Ask::Once(OnceTerms { attempts: 2, pause_ms: 1_500, ..TERMS });
    let (fails, grant) = first.hold("l", ask()).await;
    let (waits, _) = second.queue("l", ask()).await;
    finish(&first, fails, &grant, AttemptEnd::Failed).await;
    let Reply::Refreshed { waiting: 1, recheck_ms: Some(recheck_ms), .. } =
        second.refresh("l").await
    else {
        panic!("it still waits, and is told until when");
    };
    assert!(recheck_ms <= second.now_ms().await + 1_500);
    assert_eq!(third.try_acquire("l", owner(), ask()).await, Reply::Busy);
    let work = third.view("l").await.expect("it is remembered").work.expect("work");
    assert!(work.failed == 1 && work.retry_in.is_some() && work.done.is_none(), "{work:?}");
    fixture.pass(Duration::from_millis(1_501)).await;
    second.refresh("l").await;
    let grant = second.woken_with_grant(waits).await;
    let exhausted = Reply::Refused(Refusal::Exhausted { failed: 2 });
    finish(&second, waits, &grant, AttemptEnd::Failed).await;
    assert_eq!(third.try_acquire("l", owner(), ask()).await, exhausted);
    assert_eq!(third.acquire("l", owner(), ask()).await, exhausted);
    assert_eq!(third.send("l", Request::Undo).await, Reply::Changed(true));
    granted(third.acquire("l", owner(), ask()).await);
}

/// A lost lease is a failure, and a dead waiter is none.
pub async fn an_attempt_counts_if_its_worker_knew_of_it(fixture: &dyn Fixture) {
    let [first, mut second] = EngineClient::several(fixture).await;
    let third = EngineClient::join(fixture).await.brief();
    let (dies, _) = third.hold("l", WORK).await;
    let (waits, _) = second.queue("l", WORK).await;
    fixture.pass(Duration::from_millis(2_001)).await;
    second.refresh("l").await;
    second.woken_with_grant(waits).await;
    let failed = async |party: &EngineClient| {
        party.view("l").await.and_then(|view| view.work).map_or(0, |work| work.failed)
    };
    assert_eq!(failed(&first).await, 1, "its lease ended");
    assert_eq!(third.renew("l", dies).await, Reply::NotHeld);
    // A client that is gone before it has answered.
    assert_eq!(second.send("l", Request::ClientGone { client: second.id }).await, Reply::Done);
    assert_eq!(failed(&first).await, 1, "it never began");
    let (leaves, _) = first.hold("l", WORK).await;
    assert_eq!(first.release("l", leaves).await, Reply::Released);
    assert_eq!(failed(&first).await, 2, "it ended without a word");
}

/// For as long as was asked for, and longer than an unused lock; then the work must be done again.
pub async fn what_is_done_is_forgotten_when_its_time_is_over(fixture: &dyn Fixture) {
    let [worker, other] = EngineClient::several(fixture).await;
    let hours = |hours: u64| Duration::from_secs(3_600 * hours);
    let keep_ms = if fixture.can_skip_hours() { 5 * 3_600_000 } else { 1_000 };
    let ask = Ask::Once(OnceTerms { keep_ms, ..TERMS });
    let (works, grant) = worker.hold("l", ask.clone()).await;
    finish(&worker, works, &grant, done("")).await;
    if fixture.can_skip_hours() {
        fixture.pass(hours(3)).await;
        // A step that looks after what may be forgotten.
        other.hold("m", Ask::Mutex).await;
        told(other.acquire("l", owner(), ask.clone()).await);
        fixture.pass(hours(2)).await;
    } else {
        fixture.pass(Duration::from_millis(keep_ms + 1)).await;
    }
    let again = granted(other.acquire("l", owner(), ask).await);
    assert!(again.token > grant.token, "tokens still grow");
}

/// Undone, it must be done again: with a larger token, and a late *done* changes nothing.
pub async fn work_that_is_undone_is_to_be_done_again(fixture: &dyn Fixture) {
    let [worker, other] = EngineClient::several(fixture).await;
    assert_eq!(other.send("l", Request::Undo).await, Reply::Changed(false));
    let (works, grant) = worker.hold("l", WORK).await;
    finish(&worker, works, &grant, done("")).await;
    assert_eq!(other.send("l", Request::Undo).await, Reply::Changed(true));
    assert_eq!(finish(&worker, works, &grant, done("late")).await, Reply::NotHeld);
    let again = granted(other.acquire("l", owner(), WORK).await);
    assert!(again.token > grant.token.map(|token| Token::from_raw(token.raw() + 1)));
    assert_eq!(other.send("l", Request::Undo).await, Reply::Changed(false), "nothing yet");
}

/// While something is remembered the lock is no mutex, and no once has other terms.
pub async fn a_once_is_no_other_lock(fixture: &dyn Fixture) {
    let [worker, other] = EngineClient::several(fixture).await;
    let (works, grant) = worker.hold("l", WORK).await;
    let mismatch = |kind| Reply::Refused(Refusal::KindMismatch(kind));
    assert_eq!(other.acquire("l", owner(), Ask::Mutex).await, mismatch(Kind::Once));
    finish(&worker, works, &grant, done("")).await;
    assert_eq!(other.acquire("l", owner(), Ask::Mutex).await, mismatch(Kind::Once));
    let (holds, grant) = other.hold("m", Ask::Mutex).await;
    assert_eq!(other.acquire("m", owner(), WORK).await, mismatch(Kind::Mutex));
    assert_eq!(other.send("m", Request::Undo).await, mismatch(Kind::Mutex));
    let token = grant.token.expect("a token");
    let finish = Request::Finish { owner: holds, token, end: done(""), bury_until_ms: 0 };
    assert_eq!(other.send("m", finish).await, mismatch(Kind::Mutex));
    for terms in [
        OnceTerms { keep_ms: 999, ..TERMS },
        OnceTerms { offset_ms: Some(TERMS.keep_ms), ..TERMS },
        OnceTerms { pause_ms: 86_400_001, ..TERMS },
    ] {
        let reply = other.acquire("n", owner(), Ask::Once(terms)).await;
        assert_eq!(reply, Reply::Refused(Refusal::InvalidTerms), "{terms:?}");
    }
}

/// Whatever its holder does; and it can't come back.
pub async fn a_lock_stays_taken_for_at_least_so_long(fixture: &dyn Fixture) {
    let [holder, mut waiter] = EngineClient::several(fixture).await;
    let holds = owner();
    let request = holder.request(holds, Ask::Mutex).await;
    let request = AcquireRequest { at_least_ms: 1_500, lease_ms: LEASE_MS, ..request };
    granted(holder.send("l", Request::Acquire(request.clone())).await);
    let (waits, _) = waiter.queue("l", Ask::Mutex).await;
    assert_eq!(holder.release("l", holds).await, Reply::Released);
    assert_eq!(holder.renew("l", holds).await, Reply::NotHeld);
    let again = holder.send("l", Request::Acquire(request)).await;
    assert_eq!(again, Reply::Refused(Refusal::Cancelled));
    let view = waiter.view("l").await.expect("it is held");
    assert!(view.holders[0].resting && view.holders[0].at_least_left.is_some(), "{view:?}");
    assert_eq!(waiter.try_acquire("l", owner(), Ask::Mutex).await, Reply::Busy);
    fixture.pass(Duration::from_millis(1_501)).await;
    waiter.refresh("l").await;
    waiter.woken_with_grant(waits).await;
    // Also if its lease ends; until it is broken.
    let brief = EngineClient::join(fixture).await.brief();
    let request = brief.request(owner(), Ask::Mutex).await;
    let request = AcquireRequest { at_least_ms: 60_000, lease_ms: 1_000, ..request };
    granted(brief.send("m", Request::Acquire(request)).await);
    fixture.pass(Duration::from_millis(1_001)).await;
    assert_eq!(waiter.try_acquire("m", owner(), Ask::Mutex).await, Reply::Busy);
    let broken = waiter.send("m", Request::Break { token: None, at_once: false }).await;
    assert_eq!(broken, Reply::Broken(1));
    granted(waiter.try_acquire("m", owner(), Ask::Mutex).await);
}
