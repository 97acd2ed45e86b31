//! Futures for any executor: with tokio's timers at hand, and several at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::runtime::Handle;

/// Runs a future with the runtime at hand whenever it is polled, whoever polls it.
pub(crate) async fn entered<F: Future>(runtime: &Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _guard = runtime.enter();
        future.as_mut().poll(context)
    })
    .await
}

/// Runs a few futures at once, each to its end.
pub(crate) async fn together<T>(
    futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>,
) -> Vec<T> {
    let mut pending: Vec<_> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (slot, done) in pending.iter_mut().zip(&mut done) {
            if let Some(future) = slot
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
                *slot = None;
            }
        }
        if pending.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
