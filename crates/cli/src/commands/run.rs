//! `taketurns run`: runs a command while holding a lock.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_current_process_group};
use taketurns::{Error, Guard, Locks};
use tokio::time::{Instant, timeout};

use crate::ask::{self, AskArgs};
use crate::child;
use crate::exit::{self, ExitFailure, say};
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

    /// End the command when it has held the lock for this long; exit code 76
    #[arg(long, value_name = "SECS", value_parser = ask::max_hold, allow_negative_numbers = true)]
    max_hold: Option<Duration>,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let mut signals = Signals::listen()?;
    let program = Path::new(&args.command[0]).file_name().unwrap_or_default().to_string_lossy();
    let loading = args.ask.loading();
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
    let guard = ask::acquire(opened, &args.ask, args.max_hold, signals).await?;
    let under =
        LockedCommand { locks: &opened.locks, command: &args.command, max_hold: args.max_hold };
    under.run(guard, signals).await?.code
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
    /// The lock was lost before the command ended by itself. The user has seen a message.
    pub(crate) lost: bool,
    /// A signal told this program to end.
    pub(crate) told_to_end: bool,
}

impl LockedCommand<'_> {
    /// Runs the command to its end and releases the lock.
    pub(crate) async fn run(
        &self,
        guard: Guard,
        signals: &mut Signals,
    ) -> Result<RunOutcome, ExitFailure> {
        let since = Instant::now();
        let terminal = Terminal::open();
        let job = match start(self.command, &guard, terminal.as_ref()) {
            Ok(job) => job,
            Err(failure) => {
                release(guard, signals).await;
                return Err(failure);
            }
        };
        let child = job.pid();
        let watch = Supervisor {
            locks: self.locks,
            guard: &guard,
            terminal: terminal.as_ref(),
            max_hold: self.max_hold.map(|max_hold| (since, max_hold)),
        };
        let ended = watch.run(job, signals).await;
        let given = terminal.as_ref().filter(|terminal| terminal.is_given(child));
        if let Some(terminal) = given {
            terminal.take_back(Some(child));
        }
        let ChildEnd { code, signal, told_to_end, .. } = ended;
        let lost = !finish(guard, ended.lost, signals).await;
        let code = match signal {
            _ if lost => Ok(exit::LOST),
            None => Ok(code),
            Some(signal) => {
                if given.is_some() {
                    pass_on_interrupt(signal);
                }
                let at_terminal = terminal.is_some_and(|terminal| terminal.is_ours());
                Err(ExitFailure::signal(signal, at_terminal, ""))
            }
        };
        Ok(RunOutcome { code, lost, told_to_end })
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

/// Releases the lock. `true` if it was held until now, and the command was not ended for a lost lock.
async fn finish(guard: Guard, lost: bool, signals: &mut Signals) -> bool {
    let held = guard.is_held();
    if !held && !lost {
        say(format_args!("lock {} was lost before the command ended", guard.name()));
    }
    held && release(guard, signals).await && !lost
}

/// Releases the lock. Stops waiting when the lease is over or a signal comes. `false` if the store no
/// longer knew the holder: it lost its state, and may have granted the lock to another client.
async fn release(guard: Guard, signals: &mut Signals) -> bool {
    let name = guard.name().clone();
    let done = timeout(guard.left(), guard.release());
    let problem = match signals.unless("", done).await {
        Ok(Ok(Ok(()))) => return true,
        Ok(Ok(Err(Error::NotHeld { .. }))) => {
            say(format_args!(
                "lock {name} was lost before the command ended: the store no longer knows the holder"
            ));
            return false;
        }
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => "the store did not answer".to_owned(),
        Err(_) => "interrupted".to_owned(),
    };
    say(format_args!(
        "lock {name} could not be released ({problem}); it becomes free when its lease ends"
    ));
    true
}
