//! Where the server listens: a TCP port, or a Unix socket.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Tcp(SocketAddr),
    /// A socket in the file system, by its path.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Returns whether other machines can reach it.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(address) => match address.ip().to_canonical() {
                IpAddr::V4(ip) => !ip.is_loopback(),
                IpAddr::V6(ip) => !ip.is_loopback(),
            },
        }
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:") {
            Some("") => Err("a path is missing after unix:"),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "not an IP address with a port, such as 127.0.0.1:7411 or [::1]:7411, and not unix:PATH"
            }),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The bytes of one connection.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Who is at the other end of a connection, for the audit log: an address, or the user of a process.
#[derive(Clone, Debug)]
pub(super) struct Peer(pub(super) String);

/// A bound socket. A Unix socket's file is removed with it.
pub(super) enum BoundSocket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl BoundSocket {
    pub(super) async fn bind(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            ListenAddress::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                Ok(Self::Unix(listener, SocketFile(path.clone())))
            }
        }
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn ByteStream>, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A picture is one write, and shall not wait for the next one.
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Peer(peer.to_string())))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().map(|process| process.uid());
                let peer = user.map_or("unix".to_owned(), |user| format!("user {user}"));
                Ok((Box::new(stream), Peer(peer)))
            }
        }
    }

    /// Returns the address, with the port that the system chose.
    pub(super) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            Self::Unix(_, file) => Ok(ListenAddress::Unix(file.0.clone())),
        }
    }
}

/// The file of a Unix socket.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes the socket of a server that was killed. One that answers stays, and so does any other file.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
        },
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "that file is no socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &Path) -> ListenAddress {
        format!("unix:{}", path.display()).parse().expect("an address")
    }

    #[test]
    fn an_address_is_a_port_or_a_path() {
        for text in ["127.0.0.1:7411", "[::1]:0", "unix:/run/locks.sock"] {
            assert_eq!(text.parse::<ListenAddress>().expect(text).to_string(), text);
        }
        for text in ["", "localhost:80", "7411", "unix:", "/run/locks.sock"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_unix_socket_is_of_this_machine() {
        assert!(!unix(Path::new("/run/locks.sock")).is_open());
        for (text, is_open) in
            [("127.9.9.9:80", false), ("[::ffff:127.0.0.1]:0", false), ("0.0.0.0:0", true)]
        {
            assert_eq!(text.parse::<ListenAddress>().unwrap().is_open(), is_open, "{text}");
        }
    }

    #[tokio::test]
    async fn the_socket_of_a_killed_server_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.sock");
        // As a server leaves it that is killed: closed, but still there.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let bound = BoundSocket::bind(&unix(&path)).await.unwrap();
        let error = BoundSocket::bind(&unix(&path)).await.err().expect("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(bound);
        assert!(!path.exists());

        fs::write(&path, "notes").unwrap();
        let error = BoundSocket::bind(&unix(&path)).await.err().expect("it is a file");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    }
}
