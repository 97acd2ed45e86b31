//! [`Mailbox`]: how the client wakes a Python thread, without the GIL.
//!
//! ```text
//!   the client's thread: Waker::wake ─► key noted, byte written ─► socket pair ─► an event loop or a thread reads,
//!                                                                                takes the keys, runs what they stand for
//! ```
//!
//! **Every posted key is taken.** A byte is written when a key meets an empty list. The reader reads the byte before it
//! takes the list, so a key that comes in between finds either a list that is yet to be taken, or an empty one.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;
use std::time::Duration;
use std::{io, mem};

use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::process::ProcessBound;
use crate::request::duration;

pub(crate) struct Mailbox {
    posted: Mutex<Vec<u64>>,
    writer: UnixStream,
    reader: UnixStream,
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        let (writer, reader) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        reader.set_nonblocking(true)?;
        Ok(Self { posted: Mutex::default(), writer, reader })
    }

    pub(crate) fn post(&self, key: u64) {
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        posted.push(key);
        if posted.len() == 1 {
            // If the buffer were full, the reader would have bytes enough to wake up.
            let _ = (&self.writer).write(&[1]);
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        while (&self.reader).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
        mem::take(&mut *self.posted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Blocks until something is posted, or for that long.
    fn wait(&self, within: Option<Duration>) {
        let within = within.and_then(|within| Timespec::try_from(within).ok());
        let mut readable = [PollFd::new(&self.reader, PollFlags::IN)];
        // Interrupted by a signal, it returns early, and the caller looks again.
        let _ = poll(&mut readable, within.as_ref());
    }
}

/// Posts a key when it is woken, once until it is armed again.
pub(crate) struct KeyWaker {
    mailbox: Arc<Mailbox>,
    key: u64,
    is_posted: AtomicBool,
}

impl KeyWaker {
    pub(crate) fn new(mailbox: Arc<Mailbox>, key: u64) -> Self {
        Self { mailbox, key, is_posted: AtomicBool::new(false) }
    }

    /// Its next wake posts. To be called before each poll.
    pub(crate) fn arm(&self) {
        self.is_posted.store(false, Ordering::Release);
    }
}

impl Wake for KeyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_posted.swap(true, Ordering::AcqRel) {
            self.mailbox.post(self.key);
        }
    }
}

/// A mailbox that a Python thread reads.
#[pyclass(name = "Mailbox", module = "taketurns._taketurns", frozen)]
pub(crate) struct PyMailbox(ProcessBound<Arc<Mailbox>>);

impl PyMailbox {
    pub(crate) fn shared(&self) -> PyResult<Arc<Mailbox>> {
        self.0.get().cloned()
    }
}

#[pymethods]
impl PyMailbox {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(ProcessBound::new(Arc::new(Mailbox::new()?))))
    }

    /// The descriptor that is readable when something was posted.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.get()?.reader.as_raw_fd())
    }

    /// Returns what was posted since the last call.
    fn take(&self) -> PyResult<Vec<u64>> {
        Ok(self.0.get()?.take())
    }

    fn post(&self, key: u64) -> PyResult<()> {
        self.0.get()?.post(key);
        Ok(())
    }

    /// Blocks until something is posted, or for some seconds.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let mailbox = self.shared()?;
        let within = timeout.map(|seconds| duration("timeout", seconds)).transpose()?;
        py.detach(|| mailbox.wait(within));
        Ok(())
    }
}
