//! `cargo xtask proof`: what need not run at every change. The quorum's model, the client's threads, and many
//! more simulated lives and random lives of one lock. `cargo xtask test` leaves the first two out, and runs a little of the others.

use std::time::Instant;

use crate::{cargo, succeeds};

const USAGE: &str = "usage: cargo xtask proof";

/// What is run: its name, cargo's arguments, and how much of it.
struct ProofPart {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

/// Quick to build, and as quick as it need be.
const PROFILE: [&str; 3] = ["--quiet", "--profile", "sim"];

const PARTS: [ProofPart; 7] = [
    ProofPart {
        name: "lints of the model and the threads",
        args: &[
            "clippy",
            "--package",
            "taketurns-model",
            "--package",
            "taketurns-threads",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ],
        env: &[],
    },
    ProofPart {
        name: "docs of the model",
        args: &["doc", "--package", "taketurns-model", "--no-deps", "--document-private-items"],
        env: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
    ProofPart {
        name: "the model's own tests",
        args: &["test", "--package", "taketurns-model"],
        env: &[],
    },
    ProofPart {
        name: "the model: every state, random runs, every broken variant",
        args: &["run", "--package", "taketurns-model", "--", "--small", "--runs", "2000000"],
        env: &[],
    },
    ProofPart {
        name: "threads: 20000 orders of each test",
        args: &["test", "--package", "taketurns-threads"],
        env: &[("THREADS_SCHEDULES", "20000")],
    },
    ProofPart {
        name: "simulation: 20000 lives",
        args: &["run", "--package", "taketurns-sim", "--", "--seeds", "20000"],
        env: &[],
    },
    ProofPart {
        name: "core: 20000 lives of each kind of lock, 100000 of a quorum",
        args: &[
            "test",
            "--package",
            "taketurns-core",
            "--test",
            "all",
            "--",
            "properties",
            "quorum",
        ],
        env: &[("PROPTEST_CASES", "20000"), ("QUORUM_SEEDS", "100000")],
    },
];

/// Runs all parts. What one finds does not keep the others from looking.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    if args.next().is_some() {
        return Err(USAGE.to_owned());
    }
    let mut found = Vec::new();
    for ProofPart { name, args, env } in &PARTS {
        let started = Instant::now();
        let mut command = cargo(&args[..1]);
        command.args(PROFILE).args(&args[1..]).envs(env.iter().copied());
        let succeeded = succeeds(&mut command)?;
        let said = if succeeded { "as promised" } else { "FAILED" };
        eprintln!("==> {name}: {said}, {} s", started.elapsed().as_secs());
        if !succeeded {
            found.push(*name);
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("==> something was found: see above, at {}", found.join(" and "))),
    }
}
