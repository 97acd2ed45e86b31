//! Errors as Python exceptions. The classes are in `taketurns/_errors.py`, one for each [`taketurns::ErrorKind`].

use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use taketurns::Error;

/// Returns the exception for an error of the client.
pub(crate) fn of(error: &Error) -> PyErr {
    let kind = format!("{:?}", error.kind());
    let lock = error.lock().map(ToString::to_string);
    let cause = match error {
        Error::Lost { cause, .. } => Some(cause.word()),
        _ => None,
    };
    made(&kind, &error.to_string(), lock.as_deref(), error.is_retryable(), cause)
}

/// Returns the exception for the use of an object after a fork.
pub(crate) fn forked(parent: u32) -> PyErr {
    let said = format!(
        "this was made in process {parent}, and a fork can't use its connection: connect in the child, or start \
         processes with multiprocessing's \"spawn\" method"
    );
    made("Forked", &said, None, false, None)
}

/// Is it an exception of this package?
pub(crate) fn is_ours(py: Python<'_>, error: &PyErr) -> bool {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "taketurns._errors", "TakeTurnsError");
    class.is_ok_and(|class| error.is_instance(py, class))
}

/// Returns the exception for an argument that the client can't express.
pub(crate) fn invalid(said: String) -> PyErr {
    PyValueError::new_err(said)
}

fn made(
    kind: &str,
    said: &str,
    lock: Option<&str>,
    is_retryable: bool,
    cause: Option<&str>,
) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Python::attach(|py| {
        let made = MAKE
            .import(py, "taketurns._errors", "make")
            .and_then(|make| make.call1((kind, said, lock, is_retryable, cause)));
        match made {
            Ok(exception) => PyErr::from_value(exception),
            // The interpreter is ending, and modules are gone.
            Err(_) => PyImportError::new_err(said.to_owned()),
        }
    })
}
