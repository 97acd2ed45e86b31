//! `cargo xtask bench`: builds and runs the benchmark in `bench`, which reads the arguments itself.

use taketurns_servers::Flavor;

use crate::install::{self, Dependency};
use crate::{cargo, succeeds};

/// Builds it with all that it needs as users would have it, runs it, and shows how it goes.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    install::missing(&[Dependency::Server(Flavor::Redis), Dependency::Libclang])?;
    install::if_possible(&[Dependency::Server(Flavor::Valkey)]);
    if !args.iter().any(|arg| arg == "--no-peers") {
        install::if_possible(&[Dependency::Python, Dependency::Node]);
        install::if_possible(&install::PEERS);
    }
    let mut build = cargo(&["build", "--release"]);
    for package in ["taketurns-bench", "taketurns-cli", "taketurns-python", "taketurns-node"] {
        build.args(["--package", package]);
    }
    let built = succeeds(&mut build)?;
    let mut bench = cargo(&["run", "--quiet", "--release", "--package", "taketurns-bench", "--"]);
    match built && succeeds(bench.args(args))? {
        true => Ok(()),
        false => Err("==> it failed: see above".to_owned()),
    }
}
