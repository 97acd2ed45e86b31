//! A TCP socket that any runtime can wait on, one at a time.
//!
//! The socket belongs to no runtime. A runtime only lends its readiness, through a duplicate of the descriptor
//! that is registered there. The runtime that began is the socket's home: it can leave and come back.

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{self, Read, Write};
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
    registration: Arc<Mutex<Registration>>,
}

struct Registration {
    /// A duplicate, at the runtime that waits.
    stream: TcpStream,
    /// The duplicate of the runtime that began, while another one waits. It is kept, so that a process that runs out
    /// of descriptors can still go back.
    home: Option<std::net::TcpStream>,
    /// The runtime has not said yet whether there is something to read: only the kernel knows.
    is_new: bool,
}

impl MovableSocket {
    /// Takes over a connected socket. The current runtime waits on it.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let socket = Arc::new(stream.into_std()?);
        let stream = TcpStream::from_std(socket.try_clone()?)?;
        let registration = Registration { stream, home: None, is_new: true };
        Ok(Self { socket, registration: Arc::new(Mutex::new(registration)) })
    }

    /// From now on the current runtime waits, and no longer the one that began. A task that waits is not woken any
    /// more: a task of the current runtime has to poll.
    ///
    /// # Panics
    /// If I/O is disabled in the current runtime.
    pub(crate) fn leave_home(&self) -> io::Result<()> {
        let stream = TcpStream::from_std(self.socket.try_clone()?)?;
        let mut registration = lock(&self.registration);
        let home = std::mem::replace(&mut registration.stream, stream);
        registration.is_new = true;
        registration.home = home.into_std().ok();
        Ok(())
    }

    /// From now on the runtime that began waits again, which is the current one. A task of it has to poll. The
    /// connection is of no use if this fails.
    pub(crate) fn go_home(&self) -> io::Result<()> {
        let mut registration = lock(&self.registration);
        let home = registration.home.take().ok_or(io::ErrorKind::NotConnected)?;
        let left = std::mem::replace(&mut registration.stream, TcpStream::from_std(home)?);
        registration.is_new = true;
        drop(registration);
        drop(left);
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
        let mut registration = lock(&self.registration);
        if std::mem::take(&mut registration.is_new) {
            match (&*self.socket).read(into.initialize_unfilled()) {
                Ok(read) => {
                    // There may be more.
                    registration.is_new = true;
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        of_kernel(ready!(Pin::new(&mut registration.stream).poll_read(context, into)))
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
        of_kernel(ready!(Pin::new(&mut lock(&self.registration).stream).poll_write(context, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}
