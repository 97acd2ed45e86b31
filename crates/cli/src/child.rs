//! Starting the child, and what can't be done about signals in safe Rust. The only file with `unsafe`
//! in it: what runs between fork and exec, `sigaction` and `raise`.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, getppid, setrlimit};

/// Starts the command in a process group of its own, as the terminal's foreground if one is given.
/// It dies with us: with the thread that calls this, to be exact, so call it from the main one. (Its
/// own children do not: a death signal is not inherited, and a set-uid program sheds it.)
pub(crate) fn spawn(mut command: Command, terminal: Option<OwnedFd>) -> io::Result<Pid> {
    command.process_group(0);
    let parent = getpid();
    let prepare = move || {
        die_with_parent()?;
        // Had the parent died before that took effect, the signal would never come.
        if getppid() != Some(parent) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if let Some(terminal) = &terminal {
            // The parent does the same, so the child is in the foreground whichever of the two runs first. If it
            // fails, the command starts in the background.
            let _ = set_foreground(terminal, getpid());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, since another thread
    // may have held a lock at the fork. `prepare` makes bare system calls (prctl, getppid, getpid,
    // sigaction, ioctl) and neither allocates nor locks; its errors hold no heap memory.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn()?;
    Pid::from_raw(child.id() as i32).ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Makes a process group the terminal's foreground, also from the background, where SIGTTOU would
/// stop us unless it is ignored.
pub(crate) fn set_foreground(terminal: impl AsFd, group: Pid) -> io::Result<()> {
    // SAFETY: both structures are plain data for which all zeros is a valid value, filled in by
    // `sigemptyset` and the kernel; the pointers are to them and outlive the calls. No handler is
    // installed: SIG_IGN, and then whatever was there before.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        let mut ignore: libc::sigaction = mem::zeroed();
        ignore.sa_sigaction = libc::SIG_IGN;
        libc::sigemptyset(&raw mut ignore.sa_mask);
        libc::sigaction(libc::SIGTTOU, &raw const ignore, &raw mut before);
        let done = rustix::termios::tcsetpgrp(terminal, group);
        libc::sigaction(libc::SIGTTOU, &raw const before, std::ptr::null_mut());
        Ok(done?)
    }
}

/// Returns whether the parent process (`nohup`, or a shell's `&`) had ignored the signal. Then it stays ignored, by
/// this program and by the child.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: only asks: the new action is null, and the old one is written to plain data of ours.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let asked = libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action);
        asked == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Ends the program by this signal, so that the parent process sees which signal it was. Returns if the parent had
/// ignored or blocked the signal.
pub(crate) fn die_of(signal: Signal) {
    if is_ignored(signal) {
        return;
    }
    // SIGQUIT leaves a core, in which the lock's owner could be read.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: the structure is plain data for which all zeros is a valid value; the pointer is to it
    // and outlives the call. No handler is installed: SIG_DFL takes the place of the runtime's, which
    // nobody needs any more. `raise` takes a number, and is sent to this thread: it has taken effect
    // when it returns.
    unsafe {
        let mut default: libc::sigaction = mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigemptyset(&raw mut default.sa_mask);
        libc::sigaction(signal.as_raw(), &raw const default, std::ptr::null_mut());
        libc::raise(signal.as_raw());
    }
}
