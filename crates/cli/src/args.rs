//! The command line as one table, from which help, man page and completions are made too.
//!
//! What is wrong with a command line is said in one line and ends with code 64, where clap would
//! print a paragraph and exit 2. That line never has a handle in it, which clap would repeat.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    acquire, break_lock, completions, doctor, elect, ls, man, pool, release, renew, run, serve,
    show, top,
};
use crate::exit::{self, ExitFailure};

/// How much of a bad value is repeated to the user.
const VALUE_CHARS_MAX: usize = 40;

/// Locks for the shell: fair, fenced, leased, and useful with no server at all
///
/// The store is where locks live: a file on this machine unless --store or TAKETURNS_STORE says
/// otherwise. The file is $XDG_STATE_HOME/taketurns/locks.db, or ~/.local/state/taketurns/locks.db.
/// To share locks between machines, use Redis 7.0 or Valkey 8.0, or later: see --store.
#[derive(Debug, Parser)]
#[command(name = "taketurns", version, after_help = exit::help(), max_term_width = 100)]
pub(crate) struct Cli {
    /// Where the locks live: file:PATH, redis://HOST, or others that --help lists
    ///
    ///   file:/var/lib/app/locks.db             a file, for the processes of this machine
    ///   redis://host:6379                      Redis or Valkey; rediss:// with TLS
    ///   redis+sentinel://h1,h2,h3/master-name  the master that Sentinel names
    ///   redis+cluster://h1,h2                  a Cluster, by some of its nodes
    ///   quorum:redis://a,redis://b,redis://c   a majority of independent servers
    ///
    /// A password goes into TAKETURNS_REDIS_PASSWORD (and its user into
    /// TAKETURNS_REDIS_USER), or where ?password_file=PATH or ?password_env=NAME at the end
    /// of the URL says. In a URL on the command line everybody on the machine could read
    /// it. ?max_lease=SECS is the longest lease (60), and for how long nothing is granted
    /// after a restart or a fail-over. ?connect_timeout=SECS and ?response_timeout=SECS are
    /// after how long a server that does not answer is given up (2). ?protocol=plain,
    /// python-redis-lock, fairqueue, redturn or zmutex speaks the protocol of other lock
    /// libraries, so that their clients and ours exclude each other.
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
    Completions(completions::Args),
    Man(man::Args),
}

impl CliCommand {
    pub(crate) fn takes_lock(&self) -> bool {
        match self {
            Self::Run(_) | Self::Acquire(_) => true,
            Self::Elect(args) => args.takes_part(),
            _ => false,
        }
    }
}

/// Reads the command line. `Ok(None)` if it asked for help or the version, which are printed.
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

/// The command line, or what it asked to be printed.
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
            "a store's URL goes after --store or into TAKETURNS_STORE, or after doctor, and nowhere \
             else; see `{} --help`",
            command_of(args)
        )));
    }
    if has_handle(&message) {
        return Err(ExitFailure::usage(
            "a handle is not taken from the command line, where everybody could read it: pass it \
             in TAKETURNS_HANDLE or on stdin",
        ));
    }
    Err(ExitFailure::usage(message))
}

fn in_one_line(error: &clap::Error, command: &str) -> String {
    match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return format!("a command is missing; `{command} --help` lists them");
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

/// The command that the line is about, as far as it names one: `taketurns pool add`.
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

/// With a password in it, perhaps.
fn has_url(message: &str) -> bool {
    message.contains("redis") && message.contains('/')
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

    fn said(line: &[&str]) -> String {
        let args = std::iter::once("taketurns").chain(line.iter().copied()).map(OsString::from);
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn the_line_says_what_is_wrong_and_which_help_to_read() {
        let cases: [(&[&str], &str); 12] = [
            (&[], "a command is missing; `taketurns --help` lists them"),
            (&["pool"], "a command is missing; `taketurns pool --help` lists them"),
            (
                &["--store", "file:x", "pool"],
                "a command is missing; `taketurns pool --help` lists them",
            ),
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
                "--token abc: it is not a token, which is a number",
            ),
            (&["show", ""], "LOCK \"\": a name must not be empty"),
        ];
        for (line, expected) in cases {
            assert_eq!(said(line), expected, "{line:?}");
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
            let said = said(line);
            assert!(said.starts_with("a handle is not taken from the command line"), "{said}");
        }
        for line in
            [&["release", "--handle", "tt1.5ec7e7"][..], &["release", "--handle=tt1.5ec7e7"]]
        {
            assert!(!said(line).contains("5ec7"), "{}", said(line));
        }
    }

    #[test]
    fn a_password_in_a_url_that_is_out_of_place_is_not_repeated() {
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
                let said = said(line);
                assert!(!said.contains("hunter"), "{said}");
                assert!(said.contains("after --store or into TAKETURNS_STORE"), "{said}");
            }
        }
        assert!(said(&["redis", "ls"]).contains("unrecognized subcommand 'redis'"));
    }

    #[test]
    fn the_command_may_follow_with_or_without_a_double_dash_and_keeps_its_own_flags() {
        let lines: [&[&str]; 2] =
            [&["run", "a", "-n", "--", "ls", "-n"], &["run", "-n", "a", "ls", "-n"]];
        for line in lines {
            let args = std::iter::once("taketurns").chain(line.iter().copied()).map(OsString::from);
            let Ok(Some(Cli { command: CliCommand::Run(run), .. })) = parse(args) else {
                panic!("{line:?} is a run")
            };
            assert_eq!(run.command, ["ls", "-n"]);
            assert!(run.ask.nonblock);
        }
    }
}
