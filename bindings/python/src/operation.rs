//! [`PyOperation`]: a future of the client, polled by the Python thread or the event loop that awaits it.
//!
//! Dropping the future is how an operation is cancelled, and the client is cancel-safe: an acquire gives up its place or
//! its grant, a release goes on. So Ctrl-C and a cancelled task need nothing but [`PyOperation::cancel`].

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use taketurns::Error;

use crate::error;
use crate::mailbox::{KeyWaker, PyMailbox};
use crate::process::ProcessBound;

/// How often a thread that waits lets Python handle a signal such as Ctrl-C. Only the main thread handles signals.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// What an operation ended with, about to become a Python object.
type OperationOutput = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
type OperationFuture = Pin<Box<dyn Future<Output = Result<OperationOutput, Error>> + Send>>;

/// A future, until it has ended or was cancelled.
#[derive(Default)]
struct PendingOperation {
    future: Option<OperationFuture>,
    /// The waker of the mailbox that awaits it.
    waker: Option<(Arc<KeyWaker>, Waker)>,
}

#[pyclass(name = "Operation", module = "taketurns._taketurns", frozen)]
pub(crate) struct PyOperation(ProcessBound<Mutex<PendingOperation>>);

impl PyOperation {
    /// Wraps a future whose output `convert` makes a Python object.
    pub(crate) fn new<T: Send + 'static>(
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let future = async move {
            let output = future.await?;
            Ok(Box::new(|py: Python<'_>| convert(py, output)) as OperationOutput)
        };
        let pending = PendingOperation { future: Some(Box::pin(future)), waker: None };
        Self(ProcessBound::new(Mutex::new(pending)))
    }

    fn pending(&self) -> PyResult<MutexGuard<'_, PendingOperation>> {
        Ok(self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of an operation that was awaited before.
fn over() -> PyErr {
    PyRuntimeError::new_err("this operation was awaited already, or cancelled")
}

fn output(py: Python<'_>, ended: Result<OperationOutput, Error>) -> PyResult<Py<PyAny>> {
    match ended {
        Ok(output) => output(py),
        Err(error) => Err(error::of(&error)),
    }
}

#[pymethods]
impl PyOperation {
    /// Blocks this thread until the operation has ended, and returns its output. On the main thread Python's signal
    /// handlers run meanwhile; if one raises, the operation is cancelled.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut future = self.pending()?.future.take().ok_or_else(over)?;
        let (parked, handles_signals) = (Arc::new(ParkedThread::new()), is_main_thread());
        let waker = Waker::from(parked.clone());
        loop {
            let ended = py.detach(|| {
                let mut context = Context::from_waker(&waker);
                loop {
                    if let Poll::Ready(ended) = future.as_mut().poll(&mut context) {
                        return Some(ended);
                    }
                    if !parked.park(handles_signals.then_some(SIGNALS_EVERY)) {
                        return None;
                    }
                }
            });
            match ended {
                Some(ended) => return output(py, ended),
                None => {
                    if let Err(interrupt) = py.check_signals() {
                        py.detach(|| drop(future));
                        return Err(interrupt);
                    }
                }
            }
        }
    }

    /// Goes on with the operation. Returns its output in a tuple if it has ended; else `key` is posted to the mailbox
    /// when it can go on.
    fn poll(
        &self,
        py: Python<'_>,
        mailbox: &PyMailbox,
        key: u64,
    ) -> PyResult<Option<(Py<PyAny>,)>> {
        let mailbox = mailbox.shared()?;
        let operation = self.0.get()?;
        let polled = py.detach(|| {
            let mut pending = operation.lock().unwrap_or_else(PoisonError::into_inner);
            let PendingOperation { future, waker } = &mut *pending;
            let future = future.as_mut()?;
            let (armed, waker) = waker.get_or_insert_with(|| {
                let waker = Arc::new(KeyWaker::new(mailbox, key));
                (waker.clone(), Waker::from(waker))
            });
            armed.arm();
            let polled = future.as_mut().poll(&mut Context::from_waker(waker));
            if polled.is_ready() {
                *pending = PendingOperation::default();
            }
            Some(polled)
        });
        match polled.ok_or_else(over)? {
            Poll::Ready(ended) => Ok(Some((output(py, ended)?,))),
            Poll::Pending => Ok(None),
        }
    }

    /// Gives the operation up, unless it has ended.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let pending = std::mem::take(&mut *self.pending()?);
        py.detach(|| drop(pending));
        Ok(())
    }
}

/// Is this the thread on which Python handles signals? Elsewhere than on Linux every thread counts as that, and wakes up
/// now and then for nothing.
fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid() == rustix::process::getpid();
    #[cfg(not(target_os = "linux"))]
    true
}

/// A thread that waits for an operation.
struct ParkedThread {
    thread: Thread,
    is_woken: AtomicBool,
}

impl ParkedThread {
    fn new() -> Self {
        Self { thread: thread::current(), is_woken: AtomicBool::new(false) }
    }

    /// Blocks until it is woken. Returns false if it was not woken in that time.
    fn park(&self, within: Option<Duration>) -> bool {
        loop {
            if self.is_woken.swap(false, Ordering::Acquire) {
                return true;
            }
            match within {
                None => thread::park(),
                Some(within) => {
                    thread::park_timeout(within);
                    return self.is_woken.swap(false, Ordering::Acquire);
                }
            }
        }
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
