//! The nodes of a Cluster, and our map of who has which slot.

use std::sync::{Arc, Mutex};

use super::single::SessionSlot;
use super::slots::{self, Range, SLOTS};
use crate::engine::redis::url::Address;
use crate::sync::lock;

/// A node of a Cluster. It keeps its number for as long as the client lives, also if it has no slots for a while.
pub(crate) struct ClusterMember {
    pub(crate) address: Address,
    pub(crate) source: u64,
    pub(crate) slot: SessionSlot,
    /// The key of its marker, and the slot for which it was made: finding one takes long.
    home: Mutex<Option<(u16, Vec<u8>)>>,
}

impl ClusterMember {
    /// The key of its marker, if this is the lowest slot that it has.
    pub(crate) fn marker_key(&self, prefix: &str, lowest: Option<u16>) -> Vec<u8> {
        let Some(slot) = lowest else { return Vec::new() };
        let mut home = lock(&self.home);
        match &*home {
            Some((known, key)) if *known == slot => key.clone(),
            _ => {
                let key = marker_key_in(prefix, slot);
                *home = Some((slot, key.clone()));
                key
            }
        }
    }
}

/// Where the marker of a node is that has this slot and none below it.
pub(crate) fn marker_key_in(prefix: &str, lowest: u16) -> Vec<u8> {
    format!("{prefix}\x01run{{{}}}", slots::tag_of(lowest)).into_bytes()
}

/// Invariant: `lowest` has the lowest slot of each node, by its number. It is asked for at every call.
pub(crate) struct SlotMap {
    nodes: Vec<Arc<ClusterMember>>,
    owners: Vec<Option<Arc<ClusterMember>>>,
    lowest: Vec<Option<u16>>,
}

impl SlotMap {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), owners: vec![None; usize::from(SLOTS)], lowest: Vec::new() }
    }

    /// The node at that address, known or new.
    pub(crate) fn node(&mut self, address: &Address) -> Arc<ClusterMember> {
        if let Some(node) = self.nodes.iter().find(|node| node.address == *address) {
            return node.clone();
        }
        let source = self.nodes.len() as u64;
        let node = Arc::new(ClusterMember {
            address: address.clone(),
            source,
            slot: SessionSlot::default(),
            home: Mutex::default(),
        });
        self.nodes.push(node.clone());
        self.lowest.push(None);
        node
    }

    /// All that were ever known.
    pub(crate) fn nodes(&self) -> Vec<Arc<ClusterMember>> {
        self.nodes.clone()
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Arc<ClusterMember>> {
        self.owners.get(usize::from(slot))?.clone()
    }

    /// The lowest slot that a node has.
    pub(crate) fn lowest(&self, node: &Arc<ClusterMember>) -> Option<u16> {
        self.lowest.get(usize::try_from(node.source).ok()?).copied().flatten()
    }

    fn find_lowest(&mut self) {
        self.lowest.fill(None);
        for (slot, owner) in (0..SLOTS).zip(&self.owners).rev() {
            let Some(owner) = owner else { continue };
            if let Some(lowest) = self.lowest.get_mut(owner.source as usize) {
                *lowest = Some(slot);
            }
        }
    }

    /// Those that have slots, each once.
    pub(crate) fn masters(&self) -> Vec<Arc<ClusterMember>> {
        self.nodes.iter().filter(|node| self.lowest(node).is_some()).cloned().collect()
    }

    /// One slot is elsewhere.
    pub(crate) fn give(&mut self, slot: u16, address: &Address) -> Arc<ClusterMember> {
        let node = self.node(address);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(node.clone());
        }
        self.find_lowest();
        node
    }

    /// A whole new map. Gives the nodes that have no slots in it.
    pub(crate) fn replace(&mut self, ranges: &[Range]) -> Vec<Arc<ClusterMember>> {
        self.owners.fill(None);
        for range in ranges {
            let node = self.node(&range.master);
            self.owners[usize::from(range.first)..=usize::from(range.last)].fill(Some(node));
        }
        self.find_lowest();
        self.nodes.iter().filter(|node| self.lowest(node).is_none()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        Address { host: "h".to_owned(), port }
    }

    fn range(first: u16, last: u16, port: u16) -> Range {
        Range { first, last, master: at(port) }
    }

    #[test]
    fn a_node_keeps_its_number_whatever_becomes_of_its_slots() {
        let mut map = SlotMap::new();
        assert!(map.replace(&[range(0, 99, 1), range(100, 16383, 2)]).is_empty());
        assert_eq!(map.owner(99).unwrap().source, 0);
        assert_eq!(map.owner(100).unwrap().source, 1);
        assert_eq!(map.lowest(&map.owner(100).unwrap()), Some(100));
        assert_eq!(map.give(50, &at(3)).source, 2);
        assert_eq!(map.owner(50).unwrap().address, at(3));
        let idle = map.replace(&[range(0, 16383, 2)]);
        assert_eq!(idle.iter().map(|node| node.source).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(map.masters().len(), 1);
        assert_eq!(map.node(&at(1)).source, 0);
    }
}
