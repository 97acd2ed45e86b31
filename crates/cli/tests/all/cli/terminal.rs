//! At a terminal: the line that says whom we wait for, and job control. On pseudo terminals, each the
//! controlling one of a session of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use taketurns_servers::Flavor;

use crate::cli::helper::{PROGRAM, Store, until};
use crate::cli::quarantine::{keeping_by, let_it_end};

/// A pseudo terminal with a program on it.
pub(crate) struct Screen {
    keyboard: File,
    shown: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    program: Child,
}

impl Screen {
    /// Starts a program as the leader of a session, in front at a terminal.
    pub(crate) fn of(store: &Store, program: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || -> OwnedFd {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(&name, flags, Mode::empty()).unwrap()
        };
        let mut command = Command::new("env");
        command
            .args(["--default-signal", "setsid", "--ctty"])
            .args(program)
            .current_dir(store.path(""))
            .env("TAKETURNS_STORE", store.url())
            .env("TERM", "xterm")
            .env("PS1", "prompt> ")
            .stdin(open())
            .stdout(open())
            .stderr(open());
        let program = command.spawn().unwrap();
        let keyboard = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reader, into) = (keyboard.try_clone().unwrap(), shown.clone());
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends with an error once nobody has the other side open.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { keyboard, shown, reader, program }
    }

    pub(crate) fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    pub(crate) fn until_shown(&self, text: &str) {
        until(&format!("{text:?} is on the screen"), || {
            let shown = self.shown();
            shown.contains(text) || {
                assert!(shown.len() < 1_000_000, "{shown}");
                false
            }
        });
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.end().code()
    }

    /// The signal that it died of.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        self.end().signal()
    }

    /// Waits for the program, and until all that it and others wrote is on the screen.
    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("the program has ended", || {
            status = self.program.try_wait().unwrap();
            status.is_some()
        });
        until("nobody has the terminal open any more", || self.reader.is_finished());
        status.expect("it has ended")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("on the screen: {:?}", self.shown());
        }
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn the_waiting_line_is_kept_current_and_cleared() {
    let store = Store::new();
    let holder = store.hold(&["--why", "nightly", "door"]);
    let ahead = store.start(&["run", "door", "--", "true"]);
    store.until_waiting("door", 1);
    let mut screen = Screen::of(&store, &[PROGRAM, "run", "door", "--", "echo", "in"]);
    let held_by = store.show("door")["holders"][0]["who"].as_str().unwrap().to_owned();
    screen.until_shown(&format!("waiting for door: held by {held_by} (nightly) for "));
    screen.until_shown("you are 2nd in line");
    until("the time goes on", || {
        let shown = screen.shown();
        let lines = shown.split("\x1b[?7h").filter(|line| line.ends_with("s, you are 2nd in line"));
        lines.collect::<BTreeSet<_>>().len() > 1
    });
    drop(ahead);
    screen.until_shown("you are 1st in line");
    holder.finish();
    screen.until_shown("in\r\n");
    assert_eq!(screen.code(), Some(0));
    let shown = screen.shown();
    assert!(shown.ends_with("\r\x1b[Kin\r\n"), "cleared before the command starts: {shown:?}");
    assert!(shown.split("\r\x1b[K").count() > 4, "drawn over and over: {shown:?}");
    assert_eq!(shown.matches('\n').count(), 1, "one line: {shown:?}");
}

#[test]
fn the_waiting_line_says_that_a_restarted_store_grants_nothing() {
    let (server, clock) = keeping_by(Flavor::Redis);
    let store = Store::at(server.url());
    let run = ["run", "door", "--", "echo", "in"];
    store.run(&run).quiet();
    server.restart().unwrap();
    let mut screen = Screen::of(&store, &[&[PROGRAM], &run[..]].concat());
    screen.until_shown("waiting for door: in quarantine for ");
    screen.until_shown("s (store restarted or failed over)");
    let_it_end(&clock);
    screen.until_shown("in\r\n");
    assert_eq!(screen.code(), Some(0));
    let shown = screen.shown();
    assert!(shown.ends_with("\r\x1b[Kin\r\n"), "cleared before the command starts: {shown:?}");
    assert_eq!(shown.matches('\n').count(), 1, "drawn, and not said beside: {shown:?}");
}

#[test]
fn a_wait_that_ctrl_c_ends_leaves_a_clean_line_and_no_place() {
    let store = Store::new();
    let holder = store.hold(&["door"]);
    let mut screen = Screen::of(&store, &[PROGRAM, "run", "door", "--", "echo", "in"]);
    screen.until_shown("you are 1st in line");
    screen.type_in("\x03");
    assert_eq!(screen.ended_by(), Some(Signal::INT.as_raw()));
    let said = "\r\x1b[Ktaketurns: lock door was not acquired: gave up waiting on SIGINT\r\n";
    screen.until_shown(said);
    assert_eq!(store.show("door")["waiting"], 0);
    holder.finish();
}

#[test]
fn the_command_is_in_front_and_the_terminal_is_given_back() {
    let store = Store::new();
    // Fields 5 and 8: the process's own group, and the one in front.
    let inside = "set -- $(cat /proc/$$/stat); [ $5 = $8 ] && [ $5 = $$ ] && echo command in front";
    let script = format!(
        "{PROGRAM} run door -- sh -c '{inside}'; {PROGRAM} run door -- no-such-command; \
         set -- $(cat /proc/$$/stat); [ $5 = $8 ] && echo shell in front"
    );
    let mut screen = Screen::of(&store, &["sh", "-c", &script]);
    screen.until_shown("shell in front");
    assert!(screen.shown().contains("command in front"));
    assert_eq!(screen.code(), Some(0));
}

#[test]
fn the_command_reads_from_the_terminal() {
    let store = Store::new();
    let mut screen =
        Screen::of(&store, &[PROGRAM, "run", "door", "--", "sh", "-c", "read x; echo got $x"]);
    screen.type_in("hello\n");
    screen.until_shown("got hello");
    assert_eq!(screen.code(), Some(0));
}

#[test]
fn the_program_dies_of_what_was_typed_at_the_command() {
    for (key, signal) in [("\x03", Signal::INT), ("\x1c", Signal::QUIT)] {
        let store = Store::new();
        let command = ["sh", "-c", "echo started; exec sleep 1000"];
        let program = [&[PROGRAM, "run", "door", "--"][..], &command].concat();
        let mut screen = Screen::of(&store, &program);
        screen.until_shown("started");
        screen.type_in(key);
        assert_eq!(screen.ended_by(), Some(signal.as_raw()));
        assert_eq!(store.show("door")["state"], "idle", "released before");
    }
}

#[test]
fn a_command_that_sees_to_ctrl_c_itself_has_its_own_code() {
    let store = Store::new();
    let command = "trap 'exit 7' INT; echo started; while :; do sleep 0.02; done";
    let mut screen = Screen::of(&store, &[PROGRAM, "run", "door", "--", "sh", "-c", command]);
    screen.until_shown("started");
    screen.type_in("\x03");
    assert_eq!(screen.code(), Some(7));
}

#[test]
fn ctrl_c_ends_the_command_and_the_script_around_us() {
    for shell in ["sh", "bash"] {
        let store = Store::new();
        let script =
            format!("{PROGRAM} run door -- sh -c 'echo started; exec sleep 1000'; echo went on");
        let mut screen = Screen::of(&store, &[shell, "-c", &script]);
        screen.until_shown("started");
        screen.type_in("\x03");
        assert_eq!(screen.ended_by(), Some(Signal::INT.as_raw()), "{shell}");
        assert!(!screen.shown().contains("went on"));
        assert_eq!(store.show("door")["state"], "idle");
    }
}

/// A loop of three turns. After the interrupt, no second turn may start.
fn loop_of(command: &str) -> String {
    format!("for i in 1 2 3; do {PROGRAM} run door -- {command}; done; echo went on")
}

/// Says on stderr which turn it is, and goes on for long.
const TURN: &str = "sh -c \"echo turn $i >&2; exec sleep 1000\"";

#[test]
fn ctrl_c_ends_a_loop_of_bash_around_the_command() {
    // With its output elsewhere the command is not in front: we have the Ctrl-C, and forward it.
    for command in [TURN, &format!("{TURN} > out")] {
        let store = Store::new();
        let mut screen = Screen::of(&store, &["bash", "-c", &loop_of(command)]);
        screen.until_shown("turn 1");
        screen.type_in("\x03");
        assert_eq!(screen.ended_by(), Some(Signal::INT.as_raw()));
        assert!(!screen.shown().contains("turn 2") && !screen.shown().contains("went on"));
        assert_eq!(store.show("door")["state"], "idle");
    }
}

#[test]
fn ctrl_c_ends_a_loop_of_bash_around_the_wait() {
    let store = Store::new();
    let holder = store.hold(&["door"]);
    let mut screen = Screen::of(&store, &["bash", "-c", &loop_of("true")]);
    screen.until_shown("you are 1st in line");
    screen.type_in("\x03");
    assert_eq!(screen.ended_by(), Some(Signal::INT.as_raw()));
    assert!(!screen.shown().contains("went on"));
    assert_eq!(screen.shown().matches("gave up waiting on SIGINT").count(), 1);
    assert_eq!(store.show("door")["waiting"], 0);
    holder.finish();
}

#[test]
fn ctrl_c_ends_a_loop_that_was_typed_in() {
    let store = Store::new();
    let holder = store.hold(&["door"]);
    let mut screen = Screen::of(&store, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    screen.until_shown("prompt> ");
    screen.type_in(&format!("{}\n", loop_of(TURN)));
    screen.until_shown("you are 1st in line");
    screen.type_in("\x03");
    screen.until_shown("gave up waiting on SIGINT");
    screen.type_in("echo first $?\n");
    screen.until_shown("first 130\r\n");
    holder.finish();

    screen.type_in(&format!("{}\n", loop_of(TURN)));
    screen.until_shown("turn 1\r\n");
    screen.type_in("\x03");
    screen.type_in("echo second $?\n");
    screen.until_shown("second 130\r\n");
    let shown = screen.shown();
    assert!(!shown.contains("turn 2\r\n") && !shown.contains("\nwent on"), "{shown:?}");
    screen.type_in("exit\n");
    screen.code();
}

#[test]
fn a_job_can_be_stopped_and_continued() {
    let store = Store::new();
    let mut screen = Screen::of(&store, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    screen.until_shown("prompt> ");
    screen.type_in(&format!("{PROGRAM} run door -- sh -c 'echo started; read x; echo got $x'\n"));
    screen.until_shown("started\r\n");
    screen.type_in("\x1a");
    screen.until_shown("Stopped");
    assert_eq!(store.show("door")["state"], "held");
    screen.type_in("fg\n");
    screen.type_in("hello\n");
    screen.until_shown("got hello");
    screen.type_in("exit\n");
    screen.code();
}

#[test]
fn a_job_stopped_for_longer_than_its_lease_is_killed_when_continued() {
    let store = Store::new();
    let mut screen = Screen::of(&store, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    screen.until_shown("prompt> ");
    let command = "sh -c 'echo started; read x; echo got $x'";
    screen.type_in(&format!("{PROGRAM} run --lease 3 door -- {command}\n"));
    screen.until_shown("started\r\n");
    screen.type_in("\x1a");
    screen.until_shown("Stopped");
    store.run(&["run", "door", "--", "true"]).ok();
    screen.type_in("fg; echo code $?\n");
    screen.until_shown("lock door was lost: its lease ran out");
    screen.until_shown("code 76\r\n");
    screen.type_in("exit\n");
    screen.code();
}

#[test]
fn in_a_pipeline_the_terminal_is_given_once_the_command_asks_for_it() {
    let store = Store::new();
    let mut screen = Screen::of(&store, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    screen.until_shown("prompt> ");
    let command = "sh -c 'echo started; read x < /dev/tty; echo got $x'";
    screen.type_in(&format!("{PROGRAM} run door -- {command} | cat\n"));
    screen.until_shown("started\r\n");
    screen.type_in("hello\n");
    screen.until_shown("got hello");
    screen.type_in("exit\n");
    screen.code();
}
