//! Redlock: a lock held on a majority of nodes that have neither a queue nor tokens. What a
//! contender for it decides, as a pure function of its inputs and of time.
//!
//! ```text
//!   ask everyone ─┬─ a majority grants, and is not over yet ──► held ─ renew by a majority ─► … ─► lost
//!                 └─ else: release everywhere ─► pause at random ─► ask everyone …
//! ```
//!
//! Invariants:
//!
//! - It is held only while a majority of nodes have granted it beyond the present, counted from the
//!   *sending* of each request. [`Contender::verdict`] upholds it, and checks the clock last.
//! - A grant of a failed round never counts in another: a node is asked again only after it
//!   answered the acquire before, and the release after it.
//! - A renewal never brings back a grant that a node no longer has. Lost is final.

mod inputs;
mod node;
mod pause;
#[cfg(test)]
mod tests;

use crate::Refusal;
use crate::quorum::majority;
pub use inputs::NodeFailure;
use node::{ContenderNode, NodeDenial};
pub use pause::pause_us;

/// The minimum wait for slow nodes once a majority has answered. Meanwhile the grants that were won
/// block other contenders.
const PATIENCE_US: u64 = 50_000;
/// The minimum wait for a contender that tries just once: its answer is final, and must not be "no"
/// only because a node was slow.
const PATIENCE_OF_ONE_TRY_US: u64 = 1_000_000;

/// The state of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedlockVerdict {
    /// No request is in flight: try again.
    Idle,
    /// Too few nodes have answered.
    Open,
    /// It holds the lock, until this local time.
    Held {
        /// When the majority ends.
        until_us: u64,
    },
    /// It held the lock, and does not any more.
    Lost,
    /// It held the lock, which was broken.
    Revoked,
    /// No majority is free.
    Busy,
    /// A majority granted it, but the lease ended before that was known.
    Over,
    /// Too many nodes refuse it: no majority is left.
    Refused(Refusal),
    /// Too many nodes did not answer: no majority is left. See [`Contender::troubles`].
    NoQuorum,
}

/// The outcome of a round of renewals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalVerdict {
    /// A majority renewed it: held until this local time.
    Held {
        /// When the majority ends.
        until_us: u64,
    },
    /// No majority has it any more.
    Lost,
    /// It was broken.
    Revoked,
    /// Too many nodes did not answer: no majority is left. A lease that was held before still is.
    NoQuorum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContenderStage {
    /// Between two rounds.
    Idle,
    /// In a round.
    Asking,
    /// Acquired by another client and not renewed here yet, so nothing is known of it.
    Adopted,
    Held,
    Lost,
    /// Given up for good.
    Over,
}

/// One owner's attempts at one lock, and its hold if one succeeds.
#[derive(Clone, Debug)]
pub struct Contender {
    majority: usize,
    nodes: Vec<ContenderNode>,
    stage: ContenderStage,
    /// Rounds of acquires so far.
    round: u64,
    /// When the last of them began.
    began_us: u64,
    /// Until when the round waits for slow nodes, once a majority has answered.
    patience_us: Option<u64>,
    least_patience_us: u64,
    /// Rounds of renewals so far.
    renewal: u64,
}

impl Contender {
    /// Returns a contender on this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            majority: majority(nodes),
            nodes: vec![ContenderNode::default(); nodes],
            stage: ContenderStage::Idle,
            round: 0,
            began_us: 0,
            patience_us: None,
            least_patience_us: PATIENCE_US,
            renewal: 0,
        }
    }

    /// Returns a contender that tries only once.
    pub fn of_one_try(nodes: usize) -> Self {
        Self { least_patience_us: PATIENCE_OF_ONE_TRY_US, ..Self::new(nodes) }
    }

    /// Returns a contender for a lock that another client acquired. A renewal finds out what its
    /// owner has.
    pub fn adopted(nodes: usize) -> Self {
        let node = ContenderNode { ours: true, ..ContenderNode::default() };
        Self { stage: ContenderStage::Adopted, nodes: vec![node; nodes], ..Self::new(nodes) }
    }

    /// Begins a round. Returns its number and the nodes to ask. Nodes that have yet to answer an
    /// acquire or a release of an earlier round are left out.
    pub fn ask(&mut self, now_us: u64) -> (u64, Vec<usize>) {
        self.round += 1;
        (self.began_us, self.patience_us) = (now_us, None);
        self.stage = ContenderStage::Asking;
        let mut asked = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.begin(self.round) {
                asked.push(number);
            }
        }
        (self.round, asked)
    }

    /// Ends a failed round, whose grants no longer count. Returns the nodes that need a release:
    /// those that have granted (true), and those that may yet. Their replies go to
    /// [`Contender::handle_release_reply`].
    pub fn roll_back(&mut self) -> Vec<(usize, bool)> {
        self.stage = ContenderStage::Idle;
        let tell = self.nodes.iter_mut().enumerate().filter_map(|(number, node)| {
            let needs_release = node.needs_release(self.round);
            let has_granted = node.vote.take().is_some();
            node.ours = false;
            needs_release.then(|| {
                node.releasing += 1;
                (number, has_granted)
            })
        });
        tell.collect()
    }

    /// Returns whether no request is in flight or may still arrive, and all grants are given back.
    pub fn has_left_nothing(&self) -> bool {
        let is_clean = |node: &ContenderNode| !node.may_have() && node.releasing == 0;
        self.stage == ContenderStage::Idle && self.nodes.iter().all(is_clean)
    }

    /// Ends all attempts. Returns for each node whether an acquire may still arrive there. All
    /// nodes need a release.
    pub fn give_up(&mut self) -> Vec<bool> {
        self.stage = ContenderStage::Over;
        self.nodes.iter().map(|node| node.is_asked() || node.unanswered).collect()
    }

    /// Begins a round of renewals. Returns its number and the nodes to ask: those that may have a
    /// grant of ours.
    pub fn renew(&mut self) -> (u64, Vec<usize>) {
        self.renewal += 1;
        let asked = self.nodes.iter_mut().enumerate().filter_map(|(number, node)| {
            let may_renew = node.ours && !node.revoked && !node.is_asked();
            may_renew.then(|| {
                node.renewing = self.renewal;
                number
            })
        });
        (self.renewal, asked.collect())
    }

    /// Returns the outcome of this round of renewals, or of a later one. `None` while it is open.
    pub fn renewed(&mut self, renewal: u64, now_us: u64) -> Option<RenewalVerdict> {
        let is_renewed = |node: &ContenderNode| node.renewed >= renewal && node.vote.is_some();
        let renewed = self.count(is_renewed);
        if self.verdict(now_us) == RedlockVerdict::Lost {
            return Some(RenewalVerdict::Lost);
        }
        if renewed >= self.majority {
            self.stage = ContenderStage::Held;
            return Some(match self.verdict(now_us) {
                RedlockVerdict::Held { until_us } => RenewalVerdict::Held { until_us },
                RedlockVerdict::Revoked => RenewalVerdict::Revoked,
                _ => RenewalVerdict::Lost,
            });
        }
        if self.count(|node| node.ours) < self.majority {
            self.stage = ContenderStage::Lost;
            return Some(RenewalVerdict::Lost);
        }
        if self.count(|node| node.ours && !node.revoked) < self.majority {
            return Some(RenewalVerdict::Revoked);
        }
        let awaited = self.count(|node| !is_renewed(node) && node.renewing >= renewal);
        (renewed + awaited < self.majority).then_some(RenewalVerdict::NoQuorum)
    }

    /// Returns until which local time this round waits for nodes that have not answered; `None`
    /// while no majority has, because nothing can be decided without one.
    pub fn patience_until_us(&self) -> Option<u64> {
        self.patience_us
    }

    /// Returns its verdict at this time.
    pub fn verdict(&mut self, now_us: u64) -> RedlockVerdict {
        match self.stage {
            ContenderStage::Idle => RedlockVerdict::Idle,
            ContenderStage::Over | ContenderStage::Lost => RedlockVerdict::Lost,
            ContenderStage::Asking => self.count_votes(now_us),
            ContenderStage::Adopted => RedlockVerdict::Open,
            ContenderStage::Held => self.hold(now_us),
        }
    }

    fn count_votes(&mut self, now_us: u64) -> RedlockVerdict {
        let votes = self.count(|node| node.vote.is_some());
        if votes >= self.majority {
            let until_us = self.until_us();
            if until_us <= now_us {
                return RedlockVerdict::Over;
            }
            self.stage = ContenderStage::Held;
            return RedlockVerdict::Held { until_us };
        }
        let is_patient = self.patience_us.is_none_or(|until_us| now_us < until_us);
        let awaited = self.count(|node| node.is_asked_in(self.round) && is_patient);
        let busy = self.count(|node| node.denial == NodeDenial::Busy);
        let refused = self.count(|node| matches!(node.denial, NodeDenial::Refused(_)));
        let refusal = self.nodes.iter().find_map(|node| match node.denial {
            NodeDenial::Refused(refusal) => Some(refusal),
            _ => None,
        });
        let answered = votes + busy + refused;
        match refusal {
            _ if votes + awaited >= self.majority => RedlockVerdict::Open,
            _ if votes + busy >= self.majority => RedlockVerdict::Busy,
            Some(refusal) if answered >= self.majority => RedlockVerdict::Refused(refusal),
            // No majority can grant it, but it is still open whether a majority says so.
            _ if answered + awaited >= self.majority => RedlockVerdict::Open,
            _ => RedlockVerdict::NoQuorum,
        }
    }

    fn hold(&mut self, now_us: u64) -> RedlockVerdict {
        let left = self.count(|node| node.vote.is_some() && !node.revoked);
        let until_us = self.until_us();
        if until_us > now_us {
            let is_revoked = left < self.majority && self.nodes.iter().any(|node| node.revoked);
            return if is_revoked {
                RedlockVerdict::Revoked
            } else {
                RedlockVerdict::Held { until_us }
            };
        }
        self.stage = ContenderStage::Lost;
        RedlockVerdict::Lost
    }

    /// Returns until when a majority of nodes have granted it.
    fn until_us(&self) -> u64 {
        let mut ends: Vec<u64> = self.nodes.iter().filter_map(|node| node.vote).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends.get(self.majority - 1).copied().unwrap_or(0)
    }

    fn count(&self, wanted: impl Fn(&ContenderNode) -> bool) -> usize {
        self.nodes.iter().filter(|node| wanted(node)).count()
    }

    /// Returns until which local time too many nodes are in quarantine for a majority to grant.
    pub fn quarantined_until_us(&self, now_us: u64) -> Option<u64> {
        let end = |node: &ContenderNode| match node.denial {
            NodeDenial::Refused(Refusal::Quarantined { until_ms }) => until_ms * 1_000,
            _ => 0,
        };
        let mut ends: Vec<u64> = self.nodes.iter().map(end).collect();
        ends.sort_unstable();
        Some(ends[self.majority - 1]).filter(|until_us| *until_us > now_us)
    }

    /// Returns, for each node that has not granted it, the reason as far as it is known.
    pub fn troubles(&self) -> Vec<(usize, String)> {
        let troubles = self.nodes.iter().enumerate();
        troubles.filter_map(|(number, node)| Some((number, node.trouble_text()?))).collect()
    }
}
