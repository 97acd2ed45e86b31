//! Calls to several nodes at once, polled by the task that waits for what they come to.
//!
//! ```text
//!   NodeCalls ─► until(a majority) ─► the task goes on
//!    sends and reads, where it        └─► calls without an answer ─► LateCalls ─► one task for all of them
//!    is awaited
//! ```
//!
//! A task for each call would cost two changes of thread for each node: that is more than the request itself. So the
//! caller's thread writes to all nodes, and handles each reply. It does not wait for the slow: their calls are left to
//! the client's runtime, which collects those of many requests for a moment before it looks at them.

use std::future::{Future, poll_fn};
use std::mem::{replace, take};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use futures_util::future::join_all;

use super::super::EngineFuture;
use super::NodeSet;
use super::node::lock;
use crate::runtime::{NOT_WAITING, sleep};

/// For how long late calls are collected. Nobody waits for their answers, and most have come by then.
const COLLECTED_FOR: Duration = Duration::from_millis(10);

/// Calls that handle their answers themselves. Dropped, they are late: the client's runtime goes on with them in a moment,
/// or at once if none of them was sent yet.
pub(crate) struct NodeCalls {
    nodes: Arc<NodeSet>,
    calls: Vec<EngineFuture<'static, ()>>,
    are_sent: bool,
}

/// Calls that no task waits for any more.
#[derive(Default)]
pub(crate) struct LateCalls(Mutex<LateState>);

#[derive(Default)]
struct LateState {
    calls: Vec<EngineFuture<'static, ()>>,
    /// A task will take them.
    is_collecting: bool,
}

impl NodeCalls {
    /// Calls that are sent when they are first polled.
    pub(crate) fn new<F: Future<Output = ()> + Send + 'static>(
        nodes: &Arc<NodeSet>,
        calls: impl IntoIterator<Item = F>,
    ) -> Self {
        let boxed = |call: F| -> EngineFuture<'static, ()> { Box::pin(call) };
        Self {
            nodes: nodes.clone(),
            calls: calls.into_iter().map(boxed).collect(),
            are_sent: false,
        }
    }

    /// Polls the calls until something has come of them.
    pub(crate) async fn until<T>(&mut self, outcome: impl Future<Output = T>) -> T {
        let mut outcome = pin!(outcome);
        poll_fn(|context| {
            self.poll(context);
            outcome.as_mut().poll(context)
        })
        .await
    }

    /// Lets them go on by the client's runtime, which handles each answer as soon as it comes.
    pub(crate) fn go_on(mut self) {
        self.nodes.runtime.spawn(join_all(take(&mut self.calls)));
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        self.are_sent = true;
        self.calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
    }
}

/// The rest goes on by itself.
impl Drop for NodeCalls {
    fn drop(&mut self) {
        let calls = take(&mut self.calls);
        match self.are_sent {
            _ if calls.is_empty() => {}
            true => self.nodes.leave(calls),
            false => drop(self.nodes.runtime.spawn(join_all(calls))),
        }
    }
}

impl NodeSet {
    /// Leaves calls to the client's runtime.
    fn leave(self: &Arc<Self>, mut calls: Vec<EngineFuture<'static, ()>>) {
        let mut late = lock(&self.late.0);
        late.calls.append(&mut calls);
        if replace(&mut late.is_collecting, true) {
            return;
        }
        drop(late);
        let nodes = self.clone();
        self.runtime.spawn(async move {
            sleep(COLLECTED_FOR).await;
            let late = take(&mut *lock(&nodes.late.0));
            join_all(late.calls).await;
        });
    }

    /// Handles the late answers that have come. A release that knows of them leaves fewer tombstones.
    pub(crate) fn handle_late_answers(self: &Arc<Self>) {
        let mut calls = take(&mut lock(&self.late.0).calls);
        let mut context = Context::from_waker(NOT_WAITING);
        calls.retain_mut(|call| call.as_mut().poll(&mut context).is_pending());
        if !calls.is_empty() {
            self.leave(calls);
        }
    }
}
