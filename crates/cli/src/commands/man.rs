//! `taketurns man`: the manual pages, from the table of arguments.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit::{self, Failure};
use crate::output;

/// Print the manual page, or that of one command
///
/// To read it: taketurns man run | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which command, e.g. run, or pool add
    #[arg(conflicts_with = "out")]
    command: Vec<String>,

    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let mut command = Cli::command();
    if let Some(directory) = &args.out {
        return clap_mangen::generate_to(command, directory).map(|()| 0).map_err(|error| {
            let directory = directory.display();
            Failure::new(exit::OUTPUT, format_args!("{directory} can't be written to: {error}"))
        });
    }
    command.build();
    for name in &args.command {
        let Some(found) = command.find_subcommand(name) else {
            return Err(Failure::usage(format_args!("there is no command {name:?}")));
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    output::text(String::from_utf8_lossy(&page).trim_end())?;
    Ok(0)
}
