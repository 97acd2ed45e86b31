//! Histories of locks: what clients asked for, were granted and were told, and what went wrong
//! meanwhile, on one clock.
//!
//! ```text
//!   simulation ─┐                       ┌─► check: what can't be, one file per guarantee
//!               ├─► History: one event  ┤
//!   torture ────┘   after the other     └─► summary, timeline
//! ```
//!
//! A history knows nothing of how a lock works: it holds only what anybody outside can see. So the
//! same checks try the simulation, every engine on real servers, and what a file says:
//! `cargo run -p taketurns-history -- FILE…` checks, counts and draws it.

mod event;
mod file;
pub mod invariants;
mod ops;
pub mod summary;
pub mod timeline;
mod units;

pub use event::{EventKind, HistoryAsk, HistoryEvent, HistoryLock, LockKind};
pub use file::{HistoryFileError, UnreadableLine, read, read_all, write};
pub use invariants::{Guarantee, Violation, check};
pub use ops::{Op, Ops};
pub use summary::Summary;
