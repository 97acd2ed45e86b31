//! A store in a directory of its own, the program on it, and what it left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_taketurns");

/// When a test gives up on what never comes. Not a promise about speed.
pub(crate) const HANG: Duration = taketurns_servers::PATIENCE;

/// A store, and a place for the files of one test.
pub(crate) struct Store {
    directory: TempDir,
    has_terminal: bool,
    /// If it is not a file in the directory.
    url: Option<String>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        Self { directory, has_terminal: true, url: None }
    }

    /// On servers.
    pub(crate) fn at(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::new() }
    }

    /// The program has no terminal, as under a supervisor, also if the tests have one.
    pub(crate) fn without_terminal() -> Self {
        Self { has_terminal: false, ..Self::new() }
    }

    /// A path beside the store.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        let file = || format!("file:{}", self.path("locks.db").display());
        self.url.clone().unwrap_or_else(file)
    }

    /// The program with these arguments on this store, in the store's directory. Signals are as a
    /// shell in front would have them, also if the tests run in the background.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("env");
        command
            .arg("--default-signal=HUP,INT,QUIT,TERM")
            .args((!self.has_terminal).then_some("setsid"))
            .arg(PROGRAM)
            .args(args)
            .current_dir(self.directory.path())
            .env("TAKETURNS_STORE", self.url())
            .env_remove("TAKETURNS_HANDLE")
            .env_remove("TAKETURNS_LOCK")
            .env_remove("TAKETURNS_REDIS_PASSWORD")
            .env_remove("TAKETURNS_REDIS_USER")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(&mut self.command(args))
    }

    /// Starts the program, with its stdin and stdout in our hands.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
    }

    /// Holds a lock in another process until it is let go of.
    pub(crate) fn hold(&self, args: &[&str]) -> Running {
        let mut holder =
            self.start(&[&["run"], args, &["--", "sh", "-c", "echo $$; exec cat"]].concat());
        holder.pid_of_child = Some(holder.line().parse().expect("the child's number"));
        holder
    }

    /// The lock as `show --json` has it.
    pub(crate) fn show(&self, lock: &str) -> Value {
        self.run(&["show", "--json", lock]).ok().json()
    }

    /// Waits until the lock has this number of waiters.
    pub(crate) fn until_waiting(&self, lock: &str, waiting: u64) {
        until(&format!("{waiting} wait for {lock}"), || self.show(lock)["waiting"] == waiting);
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < HANG, "still not so: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a program with a time limit in which it gets no lock, and returns both. On a busy machine the
/// store may not even answer in a short time, which is another failure: then the program gets twice as long.
pub(crate) fn in_vain(run: impl Fn(&str) -> Done) -> (Duration, Done) {
    let mut wait = Duration::from_millis(200);
    loop {
        let done = run(&wait.as_secs_f64().to_string());
        if !done.stderr.contains(" in the time given") {
            return (wait, done);
        }
        assert!(wait < HANG, "the store never answers: {done:?}");
        wait *= 2;
    }
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().unwrap_or_else(|| {
            panic!("ended by signal {:?}", output.status.signal());
        });
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// It must have gone well.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// It must have gone well, with nothing to say beside.
    #[track_caller]
    pub(crate) fn quiet(self) -> Self {
        assert_eq!(self.stderr, "", "{self:?}");
        self.ok()
    }

    /// It must have failed with this code, nothing on stdout, and one line on stderr that says so.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, saying: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let line = self.stderr.strip_suffix('\n').expect("a line");
        assert!(line.starts_with("taketurns: ") && !line.contains('\n'), "{self:?}");
        assert!(line.contains(saying), "{saying:?} is not in {self:?}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("one JSON document")
    }
}

/// A program that is running. Killed when dropped, so that a failed test leaves nothing behind.
pub(crate) struct Running {
    child: Child,
    /// Its lines of output, read by a thread, so that a test can stop waiting for one.
    lines: mpsc::Receiver<String>,
    pid_of_child: Option<i32>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines, pid_of_child: None }
    }

    /// Its next line of output; empty if there are no more.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(HANG) {
            Ok(line) => line.trim_end().to_owned(),
            Err(mpsc::RecvTimeoutError::Disconnected) => String::new(),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs without a further line"),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The command that a holder runs.
    pub(crate) fn child(&self) -> Pid {
        Pid::from_raw(self.pid_of_child.expect("a holder")).expect("not zero")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// kill -9, and gone.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        // Waiting would close its stdin, and then a command that reads it would end by that.
        let stdin = self.child.stdin.take();
        self.child.wait().expect("our child");
        self.child.stdin = stdin;
    }

    /// Ends what reads its stdin, which is how a holder lets go.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Its exit code, once it has ended.
    pub(crate) fn code(&mut self) -> i32 {
        let end = Instant::now() + HANG;
        let status = loop {
            // Waiting would close its stdin, and many end with that; asking does not.
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            assert!(Instant::now() < end, "it hangs and does not end");
            thread::sleep(Duration::from_millis(1));
        };
        status.code().unwrap_or_else(|| panic!("ended by signal {:?}", status.signal()))
    }

    /// Lets go, and goes well.
    pub(crate) fn finish(mut self) {
        self.close_stdin();
        assert_eq!(self.code(), 0);
    }

    pub(crate) fn stdin(&mut self) -> &mut std::process::ChildStdin {
        self.child.stdin.as_mut().expect("not closed")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is there still such a process, other than as a zombie that nobody has looked for yet?
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    test_kill_process(pid).is_ok() && !state.starts_with(['Z', 'X'])
}
