//! One candidacy of this client: the pure [`Candidate`], with the requests that it wants sent.

use taketurns_core::quorum::{Candidate, NodeRequest, NodeRequestKind, QuorumVerdict};
use taketurns_core::{
    AcquireRequest, Ballot, Grant, Name, Place, Reply, Request, Token, WakeEvent,
};
use tokio::sync::watch;

use super::super::nodes::{ARRIVES_WITHIN_MS, OwnerNotice, ReportedState};
use crate::clock::local_us;

/// A candidacy whose owner the session does not know is kept for this long after its last answer: an adoption that
/// was just answered is about to be known. After that only a handle can name the owner, and its nodes know more.
const LINGERS_US: u64 = 1_000_000;

/// One candidacy.
pub(super) struct Candidacy {
    pub(super) lock: Name,
    pub(super) candidate: Candidate,
    acquire: AcquireRequest,
    /// For each node the `not_after` of the last acquire sent there.
    not_after_ms: Vec<u64>,
    /// Asks for nothing new, only finds what the owner has.
    finds: bool,
    reported: ReportedState,
    /// When it was last answered, or made.
    answered_us: u64,
    /// Something was heard.
    changed: watch::Sender<()>,
}

/// A request to one node, as the candidate names it and as it is sent.
pub(super) struct NodeCall {
    pub(super) send: NodeRequest,
    pub(super) request: Request,
}

impl Candidacy {
    pub(super) fn new(lock: &Name, nodes: usize, acquire: AcquireRequest) -> Self {
        Self {
            lock: lock.clone(),
            candidate: Candidate::new(nodes, acquire.lease_ms, acquire.waiter_lease_ms),
            acquire,
            not_after_ms: vec![0; nodes],
            finds: false,
            reported: ReportedState::Nothing,
            answered_us: local_us(),
            changed: watch::Sender::new(()),
        }
    }

    /// For an owner that got its lock elsewhere: asks for nothing, and hears what there is.
    pub(super) fn find(lock: &Name, nodes: usize, acquire: AcquireRequest) -> Self {
        let candidate = Candidate::finder(nodes, acquire.lease_ms);
        Self { finds: true, candidate, ..Self::new(lock, nodes, acquire) }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// For how long something of ours may be left on a node that hears of nothing.
    pub(super) fn lasts_ms(&self) -> u64 {
        let longest_ms = self.acquire.lease_ms.max(self.acquire.waiter_lease_ms.unwrap_or(0));
        longest_ms + ARRIVES_WITHIN_MS
    }

    /// Can it be forgotten, if the session does not know its owner? It is over, or its lock was carried elsewhere.
    /// Leases can be long, so the end of a lock that others may have renewed or released is not waited for.
    pub(super) fn is_left(&mut self, now_us: u64) -> bool {
        let is_over = !matches!(
            self.candidate.verdict(now_us),
            QuorumVerdict::Open
                | QuorumVerdict::Waiting { .. }
                | QuorumVerdict::Held { .. }
                | QuorumVerdict::Revoked
        );
        let is_awaited = self.changed.receiver_count() > 0;
        is_over || !is_awaited && now_us >= self.answered_us + LINGERS_US
    }

    pub(super) fn waiter_lease_ms(&self) -> Option<u64> {
        self.acquire.waiter_lease_ms
    }

    /// Builds the requests to be sent. `clock_ms` says what a node's clock shows now.
    pub(super) fn node_calls(
        &mut self,
        sends: Vec<NodeRequest>,
        hint: u64,
        clock_ms: impl Fn(usize) -> Option<u64>,
    ) -> Vec<NodeCall> {
        let node_call =
            |send: NodeRequest| NodeCall { send, request: self.request(send, hint, &clock_ms) };
        sends.into_iter().map(node_call).collect()
    }

    fn request(
        &mut self,
        NodeRequest { node, kind }: NodeRequest,
        hint: u64,
        clock_ms: impl Fn(usize) -> Option<u64>,
    ) -> Request {
        let owner = self.acquire.owner;
        match kind {
            NodeRequestKind::Ask { ticket, yields, waits, .. } => {
                let hint = hint.max(self.candidate.floor(node) + 1);
                // A node that was never heard says that it is too late, and by that what time it is.
                let clock_ms = clock_ms(node).filter(|_| !self.finds);
                let not_after_ms = clock_ms.map_or(0, |ms| ms + ARRIVES_WITHIN_MS);
                self.not_after_ms[node] = not_after_ms;
                Request::Acquire(AcquireRequest {
                    waiter_lease_ms: self.acquire.waiter_lease_ms.filter(|_| waits),
                    not_after_ms,
                    ballot: Some(Ballot { hint, ticket, yields }),
                    ..self.acquire.clone()
                })
            }
            NodeRequestKind::Renew { write_back, lease_ms, .. } => Request::Renew {
                owner,
                client: self.acquire.client,
                lease_ms,
                write_back: Some(write_back),
            },
            NodeRequestKind::Release { bury } => {
                let bury_until_ms = match bury {
                    // It was acquired elsewhere, and a slow node may have that acquire yet to hear.
                    _ if self.finds => clock_ms(node).unwrap_or(0) + ARRIVES_WITHIN_MS,
                    true => self.not_after_ms[node],
                    false => 0,
                };
                Request::Release { owner, bury_until_ms, last_used: None }
            }
        }
    }

    /// Returns the answer to the acquire, once it can be given. The client is not told the same again.
    pub(super) fn outcome(&mut self, now_us: u64) -> Option<Result<Reply, AcquireFailure>> {
        self.answered_us = now_us;
        Some(match self.candidate.verdict(now_us) {
            QuorumVerdict::Open => return None,
            QuorumVerdict::Waiting { ticket } => {
                self.reported = ReportedState::Waiting;
                Ok(Reply::Queued(self.place(ticket, now_us)))
            }
            QuorumVerdict::Held { token, until_us } => {
                self.reported = ReportedState::Held;
                Ok(Reply::Granted(grant(token, until_us)))
            }
            QuorumVerdict::Busy => Ok(Reply::Busy),
            QuorumVerdict::Refused(refusal) => Ok(Reply::Refused(refusal)),
            QuorumVerdict::Lost | QuorumVerdict::Revoked => Err(AcquireFailure::Lost),
            QuorumVerdict::NoQuorum => Err(AcquireFailure::NoQuorum),
        })
    }

    fn place(&self, ticket: u64, now_us: u64) -> Place {
        let quarantined_until_us = self.candidate.quarantined_until_us(now_us);
        Place {
            number: ticket,
            front: ticket,
            recheck_ms: None,
            quarantined_until_ms: quarantined_until_us.map(|until_us| until_us / 1_000),
        }
    }

    /// What it holds, if it does.
    pub(super) fn held(&mut self, now_us: u64) -> Option<Grant> {
        match self.candidate.verdict(now_us) {
            QuorumVerdict::Held { token, until_us } => Some(grant(token, until_us)),
            _ => None,
        }
    }

    /// Returns the grant as the reply to a renewal. From now on the client is notified when the lock is lost.
    pub(super) fn renewed(&mut self, now_us: u64) -> Option<Grant> {
        let grant = self.held(now_us)?;
        (self.reported, self.answered_us) = (ReportedState::Held, now_us);
        Some(grant)
    }

    /// Wakes the tasks that wait for a change, and returns what to report to the client.
    pub(super) fn next_notice(&mut self, now_us: u64) -> Option<OwnerNotice> {
        self.changed.send_replace(());
        match (self.candidate.verdict(now_us), self.reported) {
            (QuorumVerdict::Held { token, until_us }, ReportedState::Waiting) => {
                self.reported = ReportedState::Held;
                Some(OwnerNotice::Wake(WakeEvent::Granted(grant(token, until_us))))
            }
            (QuorumVerdict::Revoked, ReportedState::Held) => {
                self.reported = ReportedState::Over;
                let token = self.candidate.token().map(Token::from_raw);
                Some(OwnerNotice::Wake(WakeEvent::Revoked { token }))
            }
            (QuorumVerdict::Lost, ReportedState::Held) => {
                self.reported = ReportedState::Over;
                Some(OwnerNotice::Lost)
            }
            _ => None,
        }
    }
}

/// Why an acquire failed.
pub(super) enum AcquireFailure {
    /// It was over before it could be told.
    Lost,
    NoQuorum,
}

/// The clock of a quorum is the client's own: nobody else's is looked at with it.
fn grant(token: u64, until_us: u64) -> Grant {
    let token = Some(Token::from_raw(token));
    Grant {
        token,
        tokens: 1,
        wanted: false,
        deadline_ms: until_us / 1_000,
        member: None,
        vote: None,
    }
}

#[cfg(test)]
mod tests {
    use taketurns_core::session::Anchor;
    use taketurns_core::{Ask, ClientId, Label, Owner, Vote};

    use super::*;

    const NOW_US: u64 = 1_000_000;

    fn candidacy() -> Candidacy {
        let acquire = AcquireRequest {
            owner: Owner::from_bits(1),
            client: ClientId::from_bits(2),
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 30_000,
            waiter_lease_ms: Some(3_000),
            not_after_ms: 0,
            ballot: None,
            label: Label::default(),
        };
        Candidacy::new(&Name::new("l").expect("a name"), 3, acquire)
    }

    /// A node grants, with this token.
    fn granted(candidacy: &mut Candidacy, node: usize, token: u64) {
        let vote = Some(Vote { number: token, ticket: token, inquired: false });
        let token = Some(Token::from_raw(token));
        let grant =
            Grant { token, tokens: 1, wanted: false, deadline_ms: 31_000, member: None, vote };
        let kind = NodeRequestKind::Ask { ticket: None, yields: None, waits: true, known: None };
        let anchor = Anchor { sent_us: NOW_US, engine_ms: 1_000 };
        let reply = Ok((Reply::Granted(grant), anchor));
        candidacy.candidate.handle_reply(NOW_US, NodeRequest { node, kind }, reply);
    }

    /// Until when it is buried on each node if it is given up at 6 s.
    fn buried(candidacy: &mut Candidacy) -> Vec<u64> {
        let sends = candidacy.candidate.give_up();
        let node_calls = candidacy.node_calls(sends, 9, |_| Some(6_000));
        let until_ms = |node_call: &NodeCall| match node_call.request {
            Request::Release { bury_until_ms, .. } => bury_until_ms,
            _ => 1,
        };
        node_calls.iter().map(until_ms).collect()
    }

    #[test]
    fn a_holder_is_told_once_that_it_holds_no_more() {
        let mut candidacy = candidacy();
        candidacy.candidate.ask();
        granted(&mut candidacy, 0, 7);
        assert!(candidacy.outcome(NOW_US).is_none());
        granted(&mut candidacy, 1, 7);
        assert!(matches!(candidacy.outcome(NOW_US), Some(Ok(Reply::Granted(_)))));
        assert_eq!(candidacy.next_notice(NOW_US), None, "that it holds is no news");
        candidacy.candidate.handle_clock_set(NOW_US, 1);
        assert_eq!(candidacy.next_notice(NOW_US), Some(OwnerNotice::Lost));
        assert_eq!(candidacy.next_notice(NOW_US), None);
    }

    #[test]
    fn a_lock_carried_elsewhere_is_forgotten_before_its_lease_ends() {
        let mut candidacy = candidacy();
        candidacy.candidate.ask();
        (0..3).for_each(|node| granted(&mut candidacy, node, 7));
        let awaited = candidacy.subscribe();
        assert!(matches!(candidacy.outcome(NOW_US), Some(Ok(Reply::Granted(_)))));
        assert!(!candidacy.is_left(NOW_US + LINGERS_US), "somebody waits for its outcome");
        drop(awaited);
        assert!(
            !candidacy.is_left(NOW_US + LINGERS_US - 1),
            "an adoption may be about to be known"
        );
        assert!(candidacy.is_left(NOW_US + LINGERS_US));
        assert!(candidacy.renewed(NOW_US + LINGERS_US).is_some(), "it is still held");
        assert!(!candidacy.is_left(NOW_US + LINGERS_US), "it was just answered");
    }

    #[test]
    fn a_node_that_was_never_heard_is_asked_for_its_time() {
        let mut candidacy = candidacy();
        let sends = candidacy.candidate.ask();
        let clocks = [Some(5_000), None, Some(6_000)];
        let node_calls = candidacy.node_calls(sends, 9, |node| clocks[node]);
        let not_after: Vec<u64> = node_calls
            .iter()
            .map(|node_call| match &node_call.request {
                Request::Acquire(acquire) => acquire.not_after_ms,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(not_after, [15_000, 0, 16_000]);
    }

    #[test]
    fn what_was_sent_and_not_answered_is_buried() {
        let mut candidacy = candidacy();
        let sends = candidacy.candidate.ask();
        candidacy.node_calls(sends, 9, |_| Some(5_000));
        granted(&mut candidacy, 0, 7);
        assert_eq!(buried(&mut candidacy), [0, 15_000, 15_000]);
    }

    #[test]
    fn what_was_acquired_elsewhere_may_be_under_way_from_there_and_is_buried() {
        let mut candidacy =
            Candidacy::find(&Name::new("l").expect("a name"), 3, candidacy().acquire);
        let sends = candidacy.candidate.ask();
        candidacy.node_calls(sends, 9, |_| Some(5_000));
        (0..3).for_each(|node| granted(&mut candidacy, node, 7));
        assert_eq!(buried(&mut candidacy), [16_000; 3]);
    }
}
