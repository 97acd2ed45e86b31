//! `ls --watch` and `show --watch`, and colours.

use rustix::process::Signal;
use serde_json::Value;
use taketurns_servers::{Flavor, Server};

use crate::cli::helper::{PROGRAM, Running, Store, until};
use crate::cli::terminal::Screen;

#[test]
fn each_look_is_a_line_for_programs() {
    let store = Store::new();
    let mut listing = store.start(&["ls", "--watch=0.1", "--json"]);
    let mut showing = store.start(&["show", "--watch=0.1", "--json", "door"]);
    let next = |of: &mut Running| -> Value {
        serde_json::from_str(&of.line()).expect("a document on a line")
    };
    assert_eq!(next(&mut listing)["locks"], Value::Array(vec![]));
    assert_eq!(next(&mut showing)["state"], "unused");
    let holder = store.hold(&["door"]);
    while next(&mut listing)["locks"][0]["state"] != "held" {}
    while next(&mut showing)["state"] != "held" {}
    holder.finish();
    while next(&mut showing)["state"] != "idle" {}
}

#[test]
fn a_store_that_goes_away_is_looked_for_again() {
    let server = Server::start(Flavor::Redis).expect("a server");
    // Else it would be in quarantine after the restart, if who looks is there before who takes a lock.
    let store = Store::at(format!("{}?failover=immediate", server.url()));
    let log = store.path("log");
    let mut command = store.command(&["ls", "--watch=0.1", "--json"]);
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut listing = Running::start(&mut command);
    listing.line();
    server.kill();
    until("it is told of", || std::fs::read_to_string(&log).unwrap().contains("taketurns: "));
    for _ in 0..10 {
        // Long enough for it to have looked again.
        assert_eq!(store.run(&["ls"]).code, 69);
    }
    server.restart().expect("it starts again");
    let _holder = store.hold(&["door"]);
    while !listing.line().contains("door") {}
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 1, "once");
}

#[test]
fn at_a_terminal_the_picture_is_written_over_in_colour_until_interrupted() {
    let store = Store::new();
    let mut screen = Screen::of(&store, &[PROGRAM, "ls", "--watch=0.1"]);
    screen.until_shown("\x1b[H");
    let holder = store.hold(&["--why", "nightly", "backup"]);
    screen.until_shown("\x1b[1mbackup\x1b[0m");
    screen.until_shown("(nightly)");
    holder.finish();
    screen.until_shown("\x1b[2mnobody\x1b[0m");
    screen.type_in("\x03");
    assert_eq!(screen.ended_by(), Some(Signal::INT.as_raw()));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let store = Store::new();
    let _holder = store.hold(&["backup"]);
    assert!(!store.run(&["ls"]).ok().stdout.contains('\x1b'));
    let mut coloured = Screen::of(&store, &[PROGRAM, "show", "backup"]);
    coloured.until_shown("\x1b[1mbackup\x1b[0m");
    assert_eq!(coloured.code(), Some(0));
    let mut plain = Screen::of(&store, &["env", "NO_COLOR=1", PROGRAM, "show", "backup"]);
    plain.until_shown("backup: mutex, held");
    assert_eq!(plain.code(), Some(0));
    assert!(!plain.shown().contains('\x1b'), "{:?}", plain.shown());
}

#[test]
fn how_often_is_checked() {
    let store = Store::new();
    store.run(&["ls", "--watch=0.01"]).failed(64, "--watch");
    store.run(&["show", "--watch=x", "a"]).failed(64, "not a number of seconds");
}
