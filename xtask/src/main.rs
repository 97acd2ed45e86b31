//! The project's own commands.
//!
//! `cargo xtask test` is what a newcomer runs and what CI runs: it checks everything and changes
//! nothing in the tree. `cargo xtask fix` changes what a machine can mend, `cargo xtask servers`
//! starts servers to try things on, `cargo xtask fuzz` tries longer to break whatever reads, `cargo
//! xtask sim` lives more lives than the tests do, `cargo xtask torture` does the like to real servers, and
//! `cargo xtask bench` says how fast it is.

mod bench;
mod fuzz;
mod install;
mod planted;
mod proof;
mod servers;
mod sim;
mod torture;

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test       format, lints, docs, every test and every example; changes nothing in the tree, but
             on Debian installs what is missing of redis-server, valkey-server, libclang-dev,
             python3-pip, nodejs, npm, chromium, tmux, postgresql and curl, and puts six libraries
             into the target directory
  fix        formats, and applies what clippy can mend by itself
  servers [--valkey] [--module]
             starts a server, a Sentinel set, a Cluster and the nodes of a quorum, and says where
             they are; with --module all of them have the module, which is built first
  fuzz [--minutes N] [--seed S]
             gives all that reads whatever may break it, for 10 minutes or N: half of them are for the
             parsers, half for the module on Redis and on Valkey; the tests do so for some seconds
  proof      the quorum's model in all its small states, and many more orders of threads, simulated lives and
             random lives of one lock than the tests try: some minutes
  bench [--quick] [--json FILE] [--only a,c,…] [--no-peers] [--rounds N] [--docs | --no-docs]
             measures ours, the floor and other locks on the same servers, and writes docs/benchmarks.md
             if nothing is left out; --quick ends within 3 minutes
  torture [--engine ENGINE] [--minutes N | --seconds N] [--seed S] [--out FOLDER]
             client processes take turns for a minute or N while servers and clients are killed,
             stopped, cut off and made to forget; says what happened, and whether it can be. ENGINE is
             file, redis, valkey, sentinel, cluster, module, quorum or all, which is the default
  sim [--seeds N] [--from S]
             lives so many lives of clients and stores on machines made up from seeds, 10000 if not
             said, and tells the smallest that breaks a promise
  sim --planted [--only NAME] [--seeds N] [--from S]
             breaks the code on purpose in each way that sim/planted has, and says which check finds it
             after how many seeds
";

/// One thing to run: what it is called, and cargo's arguments.
struct Task {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const fn task(name: &'static str, args: &'static [&'static str]) -> Task {
    Task { name, args, env: &[] }
}

const TEST: &[Task] = &[
    task("format", &["fmt", "--all", "--check"]),
    task(
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
    ),
    task(
        "without the default features",
        &["check", "--package", "taketurns", "--no-default-features", "--quiet"],
    ),
    Task {
        name: "docs",
        args: &["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"],
        env: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    task("tests", &["test", "--workspace", "--all-features"]),
];

const FIX: &[Task] = &[
    task(
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--fix",
            "--allow-dirty",
            "--allow-staged",
        ],
    ),
    task("format", &["fmt", "--all"]),
];

fn main() -> ExitCode {
    let started = Instant::now();
    let command = std::env::args().nth(1).unwrap_or_default();
    let done = match command.as_str() {
        "test" => need_tools()
            .and_then(|()| install::missing(&install::ALL))
            .and_then(|()| install::libraries::install())
            .and_then(|()| run_all(TEST))
            .and_then(|()| examples()),
        "fix" => need_tools()
            .and_then(|()| install::missing(&[install::Need::Libclang]))
            .and_then(|()| run_all(FIX)),
        "servers" => servers::run(std::env::args().skip(2)),
        "fuzz" => fuzz::run(std::env::args().skip(2)),
        "bench" => bench::run(std::env::args().skip(2)),
        "torture" => torture::run(std::env::args().skip(2)),
        "sim" => sim::run(std::env::args().skip(2)),
        "proof" => proof::run(std::env::args().skip(2)),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => {
            eprintln!("==> cargo xtask {command}: done in {} s", started.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{}", why.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// What the tasks need beside cargo itself, and how to get it.
const NEEDED: &[(&str, &[&str], &str)] = &[
    ("rustfmt", &["cargo", "fmt", "--version"], "rustup component add rustfmt"),
    ("clippy", &["cargo", "clippy", "--version"], "rustup component add clippy"),
    ("a C compiler", &["cc", "--version"], "apt-get install gcc, or your system's equivalent"),
];

fn need_tools() -> Result<(), String> {
    for (name, command, install) in NEEDED {
        let there = Command::new(command[0])
            .args(&command[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !there {
            return Err(format!("{name} is missing: {install}"));
        }
    }
    Ok(())
}

fn run_all(tasks: &[Task]) -> Result<(), String> {
    for (index, task) in tasks.iter().enumerate() {
        eprintln!("==> {} ({} of {})", task.name, index + 1, tasks.len());
        let mut command = cargo(task.args);
        command.envs(task.env.iter().copied());
        if std::env::var_os(THREADS).is_none() {
            command.env(THREADS, test_threads().to_string());
        }
        let status = command.status();
        let status = status.map_err(|error| format!("cargo can't be started: {error}"))?;
        if !status.success() {
            return Err(format!(
                "==> {} failed; to run it alone: cargo {}",
                task.name,
                task.args.join(" ")
            ));
        }
    }
    Ok(())
}

/// How many tests run at a time, as the tests themselves read it.
const THREADS: &str = "RUST_TEST_THREADS";

/// More than there are cores: most tests wait most of the time, for servers and for leases. With three at a
/// time on two cores, two thirds of the processors' time were left.
fn test_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    2 * cores + 1
}

/// Every example of the library, run as a reader would.
fn examples() -> Result<(), String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/taketurns/examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(|error| format!("{folder}: {error}"))?
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    for name in &names {
        eprintln!("==> example {name}");
        let status =
            cargo(&["run", "--quiet", "--package", "taketurns", "--example", name]).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("==> example {name} failed"));
        }
    }
    eprintln!("==> {} examples ran", names.len());
    Ok(())
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(args);
    command
}
