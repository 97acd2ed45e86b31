//! Which store is used when none is named.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::cli::helper::{Done, PROGRAM, Store};

fn without_store(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args);
    for name in ["TAKETURNS_STORE", "HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn an_empty_home_is_enough() {
    let store = Store::new();
    let mut command = without_store(&["run", "hello", "--", "echo", "only me"]);
    assert_eq!(Done::of(command.env("HOME", store.path(""))).ok().stdout, "only me\n");
    let directory = store.path(".local/state/taketurns");
    assert!(directory.join("locks.db").is_file());
    let mode = fs::metadata(directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_state_directory_goes_before_the_home_if_it_is_absolute() {
    let store = Store::new();
    let mut command = without_store(&["ls"]);
    let command =
        command.env("HOME", store.path("home")).env("XDG_STATE_HOME", store.path("state"));
    Done::of(command.env("TAKETURNS_STORE", "")).ok();
    assert!(store.path("state/taketurns/locks.db").is_file());
    assert!(!store.path("home").exists());

    Done::of(command.env("XDG_STATE_HOME", "relative").current_dir(store.path(""))).ok();
    assert!(store.path("home/.local/state/taketurns/locks.db").is_file());
}

#[test]
fn without_a_home_a_store_must_be_named() {
    Done::of(&mut without_store(&["ls"])).failed(64, "name one with --store");
    let store = Store::new();
    let mut named = without_store(&["ls", "--store", &store.url()]);
    assert_eq!(Done::of(&mut named).ok().stdout, "");
}

#[test]
fn the_option_goes_before_the_environment() {
    let (one, other) = (Store::new(), Store::new());
    one.run(&["--store", &other.url(), "run", "door", "--", "true"]).ok();
    assert!(other.run(&["ls"]).ok().stdout.contains("door"));
    assert_eq!(one.run(&["ls"]).ok().stdout, "");
}
