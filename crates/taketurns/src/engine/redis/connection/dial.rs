//! Sockets: TCP or TLS over it, with keep-alive, within a bounded time.
//!
//! TLS is ours and not the `redis` crate's: that one reads the machine's certificates at every
//! connect, even where it was given others.

use std::time::Duration;
use std::{fmt, io};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;
use super::socket::MovableSocket;
use crate::engine::redis::url::{Address, TlsConfig};
use crate::engine::server_url::tls::connector;

/// A connection that only listens sends nothing that could time out: the kernel has to ask whether
/// the other side is still there. Given up after `KEEP_IDLE + KEEP_PROBES × KEEP_EVERY`.
const KEEP_IDLE: Duration = Duration::from_secs(5);
const KEEP_EVERY: Duration = Duration::from_secs(2);
const KEEP_PROBES: u32 = 3;

/// What bytes go through.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// As two halves, each for a thread of its own.
    fn parted(self: Box<Self>) -> (ReadHalf, WriteHalf);

    /// What moves it to another runtime, if it can be moved.
    fn movable(&self) -> Option<MovableSocket> {
        None
    }
}

/// Neither has to wait for the other.
impl Socket for MovableSocket {
    fn parted(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        (Box::new(MovableSocket::clone(&self)), self)
    }

    fn movable(&self) -> Option<MovableSocket> {
        Some(self.clone())
    }
}

/// They have to: what is read and what is written is sealed by one state.
impl Socket for TlsStream<MovableSocket> {
    fn parted(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        let (reader, writer) = tokio::io::split(*self);
        (Box::new(reader), Box::new(writer))
    }

    fn movable(&self) -> Option<MovableSocket> {
        Some(self.get_ref().0.clone())
    }
}

pub(crate) type Stream = Box<dyn Socket>;
pub(crate) type ReadHalf = Box<dyn AsyncRead + Unpin + Send>;
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Unpin + Send>;

/// Opens sockets, all with the same TLS settings.
pub(crate) struct Dialer {
    tls: Option<TlsConnector>,
    /// For name, TCP and TLS together.
    timeout: Duration,
}

impl Dialer {
    /// Reads the certificates, once.
    pub(crate) fn new(tls: Option<&TlsConfig>, timeout: Duration) -> Result<Self, String> {
        Ok(Self { tls: tls.map(connector).transpose()?, timeout })
    }

    pub(crate) async fn dial(&self, address: &Address) -> Result<Stream, Failure> {
        let deadline = Instant::now() + self.timeout;
        let connecting = TcpStream::connect((address.host.as_str(), address.port));
        let failed = |why: &dyn fmt::Display| Failure::Unreachable(format!("{address}: {why}"));
        let stream = timeout_at(deadline, connecting)
            .await
            .map_err(|_| failed(&"it does not answer"))?
            .map_err(|error| failed(&error))?;
        // Small requests that somebody waits for.
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        keep_alive(&stream).map_err(|error| failed(&error))?;
        let stream = MovableSocket::new(stream).map_err(|error| failed(&error))?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => {
                timeout_at(deadline, seal(tls, address, stream)).await.unwrap_or_else(|_| {
                    // As Redis does on its ordinary port, which waits for the end of a line.
                    Err(failed(&"it does not answer to TLS; is it a TLS port?"))
                })
            }
        }
    }
}

async fn seal(
    tls: &TlsConnector,
    address: &Address,
    stream: MovableSocket,
) -> Result<Stream, Failure> {
    let name = ServerName::try_from(address.host.clone())
        .map_err(|_| Failure::Broken(format!("{address}: no certificate can have this name")))?;
    match tls.connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        // What rustls itself objects to stays the same next time.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Failure::Broken(format!(
            "{address} is not accepted by TLS: {error} (is it a TLS port? see ca=)"
        ))),
        Err(error) => {
            Err(Failure::Unreachable(format!("{address} ended the TLS handshake: {error}")))
        }
    }
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_PROBES)?;
    Ok(())
}
