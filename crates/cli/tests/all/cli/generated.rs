//! Completions, manual pages and help, all from the one table of arguments.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::cli::helper::{Done, Store};

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
    let version = store.run(&["--version"]).ok().stdout;
    assert!(page.contains(&format!(" 1 \" \" \"{}\"", version.trim())), "{page}");
    store.run(&["man", "nonsense"]).failed(64, "no such command: \"nonsense\"");

    std::fs::create_dir(store.path("man1")).unwrap();
    store.run(&["man", "--out", "man1"]).ok();
    for page in ["taketurns.1", "taketurns-run.1", "taketurns-pool-add.1"] {
        assert!(store.path("man1").join(page).is_file(), "{page}");
    }
    store.run(&["man", "--out", "nowhere"]).failed(74, "can't write to nowhere");
}

#[test]
fn a_manual_page_has_exit_status_and_environment_and_refers_to_pages_that_exist() {
    let store = Store::new();
    store.run(&["man", "--out", "."]).ok();
    let read = |page: &str| std::fs::read_to_string(store.path(page)).unwrap();
    for name in ["taketurns.1", "taketurns-run.1", "taketurns-acquire.1", "taketurns-release.1"] {
        let page = read(name);
        assert!(!page.contains(".SH EXTRA"), "{page}");
        for part in [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", "TAKETURNS_STORE"] {
            assert!(page.contains(part), "{part} is in {page}");
        }
    }
    assert!(read("taketurns-show.1").contains(".SH JSON"));
    for name in ["taketurns.1", "taketurns-pool.1"] {
        let page = read(name).replace('\\', "");
        let others: Vec<&str> = page.lines().filter_map(|line| line.strip_suffix("(1)")).collect();
        assert!(others.len() >= 3, "{others:?}");
        for other in others {
            assert!(store.path(&format!("{other}.1")).is_file(), "{other}");
        }
    }
}

#[test]
fn help_and_manual_name_every_store_and_where_a_password_belongs() {
    let store = Store::new();
    let manual = store.run(&["man"]).ok().stdout.replace('\\', "");
    for text in [store.run(&["--help"]).ok().stdout, manual] {
        for part in [
            "file:/",
            "redis://",
            "rediss://",
            "redis+sentinel://h1,h2,h3/master-name",
            "redis+cluster://h1,h2",
            "TAKETURNS_REDIS_PASSWORD",
            "?password_file=",
            "?password_env=",
        ] {
            assert!(text.contains(part), "{part} is in {text}");
        }
    }
    let short = store.run(&["-h"]).ok().stdout;
    assert!(short.contains("redis://HOST"), "{short}");
    let json = store.run(&["show", "--help"]).ok().stdout;
    assert!(json.contains("quarantine_ms (how long until the lock is granted again"), "{json}");
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

#[test]
fn the_tables_of_postgresql_are_printed_for_a_user_who_may_make_them() {
    let store = Store::new();
    let sql = store.run(&["schema", "postgres"]).ok().stdout;
    for piece in
        ["CREATE SCHEMA taketurns;", "CREATE UNLOGGED TABLE taketurns.marker", "taketurns.fence"]
    {
        assert!(sql.contains(piece), "{piece} is not in {sql}");
    }
    let newer = store.run(&["schema", "postgres", "--from", "1"]).ok().stdout;
    assert!(sql.ends_with(&newer) && !newer.contains("CREATE SCHEMA"), "{newer}");
    assert_eq!(store.run(&["schema", "postgres", "--from", "99"]).ok().stdout.trim_end(), "");
    store.run(&["schema", "redis"]).failed(64, "invalid value");
}
