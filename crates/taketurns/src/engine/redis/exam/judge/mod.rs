//! Judges a server by its replies. Pure: it sends no request.

mod disk;
mod safety;
#[cfg(test)]
mod tests;
mod time;

use super::gather::{Answers, ExaminedServer, ServerPart};
use crate::doctor::{Check, Subject};
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::facts::{Role, ServerFacts, ServerFlavor, field};
use crate::engine::redis::handshake::requirements::{
    Placement, Warning, following, misplaced, too_old,
};
use crate::engine::redis::url::{ModuleUse, RedisConfig};

pub(crate) use time::ClockReference;
pub(super) use time::ahead_ms;

/// One server of a store, and what was seen of it.
struct Case<'a> {
    config: &'a RedisConfig,
    server: &'a ExaminedServer,
    answers: &'a Answers,
    node: String,
}

/// All that there is to say of a server.
pub(super) fn judge(
    config: &RedisConfig,
    server: &ExaminedServer,
    against: ClockReference,
) -> Vec<Check> {
    let node = server.address.to_string();
    let answers = match &server.answers {
        Ok(answers) => answers,
        Err(failure) => return vec![unreachable(&node, failure)],
    };
    let case = Case { config, server, answers, node };
    let mut checks = vec![Subject::Reachable.ok(&case.node, "it answers")];
    checks.extend(case.database());
    checks.extend(case.safety());
    match (&answers.info, &answers.facts) {
        (Err(failure), _) => {
            let found = failure.clone().said();
            checks.push(Subject::Info.fail(&case.node, found, "allow it: +info"));
        }
        (Ok(_), None) => checks.push(Subject::Info.fail(
            &case.node,
            "it sent a malformed reply to INFO",
            "is it Redis or Valkey, and no proxy in front of one?",
        )),
        (Ok(info), Some(facts)) => {
            checks.extend(case.kind(facts));
            checks.extend(case.disk(info, facts));
            checks.push(case.module(info));
            checks.extend(case.quarantine(facts));
        }
    }
    checks.extend(case.connection());
    checks.extend(case.time(against));
    checks
}

fn unreachable(node: &str, failure: &Failure) -> Check {
    let advice = match failure {
        Failure::Broken(_) | Failure::NoCommand(_) => {
            "correct the URL, or the user, the password or the certificates that it names"
        }
        _ => "start it, or correct host and port in the URL; is there a firewall in between?",
    };
    Subject::Reachable.fail(node, failure.clone().said(), advice)
}

impl Case<'_> {
    fn database(&self) -> Option<Check> {
        let db = self.config.db;
        match &self.answers.database {
            Ok(()) if db == 0 => None,
            Ok(()) => Some(Subject::Database.ok(&self.node, format!("{db} is there"))),
            Err(failure) => Some(Subject::Database.fail(
                &self.node,
                failure.clone().said(),
                "name a database that it has at the end of the URL, or raise its `databases`",
            )),
        }
    }

    /// Which server it is, and whether that is the one that is wanted.
    fn kind(&self, facts: &ServerFacts) -> Vec<Check> {
        let node = &self.node;
        let (major, minor, patch) = facts.version;
        let flavor = match facts.flavor {
            ServerFlavor::Redis => "Redis",
            ServerFlavor::Valkey => "Valkey",
        };
        let version = match too_old(facts) {
            None => Subject::Version.ok(node, format!("{flavor} {major}.{minor}.{patch}")),
            Some(fault) => Subject::Version.fail(node, format!("it {}", fault.what), fault.remedy),
        };
        let placement = Placement::of(&self.config.servers);
        let mode = match misplaced(facts, placement) {
            None if facts.cluster_enabled => Subject::Mode.ok(node, "part of a Cluster"),
            None => Subject::Mode.ok(node, "a server of its own"),
            Some(fault) => Subject::Mode.fail(node, format!("it {}", fault.what), fault.remedy),
        };
        let mut checks = vec![version, mode, self.role(facts)];
        checks.push(match facts.loading {
            false => Subject::Loading.ok(node, "its data is loaded"),
            true => Subject::Loading.fail(
                node,
                "it is still loading its data, and answers nothing else until that is done",
                "wait; INFO persistence says how far it is (loading_eta_seconds)",
            ),
        });
        checks
    }

    fn role(&self, facts: &ServerFacts) -> Check {
        let node = &self.node;
        match (self.server.part, &facts.role, following(facts)) {
            (ServerPart::Replica, Role::Replica { of }, _) => {
                Subject::Role.ok(node, format!("a replica of {of}"))
            }
            (ServerPart::Replica, Role::Master, _) => Subject::Role.warn(
                node,
                "it should be a replica, and takes itself for a master",
                "if no fail-over is under way: REPLICAOF the master",
            ),
            (_, _, Some(fault)) => {
                Subject::Role.fail(node, format!("it {}", fault.what), fault.remedy)
            }
            (_, _, None) => Subject::Role.ok(node, "a master"),
        }
    }

    /// What becomes of the connections of clients.
    fn connection(&self) -> Vec<Check> {
        let node = &self.node;
        let resp3 = match self.answers.resp3 {
            true => Subject::Resp3.ok(node, "one connection does for commands and wake-ups"),
            false => Subject::Resp3.warn(
                node,
                Warning::NoResp3.to_string(),
                "let the proxy in front of it, or the user, do HELLO 3",
            ),
        };
        let Some(settings) = &self.answers.settings else {
            let found = "this user may not ask for them (CONFIG GET), so what they say of the disk and \
                         of idle connections was not looked at";
            return vec![resp3, Subject::Settings.ok(node, found)];
        };
        let seconds = settings.get("timeout").map_or("0", String::as_str);
        // Who is subscribed is never closed, and in RESP3 that is the connection for commands too.
        let closes = !self.answers.resp3 || self.config.is_cluster();
        let idle = match seconds {
            "0" => Subject::Idle.ok(node, "idle connections stay open"),
            _ if !closes => Subject::Idle
                .ok(node, format!("closed after {seconds} s, but not ours: it listens")),
            _ => Subject::Idle.warn(
                node,
                format!(
                    "idle connections are closed after {seconds} s: the next acquire has to connect"
                ),
                "CONFIG SET timeout 0",
            ),
        };
        vec![resp3, idle]
    }

    /// The module: is it there, how was it loaded, and may we use it?
    fn module(&self, info: &str) -> Check {
        let (node, native) = (&self.node, self.config.native);
        let Some(failover) = field(info, "fencelock_failover") else {
            return match native {
                ModuleUse::Required => Subject::Module.fail(
                    node,
                    "it is not loaded, and the URL says module=required",
                    "MODULE LOAD it, on replicas first; or leave module=required out",
                ),
                _ => Subject::Module.ok(node, "not loaded: scripts do it"),
            };
        };
        let version = info.lines().find_map(|line| {
            line.strip_prefix("module:name=fencelock,")?.strip_prefix("ver=")?.split(',').next()
        });
        let max_lease_s =
            field(info, "fencelock_max_lease_ms").and_then(|ms| ms.parse::<u64>().ok());
        let found = format!(
            "version {}, failover {failover}, leases of other clients up to {} s",
            version.unwrap_or("?"),
            max_lease_s.unwrap_or_default() / 1_000
        );
        let missing = match &self.answers.rights {
            Ok(rights) => rights.module_missing.as_slice(),
            Err(_) => &[],
        };
        match (native, missing) {
            (ModuleUse::Off, _) => {
                Subject::Module.ok(node, format!("{found}; not used (module=off)"))
            }
            (_, []) => Subject::Module.ok(node, found),
            (native, missing) => {
                let found = format!("{found}; this user may not use it");
                let advice = format!("allow it: +{}", missing.join(" +"));
                match native {
                    ModuleUse::Required => Subject::Module.fail(node, found, advice),
                    _ => Subject::Module.warn(node, found, advice),
                }
            }
        }
    }
}
