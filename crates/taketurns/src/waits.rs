//! Who of this client waits for what, and the one task that keeps all their places alive.
//!
//! Invariant: an acquire is registered here before its request is sent, so a wake-up finds it even
//! if it comes before the reply; and it stays until it holds, or has given up its place.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taketurns_core::client::{Anchor, Origin, Sight, Vigil};
use taketurns_core::{Grant, Name, Owner, Reply, Request};
use tokio::sync::{Notify, watch};

use crate::client::{Client, sleep_until_some};
use crate::clock::local_us;
use crate::held::Held;
use crate::meter;
use crate::signals::{Signal, Signals};
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// All waiting acquires of one client.
pub(crate) struct Waits {
    waiter_lease_ms: u64,
    locks: Mutex<BTreeMap<Name, Line>>,
    /// A lock was added, or is to be asked about sooner.
    changed: Notify,
}

/// Those that wait for one lock. Invariant: `places` names exactly the owners that have one.
struct Line {
    owners: BTreeMap<Owner, Waiting>,
    /// In a quorum two may have the same number.
    places: BTreeSet<(u64, Owner)>,
    vigil: Vigil,
    /// The local time at which the quarantine ends that the last answer spoke of.
    quarantined_until_us: Option<u64>,
}

struct Waiting {
    signals: Signals,
    /// The number of its place, once the engine said it.
    place: Option<u64>,
    /// What a wake-up is judged by.
    sight: Sight,
}

impl Waiting {
    fn new(signals: Signals) -> Self {
        Self { signals, place: None, sight: Sight::default() }
    }
}

/// One acquire's registration. Ends when it is dropped.
pub(crate) struct Registration {
    client: Arc<Client>,
    lock: Name,
    owner: Owner,
    signals: Signals,
}

impl Waits {
    pub(crate) fn new(waiter_lease_ms: u64) -> Self {
        Self { waiter_lease_ms, locks: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn register(client: &Arc<Client>, lock: &Name, owner: Owner) -> Registration {
        let signals = Signals::default();
        let waits = &client.waits;
        client.engine.watch(lock, owner);
        waits
            .locks()
            .entry(lock.clone())
            .or_insert_with(|| Line::new(waits.waiter_lease_ms))
            .owners
            .insert(owner, Waiting::new(signals.clone()));
        Registration { client: client.clone(), lock: lock.clone(), owner, signals }
    }

    pub(crate) fn signal(&self, lock: &Name, owner: Owner, signal: Signal) {
        if let Some(waiting) = self.locks().get(lock).and_then(|line| line.owners.get(&owner)) {
            waiting.signals.tell(signal);
        }
    }

    /// A wake-up of that origin said that this owner holds.
    pub(crate) fn granted(
        &self,
        lock: &Name,
        owner: Owner,
        grant: Grant,
        origin: Origin,
        newest: Option<(Origin, Anchor)>,
    ) {
        if let Some(waiting) = self.locks().get(lock).and_then(|line| line.owners.get(&owner)) {
            let anchor = waiting.sight.anchor(origin, newest, grant.deadline_ms);
            waiting.signals.tell(Signal::Granted { grant, anchor });
        }
    }

    /// Wake-ups may have been lost: every lock is asked about now.
    pub(crate) fn doubt(&self) {
        let now_us = local_us();
        self.locks().values_mut().for_each(|line| line.vigil.handle_doubt(now_us));
        self.changed.notify_one();
    }

    /// The same of one lock.
    pub(crate) fn doubt_one(&self, lock: &Name) {
        if let Some(line) = self.locks().get_mut(lock) {
            line.vigil.handle_doubt(local_us());
            self.changed.notify_one();
        }
    }

    fn locks(&self) -> MutexGuard<'_, BTreeMap<Name, Line>> {
        lock(&self.locks)
    }

    fn due_us(&self) -> Option<u64> {
        self.locks()
            .values()
            .filter(|line| !line.places.is_empty())
            .map(|line| line.vigil.due_us())
            .min()
    }

    /// The locks to refresh now. If one is due, those due soon go along in the same round trip.
    fn take_due(&self, now_us: u64) -> Vec<(Name, Vec<Owner>)> {
        let soon_us = now_us + self.waiter_lease_ms * 1_000 / 6;
        let mut due = Vec::new();
        for (lock, line) in self.locks().iter_mut() {
            if !line.places.is_empty() && line.vigil.due_us() <= soon_us {
                line.vigil.handle_sent(now_us);
                due.push((lock.clone(), line.places.iter().map(|(_, owner)| *owner).collect()));
            }
        }
        due
    }

    /// Keeps all places alive until told to stop.
    pub(crate) async fn keep_alive(client: Arc<Client>, mut stop: watch::Receiver<bool>) {
        let waits = &client.waits;
        loop {
            tokio::select! {
                biased;
                () = sleep_until_some(waits.due_us()) => {
                    let due = waits.take_due(local_us());
                    // A task of its own, so that one that hangs does not stop the next.
                    client.spawn(refresh(client.clone(), due));
                }
                () = waits.changed.notified() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    fn refreshed(
        &self,
        lock: &Name,
        asked: &[Owner],
        (origin, anchor): (Origin, Anchor),
        reply: Reply,
    ) {
        let Reply::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted } = reply
        else {
            return;
        };
        for (owner, grant) in &granted {
            // To whom it is news. One that is held renews itself; one that is neither held nor waited
            // for here is being given up, or comes from a state that the engine was restored to: then
            // it ends by itself, after a waiter lease.
            let grant = grant.clone();
            self.signal(lock, *owner, Signal::Granted { grant, anchor: Some(anchor) });
        }
        let mut locks = self.locks();
        let Some(line) = locks.get_mut(lock) else { return };
        let ahead = line.places.first().map_or(0, |(place, _)| place.saturating_sub(front));
        line.vigil.handle_recheck(local_us(), anchor, recheck_ms, ahead);
        line.mark_quarantine(lock, anchor, quarantined_until_ms);
        self.changed.notify_one();
        let is_granted = |owner: &Owner| granted.iter().any(|(granted, _)| granted == owner);
        let missing: Vec<Owner> = asked
            .iter()
            .filter(|owner| !is_granted(owner) && line.owners.contains_key(owner))
            .copied()
            .collect();
        // Only if it is sure of each that it still waits.
        let all_wait = waiting as usize == line.owners.len() && missing.len() == line.owners.len();
        for owner in &missing {
            let Some(waits) = line.owners.get_mut(owner) else { continue };
            if all_wait {
                waits.sight.handle_waiting(origin, anchor);
            } else if missing.len() > waiting as usize {
                // The engine knows of fewer than we do: some lapsed, or were granted unheard.
                waits.signals.tell(Signal::Rejoin);
            }
        }
    }
}

impl Line {
    fn new(waiter_lease_ms: u64) -> Self {
        Self {
            owners: BTreeMap::new(),
            places: BTreeSet::new(),
            vigil: Vigil::new(local_us(), waiter_lease_ms),
            quarantined_until_us: None,
        }
    }

    /// Notes the place of an owner. Answers the one that it had before.
    fn put(&mut self, owner: Owner, place: u64) -> Option<u64> {
        let before = self.owners.get_mut(&owner)?.place.replace(place);
        if let Some(before) = before {
            self.places.remove(&(before, owner));
        }
        self.places.insert((place, owner));
        before
    }

    /// Remembers a quarantine, and says so the first time.
    fn mark_quarantine(&mut self, lock: &Name, anchor: Anchor, until_ms: Option<u64>) {
        let left_ms = until_ms.map(|until_ms| until_ms.saturating_sub(anchor.engine_ms));
        if let Some(left_ms) = left_ms
            && self.quarantined_until_us.is_none()
        {
            tracing::warn!(%lock, left_ms, "in quarantine: its store was restarted or failed over");
        }
        let until_us = |left_ms: u64| anchor.sent_us.saturating_add(left_ms.saturating_mul(1_000));
        self.quarantined_until_us = left_ms.map(until_us);
    }

    fn remove(&mut self, owner: Owner) {
        if let Some(Waiting { place: Some(place), .. }) = self.owners.remove(&owner) {
            self.places.remove(&(place, owner));
        }
    }
}

async fn refresh(client: Arc<Client>, due: Vec<(Name, Vec<Owner>)>) {
    let waiter_lease_ms = client.waiter_lease_ms;
    let request = Request::Refresh { client: client.id, waiter_lease_ms };
    let calls = due.iter().map(|(lock, _)| (lock.clone(), request.clone())).collect();
    let answers = client.call_all(calls).await;
    for ((lock, asked), answer) in due.into_iter().zip(answers) {
        match answer {
            Ok((reply, seen)) => client.waits.refreshed(&lock, &asked, seen, reply),
            Err(error) => tracing::debug!(%lock, %error, "a place could not be refreshed"),
        }
    }
}

impl Registration {
    /// The next thing that concerns this acquire.
    pub(crate) async fn signal(&mut self) -> Signal {
        self.signals.next().await
    }

    /// For how long nobody is granted the lock, as far as the engine said.
    pub(crate) fn quarantine_left(&self) -> Option<Duration> {
        let until_us = self.client.waits.locks().get(&self.lock)?.quarantined_until_us?;
        let left_us = until_us.saturating_sub(local_us());
        (left_us > 0).then(|| Duration::from_micros(left_us))
    }

    /// The next thing that concerns this acquire while it is on its way. That the place may have
    /// lapsed is no news then: the answer will say. Were it heeded, refreshes that say so more often
    /// than the acquire is tried would keep it from ever being sent.
    pub(crate) async fn signal_while_asking(&mut self) -> Signal {
        loop {
            match self.signal().await {
                Signal::Rejoin => {}
                signal => return signal,
            }
        }
    }

    /// Was this grant broken since it was heard of? To be asked once its guard is registered: from
    /// then on the guard is told.
    pub(crate) fn was_revoked(&mut self, held: &Held) -> bool {
        let breaks =
            |signal: &Signal| matches!(signal, Signal::Revoked { token } if held.is_of(*token));
        self.signals.drain().iter().any(breaks)
    }

    /// It is about to ask.
    pub(crate) fn asks(&self) {
        let known = self.client.newest_anchor(&self.lock);
        let mut locks = self.client.waits.locks();
        let line = locks.get_mut(&self.lock);
        if let Some(waiting) = line.and_then(|line| line.owners.get_mut(&self.owner)) {
            waiting.sight.handle_asking(known);
        }
    }

    /// The engine gave it a place: from now on it is refreshed.
    pub(crate) fn placed(&self, place: taketurns_core::Place, (origin, anchor): (Origin, Anchor)) {
        let waits = &self.client.waits;
        let mut locks = waits.locks();
        let Some(line) = locks.get_mut(&self.lock) else { return };
        if let Some(waiting) = line.owners.get_mut(&self.owner) {
            waiting.sight.handle_waiting(origin, anchor);
        }
        let first = line.places.is_empty();
        line.mark_quarantine(&self.lock, anchor, place.quarantined_until_ms);
        let ahead = place.number.saturating_sub(place.front);
        let before = line.put(self.owner, place.number);
        if before.is_some_and(|before| before != place.number) {
            tracing::warn!(
                name: "taketurns.rejoined",
                lock = %self.lock,
                "the place lapsed; waiting again at the tail"
            );
        }
        if before != Some(place.number) {
            meter::queued(ahead);
        }
        if first {
            // The request that gave the place kept it alive too.
            line.vigil.handle_placed(anchor.sent_us);
            line.vigil.handle_recheck(local_us(), anchor, place.recheck_ms, ahead);
            waits.changed.notify_one();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.client.engine.unwatch(self.owner);
        let mut locks = self.client.waits.locks();
        if let Some(line) = locks.get_mut(&self.lock) {
            line.remove(self.owner);
            if line.owners.is_empty() {
                locks.remove(&self.lock);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_with_the_same_number_each_have_a_place() {
        let mut line = Line::new(3_000);
        let owners = [1, 2].map(Owner::from_bits);
        for owner in owners {
            line.owners.insert(owner, Waiting::new(Signals::default()));
            assert_eq!(line.put(owner, 7), None);
        }
        assert_eq!(line.places.len(), 2);
        line.remove(owners[0]);
        assert_eq!(line.places.first(), Some(&(7, owners[1])));
        assert_eq!(line.put(owners[1], 9), Some(7));
        assert_eq!(line.places.len(), 1);
    }
}
