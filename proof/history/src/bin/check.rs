//! Reads a history, and says what is in it and what can't be.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use taketurns_history::summary::Summary;
use taketurns_history::timeline::{self, Zoom};
use taketurns_history::{HistoryEvent, Violation, read_all};

const USAGE: &str = "\
usage: check FILE… [--json] [--quiet] [--svg OUT [--from SECONDS] [--to SECONDS]]

Reads a history from one or more files, such as one per process, and checks G1 to G8.

  --json     prints the summary as JSON
  --quiet    prints violations only
  --svg OUT  draws who held what and when, and what went wrong, as a picture
  --from, --to
             draws only this part of it, in seconds after its beginning

exit code: 0 if all is as promised, 1 if it is not, 2 if the history can't be read
";

#[derive(Default)]
struct Args {
    files: Vec<PathBuf>,
    json: bool,
    quiet: bool,
    svg: Option<PathBuf>,
    zoom: Zoom,
}

fn main() -> ExitCode {
    if env::args().any(|arg| arg == "--help" || arg == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse(env::args().skip(1)).and_then(|args| run(&args)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("{}", why.trim_end());
            ExitCode::from(2)
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed = Args::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"));
        match arg.as_str() {
            "--json" => parsed.json = true,
            "--quiet" => parsed.quiet = true,
            "--svg" => parsed.svg = Some(value()?.into()),
            "--from" => parsed.zoom.from_us = Some(micros(&value()?)?),
            "--to" => parsed.zoom.to_us = Some(micros(&value()?)?),
            other if other.starts_with("--") => return Err(format!("what is {other}?\n\n{USAGE}")),
            _ => parsed.files.push(arg.into()),
        }
    }
    match parsed {
        Args { files, .. } if files.is_empty() => Err(USAGE.to_owned()),
        Args { svg: None, zoom, .. } if zoom != Zoom::default() => {
            Err(format!("--from and --to are for --svg\n\n{USAGE}"))
        }
        parsed => Ok(parsed),
    }
}

fn micros(seconds: &str) -> Result<u64, String> {
    let valid = |seconds: &f64| (0.0..1e9).contains(seconds);
    let seconds = seconds.parse().ok().filter(valid);
    let seconds: f64 = seconds.ok_or_else(|| format!("no number of seconds\n\n{USAGE}"))?;
    Ok((seconds * 1e6) as u64)
}

/// Says how much was found that has no excuse.
fn run(args: &Args) -> Result<u64, String> {
    let events = read_all(&args.files).map_err(|error| error.to_string())?;
    let summary = Summary::of(&events);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?);
    } else {
        print_for_people(&summary, args.quiet);
    }
    if let Some(out) = &args.svg {
        draw(&events, &summary.violations, args.zoom, out)?;
    }
    Ok(summary.unexcused())
}

fn print_for_people(summary: &Summary, quiet: bool) {
    if !quiet {
        print!("{summary}");
    }
    let (excused, found): (Vec<_>, Vec<_>) =
        summary.violations.iter().partition(|violation| violation.excused_by.is_some());
    print_all("violations", &found, quiet);
    if !quiet {
        print_all("excused", &excused, quiet);
    }
}

fn print_all(heading: &str, violations: &[&Violation], quiet: bool) {
    if !violations.is_empty() && !quiet {
        println!("\n  {heading}");
    }
    for violation in violations {
        println!("  {violation}");
    }
}

fn draw(
    events: &[HistoryEvent],
    violations: &[Violation],
    zoom: Zoom,
    out: &PathBuf,
) -> Result<(), String> {
    fs::write(out, timeline::svg(events, violations, zoom))
        .map_err(|error| format!("{}: {error}", out.display()))
}
