//! All that a client holds, and the one task that renews it.
//!
//! ```text
//!   due:  ├─ now ─┤─ soon ─┤─────── later
//!           renewed together:        └─ the task sleeps until the first of these
//!           one write
//! ```
//!
//! Invariant: whoever is registered here and not being renewed is in `due`, at the time at which it
//! has to be renewed or is lost; who is being renewed is there at the time at which it is lost.

use std::collections::{BTreeMap, BTreeSet};

use taketurns_core::client::{Due, LossCause};
use taketurns_core::{Name, Owner, Request};
use tokio::sync::{Notify, watch};
use tracing::{Instrument, Span};

use crate::client::{Client, sleep_until_some};
use crate::clock::local_us;
use crate::held::Held;
use crate::sync::{Arc, Mutex, MutexGuard, Weak, lock};
use crate::telling;

/// What is due within this time goes along with what is due now.
const SOON_US: u64 = 250_000;
/// So many at most in one write: those behind wait for the answers of those before.
const TOGETHER_MAX: usize = 256;

/// All guards of one client.
#[derive(Default)]
pub(crate) struct Guards {
    state: Mutex<State>,
    /// Something is due before the task would look.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    held: BTreeMap<Owner, Entry>,
    due: BTreeSet<(u64, Owner)>,
    /// When the task looks again, if by then it was not told to look sooner; 0 while it does not
    /// sleep.
    looks_at_us: u64,
    /// Nobody renews any more.
    over: bool,
}

struct Entry {
    held: Weak<Held>,
    due_us: u64,
}

impl Guards {
    /// From now on it is renewed. False if nobody is there to do it.
    pub(crate) fn add(&self, owner: Owner, held: &Arc<Held>, due_us: u64) -> bool {
        let mut state = self.state();
        if !state.over {
            state.held.insert(owner, Entry { held: Arc::downgrade(held), due_us });
            state.due.insert((due_us, owner));
            self.look_by(state, due_us);
            return true;
        }
        false
    }

    /// True if it was there.
    pub(crate) fn remove(&self, owner: Owner) -> bool {
        let mut state = self.state();
        let Some(entry) = state.held.remove(&owner) else { return false };
        state.due.remove(&(entry.due_us, owner));
        true
    }

    pub(crate) fn find(&self, owner: Owner) -> Option<Arc<Held>> {
        self.state().held.get(&owner).and_then(|entry| entry.held.upgrade())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Held>> {
        self.state().held.values().filter_map(|entry| entry.held.upgrade()).collect()
    }

    /// It has to be looked at again then, and not when it was said before.
    pub(crate) fn schedule(&self, owner: Owner, due_us: u64) {
        let mut state = self.state();
        let Some(entry) = state.held.get_mut(&owner) else { return };
        let before_us = std::mem::replace(&mut entry.due_us, due_us);
        state.due.remove(&(before_us, owner));
        state.due.insert((due_us, owner));
        self.look_by(state, due_us);
    }

    fn look_by(&self, state: MutexGuard<'_, State>, due_us: u64) {
        if due_us < state.looks_at_us {
            drop(state);
            self.sooner.notify_one();
        }
    }

    /// Until when to sleep; for ever if nothing is held.
    fn sleeps_until(&self) -> Option<u64> {
        let mut state = self.state();
        let first_us = state.due.first().map(|(due_us, _)| *due_us);
        state.looks_at_us = first_us.unwrap_or(u64::MAX);
        first_us
    }

    /// What has to be looked at now; and, if anything has, what will have to be soon. Whoever takes
    /// one has to schedule it again.
    fn take_due(&self, now_us: u64) -> Vec<Arc<Held>> {
        let mut state = self.state();
        state.looks_at_us = 0;
        if state.due.first().is_none_or(|(due_us, _)| *due_us > now_us) {
            return Vec::new();
        }
        let soon = (now_us + SOON_US, Owner::from_bits(0));
        let due: Vec<_> = state.due.range(..soon).copied().collect();
        let take = |entry: (u64, Owner)| {
            let held = state.held.get(&entry.1).and_then(|entry| entry.held.upgrade());
            if held.is_none() {
                // Else the task would look at it for ever.
                state.due.remove(&entry);
            }
            held
        };
        due.into_iter().filter_map(take).collect()
    }

    /// Renews what is held until told to stop.
    pub(crate) fn keep(
        client: Arc<Client>,
        mut stop: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send {
        // Made before it is polled: the runtime may end before that.
        let attended = Attended(client);
        async move {
            let client = &attended.0;
            loop {
                tokio::select! {
                    biased;
                    () = sleep_until_some(client.guards.sleeps_until()) => {}
                    () = client.guards.sooner.notified() => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
                look(client, local_us());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn look(client: &Arc<Client>, now_us: u64) {
    let mut renewals: BTreeMap<u64, Vec<(Arc<Held>, u64)>> = BTreeMap::new();
    for held in client.guards.take_due(now_us) {
        match held.due(now_us, SOON_US) {
            Due::Wait { until_us } => client.guards.schedule(held.owner(), until_us),
            Due::Renew { lease_ms } => {
                // A server that does not answer must not hold up what another answered.
                let source = client.engine.source(held.name());
                renewals.entry(source).or_default().push((held, lease_ms));
            }
            Due::Lost(cause) => held.is_over(cause),
        }
    }
    for mut renewals in renewals.into_values() {
        while !renewals.is_empty() {
            let rest = renewals.split_off(renewals.len().min(TOGETHER_MAX));
            let span = telling::renew(renewals.len());
            client.spawn(renew(client.clone(), renewals, span.clone()).instrument(span));
            renewals = rest;
        }
    }
}

async fn renew(client: Arc<Client>, renewals: Vec<(Arc<Held>, u64)>, span: Span) {
    let call = |(held, lease_ms): &(Arc<Held>, u64)| -> (Name, Request) {
        (held.name().clone(), held.renewal(*lease_ms))
    };
    let answers = client.call_all(renewals.iter().map(call).collect()).await;
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    span.record("failed", failed);
    for ((held, _), answer) in renewals.iter().zip(answers) {
        held.renewal_answered(answer.map(|(reply, (_, anchor))| (reply, anchor)));
    }
}

/// If the task that renews is dropped, its runtime has ended. Nobody renews any more, and nobody
/// would say when something is lost: so all of it is, now.
struct Attended(Arc<Client>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.guards.state().over = true;
        for held in self.0.guards.all() {
            held.lose(LossCause::Unattended);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use taketurns_core::client::Anchor;
    use taketurns_core::{ClientId, Grant};

    use super::*;
    use crate::engine::{MemoryStore, Wakes};
    use crate::held::Terms;
    use crate::runtime::Runtime;

    fn hold(client: &Arc<Client>, owner: u128) -> Arc<Held> {
        let terms = Terms {
            lock: Name::new("l").expect("a name"),
            owner: Owner::from_bits(owner),
            lease_ms: 30_000,
            max_hold_us: None,
            bury_until_ms: 0,
        };
        let grant = Grant { token: None, tokens: 1, deadline_ms: 30_000, member: None, vote: None };
        let anchor = Anchor { sent_us: local_us(), engine_ms: 0 };
        Held::start(client, &terms, grant, anchor).expect("a lease")
    }

    #[test]
    fn locks_whose_runtime_ends_before_they_were_ever_renewed_are_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let id = ClientId::from_bits(1);
        let engine = MemoryStore::default().engine(id, Wakes::channel().0);
        let on = Runtime::Tokio(runtime.handle().clone());
        let (client, _idle) = Client::new(Box::new(engine), id, "tests".to_owned(), 3_000, on);
        let client = Arc::new(client);
        let (_stop, stopped) = watch::channel(false);
        runtime.spawn(Guards::keep(client.clone(), stopped));
        let held = hold(&client, 1);
        assert_eq!(held.loss(), None);
        // The task that renews was never polled.
        drop(runtime);
        assert_eq!(held.loss(), Some(LossCause::Unattended));
        assert_eq!(hold(&client, 2).loss(), Some(LossCause::Unattended), "nobody would renew it");
    }
}
