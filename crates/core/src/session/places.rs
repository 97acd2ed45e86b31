//! The client's places in all queues: taking them, refreshing them, and signalling the acquires that wait. A
//! [`PlaceSet`] knows when to refresh the places in one queue, and when to ask whether the holder's lease has
//! run out.

use std::collections::BTreeSet;

use super::acquire_state::{AcquireState, Offer, Signal};
use super::timers::{DueTime, Timer};
use super::{Anchor, CallFailure, LossCause, Origin, Session, SessionEvent, TimedReply, Transmit};
use crate::{Name, Owner, Place, Reply, Token, WakeEvent};

/// Between two places in the queue that ask again at the holder's deadline, so that they do not all
/// ask at once: the first is the one that matters.
const STAGGER_US: u64 = 5_000;

/// A refresh to be sent: it keeps all places of this client in one lock's queue.
#[derive(Clone, Debug)]
pub struct PlaceRefresh {
    /// Which.
    pub lock: Name,
    asked: Vec<Owner>,
}

impl Session {
    /// The engine gave it a place: from now on it is refreshed.
    pub(super) fn handle_place(
        &mut self,
        now_us: u64,
        owner: Owner,
        place: Place,
        origin: Origin,
        anchor: Anchor,
    ) {
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        acquire.wake_anchor.handle_waiting(origin, anchor);
        let before = acquire.place.replace(place.number);
        let lock = &acquire.spec.terms.lock;
        let ahead = place.number.saturating_sub(place.front);
        let is_first = !self.places.contains_key(lock);
        let queue = self.places.entry(lock.clone());
        let queue = queue.or_insert_with(|| PlaceSet::new(anchor.sent_us, self.waiter_lease_ms));
        let events = &mut self.effects.events;
        if let Some(left_ms) = queue.handle_quarantine(anchor, place.quarantined_until_ms) {
            events.push(SessionEvent::Quarantined { lock: lock.clone(), left_ms });
        }
        queue.put(owner, place.number, before);
        if before.is_some_and(|before| before != place.number) {
            events.push(SessionEvent::Rejoined { lock: lock.clone() });
        }
        if before != Some(place.number) {
            events.push(SessionEvent::Queued { ahead });
        }
        if is_first {
            queue.handle_recheck(now_us, anchor, place.recheck_ms, ahead);
            // What was missed while the answer was under way is not in it.
            if self.doubted_us.is_some_and(|doubted_us| doubted_us >= anchor.sent_us) {
                queue.handle_doubt(now_us);
            }
        }
        let due_us = queue.due_us();
        self.timers.set(&mut queue.due, || Timer::Queue(lock.clone()), Some(due_us));
        self.name_waiter(owner);
    }

    /// Wake-ups may have been lost: every lock that is waited for is asked about now, or just this one.
    pub fn handle_doubt(&mut self, now_us: u64, lock: Option<&Name>) {
        self.doubted_us = Some(now_us);
        let doubt = |(name, queue): (&Name, &mut PlaceSet)| {
            queue.handle_doubt(now_us);
            self.timers.set(&mut queue.due, || Timer::Queue(name.clone()), Some(now_us));
        };
        match lock {
            None => self.places.iter_mut().for_each(doubt),
            Some(lock) => {
                self.places.get_mut(lock).map(|queue| (lock, queue)).into_iter().for_each(doubt)
            }
        }
    }

    /// Refreshes the places that are due, and those that will be soon.
    pub(super) fn refresh(&mut self, now_us: u64) {
        let soon_us = now_us.saturating_add(self.waiter_lease_ms.saturating_mul(1_000) / 6);
        let mut refreshes = Vec::new();
        for (lock, queue) in &mut self.places {
            if queue.due_us() <= soon_us {
                queue.handle_sent(now_us);
                refreshes
                    .push(PlaceRefresh { lock: lock.clone(), asked: queue.owners().collect() });
                let due_us = queue.due_us();
                self.timers.set(&mut queue.due, || Timer::Queue(lock.clone()), Some(due_us));
            }
        }
        self.transmits.push(Transmit::Refresh(refreshes));
    }

    /// Refreshes were answered, or failed.
    pub fn handle_refreshes(
        &mut self,
        now_us: u64,
        answers: Vec<(PlaceRefresh, Result<TimedReply, CallFailure>)>,
    ) {
        let asked: BTreeSet<&Name> = answers.iter().map(|(refresh, _)| &refresh.lock).collect();
        let unsure = self.locks_without_place().filter(|lock| asked.contains(lock));
        let unsure: BTreeSet<Name> = unsure.cloned().collect();
        for (refresh, answer) in answers {
            if let Ok(answer) = answer {
                self.observe(now_us, answer.origin, answer.anchor);
                let is_sure = !unsure.contains(&refresh.lock);
                self.handle_refreshed(now_us, &refresh, answer, is_sure);
            }
        }
    }

    /// `is_sure` if no other acquire of this client may have a place that is not known yet.
    fn handle_refreshed(
        &mut self,
        now_us: u64,
        refresh: &PlaceRefresh,
        answer: TimedReply,
        is_sure: bool,
    ) {
        let TimedReply { reply, origin, anchor } = answer;
        let Reply::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted } = reply
        else {
            return;
        };
        let is_granted = |owner: &Owner| granted.iter().any(|(granted, _)| granted == owner);
        let is_missing = |owner: &&Owner| !is_granted(owner) && self.acquires.contains_key(owner);
        let missing: Vec<Owner> = refresh.asked.iter().filter(is_missing).copied().collect();
        for (owner, grant) in granted {
            // To whom it is news. One that is held renews itself; one that is neither held nor waited
            // for here is being given up, or comes from a state that the engine was restored to: then
            // it ends by itself, after a waiter lease.
            let (is_woken, is_confirmed) = (true, false);
            let offer = Offer { grant, origin, anchor, is_woken, is_confirmed };
            self.signal(owner, Signal::Held(offer));
        }
        let lock = &refresh.lock;
        let Some(queue) = self.places.get_mut(lock) else { return };
        let ahead = queue.ahead(front);
        queue.handle_recheck(now_us, anchor, recheck_ms, ahead);
        if let Some(left_ms) = queue.handle_quarantine(anchor, quarantined_until_ms) {
            self.effects.events.push(SessionEvent::Quarantined { lock: lock.clone(), left_ms });
        }
        let (due_us, places) = (queue.due_us(), queue.len());
        self.timers.set(&mut queue.due, || Timer::Queue(lock.clone()), Some(due_us));
        // Only if it is sure of each that it still waits.
        let all_wait = is_sure && waiting as usize == places && missing.len() == places;
        for owner in &missing {
            if all_wait {
                self.handle_still_waiting(*owner, origin, anchor);
            } else if missing.len() > waiting as usize {
                // The engine knows of fewer than we do: some lapsed, or were granted unheard.
                self.signal(*owner, Signal::Rejoin);
            }
        }
    }

    /// The engine pushed a wake-up for one of this client's owners.
    pub fn handle_wake(&mut self, now_us: u64, owner: Owner, event: WakeEvent, origin: Origin) {
        match event {
            WakeEvent::Granted(grant) => {
                let newest = self.anchors.newest(origin.source);
                let Some(acquire) = self.acquires.get_mut(&owner) else { return };
                acquire.wake_anchor.handle_wake(origin);
                let anchor = acquire.wake_anchor.anchor(origin, newest, grant.deadline_ms);
                self.signal(owner, Signal::Granted { grant, origin, anchor });
            }
            WakeEvent::Refused(refusal) => self.signal(owner, Signal::Refused(refusal)),
            WakeEvent::DoneBefore(done) => self.signal(owner, Signal::DoneBefore(done)),
            // To an engine that is made of others, and goes no further than it.
            WakeEvent::Inquired { .. } => {}
            WakeEvent::Wanted { token } => self.handle_wanted(now_us, owner, token),
            WakeEvent::Revoked { token } => self.handle_revocation(now_us, owner, token),
        }
    }

    fn handle_revocation(&mut self, now_us: u64, owner: Owner, token: Option<Token>) {
        match self.holds.get(&owner) {
            Some(held) if held.hold.is_of(token) => self.lose(now_us, owner, LossCause::Revoked),
            Some(_) => {}
            None => self.signal(owner, Signal::Revoked(token)),
        }
    }

    fn handle_still_waiting(&mut self, owner: Owner, origin: Origin, anchor: Anchor) {
        if let Some(acquire) = self.acquires.get_mut(&owner) {
            acquire.wake_anchor.handle_waiting(origin, anchor);
        }
    }

    fn signal(&mut self, owner: Owner, signal: Signal) {
        if let Some(acquire) = self.acquires.get_mut(&owner) {
            acquire.inbox.push_back(signal);
            self.effects.wakers.extend(acquire.waker.take());
        }
    }

    pub(super) fn wake_acquire(&mut self, owner: Owner) {
        if let Some(acquire) = self.acquires.get_mut(&owner) {
            self.timers.set(&mut acquire.due, || Timer::Acquire(owner), None);
            self.effects.wakers.extend(acquire.waker.take());
        }
    }

    /// The locks of acquires that were sent and have no place that is known here: they may have one.
    pub(super) fn locks_without_place(&self) -> impl Iterator<Item = &Name> {
        let is_unsure =
            |acquire: &&AcquireState| acquire.traffic.sent > 0 && acquire.place.is_none();
        // Mostly each has a place, and there may be thousands.
        let places: usize = self.places.values().map(PlaceSet::len).sum();
        let some = (places < self.acquires.len()).then(|| self.acquires.values());
        some.into_iter().flatten().filter(is_unsure).map(|acquire| &acquire.spec.terms.lock)
    }
}

/// The places of a client in one lock's queue. While all is well, the client sends only their refresh.
#[derive(Debug)]
pub(super) struct PlaceSet {
    /// In a quorum two may have the same number.
    places: BTreeSet<(u64, Owner)>,
    pub(super) due: DueTime,
    third_us: u64,
    refresh_at_us: u64,
    recheck_at_us: Option<u64>,
    /// Since when something may have been missed that no refresh sent since can have told of.
    doubt_since_us: Option<u64>,
    /// The local time at which the quarantine ends that the last answer spoke of.
    pub(super) quarantined_until_us: Option<u64>,
}

impl PlaceSet {
    /// Starts with a request that was sent at `sent_us` and has given the first place: it kept the place
    /// alive too.
    pub(super) fn new(sent_us: u64, waiter_lease_ms: u64) -> Self {
        let third_us = waiter_lease_ms.saturating_mul(1_000) / 3;
        Self {
            places: BTreeSet::new(),
            due: DueTime::default(),
            third_us,
            refresh_at_us: sent_us.saturating_add(third_us),
            recheck_at_us: None,
            doubt_since_us: None,
            quarantined_until_us: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Notes the place of an owner, and takes back the one that it had before.
    pub(super) fn put(&mut self, owner: Owner, place: u64, before: Option<u64>) {
        if let Some(before) = before {
            self.remove(owner, before);
        }
        self.places.insert((place, owner));
    }

    pub(super) fn remove(&mut self, owner: Owner, place: u64) {
        self.places.remove(&(place, owner));
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.places.iter().map(|(_, owner)| *owner)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many are before the client's foremost place.
    pub(super) fn ahead(&self, front: u64) -> u64 {
        self.places.first().map_or(0, |(place, _)| place.saturating_sub(front))
    }

    /// When the next refresh is due.
    pub(super) fn due_us(&self) -> u64 {
        let sooner = [self.recheck_at_us, self.doubt_since_us].into_iter().flatten();
        sooner.fold(self.refresh_at_us, u64::min)
    }

    /// A refresh is sent now; the next is due a third of the waiter lease later, whether or not this
    /// one is answered.
    pub(super) fn handle_sent(&mut self, now_us: u64) {
        self.refresh_at_us = now_us.saturating_add(self.third_us);
        self.recheck_at_us = None;
        self.doubt_since_us = None;
    }

    /// The engine said when the next holder's lease ends. `ahead` of the client's foremost place
    /// staggers the question, by at most one refresh.
    pub(super) fn handle_recheck(
        &mut self,
        now_us: u64,
        anchor: Anchor,
        recheck_ms: Option<u64>,
        ahead: u64,
    ) {
        self.recheck_at_us = recheck_ms.map(|recheck_ms| {
            let stagger_us = ahead.saturating_mul(STAGGER_US).min(self.third_us);
            anchor.surely_passed_us(now_us, recheck_ms).saturating_add(stagger_us)
        });
    }

    /// Something may have been missed (a connection was lost): ask now.
    pub(super) fn handle_doubt(&mut self, now_us: u64) {
        self.doubt_since_us = Some(now_us);
    }

    /// Remembers a quarantine. Returns for how long it lasts if that is news.
    pub(super) fn handle_quarantine(
        &mut self,
        anchor: Anchor,
        until_ms: Option<u64>,
    ) -> Option<u64> {
        let left_ms = until_ms.map(|until_ms| until_ms.saturating_sub(anchor.engine_ms));
        let is_news = self.quarantined_until_us.is_none();
        let until_us = |left_ms: u64| anchor.sent_us.saturating_add(left_ms.saturating_mul(1_000));
        self.quarantined_until_us = left_ms.map(until_us);
        left_ms.filter(|_| is_news)
    }
}

#[cfg(test)]
mod tests;
