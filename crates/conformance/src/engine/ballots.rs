//! One node's part of a quorum: tokens and tickets that follow those of the candidates, and votes that are settled and
//! given up.

use taketurns::Ask;
use taketurns::engine::{Ballot, Grant, Owner, Place, Reply, Request, Vote, WakeEvent, WriteBack};

use crate::Fixture;
use crate::engine_client::{EngineClient, granted, owner};

/// A ballot without a ticket.
fn hinted(hint: u64) -> Ballot {
    Ballot { hint, ..Ballot::default() }
}

/// A ballot with a ticket that was agreed on.
fn settled(ticket: u64) -> Ballot {
    Ballot { ticket: Some(ticket), ..Ballot::default() }
}

fn token(grant: &Grant) -> u64 {
    grant.token.expect("a token").raw()
}

fn vote(grant: &Grant) -> Vote {
    grant.vote.expect("a vote")
}

impl EngineClient {
    async fn cast(&self, owner: Owner, ballot: Ballot) -> Reply {
        let mut acquire = self.request(owner, Ask::Mutex).await;
        acquire.ballot = Some(ballot);
        self.send("l", Request::Acquire(acquire)).await
    }

    /// Votes at once, or the test fails.
    async fn vote(&self, ballot: Ballot) -> (Owner, Grant) {
        let owner = owner();
        (owner, granted(self.cast(owner, ballot).await))
    }

    /// Waits in line, or the test fails.
    async fn line_up(&self, owner: Owner, ballot: Ballot) -> Place {
        match self.cast(owner, ballot).await {
            Reply::Queued(place) => place,
            other => panic!("expected a place in the queue, got {other:?}"),
        }
    }

    async fn write_back(&self, owner: Owner, number: u64, token: u64) -> Reply {
        let write_back = Some(WriteBack { number, token });
        let (client, lease_ms) = (self.id, crate::engine_client::LEASE_MS);
        self.send("l", Request::Renew { owner, client, lease_ms, write_back }).await
    }
}

/// A lock that knows a token ignores the clock, and follows the hint if that is larger.
pub async fn a_ballots_token_is_its_hint_or_the_next(fixture: &dyn Fixture) {
    let party = EngineClient::join(fixture).await;
    let (owner, first) = party.vote(hinted(0)).await;
    assert_eq!(
        vote(&first),
        Vote { number: token(&first), ticket: token(&first), inquired: false }
    );
    assert!(token(&first) > 1_000_000, "of its own clock, since it knew of none");
    party.release("l", owner).await;
    let hint = token(&first) + 1_000_000;
    let (owner, ahead) = party.vote(hinted(hint)).await;
    assert_eq!(token(&ahead), hint);
    party.release("l", owner).await;
    let (_, next) = party.vote(hinted(hint - 5)).await;
    assert_eq!(token(&next), hint + 1);
}

/// The token that the majority agrees on replaces the node's; the grant keeps its number.
pub async fn a_token_that_is_written_back_leaves_the_number_of_the_grant(fixture: &dyn Fixture) {
    let party = EngineClient::join(fixture).await;
    let (owner, grant) = party.vote(hinted(0)).await;
    let number = token(&grant);
    for (agreed, becomes) in [(number + 500, number + 500), (number, number + 500)] {
        match party.write_back(owner, number, agreed).await {
            Reply::Renewed(renewed) => {
                assert_eq!((token(&renewed), vote(&renewed).number), (becomes, number));
            }
            other => panic!("expected a renewal, got {other:?}"),
        }
    }
    party.release("l", owner).await;
    let (_, next) = party.vote(hinted(0)).await;
    assert_eq!(token(&next), number + 501, "more than was agreed on");
}

/// A renewal that names another grant is told that this one is not held, and changes nothing.
pub async fn a_write_back_to_another_grant_changes_nothing(fixture: &dyn Fixture) {
    let party = EngineClient::join(fixture).await;
    let (owner, grant) = party.vote(hinted(0)).await;
    let number = token(&grant);
    assert_eq!(party.write_back(owner, number + 1, number + 500).await, Reply::NotHeld);
    match party.renew("l", owner).await {
        Reply::Renewed(renewed) => assert_eq!(token(&renewed), number),
        other => panic!("expected a renewal, got {other:?}"),
    }
    party.release("l", owner).await;
    let (plain, _) = party.hold("l", Ask::Mutex).await;
    assert_eq!(party.write_back(plain, number, number).await, Reply::NotHeld, "no vote at all");
}

/// Waiters are served by ticket, whenever they came, and those with equal tickets by owner.
pub async fn tickets_are_served_in_their_order_and_equal_ones_by_owner(fixture: &dyn Fixture) {
    let [holder, mut waiter] = EngineClient::several(fixture).await;
    let (held, grant) = holder.vote(hinted(0)).await;
    let base = token(&grant) + 1_000;
    // Owners are created in ascending order.
    let [low, high, early, late, moved]: [Owner; 5] = std::array::from_fn(|_| owner());
    waiter.line_up(late, settled(base + 20)).await;
    waiter.line_up(moved, settled(base + 1)).await;
    waiter.line_up(high, settled(base + 10)).await;
    waiter.line_up(low, settled(base + 10)).await;
    waiter.line_up(early, settled(base + 5)).await;
    assert_eq!(waiter.line_up(moved, settled(base + 15)).await.number, base + 15);
    assert!(waiter.heard_nothing());
    holder.release("l", held).await;
    for owner in [early, low, high, moved, late] {
        waiter.woken_with_grant(owner).await;
        assert_eq!(waiter.release("l", owner).await, Reply::Released);
    }
}

/// A node accepts the ticket of an owner that it does not know, however low it is.
pub async fn a_settled_ticket_is_taken_as_it_is(fixture: &dyn Fixture) {
    let [holder, waiter] = EngineClient::several(fixture).await;
    let (_, grant) = holder.vote(hinted(0)).await;
    let assigned = waiter.line_up(owner(), hinted(0)).await.number;
    assert!(assigned > token(&grant), "one that the node assigns is more than its last token");
    for ticket in [7, assigned, assigned + 1_000] {
        assert_eq!(waiter.line_up(owner(), settled(ticket)).await.number, ticket);
    }
    let next = waiter.line_up(owner(), hinted(0)).await;
    assert_eq!((next.number, next.front), (assigned + 1_001, 7));
}

/// If a lower ticket waits for a vote, the candidate that has the vote is told at once, and whenever it asks.
pub async fn a_lower_ticket_inquires_about_the_vote(fixture: &dyn Fixture) {
    let [mut holder, waiter] = EngineClient::several(fixture).await;
    let (held, grant) = holder.vote(hinted(0)).await;
    let number = vote(&grant).number;
    waiter.line_up(owner(), settled(number + 1)).await;
    assert!(holder.heard_nothing(), "a higher one waits its turn");
    waiter.line_up(owner(), settled(number - 1)).await;
    assert_eq!(holder.woken().await, (held, WakeEvent::Inquired { number }));
    match holder.write_back(held, number, 0).await {
        Reply::Renewed(renewed) => {
            assert_eq!(vote(&renewed), Vote { number, ticket: number, inquired: true })
        }
        other => panic!("expected a renewal, got {other:?}"),
    }
}

/// A vote that is given up goes to the lowest ticket, and the candidate that gave it up waits at its own ticket.
pub async fn a_vote_given_up_goes_to_the_lower_ticket(fixture: &dyn Fixture) {
    let [mut holder, mut waiter] = EngineClient::several(fixture).await;
    let (held, grant) = holder.vote(hinted(0)).await;
    let number = vote(&grant).number;
    let (lower, higher) = (owner(), owner());
    waiter.line_up(lower, settled(number - 1)).await;
    waiter.line_up(higher, settled(number + 2)).await;
    assert_eq!(holder.woken().await, (held, WakeEvent::Inquired { number }));
    let yields = |number: u64, ticket: u64| Ballot { yields: Some(number), ..settled(ticket) };
    let kept = granted(holder.cast(held, yields(number + 1, number)).await);
    assert_eq!(
        vote(&kept),
        Vote { number, ticket: number, inquired: true },
        "another grant was meant"
    );
    let place = holder.line_up(held, yields(number, number + 1)).await;
    assert_eq!(place.number, number + 1);
    assert!(vote(&waiter.woken_with_grant(lower).await).number > number);
    assert_eq!(holder.write_back(held, number, 0).await, Reply::NotHeld);
    waiter.release("l", lower).await;
    let again = holder.woken_with_grant(held).await;
    assert!(vote(&again).number > number, "another grant");
    holder.release("l", held).await;
    waiter.woken_with_grant(higher).await;
}
