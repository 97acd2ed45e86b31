//! [`PyObserver`]: watches who leads.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use taketurns::Observer;

use crate::error::invalid;
use crate::operation::PyOperation;
use crate::process::ProcessBound;
use crate::views;

/// Where the observer is while no operation uses it.
type ObserverPlace = Arc<Mutex<Option<Observer>>>;

#[pyclass(name = "Observer", module = "taketurns._taketurns", frozen)]
pub(crate) struct PyObserver(ProcessBound<ObserverPlace>);

impl PyObserver {
    pub(crate) fn new(observer: Observer) -> Self {
        Self(ProcessBound::new(Arc::new(Mutex::new(Some(observer)))))
    }
}

#[pymethods]
impl PyObserver {
    /// Returns an operation that ends when somebody else leads.
    fn changed(&self) -> PyResult<PyOperation> {
        let place = self.0.get()?.clone();
        let observer = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        let used = || invalid("this observer is awaited already".to_owned());
        let mut lent = LentObserver { observer: Some(observer.ok_or_else(used)?), place };
        let changed = async move {
            match &mut lent.observer {
                Some(observer) => observer.changed().await,
                None => Ok(None),
            }
        };
        Ok(PyOperation::new(changed, |py, leader| views::leader(py, leader.as_ref())))
    }
}

/// An observer that goes back to its place, also if the operation is cancelled.
struct LentObserver {
    observer: Option<Observer>,
    place: ObserverPlace,
}

impl Drop for LentObserver {
    fn drop(&mut self) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = self.observer.take();
    }
}
