//! A connection that lives, and then is dead for good: once, and everything of it together.
//!
//! ```text
//!   driver task ended ─┐
//!   ear task ended ────┼─► die() ─► connection dropped, tasks ended, `died` called: each once
//!   no answer in time ─┘
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::mux::Mux;

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
    alive: Mutex<Option<Alive>>,
    died: Died,
}

struct Alive {
    mux: Mux,
    tasks: Vec<Task>,
}

/// Nothing can panic under these mutexes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    pub(crate) fn new(mux: Mux, died: Died) -> Self {
        Self { alive: Mutex::new(Some(Alive { mux, tasks: Vec::new() })), died }
    }

    /// Ties a task to this line. On a dead one it ends at once.
    pub(crate) fn keep(&self, task: Task) {
        if let Some(alive) = lock(&self.alive).as_mut() {
            alive.tasks.push(task);
        }
    }

    pub(crate) fn mux(&self) -> Option<Mux> {
        lock(&self.alive).as_ref().map(|alive| alive.mux.clone())
    }

    pub(crate) fn is_alive(&self) -> bool {
        lock(&self.alive).is_some()
    }

    /// The connection is lost or not wanted any more, and somebody has to know.
    pub(crate) fn die(&self) {
        if self.end() {
            (self.died)();
        }
    }

    /// Ends it without a word. Says whether it was alive.
    pub(crate) fn end(&self) -> bool {
        // Dropped after the mutex is let go of: a task's end may come back here.
        let alive = lock(&self.alive).take();
        // Some may still wait for an answer.
        alive.inspect(|alive| alive.mux.end()).is_some()
    }
}
