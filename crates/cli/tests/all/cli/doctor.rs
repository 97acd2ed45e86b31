//! `taketurns doctor`: what it prints, for people and as JSON, and how it exits.

use serde_json::{Value, json};
use taketurns_servers::{Flavor, Server, on_both};

use crate::cli::helper::{Done, Store};
use crate::cli::terminal::Screen;

const EVICTS: [&str; 4] = ["--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"];

fn lines(done: &Done) -> Vec<&str> {
    done.stdout.lines().collect()
}

/// The checks of that name in a document.
fn checks<'a>(document: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = document["checks"].as_array().expect("a list").iter();
    all.filter(|check| check["check"] == name).collect()
}

#[test]
fn a_file_that_is_well_is_all_ok_with_0() {
    let store = Store::new();
    let done = store.run(&["doctor"]).quiet();
    assert!(lines(&done).iter().all(|line| line.starts_with("ok    ")), "{done:?}");
    assert!(!done.stdout.contains('\x1b'), "{done:?}");
    assert!(!store.path("locks.db").exists(), "nothing was made");
    store.run(&["run", "door", "--", "true"]).quiet();
    let document = store.run(&["doctor", "--json"]).quiet().json();
    assert_eq!(document["store"], json!(store.url()));
    assert_eq!(document["worst"], "ok");
    let [locks] = checks(&document, "locks")[..] else { panic!("{document}") };
    let path = store.path("locks.db").display().to_string();
    let wanted = json!({
        "node": path,
        "check": "locks",
        "level": "ok",
        "found": "1, 1 of them used since this boot",
        "advice": null,
    });
    assert_eq!(*locks, wanted);
}

on_both! {
    fn a_failed_check_is_a_line_with_what_to_do_and_1(flavor: Flavor) {
        let server = Server::builder(flavor).args(EVICTS).start().expect("a server");
        let store = Store::new();
        // As an argument it goes before what else is named.
        let done = store.run(&["doctor", &server.url()]);
        assert_eq!((done.code, done.stderr.as_str()), (1, ""), "{done:?}");
        let failed: Vec<_> = lines(&done).into_iter().filter(|line| line.starts_with("fail")).collect();
        let [failed] = failed[..] else { panic!("{done:?}") };
        assert!(failed.starts_with(&format!("fail  {}  eviction ", server.addr())), "{failed}");
        assert!(failed.contains("allkeys-lru"), "{failed}");
        assert!(failed.contains(" → CONFIG SET maxmemory-policy noeviction"), "{failed}");

        let done = store.run(&["doctor", "--json", "--store", &server.url()]);
        assert_eq!(done.code, 1, "{done:?}");
        let document = done.json();
        assert_eq!(document["worst"], "fail");
        let [eviction] = checks(&document, "eviction")[..] else { panic!("{document}") };
        assert_eq!(eviction["level"], "fail");
        assert!(eviction["advice"].as_str().expect("one").starts_with("CONFIG SET"), "{eviction}");
        assert_eq!(server.cli(&["DBSIZE"]).int(), Some(0), "nothing was written");
    }

    fn a_warning_is_no_failure(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let done = Store::at(server.url()).run(&["doctor"]).quiet();
        assert!(lines(&done).iter().any(|line| line.starts_with("warn  ")), "{done:?}");
    }

    fn what_is_out_of_reach_is_a_line_and_69(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.kill();
        let done = Store::at(server.url()).run(&["doctor"]);
        assert_eq!((done.code, done.stderr.as_str()), (69, ""), "{done:?}");
        let [line] = lines(&done)[..] else { panic!("{done:?}") };
        assert!(line.starts_with(&format!("fail  {}  reachable  ", server.addr())), "{line}");
    }

    fn no_password_is_printed(flavor: Flavor) {
        let server = Server::builder(flavor).requirepass("hunter2").start().expect("a server");
        let wrong = server.url().replace("hunter2", "hunter3");
        for url in [server.url(), wrong] {
            for args in [&["doctor", &url][..], &["doctor", "--json", &url]] {
                let done = Store::new().run(args);
                assert!(!format!("{done:?}").contains("hunter"), "{done:?}");
            }
        }
        let document = Store::at(server.url()).run(&["doctor", "--json"]).ok().json();
        assert_eq!(document["store"], json!(format!("redis://{}", server.addr())));
    }

    fn what_servers_say_does_not_drive_the_terminal(flavor: Flavor) {
        let server = Server::builder(flavor).start().expect("a server");
        let user = "\x1b[31mred";
        assert!(server.cli(&["ACL", "SETUSER", user, "on", ">x", "+@all", "~*", "&*"]).is_ok());
        let url = format!("redis://%1B[31mred:x@127.0.0.1:{}", server.port());
        let done = Store::at(url).run(&["doctor"]).quiet();
        assert!(done.stdout.contains("\\u{1b}[31mred") && !done.stdout.contains('\x1b'), "{done:?}");
    }
}

#[test]
fn at_a_terminal_levels_are_coloured_unless_no_color_says_not() {
    let store = Store::new();
    let program = crate::cli::helper::PROGRAM;
    let mut screen = Screen::of(&store, &[program, "doctor"]);
    assert_eq!(screen.code(), Some(0));
    assert!(screen.shown().contains("\x1b[32mok  \x1b[0m"), "{:?}", screen.shown());
    for plain in ["NO_COLOR=1", "TERM=dumb"] {
        let mut screen = Screen::of(&store, &["env", plain, program, "doctor"]);
        assert_eq!(screen.code(), Some(0));
        assert!(!screen.shown().contains('\x1b'), "{:?}", screen.shown());
    }
}

#[test]
fn what_makes_no_sense_is_64() {
    let store = Store::new();
    store.run(&["doctor", "memory:"]).failed(64, "shared within one process only");
    store.run(&["doctor", "nonsense"]).failed(64, "it must start with");
    store.run(&["doctor", "quorum:redis://a,redis://b"]).failed(64, "3 to 15 nodes");
    store.run(&["doctor", "redis://a", "b"]).failed(64, "see `taketurns doctor --help`");
    let url = "redis://:hunter2@h";
    let twice = store.run(&["doctor", "file:x", url]);
    assert!(twice.code == 64 && !twice.stderr.contains("hunter"), "{twice:?}");
}

#[test]
fn help_says_how_it_exits() {
    let help = Store::new().run(&["doctor", "--help"]).ok().stdout;
    for part in ["--json", "0 if no check failed", "1 if one failed", "69"] {
        assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{help}");
    }
}
