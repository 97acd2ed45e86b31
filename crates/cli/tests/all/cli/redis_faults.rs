//! What the program says of a server that is down, does not let it in, or is set up so that locks may
//! be lost; and that it never says a password.

use std::fs;
use std::time::Instant;

use taketurns_servers::{Cluster, Flavor, PATIENCE, ReplicaSet, Server, on_both};

use crate::cli::helper::{Done, Running, Store, until};

/// What must not be seen anywhere.
const PASSWORD: &str = "hunter2";

const EVICTION: &str = "maxmemory-policy is allkeys-lru, which may evict a lock that is held";

/// Commands of each sort: those that look, those that wait, those that print JSON.
const COMMANDS: [&[&str]; 5] = [
    &["ls"],
    &["show", "--json", "door"],
    &["run", "door", "--", "echo", "in"],
    &["acquire", "--json", "-v", "door"],
    &["pool", "add", "rooms", "blue"],
];

/// Each command fails with 69 before anybody's patience is over.
#[track_caller]
fn is_unreachable(url: &str, saying: &str) {
    let store = Store::at(url);
    for args in COMMANDS {
        let since = Instant::now();
        store.run(args).failed(69, saying);
        assert!(since.elapsed() < PATIENCE, "{args:?} took {:?}", since.elapsed());
    }
}

fn evicting(flavor: Flavor) -> Server {
    let args = ["--maxmemory-policy", "allkeys-lru"];
    Server::builder(flavor).args(args).start().expect("a server")
}

#[test]
fn a_server_that_is_down_is_named_and_not_waited_for() {
    let server = Server::start(Flavor::Redis).expect("a server");
    server.kill();
    let saying = format!("the store can't be reached: {}: Connection refused", server.addr());
    is_unreachable(&server.url(), &saying);
}

#[test]
fn a_server_that_does_not_answer_is_named_and_not_waited_for_long() {
    let server = Server::start(Flavor::Valkey).expect("a server");
    server.pause();
    let saying = format!("{} accepts connections but does not answer", server.addr());
    is_unreachable(&server.url(), &saying);
}

#[test]
fn sentinels_and_clusters_that_are_down_are_named() {
    let set = ReplicaSet::builder(Flavor::Redis).replicas(1).start().expect("a set");
    set.sentinels.iter().for_each(Server::kill);
    is_unreachable(&set.url(), "no Sentinel answers: 127.0.0.1:");
    let cluster = Cluster::start(Flavor::Redis).expect("a cluster");
    cluster.nodes.iter().for_each(Server::kill);
    is_unreachable(&cluster.url(), "127.0.0.1:");
}

on_both! {
    fn a_command_ends_before_its_lease_if_the_server_goes_away(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let store = Store::at(server.url());
        let mut holder = store.hold(&["--lease", "3", "door"]);
        server.kill();
        assert_eq!(holder.code(), 76);
        server.restart().expect("it starts again");
        store.run(&["run", "door", "--", "true"]).quiet();
    }

    fn a_lock_that_the_server_forgot_was_lost_though_nobody_noticed_before_the_end(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let store = Store::at(server.url());
        let errors = store.path("errors");
        let mut holder = store.command(&["run", "--lease", "60", "door", "--", "cat"]);
        let mut holder = Running::start(holder.stderr(fs::File::create(&errors).unwrap()));
        until("it is held", || store.show("door")["state"] == "held");
        server.cli(&["FLUSHALL"]);
        holder.close_stdin();
        assert_eq!(holder.code(), 76);
        let said = fs::read_to_string(&errors).unwrap();
        assert!(said.ends_with(": the store no longer knows the holder\n"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    fn a_password_may_come_from_four_places_and_a_wrong_one_is_said_so(flavor: Flavor) {
        let server = Server::builder(flavor).requirepass(PASSWORD).start().expect("a server");
        let bare = format!("redis://{}", server.addr());
        let refused = format!("{} does not accept the user or the password", server.addr());
        let store = Store::new();
        fs::write(store.path("right"), format!("{PASSWORD}\n")).unwrap();
        let ls = |url: &str, name: &str, value: &str| {
            let mut command = store.command(&["ls", "--json"]);
            Done::of(command.env("TAKETURNS_STORE", url).env(name, value))
        };
        let variable = "TAKETURNS_REDIS_PASSWORD";
        ls(&server.url(), "X", "").quiet();
        ls(&bare, variable, PASSWORD).quiet();
        ls(&format!("{bare}?password_file=right"), "X", "").quiet();
        ls(&format!("{bare}?password_env=X"), "X", PASSWORD).quiet();

        ls(&format!("redis://:wrong@{}", server.addr()), "X", "").failed(69, &refused);
        ls(&bare, variable, "wrong").failed(69, &refused);
        ls(&bare, "X", "").failed(69, &format!("{} wants a password", server.addr()));
        ls(&format!("{bare}?password_file=none"), "X", "").failed(69, "password file none can't be");
        ls(&format!("{bare}?password_env=NONE"), "X", "").failed(69, "variable NONE");
    }

    fn a_server_that_may_evict_locks_is_warned_of_once(flavor: Flavor) {
        let server = evicting(flavor);
        let store = Store::at(server.url());
        let line = format!("taketurns: {}: {EVICTION}: set it to noeviction\n", server.addr());
        let done = store.run(&["run", "-v", "door", "--", "echo", "in"]).ok();
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("in\n", line.as_str()));
        let done = store.run(&["acquire", "--json", "door"]).ok();
        assert_eq!((&done.json()["lock"], &done.stderr), (&"door".into(), &line));
        // A script that looks every minute does not get the warning every minute.
        for args in [&["ls"][..], &["show", "--json", "door"], &["pool", "ls", "rooms"]] {
            store.run(args).quiet();
        }
    }

    fn with_strict_a_server_that_may_evict_locks_is_refused(flavor: Flavor) {
        let server = evicting(flavor);
        let strict = Store::at(format!("{}?strict=true", server.url()));
        for args in COMMANDS {
            strict.run(args).failed(69, EVICTION);
        }
    }
}

#[test]
fn a_master_that_takes_writes_without_replicas_is_warned_of() {
    let set = ReplicaSet::builder(Flavor::Redis).replicas(1).start().expect("a set");
    let store = Store::at(set.url());
    let done = store.run(&["run", "door", "--", "true"]).ok();
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(done.stderr.contains("min-replicas-to-write 1"), "{done:?}");
    store.run(&["ls"]).quiet();
}

#[test]
fn no_message_has_the_password_of_the_url_in_it() {
    let open = Server::start(Flavor::Redis).expect("a server");
    let closed = Server::builder(Flavor::Valkey).requirepass("another").start().expect("a server");
    let evicts = evicting(Flavor::Redis);
    let down = Server::start(Flavor::Redis).expect("a server");
    down.kill();
    let (open, closed) = (open.addr(), closed.addr());
    let (evicts, down) = (evicts.addr(), down.addr());
    // Those in which something is wrong, then one that works and is warned of.
    let urls = [
        (69, format!("redis://:{PASSWORD}@{closed}")),
        (69, format!("redis://bob:{PASSWORD}@{open}")),
        (69, format!("redis://:{PASSWORD}@{down}")),
        (69, format!("rediss://:{PASSWORD}@{down}")),
        (69, format!("redis+sentinel://:{PASSWORD}@{down}/turns")),
        (69, format!("redis+sentinel://:{PASSWORD}@{open}/turns")),
        (69, format!("redis+cluster://:{PASSWORD}@{down},{open}")),
        (69, format!("redis://:{PASSWORD}@{evicts}?strict=true")),
        (64, format!("redis://:{PASSWORD}@{open}?nonsense=1")),
        (64, format!("redis://:a/{PASSWORD}@{open}")),
        (64, format!("redis://:{PASSWORD}@{open}/x")),
        (64, format!("redis://:{PASSWORD}@host:port")),
        (64, format!("redis:/:{PASSWORD}@{open}")),
        (64, format!("redis//:{PASSWORD}@{open}")),
        (64, format!("reddis://:{PASSWORD}@{open}")),
        (64, format!("{PASSWORD}@{open}")),
        (64, format!("{PASSWORD}:{PASSWORD}@{open}")),
        (0, format!("redis://:{PASSWORD}@{evicts}")),
    ];
    for (code, url) in urls {
        let store = Store::at(&url);
        for args in COMMANDS {
            let done = store.run(args);
            assert_eq!(done.code, code, "{url} {args:?}: {done:?}");
            let all = format!("{}{}", done.stdout, done.stderr);
            assert!(!all.contains(PASSWORD), "{url} {args:?}: {all}");
            if code == 0 {
                // For the next one to have it.
                store.run(&["break", "--now", "door"]);
            }
        }
        let done = Store::new().run(&["--store", &url, "run", "door", "--", "true"]);
        assert!(!format!("{done:?}").contains(PASSWORD), "{url} as an option: {done:?}");
    }
}

#[test]
fn a_store_that_is_misspelt_is_refused_with_how_to_write_it() {
    let cases = [
        ("redis:/x", "write redis://host"),
        ("redis+cluster:x", "write redis+cluster://host"),
        ("redis//x", "must start with file:, postgres://, redis://"),
        ("redis//x:6379", "must start with file:, postgres://, redis://"),
        ("reddis://x", "no engine \"reddis\": use file:, postgres://, redis://"),
        ("localhost:6379", "must start with file:, postgres://, redis://"),
        ("/var/lib/locks.db", "as in file:/var/lib/app/locks.db"),
        ("redis+sentinel://h1,h2", "the master's name is missing"),
        ("redis://h?max_leas=5", "no option \"max_leas\""),
    ];
    for (url, saying) in cases {
        Store::at(url).run(&["run", "door", "--", "true"]).failed(64, saying);
    }
}

#[test]
fn a_lease_that_the_store_does_not_take_is_refused_with_what_it_takes() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let store = Store::at(format!("{}?max_lease=5", server.url()));
    let run = store.run(&["run", "--lease", "5.5", "door", "--", "true"]);
    run.failed(
        64,
        "--lease 5.5: the longest lease of this store is 5 s; raise it with ?max_lease=SECS",
    );
    store.run(&["run", "--lease", "5", "door", "--", "true"]).quiet();
    // Where max_lease= is refused, something else raises it.
    let store = Store::at(format!("{}?protocol=zmutex&unfenced=ok&timeout=5", server.url()));
    let run = store.run(&["run", "--lease", "5.5", "--pool", "jobs", "--", "true"]);
    run.failed(64, "?timeout=SECS with protocol=zmutex");
}
