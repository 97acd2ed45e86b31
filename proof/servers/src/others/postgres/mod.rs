//! PostgreSQL servers. Only this machine can reach them.
//!
//! ```text
//!   Postgres          one server; `shared` is one for all tests of a program
//!   PostgresDatabase  a database of its own on a server: what a test wants
//!   PostgresPair      a primary with a standby, which take turns
//!   PgBouncer         a proxy that gives a connection for a transaction
//! ```

mod builder;
mod database;
mod pair;
mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Daemon, said};
use crate::process::Process;
use crate::{PATIENCE, SetupError, eventually};

pub use builder::PostgresBuilder;
pub use database::PostgresDatabase;
pub use pair::PostgresPair;
pub(super) use programs::UserIds;

use programs::PROGRAM;

/// A PostgreSQL of its own port and folder. Dropping it ends it and removes its files.
///
/// All methods take `&self`, so a test may stop a server while others use it. Where a process can't be signalled
/// they panic: that is a fault of the test.
#[derive(Debug)]
pub struct Postgres {
    builder: PostgresBuilder,
    daemon: Daemon,
    programs: PathBuf,
    user: UserIds,
}

impl Postgres {
    /// Are its programs on the path, or where Debian keeps them?
    pub fn is_installed() -> bool {
        programs::folder().is_some()
    }

    /// Starts one with nothing changed: it writes to disk what it promises.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if it is not installed.
    pub fn start() -> Result<Self, SetupError> {
        Self::builder().start()
    }

    /// Builds one to measure.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// One for all tests of this process, which has room for the clients of many. It is started when first asked for,
    /// and ends with the process. Each test takes a [database](Self::database) of its own, whose clock it may stop, and
    /// changes nothing of the server. `pg_stat_statements`, in the database `postgres`, counts what each database is
    /// asked.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if it is not installed.
    pub fn shared() -> Result<&'static Self, SetupError> {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = SHARED.get() {
            return Ok(server);
        }
        let room = Self::builder().quick().passwords().setting("max_connections", "600");
        let counts = ("shared_preload_libraries", "pg_stat_statements");
        let room = room.setting(counts.0, counts.1).setting("shared_buffers", "64MB");
        // Each statement is counted once per database. Beyond this number the server would drop the rarest counts.
        let room = room.setting("pg_stat_statements.max", "100000");
        let server = room.clock_per_database()?.start()?;
        server.sql("postgres", "CREATE EXTENSION pg_stat_statements")?;
        Ok(SHARED.get_or_init(|| server))
    }

    /// Where it listens. The same after a restart.
    pub fn port(&self) -> u16 {
        self.daemon.port()
    }

    /// Its URL, with a user that may do anything.
    pub fn url(&self) -> String {
        self.url_of("postgres", "postgres")
    }

    /// The URL of a database for a user. With a password this is `user:password`.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port())
    }

    /// The folder of its Unix socket, if it was [built](PostgresBuilder::socket) with one.
    pub fn socket_dir(&self) -> &Path {
        self.daemon.dir()
    }

    /// What it logged, over all its restarts.
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Runs statements of SQL in a database, as the user that may do anything, and returns the rows: a line each,
    /// with `|` between the columns. Several statements are one transaction.
    ///
    /// # Errors
    ///
    /// [`SetupError::Failed`] with what the server said.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, SetupError> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-h", "127.0.0.1", "-p", &self.port().to_string(), "-U", "postgres"]);
        psql.args(["-d", database, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        psql.env("PGCONNECT_TIMEOUT", PATIENCE.as_secs().to_string()).env_remove("PGOPTIONS");
        Ok(said("psql", psql.stdin(Stdio::null()))?.trim_end().to_owned())
    }

    /// Starts it again at the same port with the same files, and kills it first if it runs. Returns when it takes
    /// connections.
    ///
    /// # Errors
    ///
    /// [`SetupError::Ended`] if it can't start.
    pub fn restart(&self) -> Result<(), SetupError> {
        self.kill();
        self.spawn()
    }

    /// Kills the server with all its processes, as a crash of the machine would, and waits until all are gone.
    #[track_caller]
    pub fn kill(&self) {
        let process = self.daemon.process().take();
        process.map_or(Ok(()), Process::kill_all).expect("a child can be killed");
    }

    /// Kills one of its processes, by the number that `pg_stat_activity` has. The server then ends all connections
    /// and starts from its log, as after a crash.
    ///
    /// # Errors
    ///
    /// If it has no such process.
    pub fn kill_backend(&self, id: u32) -> Result<(), SetupError> {
        let process = self.daemon.process();
        Ok(process.as_ref().expect("the server runs").kill_child(id)?)
    }

    /// Stops all its processes in the middle of whatever they do. The system still takes connections for it.
    #[track_caller]
    pub fn pause(&self) {
        let mut process = self.daemon.process();
        process.as_mut().expect("the server runs").pause_all().expect("children can be stopped");
    }

    /// Lets it go on after [`Self::pause`].
    #[track_caller]
    pub fn resume(&self) {
        let mut process = self.daemon.process();
        process.as_mut().expect("the server runs").resume_all().expect("children can be resumed");
    }

    /// Asks the server to end, even with clients connected, and waits until it has. Its next start is one after a
    /// crash.
    ///
    /// # Errors
    ///
    /// [`SetupError::Patience`] if it does not. It is killed then.
    pub fn shutdown(&self) -> Result<(), SetupError> {
        self.end(Process::quit)
    }

    /// The same, but it writes down all that it has before: a clean stop, as for an upgrade.
    ///
    /// # Errors
    ///
    /// [`SetupError::Patience`] if it does not. It is killed then.
    pub fn stop(&self) -> Result<(), SetupError> {
        self.end(Process::interrupt)
    }

    fn end(&self, how: fn(Process) -> Result<(), SetupError>) -> Result<(), SetupError> {
        let process = self.daemon.process().take();
        process.map_or(Ok(()), how)
    }

    /// Waits until it takes connections: after [`Self::kill_backend`] it does not for a moment.
    ///
    /// # Errors
    ///
    /// [`SetupError::Patience`] if it never does.
    pub fn wait_until_ready(&self) -> Result<(), SetupError> {
        eventually("PostgreSQL takes connections", || self.is_ready().then_some(()))
    }

    fn is_ready(&self) -> bool {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port().to_string()]);
        ready.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn spawn(&self) -> Result<(), SetupError> {
        let mut server = self.command(PROGRAM);
        let port = self.port().to_string();
        server.arg("-D").arg(self.data()).args(["-h", "127.0.0.1", "-p", &port]);
        for (name, value) in self.builder.settings(self.daemon.dir()) {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        server.envs(self.builder.env());
        // Killed, it would leave shared memory behind.
        let spawn = Process::spawn_to_ask;
        self.daemon.start_with(spawn, PROGRAM, &server, || self.is_ready())
    }

    /// Makes the user that the server runs as the owner of a folder: a tablespace, for instance.
    ///
    /// # Errors
    ///
    /// If that is not allowed.
    pub fn own(&self, folder: &Path) -> std::io::Result<()> {
        self.user.own(folder)
    }

    fn data(&self) -> PathBuf {
        self.daemon.dir().join("data")
    }

    /// One of its programs, as the user that owns its files.
    fn command(&self, name: &str) -> Command {
        let mut command = self.user.command(&self.programs.join(name));
        command.current_dir(self.daemon.dir());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // If it does not end, it is killed all the same.
        let _ = self.shutdown();
    }
}
