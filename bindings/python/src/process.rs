//! [`ProcessBound`]: a value that is of use in the process that made it, and in no other.

use std::{mem, process};

use pyo3::PyResult;

use crate::error;

/// A value of one process. A forked child has a copy, which shares the parent's connection but none of its threads. If
/// the child used the copy, or only dropped it, it would write into the middle of what the parent sends.
pub(crate) struct ProcessBound<T> {
    /// `None` only while it is dropped.
    value: Option<T>,
    process: u32,
}

impl<T> ProcessBound<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: process::id() }
    }

    /// Returns the value, or after a fork the error that says what to do.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.process == process::id() => Ok(value),
            _ => Err(error::forked(self.process)),
        }
    }
}

impl<T> Drop for ProcessBound<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.value.take());
        }
    }
}
