//! A terminal that can be read: a shell in tmux, on a server of its own.

use std::io::ErrorKind;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::cli::helper::{Store, until};

/// What the shell says when it wants a command.
pub(crate) const PROMPT: &str = "prompt>";

/// A shell in a terminal of 80×24. Its tmux ends with it.
pub(crate) struct Pane<'a> {
    store: &'a Store,
    socket: String,
}

/// A server that is about to end still answers at its socket, so the next has another.
static SERVERS: AtomicU32 = AtomicU32::new(0);

impl<'a> Pane<'a> {
    pub(crate) fn open(store: &'a Store) -> Self {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let pane = Self { store, socket: format!("tmux-{number}.socket") };
        // It reads no files of the user who runs the tests.
        let shell = "env PS1='prompt> ' sh";
        let options = ["-f", "/dev/null", "-u", "new-session", "-d", "-x", "80", "-y", "24"];
        let opened = pane.tmux(&[&options[..], &[shell]].concat());
        assert!(opened.status.success(), "{opened:?}");
        pane.until(PROMPT);
        pane
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command
            .args(["-S", &self.socket])
            .args(args)
            .current_dir(self.store.path(""))
            .env("TAKETURNS_STORE", self.store.url())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .env_remove("TAKETURNS_HANDLE")
            .env_remove("TAKETURNS_LOCK");
        match command.output() {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => panic!(
                "tmux is missing: `cargo xtask test` installs it on Debian, or install tmux 3.0 or later"
            ),
            Err(error) => panic!("tmux: {error}"),
        }
    }

    /// Presses keys, by their names in tmux.
    pub(crate) fn press(&self, keys: &[&str]) {
        let sent = self.tmux(&[&["send-keys"], keys].concat());
        assert!(sent.status.success(), "{sent:?}");
    }

    /// Types a line at the shell.
    pub(crate) fn run(&self, line: &str) {
        self.press(&["-l", line]);
        self.press(&["Enter"]);
    }

    /// What is on the screen.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).expect("UTF-8")
    }

    /// What tmux knows of the terminal.
    pub(crate) fn state(&self, format: &str) -> String {
        let state = self.tmux(&["display-message", "-p", format]).stdout;
        String::from_utf8(state).expect("UTF-8").trim().to_owned()
    }

    /// Waits until a text is on the screen.
    pub(crate) fn until(&self, text: &str) {
        self.until_so(&format!("{text:?} is on the screen"), |shown| shown.contains(text));
    }

    pub(crate) fn until_so(&self, what: &str, mut is_so: impl FnMut(&str) -> bool) {
        until(what, || is_so(&self.shown()));
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = [columns, rows].map(|size| size.to_string());
        let done = self.tmux(&["resize-window", "-x", &size[0], "-y", &size[1]]);
        assert!(done.status.success(), "{done:?}");
    }
}

impl Drop for Pane<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("on the screen:\n{}", self.shown());
        }
        self.tmux(&["kill-server"]);
    }
}
