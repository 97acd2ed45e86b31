//! etcd, as one node.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::{Daemon, said};
use crate::SetupError;
use crate::ports::BUS;

const PROGRAM: &str = "etcd";

/// An etcd of its own port and folder, with nothing else changed: it writes to disk what it promises.
/// Dropping it kills it and removes its files.
#[derive(Debug)]
pub struct Etcd {
    daemon: Daemon,
}

impl Etcd {
    /// Is the program on the path?
    pub fn is_installed() -> bool {
        said(PROGRAM, Command::new(PROGRAM).arg("--version")).is_ok()
    }

    /// Starts one.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if it is not installed.
    pub fn start() -> Result<Self, SetupError> {
        if !Self::is_installed() {
            return Err(SetupError::NotInstalled(PROGRAM));
        }
        let daemon = Daemon::prepare()?;
        let port = daemon.port();
        let url = url_of(port);
        // Nobody else is to join it, but it wants a place for them.
        let peers = url_of(port + BUS);
        let mut command = Command::new(PROGRAM);
        command.args(["--name", "alone", "--data-dir"]).arg(daemon.dir().join("data"));
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("alone={peers}")]);
        daemon.start(PROGRAM, &command, || is_healthy(port).is_ok_and(|healthy| healthy))?;
        Ok(Self { daemon })
    }

    /// Where it serves its clients: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        url_of(self.daemon.port())
    }
}

fn url_of(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Has it elected itself?
fn is_healthy(port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.contains(r#""health":"true""#))
}
