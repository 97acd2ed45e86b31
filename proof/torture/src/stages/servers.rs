//! What the stores with servers share: commands that take something away, and what clients may leave behind on a
//! server.

use std::fs::{self, File};
use std::io;

use taketurns_history::Guarantee;
use taketurns_servers::{Server, ServerReply};

use crate::faults::StepResult;
use crate::plan::MAX_LEASE;

/// The options of every store. Quarantines are short, and an unknown server is not taken for a new one, since to a new
/// client a server that comes back empty looks the same.
pub(super) fn options() -> String {
    format!("?max_lease={}&failover=strict", MAX_LEASE.as_secs())
}

/// docs/once.md, "When work can run a second time": no quarantine protects what is remembered for days.
pub(super) const FORGETS: &[Guarantee] = &[Guarantee::G8];

/// One command that has to work.
pub(super) fn say(server: &Server, words: &[&str]) -> StepResult {
    match server.try_cli(words)? {
        ServerReply::Error(error) => Err(format!("{}: {error}", words.join(" ")).into()),
        _ => Ok(()),
    }
}

/// Closes the connections of all clients, also of those that listen.
pub(super) fn kill_clients(server: &Server) -> StepResult {
    say(server, &["CLIENT", "KILL", "TYPE", "normal"])?;
    say(server, &["CLIENT", "KILL", "TYPE", "pubsub"])
}

/// Fills a server up to a limit just above what it needs, so that nothing more can be acquired.
pub(super) fn fill(server: &Server) -> StepResult {
    let used: u64 = server.info("memory").get("used_memory").ok_or("no INFO")?.parse()?;
    say(server, &["CONFIG", "SET", "maxmemory", &(used + 400_000).to_string()])?;
    let block = "x".repeat(50_000);
    // With a limit, should the server be emptied faster than it is filled.
    for _ in 0..100 {
        if server.try_cli(&["APPEND", FILLING, &block])?.error().is_some() {
            break;
        }
    }
    Ok(())
}

/// Not among the keys of locks.
const FILLING: &str = "torture:filling";

/// Takes what [`fill`] did back.
pub(super) fn empty(server: &Server) -> StepResult {
    say(server, &["DEL", FILLING])?;
    say(server, &["CONFIG", "SET", "maxmemory", "0"])
}

/// Cuts some bytes off the log of a server that does not run, as a power cut would.
pub(super) fn cut_log(server: &Server, bytes: u64) -> StepResult {
    let folder = fs::read_dir(server.dir().join("appendonlydir"))?;
    let entries: io::Result<Vec<_>> = folder.map(|entry| Ok(entry?.path())).collect();
    let is_log = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    let newest = entries?.into_iter().filter(is_log).max().ok_or("a server without a log")?;
    let log = File::options().write(true).open(newest)?;
    let length = log.metadata()?.len();
    log.set_len(length.saturating_sub(bytes))?;
    Ok(())
}

/// Removes all that a server that does not run would know again.
pub(super) fn forget(server: &Server) -> StepResult {
    match fs::remove_dir_all(server.dir().join("appendonlydir")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Connections and subscriptions that nobody has closed.
pub(super) fn left_at(server: &Server) -> Vec<String> {
    let mut left = Vec::new();
    let list = server.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
    let more = server.cli(&["CLIENT", "LIST", "TYPE", "PUBSUB"]);
    let lines = [list.text().unwrap_or_default(), more.text().unwrap_or_default()].concat();
    for line in lines.lines().filter(|line| !line.contains("cmd=client|list")) {
        // Sentinels and nodes of a cluster stay connected.
        if !line.contains("name=sentinel-") && !line.contains("cmd=ping") {
            left.push(format!("a connection to {}: {line}", server.port()));
        }
    }
    let channels = server.cli(&["PUBSUB", "CHANNELS", "tt:wake:*"]);
    for channel in channels.array().unwrap_or_default() {
        left.push(format!("a subscription at {}: {channel}", server.port()));
    }
    left
}
