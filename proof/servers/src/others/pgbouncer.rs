//! pgbouncer in front of a PostgreSQL.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use super::Daemon;
use super::postgres::{Postgres, UserIds};
use crate::SetupError;

const PROGRAM: &str = "pgbouncer";

/// Where Debian keeps it. That folder is not on everybody's path.
const PATHS: [&str; 3] = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];

/// A proxy that gives a client one of its few connections for the length of a transaction: what a session would keep
/// (prepared statements, settings, LISTEN) is lost. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    daemon: Daemon,
}

impl PgBouncer {
    /// Is the program there?
    pub fn is_installed() -> bool {
        program().is_some()
    }

    /// Starts one for all databases of a server, with at most ten connections to each.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if it is not installed.
    pub fn start(server: &Postgres) -> Result<Self, SetupError> {
        let program = program().ok_or(SetupError::NotInstalled(PROGRAM))?;
        let (daemon, user) = (Daemon::prepare()?, UserIds::to_run_as(PROGRAM)?);
        user.own_folder(daemon.dir())?;
        let file = daemon.dir().join("pgbouncer.ini");
        fs::write(daemon.dir().join("users.txt"), "\"postgres\" \"\"\n")?;
        fs::write(&file, settings(server.port(), daemon.port(), daemon.dir()))?;
        let mut command = user.command(Path::new(program));
        command.arg(&file).current_dir(daemon.dir());
        let port = daemon.port();
        daemon
            .start(PROGRAM, &command, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        Ok(Self { daemon })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.daemon.port()
    }

    /// The URL of a database for the user `postgres`, whom it does not ask for a password.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port())
    }
}

fn program() -> Option<&'static str> {
    let wanted = std::env::var_os(crate::NO_SERVERS).is_none();
    PATHS.into_iter().find(|path| wanted && Path::new(path).is_file())
}

fn settings(server: u16, port: u16, folder: &Path) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {}\n\
         pool_mode = transaction\n\
         default_pool_size = 10\n\
         max_client_conn = 500\n",
        folder.join("users.txt").display()
    )
}
