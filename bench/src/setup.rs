//! What a run happens on: servers that all contestants share, a runtime, a folder, our own programs.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use taketurns::{Connect, Locks};
use taketurns_servers::others::Postgres;
use taketurns_servers::stats::CommandStats;
use taketurns_servers::{Builder, Flavor, Server, module_path, target_dir};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Why a contestant has no figures.
pub(crate) type BenchError = String;

/// Shared by all workloads.
pub(crate) struct BenchSetup {
    pub(crate) quick: bool,
    /// Redis without the module.
    pub(crate) plain: Server,
    /// Redis with it.
    pub(crate) module: Server,
    /// Valkey, without the module and with it.
    valkey: Result<[Server; 2], BenchError>,
    /// For our engine and for the server's own locks.
    pub(crate) postgres: Result<Postgres, BenchError>,
    runtime: Runtime,
    folder: TempDir,
}

/// Which of our two ways a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchBackend {
    Scripts,
    Module,
}

impl BenchBackend {
    pub(crate) const BOTH: [Self; 2] = [Self::Scripts, Self::Module];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Scripts => "scripts",
            Self::Module => "module",
        }
    }

    /// A server for it, to be started.
    pub(crate) fn builder(self, flavor: Flavor) -> Result<Builder, BenchError> {
        let builder = Server::builder(flavor);
        Ok(match self {
            Self::Scripts => builder,
            Self::Module => builder.module(&module_path().map_err(said)?, &[]),
        })
    }

    /// A Redis server of its own, running.
    pub(crate) fn start(self) -> Result<Server, BenchError> {
        self.builder(Flavor::Redis)?.start().map_err(said)
    }

    /// The URL by which our clients reach such a server.
    pub(crate) fn url(self, server: &Server) -> String {
        let module = match self {
            Self::Scripts => "off",
            Self::Module => "required",
        };
        format!("{}?module={module}", server.url())
    }

    /// The name of a contestant that is measured on such a server.
    pub(crate) fn on(self, flavor: Flavor) -> String {
        format!("{}{}", self.name(), on(flavor))
    }
}

/// Our engine on PostgreSQL, by what a contestant is called, with the URL that a server has for it. The second has
/// each commit wait for the disk, which the server's own locks never do: they write nothing.
pub(crate) const ON_POSTGRES: [(&str, &str); 2] = [
    ("PostgreSQL engine", ""),
    ("PostgreSQL engine, synchronous commit", "?synchronous_commit=on"),
];

/// What a contestant's name has after it for its server. Redis is not mentioned.
pub(crate) const fn on(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Redis => "",
        Flavor::Valkey => " on Valkey",
    }
}

/// A client with everything at its default.
pub(crate) async fn open(url: &str) -> Result<Locks, BenchError> {
    Connect::new(url).open().await.map_err(said)
}

impl BenchSetup {
    pub(crate) fn start(quick: bool) -> Result<Self, BenchError> {
        // Not in a folder in memory, since the benchmark measures the file engine on a disk.
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(target_dir());
        let valkey = |backend: BenchBackend| backend.builder(Flavor::Valkey)?.start().map_err(said);
        let both = |plain| Ok([plain, valkey(BenchBackend::Module)?]);
        Ok(Self {
            quick,
            plain: BenchBackend::Scripts.start()?,
            module: BenchBackend::Module.start()?,
            valkey: valkey(BenchBackend::Scripts).and_then(both),
            postgres: Postgres::start().map_err(said),
            runtime: Runtime::new().map_err(said)?,
            folder: folder.map_err(said)?,
        })
    }

    /// The URL of our engine on the PostgreSQL that all share, with these options.
    pub(crate) fn postgres_url(&self, options: &str) -> Result<String, BenchError> {
        let server = self.postgres.as_ref().map_err(Clone::clone)?;
        Ok(server.url() + options)
    }

    pub(crate) fn server(
        &self,
        flavor: Flavor,
        backend: BenchBackend,
    ) -> Result<&Server, BenchError> {
        Ok(match (flavor, backend) {
            (Flavor::Redis, BenchBackend::Scripts) => &self.plain,
            (Flavor::Redis, BenchBackend::Module) => &self.module,
            (Flavor::Valkey, backend) => {
                let [plain, module] = self.valkey.as_ref().map_err(Clone::clone)?;
                if backend == BenchBackend::Module { module } else { plain }
            }
        })
    }

    /// The URL of our clients for the Redis that all share.
    pub(crate) fn url(&self, backend: BenchBackend) -> String {
        backend.url(match backend {
            BenchBackend::Scripts => &self.plain,
            BenchBackend::Module => &self.module,
        })
    }

    /// Runs it as a task of the runtime, as all of a user's code would.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, BenchError>> + Send + 'static,
    ) -> Result<T, BenchError> {
        self.runtime.block_on(self.runtime.spawn(task)).map_err(said)?
    }

    /// A path on the disk for files of a contestant, new for each call.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(fresh(name))
    }

    /// Returns the first in a quick run, else the second.
    pub(crate) fn pick(&self, quick: f64, full: f64) -> f64 {
        if self.quick { quick } else { full }
    }

    pub(crate) fn time(&self, quick: f64, full: f64) -> Duration {
        Duration::from_secs_f64(self.pick(quick, full))
    }
}

/// What our clients asked of a server since its counters were reset: how many commands, and their time
/// in µs. What scripts call in turn is not counted.
pub(crate) fn asked_of(server: &Server) -> Result<(f64, f64), BenchError> {
    let stats = server.command_stats();
    let ours = ["evalsha", "eval", "fencelock.do"];
    let ours = stats.iter().filter(|(name, _)| ours.contains(&name.to_lowercase().as_str()));
    let sum = |(calls, usec), (_, one): (_, &CommandStats)| (calls + one.calls, usec + one.usec);
    match ours.fold((0, 0), sum) {
        (0, _) => Err("the server counted no command of ours".to_owned()),
        (calls, usec) => Ok((calls as f64, usec as f64)),
    }
}

/// A name that was not there before, so that no round finds what an earlier one left.
pub(crate) fn fresh(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// An error as the reason that is shown.
pub(crate) fn said(error: impl std::fmt::Display) -> BenchError {
    error.to_string()
}

/// This program as another process that does one part of a workload. It is killed when dropped.
pub(crate) struct Helper(pub(crate) Child);

impl Helper {
    pub(crate) fn start(part: &str, args: &[&str]) -> Result<Self, BenchError> {
        let mut command = Command::new(std::env::current_exe().map_err(said)?);
        command.arg(part).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map(Self).map_err(said)
    }

    /// All that it says, once it has ended.
    pub(crate) fn rest(&mut self) -> Result<String, BenchError> {
        let mut text = String::new();
        let out = self.0.stdout.as_mut().ok_or("its output was read before")?;
        out.read_to_string(&mut text).map_err(said)?;
        let status = self.0.wait().map_err(said)?;
        if status.success() { Ok(text) } else { Err(format!("a process ended with {status}")) }
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), BenchError> {
        let input = self.0.stdin.as_mut().ok_or("its input was closed")?;
        input.write_all(format!("{line}\n").as_bytes()).map_err(said)
    }

    /// Closes its input, at which it ends.
    pub(crate) fn stop(&mut self) {
        drop(self.0.stdin.take());
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> Result<String, BenchError> {
        let out = self.0.stdout.as_mut().ok_or("its output was read before")?;
        let mut line = Vec::new();
        let mut byte = [0];
        while out.read(&mut byte).map_err(said)? == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).map_err(said)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
