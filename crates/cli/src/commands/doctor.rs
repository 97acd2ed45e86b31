//! `taketurns doctor`: is a store fit to hold locks, and if not, what is to be done?

use serde::Serialize;
use taketurns::doctor::{self, Check, Level, Report};

use crate::exit::{self, ExitFailure};
use crate::output;
use crate::paint::{Ink, Paint};
use crate::store;

/// Look whether the store is fit to hold locks, and say what to do if it is not
///
/// One line for each check: ok, warn or fail; where; what was looked at; what was found; and after an
/// arrow what to do about it. Every server of the store is looked at, also those that are behind
/// Sentinel, in a Cluster or in a quorum, and each check goes on where another failed. Nothing is
/// written to the store. docs/doctor.md explains every check.
///
/// Exits with 0 if no check failed (a warning is no failure), with 1 if one did, and with 69 if
/// nothing of the store can be reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which store, as after --store; default: that of --store or TAKETURNS_STORE
    ///
    /// No password belongs into it, for everybody on the machine could read it: see --store.
    url: Option<String>,

    /// Print a JSON document: store, worst, checks (node, check, level, found, advice)
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let url = store::named(args.url.as_deref().or(store))?;
    let report = doctor::examine(&url).await?;
    if args.json {
        output::json(&DoctorJson::new(&report))?;
    } else {
        output::text(lines(&report, Paint::stdout()))?;
    }
    Ok(match report.worst() {
        _ if !report.reached => exit::UNAVAILABLE,
        Level::Fail => exit::UNFIT,
        _ => 0,
    })
}

/// `warn  127.0.0.1:6379  persistence  nothing is kept on disk → CONFIG SET appendonly yes`
fn lines(report: &Report, paint: Paint) -> String {
    let width = |of: fn(&Check) -> &str| {
        report.checks.iter().map(|check| of(check).chars().count()).max().unwrap_or(0)
    };
    let (node_width, name_width) = (width(|check| &check.node), width(|check| check.name));
    let line = |check: &Check| {
        let Check { node, name, level, found, .. } = check;
        let ink = match level {
            Level::Ok => Ink::Good,
            Level::Warn => Ink::Warn,
            _ => Ink::Bad,
        };
        let level = paint.ink(ink, &format!("{:4}", level.to_string()));
        let node = paint.ink(Ink::Dim, &format!("{:node_width$}", exit::one_line(node)));
        let name = paint.ink(Ink::Bold, &format!("{name:name_width$}"));
        let advice = check.advice.as_ref().map(|advice| format!(" → {advice}")).unwrap_or_default();
        // What servers say must not drive the terminal.
        format!("{level}  {node}  {name}  {}", exit::one_line(&format!("{found}{advice}")))
    };
    report.checks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What `--json` prints. Field names are stable; new ones may be added.
#[derive(Serialize)]
struct DoctorJson<'a> {
    /// Which store, without user, password and options.
    store: &'a str,
    /// The worst level of all: `ok`, `warn` or `fail`.
    worst: String,
    checks: Vec<CheckJson<'a>>,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    /// The address of a server, the path of a file, or `all` for what is about the whole store.
    node: &'a str,
    /// What was looked at, in one word.
    check: &'static str,
    /// `ok`, `warn` or `fail`.
    level: String,
    found: &'a str,
    /// What to do; null if nothing is to be done.
    advice: Option<&'a str>,
}

impl<'a> DoctorJson<'a> {
    fn new(report: &'a Report) -> Self {
        let line = |check: &'a Check| CheckJson {
            node: &check.node,
            check: check.name,
            level: check.level.to_string(),
            found: &check.found,
            advice: check.advice.as_deref(),
        };
        Self {
            store: &report.store,
            worst: report.worst().to_string(),
            checks: report.checks.iter().map(line).collect(),
        }
    }
}
