//! One owner's business with one lock: the pure [`Contender`], and what it takes to send what it wants sent.

use taketurns_core::redlock::{Contender, RedlockVerdict};
use taketurns_core::{AcquireRequest, Grant, Name, Owner, Refusal, Request, WakeEvent};
use tokio::sync::watch;

use super::super::Woken;
use super::super::nodes::ARRIVES_WITHIN_MS;

/// What the client was told, so that the next news is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Waiting,
    Held,
    /// That it holds no more.
    Over,
}

/// One owner's business.
pub(super) struct Run {
    pub(super) lock: Name,
    pub(super) contender: Contender,
    /// What is asked for; `None` if it was got elsewhere.
    pub(super) acquire: Option<AcquireRequest>,
    /// For each node the `not_after` of the last acquire sent there.
    pub(super) not_after_ms: Vec<u64>,
    pub(super) told: Told,
    /// How the last round failed, once what was won in it is given back.
    pub(super) failed: Option<RedlockVerdict>,
    /// Something was heard.
    changed: watch::Sender<()>,
}

impl Run {
    pub(super) fn new(lock: &Name, nodes: usize, acquire: AcquireRequest) -> Self {
        let contender = match acquire.waiter_lease_ms {
            Some(_) => Contender::new(nodes),
            None => Contender::of_one_try(nodes),
        };
        Self { contender, acquire: Some(acquire), ..Self::stranger(lock, nodes) }
    }

    /// For an owner that got its lock elsewhere.
    pub(super) fn stranger(lock: &Name, nodes: usize) -> Self {
        Self {
            lock: lock.clone(),
            contender: Contender::adopted(nodes),
            acquire: None,
            not_after_ms: vec![0; nodes],
            told: Told::Nothing,
            failed: None,
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn stir(&self) {
        self.changed.send_replace(());
    }

    pub(super) fn waits(&self) -> bool {
        self.acquire.as_ref().is_some_and(|acquire| acquire.waiter_lease_ms.is_some())
    }

    /// For how long something of ours may be left on a node that hears of nothing.
    pub(super) fn lasts_ms(&self) -> u64 {
        let lease_ms = self.acquire.as_ref().map_or(0, |acquire| acquire.lease_ms);
        lease_ms + ARRIVES_WITHIN_MS
    }

    /// The acquire for one node, which is to arrive by this time of its clock. Nobody queues there.
    pub(super) fn request(&mut self, node: usize, not_after_ms: u64) -> Option<Request> {
        let acquire = self.acquire.clone()?;
        self.not_after_ms[node] = not_after_ms;
        Some(Request::Acquire(AcquireRequest {
            waiter_lease_ms: None,
            not_after_ms,
            ballot: None,
            ..acquire
        }))
    }

    /// What it holds, if it does.
    pub(super) fn held(&mut self, now_us: u64) -> Option<Grant> {
        match self.contender.verdict(now_us) {
            RedlockVerdict::Held { until_us } => Some(grant(until_us)),
            _ => None,
        }
    }

    /// What the client has to be told.
    pub(super) fn news(&mut self, now_us: u64) -> Option<News> {
        self.stir();
        match (self.contender.verdict(now_us), self.told) {
            (RedlockVerdict::Held { until_us }, Told::Waiting) => {
                self.told = Told::Held;
                Some(News::Event(WakeEvent::Granted(grant(until_us))))
            }
            (RedlockVerdict::Revoked, Told::Held) => {
                self.told = Told::Over;
                Some(News::Event(WakeEvent::Revoked { token: None }))
            }
            (RedlockVerdict::Lost, Told::Held) => {
                self.told = Told::Over;
                Some(News::Lost)
            }
            _ => None,
        }
    }
}

/// News that the client waits for.
pub(super) enum News {
    Event(WakeEvent),
    Lost,
}

impl News {
    pub(super) fn into_woken(
        self,
        lock: Name,
        client: taketurns_core::ClientId,
        owner: Owner,
    ) -> Woken {
        match self {
            News::Event(event) => Woken::Wake {
                lock,
                wake: super::Wake { client, owner, event },
                origin: super::super::Origin::default(),
            },
            News::Lost => Woken::Gone { owner },
        }
    }
}

/// Is it of use to try again?
pub(super) fn is_hopeful(failed: RedlockVerdict) -> bool {
    match failed {
        RedlockVerdict::Refused(refusal) => {
            matches!(refusal, Refusal::TooLate | Refusal::Quarantined { .. })
        }
        _ => true,
    }
}

/// A wire without tokens; and the clock is the client's own.
pub(super) fn grant(until_us: u64) -> Grant {
    Grant { token: None, tokens: 1, deadline_ms: until_us / 1_000, member: None, vote: None }
}
