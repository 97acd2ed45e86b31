//! What the client's own `sync` gives to the tally.

use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::{Arc, Mutex, atomic};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under it")
}
