//! One client: one attempt to hold the lock, and what it knows of each node, which is its [`NodeView`] there.

/// How far a client is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// Not yet begun.
    #[default]
    Idle,
    /// Asked, without a majority of answers.
    Ask,
    /// In line, at a ticket that no longer changes.
    Wait,
    /// Holds, if a majority of its leases is not over.
    Held,
    /// Released, cancelled or lost; goes on saying so until every node has heard it.
    Over,
}

/// One client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ModelClient {
    /// How far it is.
    pub phase: Phase,
    /// Whether it is dead. What it held it holds until its leases are over.
    pub crashed: bool,
    /// Its ticket, once a majority has answered.
    pub ticket: u8,
    /// The token of its confirm round, then of its hold.
    pub token: u8,
    /// The largest token that a node told it of.
    pub told: u8,
}

/// What a client knows of its vote at a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModelVote {
    /// The number of the grant.
    pub g: u8,
    /// The token it was granted with.
    pub token: u8,
    /// The token of the last renewal it was sent, or 0.
    pub asked: u8,
    /// The token that the node acknowledged, or 0. The lease counts from then on.
    pub acked: u8,
    /// Whether somebody before it waits there.
    pub inquired: bool,
}

/// What a client knows of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeView {
    /// Its vote.
    pub vote: Option<ModelVote>,
    /// Whether it is known to wait there.
    pub waits: bool,
    /// The ticket that the node is known to have it at, or 0.
    pub ticket: u8,
    /// The highest grant that it yielded or was told not to hold.
    pub floor: u8,
    /// Whether the node said anything since the last tick.
    pub heard: bool,
    /// Whether the node said nothing between two ticks.
    pub silent: bool,
    /// Whether the node knows that it is gone.
    pub buried: bool,
}
