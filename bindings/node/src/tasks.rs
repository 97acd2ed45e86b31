//! The futures that run on one event loop of Node: an executor without a thread.
//!
//! A future is polled where JavaScript started it, and again when it was woken. So a request is sent by the thread that
//! makes it, and what is granted at once is answered without a turn of the loop.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::outcome::Outcome;
use crate::ready::ReadyQueue;

type TaskFuture = Pin<Box<dyn Future<Output = Outcome>>>;

/// All tasks of one event loop, by their numbers. JavaScript gives a number only once.
pub(crate) struct TaskTable {
    queue: Arc<ReadyQueue>,
    tasks: RefCell<HashMap<i64, Task>>,
}

struct Task {
    future: TaskFuture,
    waker: Waker,
}

impl TaskTable {
    pub(crate) fn new(queue: Arc<ReadyQueue>) -> Self {
        Self { queue, tasks: RefCell::default() }
    }

    /// Polls a future for the first time. Returns its output, or keeps it as a task.
    pub(crate) fn start(
        &self,
        number: i64,
        future: impl Future<Output = Outcome> + 'static,
    ) -> Option<Outcome> {
        self.poll(number, Task { future: Box::pin(future), waker: self.queue.waker(number) })
    }

    /// The same for a future whose output is always the business of a later turn.
    pub(crate) fn watch(&self, number: i64, future: impl Future<Output = Outcome> + 'static) {
        if let Some(outcome) = self.start(number, future) {
            let task = Task { future: Box::pin(ready(outcome)), waker: Waker::noop().clone() };
            self.tasks.borrow_mut().insert(number, task);
            self.queue.push(number);
        }
    }

    /// Polls every task that was woken. Returns the outputs of those that are done.
    pub(crate) fn turn(&self) -> Vec<(i64, Outcome)> {
        let poll = |number| {
            // It may be over, if it was woken twice or cancelled since.
            let task = self.tasks.borrow_mut().remove(&number)?;
            Some((number, self.poll(number, task)?))
        };
        self.queue.take().into_iter().filter_map(poll).collect()
    }

    /// Drops a task, if it is there.
    pub(crate) fn cancel(&self, number: i64) {
        // Dropped after the table is free again: a future does all kinds of things when it is dropped.
        let task = self.tasks.borrow_mut().remove(&number);
        drop(task);
    }

    /// Drops all tasks. Returns whether there were any.
    pub(crate) fn clear(&self) -> bool {
        let tasks = self.tasks.take();
        !tasks.is_empty()
    }

    /// Nothing is borrowed while the future runs.
    fn poll(&self, number: i64, mut task: Task) -> Option<Outcome> {
        match task.future.as_mut().poll(&mut Context::from_waker(&task.waker)) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => {
                self.tasks.borrow_mut().insert(number, task);
                None
            }
        }
    }
}
