//! `top` in a real terminal, on a file and on servers.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use taketurns_servers::{Flavor, Server, on_both};

use crate::cli::helper::{Done, PROGRAM, Store, is_alive};
use crate::cli::tmux::{PROMPT, Pane};

/// `top` at a shell, once it has looked.
fn top(store: &Store) -> Pane<'_> {
    let pane = Pane::open(store);
    pane.run(&format!("echo before; {PROGRAM} top"));
    pane.until("busiest first");
    pane.until("s old, every ");
    pane
}

/// The first words of the lines that begin with one of these names, from above.
fn order<'a>(shown: &'a str, names: &[&str]) -> Vec<&'a str> {
    let first = shown.lines().filter_map(|line| line.split_whitespace().next());
    first.filter(|word| names.contains(word)).collect()
}

/// How old the screen says that it is.
fn age_s(shown: &str) -> Option<u64> {
    let (before, _) = shown.split_once("s old")?;
    before.rsplit(' ').next()?.parse().ok()
}

pub(crate) fn a_lock_is_seen_and_opened(store: &Store) {
    let pane = top(store);
    pane.until("no locks");
    let holder = store.hold(&["--why", "spring cleaning", "door"]);
    pane.until("(spring cleaning)");
    let next = store.start(&["run", "--why", "next", "door", "--", "cat"]);
    store.until_waiting("door", 1);
    let last = store.start(&["run", "--why", "last", "door", "--", "cat"]);
    store.until_waiting("door", 2);
    pane.until("1 lock, 1 held, 2 waiting");

    pane.press(&["Down", "Enter"]);
    pane.until_so("the queue is in order", |shown| {
        let place = |text| shown.find(text).unwrap_or(usize::MAX);
        let (holder, next, last) = (place("spring"), place("(next)"), place("(last)"));
        holder < next && next < last && last < usize::MAX
    });
    let token = store.show("door")["last_token"].to_string();
    pane.until(&token);
    holder.finish();
    pane.until("door  mutex, last token");
    pane.until_so("it has passed on", |shown| {
        shown.contains("1 waiting") && !shown.contains("spring cleaning")
    });
    pane.press(&["Escape"]);
    pane.until("1 lock, 1 held, 1 waiting");
    next.finish();
    last.finish();
    pane.until("1 lock, 0 held, 0 waiting");
}

pub(crate) fn a_break_needs_a_yes(store: &Store) {
    let mut holder = store.hold(&["--lease", "60", "--why", "stuck", "door"]);
    let pane = top(store);
    pane.until("(stuck)");
    pane.press(&["b"]);
    pane.until("choose a lock");
    pane.press(&["j", "b"]);
    pane.until("Break door?");
    pane.until("It is taken from");
    pane.press(&["Escape"]);
    pane.until("door was not broken");
    assert_eq!(store.show("door")["holders"][0]["broken"], false);
    assert!(is_alive(holder.child()));

    pane.press(&["b"]);
    pane.until("Break door?");
    pane.press(&["n"]);
    pane.until("AT ONCE");
    pane.press(&["n"]);
    pane.until("The holder is told");
    pane.press(&["y"]);
    pane.until("door: broken for 1 holder");
    assert_eq!(holder.code(), 76, "lost");
    pane.until("1 lock, 0 held, 0 waiting");
}

fn filter_sort_and_pause(store: &Store) {
    let longer = store.hold(&["--why", "slow", "archive"]);
    let shorter = store.hold(&["--why", "quick", "busy"]);
    let waiter = store.start(&["run", "busy", "--", "true"]);
    store.until_waiting("busy", 1);
    let pane = top(store);
    let names = ["archive", "busy"];
    pane.until_so("the busiest is first", |shown| order(shown, &names) == ["busy", "archive"]);
    pane.press(&["s"]);
    pane.until("longest held first");
    pane.until_so("the oldest is first", |shown| order(shown, &names) == ["archive", "busy"]);
    pane.press(&["<"]);
    pane.until_so("as before", |shown| order(shown, &names) == ["busy", "archive"]);

    pane.press(&["/", "s", "l", "o"]);
    pane.until_so("only one is left", |shown| order(shown, &names) == ["archive"]);
    pane.press(&["Escape"]);
    pane.until_so("both are back", |shown| order(shown, &names).len() == 2);

    pane.press(&["p"]);
    pane.until("PAUSED");
    let third = store.hold(&["third"]);
    // Looks would have come and gone.
    let mut shown = String::new();
    pane.until_so("the picture is old", |now| {
        shown = now.to_owned();
        age_s(now).is_some_and(|age_s| age_s >= 3)
    });
    assert!(!shown.contains("third"), "{shown}");
    pane.press(&["Space"]);
    pane.until_so("it is seen now", |shown| shown.contains("third") && !shown.contains("PAUSED"));
    for holder in [longer, shorter, third] {
        holder.finish();
    }
    drop(waiter);
}

#[test]
fn a_lock_is_seen_and_opened_on_a_file() {
    a_lock_is_seen_and_opened(&Store::new());
}

#[test]
fn a_break_needs_a_yes_on_a_file() {
    a_break_needs_a_yes(&Store::new());
}

#[test]
fn filter_sort_and_pause_do_what_they_say_on_a_file() {
    filter_sort_and_pause(&Store::new());
}

on_both! {
    fn a_lock_is_seen_and_opened_on_a_server(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        a_lock_is_seen_and_opened(&Store::at(server.url()));
    }

    fn a_break_needs_a_yes_on_a_server(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        a_break_needs_a_yes(&Store::at(server.url()));
    }
}

#[test]
fn filter_sort_and_pause_do_what_they_say_on_a_server() {
    let server = Server::start(Flavor::Redis).expect("a server");
    filter_sort_and_pause(&Store::at(server.url()));
}

#[test]
fn a_break_that_was_confirmed_is_carried_out_also_if_the_user_leaves_at_once() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let store = Store::at(server.url());
    let mut holder = store.hold(&["--lease", "60", "--why", "stuck", "door"]);
    let pane = top(&store);
    pane.until("(stuck)");
    pane.press(&["j", "b"]);
    pane.until("Break door?");
    server.pause();
    pane.press(&["y", "q"]);
    pane.until("\nbefore");
    server.resume();
    pane.until("door: broken for 1 holder");
    assert_eq!(holder.code(), 76, "lost");
}

#[test]
fn a_server_that_goes_away_is_told_of_and_keys_go_on_working_until_it_is_back() {
    let server = crate::cli::quarantine::keeping(Flavor::Redis);
    let store = Store::at(format!("{}?max_lease=5", server.url()));
    let holder = store.hold(&["--lease", "5", "--why", "remembered", "door"]);
    let pane = top(&store);
    pane.until("(remembered)");
    assert!(pane.shown().contains(&format!("redis://127.0.0.1:{} ", server.port())));
    server.kill();
    pane.until("UNREACHABLE for ");
    assert!(pane.shown().contains("(remembered)"), "the last picture: {}", pane.shown());
    pane.press(&["?"]);
    pane.until("any key: back");
    pane.press(&["x"]);
    pane.until_so("the help is gone", |shown| !shown.contains("any key"));
    server.restart().expect("it starts again");
    pane.until_so("it is seen again", |shown| {
        shown.contains("1 lock") && !shown.contains("UNREACHABLE")
    });
    drop(holder);
}

/// As a shell leaves it: keys are shown and read by lines, the cursor is there, and what was on the
/// screen before.
#[track_caller]
fn is_as_before(pane: &Pane<'_>) {
    pane.until("before");
    assert_eq!(pane.state("#{alternate_on} #{cursor_flag}"), "0 1");
    pane.run("stty -a > modes; echo written");
    pane.until("\nwritten");
}

fn modes(store: &Store) -> Vec<String> {
    let modes = fs::read_to_string(store.path("modes")).expect("modes");
    modes.split_whitespace().map(|mode| mode.trim_matches(';').to_owned()).collect()
}

#[test]
fn the_terminal_is_as_before_however_it_ends() {
    let store = Store::new();
    let ends: [(&[&str], &str); 3] = [(&["q"], "code 0"), (&["C-c"], "code 0"), (&[], "code 143")];
    for (keys, code) in ends {
        let pane = Pane::open(&store);
        pane.run("stty -a > modes; echo before");
        pane.until("\nbefore");
        let modes_before = modes(&store);
        pane.run(&format!("sh -c 'echo $$ > pid; exec {PROGRAM} top'; echo code $?"));
        pane.until("no locks");
        assert_eq!(pane.state("#{alternate_on} #{cursor_flag}"), "1 0");
        if keys.is_empty() {
            let pid = fs::read_to_string(store.path("pid")).expect("its number");
            let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("not zero");
            kill_process(pid, Signal::TERM).expect("it is there");
        } else {
            pane.press(keys);
        }
        pane.until(code);
        is_as_before(&pane);
        assert_eq!(modes(&store), modes_before);
    }
}

#[test]
fn it_is_suspended_and_continued_as_any_job() {
    let store = Store::new();
    let holder = store.hold(&["--why", "meanwhile", "door"]);
    let pane = top(&store);
    pane.until("(meanwhile)");
    pane.press(&["C-z"]);
    pane.until("Stopped");
    is_as_before(&pane);
    assert!(modes(&store).contains(&"icanon".to_owned()));
    holder.finish();
    pane.run("fg");
    pane.until("1 lock, 0 held");
    pane.press(&["q"]);
    // Earlier prompts are on the screen as well.
    pane.until_so("the last line is a prompt", |shown| shown.trim_end().ends_with(PROMPT));
    pane.run("echo after");
    pane.until("\nafter");
    let shown = pane.shown();
    let lines = ["\nbefore", "Stopped", "\nwritten", "prompt> fg", "\nafter"];
    let places: Vec<_> = lines.iter().map(|line| shown.find(line)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "one below the other: {shown}");
}

#[test]
fn it_fits_whatever_size_the_terminal_gets() {
    let store = Store::new();
    let holder = store.hold(&["--why", "a reason that needs some room to be told in full", "door"]);
    let pane = top(&store);
    pane.until("(a reason");
    assert!(!pane.shown().contains("told in full"), "{}", pane.shown());
    pane.resize(120, 40);
    pane.until("told in full)");
    pane.resize(30, 10);
    pane.until("too small: 40×8 is needed");
    pane.resize(80, 24);
    pane.until("1 lock, 1 held");
    holder.finish();
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let store = Store::new();
    let command = &mut store.command(&["top"]);
    Done::of(command).failed(64, "`taketurns ls --watch` or `taketurns ls --json`");
    let pane = Pane::open(&store);
    pane.run(&format!("TERM=dumb {PROGRAM} top; echo code $?"));
    pane.until("code 64");
    store.run(&["top", "--every", "0"]).failed(64, "--every 0: at least 0.1 seconds");
}
