//! `taketurns once`: runs a command unless its work is done already.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::getpid;
use serde::Serialize;
use taketurns::{Begun, Completion, Error, Locks, Name, Note, Once};

use super::run::{self, LockedCommand};
use crate::ask::wait::WaitArgs;
use crate::ask::{self, HoldArgs};
use crate::exit::{self, ExitFailure, say};
use crate::held::{Held, HoldEnd};
use crate::json::CompletionJson;
use crate::output;
use crate::period::{self, Period};
use crate::signals::Signals;
use crate::store::{self, StoreConnection};
use crate::work;

/// Run a command once: not if its work is done already, on this machine or another
///
/// Runs the command under the lock of that name. If it exits with 0, the store records that the work
/// is done, and a later `once` of this name does nothing: it exits with 0, and says on stderr who
/// did the work and when. Those that wait meanwhile are told too.
///
/// If the command fails or is killed, or its machine goes down, the work is not done, and the next
/// `once` in line runs its own command. So work is repeated only if its machine died, or lost the
/// store, after the work and before that was recorded. It should be safe to repeat.
///
/// The store forgets that the work is done after 24 hours, or --for, or when the next period begins
/// (--every). `taketurns undo` makes it forget at once.
///
///   30 2 * * *  taketurns once -q --every day@02:30 nightly -- ./backup.sh
///   taketurns once --for 31d migrate/3.1 -- ./migrate.sh
///
/// The command finds the work's name in TAKETURNS_LOCK and its fencing token in TAKETURNS_TOKEN.
/// It is run as by `taketurns run`: see there about terminals, signals and a lock that is lost.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = exit::help())]
#[command(override_usage = "taketurns once [OPTIONS] <NAME> [--] <COMMAND>...")]
pub(crate) struct Args {
    /// How long the store remembers that the work is done, e.g. 90s, 15m, 24h, 7d [default: 24h]
    #[arg(long = "for", value_name = "TIME", value_parser = period::remembered)]
    #[arg(allow_negative_numbers = true)]
    remember_for: Option<Duration>,

    /// Once per period: hour, day@02:30, mon@06:00, 15m, 6h; in UTC, by the store's clock
    ///
    /// The time behind the @ is when the work is due: the time in the crontab. A period
    /// begins two hours before (a quarter of the period, if that is less). So a machine
    /// whose clock is fast, or whose crontab follows summer time, starts in the same
    /// period as the others.
    ///
    ///   hour, day, week      due on the hour, at 00:00, on Monday at 00:00
    ///   hour@30, day@02:30   due at that minute, at that time
    ///   mon@06:00            due every Monday at that time
    ///   15m, 6h, 2d          due at multiples of it since 1970-01-01 00:00
    ///   15m@05, 6h@02:30     the same, from that minute or time on
    #[arg(long, value_name = "PERIOD", conflicts_with = "remember_for", verbatim_doc_comment)]
    every: Option<Period>,

    /// Give up after N failed attempts, also on other machines, with code 70; default: no limit
    ///
    /// Failed attempts are forgotten like work that is done: a day after the last one, or with the period.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(allow_negative_numbers = true)]
    attempts: Option<u32>,

    /// Pause between a failed attempt and the next one, e.g. 30s, 5m [default: none]
    #[arg(long, value_name = "TIME", value_parser = period::pause, allow_negative_numbers = true)]
    pause: Option<Duration>,

    #[command(flatten)]
    wait: WaitArgs,

    #[command(flatten)]
    hold: HoldArgs,

    /// End the command when it has run for this long; exit code 76
    #[arg(long, value_name = "SECS", value_parser = ask::max_hold, allow_negative_numbers = true)]
    max_hold: Option<Duration>,

    /// Text that is recorded if the command succeeds, for others to read
    #[arg(long, value_name = "TEXT", value_parser = note, default_value = "", hide_default_value = true)]
    result: Note,

    /// Say nothing if the work is done already
    #[arg(short, long)]
    quiet: bool,

    /// Print JSON on one line, after the output of the command: name, outcome (did_it, done_before,
    /// failed, lost, unconfirmed), code, done (null, or as in `show --json`)
    #[arg(long)]
    json: bool,

    /// The work's name
    #[arg(value_parser = ask::name)]
    name: Name,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    fn once(&self, locks: &Locks) -> Once {
        let mut once = locks.once(self.name.as_str());
        if let Some(remember_for) = self.remember_for {
            once = once.remember_for(remember_for);
        }
        if let Some(period) = self.every {
            once = once.every(period.length(), period.offset());
        }
        if let Some(attempts) = self.attempts {
            once = once.attempts(attempts);
        }
        if let Some(pause) = self.pause {
            once = once.pause(pause);
        }
        if let Some(lease) = self.hold.lease {
            once = once.lease(lease);
        }
        if let Some(why) = &self.hold.why {
            once = once.why(why.clone());
        }
        if let Some(max_hold) = self.max_hold {
            once = once.max_hold(max_hold);
        }
        once
    }
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let mut signals = Signals::listen()?;
    let program = run::program(&args.command[0]);
    let loading = args.wait.loading();
    let opened = ask::open(store, &program, getpid(), loading, &mut signals).await?;
    let code = begin_and_run(&opened, &args, &mut signals).await;
    store::close(opened.locks).await;
    code
}

async fn begin_and_run(
    opened: &StoreConnection,
    args: &Args,
    signals: &mut Signals,
) -> Result<u8, ExitFailure> {
    let locks = &opened.locks;
    if args.wait.is_endless() && ask::is_held_around(&args.name) {
        return Err(ask::waits_for_itself(&args.name));
    }
    let once = args.once(locks);
    let attempt = match begin(&once, opened, args, signals).await? {
        Begun::DoneBefore(done) => return skip(args, &done),
        Begun::Attempt(attempt) => attempt,
    };
    let held = Held::Work { attempt, result: args.result.clone() };
    let under = LockedCommand { locks, command: &args.command, max_hold: args.max_hold };
    let outcome = under.run(held, signals).await?;
    if args.json {
        let code = outcome.code.as_ref().map_or_else(|failure| failure.code, |code| *code);
        let word = match outcome.end {
            HoldEnd::Lost => "lost",
            HoldEnd::Unconfirmed => "unconfirmed",
            HoldEnd::Ended if code == 0 => "did_it",
            HoldEnd::Ended => "failed",
        };
        // It is done, also if it can't be looked at.
        let done = if code == 0 { once.completion().await.ok().flatten() } else { None };
        print(args, word, code, done.as_ref())?;
    }
    outcome.code
}

/// Waits for the right to do the work, or for somebody else to do it.
async fn begin(
    once: &Once,
    StoreConnection { locks, waited }: &StoreConnection,
    args: &Args,
    signals: &mut Signals,
) -> Result<Begun, ExitFailure> {
    // With nothing left it does not wait.
    let begin = match args.wait.left(*waited) {
        Some(left) => once.clone().within(left).begin(),
        None => once.begin(),
    };
    let reporter = args.wait.reporter(locks, &args.name);
    let failure = match reporter.wait(begin, signals).await? {
        Ok(begun) => return Ok(begun),
        Err(Error::Timeout { .. }) => args.wait.not_free(locks, &args.name, "was not free").await,
        Err(error) => ask::failure(error),
    };
    Err(failure.not_acquired_as(args.wait.conflict_exit_code))
}

fn note(text: &str) -> Result<Note, String> {
    Note::new(text).map_err(|error| error.to_string())
}

/// Somebody has done it.
fn skip(args: &Args, done: &Completion) -> Result<u8, ExitFailure> {
    if !args.quiet {
        say(format_args!("{} is {}; not running it again", args.name, work::done(done)));
    }
    if args.json {
        print(args, "done_before", 0, Some(done))?;
    }
    Ok(0)
}

/// What `--json` prints.
#[derive(Serialize)]
struct OnceJson<'a> {
    /// The work's name.
    name: &'a Name,
    /// `did_it`, `done_before`, `failed`, `lost`, or `unconfirmed` if it may not be recorded.
    outcome: &'static str,
    /// The exit code.
    code: u8,
    /// Who did it and when; null if it is not done, or could not be looked at.
    done: Option<CompletionJson<'a>>,
}

fn print(
    args: &Args,
    outcome: &'static str,
    code: u8,
    done: Option<&Completion>,
) -> Result<(), ExitFailure> {
    let done = done.map(CompletionJson::new);
    output::json_line(&OnceJson { name: &args.name, outcome, code, done })
}
