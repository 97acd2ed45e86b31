//! The long run: every state of the larger configurations, as many random runs as asked for, and each
//! broken variant until it is found.

use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use taketurns_model::{
    check, configs,
    random::{self, BrokenRun},
    variants::Variant,
    words::sentence,
};

const HELP: &str = "\
taketurns-model [--runs N] [--seed S] [--small] [--only-seed S]

  --runs N        random runs, 10000000 unless given
  --seed S        the first of their seeds, 0 unless given
  --small         leave out the exhaustive checks that take minutes
  --only-seed S   one random run, with its history if it breaks something";

/// A broken variant must be found within this number of runs.
const VARIANT_RUNS: u64 = 2_000_000;
/// Seeds that a thread takes at a time.
const BATCH: u64 = 10_000;

struct Arguments {
    runs: u64,
    seed: u64,
    small: bool,
    only: Option<u64>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { runs: 10_000_000, seed: 0, small: false, only: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            value.parse().map_err(|_| format!("{value} is not a number"))
        };
        match word.as_str() {
            "--runs" => parsed.runs = number()?,
            "--seed" => parsed.seed = number()?,
            "--only-seed" => parsed.only = Some(number()?),
            "--small" => parsed.small = true,
            _ => return Err(HELP.to_owned()),
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = arguments.only {
        return match random::run(seed, Variant::Sound) {
            Ok(()) => {
                println!("seed {seed} breaks nothing");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                print!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    let mut sound = exhaustive(arguments.small);
    sound &= runs(arguments.seed, arguments.runs);
    sound &= variants();
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn row(name: &str, looked_at: &str, result: &str, took: Duration) {
    println!("{name:<38} {looked_at:>26}  {result:<34} {:>7.1} s", took.as_secs_f64());
}

fn exhaustive(small: bool) -> bool {
    let mut sound = true;
    let large = if small { Vec::new() } else { configs::large() };
    for config in configs::small().iter().chain(&large) {
        let begun = Instant::now();
        let outcome = check::check(config);
        let looked_at =
            format!("{}{} states", if outcome.complete { "all " } else { "" }, outcome.states);
        let result = match &outcome.found {
            Some((broken, _)) => format!("BREAKS {}", broken.name()),
            None if config.progress => "safe, makes progress".to_owned(),
            None => "safe".to_owned(),
        };
        row(config.name, &looked_at, &result, begun.elapsed());
        for action in outcome.found.iter().flat_map(|(_, history)| history) {
            println!("  {}", sentence(action));
        }
        sound &= outcome.found.is_none();
    }
    sound
}

/// Random runs on every core, with a line of progress now and then. The failure shown is that of the
/// lowest seed among those found, but need not be the lowest there is.
fn runs(seed: u64, runs: u64) -> bool {
    let begun = Instant::now();
    let (taken, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<Box<BrokenRun>>> = Mutex::new(None);
    let work = || {
        while failed.lock().expect("no panic").is_none() {
            let from = taken.fetch_add(BATCH, Ordering::Relaxed);
            if from >= runs {
                break;
            }
            let to = runs.min(from + BATCH);
            if let Some(failure) = random::search(seed + from..seed + to, Variant::Sound) {
                let mut failed = failed.lock().expect("no panic");
                if failed.as_ref().is_none_or(|other| failure.seed < other.seed) {
                    *failed = Some(failure);
                }
            }
            done.fetch_add(to - from, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut told = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                eprintln!("  {} of {runs} random runs", done.load(Ordering::Relaxed));
            }
        }
    });
    let failed = failed.into_inner().expect("no panic");
    let result = if failed.is_some() { "BREAKS" } else { "safe, makes progress" };
    let done = done.load(Ordering::Relaxed);
    row("2 and 3 clients, all faults", &format!("{done} random runs"), result, begun.elapsed());
    if let Some(failure) = &failed {
        print!("{failure}");
    }
    failed.is_none()
}

fn variants() -> bool {
    let mut all = true;
    println!("\nBroken on purpose:");
    for variant in Variant::BROKEN {
        let begun = Instant::now();
        let failure = random::search(0..VARIANT_RUNS, variant);
        let (looked_at, result) = match &failure {
            Some(failure) => (
                format!("{} random runs", failure.seed + 1),
                format!("breaks {}", failure.broken.name()),
            ),
            None => (format!("{VARIANT_RUNS} random runs"), "NOT FOUND".to_owned()),
        };
        row(&format!("{variant:?}"), &looked_at, &result, begun.elapsed());
        all &= failure.is_some();
        if let Some(config) = configs::finds(variant) {
            let begun = Instant::now();
            let outcome = check::check(&config);
            let result = outcome
                .found
                .as_ref()
                .map_or("NOT FOUND".to_owned(), |(broken, _)| format!("breaks {}", broken.name()));
            row("", &format!("{} states", outcome.states), &result, begun.elapsed());
            all &= outcome.found.is_some();
        }
    }
    all
}
