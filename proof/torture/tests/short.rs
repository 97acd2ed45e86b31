//! Some seconds of torture on engines of each sort, one after the other, since each takes the whole
//! machine. `TORTURE_SECONDS=60` for longer; `cargo xtask torture` for longer still.

use std::env;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use taketurns_history::{EventKind, HistoryEvent, check, read};
use taketurns_servers::eventually;

const ENGINES: [&str; 5] = ["file", "redis", "quorum", "postgres", "postgres-pair"];

fn torture(args: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taketurns-torture"));
    command.args(args).arg("--out").arg(out).output().expect("it is started")
}

fn count(history: &[HistoryEvent], is: fn(&EventKind) -> bool) -> usize {
    history.iter().filter(|event| is(&event.what)).count()
}

#[test]
fn some_seconds_of_torture_find_nothing_and_leave_a_history_that_says_so() {
    let seconds = env::var("TORTURE_SECONDS").unwrap_or("5".to_owned());
    let out = tempfile::tempdir().expect("a folder");
    for engine in ENGINES {
        let args = ["--engine", engine, "--seconds", &seconds];
        let done = torture(&args, out.path());
        let [said, told] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(done.status.success(), "{engine}: {told}\n{said}");
        let folder = out.path().join(engine);
        let summary = fs::read_to_string(folder.join("summary.txt")).expect("a summary");
        assert_eq!(said.trim_end(), summary.trim_end());
        let file = BufReader::new(File::open(folder.join("history.jsonl")).expect("a history"));
        let history = read(file).expect("a history that anybody can read");
        assert!(check(&history).iter().all(|found| found.excused_by.is_some()), "{summary}");
        assert!(count(&history, |what| matches!(what, EventKind::Granted { .. })) > 0, "{summary}");
        assert!(count(&history, |what| matches!(what, EventKind::Wrote { .. })) > 0, "{summary}");
        assert!(count(&history, |what| matches!(what, EventKind::Fault { .. })) > 0, "{summary}");
        assert!(history.iter().any(|event| event.what == EventKind::Calm), "{summary}");
    }
}

/// The client processes whose orders have this word in them.
fn clients(word: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
    let client = |entry: fs::DirEntry| {
        let arguments = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let is_client = arguments.contains("\0client\0") && arguments.contains(word);
        Pid::from_raw(entry.file_name().to_str()?.parse().ok()?).filter(|_| is_client)
    };
    processes.filter_map(client).collect()
}

#[test]
fn its_clients_end_with_it_also_if_they_are_stopped() {
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_taketurns-torture"));
    command.args(["--engine", "redis", "--minutes", "10", "--out"]).arg(out.path());
    let mut torture = command.stderr(Stdio::null()).spawn().expect("it is started");
    let word = out.path().to_str().expect("a plain path");
    // A client has begun when it has noted something.
    let begun = || fs::read_dir(out.path().join("redis/parts")).ok().map(Iterator::count);
    eventually("all have begun", || begun().filter(|&files| files > 6)).expect("they do");
    for client in clients(word) {
        kill_process(client, Signal::STOP).expect("it runs");
    }
    torture.kill().expect("it runs");
    torture.wait().expect("its end");
    eventually("none is left", || clients(word).is_empty().then_some(())).expect("none");
}

#[test]
fn a_folder_that_is_somebody_elses_is_left_alone() {
    let out = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(out.path().join("redis/diary")).expect("a folder");
    let done = torture(&["--engine", "redis", "--seconds", "1"], out.path());
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("is there, and of no run before"), "{said}");
    assert!(out.path().join("redis/diary").exists());
}

#[test]
fn what_it_does_not_understand_it_refuses_and_says_how_it_is_used() {
    let out = tempfile::tempdir().expect("a folder");
    let done = torture(&["--engine", "paper"], out.path());
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).starts_with("usage: cargo xtask torture"));
}
