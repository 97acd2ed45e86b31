//! Completions, manual pages and help, all from the one table of arguments.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::helper::{Done, Store};

#[test]
fn completions_are_there_for_each_shell_and_bash_can_read_them() {
    let store = Store::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = store.run(&["completions", shell]).ok().stdout;
        assert!(script.contains("conflict-exit-code"), "{shell}");
    }
    let script = store.run(&["completions", "bash"]).ok().stdout;
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn there_is_a_manual_page_for_the_program_and_for_each_command() {
    let store = Store::new();
    let page = store.run(&["man"]).ok().stdout;
    assert!(page.contains(".TH taketurns 1") && page.contains("the lock was lost"), "{page}");
    let page = store.run(&["man", "run"]).ok().stdout;
    assert!(page.contains(".TH taketurns-run 1") && page.contains("TAKETURNS_TOKEN"), "{page}");
    store.run(&["man", "nonsense"]).failed(64, "no command \"nonsense\"");

    std::fs::create_dir(store.path("man1")).unwrap();
    store.run(&["man", "--out", "man1"]).ok();
    for page in ["taketurns.1", "taketurns-run.1", "taketurns-pool-add.1"] {
        assert!(store.path("man1").join(page).is_file(), "{page}");
    }
    store.run(&["man", "--out", "nowhere"]).failed(74, "nowhere can't be written to");
}

#[test]
fn help_and_version_are_no_errors() {
    let store = Store::new();
    for args in [&["--help"][..], &["run", "--help"], &["help", "run"], &["-h"], &["--version"]] {
        let done: Done = store.run(args).ok();
        assert!(done.stdout.starts_with("Run a command") || done.stdout.contains("taketurns"));
        assert_eq!(done.stderr, "");
    }
}
