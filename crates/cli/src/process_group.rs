//! The child as a process group: what it does, what is sent to it, how it ended.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use crate::exit;

/// A child that leads a process group of its own and has not been reaped. So no other process has its number, and a
/// signal to the group reaches no other process.
pub(crate) struct ProcessGroup {
    pid: Pid,
}

impl ProcessGroup {
    pub(crate) fn new(pid: Pid) -> Self {
        Self { pid }
    }

    /// The child, and its group.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to the whole group. There is nobody to send it to if that fails.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Has the child ended? It is not reaped by this. If we can't know we must not wait for ever.
    pub(crate) fn has_ended(&self) -> bool {
        let at = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.pid), at), Ok(None))
    }

    /// The signal that has stopped the child, said once for each time.
    pub(crate) fn stopped_by(&self) -> Option<i32> {
        self.look(WaitIdOptions::STOPPED)?.stopping_signal()
    }

    /// The code to exit with, and whether a signal ended the child. Only once it has ended.
    pub(crate) fn reap(self) -> (u8, Option<Signal>) {
        let status = self.look(WaitIdOptions::EXITED);
        let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
        let code = status.as_ref().and_then(WaitIdStatus::exit_status);
        let code = match (code, signal) {
            (_, Some(signal)) => 128 + signal as u8,
            (Some(code), None) => code as u8,
            (None, None) => exit::UNAVAILABLE,
        };
        (code, signal.and_then(Signal::from_named_raw))
    }

    fn look(&self, at: WaitIdOptions) -> Option<WaitIdStatus> {
        waitid(WaitId::Pid(self.pid), at | WaitIdOptions::NOHANG).ok().flatten()
    }
}
