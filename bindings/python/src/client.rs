//! [`PyClient`]: the locks of one store. Every method begins an operation.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use taketurns::{Begun, Connect, Error, Guard, Handle, Locks};

use crate::error;
use crate::guard::{PyAllGuard, PyGuard, Tenure};
use crate::handle::PyHandle;
use crate::observer::PyObserver;
use crate::operation::PyOperation;
use crate::process::ProcessBound;
use crate::request::{KeepArgument, LockRequest, OnceArgument, RequestOptions, duration};
use crate::views;

/// Begins to connect to a store.
#[pyfunction]
#[pyo3(signature = (url, who, waiter_lease, timeout))]
pub(crate) fn connect(
    url: &str,
    who: String,
    waiter_lease: Option<f64>,
    timeout: Option<f64>,
) -> PyResult<PyOperation> {
    let mut connect = Connect::new(url).who(who);
    if let Some(seconds) = waiter_lease {
        connect = connect.waiter_lease(duration("waiter_lease", seconds)?);
    }
    if let Some(seconds) = timeout {
        connect = connect.within(duration("timeout", seconds)?);
    }
    Ok(PyOperation::new(connect.open(), |py, locks| {
        let client = PyClient(ProcessBound::new(Mutex::new(Some(locks))));
        Ok(Py::new(py, client)?.into_any())
    }))
}

#[pyclass(name = "Client", module = "taketurns._taketurns", frozen)]
pub(crate) struct PyClient(ProcessBound<Mutex<Option<Locks>>>);

impl PyClient {
    fn locks(&self) -> PyResult<Locks> {
        let locks = self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        locks.clone().ok_or_else(|| error::of(&Error::Closed))
    }
}

#[pymethods]
impl PyClient {
    /// Begins an acquire that waits, and gives a guard.
    #[pyo3(signature = (name, kind, take, of, member, timeout, lease, max_hold, at_least, why, keep))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of Python's")]
    fn acquire(
        &self,
        name: &str,
        kind: &str,
        take: u32,
        of: u32,
        member: Option<String>,
        timeout: Option<f64>,
        lease: Option<f64>,
        max_hold: Option<f64>,
        at_least: Option<f64>,
        why: String,
        keep: Option<KeepArgument>,
    ) -> PyResult<PyOperation> {
        let options = RequestOptions::new(timeout, lease, max_hold, why)?;
        let options = options.at_least(at_least)?.keep(keep)?;
        let request = LockRequest::new(kind, take, of, member)?;
        let acquire = options.waiting(request.waiting(&self.locks()?, name));
        Ok(PyOperation::new(acquire.into_future(), guard))
    }

    /// Begins an acquire that does not wait, and gives a guard or `None`.
    #[pyo3(signature = (name, kind, take, of, member, lease, max_hold, at_least, why))]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of Python's")]
    fn try_acquire(
        &self,
        name: &str,
        kind: &str,
        take: u32,
        of: u32,
        member: Option<String>,
        lease: Option<f64>,
        max_hold: Option<f64>,
        at_least: Option<f64>,
        why: String,
    ) -> PyResult<PyOperation> {
        let options = RequestOptions::new(None, lease, max_hold, why)?.at_least(at_least)?;
        let request = LockRequest::new(kind, take, of, member)?;
        let acquire = options.trying(request.trying(&self.locks()?, name));
        Ok(PyOperation::new(acquire.into_future(), |py, acquired| match acquired {
            Some(acquired) => guard(py, acquired),
            None => Ok(py.None()),
        }))
    }

    /// Begins an acquire of several mutexes.
    #[pyo3(signature = (names, timeout, lease, max_hold, why))]
    fn acquire_all(
        &self,
        names: Vec<String>,
        timeout: Option<f64>,
        lease: Option<f64>,
        max_hold: Option<f64>,
        why: String,
    ) -> PyResult<PyOperation> {
        let options = RequestOptions::new(timeout, lease, max_hold, why)?;
        let acquire = options.all(self.locks()?.all(names).acquire());
        Ok(PyOperation::new(acquire.into_future(), |py, guards| {
            Ok(Py::new(py, PyAllGuard::new(guards))?.into_any())
        }))
    }

    /// Begins to wait for the work of a once: gives an attempt, or a dictionary if it is done.
    #[pyo3(signature = (name, once, timeout, lease, max_hold, why))]
    fn begin(
        &self,
        name: &str,
        once: OnceArgument,
        timeout: Option<f64>,
        lease: Option<f64>,
        max_hold: Option<f64>,
        why: String,
    ) -> PyResult<PyOperation> {
        let options = RequestOptions::new(timeout, lease, max_hold, why)?;
        let once = options.once(once.of(&self.locks()?, name)?);
        Ok(PyOperation::new(once.begin(), begun))
    }

    /// The same without waiting: gives `None` if others attempt it.
    #[pyo3(signature = (name, once, lease, max_hold, why))]
    fn try_begin(
        &self,
        name: &str,
        once: OnceArgument,
        lease: Option<f64>,
        max_hold: Option<f64>,
        why: String,
    ) -> PyResult<PyOperation> {
        let options = RequestOptions::new(None, lease, max_hold, why)?;
        let once = options.once(once.of(&self.locks()?, name)?);
        Ok(PyOperation::new(once.try_begin(), |py, tried| match tried {
            Some(tried) => begun(py, tried),
            None => Ok(py.None()),
        }))
    }

    fn completion(&self, name: &str) -> PyResult<PyOperation> {
        let once = self.locks()?.once(name);
        let completion = async move { once.completion().await };
        Ok(PyOperation::new(completion, |py, done| match done {
            Some(done) => Ok(views::completion(py, &done)?.into_any().unbind()),
            None => Ok(py.None()),
        }))
    }

    fn undo(&self, name: &str) -> PyResult<PyOperation> {
        let once = self.locks()?.once(name);
        Ok(PyOperation::new(async move { once.undo().await }, boolean))
    }

    fn adopt(&self, handle: &str) -> PyResult<PyOperation> {
        let handle = Handle::parse(handle).map_err(|error| error::of(&error))?;
        let locks = self.locks()?;
        Ok(PyOperation::new(async move { locks.adopt(handle).await }, guard))
    }

    fn renew_handle(&self, handle: &PyHandle, lease: Option<f64>) -> PyResult<PyOperation> {
        let (handle, locks) = (handle.parsed()?, self.locks()?);
        let lease = lease.map(|seconds| duration("lease", seconds)).transpose()?;
        let renew = async move { locks.renew(&handle, lease).await };
        Ok(PyOperation::new(renew, |py, left| {
            Ok(left.as_secs_f64().into_pyobject(py)?.into_any().unbind())
        }))
    }

    fn release_handle(&self, handle: &PyHandle) -> PyResult<PyOperation> {
        let (handle, locks) = (handle.parsed()?, self.locks()?);
        Ok(PyOperation::new(async move { locks.release(&handle).await }, nothing))
    }

    fn inspect(&self, name: String) -> PyResult<PyOperation> {
        let locks = self.locks()?;
        let asked = name.clone();
        let inspect = async move { locks.inspect(name).await };
        Ok(PyOperation::new(inspect, move |py, view| match view {
            Some(view) => Ok(views::view(py, &asked, &view)?.into_any().unbind()),
            None => Ok(py.None()),
        }))
    }

    fn list(&self, pattern: String, waiters: usize) -> PyResult<PyOperation> {
        let locks = self.locks()?;
        let list = async move { locks.list_with(&pattern, waiters).await };
        Ok(PyOperation::new(list, |py, all| views::list(py, &all)))
    }

    fn break_lock(&self, name: &str, token: Option<u64>, at_once: bool) -> PyResult<PyOperation> {
        let mut breaking = self.locks()?.break_lock(name);
        if let Some(token) = token {
            breaking = breaking.token(taketurns::Token::from_raw(token));
        }
        if at_once {
            breaking = breaking.at_once();
        }
        Ok(PyOperation::new(breaking.into_future(), |py, holders| {
            Ok(holders.into_pyobject(py)?.into_any().unbind())
        }))
    }

    fn pool_add(&self, name: &str, member: String) -> PyResult<PyOperation> {
        let pool = self.locks()?.pool(name);
        Ok(PyOperation::new(async move { pool.add(member).await }, boolean))
    }

    fn pool_remove(&self, name: &str, member: String) -> PyResult<PyOperation> {
        let pool = self.locks()?.pool(name);
        Ok(PyOperation::new(async move { pool.remove(member).await }, boolean))
    }

    fn resize(&self, name: &str, permits: u32) -> PyResult<PyOperation> {
        let semaphore = self.locks()?.semaphore(name, permits);
        Ok(PyOperation::new(async move { semaphore.resize().await }, boolean))
    }

    fn leader(&self, name: &str) -> PyResult<PyOperation> {
        let election = self.locks()?.election(name);
        Ok(PyOperation::new(async move { election.leader().await }, |py, leader| {
            views::leader(py, leader.as_ref())
        }))
    }

    fn observe(&self, name: &str, every: f64) -> PyResult<PyObserver> {
        let observer = self.locks()?.election(name).observe();
        Ok(PyObserver::new(observer.every(duration("every", every)?)))
    }

    /// The id of this client, as views show it.
    fn client_id(&self) -> PyResult<String> {
        Ok(self.locks()?.client_id().to_string())
    }

    /// Begins to close the connection, once everything dropped is released. The client can't be used from now on.
    fn close(&self) -> PyResult<PyOperation> {
        let locks = self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        let close = async move {
            if let Some(locks) = locks {
                locks.close().await;
            }
            Ok(())
        };
        Ok(PyOperation::new(close, nothing))
    }
}

fn guard(py: Python<'_>, guard: Guard) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, PyGuard::new(Tenure::Lock(guard)))?.into_any())
}

fn begun(py: Python<'_>, begun: Begun) -> PyResult<Py<PyAny>> {
    match begun {
        Begun::Attempt(attempt) => Ok(Py::new(py, PyGuard::new(Tenure::Work(attempt)))?.into_any()),
        Begun::DoneBefore(done) => Ok(views::completion(py, &done)?.into_any().unbind()),
    }
}

pub(crate) fn nothing(py: Python<'_>, (): ()) -> PyResult<Py<PyAny>> {
    Ok(py.None())
}

fn boolean(py: Python<'_>, value: bool) -> PyResult<Py<PyAny>> {
    Ok(value.into_pyobject(py)?.to_owned().into_any().unbind())
}
