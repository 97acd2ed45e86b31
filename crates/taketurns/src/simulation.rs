//! A simulated machine: the simulation supplies its clock, timers, tasks and random bits, and the
//! stores under `simulated:NAME`.
//!
//! So whole clients run the same way again from the same seed, a year in a second. Only for tests
//! of this crate and of programs that use it; needs the feature `simulation`.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Open;

/// A task of a simulation.
pub type MachineTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a client needs of the machine that it runs on.
pub trait Machine: Send + Sync + 'static {
    /// Returns the time of its clock, in µs. It never goes back.
    fn now_us(&self) -> u64;

    /// Resolves after that time on its clock.
    fn sleep(&self, for_: Duration) -> MachineTask;

    /// Runs a task.
    fn spawn(&self, task: MachineTask);

    /// Returns random bits.
    fn random(&self) -> u64;

    /// Returns the opener of the store of that name, if there is one.
    fn store(&self, name: &str) -> Option<Box<dyn Open>>;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Machine>>> = const { RefCell::new(None) };
}

/// Until this is dropped, everything this thread does is done on the machine.
#[must_use = "the machine is left when this is dropped"]
pub struct MachineGuard(Option<Arc<dyn Machine>>);

/// Enters a machine.
pub fn enter(machine: Arc<dyn Machine>) -> MachineGuard {
    MachineGuard(CURRENT.replace(Some(machine)))
}

impl Drop for MachineGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Sleeps on the machine that this runs on; for ever if it runs on none.
pub async fn sleep(for_: Duration) {
    match ask(|machine| machine.sleep(for_)) {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

pub(crate) fn current() -> Option<Arc<dyn Machine>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Calls the machine that this thread is on, if any.
pub(crate) fn ask<T>(question: impl FnOnce(&dyn Machine) -> T) -> Option<T> {
    CURRENT.with_borrow(|machine| machine.as_deref().map(question))
}
