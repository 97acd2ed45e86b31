//! The command line as one table. Help, man pages and completions are generated from it.
//!
//! A usage error is one line on stderr and exit code 64, where clap would print a paragraph and exit
//! with 2. That line never repeats a handle or a password, as clap's would.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    acquire, break_lock, completions, doctor, elect, ls, man, once, pool, release, renew, run,
    schema, serve, show, top, undo,
};
use crate::exit::{self, ExitFailure};

/// How much of a bad value an error message repeats.
const VALUE_CHARS_MAX: usize = 40;

/// A distributed lock for the shell: fair, with leases and fencing tokens; needs no server on one machine
///
/// The store keeps the locks. By default it is a file on this machine:
/// $XDG_STATE_HOME/taketurns/locks.db, or ~/.local/state/taketurns/locks.db. To share locks between
/// machines, name a server (Redis 7.0, Valkey 8.0, PostgreSQL 13, or later) with --store or
/// TAKETURNS_STORE.
#[derive(Debug, Parser)]
#[command(name = "taketurns", version, after_help = exit::help(), max_term_width = 100)]
pub(crate) struct Cli {
    /// Store that keeps the locks: file:PATH, redis://HOST, …; --help lists all
    ///
    ///   file:/var/lib/app/locks.db             a file, for processes on this machine
    ///   postgres://host/database               PostgreSQL; also postgres://host1,host2/database
    ///   redis://host:6379                      Redis or Valkey; rediss:// with TLS
    ///   redis+sentinel://h1,h2,h3/master-name  the master that Sentinel reports
    ///   redis+cluster://h1,h2                  a Cluster, given some of its nodes
    ///   quorum:redis://a,redis://b,redis://c   a majority of independent servers
    ///
    /// Put the password into TAKETURNS_REDIS_PASSWORD and the user into
    /// TAKETURNS_REDIS_USER, or for PostgreSQL into TAKETURNS_POSTGRES_PASSWORD and
    /// TAKETURNS_POSTGRES_USER. Or name its place at the end of the URL with
    /// ?password_file=PATH or ?password_env=NAME. Every user of the machine can read a
    /// password on the command line.
    ///
    /// More options at the end of the URL:
    ///   ?max_lease=SECS         longest lease, and length of the quarantine after a
    ///                           restart or failover (default 60)
    ///   ?connect_timeout=SECS   timeout for connecting to a server (default 2)
    ///   ?response_timeout=SECS  timeout for a reply (default 2)
    ///   ?protocol=NAME          compatible with another lock library, so that its
    ///                           clients and ours exclude each other: plain,
    ///                           python-redis-lock, fairqueue, redturn, zmutex
    #[arg(verbatim_doc_comment)]
    #[arg(
        long,
        value_name = "URL",
        global = true,
        env = "TAKETURNS_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Run(run::Args),
    Once(once::Args),
    Undo(undo::Args),
    Elect(elect::Args),
    Acquire(acquire::Args),
    Renew(renew::Args),
    Release(release::Args),
    Ls(ls::Args),
    Show(show::Args),
    Top(top::Args),
    Break(break_lock::Args),
    Pool(pool::Args),
    Serve(serve::Args),
    Doctor(doctor::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl CliCommand {
    pub(crate) fn takes_lock(&self) -> bool {
        match self {
            Self::Run(_) | Self::Once(_) | Self::Acquire(_) => true,
            Self::Elect(args) => args.takes_part(),
            _ => false,
        }
    }
}

/// Parses the command line. Prints help or the version if it asks for that, and returns `Ok(None)`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Cli>, ExitFailure> {
    let args: Vec<OsString> = args.into_iter().collect();
    match read(&args)? {
        Ok(cli) => Ok(Some(cli)),
        Err(asked_for) => {
            asked_for.print()?;
            Ok(None)
        }
    }
}

/// Parses the command line. The inner error is the help or version text to print.
pub(crate) fn read(args: &[OsString]) -> Result<Result<Cli, clap::Error>, ExitFailure> {
    let error = match Cli::try_parse_from(args) {
        Ok(cli) => return Ok(Ok(cli)),
        Err(error) => error,
    };
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Ok(Err(error));
    }
    let message = in_one_line(&error, &command_of(args));
    if has_url(&message) && args.iter().any(|arg| arg.to_string_lossy().contains('@')) {
        return Err(ExitFailure::usage(format_args!(
            "unexpected store URL: pass it with --store or in TAKETURNS_STORE, or as the argument of \
             doctor; see `{} --help`",
            command_of(args)
        )));
    }
    if has_handle(&message) {
        return Err(ExitFailure::usage(
            "a handle on the command line is visible to every user of the machine: pass it in \
             TAKETURNS_HANDLE or on stdin",
        ));
    }
    Err(ExitFailure::usage(message))
}

fn in_one_line(error: &clap::Error, command: &str) -> String {
    match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return format!("missing command; `{command} --help` lists them");
        }
        ErrorKind::ValueValidation => {
            if let Some(message) = about_value(error) {
                return message;
            }
        }
        _ => {}
    }
    let text = error.to_string();
    let wanted = |part: &&str| {
        !["Usage:", "For more", "tip:"].iter().any(|start| part.trim_start().starts_with(start))
    };
    let parts = text.trim().split("\n\n").filter(wanted);
    let words: Vec<&str> = parts.flat_map(str::split_whitespace).collect();
    let message = words.join(" ");
    format!("{}; see `{command} --help`", message.trim_start_matches("error: "))
}

/// `--lease -1: it must not be negative`
fn about_value(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (value, source) = (context(ContextKind::InvalidValue)?, error.source()?);
    // As clap writes it: `--lease <SECS>`, or `<LOCK>`, or `<MEMBER>...`.
    let arg = context(ContextKind::InvalidArg)?.split(' ').next()?;
    let arg = arg.trim_matches(['<', '>', '.']);
    let shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
    let cut = if shown.len() < value.len() { "…" } else { "" };
    let is_plain = !shown.is_empty() && !shown.contains(|c: char| c.is_whitespace());
    let shown = if is_plain { shown } else { format!("{shown:?}") };
    Some(format!("{arg} {shown}{cut}: {source}"))
}

/// Returns the command with its subcommands, such as `taketurns pool add`.
fn command_of(args: &[OsString]) -> String {
    let mut command = Cli::command();
    let mut path = command.get_name().to_owned();
    for arg in args.iter().skip(1) {
        if let Some(found) = command.find_subcommand(arg).cloned() {
            path = format!("{path} {}", found.get_name());
            command = found;
        }
    }
    path
}

/// A URL may have a password in it.
fn has_url(message: &str) -> bool {
    ["redis", "postgres"].iter().any(|scheme| message.contains(scheme)) && message.contains('/')
}

fn has_handle(message: &str) -> bool {
    message
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .any(|word| word.starts_with("tt1."))
}

#[cfg(test)]
mod tests {
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

    fn error_of(line: &[&str]) -> String {
        let args = std::iter::once("taketurns").chain(line.iter().copied()).map(OsString::from);
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn the_line_says_what_is_wrong_and_which_help_to_read() {
        let cases: [(&[&str], &str); 12] = [
            (&[], "missing command; `taketurns --help` lists them"),
            (&["pool"], "missing command; `taketurns pool --help` lists them"),
            (&["--store", "file:x", "pool"], "missing command; `taketurns pool --help` lists them"),
            (&["runn"], "unrecognized subcommand 'runn'; see `taketurns --help`"),
            (
                &["run", "--leas", "1"],
                "unexpected argument '--leas' found; see `taketurns run --help`",
            ),
            (
                &["pool", "add", "p"],
                "the following required arguments were not provided: <MEMBER>...; see `taketurns \
                 pool add --help`",
            ),
            (&["run", "--lease", "-1", "a", "b"], "--lease -1: it must not be negative"),
            (
                &["acquire", "--lease", "0", "a"],
                "--lease 0: a lease is between 0.01 and 86400 seconds",
            ),
            (&["acquire", "-w", "", "a"], "--wait \"\": it is not a number of seconds"),
            (
                &["acquire", "-E", "abc", "a"],
                "--conflict-exit-code abc: it is not a number from 0 to 255",
            ),
            (
                &["break", "--token", "abc", "a"],
                "--token abc: a token is a number, as `taketurns show` prints it",
            ),
            (&["show", ""], "LOCK \"\": a name must not be empty"),
        ];
        for (line, expected) in cases {
            assert_eq!(error_of(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_handle_on_the_command_line_is_not_repeated() {
        let lines: [&[&str]; 6] = [
            &["release", "tt1.5ec7e7.1.2.3.door"],
            &["renew", "tt1.5ec7e7.1.2.3.door"],
            &["renew", "--lease", "tt1.5ec7e7.1.2.3.door"],
            &["renew", "--lease=tt1.5ec7e7.1.2.3.door"],
            &["release", "--tt1.5ec7e7.1.2.3.door"],
            &["tt1.5ec7e7.1.2.3.door"],
        ];
        for line in lines {
            let error = error_of(line);
            assert!(error.starts_with("a handle on the command line is visible"), "{error}");
        }
        for line in
            [&["release", "--handle", "tt1.5ec7e7"][..], &["release", "--handle=tt1.5ec7e7"]]
        {
            assert!(!error_of(line).contains("5ec7"), "{}", error_of(line));
        }
    }

    #[test]
    fn a_password_in_a_misplaced_url_is_not_repeated() {
        let url = "redis://:hunter2@a.host.with.a.rather.long.name.example.com:6379";
        let short = "redis:/hunter2@h";
        for url in [url, short] {
            let lines: [&[&str]; 6] = [
                &[url, "ls"],
                &["ls", "a", url],
                &["run", "--lease", url, "a", "b"],
                &["renew", "--lease", url],
                &["ls", &format!("--{url}")],
                &["completions", url],
            ];
            for line in lines {
                let error = error_of(line);
                assert!(!error.contains("hunter"), "{error}");
                assert!(error.contains("--store or in TAKETURNS_STORE"), "{error}");
            }
        }
        assert!(error_of(&["redis", "ls"]).contains("unrecognized subcommand 'redis'"));
    }

    #[test]
    fn the_double_dash_is_optional_and_the_command_keeps_its_flags() {
        let lines: [&[&str]; 2] =
            [&["run", "a", "-n", "--", "ls", "-n"], &["run", "-n", "a", "ls", "-n"]];
        for line in lines {
            let args = std::iter::once("taketurns").chain(line.iter().copied()).map(OsString::from);
            let Ok(Some(Cli { command: CliCommand::Run(run), .. })) = parse(args) else {
                panic!("{line:?} is a run")
            };
            assert_eq!(run.command, ["ls", "-n"]);
            assert!(run.ask.wait.nonblock);
        }
    }
}
