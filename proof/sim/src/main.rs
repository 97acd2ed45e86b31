//! `sim`: lives many lives, and says what came of them; or tells the smallest one that fails.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use taketurns_sim::{Sum, run};

const USAGE: &str = "\
usage: sim [--seeds N] [--from S] [--quiet] [--brief]

  --seeds N   how many lives, 1000 if not said
  --from S    the first seed, 0 if not said; with --seeds 1, that one again
  --quiet     no progress
  --brief     of a seed that fails one line, and not its story
";

struct Options {
    seeds: u64,
    from: u64,
    quiet: bool,
    brief: bool,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { seeds: 1_000, from: 0, quiet: false, brief: false };
        while let Some(arg) = args.next() {
            let mut number = || {
                let number = args.next().and_then(|number| number.parse().ok());
                number.ok_or_else(|| format!("{arg} needs a number\n\n{USAGE}"))
            };
            match arg.as_str() {
                "--seeds" => options.seeds = number()?,
                "--from" => options.from = number()?,
                "--quiet" => options.quiet = true,
                "--brief" => options.brief = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            eprint!("{usage}");
            return ExitCode::from(64);
        }
    };
    let Options { seeds, from, quiet, brief } = options;
    let started = Instant::now();
    let told = Mutex::new(started);
    let progress = |sum: &Sum| {
        let Ok(mut told) = told.lock() else { return };
        if !quiet && told.elapsed() > Duration::from_secs(1) {
            *told = Instant::now();
            let rate = sum.seeds as f64 / started.elapsed().as_secs_f64();
            let left = (seeds - sum.seeds) as f64 / rate;
            eprintln!(
                "{:>9} of {seeds} seeds, {} requests, {left:.0} s left",
                sum.seeds, sum.requests
            );
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match run(from..from.saturating_add(seeds), threads, progress) {
        Ok(sum) => {
            print(&sum, started.elapsed());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("seed {} fails: {}", failure.seed, failure.what);
            if !brief {
                println!("\nthe same with as little as it takes:\n{}", failure.story());
                println!("again: cargo xtask sim --seeds 1 --from {}", failure.seed);
            }
            ExitCode::FAILURE
        }
    }
}

fn print(sum: &Sum, took: Duration) {
    let Sum { seeds, acquires, grants, requests, events, hurt, refused, excused, .. } = sum;
    let minutes = took.as_secs_f64() / 60.0;
    let rows = [
        ("seeds", *seeds),
        ("acquires", *acquires),
        ("  of these granted", *grants),
        ("requests carried out by nodes", *requests),
        ("  of these a minute", (*requests as f64 / minutes) as u64),
        ("events in histories", *events),
        ("violations of G1 to G8", 0),
        ("writes that hurt what looks at no token", *hurt),
        ("writes that the fence refused", *refused),
        ("writes that hurt what is fenced", 0),
        ("overlaps that are not promised against", *excused),
    ];
    for (what, count) in rows {
        println!("{what:<42}{count:>12}");
    }
    for (title, counts) in [
        ("kept by", sum.keepers.iter().map(|(what, count)| (*what, *count)).collect::<Vec<_>>()),
        ("faults", sum.faults.iter().map(|(what, count)| (what.as_str(), *count)).collect()),
    ] {
        println!("{title}");
        for (what, count) in counts {
            println!("  {what:<40}{count:>12}");
        }
    }
    println!("in {:.1} s", took.as_secs_f64());
}
