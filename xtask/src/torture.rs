//! `cargo xtask torture`: builds and runs `proof/torture`, which reads the arguments itself.

use taketurns_servers::Flavor;

use crate::install::{self, Dependency};
use crate::{cargo, succeeds};

/// Builds it with all that it needs, runs it, and shows how it goes.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let [redis, valkey] = Flavor::ALL.map(Dependency::Server);
    install::missing(&[redis, valkey, Dependency::Libclang, Dependency::Postgres])?;
    let mut torture = cargo(&["run", "--quiet", "--package", "taketurns-torture", "--"]);
    match succeeds(torture.args(args))? {
        true => Ok(()),
        false => Err("==> something was found: see above".to_owned()),
    }
}
