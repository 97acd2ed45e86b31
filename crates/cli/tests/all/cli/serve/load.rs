//! Many viewers on many locks.
//!
//! `CLI_LONG=1 cargo test --release -p taketurns-cli --test all -- --nocapture load` prints how long `/healthz` takes
//! with 200 viewers on 10 000 locks, and how much memory the server uses. Without it there are fewer of both.

use std::env;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use taketurns_servers::{Flavor, Server};

use super::Serving;
use super::http::{get, try_ask};
use crate::cli::helper::{Store, until};

fn memory_kb(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn many_viewers_of_many_locks_are_served_and_health_is_answered() {
    let is_long = env::var_os("CLI_LONG").is_some();
    let (viewers, locks, pictures) = if is_long { (200, 10_000, 20) } else { (20, 500, 3) };
    let server = Server::start(Flavor::Redis).expect("a server");
    let holding = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, guards) = holding.block_on(async {
        let client = taketurns::connect(&server.url()).await.expect("a client");
        let mut guards = Vec::with_capacity(locks);
        for number in 0..locks {
            guards.push(client.mutex(format!("orders/{number}")).acquire().await.expect("a lock"));
        }
        (client, guards)
    });
    let serving = Serving::start(&Store::at(server.url()), &[]);
    let at = &serving.at;
    until("all are seen", || get(at, "/api/status").json()["totals"]["held"] == locks);
    let before_kb = memory_kb(serving.running.pid().as_raw_nonzero().get());

    let path = format!("/api/events?pictures={pictures}");
    let (longest, watched) = thread::scope(|scope| {
        let watch = || {
            try_ask(at, "GET", &path, &[], "")
                .map(|answer| answer.body.matches("event: picture").count())
        };
        let watching: Vec<_> = (0..viewers).map(|_| scope.spawn(watch)).collect();
        let mut longest = Duration::ZERO;
        while watching.iter().any(|viewer| !viewer.is_finished()) {
            let began = Instant::now();
            assert_eq!(get(at, "/healthz").status, 200);
            longest = longest.max(began.elapsed());
            thread::sleep(Duration::from_millis(10));
        }
        let watched: Vec<_> =
            watching.into_iter().map(|viewer| viewer.join().expect("no panic")).collect();
        (longest, watched)
    });
    let after_kb = memory_kb(serving.running.pid().as_raw_nonzero().get());
    println!(
        "{viewers} viewers, {locks} locks: /healthz within {} ms; memory {before_kb} kB, then {after_kb} kB",
        longest.as_millis()
    );
    for pictures_seen in watched {
        assert_eq!(pictures_seen.expect("a stream"), pictures);
    }
    holding.block_on(async {
        drop(guards);
        client.close().await;
    });
}
