//! [`PyHandle`]: a held lock on its way to another process.

use pyo3::prelude::*;
use taketurns::{Handle, Token};

use crate::error;

/// A held lock as text. It is a secret, so `repr` does not show it.
#[pyclass(name = "Handle", module = "taketurns._taketurns", frozen)]
pub(crate) struct PyHandle(Handle);

impl PyHandle {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// Returns a handle of its own for an operation.
    pub(crate) fn parsed(&self) -> PyResult<Handle> {
        Handle::parse(&self.0.expose()).map_err(|error| error::of(&error))
    }
}

#[pymethods]
impl PyHandle {
    /// Parses what `expose` returned.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Self> {
        Handle::parse(text).map(Self).map_err(|error| error::of(&error))
    }

    /// Returns the secret text.
    fn expose(&self) -> String {
        self.0.expose()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name().as_str()
    }

    #[getter]
    fn token(&self) -> Option<u64> {
        self.0.token().fenced().map(Token::raw)
    }

    fn __repr__(&self) -> String {
        let token = self.token().map_or("None".to_owned(), |token| token.to_string());
        format!("<taketurns.Handle of {:?}, token {token}>", self.name())
    }
}
