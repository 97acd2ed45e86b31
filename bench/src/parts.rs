//! Helper processes of workloads: this program, started again by itself.
//!
//! Each says on its output when it is ready, and ends when its input does or when it is killed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use taketurns::blocking::Wait;
use taketurns_servers::Connection;

use crate::bloat;
use crate::setup::{BenchError, open, said};
use crate::turn_processes;
use crate::turns::{LoggedTurn, now_us};
use crate::workloads::hold_all;

/// Runs the part of that name, if it is one.
pub(crate) fn run(part: &str, args: &[String]) -> Option<Result<(), BenchError>> {
    let arg = |place: usize| args.get(place).map_or("", String::as_str);
    Some(match part {
        // Not of a workload: it takes half an hour.
        "bloat" => bloat::run(arg(0)),
        "hold-many" => hold_many(arg(0)),
        "hold-one" => hold_one(arg(0), arg(1), arg(2)),
        "hold-bound" => hold_bound(arg(0), arg(1), arg(2)),
        "turns" => turn_processes::turns(arg(0), arg(1), arg(2)),
        "hop" => turn_processes::hop(arg(0), arg(1), arg(2), arg(3)),
        "turns-of-file" => turns_of_file(arg(0), arg(1), arg(2)),
        "turns-of-flock" => turns_of_flock(arg(0), arg(1), arg(2)),
        _ => return None,
    })
}

/// Holds 10 000 locks.
fn hold_many(url: &str) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Runtime::new().map_err(said)?;
    let _guards = runtime.block_on(async {
        let locks = open(url).await?;
        hold_all(locks).await
    })?;
    ready_until_the_end("held")
}

/// Holds one lock, with a lease of `lease_ms`.
fn hold_one(url: &str, lock: &str, lease_ms: &str) -> Result<(), BenchError> {
    let lease = Duration::from_millis(lease_ms.parse().map_err(said)?);
    let locks = taketurns::connect(url).wait().map_err(said)?;
    let _guard = locks.mutex(lock).acquire().lease(lease).wait().map_err(said)?;
    ready_until_the_end("held")
}

/// Holds one lock that is bound to a raw connection.
fn hold_bound(port: &str, key: &str, lease_ms: &str) -> Result<(), BenchError> {
    let mut connection = Connection::open(port.parse().map_err(said)?).map_err(said)?;
    let acquire = ["FENCELOCK.ACQUIRE", key, lease_ms, "MS", "BOUND"];
    let reply = connection.command(&acquire).map_err(said)?;
    if reply.array().is_none() {
        return Err(format!("not granted: {reply:?}"));
    }
    ready_until_the_end("held")
}

/// How long each holds, and how long it stays away after it: long enough for the other to have it.
const HOLD: Duration = Duration::from_millis(1);

/// Takes turns on a lock of the file engine, and prints them.
fn turns_of_file(path: &str, client: &str, seconds: &str) -> Result<(), BenchError> {
    let locks = taketurns::connect(&format!("file:{path}")).wait().map_err(said)?;
    let mutex = locks.mutex("turns");
    take_turns(
        client,
        seconds,
        || mutex.acquire().wait().map_err(said),
        |guard| guard.release().wait().map_err(said),
    )
}

/// Takes turns by flock(2), and prints them.
fn turns_of_flock(path: &str, client: &str, seconds: &str) -> Result<(), BenchError> {
    let file = File::options().create(true).append(true).open(Path::new(path)).map_err(said)?;
    let change = |operation| flock(&file, operation).map_err(said);
    let exclusive = || change(FlockOperation::LockExclusive);
    take_turns(client, seconds, exclusive, |()| change(FlockOperation::Unlock))
}

fn take_turns<G>(
    client: &str,
    seconds: &str,
    acquire: impl Fn() -> Result<G, BenchError>,
    release: impl Fn(G) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let client = client.parse().map_err(said)?;
    let time = Duration::from_secs_f64(seconds.parse().map_err(said)?);
    let begun = Instant::now();
    let mut turns = Vec::new();
    while begun.elapsed() < time {
        let asked_us = now_us();
        let guard = acquire()?;
        let got_us = now_us();
        std::thread::sleep(HOLD);
        let released_us = now_us();
        release(guard)?;
        turns.push(LoggedTurn { client, asked_us, got_us, released_us });
        // flock(2) would give it to the first process that asks, which is the one that just had it.
        std::thread::sleep(HOLD / 2);
    }
    let lines: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    std::io::stdout().write_all(lines.as_bytes()).map_err(said)
}

fn ready_until_the_end(word: &str) -> Result<(), BenchError> {
    println!("{word}");
    std::io::stdout().flush().map_err(said)?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).map_err(said)?;
    Ok(())
}
