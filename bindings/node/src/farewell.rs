//! The end of a process or a worker, when JavaScript can't wait any more: gives back what is held, within a second.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long the end of a process waits for a store.
const PATIENCE: Duration = Duration::from_secs(1);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until the future is done, but not for long.
pub(crate) fn wait_a_moment(future: impl Future<Output = ()>) {
    let (deadline, waker) = (Instant::now() + PATIENCE, Arc::new(Unpark(thread::current())).into());
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}
