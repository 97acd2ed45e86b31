//! `taketurns elect`: runs a command while leading, and shows the leader.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use rustix::process::getpid;
use serde::Serialize;
use taketurns::{HolderView, Locks, Name, Token};

use super::run::{self, LockedCommand};
use crate::ask::{self, wait::WaitReporter};
use crate::exit::{self, ExitFailure, say};
use crate::held::HoldEnd;
use crate::output::{self, duration, whole_millis};
use crate::signals::Signals;
use crate::store::{self, LoadingOptions};
use crate::terminal::Terminal;

/// Leader election: run a command while leading, or show the leader
///
/// Start several processes with the same election name. One leads at a time and runs its command; the
/// others stand by, first come, first served. If the leader dies, the next one leads when its lease ends.
/// When the command ends, the leader resigns and exits with the command's code.
///
/// If a leader loses the leadership (the store can't be reached, or somebody broke the lock), its command
/// gets SIGTERM, and SIGKILL before the next leader can start. Then it stands by again; unlike run, elect
/// does not exit. Signals are forwarded to the command and then end elect; while standing by they end the
/// wait.
///
/// The command finds the election's name in TAKETURNS_LOCK and its fencing token in TAKETURNS_TOKEN; the
/// token grows with each term. An election is the mutex with the same name: `taketurns show` shows it, and
/// `taketurns break` deposes the leader.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
#[command(override_usage = "taketurns elect [OPTIONS] <NAME> [--] <COMMAND>...\n       \
                            taketurns elect --observe|--leader [--json] <NAME>")]
pub(crate) struct Args {
    /// Print the leader, and again whenever it changes, until interrupted
    ///
    /// The store is polled once a second, so a shorter leadership may be missed. While the store can't be
    /// reached, elect keeps trying.
    #[arg(long, group = "looks", conflicts_with = "command")]
    observe: bool,

    /// Print the current leader; exit code 75 if nobody leads
    #[arg(long, group = "looks", conflicts_with = "command")]
    leader: bool,

    /// Print JSON, with --observe one document per line: election; leader (null if nobody leads)
    /// with who, why, token, led_ms, left_ms
    #[arg(long, requires = "looks")]
    json: bool,

    /// Lease: how long the leadership outlives a leader that died or lost its connection. Default: 30,
    /// or the store's longest lease if that is shorter
    #[arg(long, value_name = "SECS", conflicts_with = "looks")]
    #[arg(value_parser = ask::lease, allow_negative_numbers = true)]
    lease: Option<Duration>,

    /// Reason, shown to others beside the leader's name
    #[arg(long, value_name = "TEXT", conflicts_with = "looks")]
    why: Option<String>,

    /// Report the leader on stderr while standing by, even without a terminal
    #[arg(short, long, conflicts_with = "looks")]
    verbose: bool,

    /// The election's name
    #[arg(value_parser = ask::name)]
    name: Name,

    /// The command and its arguments
    #[arg(required_unless_present = "looks", trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// Returns whether this process wants to lead.
    pub(crate) fn takes_part(&self) -> bool {
        !self.observe && !self.leader
    }
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let mut signals = Signals::listen()?;
    let program = match args.command.first() {
        Some(word) => run::program(word),
        None => "taketurns".into(),
    };
    let loading = LoadingOptions { within: None, verbose: args.verbose };
    let opened = ask::open(store, &program, getpid(), loading, &mut signals).await?;
    let locks = opened.locks;
    let code = match () {
        () if args.leader => tell(&locks, &args).await,
        () if args.observe => observe(&locks, &args, &mut signals).await,
        () => campaign(&locks, &args, &mut signals).await,
    };
    store::close(locks).await;
    code
}

/// Leads again and again, until the command ends by itself or a signal ends the program.
async fn campaign(locks: &Locks, args: &Args, signals: &mut Signals) -> Result<u8, ExitFailure> {
    let Args { name, verbose, .. } = args;
    if ask::is_held_around(name) {
        return Err(ask::waits_for_itself(name));
    }
    let locked_command = LockedCommand { locks, command: &args.command, max_hold: None };
    let reporter = WaitReporter { locks, lock: name, verbose: *verbose, endless: true };
    loop {
        let mut campaign = locks.election(name.as_str()).campaign();
        if let Some(lease) = args.lease {
            campaign = campaign.lease(lease);
        }
        if let Some(why) = &args.why {
            campaign = campaign.why(why);
        }
        let leadership = reporter.wait(campaign.into_future(), signals).await?;
        let leadership = leadership.map_err(ask::failure)?;
        let outcome = locked_command.run(leadership.into(), signals).await?;
        if outcome.end != HoldEnd::Lost || outcome.told_to_end {
            return outcome.code;
        }
        say(format_args!("standing by for election {name} again"));
    }
}

async fn tell(locks: &Locks, args: &Args) -> Result<u8, ExitFailure> {
    let leader = locks.election(args.name.as_str()).leader().await?;
    if leader.is_some() || args.json {
        print(args, leader.as_ref())?;
    }
    match leader {
        Some(_) => Ok(0),
        None if args.json => Ok(exit::NOT_ACQUIRED),
        None => {
            let message = format_args!("nobody leads election {}", args.name);
            Err(ExitFailure::new(exit::NOT_ACQUIRED, message))
        }
    }
}

async fn observe(locks: &Locks, args: &Args, signals: &mut Signals) -> Result<u8, ExitFailure> {
    let mut observer = locks.election(args.name.as_str()).observe();
    loop {
        tokio::select! {
            biased;
            (signal, _) = signals.next() => {
                return Err(ExitFailure::signal(signal, Terminal::is_ours_now(), ""));
            }
            leader = observer.changed() => print(args, leader?.as_ref())?,
        }
    }
}

fn print(args: &Args, leader: Option<&HolderView>) -> Result<(), ExitFailure> {
    let election = ElectionJson { election: &args.name, leader: leader.map(LeaderJson::new) };
    if args.json { output::json_line(&election) } else { output::text(election) }
}

/// What `--json` prints.
#[derive(Serialize)]
struct ElectionJson<'a> {
    /// The election's name.
    election: &'a Name,
    /// The leader; null if nobody leads.
    leader: Option<LeaderJson<'a>>,
}

#[derive(Serialize)]
struct LeaderJson<'a> {
    /// Host, process and program.
    who: &'a str,
    /// The reason given with `--why`, or empty.
    why: &'a str,
    /// The fencing token; null only from a store that has none.
    token: Option<Token>,
    /// How long it has been leading.
    led_ms: u64,
    /// What is left of the lease, if it is not renewed.
    left_ms: u64,
}

impl<'a> LeaderJson<'a> {
    fn new(leader: &'a HolderView) -> Self {
        Self {
            who: leader.label.who(),
            why: leader.label.why(),
            token: leader.token,
            led_ms: whole_millis(leader.held_for),
            left_ms: whole_millis(leader.left),
        }
    }
}

/// `scheduler: led by web1:4242 plan.sh (node 1), token 42, for 12s`
impl fmt::Display for ElectionJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(leader) = &self.leader else {
            return write!(f, "{}: nobody leads", self.election);
        };
        write!(f, "{}: led by {}", self.election, leader.who)?;
        if !leader.why.is_empty() {
            write!(f, " ({})", leader.why)?;
        }
        if let Some(token) = leader.token {
            write!(f, ", token {token}")?;
        }
        write!(f, ", for {}", duration(Duration::from_millis(leader.led_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_shown_with_reason_and_token() {
        let name = Name::new("scheduler").expect("a name");
        let shown = |why, token| {
            let token = Some(Token::from_raw(token)).filter(|_| token > 0);
            let leader =
                LeaderJson { who: "web1:7 plan", why, token, led_ms: 12_000, left_ms: 9_000 };
            ElectionJson { election: &name, leader: Some(leader) }.to_string()
        };
        let full = "scheduler: led by web1:7 plan (node 1), token 42, for 12s";
        assert_eq!(shown("node 1", 42), full);
        assert_eq!(shown("", 0), "scheduler: led by web1:7 plan, for 12s");
        let nobody = ElectionJson { election: &name, leader: None };
        assert_eq!(nobody.to_string(), "scheduler: nobody leads");
    }
}
