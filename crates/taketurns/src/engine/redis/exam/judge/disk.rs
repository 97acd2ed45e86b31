//! What is kept, where, and for how long: persistence and memory.

use super::Case;
use crate::doctor::{Check, Subject};
use crate::engine::redis::exam::gather::ServerPart;
use crate::engine::redis::handshake::facts::{ServerFacts, field};

/// From here on a server is about to refuse writes.
const MEMORY_PERCENT_MAX: u64 = 90;

/// What a server keeps on its disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Persistence {
    Log,
    Snapshots,
    Nothing,
    /// No log. Whether there are snapshots is not for us to ask.
    NoLog,
}

impl Case<'_> {
    pub(super) fn disk(&self, info: &str, facts: &ServerFacts) -> Vec<Check> {
        let setting = |name| self.answers.settings.as_ref().map(|all| all.get(name));
        let save = setting("save").map(|save| save.is_some_and(|save| !save.is_empty()));
        let kept = match (field(info, "aof_enabled"), save) {
            (Some("1"), _) => Persistence::Log,
            (_, Some(true)) => Persistence::Snapshots,
            (_, Some(false)) => Persistence::Nothing,
            (_, None) => Persistence::NoLog,
        };
        let mut checks = vec![self.persistence(kept)];
        checks.extend(self.saving(info, save));
        checks.push(self.eviction(facts));
        checks.extend(self.memory(info, facts));
        checks
    }

    fn persistence(&self, kept: Persistence) -> Check {
        let node = &self.node;
        let lease_s = self.config.max_lease.as_secs_f64();
        let fsync = self.answers.settings.as_ref().and_then(|all| all.get("appendfsync"));
        match (kept, self.server.part) {
            (Persistence::Log, _) => Subject::Persistence.ok(
                node,
                match fsync.map(String::as_str) {
                    Some("always") => "append-only file, synced at every write".to_owned(),
                    Some("everysec") => "append-only file, synced every second: a crash may lose the \
                                         last one, which quarantine covers"
                        .to_owned(),
                    Some("no") => "append-only file, synced when the system likes: a crash may lose \
                                   what came last, which quarantine covers"
                        .to_owned(),
                    _ => "append-only file".to_owned(),
                },
            ),
            (kept, ServerPart::Node) => {
                let what = match kept {
                    Persistence::Snapshots => "snapshots alone",
                    Persistence::Nothing => "nothing is kept on disk",
                    _ => "no append-only file",
                };
                let found = format!(
                    "{what}, which a quorum does not need: after a restart the node has no vote for \
                     {lease_s} s in any case"
                );
                Subject::Persistence.ok(node, found)
            }
            (Persistence::Snapshots, _) => Subject::Persistence.warn(
                node,
                format!(
                    "snapshots alone: a restart forgets what was granted since the last one. Nothing is \
                     granted for {lease_s} s then, so nobody is granted twice; but who waits loses the \
                     place, and who holds loses the lock"
                ),
                ADVICE,
            ),
            (Persistence::Nothing, _) => Subject::Persistence.warn(
                node,
                format!(
                    "nothing is kept on disk: a restart forgets all locks. Clients that are connected \
                     notice, and nothing is granted for {lease_s} s; if none is, the server looks new and \
                     grants at once (failover=strict in the URL prevents that)"
                ),
                ADVICE,
            ),
            (Persistence::NoLog, _) => Subject::Persistence.warn(
                node,
                "no append-only file: a restart forgets at least what was granted since the last \
                 snapshot, and all locks if there is none (this user may not ask: CONFIG GET)",
                ADVICE,
            ),
        }
    }

    /// `saves` if it makes snapshots by itself, as far as that is known.
    fn saving(&self, info: &str, saves: Option<bool>) -> Vec<Check> {
        let node = &self.node;
        let failed = |name| field(info, name).is_some_and(|status| status != "ok");
        let stops = self.answers.settings.as_ref();
        let stops = stops.and_then(|all| all.get("stop-writes-on-bgsave-error"));
        let stops = stops.is_none_or(|stops| stops != "no") && saves != Some(false);
        if failed("aof_last_write_status") {
            return vec![Subject::Saving.fail(
                node,
                "the append-only file could not be written (aof_last_write_status), so it takes no \
                 writes",
                "see its log, and whether its disk is full",
            )];
        }
        if !failed("rdb_last_bgsave_status") {
            return vec![Subject::Saving.ok(node, "what it saved last went well")];
        }
        let found = "the last snapshot could not be written (rdb_last_bgsave_status)";
        let advice = "see its log, and whether its disk is full or its memory too small to fork";
        vec![match stops {
            true => Subject::Saving.fail(node, format!("{found}, so it takes no writes"), advice),
            false => Subject::Saving.warn(node, found, advice),
        }]
    }

    fn eviction(&self, facts: &ServerFacts) -> Check {
        let node = &self.node;
        let advice =
            "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file";
        match (facts.evicts(), facts.maxmemory) {
            (None, _) => Subject::Eviction.ok(node, "noeviction"),
            (Some(policy), 0) => Subject::Eviction.warn(
                node,
                format!(
                    "maxmemory-policy is {policy}: there is no limit now, but with one it may evict a \
                     lock that is held"
                ),
                advice,
            ),
            (Some(policy), _) => Subject::Eviction.fail(
                node,
                format!("maxmemory-policy is {policy}, which may evict a lock that is held"),
                advice,
            ),
        }
    }

    fn memory(&self, info: &str, facts: &ServerFacts) -> Option<Check> {
        let used: u64 = field(info, "used_memory")?.parse().ok()?;
        let (node, mib) =
            (&self.node, |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1_048_576.0));
        if facts.maxmemory == 0 {
            return Some(Subject::Memory.ok(node, format!("{} used, no limit", mib(used))));
        }
        let percent = u128::from(used) * 100 / u128::from(facts.maxmemory);
        let found = format!("{} of {} used ({percent} %)", mib(used), mib(facts.maxmemory));
        Some(if percent < u128::from(MEMORY_PERCENT_MAX) {
            Subject::Memory.ok(node, found)
        } else {
            Subject::Memory.warn(
                node,
                format!("{found}: when it is full, nothing more is granted"),
                "raise maxmemory, or give locks a server of their own",
            )
        })
    }
}

const ADVICE: &str = "CONFIG SET appendonly yes, and the same in its configuration file";
