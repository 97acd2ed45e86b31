//! `taketurns man`: prints the manual pages, made from the table of arguments, the exit codes and the
//! environment variables.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Cli;
use crate::exit::{self, ExitFailure};
use crate::output;

/// Each variable, the commands that use it (all commands if the list is empty), and its meaning.
const ENVIRONMENT: [(&str, &[&str], &str); 7] = [
    ("TAKETURNS_STORE", &[], "The store that keeps the locks; --store overrides it."),
    (
        "TAKETURNS_REDIS_PASSWORD, TAKETURNS_REDIS_USER",
        &[],
        "Password and user for a store whose URL has no password. Every user of the machine can read \
         a URL on the command line, so the password is safer here. ?password_file=PATH and \
         ?password_env=NAME in the URL name other places.",
    ),
    (
        "TAKETURNS_HANDLE",
        &["acquire", "renew", "release"],
        "The handle that acquire printed, for renew and release. They read stdin if it is not set. \
         run, once and elect remove it from the environment of their command.",
    ),
    (
        "TAKETURNS_LOCK",
        &["run", "once", "elect", "acquire"],
        "The lock's name, set by run, once and elect for their command. A run, once, elect or acquire \
         that finds its own lock here would wait forever, so it fails unless -n or -w is given.",
    ),
    (
        "TAKETURNS_TOKEN",
        &["run", "once", "elect"],
        "The fencing token, set by run, once and elect for their command.",
    ),
    ("TAKETURNS_MEMBER", &["run"], "The pool member, set by run --pool for its command."),
    (
        "XDG_STATE_HOME, HOME",
        &[],
        "The default store is $XDG_STATE_HOME/taketurns/locks.db, or \
         $HOME/.local/state/taketurns/locks.db if XDG_STATE_HOME is not an absolute path.",
    ),
];

/// Print the manual page of the program or of one command
///
/// To read a page: taketurns man run | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command, e.g. run, or pool add
    #[arg(conflicts_with = "out")]
    command: Vec<String>,

    /// Write all pages into this directory instead of printing one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<u8, ExitFailure> {
    // `help` has no page, so no page may refer to one.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    if let Some(directory) = &args.out {
        return write_all(&command, directory).map(|()| 0).map_err(|error| {
            let directory = directory.display();
            ExitFailure::new(exit::OUTPUT, format_args!("can't write to {directory}: {error}"))
        });
    }
    for name in &args.command {
        let Some(found) = command.find_subcommand(name) else {
            return Err(ExitFailure::usage(format_args!(
                "no such command: {name:?}; `taketurns --help` lists them"
            )));
        };
        command = found.clone();
    }
    output::text(String::from_utf8_lossy(&page(&command)?).trim_end())?;
    Ok(0)
}

fn write_all(command: &clap::Command, directory: &Path) -> io::Result<()> {
    for command in command.get_subcommands() {
        write_all(command, directory)?;
    }
    fs::write(directory.join(man(command).get_filename()), page(command)?)
}

fn man(command: &clap::Command) -> Man {
    // The date is unknown. It is a blank, since clap_mangen would replace an empty one by the version.
    Man::new(command.clone())
        .date(" ")
        .source(concat!("taketurns ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands")
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let man = man(command);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(json) = command.get_after_long_help() {
        let mut section = Roff::new();
        section.control("SH", ["JSON"]).text([roman(json.to_string())]);
        section.to_writer(&mut page)?;
    }
    if command.get_after_help().is_some() {
        table("EXIT STATUS", exit::CODES.iter().copied()).to_writer(&mut page)?;
    }
    let is_whole = command.get_name() == "taketurns";
    let concerned = |users: &[&str]| users.is_empty() || users.contains(&command.get_name());
    let variables = ENVIRONMENT.iter().filter(|(_, users, _)| is_whole || concerned(users));
    table("ENVIRONMENT", variables.map(|(name, _, meaning)| (*name, *meaning)))
        .to_writer(&mut page)?;
    Ok(page)
}

fn table<'a>(heading: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (term, meaning) in rows {
        roff.control("TP", []).text([bold(term)]).text([roman(meaning)]);
    }
    roff
}
