//! Which tasks want to be polled, and the call that has Node's event loop do it.
//!
//! ```text
//!   any thread: a waker ─► ReadyQueue ─► call of `wake` in JavaScript ─► Binding::turn, which polls
//! ```
//!
//! Nothing is polled here, so a waker may be used under any mutex of the client.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use napi::Status;
use napi::bindgen_prelude::{Function, Result, Unknown};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

/// A call from any thread into JavaScript. It does not keep the process alive: what should do so is JavaScript's to know.
type WakeFunction = ThreadsafeFunction<(), Unknown<'static>, (), Status, false, true>;

/// The tasks of one event loop that were woken.
pub(crate) struct ReadyQueue {
    woken: Mutex<Woken>,
    wake: WakeFunction,
}

#[derive(Default)]
struct Woken {
    tasks: Vec<i64>,
    /// A call of `wake` is under way, and will find all tasks of the list.
    is_called: bool,
}

impl ReadyQueue {
    pub(crate) fn new(wake: &Function<'_, (), Unknown<'static>>) -> Result<Arc<Self>> {
        let wake = wake.build_threadsafe_function::<()>().weak::<true>().build()?;
        Ok(Arc::new(Self { woken: Mutex::default(), wake }))
    }

    /// Has a task polled in a later turn of the event loop.
    pub(crate) fn push(&self, task: i64) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.tasks.push(task);
        let is_called = std::mem::replace(&mut woken.is_called, true);
        drop(woken);
        if !is_called {
            // It fails when the event loop ends, and then nobody waits for the task.
            self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    /// Takes all tasks of the list. What is woken from now on is for the next call.
    pub(crate) fn take(&self) -> Vec<i64> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.is_called = false;
        std::mem::take(&mut woken.tasks)
    }

    /// Returns a waker for a task.
    pub(crate) fn waker(self: &Arc<Self>, task: i64) -> Waker {
        Arc::new(TaskWaker { queue: self.clone(), task }).into()
    }
}

struct TaskWaker {
    queue: Arc<ReadyQueue>,
    task: i64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.task);
    }
}
