//! `taketurns completions`: prints completions for a shell, made from the table of arguments.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::exit::ExitFailure;
use crate::output;

/// Print completions for a shell
///
/// For bash: taketurns completions bash > ~/.local/share/bash-completion/completions/taketurns
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<u8, ExitFailure> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "taketurns", &mut script);
    output::text(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}
