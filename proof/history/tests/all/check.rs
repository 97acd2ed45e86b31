//! The program `check`, as a script sees it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, str};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A file of this test's own, with this in it.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("to write a file");
    path
}

fn check<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_check")).args(args).output().expect("to run check")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn out(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("UTF-8")
}

fn err(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("UTF-8")
}

#[test]
fn the_exit_code_says_whether_all_is_as_promised() {
    assert_eq!(code(&check(&[golden("g1-members-apart.jsonl")])), Some(0));
    assert_eq!(code(&check(&[golden("g1-excused.jsonl")])), Some(0));
    assert_eq!(code(&check(&[golden("g1-two-holders.jsonl")])), Some(1));
}

#[test]
fn several_files_are_one_history() {
    let (one, other) = (golden("g1-two-files.jsonl"), golden("g1-two-files.2.jsonl"));
    assert_eq!(code(&check(&[&one])), Some(0));
    let both = check(&[&one, &other]);
    assert_eq!(code(&both), Some(1));
    assert!(out(&both).contains("holds while operation 1"), "{}", out(&both));
}

#[test]
fn violations_and_excused_ones_are_listed_apart() {
    let found = check(&[golden("g1-two-holders.jsonl")]);
    assert!(out(&found).contains("\n  violations\n  G1 at 500 µs, lock m: "), "{}", out(&found));
    let excused = check(&[golden("g1-excused.jsonl")]);
    assert!(out(&excused).contains("\n  excused\n  G1 at 2100 µs"), "{}", out(&excused));
    assert!(!out(&excused).contains("\n  violations\n"), "{}", out(&excused));
}

#[test]
fn quiet_prints_violations_only() {
    let quiet = |name: &str| out(&check(&[golden(name), "--quiet".into()])).to_owned();
    assert_eq!(quiet("g1-members-apart.jsonl"), "");
    assert_eq!(quiet("g1-excused.jsonl"), "");
    assert_eq!(quiet("g1-two-holders.jsonl").lines().count(), 1);
}

#[test]
fn json_is_for_scripts() {
    let output = check(&[golden("g1-two-holders.jsonl"), "--json".into()]);
    let json: serde_json::Value = serde_json::from_str(out(&output)).expect("JSON");
    assert_eq!(json["guarantees"][0]["violations"], 1);
    assert_eq!(code(&output), Some(1));
}

#[test]
fn a_timeline_is_drawn_of_all_or_of_a_part() {
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("timeline.svg");
    let history = golden("g1-two-holders.jsonl");
    let draw = |more: &[&str]| {
        let _ = fs::remove_file(&picture);
        let mut args = vec![history.clone(), "--svg".into(), picture.clone()];
        args.extend(more.iter().map(PathBuf::from));
        assert_eq!(code(&check(&args)), Some(1));
        fs::read_to_string(&picture).expect("a picture")
    };
    assert!(draw(&[]).contains("operation 2 of client 2"));
    assert!(!draw(&["--to", "0.0004"]).contains("operation 2 of client 2"));
    assert!(!draw(&["--from", "0.00065"]).contains("operation 1 of client 1, "));
}

#[test]
fn an_unfinished_line_is_a_mistake_unless_it_is_the_last() {
    let whole = fs::read_to_string(golden("g1-members-apart.jsonl")).expect("a history");
    let cut = &whole[..whole.len() - 10];
    assert_eq!(code(&check(&[file("cut.jsonl", cut)])), Some(0));
    let in_the_middle = check(&[file("middle.jsonl", &format!("{cut}\n{whole}"))]);
    assert_eq!(code(&in_the_middle), Some(2));
    assert!(err(&in_the_middle).contains("middle.jsonl, line 7: EOF"), "{}", err(&in_the_middle));
}

#[test]
fn what_is_no_history_is_not_judged() {
    for (name, text, why) in [
        ("none.jsonl", "", "no event says how the history begins"),
        ("other.jsonl", "hello\n", "other.jsonl, line 1: expected value"),
        (
            "lock.jsonl",
            "{\"at_us\":0,\"what\":\"begins\",\"title\":\"\",\"locks\":[],\"waiter_lease_us\":1,\"max_lease_us\":1}\n\
             {\"at_us\":1,\"what\":\"asked\",\"op\":1,\"client\":1,\"lock\":\"m\",\"ask\":\"mutex\",\"endless\":true}\n",
            "the beginning of the history does not have",
        ),
    ] {
        let output = check(&[file(name, text)]);
        assert_eq!(code(&output), Some(2), "{name}");
        assert!(err(&output).contains(why), "{name}: {}", err(&output));
    }
    assert_eq!(code(&check(&[golden("there-is-none.jsonl")])), Some(2));
}

#[test]
fn wrong_arguments_are_answered_with_the_usage() {
    for args in [
        &[][..],
        &["--jsno", "a.jsonl"],
        &["a.jsonl", "--svg"],
        &["a.jsonl", "--from", "1"],
        &["a.jsonl", "--svg", "x", "--to", "-1"],
    ] {
        let output = check(args);
        assert_eq!(code(&output), Some(2), "{args:?}");
        assert!(err(&output).contains("usage: check FILE"), "{args:?}: {}", err(&output));
    }
    let help = check(&["--help"]);
    assert_eq!(code(&help), Some(0));
    assert!(out(&help).contains("usage: check FILE"));
}
