//! A lock held on a majority of nodes: what a candidate for it decides, as a pure function of what it
//! hears and of time.
//!
//! ```text
//!   start ─► Ask everyone ─┬─ a majority votes, all with one token ────────────────► held
//!                          ├─ a majority answers ─► ticket ─► wait ─ votes ─► confirm ─► held
//!                          └─ no majority can be had ─► busy, refused, no quorum
//! ```
//!
//! Each node is a [`Lock`](crate::Lock) of its own and knows nothing of the others. Invariants:
//!
//! - A candidate is the holder with token T only while a majority of nodes hold a grant for it whose
//!   token is at least T, each acknowledged by a reply and each for longer than until now, counted from
//!   the *sending* of the request. [`Candidate::verdict`] upholds it.
//! - T was the token of a majority of its grants at one time, and each node mints a larger token for
//!   every later grant. So the tokens of holders increase.
//! - A grant that was given up, or that its node says is gone, never counts again, whatever is heard
//!   of it later: grants are told apart by their number. [`Node::floor`] upholds it.
//! - The ticket is settled once, and is the same on all nodes. Whoever has the lowest is given way by all
//!   who have no majority, and so comes to have one.

mod node;
#[cfg(test)]
mod tests;

use node::{Node, Renewing, Standing, Voted};

use crate::client::Anchor;
use crate::{Grant, Refusal, Reply, WakeEvent, WriteBack};

/// How many of these nodes are a majority.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Something to be sent to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// To which.
    pub node: usize,
    /// What.
    pub what: What,
}

/// What is sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An acquire with a ballot.
    Ask {
        /// See [`crate::Ballot::ticket`].
        ticket: Option<u64>,
        /// See [`crate::Ballot::yields`].
        yields: Option<u64>,
        /// Queue if it can't be had at once.
        waits: bool,
    },
    /// A renewal of one grant.
    Renew {
        /// Which, and the token to agree on.
        write_back: WriteBack,
        /// For how long.
        lease_ms: u64,
        /// Of which round of renewals: see [`Candidate::renew`].
        round: u64,
    },
    /// A release of whatever the owner has there.
    Release {
        /// An acquire may still be under way.
        bury: bool,
    },
}

/// Where a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few nodes have answered.
    Open,
    /// It waits in line.
    Waiting {
        /// At this ticket.
        ticket: u64,
    },
    /// It holds the lock.
    Held {
        /// With this token.
        token: u64,
        /// Until this local time.
        until_us: u64,
    },
    /// It held the lock, and does not any more.
    Lost,
    /// It held the lock, which was broken.
    Revoked,
    /// It would not wait, and others hold or wait.
    Busy,
    /// So many nodes refuse it that no majority is left.
    Refused(Refusal),
    /// So many nodes did not answer that no majority is left: see [`Candidate::troubles`].
    NoQuorum,
}

/// One owner's candidacy for one lock.
#[derive(Clone, Debug)]
pub struct Candidate {
    majority: usize,
    lease_ms: u64,
    /// `None` if it would not wait.
    waiter_lease_ms: Option<u64>,
    nodes: Vec<Node>,
    ticket: Option<u64>,
    /// The token that it asks a majority to agree on.
    proposal: u64,
    /// The token with which it holds, or held.
    token: Option<u64>,
    lost: bool,
    over: bool,
    /// Rounds of renewals so far.
    round: u64,
    /// Decides nothing before every node has answered.
    patient: bool,
}

impl Candidate {
    /// For a lease, on so many nodes. Without a waiter lease it does not wait.
    pub fn new(nodes: usize, lease_ms: u64, waiter_lease_ms: Option<u64>) -> Self {
        Self {
            majority: majority(nodes),
            lease_ms,
            waiter_lease_ms,
            nodes: vec![Node::default(); nodes],
            ticket: None,
            proposal: 0,
            token: None,
            lost: false,
            over: false,
            round: 0,
            patient: false,
        }
    }

    /// For what an owner has already. Whoever asks for nothing new need not hurry: with the answers of all
    /// it finds the token that was agreed on.
    pub fn finder(nodes: usize, lease_ms: u64) -> Self {
        Self { patient: true, ..Self::new(nodes, lease_ms, None) }
    }

    /// Asks all nodes of which nothing is known: to begin with, and again after no majority was to be
    /// had.
    pub fn ask(&mut self) -> Vec<Send> {
        let mut sends = Vec::new();
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_blank() {
                self.ask_node(node, None, &mut sends);
            }
        }
        sends
    }

    /// A node answered, or could not be reached.
    pub fn handle_reply(
        &mut self,
        now_us: u64,
        sent: Send,
        heard: Result<(Reply, Anchor), String>,
    ) -> Vec<Send> {
        let (mut sends, node) = (Vec::new(), sent.node);
        self.note_loss(now_us);
        let is_answer = heard.is_ok();
        self.nodes[node].answered(sent.what, is_answer);
        match (sent.what, heard) {
            (what, Ok((Reply::Granted(grant) | Reply::Renewed(grant), anchor))) => {
                self.granted(node, &grant, Some(anchor));
                if let What::Renew { round, .. } = what {
                    self.nodes[node].renewed = self.nodes[node].renewed.max(round);
                }
            }
            (What::Ask { .. }, Ok((Reply::Queued(place), anchor))) => {
                self.nodes[node].queued(place, anchor);
            }
            (What::Ask { .. }, Ok((Reply::Busy, _))) => self.nodes[node].is_busy = true,
            (What::Ask { waits, .. }, Ok((Reply::Refused(Refusal::TooLate), _)))
                if !self.nodes[node].was_late && !self.over =>
            {
                // Its clock was not known well enough, and is now.
                self.nodes[node].was_late = true;
                let ask = What::Ask { ticket: self.ticket, yields: None, waits };
                self.send(node, ask, &mut sends);
            }
            (_, Ok((Reply::Refused(refusal), anchor))) => {
                self.nodes[node].refused(refusal, anchor);
            }
            (What::Renew { write_back, .. }, Ok((Reply::NotHeld, _))) => {
                self.nodes[node].is_gone(write_back.number);
                self.nodes[node].regain = true;
            }
            (What::Renew { .. }, Ok((Reply::Revoked, _))) => self.nodes[node].revoked = true,
            (What::Release { .. }, _) => {}
            (_, Ok((reply, _))) => {
                self.nodes[node].trouble = Some(format!("it answered with {reply:?}"));
            }
            (_, Err(why)) => self.nodes[node].trouble = Some(why),
        }
        self.advance(now_us, &mut sends);
        sends
    }

    /// A node sent a wake-up. How long it was under way is not known: so what it tells of is not
    /// acknowledged yet.
    pub fn handle_wake(&mut self, now_us: u64, node: usize, event: &WakeEvent) -> Vec<Send> {
        let mut sends = Vec::new();
        self.note_loss(now_us);
        match event {
            WakeEvent::Granted(grant) => self.granted(node, grant, None),
            WakeEvent::Inquired { number } => self.nodes[node].inquired(*number),
            WakeEvent::Revoked => self.nodes[node].revoked = true,
            WakeEvent::Refused(refusal) => {
                self.nodes[node].standing = Standing::Nothing;
                self.nodes[node].refusal = Some(*refusal);
            }
        }
        self.advance(now_us, &mut sends);
        sends
    }

    /// The answer to a refresh told of this grant.
    pub fn handle_told(
        &mut self,
        now_us: u64,
        node: usize,
        grant: &Grant,
        anchor: Anchor,
    ) -> Vec<Send> {
        let mut sends = Vec::new();
        self.note_loss(now_us);
        self.granted(node, grant, Some(anchor));
        self.advance(now_us, &mut sends);
        sends
    }

    /// A node has fewer places of ours than it should: this one may have lapsed, or been granted
    /// unheard.
    pub fn handle_missing(&mut self, node: usize) -> Vec<Send> {
        let mut sends = Vec::new();
        if self.waits_on(node) && !self.nodes[node].is_asked() && !self.over {
            self.ask_node(node, self.nodes[node].yields, &mut sends);
        }
        sends
    }

    /// The clock of a node was set forward: what it granted may have ended before its time.
    pub fn handle_clock_set(&mut self, now_us: u64, node: usize) {
        if let Standing::Voted(Voted { number, .. }) = self.nodes[node].standing {
            self.nodes[node].is_gone(number);
        }
        self.note_loss(now_us);
    }

    /// A third of the waiter lease has passed: votes are kept, and nodes that have nothing of us are
    /// asked again.
    pub fn handle_tick(&mut self, now_us: u64) -> Vec<Send> {
        let mut sends = Vec::new();
        let Some(waiter_lease_ms) = self.waiter_lease_ms.filter(|_| self.is_running()) else {
            return sends;
        };
        self.nodes.iter_mut().for_each(Node::forgive);
        self.advance(now_us, &mut sends);
        for node in 0..self.nodes.len() {
            match self.nodes[node].standing {
                Standing::Waiting if self.nodes[node].is_to_hear_of_a_yield() => {
                    self.ask_node(node, self.nodes[node].yields, &mut sends);
                }
                Standing::Nothing if self.nodes[node].is_blank() => {
                    self.ask_node(node, None, &mut sends);
                }
                Standing::Voted(Voted { number, .. }) if !self.nodes[node].is_renewing() => {
                    let write_back = WriteBack { number, token: 0 };
                    self.renew_node(now_us, node, write_back, waiter_lease_ms, &mut sends);
                }
                _ => {}
            }
        }
        sends
    }

    /// Renews what is held, for this long, and asks once more for the votes that it does not have.
    /// [`Candidate::renewed`] says what came of that round.
    pub fn renew(&mut self, now_us: u64, lease_ms: u64) -> Vec<Send> {
        let mut sends = Vec::new();
        let Verdict::Held { token, .. } = self.verdict(now_us) else { return sends };
        self.round += 1;
        self.lease_ms = self.lease_ms.max(lease_ms);
        for node in 0..self.nodes.len() {
            match self.nodes[node].standing {
                Standing::Voted(_) if self.nodes[node].revoked => {}
                Standing::Voted(Voted { number, .. }) => {
                    let write_back = WriteBack { number, token };
                    self.renew_node(now_us, node, write_back, lease_ms, &mut sends);
                }
                _ if self.nodes[node].is_asked() => {}
                _ => {
                    let ask = What::Ask { ticket: self.ticket, yields: None, waits: false };
                    self.send(node, ask, &mut sends);
                }
            }
        }
        sends
    }

    /// It is over: everything is given back, on all nodes, also on those that never answered.
    pub fn give_up(&mut self) -> Vec<Send> {
        self.over = true;
        let release = |(node, state): (usize, &Node)| Send {
            node,
            what: What::Release { bury: state.may_be_asked() },
        };
        self.nodes.iter().enumerate().map(release).collect()
    }

    /// Where it stands at this time. Lost is final.
    pub fn verdict(&mut self, now_us: u64) -> Verdict {
        let Some(token) = self.token else { return self.outlook() };
        self.note_loss(now_us);
        let until_us = self.until_us(token);
        let left = self.nodes.iter().filter(|node| node.vote().is_some() && !node.revoked).count();
        match self.lost {
            false if left < self.majority && self.is_revoked() => Verdict::Revoked,
            false => Verdict::Held { token, until_us },
            true => Verdict::Lost,
        }
    }

    /// How many rounds of renewals there were.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Have a majority of nodes renewed in this round, or one after it? `None` if that is still open.
    pub fn renewed(&self, round: u64) -> Option<bool> {
        let renewed = self.nodes.iter().filter(|node| node.renewed >= round).count();
        let is_open = || self.nodes.iter().any(|node| node.is_renewing_in(round));
        let is_majority = renewed >= self.majority;
        (is_majority || !is_open()).then_some(is_majority)
    }

    /// A grant of this node counts only if its number is larger than this.
    pub fn floor(&self, node: usize) -> u64 {
        self.nodes[node].floor
    }

    /// Has it a place on this node, which a refresh keeps?
    pub fn waits_on(&self, node: usize) -> bool {
        matches!(self.nodes[node].standing, Standing::Waiting)
    }

    /// Until which local time so many nodes are in quarantine that no majority can vote.
    pub fn quarantined_until_us(&self, now_us: u64) -> Option<u64> {
        let mut ends: Vec<u64> =
            self.nodes.iter().map(|node| node.quarantined_until_us.unwrap_or(0)).collect();
        ends.sort_unstable();
        Some(ends[self.majority - 1]).filter(|until_us| *until_us > now_us)
    }

    /// Why each node that has no vote or place of ours has none, as far as it is known.
    pub fn troubles(&self) -> Vec<(usize, String)> {
        let troubles = self.nodes.iter().enumerate();
        troubles.filter_map(|(node, state)| Some((node, state.why()?))).collect()
    }

    /// What is lost by now stays lost, whatever is heard from now on.
    fn note_loss(&mut self, now_us: u64) {
        self.lost |= self.token.is_some_and(|token| self.until_us(token) <= now_us);
    }

    fn is_running(&self) -> bool {
        self.token.is_none() && !self.over
    }

    fn is_revoked(&self) -> bool {
        self.nodes.iter().any(|node| node.revoked)
    }

    /// Where one stands that has not held the lock.
    fn outlook(&self) -> Verdict {
        if let Some(ticket) = self.ticket {
            return Verdict::Waiting { ticket };
        }
        let count =
            |wanted: fn(&Node) -> bool| self.nodes.iter().filter(|node| wanted(node)).count();
        if count(|node| node.is_asked() || node.is_known() || node.is_renewing()) >= self.majority {
            return Verdict::Open;
        }
        let refusal = self.nodes.iter().find_map(|node| node.refusal);
        match refusal {
            _ if count(|node| node.is_busy || node.is_known()) >= self.majority => Verdict::Busy,
            Some(refusal)
                if count(|node| node.is_busy || node.is_known() || node.refusal.is_some())
                    >= self.majority =>
            {
                Verdict::Refused(refusal)
            }
            _ => Verdict::NoQuorum,
        }
    }

    /// Until when a majority of nodes hold a grant for us with at least this token.
    fn until_us(&self, token: u64) -> u64 {
        let votes = self.nodes.iter().filter_map(Node::vote);
        let ends = votes.filter(|vote| vote.token >= token).map(|vote| vote.until_us);
        nth_largest(ends, self.majority)
    }

    /// The token that a majority of acknowledged votes agree on.
    fn agreed(&self, now_us: u64) -> Option<u64> {
        let votes = || self.nodes.iter().filter_map(Node::vote);
        votes().map(|vote| vote.token).find(|token| {
            let ends = votes().filter(|vote| vote.token == *token).map(|vote| vote.until_us);
            nth_largest(ends, self.majority) > now_us
        })
    }

    fn granted(&mut self, node: usize, grant: &Grant, anchor: Option<Anchor>) {
        let given_up = self.nodes[node].granted(grant, anchor);
        if given_up.is_some() && self.is_running() && self.ticket.is_some() {
            // The node has not heard that we gave it up. It is told by the next tick, not now: were it one
            // that has forgotten how large its numbers were, the two of us would go on at full speed.
            self.nodes[node].yields = given_up;
        }
    }

    /// Whatever what is known by now calls for.
    fn advance(&mut self, now_us: u64, sends: &mut Vec<Send>) {
        if self.over {
            return;
        }
        if let Some(token) = self.token {
            if matches!(self.verdict(now_us), Verdict::Held { .. }) {
                self.confirm(now_us, token, sends);
            }
            return;
        }
        if let Some(token) = self.agreed(now_us) {
            self.token = Some(token);
            return;
        }
        if self.patient && self.nodes.iter().any(Node::is_asked) {
            return;
        }
        let patience_us = self.waiter_lease_ms.unwrap_or(self.lease_ms) * 1_000 / 3;
        let responsive = |node: &&Node| node.is_in_reach() && !node.is_stuck(now_us, patience_us);
        let votes = self.nodes.iter().filter(responsive).filter_map(Node::vote);
        let tokens: Vec<u64> = votes.map(|vote| vote.token).collect();
        if tokens.len() < self.majority {
            self.settle_ticket(sends);
            self.give_way(sends);
            return;
        }
        // One proposal after the other: it need not be the largest that there is, but a majority must be
        // able to agree on it.
        if tokens.iter().filter(|token| **token <= self.proposal).count() < self.majority {
            self.proposal = tokens.into_iter().max().unwrap_or(0);
        }
        self.confirm(now_us, self.proposal, sends);
    }

    /// As soon as a majority has answered, the largest of what they said is our ticket; and all nodes
    /// are to have us there.
    fn settle_ticket(&mut self, sends: &mut Vec<Send>) {
        if self.waiter_lease_ms.is_none() {
            return;
        }
        if self.ticket.is_none() {
            let tickets: Vec<u64> = self.nodes.iter().filter_map(|node| node.ticket).collect();
            if tickets.len() < self.majority {
                return;
            }
            self.ticket = tickets.into_iter().max();
        }
        for node in 0..self.nodes.len() {
            let state = &self.nodes[node];
            let is_elsewhere = state.is_known() && state.ticket != self.ticket;
            if is_elsewhere && state.is_in_reach() && !state.is_asked() {
                self.ask_node(node, None, sends);
            }
        }
    }

    /// Writes the token, and the full lease, to every vote that does not have them.
    fn confirm(&mut self, now_us: u64, token: u64, sends: &mut Vec<Send>) {
        for node in 0..self.nodes.len() {
            let state = &self.nodes[node];
            let Some(vote) = state.vote().filter(|_| !state.revoked) else { continue };
            let write_back = WriteBack { number: vote.number, token };
            let is_there = vote.token >= token && vote.until_us > now_us;
            if !is_there && state.is_in_reach() && !state.is_renewing_with(write_back) {
                self.renew_node(now_us, node, write_back, self.lease_ms, sends);
            }
        }
    }

    /// With less than a majority, whoever has a lower ticket comes first.
    fn give_way(&mut self, sends: &mut Vec<Send>) {
        if self.ticket.is_none() {
            return;
        }
        for node in 0..self.nodes.len() {
            match self.nodes[node].standing {
                Standing::Voted(Voted { number, inquired: true, .. }) => {
                    self.nodes[node].is_gone(number);
                    self.nodes[node].standing = Standing::Waiting;
                    self.nodes[node].yields = Some(number);
                    self.ask_node(node, Some(number), sends);
                }
                Standing::Nothing if self.nodes[node].regain && self.nodes[node].is_blank() => {
                    self.ask_node(node, None, sends);
                }
                _ => {}
            }
        }
    }

    fn ask_node(&mut self, node: usize, yields: Option<u64>, sends: &mut Vec<Send>) {
        let waits = self.waiter_lease_ms.is_some();
        self.send(node, What::Ask { ticket: self.ticket, yields, waits }, sends);
    }

    fn renew_node(
        &mut self,
        now_us: u64,
        node: usize,
        write_back: WriteBack,
        lease_ms: u64,
        sends: &mut Vec<Send>,
    ) {
        let round = self.round;
        self.nodes[node].renewing = Some(Renewing { write_back, round, since_us: now_us });
        sends.push(Send { node, what: What::Renew { write_back, lease_ms, round } });
    }

    fn send(&mut self, node: usize, what: What, sends: &mut Vec<Send>) {
        self.nodes[node].asked();
        sends.push(Send { node, what });
    }
}

/// The n-th largest; 0 if there are fewer.
fn nth_largest(values: impl Iterator<Item = u64>, n: usize) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(n - 1).copied().unwrap_or(0)
}
