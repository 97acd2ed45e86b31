//! Servers of our own on free ports, gone when the test is.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value};

/// Nothing takes this long unless it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const BOTH: [&str; 2] = ["redis-server", "valkey-server"];

pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    program: &'static str,
    arguments: Vec<String>,
    pub(crate) directory: tempfile::TempDir,
}

/// Below what the system gives to outgoing connections, or one of those might take it before the
/// server does; a Cluster's bus, 10 000 above, too.
const PORTS: std::ops::Range<u32> = 10_000..16_000;

pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    loop {
        let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + next % (PORTS.end - PORTS.start)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    pub(crate) fn start(program: &'static str, arguments: &[&str]) -> Self {
        let server = Self::launch(program, arguments);
        until("the server answers", || server.try_ask::<Value>(&["PING"]).is_ok());
        server
    }

    /// Without waiting for an answer.
    pub(crate) fn launch(program: &'static str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>();
        let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
        let child = spawn(program, port, directory.path(), &arguments);
        Self { child, port, program, arguments, directory }
    }

    /// A Sentinel, with these lines besides its port in its configuration, which it rewrites.
    pub(crate) fn sentinel(lines: &str) -> Self {
        let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
        let path = directory.path().join("sentinel.conf");
        std::fs::write(&path, format!("port {port}\nbind 127.0.0.1\n{lines}")).unwrap();
        let program = "redis-server";
        let arguments = vec![path.display().to_string(), "--sentinel".to_owned()];
        let child = run(Command::new(program).args(&arguments));
        let server = Self { child, port, program, arguments, directory };
        until("the Sentinel answers", || server.try_ask::<Value>(&["PING"]).is_ok());
        server
    }

    /// Kills it and starts it anew at the same place, without waiting for an answer.
    pub(crate) fn restart(&mut self, more: &[&str]) {
        self.kill();
        let mut arguments = self.arguments.clone();
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        self.child = spawn(self.program, self.port, self.directory.path(), &arguments);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// One that stays, so that what it asks about connections is not about itself.
    pub(crate) fn admin(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    pub(crate) fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_ask(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(crate) fn try_ask<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(2))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }

    /// The connections that it has, but the one that asks.
    pub(crate) fn connections(&self) -> usize {
        self.ask::<String>(&["CLIENT", "LIST"]).lines().count() - 1
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(program: &str, port: u16, directory: &std::path::Path, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"]);
    command.args(["--enable-debug-command", "yes", "--dir"]).arg(directory).args(arguments);
    run(&mut command)
}

fn run(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Waits for what has to become true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came about that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
