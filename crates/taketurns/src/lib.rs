//! A distributed lock, for the things that several programs share: a nightly job, an order, a device, a leader's
//! seat.
//!
//! Every lock is **fair** (first come, first served), **fenced** (each grant has a larger token than
//! the one before), **leased** (it ends by itself if its holder dies), **event-driven** (a release
//! wakes the next waiter; nobody polls) and **cancel-safe** (a dropped future leaves nothing behind).
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
//! | [`Locks::election`] | one leader at a time, and who it is |
//! | [`fence`] | the other side: a resource that refuses stale writers |
//! | [`blocking`] | all of it without async: `wait()` for `.await` |
//! | [`manual`] | which store, in cron, in Kubernetes, coming from another lock, and what it can't do |
//! | [`doctor`] | is a store fit to hold locks? |
//!
//! Connections, renewal and wake-ups run on a thread of their own, so a blocked runtime does not lose its locks. A
//! runtime with several threads reads the answers to its own requests, as long as it does so in time. [`connect_on`]
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
mod loading;
mod lock;
mod locks;
#[cfg(any(doc, doctest))]
pub mod manual;
mod meter;
mod mutex;
mod operation;
mod pool;
mod random;
mod runtime;
mod rwlock;
mod semaphore;
mod shell;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod sync;
mod telling;

pub use acquire::{Acquire, AcquireFuture};
pub use all::{AcquireAll, All, AllGuard};
pub use break_lock::BreakLock;
pub use connect::{Connect, connect, connect_on};
pub use election::{Election, Observer};
pub use error::{Error, ErrorKind, NoQuorum, NodeTrouble};
pub use guard::{Guard, ReleaseFuture};
pub use handle::Handle;
pub use locks::Locks;
pub use mutex::Mutex;
pub use pool::Pool;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use taketurns_core::limits;
pub use taketurns_core::session::LossCause;
pub use taketurns_core::{
    Ask, ClientId, HolderView, InvalidLabel, InvalidName, Kind, Label, Member, MemberView, Name,
    Token, View, WaiterView,
};

/// The snippets of these are compiled as tests. Those of the other pages are in [`manual`].
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/metrics.md")]
struct Readme;
