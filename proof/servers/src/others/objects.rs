//! A store for objects that speaks S3, as a program in Python: moto, which is made for tests. It honours
//! `If-Match` and `If-None-Match` of a PUT, which is what a fence needs of such a store.

use std::net::{Ipv4Addr, TcpStream};

use super::Daemon;
use crate::SetupError;
use crate::clients;

const PROGRAM: &str = "python3";

/// A store of its own port that keeps what it is given in memory. Any key and secret will do, but it wants
/// requests to be signed. Dropping it kills it.
#[derive(Debug)]
pub struct ObjectStore {
    daemon: Daemon,
}

impl ObjectStore {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// [`SetupError::NoEnvironment`] if [`MOTO`](clients::MOTO) was not installed.
    pub fn start() -> Result<Self, SetupError> {
        let mut command = clients::python_program()?;
        let daemon = Daemon::prepare()?;
        let port = daemon.port();
        command.args(["-m", "moto.server", "--host", "127.0.0.1", "--port", &port.to_string()]);
        command.current_dir(daemon.dir());
        daemon
            .start(PROGRAM, &command, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        Ok(Self { daemon })
    }

    /// Where its buckets are: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.daemon.port())
    }
}
