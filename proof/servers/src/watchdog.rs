//! Ends the servers when this process can't: because it was killed, because it was ended by
//! Ctrl-C, or because a server sat in a `static`, which nobody drops.
//!
//! One `sh` per process reads the numbers of the servers from a pipe that only this process can
//! write to. When the pipe ends, so has this process, and the shell kills what it was told of and
//! removes their files. A death signal set between fork and exec would do for Linux alone, would
//! come when the starting thread ends rather than the process, and can't be set in safe Rust.
//!
//! ```text
//!   this process ──"watch 4711"──▶ sh (watchdog)      told of the server first,
//!        │                          ┊ at the end: kill -9 4711, rm -rf the files
//!        └───────"go"──────────▶ sh (4711) ──exec──▶ redis-server   and only then started
//! ```
//!
//! A number may be given to another process once its first owner was waited for. So a server is
//! always forgotten after its end and before the wait.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Ignores what a terminal or a time limit sends to all at once: it has work to do afterwards. A server that
/// would leave something behind if killed is asked to end first, and it and its own children are woken for that if
/// they were stopped. The second `rm` is for a server that wrote one more file while the first was at it.
const WATCHDOG: &str = r#"
trap '' HUP INT QUIT TERM
watched=
asked=
while read -r word pid; do
    case $word in
    watch) watched="$watched $pid" ;;
    ask) asked="$asked $pid" ;;
    forget)
        kept=
        for other in $watched; do
            [ "$other" = "$pid" ] || kept="$kept $other"
        done
        watched=$kept
        kept=
        for other in $asked; do
            [ "$other" = "$pid" ] || kept="$kept $other"
        done
        asked=$kept
        ;;
    esac
done
for pid in $asked; do
    kill -QUIT "$pid"
    kill -CONT "$pid" $(cat "/proc/$pid/task/$pid/children")
done
for pid in $asked; do
    looks=30
    while [ $looks -gt 0 ] && kill -0 "$pid"; do
        looks=$((looks - 1))
        sleep 0.1
    done
done
for pid in $watched; do
    kill -9 "$pid"
done
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

/// Becomes the server when told to, and ends if nobody is left to tell it. What comes after the word
/// is the server's to read: the shell takes no more than its line.
const STARTER: &str = r#"read -r go && exec "$@""#;

struct Watchdog {
    pipe: Mutex<ChildStdin>,
    folder: PathBuf,
}

static WATCHDOG_OF_THIS_PROCESS: OnceLock<Watchdog> = OnceLock::new();

/// The folder for all files of this process. It is removed when the process is gone, however it
/// goes.
pub(crate) fn folder() -> io::Result<PathBuf> {
    Ok(watchdog()?.folder.clone())
}

/// Starts a program that ends when this process does, with the arguments, the environment and the
/// folder of a command. It is not in the terminal's foreground, so Ctrl-C reaches it only through this process.
/// Write its input to the returned pipe. The input ends when the pipe is dropped.
pub(crate) fn spawn(
    command: &Command,
    stdout: File,
    stderr: File,
) -> io::Result<(Child, ChildStdin)> {
    let watchdog = watchdog()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", STARTER, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell.stdin(Stdio::piped()).stdout(stdout).stderr(stderr).process_group(0);
    let mut child = shell.spawn()?;
    watchdog.tell("watch", child.id())?;
    let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    stdin.write_all(b"go\n")?;
    Ok((child, stdin))
}

/// Has this child asked to end by SIGQUIT, rather than killed, when this process is gone.
pub(crate) fn ask(pid: u32) -> io::Result<()> {
    watchdog()?.tell("ask", pid)
}

/// To be called when a child has ended, before it is waited for.
pub(crate) fn forget(pid: u32) -> io::Result<()> {
    watchdog()?.tell("forget", pid)
}

impl Watchdog {
    fn start() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("taketurns-servers-").tempdir()?;
        let mut shell = Command::new("sh")
            .args(["-c", WATCHDOG, "sh"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { pipe: Mutex::new(pipe), folder: folder.keep() })
    }

    fn tell(&self, word: &str, pid: u32) -> io::Result<()> {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.write_all(format!("{word} {pid}\n").as_bytes())
    }
}

fn watchdog() -> io::Result<&'static Watchdog> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(watchdog) = WATCHDOG_OF_THIS_PROCESS.get() {
        return Ok(watchdog);
    }
    let watchdog = Watchdog::start()?;
    Ok(WATCHDOG_OF_THIS_PROCESS.get_or_init(|| watchdog))
}
