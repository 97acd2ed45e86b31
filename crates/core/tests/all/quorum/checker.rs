//! What must hold at every moment, seen from outside: it knows what candidates say and what nodes
//! answer, and looks into neither.

use taketurns_core::Reply;
use taketurns_core::quorum::majority;

/// What is wrong, in words.
pub(crate) type BrokenPromise = String;

/// One attempt, as far as it matters to others.
#[derive(Clone, Debug)]
struct AttemptView {
    name: String,
    /// Token and the true time until which it holds, by its own word.
    held: Option<(u64, u64)>,
    has_held: bool,
    is_over: bool,
    /// At which ticket each node has said that it has it, and the ticket that it has settled on.
    tickets: Vec<Option<u64>>,
    ticket: Option<u64>,
    /// Those that had a ticket on a majority before this one's first message.
    ahead: Vec<usize>,
    /// On which nodes its release was carried out.
    released: Vec<bool>,
}

/// All attempts of one life.
#[derive(Default)]
pub(crate) struct Checker {
    seen: Vec<AttemptView>,
    last_token: u64,
}

impl Checker {
    /// An attempt begins. Answers its number.
    pub(crate) fn begins(&mut self, name: String, nodes: usize) -> usize {
        let is_ahead = |seen: &AttemptView| {
            let placed = seen.tickets.iter().filter(|ticket| **ticket == seen.ticket).count();
            let waits = seen.ticket.is_some() && !seen.has_held && !seen.is_over;
            waits && placed >= majority(nodes)
        };
        let ahead = (0..self.seen.len()).filter(|&other| is_ahead(&self.seen[other])).collect();
        self.seen.push(AttemptView {
            name,
            held: None,
            has_held: false,
            is_over: false,
            tickets: vec![None; nodes],
            ticket: None,
            ahead,
            released: vec![false; nodes],
        });
        self.seen.len() - 1
    }

    pub(crate) fn name(&self, attempt: usize) -> &str {
        &self.seen[attempt].name
    }

    /// It heard at which ticket a node has it: the one that it asked for, or one of the node's own.
    pub(crate) fn placed(
        &mut self,
        attempt: usize,
        node: usize,
        asked: Option<u64>,
        reply: &Reply,
    ) {
        let ticket = &mut self.seen[attempt].tickets[node];
        match reply {
            Reply::Queued(place) => *ticket = Some(place.number),
            Reply::Granted(_) if asked.is_some() => *ticket = asked,
            // Granted at once it is its own ticket.
            Reply::Granted(grant) => *ticket = ticket.or(grant.vote.map(|vote| vote.number)),
            _ => {}
        }
    }

    pub(crate) fn settled(&mut self, attempt: usize, ticket: u64) -> Result<(), BrokenPromise> {
        let seen = &mut self.seen[attempt];
        match seen.ticket.replace(ticket) {
            Some(before) if before != ticket => {
                Err(format!("{} waits at {ticket}, and did at {before}", seen.name))
            }
            _ => Ok(()),
        }
    }

    /// It holds, or still holds, until this true time.
    pub(crate) fn holds(
        &mut self,
        now_us: u64,
        attempt: usize,
        token: u64,
        until_us: u64,
        in_order: bool,
    ) -> Result<(), BrokenPromise> {
        let before = self.seen[attempt].held;
        let name = &self.seen[attempt].name;
        for other in &self.seen {
            let Some((theirs, others_until_us)) = other.held else { continue };
            if other.name != *name && others_until_us > now_us {
                let theirs = format!("{} holds with {theirs} until {others_until_us}", other.name);
                return Err(format!("S1: {name} holds with {token} while {theirs}"));
            }
        }
        match before {
            Some((_, until_us)) if until_us <= now_us => {
                return Err(format!("{name} lost the lock at {until_us}, and has it back"));
            }
            Some((with, _)) if with != token => {
                return Err(format!("{name} held with {with}, and now with {token}"));
            }
            None if token <= self.last_token => {
                let last = self.last_token;
                return Err(format!("S2: {name} holds with {token}, after one with {last}"));
            }
            None => self.last_token = token,
            Some(_) => {}
        }
        if before.is_none() && in_order {
            let overtaken = |other: &&usize| {
                let other = &self.seen[**other];
                !other.has_held && !other.is_over
            };
            if let Some(&other) = self.seen[attempt].ahead.iter().find(overtaken) {
                return Err(format!("S3: {name} holds before {}", self.seen[other].name));
            }
        }
        let seen = &mut self.seen[attempt];
        (seen.held, seen.has_held) = (Some((token, until_us)), true);
        Ok(())
    }

    /// It has lost the lock, or given it or its place up.
    pub(crate) fn ends(&mut self, attempt: usize) {
        (self.seen[attempt].held, self.seen[attempt].is_over) = (None, true);
    }

    /// It will not be heard of any more. What it holds it holds until its time is over.
    pub(crate) fn dies(&mut self, attempt: usize) {
        self.seen[attempt].is_over = true;
    }

    pub(crate) fn released(&mut self, attempt: usize, node: usize) {
        self.seen[attempt].released[node] = true;
    }

    /// A node took the attempt in.
    pub(crate) fn taken_in(&self, attempt: usize, node: usize) -> Result<(), BrokenPromise> {
        let seen = &self.seen[attempt];
        match seen.released[node] {
            true => Err(format!("ghost: node {node} took {} in after its release", seen.name)),
            false => Ok(()),
        }
    }
}
