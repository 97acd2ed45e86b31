//! The page, in a real browser.

use std::time::Instant;

use super::browser::Browser;
use super::{Serving, TOKEN};
use crate::cli::helper::Store;
use taketurns::blocking::Wait;
use taketurns_servers::{Flavor, Server};

/// A cell of a lock's row: its holder, and how many wait.
fn row(lock: &str, cell: &str) -> String {
    let place = match cell {
        "holder" => 3,
        "waiting" => 7,
        _ => panic!("no such cell"),
    };
    format!("#locks tr[data-lock=\"{lock}\"] td:nth-child({place})")
}

fn a_grant_a_wait_and_a_release_are_shown(store: &Store) {
    let serving = Serving::start(store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    browser.until_shown("#empty", "No lock was used");
    let timed = |what: &str, selector: &str, text: &str| {
        let since = Instant::now();
        browser.until_shown(selector, text);
        eprintln!("{what} shown after {} ms", since.elapsed().as_millis());
    };

    let holder = store.hold(&["--why", "first", "door"]);
    timed("a grant", &row("door", "holder"), "(first)");
    let mut next = store.start(&["run", "--why", "second", "door", "--", "sh", "-c", "echo; cat"]);
    timed("a wait", &row("door", "waiting"), "1");
    browser.click("#locks tr[data-lock=\"door\"]");
    browser.until_shown("#holders", "(first)");
    browser.until_shown("#queue", "(second)");

    holder.finish();
    next.line();
    timed("a hand-over", &row("door", "holder"), "(second)");
    browser.until_shown("#queue-title", "nobody waits");
    next.finish();
    timed("a release", &row("door", "holder"), "nobody");
    browser.until_shown("#waits-total", "2 grants");
    browser.click("#close");
    // Both turns have a bar.
    assert_eq!(browser.value("lanes.bars.length"), 2);
}

#[test]
fn a_grant_a_wait_and_a_release_in_a_file_are_shown() {
    a_grant_a_wait_and_a_release_are_shown(&Store::new());
}

#[test]
fn a_grant_a_wait_and_a_release_in_redis_are_shown() {
    let server = Server::start(Flavor::Redis).expect("a server");
    a_grant_a_wait_and_a_release_are_shown(&Store::at(server.url()));
}

#[test]
fn work_that_is_done_or_fails_and_a_lock_that_rests_are_shown() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    browser.until_shown("#empty", "No lock was used");
    let once = |why: &str, command: &str| {
        let args = ["once", "--why", why, "--result", "3 files", "nightly", "--", command];
        store.run(&args).code
    };
    assert_eq!(once("first", "false"), 1);
    browser.until_shown(&row("nightly", "holder"), "nobody1 failed");
    assert_eq!(once("second", "true"), 0);
    browser.until_shown(&row("nightly", "holder"), "done by ");
    browser.until_shown(&row("nightly", "holder"), "(second)");
    browser.click("#locks tr[data-lock=\"nightly\"]");
    browser.until_shown("#lock-state", "once, done");
    browser.until_shown(
        "#lock-work",
        "ago, with the result “3 files”, after 1 attempt that failed; forgotten in 23h",
    );
    browser.click("#close");

    store.run(&["run", "--at-least", "600", "ping", "--", "true"]).quiet();
    browser.until_shown(&row("ping", "holder"), "ended");
    browser.click("#locks tr[data-lock=\"ping\"]");
    browser.until_shown("#holders", "ended, not free for 9m");
}

#[test]
fn a_lock_is_broken_with_the_token_and_not_without() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let mut holder = store.hold(&["--why", "stuck", "door"]);
    browser.until_shown(&row("door", "holder"), "(stuck)");
    browser.click("#locks tr[data-lock=\"door\"]");
    browser.until_shown("#holders", "(stuck)");

    browser.click("#break");
    browser.until_shown("#break-who", "(stuck) will be told that the lock is lost");
    browser.click("#break-now");
    assert_eq!(browser.text("#outcome"), "", "a reason and a token are asked for first");
    browser.write("#why", "its host is gone");
    browser.write("#token", "not-the-token-at-all");
    browser.click("#break-now");
    browser.until_shown("#outcome", "Not broken: that is not the token");
    assert_eq!(store.show("door")["holders"][0]["broken"], false);

    browser.write("#token", TOKEN);
    browser.click("#break-now");
    browser.until_shown("#outcome", "Broken. The lock passes on when the holder stops");
    assert_eq!(holder.code(), 76, "the holder was told");
}

#[test]
fn without_a_token_the_page_says_why_no_lock_can_be_broken() {
    let store = Store::new();
    let mut command = super::command(&store, &[]);
    let serving = Serving::of(command.env_remove("TAKETURNS_SERVE_TOKEN"));
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let _holder = store.hold(&["door"]);
    browser.until_shown(&row("door", "holder"), "sh");
    browser.click("#locks tr[data-lock=\"door\"]");
    browser.until_shown("#holders", "held");
    browser.click("#break");
    browser.until_shown("#outcome", "started without a token");
}

#[test]
fn what_is_closed_asks_for_the_token_and_then_shows_all() {
    let store = Store::new();
    let serving = Serving::start(&store, &["--closed"]);
    let _holder = store.hold(&["door"]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    browser.until_shown("#live", "token needed");
    assert_eq!(browser.text("#locks"), "");
    browser.write("#enter-token", "wrong-wrong-wrong");
    browser.click("#enter button");
    browser.until_shown("#enter-trouble", "not the token");
    browser.write("#enter-token", TOKEN);
    browser.click("#enter button");
    browser.until_shown(&row("door", "holder"), "sh");
}

#[test]
fn markup_in_names_and_labels_is_text() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let evil = "<img src=x onerror=document.title='hit'>";
    let _holder = store.hold(&["--why", evil, evil]);
    browser.until_shown("#locks td", evil);
    browser.click("#locks tr");
    browser.until_shown("#holders", evil);
    assert_eq!(browser.value("document.querySelectorAll('main img, dialog img').length"), 0);
}

#[test]
fn a_mark_that_reverses_text_is_shown_as_an_escape() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let _holder = store.hold(&["--why", "a\u{202e}b", "do\u{200b}or"]);
    browser.until_shown("#locks td", r"do\u{200b}or");
    browser.until_shown("#locks td:nth-child(3)", r"(a\u{202e}b)");
}

#[test]
fn a_filter_and_an_order_are_kept_to() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let _held = ["one", "two", "three"].map(|lock| store.hold(&[lock]));
    browser.until_shown("#shown", "3 shown");
    browser.press("#sort", "name");
    browser.until_shown("#locks tr:nth-child(2) td", "three");
    browser.write("#filter", "TWO");
    browser.until_shown("#shown", "1 shown");
    browser.until_shown("#locks tr:nth-child(1) td", "two");
    assert_eq!(browser.value("document.querySelectorAll('#locks tr').length"), 1);
    browser.write("#filter", "nothing like it");
    browser.until_shown("#empty", "No lock matches");
}

#[test]
fn of_many_locks_the_busiest_are_shown() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let locks = taketurns::connect(&server.url()).wait().expect("a client");
    let held: Vec<_> =
        (0..2_000).map(|n| locks.mutex(format!("lock-{n:04}")).acquire().wait()).collect();
    assert!(held.iter().all(Result::is_ok));
    let store = Store::at(server.url());
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let _next = store.start(&["run", "lock-1234", "--", "true"]);
    browser.until_shown("#shown", "100 of 2000 shown");
    browser.until_shown("#locks tr:nth-child(1) td", "lock-1234");
    assert_eq!(browser.value("document.querySelectorAll('#locks tr').length"), 100);
}

#[test]
fn both_themes_have_colours_of_their_own() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    let _holder = store.hold(&["--why", "nightly", "backup"]);
    browser.until_shown(&row("backup", "holder"), "(nightly)");
    let colours = |element: &str| {
        browser.value(&format!(
            "[getComputedStyle({element}).color, getComputedStyle(document.body).backgroundColor]"
        ))
    };
    browser.prefer("light");
    let (light, light_picture) = (colours("document.body"), browser.picture());
    browser.prefer("dark");
    let (dark, dark_picture) = (colours("document.body"), browser.picture());
    assert_ne!(light, dark);
    assert_ne!(light_picture, dark_picture);
    // The user's own choice is above the system's.
    browser.click("#theme");
    assert_eq!(browser.text("#theme"), "theme: light");
    assert_eq!(colours("document.body"), light);
}

#[test]
fn a_store_that_goes_and_comes_back_is_shown_so() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let store = Store::at(server.url());
    let serving = Serving::start(&store, &[]);
    let browser = Browser::open(&format!("http://{}/", serving.at));
    browser.until_shown("#live", "live");
    server.kill();
    browser.until_shown("#live", "store:");
    server.restart().expect("it starts again");
    browser.until_shown("#live", "live");
}
