//! One owner's contention for one lock: the pure [`Contender`], with the requests that it wants sent.

use taketurns_core::redlock::{Contender, RedlockVerdict};
use taketurns_core::{AcquireRequest, Grant, Name, Refusal, Request, WakeEvent};
use tokio::sync::watch;

use super::super::nodes::{ARRIVES_WITHIN_MS, OwnerNotice, ReportedState};

/// One owner that contends for a lock, or holds it.
pub(super) struct Contention {
    pub(super) lock: Name,
    pub(super) contender: Contender,
    /// What is asked for; `None` if another client acquired it.
    pub(super) acquire: Option<AcquireRequest>,
    /// For each node the `not_after` of the last acquire sent there.
    pub(super) not_after_ms: Vec<u64>,
    pub(super) reported: ReportedState,
    /// How the last round failed, once what was won in it is given back.
    pub(super) failed: Option<RedlockVerdict>,
    /// Something was heard.
    changed: watch::Sender<()>,
}

impl Contention {
    pub(super) fn new(lock: &Name, nodes: usize, acquire: AcquireRequest) -> Self {
        let contender = match acquire.waiter_lease_ms {
            Some(_) => Contender::new(nodes),
            None => Contender::of_one_try(nodes),
        };
        Self { contender, acquire: Some(acquire), ..Self::adopted(lock, nodes) }
    }

    /// For an owner whose lock another client acquired.
    pub(super) fn adopted(lock: &Name, nodes: usize) -> Self {
        Self {
            lock: lock.clone(),
            contender: Contender::adopted(nodes),
            acquire: None,
            not_after_ms: vec![0; nodes],
            reported: ReportedState::Nothing,
            failed: None,
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn notify(&self) {
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

    /// Wakes the tasks that wait for a change, and returns what to report to the client.
    pub(super) fn next_notice(&mut self, now_us: u64) -> Option<OwnerNotice> {
        self.notify();
        match (self.contender.verdict(now_us), self.reported) {
            (RedlockVerdict::Held { until_us }, ReportedState::Waiting) => {
                self.reported = ReportedState::Held;
                Some(OwnerNotice::Wake(WakeEvent::Granted(grant(until_us))))
            }
            (RedlockVerdict::Revoked, ReportedState::Held) => {
                self.reported = ReportedState::Over;
                Some(OwnerNotice::Wake(WakeEvent::Revoked { token: None }))
            }
            (RedlockVerdict::Lost, ReportedState::Held) => {
                self.reported = ReportedState::Over;
                Some(OwnerNotice::Lost)
            }
            _ => None,
        }
    }
}

/// Can a failed round succeed if it is tried again?
pub(super) fn is_retryable(failed: RedlockVerdict) -> bool {
    match failed {
        RedlockVerdict::Refused(refusal) => {
            matches!(refusal, Refusal::TooLate | Refusal::Quarantined { .. })
        }
        _ => true,
    }
}

/// A wire without tokens; and the clock is the client's own.
pub(super) fn grant(until_us: u64) -> Grant {
    Grant {
        token: None,
        tokens: 1,
        wanted: false,
        deadline_ms: until_us / 1_000,
        member: None,
        vote: None,
    }
}
