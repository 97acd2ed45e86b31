//! What is said of stores that are bad on purpose, each in one way, and of good ones. On real servers.

mod files;
#[cfg(feature = "postgres")]
mod postgres;
mod quorum;
mod server;
mod sets;

use taketurns::doctor::{Check, Level, Report, examine};
use taketurns_servers::Server;

use crate::support::patience::{block_on, soon};
use crate::support::redis_acl;

/// What is found at a URL.
fn examined(url: &str) -> Report {
    block_on(async { soon("an answer", examine(url)).await.expect("a store") })
}

/// The check of that name on that node.
#[track_caller]
fn check<'a>(report: &'a Report, node: &str, name: &str) -> &'a Check {
    let mut found = report.checks.iter().filter(|check| check.node == node && check.name == name);
    let check = found.next().unwrap_or_else(|| panic!("no {name} of {node} in {report:#?}"));
    assert_eq!(found.next(), None, "once");
    check
}

/// It is so bad, in these words, and there is something to be done about it.
#[track_caller]
fn is(report: &Report, node: &str, name: &str, level: Level, piece: &str) {
    let check = check(report, node, name);
    assert_eq!(check.level, level, "{check:?}");
    assert!(check.found.contains(piece), "{piece:?} is not in {check:?}");
    assert_eq!(check.advice.is_some(), level != Level::Ok, "{check:?}");
}

/// All that is not as it should be, but for how quick the machine is.
fn bad(report: &Report) -> Vec<&Check> {
    let bad = report.checks.iter().filter(|check| check.level > Level::Ok);
    bad.filter(|check| check.name != "latency").collect()
}

fn node(server: &Server) -> String {
    server.addr().to_string()
}
