//! One server, from its start to its end.
//!
//! All methods take `&self`, so a test may stop a server while others use it. Where its process
//! can't be signalled they panic: that is a fault of the test, not a case to handle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::{self, Port};
use crate::process::Process;
use crate::stats::{self, CommandStats};
use crate::{Builder, Connection, Flavor, PATIENCE, ServerReply, SetupError, installed, watchdog};

/// A server of its own port and folder. Dropping it kills it and removes its files.
#[derive(Debug)]
pub struct Server {
    builder: Builder,
    port: Port,
    tls_port: Option<Port>,
    process: Mutex<Option<Process>>,
    folder: TempDir,
}

/// How a start went.
enum Start {
    Up(Process),
    /// Somebody else was quicker to take the port.
    InUse,
}

/// When a start is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The server has loaded its data and serves every command.
    Serving,
    /// The server answers, if only that it is loading its data.
    Answering,
}

/// How many ports are tried before something else must be wrong.
const ATTEMPTS: usize = 20;

impl Server {
    /// Starts one that keeps nothing on disk.
    ///
    /// # Errors
    ///
    /// [`SetupError::Missing`] if it is not installed.
    pub fn start(flavor: Flavor) -> Result<Self, SetupError> {
        Self::builder(flavor).start()
    }

    /// Builds one to measure.
    pub fn builder(flavor: Flavor) -> Builder {
        Builder::new(flavor)
    }

    pub(crate) fn launch(builder: Builder) -> Result<Self, SetupError> {
        if !installed(builder.flavor) {
            return Err(SetupError::Missing(builder.flavor));
        }
        for _ in 0..ATTEMPTS {
            let port = ports::reserve()?;
            let tls_port = builder.tls.as_ref().map(|_| ports::reserve()).transpose()?;
            let folder = tempfile::Builder::new()
                .prefix(&format!("{}-", port.number()))
                .tempdir_in(watchdog::folder()?)?;
            let tls_number = tls_port.as_ref().map(Port::number);
            let file = builder.file(folder.path(), port.number(), tls_number);
            fs::write(folder.path().join("server.conf"), file)?;
            for module in &builder.modules {
                module.link(folder.path())?;
            }
            let builder = builder.clone();
            let server = Self { builder, port, tls_port, process: Mutex::new(None), folder };
            if let Start::Up(process) = server.spawn(Readiness::Serving, &[])? {
                *server.process() = Some(process);
                return Ok(server);
            }
        }
        Err(io::Error::from(io::ErrorKind::AddrInUse).into())
    }

    /// Redis or Valkey.
    pub fn flavor(&self) -> Flavor {
        self.builder.flavor
    }

    /// Where it listens, without TLS if it has such a port. The same after a restart.
    pub fn port(&self) -> u16 {
        match &self.builder.tls {
            Some(tls) if tls.only => self.tls_port().unwrap_or_default(),
            _ => self.port.number(),
        }
    }

    /// Where it speaks TLS.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port.as_ref().map(Port::number)
    }

    /// [`Server::port`] as an address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Its URL: `redis://`, or `rediss://` if it speaks TLS, with the password if there is one.
    pub fn url(&self) -> String {
        let password = self.builder.password.as_ref().map(|password| format!(":{password}@"));
        let (scheme, port) = match self.tls_port() {
            Some(port) => ("rediss", port),
            None => ("redis", self.port()),
        };
        format!("{scheme}://{}127.0.0.1:{port}", password.unwrap_or_default())
    }

    /// The folder with its files.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Its process, if it was not ended.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::id)
    }

    /// Could it answer? Not if it is paused, was ended or ended by itself.
    pub fn is_running(&self) -> bool {
        self.process().as_ref().is_some_and(Process::is_running)
    }

    /// What it logged, over all its restarts.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Kills it as a crash would, and waits until it is gone.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// Asks it to end, and waits until it has. A paused one is resumed for that.
    #[track_caller]
    pub fn shutdown(&self) {
        if let Some(process) = self.process().take() {
            process.terminate().expect("a server ends when it is asked to");
        }
    }

    /// Stops it in the middle of whatever it does. Its connections stay open, and the system still
    /// takes bytes for it.
    #[track_caller]
    pub fn pause(&self) {
        let mut process = self.process();
        process.as_mut().expect("the server runs").pause().expect("a child can be stopped");
    }

    /// Lets it go on after [`Server::pause`].
    #[track_caller]
    pub fn resume(&self) {
        let mut process = self.process();
        process.as_mut().expect("the server runs").resume().expect("a child can be resumed");
    }

    /// Starts it again at the same port with the same files, and kills it first if it runs. Returns
    /// when it has loaded its data and serves.
    ///
    /// # Errors
    ///
    /// [`SetupError::Ended`] if it does not like the files, for instance.
    pub fn restart(&self) -> Result<(), SetupError> {
        self.start_again(Readiness::Serving, &[])
    }

    /// Kills it if it runs, and starts it with more arguments, for this once.
    pub(crate) fn start_again(&self, ready: Readiness, more: &[&str]) -> Result<(), SetupError> {
        let mut process = self.process();
        drop(process.take());
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.spawn(ready, more)? {
                Start::Up(started) => {
                    *process = Some(started);
                    return Ok(());
                }
                Start::InUse if Instant::now() < deadline => {}
                Start::InUse => return Err(io::Error::from(io::ErrorKind::AddrInUse).into()),
            }
        }
    }

    /// A connection, as the user `default`.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn connect(&self) -> io::Result<Connection> {
        self.connect_with(PATIENCE)
    }

    fn connect_with(&self, timeout: Duration) -> io::Result<Connection> {
        let mut connection = Connection::open(self.port())?;
        connection.set_timeout(timeout)?;
        if let Some(password) = &self.builder.password {
            connection.command(&["AUTH", password])?;
        }
        Ok(connection)
    }

    /// One command on a connection of its own.
    ///
    /// # Panics
    ///
    /// If the server can't be reached. [`Server::try_cli`] does not.
    #[track_caller]
    pub fn cli(&self, words: &[&str]) -> ServerReply {
        match self.try_cli(words) {
            Ok(reply) => reply,
            Err(error) => panic!("{} at {}: {words:?}: {error}", self.flavor(), self.port()),
        }
    }

    /// One command on a connection of its own.
    ///
    /// # Errors
    ///
    /// If the server can't be reached.
    pub fn try_cli(&self, words: &[&str]) -> io::Result<ServerReply> {
        self.connect()?.command(words)
    }

    /// `redis-cli` or `valkey-cli` at this server, to be given arguments and run: what people type
    /// and scripts do. Not for a server that speaks nothing but TLS.
    pub fn redis_cli(&self) -> Command {
        let mut command = Command::new(self.flavor().client());
        command.args(["-h", "127.0.0.1", "-p", &self.port().to_string()]);
        if let Some(password) = &self.builder.password {
            command.args(["-a", password, "--no-auth-warning"]);
        }
        command
    }

    /// One command that has to work.
    pub(crate) fn must(&self, words: &[&str]) -> Result<ServerReply, SetupError> {
        match self.try_cli(words)? {
            ServerReply::Error(reply) => {
                Err(SetupError::Refused { command: words.join(" "), reply })
            }
            reply => Ok(reply),
        }
    }

    /// A section of INFO, empty if the server can't be reached.
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        let reply = self.try_cli(&["INFO", section]);
        stats::info(reply.as_ref().ok().and_then(ServerReply::text).unwrap_or_default())
    }

    /// How often each command ran since the start or since [`Server::reset_stats`].
    ///
    /// # Panics
    ///
    /// If the server can't be reached.
    #[track_caller]
    pub fn command_stats(&self) -> BTreeMap<String, CommandStats> {
        stats::commands(self.cli(&["INFO", "commandstats"]).text().unwrap_or_default())
    }

    /// Counts from zero again.
    ///
    /// # Panics
    ///
    /// If the server can't be reached.
    #[track_caller]
    pub fn reset_stats(&self) {
        assert!(self.cli(&["CONFIG", "RESETSTAT"]).is_ok(), "CONFIG RESETSTAT works");
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_path(&self) -> PathBuf {
        self.dir().join("server.log")
    }

    fn spawn(&self, ready: Readiness, more: &[&str]) -> Result<Start, SetupError> {
        let program = self.builder.flavor.program();
        let mut command = Command::new(program);
        command.arg(self.dir().join("server.conf"));
        command.args(self.builder.sentinel.then_some("--sentinel"));
        command.args(&self.builder.args).args(more).envs(self.builder.env.iter().cloned());
        let log_before = self.log().len();
        let output = File::options().create(true).append(true).open(self.log_path())?;
        let process = Process::spawn(&command, output)?;
        let deadline = Instant::now() + PATIENCE;
        while !process.has_ended() {
            match self.answers(process.id(), log_before, ready) {
                Some(true) => {
                    let words: Vec<&str> =
                        self.builder.at_start.iter().map(String::as_str).collect();
                    if !words.is_empty() {
                        self.must(&words)?;
                    }
                    return Ok(Start::Up(process));
                }
                Some(false) => return Ok(Start::InUse),
                None if Instant::now() < deadline => sleep(Duration::from_millis(5)),
                None => {
                    let what = format!("{program} at {} answers", self.port());
                    return Err(SetupError::Patience { what, last: String::new() });
                }
            }
        }
        let log = self.log();
        let log = log.get(log_before..).unwrap_or_default();
        if log.contains("Address already in use") {
            return Ok(Start::InUse);
        }
        let lines: Vec<&str> = log.lines().collect();
        let said = lines[lines.len().saturating_sub(20)..].join("\n");
        Err(SetupError::Ended { program, said })
    }

    /// Is this process ready at our port? `Some(false)` if another one answers there.
    fn answers(&self, pid: u32, log_before: usize, ready: Readiness) -> Option<bool> {
        if self.builder.tls.as_ref().is_some_and(|tls| tls.only) {
            let log = self.log();
            return log.get(log_before..)?.contains("Ready to accept connections").then_some(true);
        }
        // Not for long: if it is somebody else who listens there, it may never answer.
        let mut connection = self.connect_with(Duration::from_secs(1)).ok()?;
        // An error such as NOAUTH is an answer too.
        let pong = connection.command(&["PING"]).ok()?;
        let mut info = |section| {
            let info = connection.command(&["INFO", section]).ok()?;
            Some(stats::info(info.text().unwrap_or_default()))
        };
        if info("server")?.get("process_id").is_some_and(|id| *id != pid.to_string()) {
            return Some(false);
        }
        let loads = matches!(&pong, ServerReply::Error(why) if why.starts_with("LOADING"))
            || info("persistence")?.get("loading").is_some_and(|loading| loading != "0");
        (ready == Readiness::Answering || !loads).then_some(true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Before the folder goes, or it would write into it again.
        self.kill();
    }
}
