//! `taketurns doctor`: checks whether a store is fit to keep locks, and advises what to change.

use serde::Serialize;
use taketurns::doctor::{self, Check, Level, Report};

use crate::exit::{self, ExitFailure};
use crate::output;
use crate::paint::{Ink, Paint};
use crate::store;
use crate::text;

/// Check whether the store is fit to keep locks, and print what to change
///
/// Prints one line per check: ok, warn or fail; the server or file; the check's name; the finding; and
/// after an arrow the advice. It checks every server of the store, including those behind Sentinel, in a
/// Cluster or in a quorum, and goes on after a failed check. It writes nothing to the store.
/// docs/doctor.md explains every check.
///
/// Exits with 0 if no check failed (warnings are no failures), with 1 if one failed, and with 69 if no
/// part of the store can be reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Store to check, as for --store; default: the store of --store or TAKETURNS_STORE
    ///
    /// Don't put a password into it: every user of the machine could read it. See --store.
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
        let node = paint.ink(Ink::Dim, &format!("{:node_width$}", text::escaped(node)));
        let name = paint.ink(Ink::Bold, &format!("{name:name_width$}"));
        let advice = check.advice.as_ref().map(|advice| format!(" → {advice}")).unwrap_or_default();
        // Escapes from a server must not reach the terminal.
        format!("{level}  {node}  {name}  {}", text::escaped(&format!("{found}{advice}")))
    };
    report.checks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What `--json` prints. Field names are stable; new ones may be added.
#[derive(Serialize)]
struct DoctorJson<'a> {
    /// The store's URL without user, password and options.
    store: &'a str,
    /// The worst level of all: `ok`, `warn` or `fail`.
    worst: String,
    checks: Vec<CheckJson<'a>>,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    /// The address of a server, the path of a file, or `all` for the whole store.
    node: &'a str,
    /// The check's name, one word.
    check: &'static str,
    /// `ok`, `warn` or `fail`.
    level: String,
    found: &'a str,
    /// What to do; null if all is well.
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
