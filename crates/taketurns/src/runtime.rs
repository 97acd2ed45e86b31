//! Where tasks run and how they sleep: on tokio, or on a simulated machine.
//!
//! Everything that a client's decisions depend on goes through here, through [`crate::clock`] and through
//! [`crate::random`], so nothing else can make two runs differ. Engines that use files and servers are not simulated,
//! and use tokio directly.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::clock::local_us;

/// The waker of a poll that begins something for a task that does not wait yet. It is a static, so that it can be
/// recognised: two uses of [`Waker::noop`] may differ, since each codegen unit can have a table of its own.
pub(crate) static NOT_WAITING: &Waker = Waker::noop();

/// No timer sleeps for longer without looking at the clock: timers stop while the machine sleeps,
/// and leases do not.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Runs tasks.
#[derive(Clone)]
pub(crate) enum Runtime {
    Tokio(Handle),
    #[cfg(feature = "simulation")]
    Simulated(std::sync::Arc<dyn crate::simulation::Machine>),
}

impl Runtime {
    /// Returns the runtime that this runs on.
    #[cfg(any(feature = "redis", feature = "simulation"))]
    pub(crate) fn current() -> Self {
        #[cfg(feature = "simulation")]
        if let Some(machine) = crate::simulation::current() {
            return Self::Simulated(machine);
        }
        Self::Tokio(Handle::current())
    }

    /// Runs a future to its end, even if its result is dropped.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> SpawnedTask<T> {
        let (done, result) = oneshot::channel();
        let task = async move {
            let _ = done.send(task.await);
        };
        match self {
            Self::Tokio(handle) => drop(handle.spawn(task)),
            #[cfg(feature = "simulation")]
            Self::Simulated(machine) => machine.spawn(Box::pin(task)),
        }
        SpawnedTask(result)
    }
}

impl Runtime {
    /// Runs a future with this runtime's timers available at every poll, on any thread.
    pub(crate) async fn entered<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Tokio(handle) => entered(handle, future).await,
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => future.await,
        }
    }
}

/// Does the same on tokio.
pub(crate) async fn entered<F: Future>(handle: &Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        // Under shuttle there are no timers.
        #[cfg(not(shuttle))]
        let _entered = handle.enter();
        #[cfg(shuttle)]
        let _ = handle;
        future.as_mut().poll(context)
    })
    .await
}

/// A task that was started. It goes on if this is dropped.
pub(crate) struct SpawnedTask<T>(oneshot::Receiver<T>);

/// `None` if its runtime ended before it did.
impl<T> Future for SpawnedTask<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

/// Sleeps.
pub(crate) async fn sleep(for_: Duration) {
    if cfg!(shuttle) {
        // Under shuttle time stands still.
        return std::future::pending().await;
    }
    #[cfg(feature = "simulation")]
    if crate::simulation::current().is_some() {
        return crate::simulation::sleep(for_).await;
    }
    tokio::time::sleep(for_).await;
}

/// Sleeps until a local time.
pub(crate) async fn sleep_until_us(until_us: u64) {
    loop {
        let left = Duration::from_micros(until_us.saturating_sub(local_us()));
        if left.is_zero() {
            return;
        }
        sleep(left.min(SLEEP_MAX)).await;
    }
}

/// Sleeps until a local time, or for ever.
pub(crate) async fn sleep_until_some(until_us: Option<u64>) {
    match until_us {
        Some(until_us) => sleep_until_us(until_us).await,
        None => std::future::pending().await,
    }
}

/// Returns the future's output if it comes within that time.
pub(crate) async fn timeout<T>(within: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep(within) => None,
    }
}
