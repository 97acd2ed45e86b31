//! The client's places in all queues: taking them, refreshing them, and signalling the acquires that wait.

use std::collections::BTreeSet;

use super::acquire_state::{AcquireState, Offer, Signal};
use super::place_set::PlaceSet;
use super::timers::Timer;
use super::{Anchor, CallFailure, LossCause, Origin, Session, SessionEvent, TimedReply, Transmit};
use crate::{Grant, Name, Owner, Place, Refusal, Reply, Token, WakeEvent};

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
        self.look_sooner();
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
        self.look_sooner();
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
        self.look_sooner();
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
            self.handle_held(owner, grant, origin, anchor);
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
                self.handle_lapsed(*owner);
            }
        }
    }

    /// The engine pushed a wake-up for one of this client's owners.
    pub fn handle_wake(&mut self, now_us: u64, owner: Owner, event: WakeEvent, origin: Origin) {
        match event {
            WakeEvent::Granted(grant) => self.handle_granted(owner, grant, origin),
            WakeEvent::Refused(refusal) => self.handle_refused(owner, refusal),
            // To an engine that is made of others, and goes no further than it.
            WakeEvent::Inquired { .. } => {}
            WakeEvent::Revoked { token } => self.handle_revocation(now_us, owner, token),
        }
    }

    fn handle_revocation(&mut self, now_us: u64, owner: Owner, token: Option<Token>) {
        match self.holds.get(&owner) {
            Some(held) if held.hold.is_of(token) => self.lose(now_us, owner, LossCause::Revoked),
            Some(_) => {}
            None => self.handle_revoked(owner, token),
        }
    }

    /// A wake-up says that this owner holds.
    pub(super) fn handle_granted(&mut self, owner: Owner, grant: Grant, origin: Origin) {
        let newest = self.anchors.newest(origin.source);
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        acquire.wake_anchor.handle_wake(origin);
        let anchor = acquire.wake_anchor.anchor(origin, newest, grant.deadline_ms);
        self.signal(owner, Signal::Granted { grant, origin, anchor });
    }

    /// A refresh says that this owner holds.
    pub(super) fn handle_held(
        &mut self,
        owner: Owner,
        grant: Grant,
        origin: Origin,
        anchor: Anchor,
    ) {
        let (is_woken, is_confirmed) = (true, false);
        self.signal(owner, Signal::Held(Offer { grant, origin, anchor, is_woken, is_confirmed }));
    }

    pub(super) fn handle_refused(&mut self, owner: Owner, refusal: Refusal) {
        self.signal(owner, Signal::Refused(refusal));
    }

    pub(super) fn handle_lapsed(&mut self, owner: Owner) {
        self.signal(owner, Signal::Rejoin);
    }

    pub(super) fn handle_revoked(&mut self, owner: Owner, token: Option<Token>) {
        self.signal(owner, Signal::Revoked(token));
    }

    pub(super) fn handle_still_waiting(&mut self, owner: Owner, origin: Origin, anchor: Anchor) {
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
        self.acquires.values().filter(is_unsure).map(|acquire| &acquire.spec.terms.lock)
    }
}
