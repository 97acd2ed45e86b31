//! Granting and renewing. One step both mints the token and adds the holder.

use super::holders::{Holder, HolderVote};
use super::queue::{PlaceKey, Waiter};
use super::{Lock, StepWork};
use crate::{
    Ask, ClientId, Grant, Member, Now, Owner, Refusal, Reply, Token, Vote, Wake, WakeEvent,
    WriteBack, limits,
};

/// The terms on which a waiter becomes a holder.
pub(super) struct GrantTerms {
    pub(super) member: Option<Member>,
    pub(super) lease_ms: u64,
    /// It waited, and may not know of the grant yet.
    pub(super) handed: bool,
    /// For a ballot: its hint, and its ticket if it has one.
    pub(super) hint: u64,
    pub(super) ticket: Option<u64>,
}

impl Lock {
    /// Hands the lock to a waiter. The waiter may have died since its last refresh, so the grant
    /// lasts only a waiter lease until the waiter answers.
    pub(super) fn hand_over(
        &mut self,
        now: Now,
        key: PlaceKey,
        member: Option<Member>,
        work: &mut StepWork,
    ) {
        let Some((waiter, waiter_lease_ms)) = self.take_place(key) else { return };
        let lease_ms = waiter.lease_ms.min(waiter_lease_ms);
        let Waiter { client, owner, .. } = waiter;
        let terms = GrantTerms { member, lease_ms, handed: true, hint: 0, ticket: Some(key.0) };
        let grant = self.grant(now, waiter, terms);
        work.wakes.push(Wake { client, owner, event: WakeEvent::Granted(grant) });
    }

    fn take_place(&mut self, key: PlaceKey) -> Option<(Waiter, u64)> {
        let Waiter { client, owner, .. } = *self.queue.get(key)?;
        let waiter_lease_ms = self.queue.client(client)?.waiter_lease_ms;
        self.queue.hand_over(client, owner);
        Some((self.queue.remove(key)?, waiter_lease_ms))
    }

    /// Mints the token and adds the holder.
    pub(super) fn grant(&mut self, now: Now, waiter: Waiter, terms: GrantTerms) -> Grant {
        let number = self.mint(now, waiter.ballot.then_some(terms.hint));
        let ask = self.reserve(now, waiter.ask);
        if let Some(member) = &terms.member {
            self.members.hold(member);
        }
        let ticket = terms.ticket.unwrap_or(number);
        let holder = Holder {
            owner: waiter.owner,
            client: waiter.client,
            token: Token::from_raw(number),
            ask,
            member: terms.member,
            at_least_ms: waiter.at_least_ms,
            lease_ms: waiter.lease_ms,
            deadline_ms: now.ms.saturating_add(terms.lease_ms),
            since_ms: now.ms,
            handed: terms.handed,
            revoked: false,
            resting: false,
            vote: waiter.ballot.then_some(HolderVote { number, ticket }),
            label: waiter.label,
        };
        let grant = self.grant_of(&holder);
        self.holders.insert(holder);
        grant
    }

    /// Mints the next token: larger than the last one, and at least the clock. The nodes of a
    /// quorum would never agree on a clock, so they follow the client's `hint`, and use their own
    /// clock only while they know of no token.
    pub(super) fn mint(&mut self, now: Now, hint: Option<u64>) -> u64 {
        let clock = now.wall_us.min(limits::TOKEN_CLOCK_MAX);
        let floor = match hint {
            None => clock,
            Some(hint) if self.last_token == 0 => within_reach(hint, now).max(clock),
            Some(hint) => within_reach(hint, now),
        };
        self.last_token = (self.last_token + 1).max(floor);
        self.last_token
    }

    /// Reserves the tokens after the last one for local turns, if the request asks for them.
    /// Returns the request with the number that was reserved.
    fn reserve(&mut self, now: Now, ask: Ask) -> Ask {
        let tokens = ask.tokens();
        let clock = now.wall_us.min(limits::TOKEN_CLOCK_MAX);
        let room = (clock + limits::TOKENS_AHEAD_US).saturating_sub(self.last_token);
        let more = room.min(tokens.saturating_sub(1).into());
        self.last_token += more;
        ask.with_tokens(more as u32 + 1)
    }

    /// Gives back the unused tokens that were reserved for local turns. Call it while the owner
    /// still holds.
    pub(super) fn unreserve(&mut self, owner: Owner, last_used: Option<Token>) {
        let (Some(holder), Some(last_used)) = (self.holders.get(owner), last_used) else { return };
        if holder.last_token() == self.last_token && holder.has_token(last_used) {
            self.last_token = last_used.raw();
        }
    }

    /// Returns what the holder is told about its grant.
    pub(super) fn grant_of(&self, holder: &Holder) -> Grant {
        let vote = |HolderVote { number, ticket }: HolderVote| Vote {
            number,
            ticket,
            inquired: self.is_inquired(holder),
        };
        Grant {
            token: Some(holder.token),
            tokens: holder.ask.tokens(),
            wanted: holder.stays() && !self.queue.is_empty(),
            deadline_ms: holder.deadline_ms,
            member: holder.member.clone(),
            vote: holder.vote.map(vote),
        }
    }

    pub(super) fn renew(
        &mut self,
        now: Now,
        owner: Owner,
        client: ClientId,
        lease_ms: u64,
        write_back: Option<WriteBack>,
    ) -> Reply {
        if !limits::is_lease(lease_ms) {
            return Reply::Refused(Refusal::InvalidLease);
        }
        let holder = self.holders.get(owner).filter(|holder| !holder.resting);
        let Some(holder) = holder else { return Reply::NotHeld };
        let number = holder.vote.map(|vote| vote.number);
        if write_back.is_some_and(|write_back| number != Some(write_back.number)) {
            return Reply::NotHeld;
        }
        if holder.revoked {
            return Reply::Revoked;
        }
        let kept_by = holder.client;
        // While it holds, only other holders beside it can get tokens. So the last token is its own
        // or one of theirs.
        let agreed = write_back.map_or(0, |write_back| write_back.token.min(limits::AGREED_MAX));
        self.last_token = self.last_token.max(agreed);
        // Never shorter: a delayed renewal must not end what a later one promised.
        self.holders.update(owner, |holder| {
            holder.client = client;
            holder.token = holder.token.max(Token::from_raw(agreed));
            holder.lease_ms = holder.lease_ms.max(lease_ms);
            holder.deadline_ms = holder.deadline_ms.max(now.ms.saturating_add(lease_ms));
            holder.handed = false;
        });
        self.queue.answered(kept_by, owner);
        let renewed = self.holders.get(owner);
        renewed.map_or(Reply::NotHeld, |holder| Reply::Renewed(self.grant_of(holder)))
    }
}

/// Limits a hint to what is not too far ahead of the node's own clock.
pub(super) fn within_reach(hint: u64, now: Now) -> u64 {
    let clock = now.wall_us.min(limits::TOKEN_CLOCK_MAX);
    hint.min(clock.saturating_add(limits::HINT_AHEAD_US))
}
