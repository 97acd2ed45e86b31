//! All integration tests of the core, in one program: each links the same libraries.
//!
//! ```text
//!   bounds       a step is bounded, however many wait
//!   clients      what a lock says without a step
//!   fuzz         readers, given what is damaged
//!   golden       cases that anyone can read and add to
//!   properties   random lives, held against the promises
//!   quorum       random lives of candidates and nodes of a quorum
//!   taken_over   work that was done elsewhere
//!   turns        tokens for local turns, and the clock
//! ```

mod bounds;
mod clients;
mod fuzz;
mod golden;
mod properties;
mod quorum;
mod taken_over;
mod turns;
