//! A server that is loading its data, as after a reboot: it is waited for within the time limit, that is
//! said, and only then it is an error.

use std::fs::{self, File};

use taketurns_servers::{Flavor, Server, on_both};

use crate::cli::helper::{PROGRAM, Running, Store, until};
use crate::cli::terminal::Screen;

const LOADING: &str = "is still loading its data";

/// A server that loads for as long as the test wants.
fn loading(flavor: Flavor) -> (Server, Store) {
    let server = Server::start(flavor).expect("a server");
    server.restart_loading().expect("it loads");
    let store = Store::at(server.url());
    (server, store)
}

on_both! {
    fn a_server_that_is_loading_is_waited_for_and_that_is_said_once(flavor: Flavor) {
        for options in [&["-v", "-w", "600"][..], &[]] {
            let (server, store) = loading(flavor);
            let said = store.path("said");
            let args = [&["run"], options, &["door", "--", "echo", "in"]].concat();
            let stderr = File::create(&said).expect("a file");
            let mut run = Running::start(store.command(&args).stderr(stderr));
            let line = format!("taketurns: waiting for the store: {} {LOADING}\n", server.addr());
            let said = || fs::read_to_string(&said).expect("a file");
            until("it says that it waits", || said() == line);
            assert!(server.is_loading());
            server.finish_loading().expect("it serves");
            assert_eq!((run.line().as_str(), run.code()), ("in", 0));
            assert_eq!(said(), line, "once");
        }
    }

    fn a_server_that_is_loading_for_too_long_can_not_be_reached(flavor: Flavor) {
        let (server, store) = loading(flavor);
        for command in [&["run", "-n", "door", "true"][..], &["acquire", "-w", "0", "door"]] {
            let done = store.run(command);
            assert!(done.stderr.ends_with(&format!("{LOADING}\n")), "{done:?}");
            done.failed(69, "the store can't be reached: ");
        }
        let done = store.run(&["run", "-w", "0.3", "-E", "9", "door", "true"]);
        done.failed(69, &format!("{LOADING}; waited 300ms for it"));
        assert!(server.is_loading(), "all the while");
    }
}

#[test]
fn at_a_terminal_a_line_says_that_the_server_is_loading() {
    let (server, store) = loading(Flavor::Redis);
    let mut screen = Screen::of(&store, &[PROGRAM, "run", "-w", "600", "door", "--", "echo", "in"]);
    screen.until_shown(&format!("\r\x1b[K\x1b[?7lwaiting for the store: {}", server.addr()));
    server.finish_loading().expect("it serves");
    screen.until_shown("in\r\n");
    assert_eq!(screen.code(), Some(0));
    let shown = screen.shown();
    assert!(shown.ends_with("\r\x1b[Kin\r\n"), "cleared before the command starts: {shown:?}");
    assert_eq!(shown.matches('\n').count(), 1, "drawn, and not said beside: {shown:?}");
}
