//! Random commands from a seed, sent to a server with a replica. Several connections wait,
//! disconnect, are killed, run scripts and transactions, and run all kinds of commands on the keys.
//!
//! Each reply must be a documented one, and no client may hold what another surely holds. Whenever
//! it is quiet, the replica must agree. At the end all memory must be free again. A failure names
//! the seed and the last commands. The same seed draws the same commands as far as a real server
//! allows: later commands depend on its replies and their timing.
//!
//! ```text
//!   desk      what commands are made of ─► grammar: the module's, keyspace: the server's
//!   fleet     the connections ─► shape: is this a valid reply? model: may the lock be so?
//!   quiet     what must hold when all connections are idle
//!   found     bugs that were found in this way, each alone
//! ```
//!
//! In a calm round the model knows what to expect. In a wild round keys expire or are evicted, and
//! databases change places.

mod desk;
mod fleet;
mod found;
mod grammar;
mod keyspace;
mod model;
mod quiet;
mod shape;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use taketurns_servers::{Flavor, Server, ServerReply, eventually, fuzz, module_path, on_both};

use crate::fuzz::desk::Desk;
use crate::fuzz::fleet::Fleet;
use crate::fuzz::grammar::{BINDINGS, binding};
use crate::fuzz::keyspace::SETTINGS;
use crate::fuzz::quiet::Observer;

/// How many rounds to run unless `TAKETURNS_FUZZ_SECONDS` sets a time.
const ROUNDS: u64 = 6;
/// How many steps a round has: about a second.
const STEPS: usize = 4_000;
/// The number of warm-up rounds and their steps: they make the server grow to its working size.
const GROWING: (u64, usize) = (2, 8_000);
/// How many steps of a wild round run without free memory.
const FULL: usize = 200;
/// Room for what the server keeps, such as tables that have grown.
const MEMORY_SLACK: u64 = 64 * 1024;
/// How many samples of the memory to take first, and the time between them.
const SAMPLES: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Log lines of a server that has crashed or nearly so, or of a replica that could not follow.
const CRASHES: [&str; 5] =
    ["crash", "Guru", "bug in the module", "ASSERTION FAILED", "== CRITICAL =="];

on_both! {
    fn no_command_and_no_order_of_commands_breaks_the_server(flavor: Flavor) {
        let seed = fuzz::seed();
        println!("{flavor}: TAKETURNS_SEED={seed}");
        if let Err(why) = play_all(flavor, seed) {
            panic!("{flavor}, TAKETURNS_SEED={seed}: {why}");
        }
    }
}

/// The totals of all rounds.
#[derive(Default)]
struct Totals {
    sent: u64,
    checks: u64,
    codes: BTreeMap<String, u64>,
}

fn play_all(flavor: Flavor, seed: u64) -> Result<(), String> {
    let seconds = fuzz::seconds().unwrap_or_default();
    let path = module_path().expect("the module is built");
    let settings = ["--repl-backlog-size", "16kb", "--latency-tracking", "no"];
    let builder = || Server::builder(flavor).module(&path, &[]).args(settings);
    let server = builder().start().expect("a server");
    let replica = builder().replica_of(server.port()).start().expect("a replica");
    let follows = || server.info("replication").get("slave0")?.contains("online").then_some(());
    eventually("the replica follows", follows).expect("a replica");
    let pid = server.pid();
    let run = server.info("server").remove("run_id").unwrap_or_default();
    let bind = |which| {
        let id = server.connect().and_then(|mut link| link.command(&binding(&run, which)));
        id.ok().and_then(|id| id.bytes().map(<[u8]>::to_vec)).expect("a binding")
    };
    let bindings: Vec<Vec<u8>> = (0..BINDINGS).map(bind).collect();
    let looks =
        Observer { server: &server, replica: &replica, bindings: [&bindings[0], &bindings[1]] };
    let (started, mut totals, mut memory) = (Instant::now(), Totals::default(), None);
    for round in 0.. {
        let least = if seconds.is_zero() { ROUNDS } else { 3 };
        if round >= least && started.elapsed() >= seconds {
            break;
        }
        let desk = Desk::new(seed ^ round, run.clone(), bindings.clone(), round % 2 == 1);
        let steps = if round < GROWING.0 { GROWING.1 } else { STEPS };
        play(&looks, desk, steps, &mut totals).map_err(|why| format!("round {round}: {why}"))?;
        let log = server.log() + &replica.log();
        let crash = log.lines().find(|line| CRASHES.iter().any(|word| line.contains(word)));
        if server.pid() != pid || !server.is_running() || crash.is_some() {
            return Err(format!("round {round}: it crashed: {crash:?}"));
        }
        let used = settled_memory(&looks, memory)?;
        if round == 1 {
            memory = Some(used);
        }
        let Totals { sent, checks, codes } = &totals;
        println!(
            "{flavor} {:>4} s: round {round}, {sent} commands, {checks} grants checked, {used} \
             bytes at the end ({memory:?} at first), {codes:?}",
            started.elapsed().as_secs(),
        );
    }
    // Ensures that the test covered something.
    for code in ["array", "nil", "ERR", "WRONGTYPE", "KIND", "TRYAGAIN", "NOPERM", "OOM", "STALE"] {
        if !totals.codes.contains_key(code) {
            return Err(format!("{code} never came: {:?}", totals.codes));
        }
    }
    Ok(())
}

/// Plays one round: from an empty server to an empty server.
fn play(looks: &Observer<'_>, desk: Desk, steps: usize, totals: &mut Totals) -> Result<(), String> {
    let mut fleet = Fleet::new(looks.server, looks.replica, desk);
    if fleet.desk.model.is_wild {
        // The server is out of memory at first.
        looks.server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        (0..FULL).try_for_each(|_| fleet.step())?;
        looks.server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    }
    (0..steps).try_for_each(|_| fleet.step())?;
    for (name, value) in SETTINGS {
        let set = looks.server.cli(&["CONFIG", "SET", name, value]);
        if !set.is_ok() {
            return Err(format!("CONFIG SET {name} {value}: {set}"));
        }
    }
    looks.nobody_is_stuck()?;
    looks.replica_agrees()?;
    totals.sent += fleet.sent;
    totals.checks += fleet.desk.model.checks;
    for (code, count) in &fleet.codes {
        *totals.codes.entry(code.clone()).or_insert(0) += count;
    }
    let flush = |how: &str| {
        assert_eq!(looks.server.cli(&["FLUSHALL", how]), ServerReply::Simple("OK".into()))
    };
    if fleet.desk.rng.percent(50) {
        // Every waiter is told.
        flush("SYNC");
        fleet.settle()?;
    }
    let bound = fleet.bound_tokens();
    drop(fleet);
    looks.nobody_is_there()?;
    let let_go = || (!looks.held()?.iter().any(|token| bound.contains(token))).then_some(());
    eventually("what was bound is let go of", let_go).map_err(|error| error.to_string())?;
    looks.replica_agrees()?;
    flush("ASYNC");
    looks.nobody_is_there()
}

/// Returns the memory in use, which must fall back to its earlier value.
fn settled_memory(looks: &Observer<'_>, before: Option<u64>) -> Result<u64, String> {
    let Some(before) = before else {
        // The server frees its caches for blocked clients gradually.
        let samples = (0..SAMPLES).filter_map(|_| {
            sleep(PAUSE);
            looks.used_memory()
        });
        return samples.min().ok_or("the server does not say what memory it uses".to_owned());
    };
    let mut last = 0;
    let back = eventually("the memory is given back", || {
        last = looks.used_memory()?;
        (last <= before + MEMORY_SLACK).then_some(last)
    });
    back.map_err(|error| format!("{error}: {last} bytes, {before} before"))
}
