//! One child process: its signals, and its end. Whatever was started here is waited for here, so no
//! number is signalled that might be another's by now.

use std::fs::{self, File};
use std::io;
use std::process::{Child, ChildStdin, Command};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::watchdog;
use crate::{SetupError, patience};

/// A child that has not been waited for yet. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    paused: bool,
}

impl Process {
    /// One that has nothing to read, and writes to one place.
    pub(crate) fn spawn(command: &Command, output: File) -> io::Result<Self> {
        let (process, _) = Self::spawn_apart(command, output.try_clone()?, output)?;
        Ok(process)
    }

    /// The same, for one that leaves something of the system behind if it is killed: should this process be killed,
    /// it is asked to end instead.
    pub(crate) fn spawn_to_ask(command: &Command, output: File) -> io::Result<Self> {
        let process = Self::spawn(command, output)?;
        watchdog::ask(process.id())?;
        Ok(process)
    }

    /// One that reads what is written to the pipe, and says apart what went wrong.
    pub(crate) fn spawn_apart(
        command: &Command,
        stdout: File,
        stderr: File,
    ) -> io::Result<(Self, ChildStdin)> {
        let (child, stdin) = watchdog::spawn(command, stdout, stderr)?;
        Ok((Self { child, paused: false }, stdin))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Has it ended? It is not waited for yet, so its number stays its own.
    pub(crate) fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid()), look), Ok(None))
    }

    /// Has it ended by itself, and without fault?
    pub(crate) fn succeeded(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(self.pid()), look).ok().flatten();
        ended.is_some_and(|ended| ended.exit_status() == Some(0))
    }

    /// Can it answer?
    pub(crate) fn is_running(&self) -> bool {
        !self.paused && !self.has_ended()
    }

    /// Stops it, and returns when it has stopped: not one more command is carried out.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        kill_process(self.pid(), Signal::STOP)?;
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), stopped)?;
        self.paused = true;
        Ok(())
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.paused = false;
        Ok(kill_process(self.pid(), Signal::CONT)?)
    }

    /// Stops it and then all its children, which can't become more meanwhile.
    pub(crate) fn pause_all(&mut self) -> Result<(), SetupError> {
        self.pause()?;
        for child in self.children() {
            // It may just have ended.
            let _ = kill_process(child, Signal::STOP);
        }
        let stands = |child: &Pid| state_of(*child).is_none_or(|state| "TZX".contains(state));
        patience::eventually("all children of a server stand still", || {
            self.children().iter().all(stands).then_some(())
        })
    }

    /// Lets all go on after [`Self::pause_all`].
    pub(crate) fn resume_all(&mut self) -> io::Result<()> {
        for child in self.children() {
            let _ = kill_process(child, Signal::CONT);
        }
        self.resume()
    }

    /// Kills it and all its children at once, and waits until none is left.
    pub(crate) fn kill_all(mut self) -> Result<(), SetupError> {
        // Stopped, it waits for no child. So every number stays its child's until it is gone itself.
        self.pause()?;
        let children = self.children();
        for &child in &children {
            let _ = kill_process(child, Signal::KILL);
        }
        let gone = |child: &Pid| state_of(*child).is_none_or(|state| "ZX".contains(state));
        patience::eventually("all children of a server are gone", || {
            children.iter().all(gone).then_some(())
        })
    }

    /// Kills one of its children.
    pub(crate) fn kill_child(&self, id: u32) -> io::Result<()> {
        let child = self.children().into_iter().find(|child| child.as_raw_pid() as u32 == id);
        Ok(kill_process(child.ok_or(io::ErrorKind::NotFound)?, Signal::KILL)?)
    }

    /// The processes that it has started, on Linux.
    fn children(&self) -> Vec<Pid> {
        let id = self.id();
        let listed = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let listed = listed.unwrap_or_default();
        listed.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(self) -> Result<(), SetupError> {
        self.end(Signal::TERM)
    }

    /// The same, for one that when terminated waits for its clients to leave.
    pub(crate) fn quit(self) -> Result<(), SetupError> {
        self.end(Signal::QUIT)
    }

    /// The same, for one that then saves what it has.
    pub(crate) fn interrupt(self) -> Result<(), SetupError> {
        self.end(Signal::INT)
    }

    fn end(mut self, signal: Signal) -> Result<(), SetupError> {
        kill_process(self.pid(), signal).map_err(io::Error::from)?;
        // A paused one would not hear of it.
        self.resume_all()?;
        patience::eventually("a server that was asked to end", || self.has_ended().then_some(()))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// What a process is doing, as a letter of `/proc`. None if it is not there.
fn state_of(process: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
    // The name before it is in brackets, and may have some of its own.
    stat.rsplit_once(") ")?.1.chars().next()
}

impl Drop for Process {
    fn drop(&mut self) {
        // None of these can fail for a child that was not waited for, and none may be left out.
        let _ = self.child.kill();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = waitid(WaitId::Pid(self.pid()), ended);
        let _ = watchdog::forget(self.id());
        let _ = self.child.wait();
    }
}
