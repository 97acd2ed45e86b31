//! A connection that lives, and then is dead for good: once, and everything of it together.
//!
//! ```text
//!   driver task ended ─┐
//!   ear task ended ────┼─► die() ─► connection dropped, tasks ended, `died` called: each once
//!   no answer in time ─┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::AbortHandle;

use super::mux::Mux;
use crate::sync::{Mutex, lock};

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) type Died = Arc<dyn Fn() + Send + Sync>;

/// A connection and the tasks that drive it.
pub(crate) struct Line {
    mux: Mux,
    is_alive: AtomicBool,
    /// `None` once it is dead.
    tasks: Mutex<Option<Vec<Task>>>,
    died: Died,
}

impl Line {
    pub(crate) fn new(mux: Mux, died: Died) -> Self {
        let (is_alive, tasks) = (AtomicBool::new(true), Mutex::new(Some(Vec::new())));
        Self { mux, is_alive, tasks, died }
    }

    /// Ties a task to this line. On a dead one it ends at once.
    pub(crate) fn keep(&self, task: Task) {
        if let Some(tasks) = lock(&self.tasks).as_mut() {
            tasks.push(task);
        }
    }

    pub(crate) fn mux(&self) -> Option<&Mux> {
        self.is_alive().then_some(&self.mux)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Acquire)
    }

    /// The connection is lost or not wanted any more, and somebody has to know.
    pub(crate) fn die(&self) {
        if self.end() {
            (self.died)();
        }
    }

    /// Ends it without a word. Says whether it was alive.
    pub(crate) fn end(&self) -> bool {
        if !self.is_alive.swap(false, Ordering::AcqRel) {
            return false;
        }
        // Dropped after the mutex is let go of: a task's end may come back here.
        let tasks = lock(&self.tasks).take();
        drop(tasks);
        // Some may still wait for an answer.
        self.mux.end();
        true
    }
}
