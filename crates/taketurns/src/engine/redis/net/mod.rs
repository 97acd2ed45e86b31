//! How bytes get to servers, and which server they get to.
//!
//! ```text
//!   call(key, errand) ─► Net ─► which server?   topology: one, Sentinel's master, Cluster's slots
//!                          │
//!                        Door ─► Session = Link + Bound   one at a time, opened on demand
//!                                   │
//!                                 Link ◄─► one run of one server, and its wake-ups
//! ```

pub(super) mod ask;
pub(super) mod check;
mod cluster;
mod dial;
mod door;
mod ear;
pub(super) mod errand;
pub(super) mod facts;
pub(super) mod failure;
mod frames;
pub(super) mod line;
pub(super) mod link;
mod look;
mod mux;
mod mux_driver;
pub(super) mod nodes;
pub(super) mod opener;
pub(super) mod pops;
mod reader;
mod reader_slot;
mod replicas;
pub(super) mod secret;
pub(super) mod sentinel;
pub(super) mod session;
pub(super) mod slots;
mod socket;
mod solo;
pub(super) mod topology;
pub(super) mod url;
mod url_options;
pub(super) mod words;

#[cfg(test)]
mod tests;
