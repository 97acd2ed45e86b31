//! Readers of the core, each given genuine words that were damaged. None panics; what is read is
//! written and read again as the same; and what was taken for a lock goes on as one.
//!
//! ```text
//!   life        locks and requests as they may be
//!   names       names, labels, patterns
//!   words       requests, replies and wake-ups on the wire
//!   snapshots   stored locks
//! ```

mod life;
mod names;
mod snapshots;
mod words;
