//! Fair, fenced locks inside Redis and Valkey, for any client in any language.
//!
//! A thin shell around `taketurns-core`: a key holds a `Record`, a command is one step of
//! its lock, and each step that changed something is repeated on the replicas and in the log.
//!
//! ```text
//!   a command ─► commands ─► open_lock: a key being worked on ─► record: one step (pure)
//!                              │  entry  ─► replicas, log
//!                              │  wakes  ─► blocked clients, or PUBLISH to programs
//!                              └─ track  ─► state: who waits where, who polls, what is due when
//!   a timer, a connection that closed, a key that went ─► chores ─► open_lock
//! ```
//!
//! Invariant: between two commands nobody who could be granted waits, but for what a timer that is
//! armed will do. `open_lock` upholds it after each step, `chores` after whatever else happens.

mod binding;
mod blocked;
mod chores;
mod clock;
mod commands;
mod entry;
mod facts;
#[cfg(test)]
mod fuzz;
mod info;
mod open_lock;
mod polls;
mod problem;
mod record;
mod secret;
mod show;
mod state;
#[allow(unsafe_code)]
mod sys;
mod takeover;
mod words;
