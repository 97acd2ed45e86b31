//! Job control: who is in front at the terminal.
//!
//! ```text
//!   we are in front, stdin and stdout are the terminal ── the child is started in front
//!   the child stops for want of the terminal (SIGTTIN) ── it is put in front, if we are
//!   the child is stopped (Ctrl-Z) ── we take the terminal back and stop with our whole group;
//!                                    `fg` continues us, and we the child
//!   the child has ended ── we take the terminal back
//! ```
//!
//! If stdout is a pipe (`taketurns run backup -- dump | less`), something beside the child may be
//! reading the terminal, so the child is not put in front before it asks.
//!
//! While we are stopped nothing renews the lock. A job that stays stopped for longer than its lease
//! has lost the lock, and is killed instead of continued.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};
use rustix::termios::{isatty, tcgetpgrp};

use crate::child::set_foreground;

/// Our controlling terminal.
pub(crate) struct Terminal {
    device: OwnedFd,
    ours: Pid,
}

/// What to do about a child that has stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopAction {
    /// Leave it stopped: the process that stopped it will continue it.
    Leave,
    /// Continue it: it has the terminal now.
    Continue,
}

impl Terminal {
    /// `None` if we have none, or it can't be opened.
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        Some(Self { device, ours: getpgrp() })
    }

    /// Have we a terminal, and are in front?
    pub(crate) fn is_ours_now() -> bool {
        Self::open().is_some_and(|terminal| terminal.is_ours())
    }

    /// For the child to put itself in front, if that is where it should start.
    pub(crate) fn for_child(&self) -> Option<OwnedFd> {
        let interactive = isatty(io::stdin()) && isatty(io::stdout());
        if interactive && self.is_ours() { self.device.try_clone().ok() } else { None }
    }

    /// Puts the child's group in front, if we are there.
    pub(crate) fn give(&self, child: Pid) {
        if self.is_ours() {
            let _ = set_foreground(&self.device, child);
        }
    }

    /// Puts us in front again if the child, or a child that has failed to start, is there.
    pub(crate) fn take_back(&self, child: Option<Pid>) {
        let in_front = tcgetpgrp(&self.device).ok();
        if in_front.is_some()
            && in_front != Some(self.ours)
            && (child.is_none() || in_front == child)
        {
            let _ = set_foreground(&self.device, self.ours);
        }
    }

    /// Is the child in front?
    pub(crate) fn is_given(&self, child: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == child)
    }

    /// The child was stopped by a signal: stop too, as the shell that started us expects of its job,
    /// and come back when it continues us.
    pub(crate) fn stop_with(&self, child: Pid, signal: i32) -> StopAction {
        let wants_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        if wants_terminal && self.is_ours() {
            self.give(child);
            return StopAction::Continue;
        }
        if !wants_terminal && !self.is_given(child) {
            return StopAction::Leave;
        }
        self.take_back(Some(child));
        // Stops us here, with the rest of our pipeline. Where there is no shell to continue us (an
        // orphaned group) the kernel ignores it, and the child goes on.
        let _ = kill_current_process_group(Signal::TSTP);
        self.give(child);
        StopAction::Continue
    }

    /// Are we in front?
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == self.ours)
    }
}
