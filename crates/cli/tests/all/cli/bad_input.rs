//! Bad names, values and stores: one clear line, the right code, and nothing is touched.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::cli::helper::{Done, PROGRAM, Store};

#[test]
fn names_that_no_lock_can_have_are_refused() {
    let store = Store::new();
    let long = "x".repeat(513);
    for (name, why) in
        [("", "must not be empty"), (&*long, "at most 512 bytes"), ("a\tb", "control")]
    {
        store.run(&["run", name, "--", "true"]).failed(64, why);
        store.run(&["acquire", name]).failed(64, why);
        store.run(&["show", name]).failed(64, why);
        store.run(&["break", name]).failed(64, why);
        store.run(&["pool", "add", name, "m"]).failed(64, why);
        store.run(&["pool", "add", "p", name]).failed(64, why);
    }
    store.run(&["run", &"x".repeat(512), "--", "true"]).ok();
    assert!(store.run(&["run", "a\x1b[2Jb", "--", "true"]).stderr.contains("\\u{1b}[2J"));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let store = Store::new();
    let bad: [(&[&str], &str); 18] = [
        (&["--lease", "0"], "a lease is between 0.01 and 86400 seconds"),
        (&["--lease", "-1"], "--lease -1: it must not be negative"),
        (&["--lease", "NaN"], "not a number of seconds"),
        (&["--lease", "315360000"], "a lease is between 0.01 and 86400 seconds"),
        (&["--lease", "soon"], "not a number of seconds"),
        (&["--wait", "-1"], "must not be negative"),
        (&["--wait", "inf"], "not a number of seconds"),
        (&["--wait", "315360000"], "more than a year"),
        (&["--max-hold", "0"], "at least 0.01 seconds"),
        (&["--permits", "5/4"], "a semaphore with 4 permits can't grant 5"),
        (&["--permits", "0/4"], "from 1 to"),
        (&["--permits", "-1"], "from 1 to"),
        (&["--permits", "many"], "write K/N"),
        (&["-E", "256"], "not a number from 0 to 255"),
        (&["-n", "-w", "1"], "cannot be used with"),
        (&["-s", "-x"], "cannot be used with"),
        (&["-s", "--permits", "2"], "cannot be used with"),
        (&["--member", "blue"], "--pool"),
    ];
    for (args, why) in bad {
        let line = [&["run"], args, &["door", "--", "touch", "ran"]].concat();
        store.run(&line).failed(64, why);
    }
    let why = "y".repeat(300);
    store
        .run(&["run", "--why", &why, "door", "--", "touch", "ran"])
        .failed(64, "--why is too long or has control characters: host, program and reason");
    store
        .run(&["run", "--why", "a\nb", "door", "--", "touch", "ran"])
        .failed(64, "may have 256 bytes together");
    assert!(!store.path("ran").exists());
    for args in [&["run", "door"][..], &["nonsense"], &[], &["completions", "tcsh"]] {
        store.run(args).failed(64, "");
    }
}

#[test]
fn a_handle_that_is_none_is_refused_without_being_repeated() {
    let store = Store::new();
    let handle = store.run(&["acquire", "door"]).ok().stdout;
    let secret = handle.split('.').nth(1).unwrap();
    for command in ["renew", "release"] {
        store.run(&[command]).failed(64, "no handle");
        for args in [&[command, handle.trim()][..], &[command, "--handle", handle.trim()]] {
            let done = store.run(args);
            assert!(!done.stderr.contains("tt1") && !done.stderr.contains(secret), "{done:?}");
            done.failed(64, "");
        }
        store.run(&[command, handle.trim()]).failed(64, "TAKETURNS_HANDLE or on stdin");
        let not_text = OsStr::from_bytes(b"s3cret\xff");
        let done = Done::of(store.command(&[command]).env("TAKETURNS_HANDLE", not_text));
        done.failed(64, "invalid handle");
        let done = Done::of(store.command(&[command]).env("TAKETURNS_HANDLE", "s3cret"));
        assert!(!done.stderr.contains("s3cret"));
        done.failed(64, "invalid handle");
    }
}

#[test]
fn stores_that_are_none_are_refused() {
    let store = Store::new();
    let open = |url: &str| Done::of(store.command(&["ls"]).env("TAKETURNS_STORE", url));
    open("nonsense:").failed(64, "invalid store URL");
    open("memory:").failed(64, "can't keep commands apart; use file:PATH");
    open("memory:shared").failed(64, "can't keep commands apart; use file:PATH");
    fs::create_dir(store.path("directory")).unwrap();
    open(&format!("file:{}", store.path("directory").display())).failed(69, "directory");
    open(&format!("file:{}", store.path("nowhere/locks.db").display())).failed(69, "nowhere");
    open("file:/dev/null").failed(69, "not a regular file");
}

/// Both reading and writing must leave it alone.
fn refused_and_untouched(store: &Store, path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    let url = format!("file:{}", path.display());
    for args in [&["ls"][..], &["run", "door", "--", "true"]] {
        Done::of(store.command(args).env("TAKETURNS_STORE", &url)).failed(69, "left as it is");
        assert_eq!(fs::read(path).unwrap(), content);
    }
}

#[test]
fn files_that_are_no_store_or_cut_short_are_left_as_they_are() {
    let store = Store::new();
    refused_and_untouched(&store, &store.path("notes.txt"), b"not a database at all\n");
    refused_and_untouched(
        &store,
        &store.path("long.txt"),
        &b"still not a database\n".repeat(1_000),
    );

    let other = store.path("other.db");
    let database = rusqlite::Connection::open(&other).unwrap();
    database.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    drop(database);
    refused_and_untouched(&store, &other, &fs::read(&other).unwrap());

    let mut locks = Vec::new();
    for number in 0..200 {
        locks.push(format!("lock {number}"));
    }
    store
        .run(
            &[&["pool", "add", "big"][..], &locks.iter().map(|l| &**l).collect::<Vec<_>>()]
                .concat(),
        )
        .ok();
    let whole = rusqlite::Connection::open(store.path("locks.db")).unwrap();
    whole.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(whole);
    let whole = fs::read(store.path("locks.db")).unwrap();
    for bytes in [50, 5_000, whole.len() - 4_096] {
        refused_and_untouched(&store, &store.path(&format!("cut-{bytes}.db")), &whole[..bytes]);
    }
}

#[test]
fn a_directory_that_can_not_be_written_to_is_said_so() {
    let store = Store::new();
    let directory = store.path("closed");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(store.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o555)).unwrap();
    let url = format!("file:{}", directory.join("locks.db").display());
    // Root may write anywhere, so the command runs as another user.
    let mut command = if rustix::process::getuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
        let program = store.path("taketurns");
        // By another process: while we had it open for writing, a test beside us could fork, and
        // what is open for writing can't be executed.
        Done::of(Command::new("cp").arg(PROGRAM).arg(&program)).ok();
        command.arg(program);
        command
    } else {
        Command::new(PROGRAM)
    };
    let done = Done::of(command.args(["run", "door", "--", "true"]).env("TAKETURNS_STORE", url));
    done.failed(69, "closed");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_said_so() {
    let store = Store::new();
    let disk = store.path("disk");
    fs::create_dir(&disk).unwrap();
    let mut allowed = Command::new("unshare");
    let allowed = Done::of(allowed.args(["-Urm", "mount", "-t", "tmpfs", "tmpfs"]).arg(&disk));
    if allowed.code != 0 {
        eprintln!("skipped: no disk can be mounted here ({})", allowed.stderr.trim());
        return;
    }
    // First on a disk that is full before there is a store, then on one that fills up under it.
    let script = r#"
        mount -t tmpfs -o size=256k tmpfs disk && cd disk && export TAKETURNS_STORE=file:locks.db
        fill() { cat /dev/zero > fill 2> /dev/null; }
        fill; "$0" run door -- echo never; echo $?; ls
        rm fill; "$0" run door -- true; echo $?
        fill; code=0
        while [ $code = 0 ]; do "$0" pool add rooms "room $((i += 1))" > /dev/null; code=$?; done
        echo $code
        rm fill; "$0" run door -- true; echo $?"#;
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", script, PROGRAM]).current_dir(store.path(""));
    let done = Done::of(&mut command);
    let codes: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(codes, ["69", "fill", "0", "69", "0"], "{done:?}");
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{done:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("taketurns: ") && line.contains("full")),
        "{done:?}"
    );
}
