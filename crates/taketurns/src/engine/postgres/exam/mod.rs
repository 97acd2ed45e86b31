//! Is a PostgreSQL fit to hold locks? Looks at each host of the URL, and judges what was seen.
//!
//! Connecting stops at the first thing that is wrong; here each is looked at by itself. Nothing is written: no table, no
//! marker. A message to this client itself shows whether wake-ups arrive.

mod judge;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::Row;

use super::OpenPostgres;
use super::failure::before_commit;
use super::session::{ClientTasks, PgSession, PostgresConnector, PostgresFacts};
use super::statements;
use super::url::{PostgresConfig, PostgresHost};
use crate::Error;
use crate::clock::local_us;
use crate::doctor::{ALL, Report, Subject};
use crate::engine::{Clock, EngineError};
use judge::judge;

/// All that one host is asked.
const HOST_WITHIN: Duration = Duration::from_secs(15);
const ROUND_TRIPS: usize = 20;

/// A host, and what was seen of it.
struct ExaminedHost {
    host: PostgresHost,
    facts: Result<HostFacts, EngineError>,
}

/// What a server says. An inner error is what it says instead.
struct HostFacts {
    server: PostgresFacts,
    /// Version of the tables; `None` if there are none.
    tables: Result<Option<i32>, EngineError>,
    may_create: bool,
    /// `table: RIGHT`
    missing_rights: Vec<String>,
    storage: Option<StorageFacts>,
    settings: SettingFacts,
    /// Does the marker name this server, and until when is nothing granted?
    marker: Option<(bool, i64)>,
    now_ms: i64,
    trips: Vec<RoundTrip>,
    /// Whether a message to oneself arrives over another connection; `None` on a standby.
    is_woken: Option<bool>,
}

struct StorageFacts {
    locks: i64,
    bytes: i64,
    dead_rows: i64,
    live_rows: i64,
    /// The oldest transaction that keeps dead rows from being removed, in seconds.
    oldest_snapshot_s: f64,
}

struct SettingFacts {
    fsync: String,
    full_page_writes: String,
    standby_names: String,
    standbys: i64,
    synchronous_standbys: i64,
    statement_timeout: String,
    idle_session_timeout: String,
}

struct RoundTrip {
    sent_ms: u64,
    took: Duration,
    server_ms: i64,
}

/// Looks at the store of a URL.
pub(crate) async fn examine(url: &str) -> Result<Report, Error> {
    let config = OpenPostgres::new(url)?.config;
    let place = place(&config);
    let connector = match PostgresConnector::new(Arc::new(config), ClientTasks::default()) {
        Ok(connector) => connector,
        Err(error) => {
            let advice = "correct what the URL says of certificates (ca=, cert=, key=)";
            let checks = vec![Subject::Reachable.fail(ALL, error.to_string(), advice)];
            return Ok(Report::new(place, false, checks));
        }
    };
    let mut hosts = Vec::new();
    for host in &connector.config.hosts {
        let late = || EngineError::Unreachable("it does not answer in time".to_owned());
        let limit = connector.config.timeouts.stretch(HOST_WITHIN);
        let looked = timeout(limit, look_at(&connector, host)).await;
        let facts = looked.unwrap_or_else(|_| Err(late()));
        hosts.push(ExaminedHost { host: host.clone(), facts });
    }
    let reached = hosts.iter().any(|host| host.facts.is_ok());
    Ok(Report::new(place, reached, judge(&connector.config, &hosts)))
}

/// The hosts and the database, without secrets.
fn place(config: &PostgresConfig) -> String {
    let hosts: Vec<String> = config.hosts.iter().map(ToString::to_string).collect();
    format!("postgres://{}/{}", hosts.join(","), config.database.as_deref().unwrap_or_default())
}

async fn look_at(
    connector: &PostgresConnector,
    host: &PostgresHost,
) -> Result<HostFacts, EngineError> {
    let session = connector.connect_to(host, Arc::new(|_: &str| ())).await?;
    let is_primary = !session.facts.in_recovery;
    let tables = super::schema::read_store(&session).await;
    let has_tables = matches!(tables, Ok(Some(_)) | Err(_));
    let may_create = flag(&session, MAY_CREATE).await;
    let missing_rights = if has_tables { missing_rights(&session).await } else { Vec::new() };
    let storage = if has_tables { storage(&session).await } else { None };
    let marker = if has_tables && is_primary { marker(&session).await } else { None };
    let settings = settings(&session).await?;
    let trips = trips(&session).await?;
    let is_woken = if is_primary { Some(is_woken(connector, host, &session).await) } else { None };
    let now_ms = trips.last().map_or(0, |trip| trip.server_ms);
    let server = session.facts.clone();
    session.end();
    Ok(HostFacts {
        server,
        tables: tables.map(|store| store.map(|(version, _)| version)),
        may_create,
        missing_rights,
        storage,
        settings,
        marker,
        now_ms,
        trips,
        is_woken,
    })
}

const MAY_CREATE: &str = "SELECT has_database_privilege(current_database(), 'CREATE')";

/// The rights that clients need, table by table.
const MISSING_RIGHTS: &str = "SELECT w.name || ': ' || w.wanted FROM (VALUES \
     ('store', 'SELECT'), ('store', 'UPDATE'), \
     ('lock', 'SELECT'), ('lock', 'INSERT'), ('lock', 'UPDATE'), ('lock', 'DELETE'), \
     ('place', 'SELECT'), ('place', 'INSERT'), ('place', 'UPDATE'), ('place', 'DELETE'), \
     ('notice', 'SELECT'), ('notice', 'INSERT'), ('notice', 'DELETE'), \
     ('marker', 'SELECT'), ('marker', 'INSERT'), ('marker', 'UPDATE'), \
     ('fence', 'SELECT'), ('fence', 'INSERT'), ('fence', 'UPDATE'), ('fence', 'DELETE')) AS w (name, wanted) \
     JOIN pg_class c ON c.relname = w.name JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'taketurns' \
     WHERE NOT has_table_privilege(c.oid, w.wanted) \
     UNION ALL SELECT 'schema: USAGE' FROM pg_namespace WHERE nspname = 'taketurns' AND NOT has_schema_privilege(oid, 'USAGE')";

const STORAGE: &str = "SELECT (SELECT count(*) FROM taketurns.lock), pg_total_relation_size('taketurns.lock'), \
     coalesce(n_dead_tup, 0), coalesce(n_live_tup, 0), \
     (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity \
      WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()) \
     FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid WHERE c.oid = 'taketurns.lock'::regclass";

const SETTINGS: &str = "SELECT current_setting('fsync'), current_setting('full_page_writes'), \
     current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication), \
     (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')), \
     current_setting('statement_timeout'), coalesce(current_setting('idle_session_timeout', true), '0')";

async fn flag(session: &PgSession, sql: &str) -> bool {
    let row = session.client.query_typed_one(sql, &[]).await;
    row.and_then(|row| row.try_get(0)).unwrap_or(false)
}

async fn missing_rights(session: &PgSession) -> Vec<String> {
    let rows = session.client.query_typed(MISSING_RIGHTS, &[]).await.unwrap_or_default();
    rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
}

async fn storage(session: &PgSession) -> Option<StorageFacts> {
    let row = session.client.query_typed_one(STORAGE, &[]).await.ok()?;
    let read = |row: &Row| -> Result<StorageFacts, tokio_postgres::Error> {
        Ok(StorageFacts {
            locks: row.try_get(0)?,
            bytes: row.try_get(1)?,
            dead_rows: row.try_get(2)?,
            live_rows: row.try_get(3)?,
            oldest_snapshot_s: row.try_get(4)?,
        })
    };
    read(&row).ok()
}

async fn marker(session: &PgSession) -> Option<(bool, i64)> {
    let row = session.client.query_typed_opt(statements::MARKER, &[]).await.ok()?;
    match row {
        None => Some((false, 0)),
        Some(row) => Some((row.try_get(0).ok()?, row.try_get(1).ok()?)),
    }
}

async fn settings(session: &PgSession) -> Result<SettingFacts, EngineError> {
    let row = session.client.query_typed_one(SETTINGS, &[]).await;
    let read = |row: Row| -> Result<SettingFacts, tokio_postgres::Error> {
        Ok(SettingFacts {
            fsync: row.try_get(0)?,
            full_page_writes: row.try_get(1)?,
            standby_names: row.try_get(2)?,
            standbys: row.try_get(3)?,
            synchronous_standbys: row.try_get(4)?,
            statement_timeout: row.try_get(5)?,
            idle_session_timeout: row.try_get(6)?,
        })
    };
    row.and_then(read).map_err(|error| before_commit(&error))
}

async fn trips(session: &PgSession) -> Result<Vec<RoundTrip>, EngineError> {
    let mut trips = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let (sent_ms, sent) = (Clock::System.now().wall_us / 1_000, Instant::now());
        let row = session.client.query_typed_one(statements::TIME, &[]).await;
        let server_ms =
            row.and_then(|row| row.try_get(0)).map_err(|error| before_commit(&error))?;
        trips.push(RoundTrip { sent_ms, took: sent.elapsed(), server_ms });
    }
    Ok(trips)
}

/// Sends a message from one connection to another, where clients listen.
async fn is_woken(connector: &PostgresConnector, host: &PostgresHost, sender: &PgSession) -> bool {
    let channel = format!("taketurns_doctor_{:016x}", local_us());
    let arrived = Arc::new(Notify::new());
    let note = arrived.clone();
    let on_notice = Arc::new(move |_: &str| note.notify_one());
    let listener = match &connector.config.listen {
        None => connector.connect_to(host, on_notice).await,
        Some(config) => {
            match PostgresConnector::new(Arc::new((**config).clone()), ClientTasks::default()) {
                Ok(direct) => direct.connect(on_notice, false).await,
                Err(error) => Err(error),
            }
        }
    };
    let Ok(listener) = listener else { return false };
    let listening = listener.client.batch_execute(&format!("LISTEN {channel}")).await;
    // It does not wait for a standby, which may be gone.
    let notify =
        format!("{}; NOTIFY {channel}, 'probe'; {}", statements::BEGIN_NOTIFY, statements::COMMIT);
    let sent = sender.client.batch_execute(&notify).await;
    let is_sent = listening.and(sent).is_ok();
    let response = connector.config.timeouts.response;
    let is_woken = is_sent && timeout(response, arrived.notified()).await.is_ok();
    listener.end();
    is_woken
}
