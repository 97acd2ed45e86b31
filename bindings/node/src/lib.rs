//! The taketurns package for Node, as an addon of Node. The JavaScript in `lib` is its only user: it makes classes,
//! promises, errors and signals of what is here, and `lib/index.d.ts` is what users see.
//!
//! ```text
//!   lib/*.js ── numbers of operations, plain values ──► Binding ──► crates/taketurns
//!      ▲                                                   │
//!      └──── turn(): what came of which operation ◄── TaskTable ◄── wakers of any thread (ReadyQueue)
//! ```
//!
//! Each thread of JavaScript (the main one and every worker) has a [`Binding`](binding::Binding) of its own, and nothing is shared
//! between them. The client's futures are polled on the thread that asked. There is no other thread here: renewals
//! and connections are on the client's own.
//!
//! Nothing is decided here. What a lock does is `crates/taketurns`.

// The macros of napi make functions that Node calls with raw pointers. Nothing else here is unsafe.
#![allow(unsafe_code)]

pub mod binding;
pub mod failure;
mod farewell;
pub mod options;
pub mod outcome;
mod ready;
mod tasks;
pub mod view;
