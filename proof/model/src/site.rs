//! All that belongs to one node, so that states which differ only in which node is which can be told to
//! be the same.

use crate::{CLIENTS, client::Seat, net::Net, node::Node};

/// All that belongs to one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Site {
    /// The node itself.
    pub node: Node,
    /// What each client knows of it.
    pub seats: [Seat; CLIENTS],
    /// What is under way to and from it.
    pub net: Net,
    /// The highest grant of each client whose lease ended here.
    pub lapsed: [u8; CLIENTS],
    /// The grant that it forgot when it restarted, and whose: not over before its quarantine is.
    pub forgotten: Option<(u8, u8)>,
    /// Bit `a * CLIENTS + b`: since before `b` began, `a` has been here at its ticket.
    pub(crate) before: u16,
}

impl Site {
    /// Whether `a` has been here at its ticket since before `b` began.
    pub(crate) fn is_before(&self, a: usize, b: usize) -> bool {
        self.before & (1 << (a * CLIENTS + b)) != 0
    }

    /// `a` was not here all the time.
    pub(crate) fn gone(&mut self, a: usize) {
        self.before &= !(0b111 << (a * CLIENTS));
    }
}
