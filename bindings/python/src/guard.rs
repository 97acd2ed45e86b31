//! [`PyGuard`] and [`PyAllGuard`]: what is held.
//!
//! An attempt at the work of a once is a [`PyGuard`] too, which ends by saying what became of the work.
//!
//! The classes that users see are subclasses in Python, made from what an operation returned. The end of a `with` block is
//! here: a signal handler that raises, as Ctrl-C does, runs between two steps of Python code, and code in Python might
//! never get to the release.

use std::ffi::CString;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use taketurns::{AllGuard, Attempt, Error, Guard, LossCause, Name, Token};

use crate::client::nothing;
use crate::error;
use crate::handle::PyHandle;
use crate::operation::PyOperation;
use crate::process::ProcessBound;

/// What a guard of Python stands for.
pub(crate) enum Tenure {
    Lock(Guard),
    Work(Attempt),
}

impl Deref for Tenure {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Self::Lock(guard) => guard,
            Self::Work(attempt) => attempt,
        }
    }
}

#[pyclass(name = "Guard", module = "taketurns._taketurns", frozen, subclass)]
pub(crate) struct PyGuard {
    /// `None` once it was released, or made a handle, or the work is done or has failed.
    held: ProcessBound<Mutex<Option<Tenure>>>,
    name: Name,
    token: Token,
    member: Option<String>,
}

impl PyGuard {
    pub(crate) fn new(held: Tenure) -> Self {
        let (name, token) = (held.name().clone(), held.token());
        let member = held.member().map(ToString::to_string);
        Self { held: ProcessBound::new(Mutex::new(Some(held))), name, token, member }
    }

    fn slot(&self) -> PyResult<MutexGuard<'_, Option<Tenure>>> {
        Ok(self.held.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives away what it holds, which ends this guard.
    fn take(&self) -> PyResult<Tenure> {
        self.slot()?.take().ok_or_else(|| self.not_held())
    }

    /// Does the same if it is an attempt.
    fn take_attempt(&self) -> PyResult<Attempt> {
        match self.take()? {
            Tenure::Work(attempt) => Ok(attempt),
            Tenure::Lock(_) => Err(error::invalid(format!("lock {} is no once", self.name))),
        }
    }

    fn not_held(&self) -> PyErr {
        error::of(&Error::NotHeld { lock: self.name.clone() })
    }
}

impl Drop for PyGuard {
    fn drop(&mut self) {
        let name = &self.name;
        match self.slot().as_deref() {
            Ok(Some(Tenure::Lock(_))) => warn_of_drop(&released_now(&format!("lock {name}"))),
            Ok(Some(Tenure::Work(_))) => warn_of_drop(&format!(
                "the attempt at {name} was dropped without done() or fail(); it has failed now"
            )),
            Ok(None) | Err(_) => {}
        }
    }
}

fn released_now(what: &str) -> String {
    format!("{what} was not released before its guard was dropped; it is released now")
}

/// Tells who forgot to release, as Python does of files. Not a `__del__` in Python: a signal handler that raised there
/// would raise for nobody.
fn warn_of_drop(said: &str) {
    let Ok(said) = CString::new(said) else { return };
    // Not while the interpreter ends.
    Python::try_attach(|py| {
        let raised = PyErr::take(py);
        let category = py.get_type::<PyResourceWarning>();
        if let Err(error) = PyErr::warn(py, &category, &said, 1) {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}

#[pymethods]
impl PyGuard {
    /// Takes over what another guard holds.
    #[new]
    fn taken(from: &Self) -> PyResult<Self> {
        Ok(Self::new(from.take()?))
    }

    /// Returns the fencing token if the lock is still held, for the resource to compare.
    ///
    /// Call it right before each use of what the lock guards. Raises `LockLost`, for good, from the moment on from which
    /// somebody else may hold the lock.
    fn check(&self) -> PyResult<u64> {
        let guard = self.slot()?;
        let token = guard.as_ref().ok_or_else(|| self.not_held())?.check();
        token.map(Token::raw).map_err(|error| error::of(&error))
    }

    #[getter]
    fn name(&self) -> &str {
        self.name.as_str()
    }

    #[getter]
    fn token(&self) -> Option<u64> {
        self.token.fenced().map(Token::raw)
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    fn is_held(&self) -> PyResult<bool> {
        Ok(self.slot()?.as_ref().is_some_and(|held| held.is_held()))
    }

    /// Was it released, or made a handle, or is the work done or failed?
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.slot()?.is_none())
    }

    /// Returns for how many seconds it stays held without a renewal.
    #[getter]
    fn left(&self) -> PyResult<f64> {
        Ok(self.slot()?.as_ref().map_or(0.0, |guard| guard.left().as_secs_f64()))
    }

    #[getter]
    fn trouble(&self) -> PyResult<Option<String>> {
        Ok(self.slot()?.as_ref().and_then(|held| held.trouble()))
    }

    /// Returns an operation that ends when the lock is lost, with the exception for that.
    fn begin_lost(&self) -> PyResult<PyOperation> {
        let guard = self.slot()?;
        let lost = guard.as_ref().ok_or_else(|| self.not_held())?.lost();
        let lock = self.name.clone();
        Ok(PyOperation::new(async move { Ok(lost.await) }, |py, cause| Ok(loss(py, lock, cause))))
    }

    /// Sends the release, and returns the operation that waits for the answer. An attempt has failed then.
    fn begin_release(&self, py: Python<'_>) -> PyResult<PyOperation> {
        let held = self.take()?;
        let released = py.detach(|| match held {
            Tenure::Lock(guard) => guard.release(),
            Tenure::Work(attempt) => attempt.fail(),
        });
        Ok(PyOperation::new(released, nothing))
    }

    /// Sends that the work is done, and returns the operation that waits for the answer.
    fn begin_done(&self, py: Python<'_>, result: &str) -> PyResult<PyOperation> {
        let attempt = self.take_attempt()?;
        Ok(PyOperation::new(py.detach(|| attempt.done_with(result)), nothing))
    }

    /// Records that the work is done.
    #[pyo3(signature = (result = ""))]
    fn done_and_wait(slf: &Bound<'_, Self>, result: &str) -> PyResult<()> {
        wait_for(slf, &slf.get().begin_done(slf.py(), result)?)
    }

    /// Releases the lock, or records that the attempt failed. Raises `LockLost` if it was lost before.
    fn release_and_wait(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        wait_for(slf, &slf.get().begin_release(py)?)
    }

    /// The end of a `with` block. The work of a block that raised nothing is done.
    fn exit_and_wait(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let is_work = match slf.get().slot()?.as_ref() {
            None => return Ok(()),
            Some(held) => matches!(held, Tenure::Work(_)),
        };
        let ended = match is_work && error.is_none() {
            true => Self::done_and_wait(slf, ""),
            false => Self::release_and_wait(slf),
        };
        unless_failed(ended, error)
    }

    /// Makes it a handle, which ends this guard. Work goes to no other process.
    fn begin_handle(&self) -> PyResult<PyOperation> {
        let Tenure::Lock(guard) = self.take()? else { return Err(self.not_held()) };
        Ok(PyOperation::new(async move { guard.into_handle().await }, |py, handle| {
            Ok(Py::new(py, PyHandle::new(handle))?.into_any())
        }))
    }
}

/// Several locks, all held.
#[pyclass(name = "AllGuard", module = "taketurns._taketurns", frozen, subclass)]
pub(crate) struct PyAllGuard {
    /// `None` once they were released.
    guards: ProcessBound<Mutex<Option<AllGuard>>>,
}

impl PyAllGuard {
    pub(crate) fn new(guards: AllGuard) -> Self {
        Self { guards: ProcessBound::new(Mutex::new(Some(guards))) }
    }

    fn slot(&self) -> PyResult<MutexGuard<'_, Option<AllGuard>>> {
        Ok(self.guards.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the exception for a lost lock.
fn loss(py: Python<'_>, lock: Name, cause: LossCause) -> Py<PyAny> {
    error::of(&Error::Lost { lock, cause }).into_value(py).into_any()
}

fn released() -> PyErr {
    error::invalid("these locks were released already".to_owned())
}

impl Drop for PyAllGuard {
    fn drop(&mut self) {
        if self.is_over().is_ok_and(|is_over| !is_over) {
            warn_of_drop(&released_now("each of several locks"));
        }
    }
}

#[pymethods]
impl PyAllGuard {
    /// Takes over what another guard holds.
    #[new]
    fn taken(from: &Self) -> PyResult<Self> {
        Ok(Self::new(from.slot()?.take().ok_or_else(released)?))
    }

    /// Returns the tokens by lock if all are still held.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let guards = self.slot()?;
        let tokens = guards.as_ref().ok_or_else(released)?.check();
        let tokens = tokens.map_err(|error| error::of(&error))?;
        let by_name = PyDict::new(py);
        for (name, token) in tokens {
            by_name.set_item(name.as_str(), token.raw())?;
        }
        Ok(by_name)
    }

    fn is_held(&self) -> PyResult<bool> {
        Ok(self.slot()?.as_ref().is_some_and(AllGuard::is_held))
    }

    fn is_over(&self) -> PyResult<bool> {
        Ok(self.slot()?.is_none())
    }

    /// Returns an operation that ends when the first of them is lost, with the exception for that.
    fn begin_lost(&self) -> PyResult<PyOperation> {
        let guards = self.slot()?;
        let lost = guards.as_ref().ok_or_else(released)?.lost();
        Ok(PyOperation::new(async move { Ok(lost.await) }, |py, (lock, cause)| {
            Ok(loss(py, lock, cause))
        }))
    }

    fn begin_release(&self, py: Python<'_>) -> PyResult<PyOperation> {
        let guards = self.slot()?.take().ok_or_else(released)?;
        Ok(PyOperation::new(py.detach(|| guards.release()), nothing))
    }

    /// Releases all of them. Raises `LockLost` if one was lost before.
    fn release_and_wait(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        wait_for(slf, &slf.get().begin_release(py)?)
    }

    /// The end of a `with` block.
    fn exit_and_wait(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match slf.get().is_over()? {
            true => Ok(()),
            false => unless_failed(Self::release_and_wait(slf), error),
        }
    }
}

/// Waits for a release that was sent. Nobody needs to watch for a loss any more.
fn wait_for<T>(guard: &Bound<'_, T>, release: &PyOperation) -> PyResult<()> {
    let released = release.wait(guard.py()).map(drop);
    guard.as_any().call_method0("_unwatch")?;
    released
}

/// Prefers the error of a block to that of the release after it, which says less. A lock that could not be released ends
/// with its lease.
fn unless_failed(released: PyResult<()>, error: &Bound<'_, PyAny>) -> PyResult<()> {
    match released {
        Err(why) if !error.is_none() && error::is_ours(error.py(), &why) => Ok(()),
        released => released,
    }
}
