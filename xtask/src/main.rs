//! The project's own commands.
//!
//! `cargo xtask test` is what a newcomer runs and what CI runs: it checks everything and changes
//! nothing in the tree. Each other command has a file here: `fix` mends what a machine can mend,
//! `servers` starts servers to try things on, `fuzz` fuzzes every parser for longer, `sim` runs more seeds of the
//! simulation, `torture` does the like to real servers, `proof` runs all that the tests leave out, `names` lists
//! type names that stand for several things, `docs` makes the site, `dist` makes what is released, and `bench` measures how fast it is.

mod bench;
mod dist;
mod docs;
mod fuzz;
mod install;
mod names;
mod planted;
mod proof;
mod servers;
mod sim;
mod test;
mod torture;

use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--quick] [--no-install]
             format, names, lints, docs, every test and every example; changes nothing in the tree. On Debian it
             installs what is missing of redis-server, valkey-server, libclang-dev, python3-pip, nodejs,
             npm, chromium, tmux, postgresql, pgbouncer and curl, and puts libraries of Python and Node into the
             target directory, each with a line before it does; with --no-install it says what is
             missing. --quick runs what needs none of these, and installs nothing
  fix        formats, and applies what clippy can mend by itself
  servers [--valkey] [--module]
             starts a server, a Sentinel set, a Cluster and the nodes of a quorum, and says where
             they are; with --module all of them have the module, which is built first
  fuzz [--minutes N] [--seed S]
             fuzzes every parser for 10 minutes or N, half of them for the module on Redis and on Valkey;
             the tests do so for some seconds
  docs [--no-install]
             makes the site in target/docs/site: the manual with mdBook, and the API reference; checks that every
             link leads somewhere. Installs mdBook into target/tools if it is missing; with --no-install it says so
  dist [--check]
             packages the crates, builds the program and the module from the packages, and makes a tarball, two
             .deb packages, a wheel for Python, a tarball for npm and their checksums in target/dist; then installs
             them into a scratch directory and tries them. With --check it only tries what is there
  names      lists the type names that stand for several types, and fails if there are any
  proof      the quorum's model in all its small states, and many more orders of threads, simulated lives and
             random lives of one lock than the tests try: some minutes
  bench [--quick] [--json FILE] [--only a,c,…] [--no-peers] [--rounds N] [--docs FOLDER | --no-docs]
             measures ours, the floor and other locks on the same servers, and writes docs/benchmarks.md
             if nothing is left out; --quick ends within 3 minutes
  torture [--engine ENGINE] [--minutes N | --seconds N] [--seed S] [--out FOLDER]
             client processes take turns for a minute or N while servers and clients are killed,
             stopped, cut off and made to forget; says what happened, and whether it can be. ENGINE is
             file, redis, valkey, sentinel, cluster, module, quorum, postgres, postgres-pair or all, which is
             the default
  sim [--seeds N] [--from S]
             simulates the life of clients and stores for each of N seeds, 10000 by default, and shows the
             smallest that breaks a promise
  sim --planted [--only NAME] [--seeds N] [--from S]
             breaks the code on purpose in each way that proof/planted has, and says which check finds it
             after how many seeds
";

/// A cargo command to run: what it is called, and its arguments.
struct CargoTask {
    name: &'static str,
    args: &'static [&'static str],
}

const fn task(name: &'static str, args: &'static [&'static str]) -> CargoTask {
    CargoTask { name, args }
}

const FIX: &[CargoTask] = &[
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
        "test" => test::run(std::env::args().skip(2)),
        "fix" => test::need_tools()
            .and_then(|()| install::missing(&[install::Dependency::Libclang]))
            .and_then(|()| run_all(FIX)),
        "servers" => servers::run(std::env::args().skip(2)),
        "fuzz" => fuzz::run(std::env::args().skip(2)),
        "docs" => docs::run(std::env::args().skip(2)),
        "dist" => dist::run(std::env::args().skip(2)),
        "bench" => bench::run(std::env::args().skip(2)),
        "torture" => torture::run(std::env::args().skip(2)),
        "sim" => sim::run(std::env::args().skip(2)),
        "names" => names::run(std::env::args().skip(2)),
        "proof" => proof::run(std::env::args().skip(2)),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => {
            // The tests close with a line of their own.
            if command != "test" {
                eprintln!("==> cargo xtask {command}: done in {} s", started.elapsed().as_secs());
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{}", why.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn run_all(tasks: &[CargoTask]) -> Result<(), String> {
    for (index, task) in tasks.iter().enumerate() {
        eprintln!("==> {} ({} of {})", task.name, index + 1, tasks.len());
        if !succeeds(&mut cargo(task.args))? {
            return Err(format!(
                "==> {} failed; to run it alone: cargo {}",
                task.name,
                task.args.join(" ")
            ));
        }
    }
    Ok(())
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(args);
    command
}

/// Runs cargo, which shows how it goes. Did it succeed?
fn succeeds(cargo: &mut Command) -> Result<bool, String> {
    cargo.status().map(|status| status.success()).map_err(not_started)
}

fn not_started(error: std::io::Error) -> String {
    format!("==> cargo can't be started: {error}")
}
