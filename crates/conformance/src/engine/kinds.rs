//! Read-write locks and semaphores, and what kind a lock is.

use taketurns::engine::{Refusal, Reply, Request, WakeEvent};
use taketurns::{Ask, Kind, limits};

use crate::Fixture;
use crate::engine_client::{EngineClient, owner};

/// Readers hold together; once a writer waits, later readers wait behind it.
pub async fn readers_share_and_a_waiting_writer_stops_later_readers(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let (one, _) = party.hold("l", Ask::Read).await;
    let (two, _) = party.hold("l", Ask::Read).await;
    let (writer, _) = party.queue("l", Ask::Write).await;
    let (late, _) = party.queue("l", Ask::Read).await;
    assert_eq!(party.try_acquire("l", owner(), Ask::Read).await, Reply::Busy);
    party.release("l", one).await;
    assert!(party.heard_nothing(), "a writer holds alone");
    party.release("l", two).await;
    party.woken_with_grant(writer).await;
    assert!(party.heard_nothing());
    party.release("l", writer).await;
    party.woken_with_grant(late).await;
}

/// All readers up to the next writer start together.
pub async fn readers_behind_a_writer_are_granted_together(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let (writer, _) = party.hold("l", Ask::Write).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(party.queue("l", Ask::Read).await.0);
    }
    let (next_writer, _) = party.queue("l", Ask::Write).await;
    party.queue("l", Ask::Read).await;
    party.release("l", writer).await;
    for reader in &readers {
        party.woken_with_grant(*reader).await;
    }
    assert!(party.heard_nothing());
    for reader in readers {
        party.release("l", reader).await;
    }
    party.woken_with_grant(next_writer).await;
}

/// One step grants a bounded number and says that there are more; ticks grant the rest.
pub async fn a_crowd_of_readers_is_granted_in_bounded_steps(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let (writer, _) = party.hold("l", Ask::Write).await;
    let crowd = limits::STEP_MAX as usize + 10;
    let mut readers = Vec::new();
    for _ in 0..crowd {
        readers.push(party.queue("l", Ask::Read).await.0);
    }
    let release = Request::Release { owner: writer, bury_until_ms: 0, last_used: None };
    let answer = party.ask("l", release).await;
    for reader in &readers[..limits::STEP_MAX as usize] {
        party.woken_with_grant(*reader).await;
    }
    // An engine that does not say so continues by itself.
    if answer.more {
        assert!(party.heard_nothing());
        assert!(!party.ask("l", Request::Tick).await.more);
    }
    for reader in &readers[limits::STEP_MAX as usize..] {
        party.woken_with_grant(*reader).await;
    }
}

/// Holders never have more permits than the semaphore.
pub async fn permits_add_up_to_what_the_semaphore_has(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let take = |take| Ask::Permits { take, of: 4 };
    let (three, _) = party.hold("l", take(3)).await;
    let (one, _) = party.hold("l", take(1)).await;
    let (two, _) = party.queue("l", take(2)).await;
    party.release("l", one).await;
    assert!(party.heard_nothing(), "one permit is free, and two are wanted");
    party.release("l", three).await;
    party.woken_with_grant(two).await;
    party.hold("l", take(2)).await;
}

/// A large request is not starved by small ones that would fit.
pub async fn a_large_request_at_the_head_holds_up_those_behind(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let take = |take| Ask::Permits { take, of: 4 };
    let (two, _) = party.hold("l", take(2)).await;
    let (large, _) = party.queue("l", take(4)).await;
    let (small, _) = party.queue("l", take(1)).await;
    assert_eq!(party.try_acquire("l", owner(), take(1)).await, Reply::Busy);
    assert!(party.heard_nothing());
    party.release("l", two).await;
    party.woken_with_grant(large).await;
    party.release("l", large).await;
    party.woken_with_grant(small).await;
}

/// More permits let waiters in at once; with fewer, waiters that can never be served are refused.
pub async fn a_semaphore_can_be_resized_in_use(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let take = |take| Ask::Permits { take, of: 2 };
    let (both, _) = party.hold("l", take(2)).await;
    let (waits, _) = party.queue("l", take(2)).await;
    assert_eq!(party.send("l", Request::Resize { permits: 4 }).await, Reply::Changed(true));
    party.woken_with_grant(waits).await;
    assert_eq!(party.send("l", Request::Resize { permits: 4 }).await, Reply::Changed(false));
    let (too_many, _) = party.queue("l", Ask::Permits { take: 3, of: 4 }).await;
    party.send("l", Request::Resize { permits: 1 }).await;
    party.release("l", both).await;
    party.release("l", waits).await;
    let refusal = Refusal::KindMismatch(Kind::Semaphore { permits: 1 });
    assert_eq!(party.woken().await, (too_many, WakeEvent::Refused(refusal)));
}

/// A request for no permits, for more than there are, or for more than any semaphore has.
pub async fn permits_that_no_semaphore_can_give_are_refused(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    for (take, of) in [(0, 4), (5, 4), (0, 0), (1, limits::PERMITS_MAX + 1)] {
        let reply = party.acquire("l", owner(), Ask::Permits { take, of }).await;
        assert_eq!(reply, Reply::Refused(Refusal::InvalidPermits), "{take}/{of}");
    }
    for permits in [0, limits::PERMITS_MAX + 1] {
        let reply = party.send("l", Request::Resize { permits }).await;
        assert_eq!(reply, Reply::Refused(Refusal::InvalidPermits));
    }
}

/// While a lock has holders or waiters, it can't be used as another kind.
pub async fn the_kind_is_fixed_while_the_lock_is_in_use(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    party.hold("l", Ask::Permits { take: 1, of: 4 }).await;
    let refused = Reply::Refused(Refusal::KindMismatch(Kind::Semaphore { permits: 4 }));
    for ask in [Ask::Mutex, Ask::Read, Ask::Any, Ask::Permits { take: 1, of: 5 }] {
        assert_eq!(party.acquire("l", owner(), ask).await, refused);
    }
    party.hold("mutex", Ask::Mutex).await;
    let member = taketurns::Member::new("m").expect("a valid name");
    let refused = Reply::Refused(Refusal::KindMismatch(Kind::Mutex));
    assert_eq!(party.send("mutex", Request::PoolAdd { member: member.clone() }).await, refused);
    assert_eq!(party.send("mutex", Request::PoolRemove { member }).await, refused);
    assert_eq!(party.send("mutex", Request::Resize { permits: 2 }).await, refused);
}

/// An idle lock may become any kind, and its tokens continue.
pub async fn an_idle_lock_may_take_another_kind_and_keeps_its_token(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let mut last = None;
    for ask in [Ask::Mutex, Ask::Read, Ask::Permits { take: 1, of: 2 }, Ask::Mutex] {
        let (owns, grant) = party.hold("l", ask).await;
        assert!(grant.token > last);
        last = grant.token;
        party.release("l", owns).await;
    }
}
