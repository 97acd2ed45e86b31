//! A model of the quorum protocol, and what checks it.
//!
//! A lock is held on a majority of three nodes that never talk to each other. Every client makes one
//! attempt: it asks all nodes, gets a ticket, waits for votes, has them confirmed, holds, and leaves.
//!
//! ```text
//!   client ──Acquire──► node          every node is one ModelSite: the node, what each client knows of
//!          ◄─Granted───               it, and what is under way between them
//!          ──Renew────►
//!          ◄─Renewed───               ModelState = 3 ModelSites + clients + what may still go wrong
//!          ──Release──►
//! ```
//!
//! **What is modelled.** Messages that are lost, late, doubled or overtaken; leases and places that end
//! at any instant; clients that give up or die; a node that restarts empty; one that is down while the
//! others make progress; client clocks that differ. Numbers are small integers, a step is a
//! [`ModelAction`](state::ModelAction), and the same actions serve [`check`], which looks at every state, and
//! [`random`], which goes further at random.
//!
//! **Invariants.** No two clients hold at one instant. Tokens grow from hold to hold, and the holder has the largest.
//! Nobody holds before another client whose ticket a majority knew before it began. And
//! from every state, once nothing fails any more, everybody gets the lock, also with one node down.
//!
//! **What is not.** Time has no length: a lease is over when its node says so, at the client in the same
//! instant, though really at the client a little earlier ([`state`]). So nothing here tells whether a
//! deadline is computed well. Clocks of nodes appear only as the token that a restarted node begins
//! with. A refresh is an acquire at the client's ticket, since both find out the same. Answers on which
//! nobody acts are left out. There are three nodes, and never more than one that forgets.
//!
//! [`variants`] are versions of the protocol with one thing broken: the model must find each.

pub mod broken;
pub mod check;
pub mod client;
mod client_step;
pub mod config;
pub mod configs;
pub mod drain;
pub mod net;
pub mod node;
pub mod random;
pub mod shrink;
pub mod site;
pub mod state;
mod tidy;
pub mod variants;
pub mod words;

pub use config::{Budget, ModelConfig};

/// How many nodes there are.
pub const NODES: usize = 3;
/// How many of them make a majority.
pub const MAJORITY: usize = NODES / 2 + 1;
/// How many clients there may be.
pub const CLIENTS: usize = 3;
