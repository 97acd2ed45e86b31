//! The command line as one table, from which help, man page and completions are made too.
//!
//! What is wrong with a command line is said in one line and ends with code 64, where clap would
//! print a paragraph and exit 2.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use crate::commands::{acquire, break_lock, completions, ls, man, pool, release, renew, run, show};
use crate::exit::{self, Failure};

/// How much of a bad value is repeated to the user.
const VALUE_CHARS_MAX: usize = 40;

/// Locks for the shell: fair, fenced, leased, and useful with no server at all
///
/// The store is where locks live: a file on this machine unless --store or TAKETURNS_STORE says
/// otherwise. The file is $XDG_STATE_HOME/taketurns/locks.db, or ~/.local/state/taketurns/locks.db.
#[derive(Debug, Parser)]
#[command(name = "taketurns", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// Where the locks live, e.g. file:/var/lib/app/locks.db
    #[arg(
        long,
        value_name = "URL",
        global = true,
        env = "TAKETURNS_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Acquire(acquire::Args),
    Renew(renew::Args),
    Release(release::Args),
    Ls(ls::Args),
    Show(show::Args),
    Break(break_lock::Args),
    Pool(pool::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Reads the command line. `Ok(None)` if it asked for help or the version, which are printed.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Cli>, Failure> {
    let error = match Cli::try_parse_from(args) {
        Ok(cli) => return Ok(Some(cli)),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print()?;
            Ok(None)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::usage("no command given; `taketurns --help` lists them"))
        }
        _ => Err(Failure::usage(in_one_line(&error))),
    }
}

fn in_one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::ValueValidation
        && let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
        && let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && let Some(source) = error.source()
    {
        let shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
        let cut = if shown.len() < value.len() { "…" } else { "" };
        return format!("{shown:?}{cut} is no good as {arg}: {source}");
    }
    let text = error.to_string();
    let wanted = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more");
    let parts = text.trim().split("\n\n").filter(wanted);
    let words: Vec<&str> = parts.flat_map(str::split_whitespace).collect();
    let message = words.join(" ");
    format!("{} (see --help)", message.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bad_command_line_is_one_line_with_code_64() {
        let lines: [&[&str]; 7] = [
            &[],
            &["nonsense"],
            &["run"],
            &["run", "", "--", "true"],
            &["run", "a\nb", "--", "true"],
            &["run", "-n", "-w", "1", "a", "--", "true"],
            &["run", "-s", "--permits", "2", "a", "--", "true"],
        ];
        for line in lines {
            let args = std::iter::once("taketurns").chain(line.iter().copied()).map(OsString::from);
            let failure = parse(args).unwrap_err();
            assert_eq!(failure.code, exit::USAGE, "{line:?}");
            assert!(!format!("{failure:?}").contains("Usage"), "{failure:?}");
        }
    }

    #[test]
    fn the_command_may_follow_with_or_without_a_double_dash_and_keeps_its_own_flags() {
        let lines: [&[&str]; 2] =
            [&["run", "a", "-n", "--", "ls", "-n"], &["run", "-n", "a", "ls", "-n"]];
        for line in lines {
            let args = std::iter::once("taketurns").chain(line.iter().copied()).map(OsString::from);
            let Ok(Some(Cli { command: Command::Run(run), .. })) = parse(args) else {
                panic!("{line:?} is a run")
            };
            assert_eq!(run.command, ["ls", "-n"]);
            assert!(run.ask.nonblock);
        }
    }
}
