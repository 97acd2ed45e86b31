//! Mutexes that a client keeps until another one wants them: the engine says when that is.

use taketurns::Ask;
use taketurns::engine::{Grant, Owner, Reply, Request, WakeEvent};

use crate::Fixture;
use crate::engine_client::{EngineClient, granted, owner};

const STAY: Ask = Ask::Stay { tokens: 1_000 };

fn wanted(grant: &Grant) -> WakeEvent {
    WakeEvent::Wanted { token: grant.token.expect("a token") }
}

fn renewed(reply: Reply) -> Grant {
    match reply {
        Reply::Renewed(grant) => grant,
        other => panic!("it is held: {other:?}"),
    }
}

async fn release(party: &EngineClient, lock: &str, owner: Owner, grant: &Grant) -> Reply {
    party.send(lock, Request::Release { owner, bury_until_ms: 0, last_used: grant.token }).await
}

/// It is pushed once, and repeated by whatever a waiter or the keeper sends.
pub async fn who_keeps_a_lock_is_told_when_somebody_wants_it(fixture: &dyn Fixture) {
    let [mut keeper, mut other, third] = EngineClient::several(fixture).await;
    let (kept, grant) = keeper.hold("l", STAY).await;
    assert_eq!((grant.tokens, grant.wanted), (1_000, false));
    assert!(!renewed(keeper.renew("l", kept).await).wanted);
    let (waits, _) = other.queue("l", Ask::Mutex).await;
    assert_eq!(keeper.woken().await, (kept, wanted(&grant)));
    third.queue("l", STAY).await;
    other.refresh("l").await;
    assert_eq!(keeper.woken().await, (kept, wanted(&grant)), "repeated by a refresh");
    assert!(renewed(keeper.renew("l", kept).await).wanted, "and by the reply to a renewal");
    assert!(granted(keeper.acquire("l", kept, STAY).await).wanted);
    release(&keeper, "l", kept, &grant).await;
    let next = other.woken_with_grant(waits).await;
    assert!(!next.wanted, "it is not kept");
    assert!(next.token > grant.token);
    assert!(keeper.heard_nothing());
}

/// A waiter that will keep the lock learns with the grant that others wait behind it.
pub async fn a_grant_says_that_others_want_the_lock(fixture: &dyn Fixture) {
    let [holder, mut keeper, other] = EngineClient::several(fixture).await;
    let (held, _) = holder.hold("l", Ask::Mutex).await;
    let (kept, _) = keeper.queue("l", STAY).await;
    let (waits, _) = other.queue("l", Ask::Mutex).await;
    holder.release("l", held).await;
    let grant = keeper.woken_with_grant(kept).await;
    assert!(grant.wanted && grant.tokens == 1_000, "{grant:?}");
    assert_eq!(other.release("l", waits).await, Reply::Left);
    assert!(!renewed(keeper.renew("l", kept).await).wanted, "nobody wants it any more");
}

/// Perhaps nobody uses the lock. A lock that is not kept, or that somebody waits for, is busy.
pub async fn who_would_not_wait_is_told_that_the_lock_is_kept(fixture: &dyn Fixture) {
    let [mut keeper, other] = EngineClient::several(fixture).await;
    let (kept, grant) = keeper.hold("l", STAY).await;
    assert_eq!(other.try_acquire("l", owner(), Ask::Mutex).await, Reply::Kept);
    assert_eq!(keeper.woken().await, (kept, wanted(&grant)));
    let view = other.view("l").await.expect("it is held");
    assert_eq!((view.waiting, view.holders.len()), (0, 1), "no place is left");
    assert_eq!(view.holders[0].ask, STAY);
    other.queue("l", Ask::Mutex).await;
    assert_eq!(other.try_acquire("l", owner(), Ask::Mutex).await, Reply::Busy, "somebody waits");
    keeper.hold("m", Ask::Turns { tokens: 9 }).await;
    assert_eq!(other.try_acquire("m", owner(), Ask::Mutex).await, Reply::Busy, "it is not kept");
}

/// What people see is one token; the turn under way may have another.
pub async fn a_break_matches_each_token_of_a_grant(fixture: &dyn Fixture) {
    for ask in [STAY, Ask::Turns { tokens: 1_000 }] {
        let [mut keeper, other] = EngineClient::several(fixture).await;
        let lock = ask.to_string();
        let (kept, grant) = keeper.hold(&lock, ask).await;
        let first = grant.token.expect("a token").raw();
        for (token, broken) in [(first - 1, 0), (first + 1_000, 0), (first + 999, 1)] {
            let token = Some(taketurns::Token::from_raw(token));
            let reply = other.send(&lock, Request::Break { token, at_once: false }).await;
            assert_eq!(reply, Reply::Broken(broken), "{lock}");
        }
        assert_eq!(keeper.woken().await, (kept, WakeEvent::Revoked { token: grant.token }));
        // It passes on at its deadline, whatever the keeper does.
        assert_eq!(other.try_acquire(&lock, owner(), Ask::Mutex).await, Reply::Busy);
        assert!(keeper.heard_nothing());
    }
}
