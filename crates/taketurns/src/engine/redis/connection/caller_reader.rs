//! The tasks that read on the runtimes of callers.
//!
//! ```text
//!   connections of one client ── join ─► ReaderGroup ─► CallerTask: one for all of them, on the caller's runtime
//! ```
//!
//! A client of a quorum has a connection to each node, and their replies come at nearly the same time. With a task for
//! each, a runtime that finds two of them ready wakes a second thread to help, which costs more than to read both. So
//! the connections that began on one thread, the client's own, share a task on the runtime of the caller.

use std::mem::take;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::runtime::{Handle, Id};

use super::multiplexer::{NoReply, Shared, keep_waker};
use super::reader::ReadStop;
use super::reader_slot::ABANDONED;
use crate::sync::lock;

/// Reads one connection on the runtime of a caller, for as long as the reader has this place.
pub(super) struct CallerReader {
    shared: Arc<Shared>,
    place: u64,
}

impl CallerReader {
    pub(super) fn new(shared: &Arc<Shared>, place: u64) -> Self {
        Self { shared: shared.clone(), place }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.turn(self.place, context).map(|stop| match stop {
            ReadStop::NoReply(lost) => self.shared.end(lost),
            ReadStop::Moved => {}
        })
    }
}

/// Also if its runtime ends, before or after it was first polled.
impl Drop for CallerReader {
    fn drop(&mut self) {
        let place = &self.shared.slot.place;
        let abandoned =
            place.compare_exchange(self.place, ABANDONED, Ordering::AcqRel, Ordering::Relaxed);
        if abandoned.is_err() {
            return;
        }
        if thread::panicking() {
            // Some of what was read may not have been handed out.
            self.shared.end(NoReply::Ended);
            return;
        }
        let keeper = lock(&self.shared.state).keeper.clone();
        keeper.into_iter().for_each(Waker::wake);
    }
}

thread_local! {
    static GROUP: Arc<ReaderGroup> = Arc::default();
}

/// Connections that read in one task if they read on the same runtime of a caller.
#[derive(Default)]
pub(super) struct ReaderGroup {
    task: Mutex<Option<Arc<JoinQueue>>>,
}

/// How readers get to a task that runs.
struct JoinQueue {
    caller: Id,
    /// Somebody joins: without that the task looks at nothing else here.
    has_joining: AtomicBool,
    state: Mutex<JoinState>,
}

#[derive(Default)]
struct JoinState {
    joining: Vec<CallerReader>,
    waker: Option<Waker>,
    /// The task reads no more.
    is_over: bool,
}

impl ReaderGroup {
    /// Returns the group of the connections that begin on this thread.
    pub(super) fn of_thread() -> Arc<Self> {
        GROUP.with(Arc::clone)
    }

    /// Has a task of the caller's runtime read.
    pub(super) fn join(&self, caller: &Handle, reader: CallerReader) {
        let mut task = lock(&self.task);
        if let Some(queue) = task.as_ref().filter(|queue| queue.caller == caller.id()) {
            let mut state = lock(&queue.state);
            if !state.is_over {
                state.joining.push(reader);
                queue.has_joining.store(true, Ordering::Release);
                let waker = state.waker.clone();
                drop(state);
                drop(task);
                return waker.into_iter().for_each(Waker::wake);
            }
        }
        let (has_joining, state) = (AtomicBool::new(true), Mutex::default());
        let queue = JoinQueue { caller: caller.id(), has_joining, state };
        let queue = task.insert(Arc::new(queue)).clone();
        drop(task);
        drop(caller.spawn(CallerTask { queue, readers: vec![reader] }));
    }
}

/// Reads the connections of one group. It ends with the last of them.
struct CallerTask {
    queue: Arc<JoinQueue>,
    readers: Vec<CallerReader>,
}

impl Future for CallerTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.readers.retain(|reader| reader.poll(context).is_pending());
            let this = &mut *self;
            if !this.queue.has_joining.swap(false, Ordering::AcqRel) && !this.readers.is_empty() {
                return Poll::Pending;
            }
            let mut state = lock(&this.queue.state);
            keep_waker(&mut state.waker, context);
            if !state.joining.is_empty() {
                this.readers.append(&mut state.joining);
                continue;
            }
            state.is_over = this.readers.is_empty();
            return if state.is_over { Poll::Ready(()) } else { Poll::Pending };
        }
    }
}

impl Drop for CallerTask {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        state.is_over = true;
        let rest = (take(&mut state.joining), state.waker.take());
        drop(state);
        drop(rest);
    }
}
