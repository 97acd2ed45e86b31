//! Who is next? The one rule, for all kinds of lock.
//!
//! First come, first served. A waiter is granted when it is at the head of its line and fits beside
//! the present holders. A newcomer is granted when it fits and overtakes no waiter. Dead waiters
//! are skipped on the way.
//!
//! The scripts of the Redis engine have the same rule in Lua: `steps.lua` for the head of the line, `acquire.lua` for a
//! newcomer, and each short cut (`*.quick.lua`, `*.alone.lua`) for the case that it decides.

use super::Lock;
use super::once::WorkBar;
use super::queue::PlaceKey;
use crate::{Ask, Kind, Member, Now, Refusal, WakeEvent, limits};

/// What to do with the waiter at the head of the queue.
pub(super) enum HeadAction {
    /// Hand it the lock, or this member of the pool.
    Grant(PlaceKey, Option<Member>),
    /// Its client died.
    Skip(PlaceKey),
    /// It can't have what it waits for any more: the semaphore was made smaller than what it asks for, or the work
    /// was done, or failed too often.
    Refuse(PlaceKey, WakeEvent),
}

/// What a newcomer may take at once.
pub(super) struct FreeSlot {
    pub(super) member: Option<Member>,
}

impl Lock {
    pub(super) fn next(&mut self, now: Now) -> Option<HeadAction> {
        match self.kind {
            Kind::Pool => self.next_for_a_member(now),
            _ => self.next_in_line(now),
        }
    }

    /// Returns what a newcomer may take at once. Call it when nothing is left to hand over. A
    /// newcomer gets a pool's member only after the member was offered and no waiter wanted it, so
    /// nobody is overtaken.
    pub(super) fn free_slot(&self, ask: &Ask) -> Option<FreeSlot> {
        match ask {
            Ask::Any => {
                let member = self.members.free_longest()?.clone();
                Some(FreeSlot { member: Some(member) })
            }
            Ask::Member(member) => {
                self.members.is_free(member).then(|| FreeSlot { member: Some(member.clone()) })
            }
            _ => (self.queue.is_empty() && self.fits(ask)).then_some(FreeSlot { member: None }),
        }
    }

    fn next_in_line(&self, now: Now) -> Option<HeadAction> {
        if self.holders.weight() >= self.kind.capacity() {
            return None;
        }
        let (place, waiter) = self.queue.head(None)?;
        let bar = self.work_bar(now, &waiter.ask);
        if let Some(WorkBar::Done(done)) = bar {
            return Some(HeadAction::Refuse(place, WakeEvent::DoneBefore(done)));
        }
        if !self.queue.is_live(waiter, now) {
            return Some(HeadAction::Skip(place));
        }
        let refuse = |refusal| Some(HeadAction::Refuse(place, WakeEvent::Refused(refusal)));
        if waiter.ask.weight() > self.kind.capacity() {
            return refuse(Refusal::KindMismatch(self.kind));
        }
        match bar {
            Some(WorkBar::Exhausted(failed)) => return refuse(Refusal::Exhausted { failed }),
            Some(WorkBar::Paused | WorkBar::Done(_)) => return None,
            None => {}
        }
        self.fits(&waiter.ask).then_some(HeadAction::Grant(place, None))
    }

    /// Offers each freed member to the first waiter that wants it, by name or as any member.
    fn next_for_a_member(&mut self, now: Now) -> Option<HeadAction> {
        while let Some(member) = self.members.to_offer() {
            let by_name = self.queue.head(Some(member));
            let any = self.queue.head(None);
            match by_name.into_iter().chain(any).min_by_key(|(place, _)| *place) {
                Some((place, waiter)) if self.queue.is_live(waiter, now) => {
                    return Some(HeadAction::Grant(place, Some(member.clone())));
                }
                Some((place, _)) => return Some(HeadAction::Skip(place)),
                None => self.members.not_wanted(),
            }
        }
        // Without members nobody can be granted, but dead waiters must not keep the lock in use.
        let (place, waiter) = self.queue.iter().next().filter(|_| self.members.is_empty())?;
        (!self.queue.is_live(waiter, now)).then_some(HeadAction::Skip(place))
    }

    fn fits(&self, ask: &Ask) -> bool {
        self.holders.weight() + ask.weight() <= self.kind.capacity()
            && self.holders.len() < limits::HOLDERS_MAX
    }
}
