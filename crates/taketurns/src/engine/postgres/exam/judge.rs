//! Judges servers by what was seen of them. Pure: it asks nothing.

use std::time::Duration;

use super::super::schema;
use super::super::session::{VERSION_MIN, refusal};
use super::super::url::{PostgresConfig, PostgresFailover, PostgresHost};
use super::{ExaminedHost, HostFacts, RoundTrip};
use crate::clock::millis;
use crate::doctor::{ALL, Check, Subject};
use crate::engine::EngineError;

/// Tokens are floored by the server's clock, so a promoted standby outdoes them only as far as clocks agree.
const OFF_MS_MAX: u64 = 2_000;
/// A transaction that is open for longer keeps the dead rows of every step.
const SNAPSHOT_S_MAX: f64 = 60.0;
/// From then on reading a row takes noticeably longer.
const DEAD_ROWS_MAX: i64 = 10_000;

/// All that there is to say.
pub(super) fn judge(config: &PostgresConfig, hosts: &[ExaminedHost]) -> Vec<Check> {
    let mut checks = Vec::new();
    let is_alone = hosts.len() == 1;
    for ExaminedHost { host, facts } in hosts {
        let node = host.to_string();
        match facts {
            Err(error) => checks.push(unreachable(&node, error)),
            Ok(facts) => {
                let case = HostCase { config, host, facts, node };
                checks.push(Subject::Reachable.ok(&case.node, "it answers"));
                checks.extend(case.connection());
                checks.extend(case.server(is_alone));
                if !facts.server.in_recovery {
                    checks.extend(case.tables());
                    checks.extend(case.storage());
                    checks.extend(case.safety());
                    checks.push(case.wake_ups());
                }
                checks.extend(case.time());
            }
        }
    }
    let is_primary =
        |host: &ExaminedHost| host.facts.as_ref().is_ok_and(|facts| !facts.server.in_recovery);
    if !is_alone {
        checks.push(match hosts.iter().filter(|host| is_primary(host)).count() {
            1 => Subject::Agreement.ok(ALL, "one host takes writes"),
            0 => Subject::Agreement.fail(
                ALL,
                "no host takes writes: nothing can be acquired or renewed",
                "promote one of them",
            ),
            count => Subject::Agreement.fail(
                ALL,
                format!("{count} hosts take writes: each grants the same locks"),
                "stop those that are no primary any more; see docs/postgres.md",
            ),
        });
    }
    checks
}

fn unreachable(node: &str, error: &EngineError) -> Check {
    let advice = match error {
        EngineError::Broken(_) => {
            "correct the URL, or the user, the password or the certificates that it names, or pg_hba.conf"
        }
        _ => "start it, or correct host and port in the URL; is there a firewall in between?",
    };
    Subject::Reachable.fail(node, error.to_string(), advice)
}

/// One server, and what was seen of it.
struct HostCase<'a> {
    config: &'a PostgresConfig,
    host: &'a PostgresHost,
    facts: &'a HostFacts,
    node: String,
}

impl HostCase<'_> {
    fn connection(&self) -> Option<Check> {
        let is_local = match self.host {
            PostgresHost::Socket(..) => true,
            PostgresHost::Tcp(address) => {
                address.host == "localhost"
                    || address.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        };
        Some(match (self.config.tls.is_some(), is_local) {
            (true, _) => Subject::Tls.ok(&self.node, "encrypted"),
            (false, true) => {
                Subject::Tls.ok(&self.node, "none, and it does not leave this machine")
            }
            (false, false) => Subject::Tls.warn(
                &self.node,
                "none: owners of locks can be read on the way",
                "sslmode=verify-full in the URL, and ca= for a certificate of your own",
            ),
        })
    }

    fn server(&self, is_alone: bool) -> Vec<Check> {
        let (node, server) = (&self.node, &self.facts.server);
        let version = format!("PostgreSQL {}.{}", server.version / 10_000, server.version % 10_000);
        let version = if server.version < VERSION_MIN {
            let min = VERSION_MIN / 10_000;
            Subject::Version.fail(node, format!("{version}, and {min} is needed"), "update it")
        } else {
            Subject::Version.ok(node, version)
        };
        let role = match (server.in_recovery, is_alone) {
            (false, _) => Subject::Role.ok(node, "a primary: it takes writes"),
            (true, false) => {
                Subject::Role.ok(node, "a standby, which takes over if it is promoted")
            }
            (true, true) => Subject::Role.fail(
                node,
                "a standby: it takes no writes",
                "name the primary, or all hosts: postgres://a,b/database",
            ),
        };
        let encoding = &server.encoding;
        let database = match refusal(server) {
            Some(_) if encoding != "UTF8" => Subject::Database.fail(
                node,
                format!("{} has the encoding {encoding}", server.database),
                "use a database with UTF8, since a name may have any character",
            ),
            _ => Subject::Database.ok(node, format!("{}, as {}", server.database, server.user)),
        };
        vec![version, role, database]
    }

    fn tables(&self) -> Vec<Check> {
        let (node, version) = (&self.node, schema::VERSION);
        let format = match &self.facts.tables {
            Ok(Some(found)) if *found == version => Subject::Format.ok(node, format!("version {found}")),
            Ok(Some(found)) if *found < version => Subject::Format.warn(
                node,
                format!("version {found}, and this release has {version}: the next connect changes the tables"),
                "update all programs first",
            ),
            Ok(Some(found)) => Subject::Format.fail(
                node,
                format!("version {found}, and this release knows {version}"),
                "use a newer release, the same one everywhere",
            ),
            Ok(None) if self.facts.may_create => {
                Subject::Format.ok(node, "not there yet: the first client makes them")
            }
            Ok(None) => Subject::Format.fail(
                node,
                "not there, and this user may not make them",
                "as a user who may: taketurns schema postgres | psql",
            ),
            Err(error) => Subject::Format.fail(
                node,
                error.to_string(),
                "compare them with taketurns schema postgres",
            ),
        };
        let missing = &self.facts.missing_rights;
        let rights = match missing.as_slice() {
            [] => Subject::Rights.ok(node, "all that are needed"),
            _ => Subject::Rights.fail(
                node,
                format!("missing: {}", missing.join(", ")),
                "GRANT them: see docs/postgres.md",
            ),
        };
        vec![format, rights]
    }

    fn storage(&self) -> Vec<Check> {
        let Some(storage) = &self.facts.storage else { return Vec::new() };
        let node = &self.node;
        let kib = storage.bytes / 1_024;
        let locks = Subject::Locks.ok(node, format!("{}, in {kib} KiB", storage.locks));
        let found =
            format!("{} dead rows beside {} live ones", storage.dead_rows, storage.live_rows);
        let bloat = match storage.dead_rows {
            ..DEAD_ROWS_MAX => Subject::Bloat.ok(node, found),
            _ => Subject::Bloat.warn(
                node,
                format!("{found}: each step reads past them"),
                "is autovacuum on, and no old snapshot open? VACUUM taketurns.lock",
            ),
        };
        let age_s = storage.oldest_snapshot_s;
        let snapshot = if age_s < SNAPSHOT_S_MAX {
            Subject::Snapshot.ok(node, "no transaction is old")
        } else {
            Subject::Snapshot.warn(
                node,
                format!("a transaction is open for {age_s:.0} s: no dead row can be removed meanwhile"),
                "see xact_start in pg_stat_activity; idle_in_transaction_session_timeout ends forgotten ones",
            )
        };
        vec![locks, bloat, snapshot]
    }

    fn safety(&self) -> Vec<Check> {
        let (node, settings) = (&self.node, &self.facts.settings);
        let mut checks = vec![self.commit(), self.quarantine()];
        checks.push(match (settings.fsync.as_str(), settings.full_page_writes.as_str()) {
            ("on", "on") => Subject::Persistence.ok(node, "fsync and full_page_writes are on"),
            (fsync, pages) => Subject::Persistence.warn(
                node,
                format!(
                    "fsync is {fsync}, full_page_writes {pages}: a power cut may damage all tables"
                ),
                "turn both on",
            ),
        });
        let is_off = |setting: &str| setting == "0";
        checks.push(match (is_off(&settings.statement_timeout), is_off(&settings.idle_session_timeout)) {
            (_, true) => Subject::Timeouts.ok(
                node,
                "the server does not end idle connections; steps set their own timeouts",
            ),
            (_, false) => Subject::Timeouts.warn(
                node,
                format!(
                    "idle_session_timeout is {}: a client that waits longer without a message connects again",
                    settings.idle_session_timeout
                ),
                "ALTER ROLE … SET idle_session_timeout = 0 for the users of locks",
            ),
        });
        checks
    }

    fn commit(&self) -> Check {
        let (node, settings) = (&self.node, &self.facts.settings);
        let names = &settings.standby_names;
        let standbys = format!(
            "{} standbys, {} of them synchronous",
            settings.standbys, settings.synchronous_standbys
        );
        match self.config.failover {
            PostgresFailover::Synchronous if names.is_empty() => Subject::Commit.fail(
                node,
                format!("failover=synchronous, but synchronous_standby_names is empty ({standbys})"),
                "name the standbys there, or leave failover=synchronous out of the URL",
            ),
            PostgresFailover::Synchronous if settings.synchronous_standbys == 0 => Subject::Commit.warn(
                node,
                format!("no synchronous standby is connected ({standbys}): every COMMIT waits for one"),
                "start the standby; this user may also lack the right to see it (pg_monitor)",
            ),
            PostgresFailover::Synchronous => Subject::Commit.ok(node, standbys),
            _ if self.config.synchronous_commit => {
                Subject::Commit.ok(node, format!("each step waits for the disk; {standbys}"))
            }
            _ => Subject::Commit.ok(
                node,
                format!("no step waits for the disk: a quarantine makes up for lost commits; {standbys}"),
            ),
        }
    }

    fn quarantine(&self) -> Check {
        let node = &self.node;
        if self.config.failover == PostgresFailover::Immediate {
            return Subject::Quarantine.warn(
                node,
                "none, ever (failover=immediate): after a crash or a promotion two may hold a lock, and only the \
                 fencing token protects",
                "leave failover=immediate out of the URL, if that is not meant",
            );
        }
        match self.facts.marker {
            None => Subject::Quarantine.ok(node, "none: nobody has used it yet"),
            Some((false, _)) if self.config.failover == PostgresFailover::Synchronous => {
                Subject::Quarantine.ok(node, "none: failover=synchronous promises that nothing is lost")
            }
            Some((false, _)) => Subject::Quarantine.warn(
                node,
                format!(
                    "the server may have lost commits: nothing will be granted for {} s from the next step on",
                    self.config.max_lease.as_secs()
                ),
                "acquire something once, so that it begins now",
            ),
            Some((true, until_ms)) if until_ms > self.facts.now_ms => Subject::Quarantine.warn(
                node,
                format!(
                    "in force for {} s more: nothing is granted until then",
                    (until_ms - self.facts.now_ms).unsigned_abs().div_ceil(1_000)
                ),
                "wait; those who wait for a lock are granted it then, in their order",
            ),
            Some((true, _)) => Subject::Quarantine.ok(node, "none"),
        }
    }

    fn wake_ups(&self) -> Check {
        match self.facts.is_woken {
            Some(true) | None => Subject::WakeUps.ok(&self.node, "NOTIFY arrives"),
            Some(false) => Subject::WakeUps.warn(
                &self.node,
                "NOTIFY does not arrive: a proxy is in between, so waiters poll, twenty times a second",
                "name the server itself by listen= in the URL",
            ),
        }
    }

    fn time(&self) -> Vec<Check> {
        let trips = &self.facts.trips;
        self.clock(trips).into_iter().chain(self.latency(trips)).collect()
    }

    fn clock(&self, trips: &[RoundTrip]) -> Option<Check> {
        // The quickest answer tells best.
        let best = trips.iter().min_by_key(|trip| trip.took)?;
        let half_ms = millis(best.took / 2);
        let middle_ms = i64::try_from(best.sent_ms.saturating_add(half_ms)).ok()?;
        let off_ms = best.server_ms.saturating_sub(middle_ms);
        let way = if off_ms < 0 { "behind" } else { "ahead of" };
        let off = Duration::from_millis(off_ms.unsigned_abs()).as_secs_f64();
        let found = format!("{off:.3} s {way} ours, give or take {} ms", half_ms + 1);
        if off_ms.unsigned_abs().saturating_sub(half_ms + 1) < OFF_MS_MAX {
            return Some(Subject::Clock.ok(&self.node, found));
        }
        let found = format!(
            "{found}: fencing tokens follow it, and grow after a promotion only as far as clocks agree"
        );
        Some(Subject::Clock.warn(&self.node, found, "run NTP (chrony) on both, and let it slew"))
    }

    fn latency(&self, trips: &[RoundTrip]) -> Option<Check> {
        let mut took: Vec<Duration> = trips.iter().map(|trip| trip.took).collect();
        took.sort_unstable();
        let (median, worst) = (*took.get(took.len() / 2)?, *took.last()?);
        let ms = |took: Duration| took.as_secs_f64() * 1_000.0;
        let (middle, most) = (ms(median), ms(worst));
        let found = format!(
            "{} round trips: {middle:.1} ms in the middle, {most:.1} ms at worst",
            took.len()
        );
        if worst < self.config.timeouts.response / 10 {
            return Some(Subject::Latency.ok(&self.node, found));
        }
        Some(Subject::Latency.warn(
            &self.node,
            format!("{found}; a client gives a server up after response_timeout"),
            "is the server short of CPU, or the network slow?",
        ))
    }
}
