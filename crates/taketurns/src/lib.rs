//! A distributed lock for what several programs share: a nightly job, an order, a device, the leader's role.
//!
//! Every lock is **fair** (first come, first served), **fenced** (each grant has a larger token than the one before),
//! **leased** (it ends by itself if its holder dies), **event-driven** (a release wakes the next waiter; nobody polls)
//! and **cancel-safe** (a dropped future leaves nothing behind).
//!
//! ```
//! # use taketurns::blocking::Wait;
//! # async {
//! use std::time::Duration;
//!
//! let locks = taketurns::connect("memory:").await?; // or "redis://127.0.0.1", …
//! let guard = locks.mutex("orders/42").acquire().within(Duration::from_secs(5)).await?;
//! // Still held? Here is the token; the resource refuses older ones.
//! let token = guard.check()?;
//! guard.release().await?;
//! # let _ = token;
//! # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
//! ```
//!
//! | | |
//! |---|---|
//! | [`Locks::mutex`] | one holder |
//! | [`Locks::rwlock`] | many readers or one writer |
//! | [`Locks::semaphore`] | a number of permits |
//! | [`Locks::pool`] | named members: take any, or a named one |
//! | [`Locks::all`] | several mutexes at once, without deadlock |
//! | [`Locks::once`] | work that is done once, and remembered |
//! | [`Locks::election`] | leader election: one leader at a time, and who it is |
//! | [`fence`] | fencing on the resource's side: refuse stale writers |
//! | [`blocking`] | all of it without async: `wait()` in place of `.await` |
//! | [`manual`] | the manual: which store to use, cron, Kubernetes, migrating from another lock, limits |
//! | [`doctor`] | checks whether a store is fit to hold locks |
//!
//! Connections, renewals and wake-ups run on a thread of their own, so a blocked runtime does not lose its locks. A
//! runtime with several threads reads the replies to its own requests, as long as it does so in time. [`connect_on`]
//! uses the caller's runtime for everything.

mod acquire;
mod all;
pub mod blocking;
mod break_lock;
mod client;
mod clock;
mod connect;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod costs;
pub mod doctor;
mod driver;
mod election;
pub mod engine;
mod error;
pub mod fence;
mod guard;
mod handle;
mod keeper;
mod loading_wait;
mod lock;
mod locks;
#[cfg(any(doc, doctest))]
pub mod manual;
mod meter;
mod once;
mod operation;
mod random;
mod runtime;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod sync;
mod telling;

pub use acquire::{Acquire, Keep};
pub use all::{AcquireAll, All, AllGuard};
pub use break_lock::BreakLock;
pub use connect::{Connect, connect, connect_on};
pub use election::{Election, Observer};
pub use error::{Error, ErrorKind, NoQuorum, NodeTrouble};
pub use guard::{Guard, ReleaseFuture};
pub use handle::Handle;
pub use lock::{Mutex, Pool, RwLock, Semaphore};
pub use locks::Locks;
pub use once::{Attempt, Begun, Once, OnceOutcome};
pub use operation::AcquireFuture;
pub use taketurns_core::limits;
pub use taketurns_core::session::LossCause;
pub use taketurns_core::{
    Ask, ClientId, Completion, HolderView, InvalidLabel, InvalidName, InvalidNote, Kind, Label,
    Member, MemberView, Name, Note, OnceTerms, Token, View, WaiterView, WorkView,
};

/// The snippets of these pages are compiled as tests. [`manual`] has the other pages.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/metrics.md")]
#[doc = include_str!("../docs/tutorial.md")]
struct Readme;
