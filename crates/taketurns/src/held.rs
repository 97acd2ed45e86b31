//! A held lock: its state, shared by the guard and the task that renews it.
//!
//! Invariant: once anybody was told that the lock is lost, nobody is told that it is held. The
//! [`Hold`] under the mutex upholds it, and everyone asks that.

use std::time::Duration;

use taketurns_core::client::{Anchor, Backoff, Due, Hold, LossCause};
use taketurns_core::{Grant, Member, Name, Owner, Reply, Request, Token};
use tokio::sync::{Notify, watch};

use crate::client::{Client, sleep_until_us};
use crate::clock::local_us;
use crate::engine::EngineError;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::{Error, random};

/// One held lock.
pub(crate) struct Held {
    client: Arc<Client>,
    lock: Name,
    owner: Owner,
    token: Option<Token>,
    member: Option<Member>,
    lease_ms: u64,
    /// Until when an acquire of the same owner may still be under way; 0 if none can be.
    bury_until_ms: u64,
    state: Mutex<State>,
    lost: watch::Sender<Option<LossCause>>,
    changed: Notify,
}

struct State {
    hold: Hold,
    /// How long the last grant or renewal was for.
    span: Duration,
    /// Released, or made a handle: nothing renews it any more.
    over: bool,
    /// Why the last renewal failed, if it did.
    trouble: Option<String>,
}

/// What a hold is made of.
pub(crate) struct Terms {
    pub(crate) lock: Name,
    pub(crate) owner: Owner,
    pub(crate) lease_ms: u64,
    pub(crate) max_hold_us: Option<u64>,
    pub(crate) bury_until_ms: u64,
}

impl Held {
    /// Takes a grant, and starts to renew it. `None` if it is over already by our own clock.
    pub(crate) fn start(
        client: &Arc<Client>,
        terms: &Terms,
        grant: Grant,
        anchor: Anchor,
    ) -> Option<Arc<Self>> {
        let now_us = local_us();
        let valid_until_us = anchor.valid_until_us(grant.deadline_ms);
        if valid_until_us <= now_us {
            return None;
        }
        let hold = Hold::new(now_us, valid_until_us, terms.lease_ms, terms.max_hold_us);
        let span = Duration::from_micros(valid_until_us - now_us);
        let held = Arc::new(Self {
            client: client.clone(),
            lock: terms.lock.clone(),
            owner: terms.owner,
            token: grant.token,
            member: grant.member,
            lease_ms: terms.lease_ms,
            bury_until_ms: terms.bury_until_ms,
            state: Mutex::new(State { hold, span, over: false, trouble: None }),
            lost: watch::channel(None).0,
            changed: Notify::new(),
        });
        client.register_guard(held.owner, &held);
        client.spawn(keep(Attended(held.clone())));
        Some(held)
    }

    pub(crate) fn name(&self) -> &Name {
        &self.lock
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.token
    }

    pub(crate) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    pub(crate) fn bury_until_ms(&self) -> u64 {
        self.bury_until_ms
    }

    /// Why it is lost, if it is. Looks at the clock, so it needs no task to have run.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        let loss = self.state().hold.lost(local_us());
        if let Some(cause) = loss {
            self.announce(cause);
        }
        loss
    }

    pub(crate) fn left(&self) -> Duration {
        if self.loss().is_some() {
            return Duration::ZERO;
        }
        Duration::from_micros(self.state().hold.valid_until_us().saturating_sub(local_us()))
    }

    pub(crate) fn span(&self) -> Duration {
        self.state().span
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<LossCause>> {
        self.lost.subscribe()
    }

    /// The engine said that it is over.
    pub(crate) fn lose(&self, cause: LossCause) {
        self.state().hold.handle_loss(local_us(), cause);
        self.loss();
        self.changed.notify_one();
    }

    /// A renewal, or a refresh that counted as one, was granted.
    pub(crate) fn renewed(&self, anchor: Anchor, deadline_ms: u64) {
        let now_us = local_us();
        let mut state = self.state();
        if state.hold.handle_renewed(now_us, anchor, deadline_ms) {
            state.span = Duration::from_micros(state.hold.valid_until_us().saturating_sub(now_us));
            state.trouble = None;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Nobody wants it any more: releases it in the background, once.
    pub(crate) fn abandon(self: &Arc<Self>) {
        if self.end() {
            let held = self.clone();
            self.client.spawn(async move {
                // It ends with its lease at the latest, and nobody waits for the answer.
                let _ = held.release().await;
            });
        }
    }

    /// Nothing renews it any more. True the first time.
    pub(crate) fn end(&self) -> bool {
        let first = !std::mem::replace(&mut self.state().over, true);
        self.client.forget_guard(self.owner);
        self.changed.notify_one();
        first
    }

    /// Renews now, whatever the schedule says.
    pub(crate) async fn renew(&self, lease_ms: u64) -> Result<(), Error> {
        let request = Request::Renew {
            owner: self.owner,
            client: self.client.id,
            lease_ms,
            write_back: None,
        };
        let answer = self.client.call(&self.lock, request).await;
        match answer {
            Ok((Reply::Renewed(grant), anchor)) => self.renewed(anchor, grant.deadline_ms),
            Ok((Reply::Revoked, _)) => self.lose(LossCause::Revoked),
            Ok((Reply::NotHeld, _)) => self.lose(LossCause::Gone),
            Ok((reply, _)) => {
                return Err(Error::Store(format!("a renewal was answered with {reply:?}")));
            }
            Err(error) => return Err(Error::from_engine(&self.lock, error)),
        }
        match self.loss() {
            Some(cause) => Err(Error::Lost { lock: self.lock.clone(), cause }),
            None => Ok(()),
        }
    }

    /// Gives the lock back. Tries for as long as the lease may still be standing.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        let lost = self.loss();
        let until_us = local_us() + self.lease_ms * 1_000;
        let release = give_up(&self.client, &self.lock, self.owner, self.bury_until_ms, until_us);
        let released = release.await;
        match (lost, released) {
            (Some(cause), _) => Err(Error::Lost { lock: self.lock.clone(), cause }),
            (None, result) => result,
        }
    }

    /// Resolves when nothing renews it any more.
    async fn over(&self) {
        while !self.state().over {
            self.changed.notified().await;
        }
    }

    fn announce(&self, cause: LossCause) {
        let news = |known: &mut Option<LossCause>| {
            let first = known.is_none();
            known.get_or_insert(cause);
            first
        };
        if self.lost.send_if_modified(news) && !self.state().over {
            tracing::warn!(lock = %self.lock, %cause, "the lock was lost");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Renews until the lock is given up or lost.
async fn keep(attended: Attended) {
    let held = &attended.0;
    loop {
        let (due, valid_until_us) = {
            let mut state = held.state();
            if state.over {
                return;
            }
            (state.hold.poll(local_us()), state.hold.valid_until_us())
        };
        match due {
            Due::Wait { until_us } => tokio::select! {
                biased;
                () = sleep_until_us(until_us) => {}
                () = held.changed.notified() => {}
            },
            Due::Renew { lease_ms } => tokio::select! {
                biased;
                result = held.renew(lease_ms) => if let Err(error) = result {
                    tracing::debug!(lock = %held.lock, %error, "a renewal failed");
                    let mut state = held.state();
                    state.hold.handle_failure(local_us(), random::bits64());
                    state.trouble = Some(error.to_string());
                },
                () = sleep_until_us(valid_until_us) => {}
                () = held.over() => return,
            },
            Due::Lost(cause) => {
                held.announce(cause);
                held.client.forget_guard(held.owner);
                // Whoever works under a lock that was broken has until its deadline to stop, and
                // the engine, which renews it no more, passes it on then.
                if cause == LossCause::Revoked {
                    return;
                }
                // A renewal may be answered yet, and nobody would keep what it renewed.
                let _ = held.release().await;
                return;
            }
        }
    }
}

/// If the task that renews is dropped before its end, or before it began, its runtime has ended. Nobody renews the lock
/// any more, and nobody would say when it is lost: so it is, now.
struct Attended(Arc<Held>);

impl Drop for Attended {
    fn drop(&mut self) {
        if !self.0.state().over {
            self.0.lose(LossCause::Unattended);
        }
    }
}

/// An engine that says it is broken may mend (a disk that was full), but not for long is it worth
/// keeping anybody waiting.
const BROKEN_PATIENCE_US: u64 = 5_000_000;

/// Releases a lock or gives up a place, again and again until the engine answers or it can't matter
/// any more.
pub(crate) async fn give_up(
    client: &Arc<Client>,
    lock: &Name,
    owner: Owner,
    bury_until_ms: u64,
    until_us: u64,
) -> Result<(), Error> {
    let started_us = local_us();
    let mut backoff = Backoff::default();
    let mut unknown = None;
    loop {
        let request = Request::Release { owner, bury_until_ms };
        let error = match client.call(lock, request).await {
            Ok((Reply::NotHeld, _)) => match unknown {
                // Either an earlier try did it, or the lease was over.
                Some(why) => return Err(Error::Indeterminate { lock: lock.clone(), why }),
                None => return Err(Error::NotHeld { lock: lock.clone() }),
            },
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let pause_us = backoff.pause_us(random::bits64());
        let until_us = match error {
            EngineError::Unsupported(_) | EngineError::Unfenced => 0,
            EngineError::Broken(_) => until_us.min(started_us + BROKEN_PATIENCE_US),
            _ => until_us,
        };
        if local_us() + pause_us >= until_us {
            return Err(Error::from_engine(lock, error));
        }
        if matches!(error, EngineError::Unknown(_) | EngineError::NoQuorum(_)) {
            unknown = Some(error.to_string());
        }
        sleep_until_us(local_us() + pause_us).await;
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use taketurns_core::ClientId;

    use super::*;
    use crate::engine::{MemoryStore, Wakes};
    use crate::runtime::Runtime;

    #[test]
    fn a_lock_whose_runtime_ends_before_it_was_ever_renewed_is_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let id = ClientId::from_bits(1);
        let engine = MemoryStore::default().engine(id, Wakes::channel().0);
        let who = "tests".to_owned();
        let (client, _idle) =
            Client::new(Box::new(engine), id, who, 3_000, Runtime::Tokio(runtime.handle().clone()));
        let terms = Terms {
            lock: Name::new("l").expect("a name"),
            owner: Owner::from_bits(1),
            lease_ms: 30_000,
            max_hold_us: None,
            bury_until_ms: 0,
        };
        let grant = Grant { token: None, deadline_ms: 30_000, member: None, vote: None };
        let anchor = Anchor { sent_us: local_us(), engine_ms: 0 };
        let held = Held::start(&Arc::new(client), &terms, grant, anchor).expect("a lease");
        assert_eq!(held.loss(), None);
        // The task that renews it was never polled.
        drop(runtime);
        assert_eq!(held.loss(), Some(LossCause::Unattended));
    }
}
