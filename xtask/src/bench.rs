//! How fast it is. What is asked for is for the program to understand: `bench`.

use taketurns_servers::Flavor;

use crate::cargo;
use crate::install::{self, Dependency};

/// Builds it with all that it needs as users would have it, runs it, and shows how it goes.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    install::missing(&[Dependency::Server(Flavor::Redis), Dependency::Libclang])?;
    if !args.iter().any(|arg| arg == "--no-peers") {
        install::if_possible(&[Dependency::Python, Dependency::Node]);
        install::if_possible(&install::PEERS);
    }
    let release = ["--release", "--package", "taketurns-bench", "--package"];
    succeeds(cargo(&["build"]).args(release).arg("taketurns-cli"))?;
    let mut bench = cargo(&["run", "--quiet", "--release", "--package", "taketurns-bench", "--"]);
    succeeds(bench.args(args))
}

fn succeeds(command: &mut std::process::Command) -> Result<(), String> {
    let status = command.status();
    let status = status.map_err(|error| format!("cargo can't be started: {error}"))?;
    if status.success() { Ok(()) } else { Err("==> it failed: see above".to_owned()) }
}
