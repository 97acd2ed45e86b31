//! Leases end, tokens grow, and breaking works.

use std::time::{Duration, Instant};

use taketurns::engine::{Grant, Refusal, Reply, Request, WakeEvent};
use taketurns::{Ask, Token, limits};

use crate::Fixture;
use crate::engine_client::{BRIEF_MS, EngineClient, LEASE_MS, WAITER_LEASE_MS, granted, owner};

/// A hand-over gives the lock for a waiter lease at first, and for a full lease once the new holder
/// renews.
pub async fn a_hand_over_lasts_a_waiter_lease_until_it_is_renewed(fixture: &dyn Fixture) {
    let [holder, mut waiter] = EngineClient::several(fixture).await;
    let (first, _) = holder.hold("l", Ask::Mutex).await;
    let (waits, _) = waiter.queue("l", Ask::Mutex).await;
    let before_ms = holder.now_ms().await;
    holder.release("l", first).await;
    let after_ms = holder.now_ms().await;
    let grant = waiter.woken_with_grant(waits).await;
    let handed = before_ms + WAITER_LEASE_MS..=after_ms + WAITER_LEASE_MS;
    assert!(handed.contains(&grant.deadline_ms), "{grant:?} not in {handed:?}");
    let before_ms = waiter.now_ms().await;
    match waiter.renew("l", waits).await {
        Reply::Renewed(renewed) => {
            assert!(renewed.deadline_ms >= before_ms + LEASE_MS);
            assert_eq!(renewed.token, grant.token);
        }
        other => panic!("expected a renewal, got {other:?}"),
    }
}

/// A lost wake-up costs time, never the lock: the next refresh tells, and counts as a renewal.
pub async fn a_refresh_finds_a_hand_over_whose_wake_up_was_lost(fixture: &dyn Fixture) {
    let [holder, waiter] = EngineClient::several(fixture).await;
    let (first, _) = holder.hold("l", Ask::Mutex).await;
    let (waits, _) = waiter.queue("l", Ask::Mutex).await;
    holder.release("l", first).await;
    let told = async || match waiter.refresh("l").await {
        Reply::Refreshed { waiting: 0, granted, .. } => granted,
        other => panic!("expected a refresh without places, got {other:?}"),
    };
    // It may ask often, since a reply can be lost too; the hold lasts no longer than a hand-over.
    let (one, other) = (told().await, told().await);
    assert_eq!(one, other);
    let [(owner, grant)] = one.try_into().expect("one grant");
    assert_eq!(owner, waits);
    assert!(grant.deadline_ms <= waiter.now_ms().await + WAITER_LEASE_MS);
    assert!(matches!(waiter.renew("l", waits).await, Reply::Renewed(_)));
    assert_eq!(told().await, [], "renewed, so it is known");
}

/// Renewing or releasing an expired lease fails, even if nobody else has come since.
pub async fn a_lease_that_ran_out_is_gone_for_good(fixture: &dyn Fixture) {
    let [holder] = EngineClient::several(fixture).await.map(EngineClient::brief);
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    fixture.pass(Duration::from_millis(BRIEF_MS)).await;
    assert_eq!(holder.renew("l", owner).await, Reply::NotHeld);
    assert_eq!(holder.release("l", owner).await, Reply::NotHeld);
}

/// When the lease of a dead holder ends, the next step of any client passes the lock on.
pub async fn a_dead_holders_lock_passes_on_when_its_lease_ends(fixture: &dyn Fixture) {
    let [dead, mut waiter] = EngineClient::several(fixture).await;
    let dead = dead.brief();
    let (_, grant) = dead.hold("l", Ask::Mutex).await;
    let (waits, place) = waiter.queue("l", Ask::Mutex).await;
    assert_eq!(place.recheck_ms, Some(grant.deadline_ms), "it says when to ask again");
    fixture.pass(Duration::from_millis(BRIEF_MS)).await;
    waiter.refresh("l").await;
    let next = waiter.woken_with_grant(waits).await;
    assert!(next.token > grant.token);
}

/// A holder that renews keeps the lock as long as it likes.
pub async fn a_renewal_moves_the_deadline(fixture: &dyn Fixture) {
    let [holder, other] = EngineClient::several(fixture).await;
    let holder = holder.brief();
    let (owns, _) = holder.hold("l", Ask::Mutex).await;
    for _ in 0..4 {
        fixture.pass(Duration::from_millis(BRIEF_MS / 2)).await;
        assert!(matches!(holder.renew("l", owns).await, Reply::Renewed(_)));
        assert_eq!(other.try_acquire("l", owner(), Ask::Mutex).await, Reply::Busy);
    }
}

/// They increase strictly, over releases, expiry and kinds.
pub async fn tokens_increase_with_every_grant(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let mut last = None;
    for turn in 0..20 {
        let ask = if turn % 2 == 0 { Ask::Mutex } else { Ask::Write };
        let (owns, grant) = party.hold("l", ask).await;
        assert!(grant.token > last, "{:?} after {last:?}", grant.token);
        assert!(grant.token.is_some_and(|token| token.raw() <= limits::TOKEN_MAX));
        last = grant.token;
        party.release("l", owns).await;
    }
}

/// The lock may have been free or handed over. A request that reserves too many tokens, or none, is
/// refused.
pub async fn tokens_reserved_with_a_grant_are_nobody_elses(fixture: &dyn Fixture) {
    let [mut party, other] = EngineClient::several(fixture).await;
    let (owns, grant) = party.hold("l", Ask::Turns { tokens: 10_000 }).await;
    assert_eq!(grant.tokens, 10_000);
    let mut last = last_of(&grant);
    let (waits, _) = party.queue("l", Ask::Turns { tokens: 3 }).await;
    party.release("l", owns).await;
    let grant = party.woken_with_grant(waits).await;
    assert!(raw(&grant) > last && (1..=3).contains(&grant.tokens));
    let again = granted(party.acquire("l", waits, Ask::Turns { tokens: 3 }).await);
    assert_eq!((again.token, again.tokens), (grant.token, grant.tokens), "the same grant");
    match party.renew("l", waits).await {
        Reply::Renewed(renewed) => assert_eq!(renewed.tokens, grant.tokens),
        other => panic!("it is held: {other:?}"),
    }
    last = last_of(&grant);
    party.release("l", waits).await;
    let (_, grant) = other.hold("l", Ask::Mutex).await;
    assert!(raw(&grant) > last && grant.tokens == 1);
    for tokens in [0, 10_001] {
        let reply = party.acquire("m", owner(), Ask::Turns { tokens }).await;
        assert_eq!(reply, Reply::Refused(Refusal::InvalidPermits));
    }
}

fn raw(grant: &Grant) -> u64 {
    grant.token.expect("a token").raw()
}

/// Returns the last token reserved with a grant.
fn last_of(grant: &Grant) -> u64 {
    raw(grant) + u64::from(grant.tokens) - 1
}

/// The token that a release names as the last one used.
type UsedToken = fn(&Grant) -> Option<u64>;
/// The last token that the lock remembers afterwards.
type LastToken = fn(&Grant) -> u64;

/// Only tokens of this grant go back, and only if the release says so.
pub async fn reserved_tokens_that_were_not_used_go_back_with_the_release(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let uses: [(&str, UsedToken, LastToken); 6] = [
        ("none", |_| None, last_of),
        ("the first", |grant| Some(raw(grant)), raw),
        ("some", |grant| Some(raw(grant) + 4), |grant| raw(grant) + 4),
        ("all", |grant| Some(last_of(grant)), last_of),
        ("one before", |grant| Some(raw(grant) - 1), last_of),
        ("one after", |grant| Some(last_of(grant) + 1), last_of),
    ];
    for (says, used, last) in uses {
        for is_awaited in [false, true] {
            let lock = format!("{says}, {is_awaited}");
            let (owns, grant) = party.hold(&lock, Ask::Turns { tokens: 1_000 }).await;
            assert_eq!(grant.tokens, 1_000, "{lock}");
            let waits = match is_awaited {
                true => Some(party.queue(&lock, Ask::Mutex).await.0),
                false => None,
            };
            let last_used = used(&grant).map(Token::from_raw);
            let release = Request::Release { owner: owns, bury_until_ms: 0, last_used };
            assert_eq!(party.send(&lock, release.clone()).await, Reply::Released, "{lock}");
            let remembered = party.view(&lock).await.and_then(|view| view.last_token);
            if let Some(waits) = waits {
                let next = party.woken_with_grant(waits).await;
                assert!(raw(&next) > last(&grant), "{lock}");
                assert_eq!(remembered, next.token, "{lock}");
            } else {
                assert_eq!(remembered.map(Token::raw), Some(last(&grant)), "{lock}");
            }
            assert_eq!(party.send(&lock, release).await, Reply::NotHeld, "{lock}");
        }
    }
}

/// Otherwise a lock that is forgotten after its retention would start over with a smaller token.
pub async fn reserved_tokens_do_not_run_ahead_of_the_clock(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let begun = Instant::now();
    let (owns, grant) = party.hold("l", Ask::Turns { tokens: 10_000 }).await;
    party.release("l", owns).await;
    // The lock had no token before, so the first is the clock.
    let (clock_us, mut last) = (raw(&grant), last_of(&grant));
    for pair in 0..20 {
        let (owns, grant) = party.hold("l", Ask::Turns { tokens: 10_000 }).await;
        let passed_us = begun.elapsed().as_micros() as u64;
        assert!(raw(&grant) > last && grant.tokens >= 1);
        last = last_of(&grant);
        // Each grant has at least one token, even if the clock stands still.
        let most = clock_us + passed_us + limits::TOKENS_AHEAD_US + pair + 1;
        assert!(last <= most, "{} µs ahead", last - clock_us - passed_us);
        party.release("l", owns).await;
    }
}

/// The leases and waiter leases are 0, or more than a day.
pub async fn leases_outside_the_limits_are_refused(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let refused = Reply::Refused(Refusal::InvalidLease);
    for wrong_ms in [0, limits::LEASE_MS_MIN - 1, limits::LEASE_MS_MAX + 1, u64::MAX] {
        let mut request = party.request(owner(), Ask::Mutex).await;
        request.lease_ms = wrong_ms;
        assert_eq!(party.send("l", Request::Acquire(request)).await, refused);
        let mut request = party.request(owner(), Ask::Mutex).await;
        request.waiter_lease_ms = Some(wrong_ms);
        assert_eq!(party.send("l", Request::Acquire(request)).await, refused);
        let (owns, _) = party.hold("held", Ask::Mutex).await;
        let renew =
            Request::Renew { owner: owns, client: party.id, lease_ms: wrong_ms, write_back: None };
        assert_eq!(party.send("held", renew).await, refused);
        assert_eq!(party.release("held", owns).await, Reply::Released);
    }
}

/// A million names used once leave nothing behind.
pub async fn an_idle_lock_is_forgotten_after_its_retention(fixture: &dyn Fixture) {
    if !fixture.can_skip_hours() {
        return;
    }
    let [party] = EngineClient::several(fixture).await;
    let (owns, _) = party.hold("l", Ask::Mutex).await;
    party.release("l", owns).await;
    fixture.pass(Duration::from_millis(limits::RETENTION_MS / 2)).await;
    party.send("other", Request::Tick).await;
    assert!(party.view("l").await.is_some(), "it is remembered for its token");
    // A store may round the time up.
    fixture.pass(Duration::from_millis(limits::RETENTION_MS)).await;
    party.take_steps_until_a_sweep().await;
    assert!(party.view("l").await.is_none());
}

/// The hour counts from the last use.
pub async fn a_lock_used_again_is_remembered_for_longer(fixture: &dyn Fixture) {
    if !fixture.can_skip_hours() {
        return;
    }
    let [party] = EngineClient::several(fixture).await;
    for _ in 0..4 {
        let (owns, grant) = party.hold("l", Ask::Mutex).await;
        party.release("l", owns).await;
        fixture.pass(Duration::from_millis(limits::RETENTION_MS * 2 / 3)).await;
        party.take_steps_until_a_sweep().await;
        let view = party.view("l").await.expect("it is remembered for its token");
        assert_eq!(view.last_token, grant.token);
    }
}

/// Returns the event that this grant's holder gets when its lock is broken.
fn revoked(grant: &Grant) -> WakeEvent {
    WakeEvent::Revoked { token: grant.token }
}

/// After a break the holder can't renew, is told, and keeps the lock until its deadline.
pub async fn a_revoked_holder_keeps_the_lock_until_its_deadline_and_no_longer(
    fixture: &dyn Fixture,
) {
    let [holder, mut waiter] = EngineClient::several(fixture).await;
    let mut holder = holder.brief();
    let (owns, grant) = holder.hold("l", Ask::Mutex).await;
    let (waits, _) = waiter.queue("l", Ask::Mutex).await;
    let revoke = Request::Break { token: None, at_once: false };
    assert_eq!(waiter.send("l", revoke).await, Reply::Broken(1));
    assert_eq!(holder.woken().await, (owns, revoked(&grant)));
    assert_eq!(holder.renew("l", owns).await, Reply::Revoked);
    waiter.refresh("l").await;
    assert!(waiter.heard_nothing(), "nobody overlaps with a revoked holder");
    fixture.pass(Duration::from_millis(BRIEF_MS)).await;
    waiter.refresh("l").await;
    waiter.woken_with_grant(waits).await;
}

/// After an immediate break the holder is gone, and the next one holds with a larger token.
pub async fn a_lock_broken_at_once_passes_on_at_once(fixture: &dyn Fixture) {
    let [mut holder, mut waiter] = EngineClient::several(fixture).await;
    let (owns, grant) = holder.hold("l", Ask::Mutex).await;
    let (waits, _) = waiter.queue("l", Ask::Mutex).await;
    let at_once = Request::Break { token: None, at_once: true };
    assert_eq!(waiter.send("l", at_once.clone()).await, Reply::Broken(1));
    assert!(waiter.woken_with_grant(waits).await.token > grant.token);
    assert_eq!(holder.woken().await, (owns, revoked(&grant)));
    assert_eq!(holder.renew("l", owns).await, Reply::NotHeld);
    assert_eq!(waiter.send("nobody", at_once).await, Reply::Broken(0));
}

/// A break can name one of several holders by its token.
pub async fn breaking_by_token_spares_the_other_holders(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let (one, grant) = party.hold("l", Ask::Read).await;
    let (other, _) = party.hold("l", Ask::Read).await;
    let breaking = Request::Break { token: grant.token, at_once: true };
    assert_eq!(party.send("l", breaking).await, Reply::Broken(1));
    assert_eq!(party.renew("l", one).await, Reply::NotHeld);
    assert!(matches!(party.renew("l", other).await, Reply::Renewed(_)));
    assert_eq!(granted(party.acquire("l", other, Ask::Read).await).member, None);
}
