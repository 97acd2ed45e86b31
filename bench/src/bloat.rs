//! What a lock in constant use does to the tables of PostgreSQL: `taketurns-bench bloat MINUTES`.
//!
//! One lock is acquired and released a hundred times a second, which is 200 steps, on two servers at once. On the second
//! one a snapshot stays open elsewhere, so that no dead row can be removed. A line each minute says how large the
//! tables are and how long a pair took.

use std::thread;
use std::time::{Duration, Instant};

use taketurns::blocking::Wait;
use taketurns_servers::others::Postgres;

use crate::setup::{BenchError, said};

/// Acquire and release.
const PAIRS_PER_S: u32 = 100;

/// From one line to the next.
const REPORT: Duration = Duration::from_secs(60);

/// Both servers, for this long.
pub(crate) fn run(minutes: &str) -> Result<(), BenchError> {
    let time = Duration::from_secs_f64(60.0 * minutes.parse::<f64>().map_err(said)?);
    println!(
        "snapshot  minute  lock table, kB  its dead rows  fence table, kB  pair p50, µs  p99, µs"
    );
    thread::scope(|scope| {
        let both = [false, true].map(|snapshot| scope.spawn(move || steps(time, snapshot)));
        both.into_iter().try_for_each(|one| one.join().map_err(|_| "a thread panicked")?)
    })
}

fn steps(time: Duration, snapshot: bool) -> Result<(), BenchError> {
    let server = Postgres::start().map_err(said)?;
    thread::scope(|scope| {
        if snapshot {
            // A statement has one for as long as it runs.
            let sleep = format!("SELECT pg_sleep({})", time.as_secs_f64() + 1.0);
            let server = &server;
            scope.spawn(move || server.sql("postgres", &sleep));
        }
        pairs(&server, time, snapshot)
    })
}

fn pairs(server: &Postgres, time: Duration, snapshot: bool) -> Result<(), BenchError> {
    let locks = taketurns::connect(&server.url()).wait().map_err(said)?;
    let mutex = locks.mutex("busy");
    let (begun, mut due, mut minute) = (Instant::now(), Instant::now(), 0);
    let mut took_us = Vec::new();
    while begun.elapsed() < time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += Duration::from_secs(1) / PAIRS_PER_S;
        let pair = Instant::now();
        let guard = mutex.acquire().wait().map_err(said)?;
        guard.release().wait().map_err(said)?;
        took_us.push(pair.elapsed().as_micros());
        if begun.elapsed() >= REPORT * (minute + 1) {
            minute += 1;
            report(server, snapshot, minute, &mut took_us)?;
        }
    }
    locks.close().wait();
    Ok(())
}

fn report(
    server: &Postgres,
    snapshot: bool,
    minute: u32,
    took_us: &mut Vec<u128>,
) -> Result<(), BenchError> {
    let sizes = "SELECT pg_table_size('taketurns.lock') / 1024, n_dead_tup, pg_table_size('taketurns.fence') / 1024
                 FROM pg_stat_user_tables WHERE relid = 'taketurns.lock'::regclass";
    let sizes = server.sql("postgres", sizes).map_err(said)?;
    let mut sizes = sizes.split('|');
    let mut size = || sizes.next().unwrap_or("?").to_owned();
    let (lock, dead, fence) = (size(), size(), size());
    took_us.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| took_us[(took_us.len() - 1) * percent / 100]);
    let snapshot = if snapshot { "open" } else { "none" };
    println!("{snapshot:8}  {minute:6}  {lock:>14}  {dead:>13}  {fence:>15}  {p50:>12}  {p99:>7}");
    took_us.clear();
    Ok(())
}
