//! Futures for any executor: with tokio's timers at hand.

use std::future::{Future, poll_fn};
use std::pin::pin;

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
