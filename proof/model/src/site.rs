//! All that belongs to one node, so that states which differ only in which node is which can be told to
//! be the same.

use crate::{CLIENTS, client::NodeView, net::ModelNetwork, node::ModelNode};

/// All that belongs to one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ModelSite {
    /// The node itself.
    pub node: ModelNode,
    /// What each client knows of it.
    pub views: [NodeView; CLIENTS],
    /// What is under way to and from it.
    pub net: ModelNetwork,
    /// The highest grant of each client whose lease ended here.
    pub lapsed: [u8; CLIENTS],
    /// The grant that it forgot when it restarted, and whose: not over before its quarantine is.
    pub forgotten: Option<(u8, u8)>,
    /// Bit `a * CLIENTS + b`: since before `b` began, `a` has been here at its ticket.
    pub(crate) before: u16,
}

impl ModelSite {
    /// Whether `a` has been here at its ticket since before `b` began.
    pub(crate) fn is_before(&self, a: usize, b: usize) -> bool {
        self.before & (1 << (a * CLIENTS + b)) != 0
    }

    /// `a` was not here all the time.
    pub(crate) fn gone(&mut self, a: usize) {
        self.before &= !(0b111 << (a * CLIENTS));
    }
}
