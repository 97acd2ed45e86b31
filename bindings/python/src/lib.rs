//! The native part of the Python package `taketurns`: the Rust client as Python objects, without a policy of its own.
//!
//! ```text
//!   taketurns (sync)  taketurns.aio        python/taketurns: what users import, and all types
//!          │               │
//!   ┌──────▼───────────────▼──────┐
//!   │ Client ─► Operation ─► Guard│        src/client.rs, operation.rs, guard.rs
//!   └──────┬───────────────▲──────┘
//!      polls│        Mailbox│wakes         src/mailbox.rs: tells Python threads, without the GIL
//!   ┌───────▼───────────────┴─────┐
//!   │ crates/taketurns            │
//!   └─────────────────────────────┘
//! ```
//!
//! **No thread of the client waits for the GIL.** Wakers, log events and metrics are called on the client's own thread,
//! which also renews leases. A program that computes for a minute with the GIL held keeps its locks. So these only note
//! what happened, in a mailbox or a counter, and a Python thread reads it.
//!
//! **The GIL is released** while the client is polled: it may write to a socket or a file, and takes mutexes that its
//! own thread takes as well.
//!
//! **After a fork** every object of the parent refuses to work (`process.rs`), and drops nothing: its connection is
//! the parent's.

mod client;
mod error;
mod guard;
mod handle;
mod logs;
mod mailbox;
mod meters;
mod observer;
mod operation;
mod process;
mod request;
mod views;

use pyo3::prelude::*;

/// What `taketurns` imports from here. `_taketurns.pyi` has the types.
#[pymodule]
mod _taketurns {
    #[pymodule_export]
    use super::client::{PyClient, connect};
    #[pymodule_export]
    use super::guard::{PyAllGuard, PyGuard};
    #[pymodule_export]
    use super::handle::PyHandle;
    #[pymodule_export]
    use super::logs::{log_level, take_logs};
    #[pymodule_export]
    use super::mailbox::PyMailbox;
    #[pymodule_export]
    use super::meters::{enable_metrics, render_metrics, tidy_metrics};
    #[pymodule_export]
    use super::observer::PyObserver;
    #[pymodule_export]
    use super::operation::PyOperation;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::logs::listen();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
