//! The options of a PostgreSQL, and how its files are made.

use std::fs;
use std::path::Path;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::sync::Arc;

use super::{Postgres, programs};
#[cfg(feature = "tls")]
use crate::Certificates;
use crate::others::{Daemon, said};
use crate::{ServerClock, SetupError};

use programs::{PROGRAM, UserIds};

/// Who may log in, from the top. The user `postgres` and standbys need no password on any server.
const TRUSTED: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";
const WITH_PASSWORDS: &str = "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\n\
                              local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n";
const STANDBYS: &str = "host replication postgres 127.0.0.1/32 trust\n";

/// Builds a [`Postgres`]. Unless told otherwise it trusts every client of this machine and keeps the settings of
/// a fresh installation.
#[derive(Clone, Debug, Default)]
pub struct PostgresBuilder {
    settings: Vec<(String, String)>,
    env: Vec<(String, String)>,
    /// Sets the clocks of single databases.
    pub(super) database_clocks: Option<Arc<ServerClock>>,
    passwords: bool,
    socket: bool,
    #[cfg(feature = "tls")]
    tls: Option<(PathBuf, PathBuf)>,
}

impl PostgresBuilder {
    /// A setting of `postgresql.conf`. It stays through restarts, and `ALTER SYSTEM` can't change it.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits for no disk. What was written survives `kill -9` all the same: only the machine's end would lose it.
    /// For all tests that are not about disks, which it makes much faster.
    pub fn quick(self) -> Self {
        let settings = [("fsync", "off"), ("full_page_writes", "off"), ("max_wal_size", "256MB")];
        settings.into_iter().fold(self, |builder, (name, value)| builder.setting(name, value))
    }

    /// Asks all users but `postgres` for a password, which `CREATE ROLE … LOGIN PASSWORD …` gives them.
    pub fn passwords(mut self) -> Self {
        self.passwords = true;
        self
    }

    /// Listens on a Unix socket in [`Postgres::socket_dir`] as well.
    pub fn socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// Speaks TLS to who asks for it.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.tls = Some((certificates.server_cert(), certificates.server_key()));
        self
    }

    /// Its clock is this one.
    pub fn clock(mut self, clock: &ServerClock) -> Self {
        self.env.extend(clock.env().map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// Each database may have a [clock of its own](super::PostgresDatabase::stop_clock).
    pub(super) fn clock_per_database(mut self) -> Result<Self, SetupError> {
        let clocks = Arc::new(ServerClock::ahead(0)?);
        self = self.clock(&clocks);
        self.database_clocks = Some(clocks);
        Ok(self)
    }

    /// Starts it with an empty database of the name `postgres`.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if it is not installed.
    pub fn start(self) -> Result<Postgres, SetupError> {
        let server = self.prepare()?;
        let mut initdb = server.command("initdb");
        initdb.args(["--username", "postgres", "--auth", "trust", "--no-sync"]);
        initdb.args(["--encoding", "UTF8", "--locale", "C", "--pgdata"]).arg(server.data());
        said("initdb", &mut initdb)?;
        server.spawn()?;
        Ok(server)
    }

    /// A port and a folder, and nothing in it yet.
    pub(super) fn prepare(self) -> Result<Postgres, SetupError> {
        let programs = programs::folder().ok_or(SetupError::NotInstalled(PROGRAM))?;
        let (daemon, user) = (Daemon::prepare()?, UserIds::to_run_as(PROGRAM)?);
        user.own_folder(daemon.dir())?;
        let server = Postgres { builder: self, daemon, programs, user };
        server.builder.write_files(server.daemon.dir(), user)?;
        Ok(server)
    }

    /// What is in the folder beside the data: who may log in, and the key for TLS, which must be the server's own.
    fn write_files(&self, folder: &Path, user: UserIds) -> Result<(), SetupError> {
        let logins = if self.passwords { WITH_PASSWORDS } else { TRUSTED };
        fs::write(folder.join("logins.conf"), format!("{STANDBYS}{logins}"))?;
        #[cfg(feature = "tls")]
        if let Some((certificate, key)) = &self.tls {
            use std::os::unix::fs::PermissionsExt;
            fs::copy(certificate, folder.join("server.crt"))?;
            let copy = folder.join("server.key");
            fs::copy(key, &copy)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
            user.own(&copy)?;
        }
        #[cfg(not(feature = "tls"))]
        let _ = user;
        Ok(())
    }

    /// All settings, our own last.
    pub(super) fn settings(&self, folder: &Path) -> Vec<(String, String)> {
        let path = |name: &str| folder.join(name).display().to_string();
        // No socket in a folder that all share.
        let sockets = if self.socket { path("") } else { String::new() };
        let mut settings = vec![
            ("hba_file".to_owned(), path("logins.conf")),
            ("unix_socket_directories".to_owned(), sockets),
        ];
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            settings.push(("ssl".to_owned(), "on".to_owned()));
            settings.push(("ssl_cert_file".to_owned(), path("server.crt")));
            settings.push(("ssl_key_file".to_owned(), path("server.key")));
        }
        settings.extend(self.settings.iter().cloned());
        settings
    }

    pub(super) fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
