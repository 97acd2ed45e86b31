//! The languages that have an agent. A new language is one more row.

use std::process::Command;

use taketurns_servers::{SetupError, packages};

/// A language, and how its agent is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentLanguage {
    pub(crate) name: &'static str,
    pub(crate) command: fn() -> Result<Command, SetupError>,
}

/// All languages. The scenarios hold for any number of them.
pub(crate) const LANGUAGES: [AgentLanguage; 3] = [
    AgentLanguage { name: "rust", command: rust },
    AgentLanguage { name: "python", command: python },
    AgentLanguage { name: "node", command: node },
];

fn rust() -> Result<Command, SetupError> {
    Ok(Command::new(env!("CARGO_BIN_EXE_taketurns-agent")))
}

fn python() -> Result<Command, SetupError> {
    let mut command = packages::python()?;
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/agents/agent.py"));
    Ok(command)
}

fn node() -> Result<Command, SetupError> {
    let mut command = packages::node::node()?;
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/agents/agent.mjs"));
    Ok(command)
}
