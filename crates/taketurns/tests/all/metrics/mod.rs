//! What is counted, measured and told: each metric moves by exactly what happened, and comes back to
//! where it was.

mod counted;
mod elsewhere;
mod recorded;
#[cfg(feature = "redis")]
mod servers;
mod spans;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// Polls it once, which is enough to have it sent.
fn poll_once<F: Future>(future: F) {
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it waits");
}
