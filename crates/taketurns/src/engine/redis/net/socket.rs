//! A TCP socket that any runtime can wait on, one at a time.
//!
//! The socket belongs to no runtime. A runtime only lends its readiness, through a duplicate of the descriptor
//! that is registered there. [`MovableSocket::attach`] registers a new duplicate and closes the one before.

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{self, Write};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::sync::lock;

/// Clones are the same connection.
#[derive(Clone)]
pub(crate) struct MovableSocket {
    socket: Arc<std::net::TcpStream>,
    registered: Arc<Mutex<TcpStream>>,
}

impl MovableSocket {
    /// Takes over a connected socket. The current runtime waits on it.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let socket = stream.into_std()?;
        let registered = TcpStream::from_std(socket.try_clone()?)?;
        Ok(Self { socket: Arc::new(socket), registered: Arc::new(Mutex::new(registered)) })
    }

    /// From now on the current runtime waits on it, and no other. A task that waits is not woken any more: whoever
    /// reads next has to poll.
    ///
    /// # Panics
    /// If I/O is disabled in the current runtime.
    pub(crate) fn attach(&self) -> io::Result<()> {
        let registered = TcpStream::from_std(self.socket.try_clone()?)?;
        let before = std::mem::replace(&mut *lock(&self.registered), registered);
        drop(before);
        Ok(())
    }
}

/// A runtime that shuts down fails what waits on it. That says nothing about the connection: the runtime drops its
/// tasks next, and another one reads on.
fn of_kernel<T>(outcome: io::Result<T>) -> Poll<io::Result<T>> {
    match outcome {
        Err(error) if error.raw_os_error().is_none() => Poll::Pending,
        outcome => Poll::Ready(outcome),
    }
}

impl AsyncRead for MovableSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_kernel(ready!(Pin::new(&mut *lock(&self.registered)).poll_read(context, into)))
    }
}

impl AsyncWrite for MovableSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Without the mutex: a write never waits for a read.
        match (&*self.socket).write(bytes) {
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
            written => return Poll::Ready(written),
        }
        of_kernel(ready!(Pin::new(&mut *lock(&self.registered)).poll_write(context, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}
