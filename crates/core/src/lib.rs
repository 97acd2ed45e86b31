//! The distributed lock of `taketurns` as a pure state machine.
//! ```text
//!            now, request
//!                 │
//!                 ▼
//!   ┌───────────────────────────┐      Step
//!   │ Lock::apply               │ ──► reply   to the client that asked
//!   │   holders · queue · token │ ──► wakes   to clients that were granted or revoked
//!   └───────────────────────────┘ ──► more    set when one step was not enough
//! ```
//!
//! This crate does no I/O, reads no clock, draws no random number and has no async code. Time and
//! ids come in as arguments, so every decision can be replayed. The memory and file engines run it,
//! and it is the model that the other engines are tested against.
//!
//! [`session`] is the other half: what a client decides on its own (when to renew, when a guard
//! counts as lost, when to ask again). It is pure as well.
//!
//! ```
//! use taketurns_core::{AcquireRequest, Ask, ClientId, Label, Lock, Now, Owner, Reply, Request};
//!
//! let mut lock = Lock::new();
//! let now = Now { ms: 1_000, wall_us: 1_790_000_000_000_000 };
//! let step = lock.apply(now, &Request::Acquire(AcquireRequest {
//!     owner: Owner::from_bits(1),
//!     client: ClientId::from_bits(7),
//!     ask: Ask::Mutex,
//!     at_least_ms: 0,
//!     lease_ms: 30_000,
//!     waiter_lease_ms: Some(3_000),
//!     not_after_ms: 11_000,
//!     ballot: None,
//!     label: Label::default(),
//! }));
//! assert!(matches!(step.reply, Reply::Granted(grant) if grant.deadline_ms == 31_000));
//! ```
#![forbid(unsafe_code)]

mod ids;
mod kind;
pub mod limits;
mod lock;
mod name;
pub mod quorum;
pub mod redlock;
mod request;
pub mod session;
pub mod wire;

pub use ids::{ClientId, Owner, Token};
pub use kind::{Ask, Kind, OnceTerms};
pub use lock::{
    Completion, CorruptSnapshot, HolderView, Lock, MemberView, Snapshot, View, WaiterView, WorkView,
};
pub use name::{InvalidLabel, InvalidName, InvalidNote, Label, Member, Name, Note, Pattern};
pub use request::{
    AcquireRequest, AttemptEnd, Ballot, Grant, Now, Place, Refusal, Reply, Request, Step, Vote,
    Wake, WakeEvent, WriteBack,
};

/// The example of the README is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CoreReadme;
