//! Counts the turns of clients that poll beside clients that wait, on one server.
//!
//! ```text
//! cargo build --release -p taketurns-module
//! cargo run --release -p taketurns-module --example polling [POLL WAIT [MODULE]]
//! ```
//!
//! `POLL` clients ask every 10 ms and `WAIT` clients wait, for 20 s; the default is 3 and 3. Each client holds the lock
//! for 5 ms, releases it, and asks again at once.

use std::error::Error;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use taketurns_servers::{Connection, Flavor, Server};

const RUN: Duration = Duration::from_secs(20);
const HOLD: Duration = Duration::from_millis(5);
const POLL: Duration = Duration::from_millis(10);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let mut count = |usual: usize| args.next().map_or(Ok(usual), |word| word.parse());
    let (polling, waiting) = (count(3)?, count(3)?);
    let usual = || "target/release/libtaketurns_module.so".into();
    let module = args.next().map_or_else(usual, PathBuf::from);
    if !module.exists() {
        return Err("build it first: cargo build --release -p taketurns-module".into());
    }
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::builder(flavor).module(&module, &[]).start()?;
        let polls = (0..polling).map(|_| (server.connect(), false));
        let waits = (0..waiting).map(|_| (server.connect(), true));
        let clients: Vec<_> = polls.chain(waits).collect();
        let end = Instant::now() + RUN;
        let threads = clients.into_iter().map(|(client, waits)| {
            thread::spawn(move || -> Outcome<usize> { turns(client?, waits, end) })
        });
        let threads: Vec<_> = threads.collect();
        let turns =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a client failed")?);
        let turns = turns.collect::<Outcome<Vec<usize>>>()?;
        let (polls, waits) = turns.split_at(polling);
        let sum = |turns: &[usize]| turns.iter().sum::<usize>();
        println!(
            "{flavor}: {} turns by polling {polls:?}, {} by waiting {waits:?}",
            sum(polls),
            sum(waits)
        );
    }
    Ok(())
}

/// Takes turns until `end`, and returns how many.
fn turns(mut client: Connection, waits: bool, end: Instant) -> Outcome<usize> {
    let wait: &[&str] = if waits { &["WAIT", "10"] } else { &[] };
    let acquire = [&["FENCELOCK.ACQUIRE", "k", "30"], wait].concat();
    let mut turns = 0;
    while Instant::now() < end {
        let reply = client.command(&acquire)?;
        let Some(secret) = reply.array().and_then(|grant| grant[0].int()) else {
            thread::sleep(POLL);
            continue;
        };
        turns += 1;
        thread::sleep(HOLD);
        let released = client.command(&["FENCELOCK.RELEASE", "k", &secret.to_string()])?;
        assert!(released.is_ok(), "it was held: {released}");
    }
    Ok(turns)
}
