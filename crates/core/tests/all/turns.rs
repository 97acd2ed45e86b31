//! Tokens that are reserved for local turns stay near the clock, so that they increase after the lock was
//! forgotten too.

use taketurns_core::{
    AcquireRequest, Ask, ClientId, Grant, Label, Lock, Now, Owner, Reply, Request, Token, limits,
};

const START_US: u64 = 1_790_000_000_000_000;
/// Long enough for tokens that nobody gives back to be further ahead than a lock is remembered for.
const PAIRS: u64 = 500_000;
const PAIR_US: u64 = 8;

fn at(us: u64) -> Now {
    Now { ms: us / 1_000, wall_us: START_US + us }
}

fn acquire(lock: &mut Lock, now: Now, owner: Owner, tokens: u32) -> Grant {
    let request = Request::Acquire(AcquireRequest {
        owner,
        client: ClientId::from_bits(1),
        ask: Ask::Turns { tokens },
        at_least_ms: 0,
        lease_ms: 30_000,
        waiter_lease_ms: None,
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    });
    match lock.apply(now, &request).reply {
        Reply::Granted(grant) => grant,
        other => panic!("it is free: {other:?}"),
    }
}

fn first(grant: &Grant) -> u64 {
    grant.token.expect("a token").raw()
}

fn last(grant: &Grant) -> u64 {
    first(grant) + u64::from(grant.tokens) - 1
}

/// Uncontended pairs, one after the other. Each reserves tokens for many turns and uses one.
fn pairs(says_what_it_used: bool) {
    let mut lock = Lock::new();
    let (mut newest, mut us) = (0, 0);
    for pair in 0..PAIRS {
        us = pair * PAIR_US;
        let owner = Owner::from_bits(u128::from(pair) + 1);
        let grant = acquire(&mut lock, at(us), owner, 10_000);
        assert!(first(&grant) > newest, "G2");
        newest = if says_what_it_used { first(&grant) } else { last(&grant) };
        let last_used = says_what_it_used.then_some(Token::from_raw(newest));
        lock.apply(at(us), &Request::Release { owner, bury_until_ms: 0, last_used });
        assert_eq!(lock.last_token().map(Token::raw), Some(newest));
        assert!(newest <= at(us).wall_us + limits::TOKENS_AHEAD_US, "{newest} after {us} µs");
    }
    // Nobody uses it for so long that it is forgotten.
    us += limits::RETENTION_MS * 1_000;
    assert!(lock.forget_at_ms().is_some_and(|ms| ms <= at(us).ms));
    let grant = acquire(&mut Lock::new(), at(us), Owner::from_bits(1), 1);
    assert!(first(&grant) > newest, "G2 after the lock was forgotten");
}

#[test]
fn reserved_tokens_never_run_ahead_of_the_clock() {
    pairs(false);
}

#[test]
fn tokens_that_were_not_used_go_back_with_the_release() {
    pairs(true);
}
