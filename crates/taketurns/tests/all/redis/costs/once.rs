//! What work that is done costs the server: commands, memory, and a listing of very much of it.

use std::time::Instant;

use taketurns::{Begun, Locks};
use taketurns_servers::{Flavor, Server, on_both};

use super::{block_on, calls, only_scripts_were_sent};

async fn do_work(locks: &Locks, name: &str) {
    match locks.once(name).why("nightly").begin().await.expect("the store answers") {
        Begun::Attempt(attempt) => attempt.done().await.expect("recorded"),
        Begun::DoneBefore(done) => panic!("nobody has done it: {done:?}"),
    }
}

on_both! {
    fn to_ask_for_work_that_is_done_is_one_command(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = taketurns::connect(&server.url()).await.expect("a server");
            // The first one brings the scripts to the server.
            do_work(&locks, "l").await;
            assert!(locks.once("l").undo().await.expect("an answer"));
            server.reset_stats();
            do_work(&locks, "l").await;
            assert_eq!(only_scripts_were_sent(&calls(&server)), 2, "an attempt and its end");
            for _ in 0..20 {
                server.reset_stats();
                let begun = locks.once("l").begin().await.expect("an answer");
                assert!(matches!(begun, Begun::DoneBefore(_)));
                assert_eq!(only_scripts_were_sent(&calls(&server)), 1);
                server.reset_stats();
                let begun = locks.once("l").try_begin().await.expect("an answer");
                assert!(matches!(begun, Some(Begun::DoneBefore(_))));
                assert_eq!(only_scripts_were_sent(&calls(&server)), 1);
            }
            locks.close().await;
        });
    }
}

/// How many are done and listed. More than any page of a listing has.
const MANY: u64 = 100_000;
/// More than a key of a mutex takes, since it has a second field: see `docs/benchmarks.md` for that.
const BYTES_MAX: u64 = 1_000;

#[test]
fn a_hundred_thousand_that_are_done_are_listed_and_take_little_memory() {
    let server = Server::start(Flavor::Redis).expect("a server");
    block_on(async {
        let locks = taketurns::connect(&server.url()).await.expect("a server");
        do_work(&locks, "n/0").await;
        // Each like the first: what clients do for each is tested elsewhere.
        let dump = server.cli(&["DUMP", "tt:n/0"]);
        let dump = dump.bytes().expect("bytes").to_vec();
        let used = |server: &Server| {
            server.info("memory")["used_memory"].parse::<u64>().expect("a number")
        };
        let before = used(&server);
        let mut connection = server.connect().expect("a connection");
        for first in (1..MANY).step_by(1_000) {
            let numbers = first..(first + 1_000).min(MANY);
            for number in numbers.clone() {
                let key = format!("tt:n/{number}").into_bytes();
                let words = [b"RESTORE".to_vec(), key, b"86400000".to_vec(), dump.clone()];
                connection.send(&words).expect("sent");
            }
            numbers.for_each(|_| assert!(connection.read().expect("a reply").is_ok()));
        }
        let each = (used(&server) - before) / (MANY - 1);
        let start = Instant::now();
        let views = locks.list("n/*").await.expect("the store answers");
        println!("{each} bytes for each, {MANY} listed in {:?}", start.elapsed());
        assert_eq!(views.len() as u64, MANY);
        let is_done =
            |view: &taketurns::View| view.work.as_ref().is_some_and(|work| work.done.is_some());
        assert!(views.iter().all(|(_, view)| is_done(view)));
        assert!(each < BYTES_MAX, "{each} bytes");
        locks.close().await;
    });
}
