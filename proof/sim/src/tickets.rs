//! Who comes before whom on a quorum: an operation that all nodes have at one ticket is before all that ask
//! from then on. It goes by what nodes answer, and looks into none.

use std::collections::BTreeMap;

use taketurns::engine::{AcquireRequest, Owner, Reply};

/// Where each node has each owner.
pub(crate) struct Tickets {
    nodes: usize,
    seen: BTreeMap<Owner, BTreeMap<usize, u64>>,
}

impl Tickets {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, seen: BTreeMap::new() }
    }

    /// A node answered an acquire. Tells the operation whose ticket is the same everywhere, once it is.
    pub(crate) fn answered(
        &mut self,
        node: usize,
        acquire: &AcquireRequest,
        reply: &Reply,
    ) -> Option<u64> {
        let asked = acquire.ballot.and_then(|ballot| ballot.ticket);
        let ticket = match reply {
            Reply::Queued(place) => place.number,
            // Granted at once, the vote's number is its ticket.
            Reply::Granted(grant) => asked.or(grant.vote.map(|vote| vote.number))?,
            _ => return None,
        };
        let seen = self.seen.entry(acquire.owner).or_default();
        if is_one(seen, self.nodes) {
            return None;
        }
        seen.insert(node, ticket);
        is_one(seen, self.nodes).then(|| acquire.label.why().parse().ok())?
    }
}

fn is_one(seen: &BTreeMap<usize, u64>, nodes: usize) -> bool {
    let mut tickets = seen.values();
    let first = tickets.next();
    seen.len() == nodes && tickets.all(|ticket| Some(ticket) == first)
}
