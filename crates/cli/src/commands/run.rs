//! `taketurns run`: runs a command while holding a lock.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_current_process_group};
use taketurns::{Guard, Locks};
use tokio::time::Instant;

use crate::ask::{self, AskArgs, HoldTimes};
use crate::child;
use crate::exit::{self, ExitFailure};
use crate::held::{Held, HoldEnd};
use crate::process_group::ProcessGroup;
use crate::signals::Signals;
use crate::store::{self, StoreConnection};
use crate::supervise::{ChildEnd, Supervisor};
use crate::terminal::Terminal;

/// Run a command while holding a lock
///
/// Waits for the lock, runs the command, and releases the lock when the command ends. Without a
/// terminal, run prints nothing unless something goes wrong; -v reports the wait.
///
/// The command reads this program's stdin, is the terminal's foreground job, and gets the signals that
/// this program gets. It finds the lock's name, fencing token and pool member in TAKETURNS_LOCK,
/// TAKETURNS_TOKEN and TAKETURNS_MEMBER.
///
/// If the lock can't be renewed, the command gets SIGTERM, and SIGKILL before the lease ends, so that it
/// never runs at the same time as the next holder. A job that is stopped (Ctrl-Z) for longer than its
/// lease loses the lock; it is killed when it is continued.
///
/// Locks are not re-entrant: a run inside a run on the same lock would wait forever. If TAKETURNS_LOCK
/// shows this, run fails, unless -n or -w limits the wait.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
#[command(override_usage = "taketurns run [OPTIONS] <LOCK> [--] <COMMAND>...")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    #[command(flatten)]
    times: HoldTimes,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let mut signals = Signals::listen()?;
    let program = program(&args.command[0]);
    let loading = args.ask.wait.loading();
    let opened = ask::open(store, &program, getpid(), loading, &mut signals).await?;
    let code = hold_and_run(&opened, &args, &mut signals).await;
    store::close(opened.locks).await;
    code
}

async fn hold_and_run(
    opened: &StoreConnection,
    args: &Args,
    signals: &mut Signals,
) -> Result<u8, ExitFailure> {
    let guard = ask::acquire(opened, &args.ask, args.times, signals).await?;
    let max_hold = args.times.max_hold;
    let under = LockedCommand { locks: &opened.locks, command: &args.command, max_hold };
    under.run(guard.into(), signals).await?.code
}

/// The name under which others see a command.
pub(crate) fn program(word: &OsStr) -> Cow<'_, str> {
    Path::new(word).file_name().unwrap_or_default().to_string_lossy()
}

/// A command that runs only while a lock is held.
pub(crate) struct LockedCommand<'a> {
    pub(crate) locks: &'a Locks,
    pub(crate) command: &'a [OsString],
    pub(crate) max_hold: Option<Duration>,
}

/// How the command ended.
pub(crate) struct RunOutcome {
    /// The exit code of the program.
    pub(crate) code: Result<u8, ExitFailure>,
    pub(crate) end: HoldEnd,
    /// A signal told this program to end.
    pub(crate) told_to_end: bool,
}

impl LockedCommand<'_> {
    /// Runs the command to its end, and then ends what it ran under.
    pub(crate) async fn run(
        &self,
        held: Held,
        signals: &mut Signals,
    ) -> Result<RunOutcome, ExitFailure> {
        let since = Instant::now();
        let terminal = Terminal::open();
        let job = match start(self.command, &held, terminal.as_ref()) {
            Ok(job) => job,
            Err(failure) => {
                held.end(false, false, signals).await;
                return Err(failure);
            }
        };
        let child = job.pid();
        let watch = Supervisor {
            locks: self.locks,
            guard: &held,
            terminal: terminal.as_ref(),
            max_hold: self.max_hold.map(|max_hold| (since, max_hold)),
        };
        let ended = watch.run(job, signals).await;
        let given = terminal.as_ref().filter(|terminal| terminal.is_given(child));
        if let Some(terminal) = given {
            terminal.take_back(Some(child));
        }
        let ChildEnd { code, signal, told_to_end, .. } = ended;
        let end = held.end(signal.is_none() && code == 0, ended.lost, signals).await;
        let code = match signal {
            _ if end == HoldEnd::Lost => Ok(exit::LOST),
            _ if end == HoldEnd::Unconfirmed => Ok(exit::UNAVAILABLE),
            None => Ok(code),
            Some(signal) => {
                if given.is_some() {
                    pass_on_interrupt(signal);
                }
                let at_terminal = terminal.is_some_and(|terminal| terminal.is_ours());
                Err(ExitFailure::signal(signal, at_terminal, ""))
            }
        };
        Ok(RunOutcome { code, end, told_to_end })
    }
}

/// Starts the command, in the foreground if this program is there.
fn start(
    words: &[OsString],
    guard: &Guard,
    terminal: Option<&Terminal>,
) -> Result<ProcessGroup, ExitFailure> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("TAKETURNS_LOCK", guard.name().as_str());
    // The handle is a secret of another lock: a script that has acquired one may use `run` too.
    command.env_remove("TAKETURNS_HANDLE");
    // A nested `run` must not inherit token and member from the outer one.
    match guard.token().fenced() {
        Some(token) => command.env("TAKETURNS_TOKEN", token.to_string()),
        None => command.env_remove("TAKETURNS_TOKEN"),
    };
    match guard.member() {
        Some(member) => command.env("TAKETURNS_MEMBER", member.as_str()),
        None => command.env_remove("TAKETURNS_MEMBER"),
    };
    let in_front = terminal.and_then(|terminal| terminal.for_child().map(|fd| (terminal, fd)));
    let (terminal, device) = in_front.unzip();
    let started = child::spawn(command, device);
    match (terminal, &started) {
        (Some(terminal), Ok(child)) => terminal.give(*child),
        (Some(terminal), Err(_)) => terminal.take_back(None),
        _ => {}
    }
    let word = &words[0];
    started.map(ProcessGroup::new).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let message = format_args!("command not found: {word:?}");
            ExitFailure::new(exit::NO_SUCH_COMMAND, message)
        }
        _ => ExitFailure::new(exit::NOT_EXECUTABLE, format_args!("can't run {word:?}: {error}")),
    })
}

/// Sends the child's Ctrl-C to our own process group too. The terminal sent it to the child alone, which
/// was in the foreground. A calling bash script ends only if it gets the signal and its child dies of
/// it. This program has a handler and dies later, when all is done.
fn pass_on_interrupt(signal: Signal) {
    if [Signal::INT, Signal::QUIT].contains(&signal) && !child::is_ignored(signal) {
        let _ = kill_current_process_group(signal);
    }
}
