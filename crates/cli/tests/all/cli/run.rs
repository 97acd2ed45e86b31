//! `run`: what the command gets, and what its end becomes.

use std::io::Write;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use crate::cli::helper::{Done, PROGRAM, Running, Store, in_vain};

#[test]
fn the_command_has_our_stdin_and_stdout() {
    let store = Store::new();
    let mut run = store.start(&["run", "door", "--", "tr", "a-z", "A-Z"]);
    run.stdin().write_all(b"hello\n").unwrap();
    run.close_stdin();
    assert_eq!(run.line(), "HELLO");
    assert_eq!(run.code(), 0);
}

#[test]
fn the_exit_code_is_the_commands() {
    let store = Store::new();
    for (command, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137)] {
        let done = store.run(&["run", "door", "--", "sh", "-c", command]);
        assert_eq!((done.code, done.stderr.as_str()), (code, ""), "{command}");
    }
    store
        .run(&["run", "door", "--", "no-such-command"])
        .failed(127, "command not found: \"no-such-command\"");
    store.run(&["run", "door", "--", ""]).failed(127, "command not found: \"\"");
    store.run(&["run", "door", "--", "/etc/passwd"]).failed(126, "can't run \"/etc/passwd\": ");
    assert_eq!(store.show("door")["state"], "idle", "released in each case");
}

#[test]
fn the_command_knows_its_lock_token_and_member() {
    let store = Store::new();
    let print = "echo $TAKETURNS_LOCK $TAKETURNS_TOKEN ${TAKETURNS_MEMBER-none}";
    let done = store.run(&["run", "door", "--", "sh", "-c", print]).ok();
    let token = store.show("door")["last_token"].as_u64().unwrap();
    assert_eq!(done.stdout, format!("door {token} none\n"));

    store.run(&["pool", "add", "rooms", "blue"]).ok();
    let nested = format!("{PROGRAM} run door -- sh -c '{print}'; {print}");
    let done = store.run(&["run", "--pool", "rooms", "--", "sh", "-c", &nested]).ok();
    let (room, token) = (store.show("rooms"), store.show("door")["last_token"].as_u64().unwrap());
    let expected =
        format!("door {token} none\nrooms {} blue\n", room["last_token"].as_u64().unwrap());
    assert_eq!(done.stdout, expected, "the inner one does not inherit the outer one's member");
}

#[test]
fn the_command_does_not_get_the_handle_of_another_lock() {
    let store = Store::new();
    let mut command = store.command(&["run", "door", "--", "sh", "-c", "env"]);
    let environment = Done::of(command.env("TAKETURNS_HANDLE", "tt1.5ec7e7")).ok().stdout;
    assert!(environment.contains("TAKETURNS_LOCK=door\n"));
    assert!(!environment.contains("TAKETURNS_HANDLE") && !environment.contains("5ec7e7"));
}

#[test]
fn a_run_that_would_wait_for_itself_is_refused() {
    let store = Store::new();
    let inside = |options: &str| {
        let script = format!("{PROGRAM} run {options} door -- echo in");
        store.run(&["run", "door", "--", "sh", "-c", &script])
    };
    for options in ["", "-x", "-s"] {
        inside(options).failed(64, "lock door is held by the taketurns that started");
    }
    inside("-n").failed(75, "lock door is held by ");
    let (_, waited) = in_vain(|wait| inside(&format!("-w {wait}")));
    waited.failed(75, "lock door is held by ");
    let script = format!("{PROGRAM} acquire door");
    store.run(&["run", "door", "--", "sh", "-c", &script]).failed(64, "env -u TAKETURNS_LOCK");

    store.run(&["pool", "add", "rooms", "blue", "red"]).ok();
    let script = format!("{PROGRAM} run --pool rooms -- echo in");
    let both = store.run(&["run", "--pool", "rooms", "--", "sh", "-c", &script]).ok();
    assert_eq!(both.stdout, "in\n", "it may have left one for us");
}

#[test]
fn signals_go_to_the_whole_group_of_the_command() {
    let signals = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, name) in signals {
        let store = Store::new();
        // The shell waits for its child, so both have to be told.
        let inner = format!(
            "trap \"echo inner {name}; exit\" {name}; echo in; while :; do sleep 0.02; done"
        );
        let outer = format!("trap 'echo outer {name}; exit 5' {name}; sh -c '{inner}'; exit 5");
        let mut run = store.start(&["run", "door", "--", "sh", "-c", &outer]);
        assert_eq!(run.line(), "in");
        run.signal(signal);
        let mut told = [run.line(), run.line()];
        told.sort();
        assert_eq!(told, [format!("inner {name}"), format!("outer {name}")]);
        assert_eq!(run.code(), 5);
        assert_eq!(store.show("door")["state"], "idle");
    }
}

#[test]
fn a_command_that_a_forwarded_signal_ends_gives_128_and_n() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let store = Store::without_terminal();
        let mut run = store.hold(&["door"]);
        run.signal(signal);
        assert_eq!(run.code(), code);
    }
}

#[test]
fn a_signal_that_was_ignored_before_us_stays_ignored() {
    let store = Store::new();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=HUP", PROGRAM, "run", "door", "--"]);
    command.args(["sh", "-c", "kill -HUP $PPID; kill -HUP $$; echo alive"]);
    let done = Done::of(command.env("TAKETURNS_STORE", store.url())).ok();
    assert_eq!(done.stdout, "alive\n");
}

#[test]
fn a_held_lock_is_not_acquired_without_waiting() {
    let store = Store::new();
    let holder = store.hold(&["door"]);
    store.run(&["run", "-n", "door", "--", "true"]).failed(75, "lock door is held by ");
    store.run(&["run", "-w", "0", "door", "--", "true"]).failed(75, "lock door is held by ");
    store.run(&["run", "-n", "-E", "3", "door", "--", "true"]).failed(3, "door is held by ");
    let since = Instant::now();
    let (wait, done) = in_vain(|wait| store.run(&["run", "-w", wait, "door", "--", "true"]));
    done.failed(75, &format!("gave up after {wait:?} (-w)"));
    assert!(since.elapsed() >= wait);
    let run = |wait: &str| store.run(&["run", "-w", wait, "-E", "0", "door", "--", "false"]);
    let (wait, done) = in_vain(run);
    done.failed(0, &format!("gave up after {wait:?} (-w)"));
    assert_eq!(store.show("door")["waiting"], 0);
    holder.finish();
    store.run(&["run", "-n", "door", "--", "true"]).ok();
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let store = Store::new();
    let one = store.hold(&["-s", "book"]);
    let two = store.hold(&["--shared", "book"]);
    store.run(&["run", "-n", "-x", "book", "--", "true"]).failed(75, "book is held by ");
    store.run(&["run", "-n", "-e", "book", "--", "true"]).failed(75, "book is held by ");
    store.run(&["run", "-n", "book", "--", "true"]).failed(64, "pass -x or -s, or wait");
    one.finish();
    two.finish();
    let writer = store.hold(&["-x", "book"]);
    store.run(&["run", "-n", "-s", "book", "--", "true"]).failed(75, "book is held by ");
    writer.finish();
}

#[test]
fn permits_are_taken_until_there_are_none() {
    let store = Store::new();
    let two = store.hold(&["--permits", "2/3", "gpu"]);
    store
        .run(&["run", "-n", "--permits", "2/3", "gpu", "--", "true"])
        .failed(75, "gpu is held by ");
    store.run(&["run", "-n", "--permits", "3", "gpu", "--", "true"]).ok();
    store
        .run(&["run", "-n", "--permits", "4", "gpu", "--", "true"])
        .failed(64, "pass --permits K/3");
    two.finish();
}

#[test]
fn members_of_a_pool_are_taken_one_by_one() {
    let store = Store::new();
    store
        .run(&["run", "-n", "--pool", "rooms", "--", "true"])
        .failed(75, "rooms is a pool without members");
    store.run(&["pool", "add", "rooms", "blue", "red"]).ok();
    let blue = store.hold(&["--pool", "--member", "blue", "rooms"]);
    store.run(&["run", "-n", "--pool", "--member", "blue", "rooms", "--", "true"]).failed(75, "");
    let any = ["run", "-n", "--pool", "rooms", "--", "sh", "-c", "echo $TAKETURNS_MEMBER"];
    assert_eq!(store.run(&any).ok().stdout, "red\n");
    blue.finish();
}

#[test]
fn what_is_waited_for_is_said_once_if_asked_where_there_is_no_terminal() {
    let store = Store::new();
    let holder = store.hold(&["--why", "nightly", "door"]);
    let (_, quiet) =
        in_vain(|wait| store.run(&["run", "-w", wait, "-E", "0", "door", "--", "true"]));
    assert_eq!(quiet.stderr.lines().count(), 1, "only that it was not acquired: {quiet:?}");
    let mut verbose = store.command(&["run", "-v", "door", "--", "echo", "in"]);
    let verbose = verbose.stderr(std::fs::File::create(store.path("stderr")).unwrap());
    let mut verbose = Running::start(verbose);
    crate::cli::helper::until("it has said so", || {
        let said = std::fs::read_to_string(store.path("stderr")).unwrap();
        said.contains("waiting for door: held by") && said.ends_with("you are 1st in line\n")
    });
    holder.finish();
    assert_eq!(verbose.line(), "in");
    assert_eq!(std::fs::read_to_string(store.path("stderr")).unwrap().lines().count(), 1);
}
