//! How bytes get to servers, and which server they get to.
//!
//! ```text
//!   call(key, command) ─► Net ─► which server?   topology: one, Sentinel's master, Cluster's slots
//!                          │
//!                        Door ─► Session = Link + Bound   one at a time, opened on demand
//!                                   │
//!                                 Link ◄─► one run of one server, and its wake-ups
//! ```

mod ask;
mod check;
mod cluster;
mod dial;
mod door;
mod ear;
mod entered;
mod facts;
pub(super) mod failure;
mod line;
pub(super) mod link;
mod look;
mod nodes;
mod opener;
mod secret;
mod sentinel;
pub(super) mod session;
mod slots;
mod solo;
pub(super) mod topology;
pub(super) mod url;
mod url_options;

#[cfg(test)]
mod tests;
