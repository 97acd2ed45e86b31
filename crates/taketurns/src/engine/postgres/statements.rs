//! All SQL of the engine but the tables themselves. Every statement is sent unnamed, with the types of its parameters,
//! so a proxy that gives each transaction another server connection can pass it on.

use std::time::Duration;

/// The server's time in µs, and which clock that is: a promoted standby has another timeline, a restarted server
/// another start. An expression that fails on a standby.
macro_rules! time_and_clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
         left(pg_walfile_name(pg_current_wal_lsn()), 8) \
         || '-' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
    };
}

/// What the marker compares: a copy of the tables elsewhere is another server.
macro_rules! server {
    () => {
        "(SELECT concat_ws(' ', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), \
         'taketurns.lock'::regclass::oid) FROM pg_control_system())"
    };
}

/// What every reading step reads first: time, clock, server, and the marker.
macro_rules! circumstances {
    () => {
        concat!(time_and_clock!(), ", ", server!(), ", m.server, m.since_ms, m.until_ms")
    };
}

/// Begins a step, which may wait for its row as long as for an answer. A client that is stopped in the middle of a step
/// holds up all others at this lock, so its session ends sooner than that. A role may have other defaults for all of
/// these. `statement_timeout` must not cancel a COMMIT: it would be carried out, and only the standby not waited for.
pub(super) fn begin(response: Duration, synchronous_commit: bool) -> String {
    let idle = (response / 4).max(Duration::from_millis(100));
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL statement_timeout = 0; \
         SET LOCAL synchronous_commit = {}",
        response.as_millis(),
        idle.as_millis(),
        if synchronous_commit { "on" } else { "off" },
    )
}

/// The same for what need not wait for a disk: it wakes somebody, and changes nothing.
pub(super) const BEGIN_NOTIFY: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = 0; \
     SET LOCAL synchronous_commit = off";

pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// One lock, or a row without one. The row is locked: see schema/1-steps.sql.
pub(super) const LOAD: &str = "SELECT * FROM taketurns.load($1)";

/// The refreshes of the locks `l`, in the columns after theirs.
macro_rules! places {
    () => {
        " LEFT JOIN LATERAL (SELECT array_agg(client) AS clients, array_agg(seen_ms) AS seen_ms, \
         array_agg(waiter_lease_ms) AS leases_ms FROM taketurns.place WHERE place.name = l.name) p ON true "
    };
}

/// The columns of a lock with its refreshes, as of the function `load`.
macro_rules! lock_and_places {
    () => {
        ", l.name, l.clock, l.state, p.clients, p.seen_ms, p.leases_ms, NULL::text FROM "
    };
}

/// Several locks, each with its own time and its refreshes. A lock that is busy is left out, and asked for by itself.
pub(super) const LOAD_ALL: &str = concat!(
    "WITH l AS MATERIALIZED (SELECT name, clock, state FROM taketurns.lock WHERE name = ANY ($1) \
     ORDER BY name FOR UPDATE SKIP LOCKED) SELECT ",
    circumstances!(),
    lock_and_places!(),
    "l LEFT JOIN taketurns.marker m ON true",
    places!()
);

/// Several locks as they are, with their refreshes, without waiting for any.
pub(super) const LOOK_ALL: &str = concat!(
    "SELECT ",
    circumstances!(),
    lock_and_places!(),
    "taketurns.lock l LEFT JOIN taketurns.marker m ON true",
    places!(),
    "WHERE l.name = ANY ($1)"
);

/// The same of the locks after a name, in the order of their names.
pub(super) const LIST: &str = concat!(
    "SELECT ",
    circumstances!(),
    lock_and_places!(),
    "taketurns.lock l LEFT JOIN taketurns.marker m ON true",
    places!(),
    "WHERE l.name > $1 ORDER BY l.name LIMIT $2"
);

pub(super) const PING: &str = concat!("SELECT ", time_and_clock!());

/// $1 name, $2 where the row is, $3 clock, $4 when it may be forgotten, $5 state. And its grants: $6 members, $7 tokens,
/// $8 which are exclusive. A row if it was written: see schema/1-steps.sql.
pub(super) const SAVE: &str = "SELECT 1 WHERE taketurns.save($1, $2, $3, $4, $5, $6, $7, $8)";

/// Many locks at once: $1 names, $2 clock, $3 states, $4 when they may be forgotten. A row each.
pub(super) const UPDATE_ALL: &str = "UPDATE taketurns.lock l SET clock = $2, state = w.state, forget_at_ms = w.forget_at_ms \
     FROM unnest($1, $3, $4) AS w (name, state, forget_at_ms) WHERE l.name = w.name RETURNING 1";

/// And their grants: $1 names, $2 members, $3 tokens, $4 which are exclusive.
pub(super) const FENCE_ALL: &str = "INSERT INTO taketurns.fence (name, member, token, exclusive) \
     SELECT * FROM unnest($1, $2, $3, $4) ON CONFLICT (name, member) \
     DO UPDATE SET token = excluded.token, exclusive = excluded.exclusive WHERE fence.token < excluded.token";

/// Work that transactions have done, and that its lock does not know of yet: of one lock, and of all.
pub(super) const DONE: &str =
    "SELECT name, token, done_us, result FROM taketurns.fence WHERE name = $1 AND attempt = 'done'";
pub(super) const DONE_ALL: &str =
    "SELECT name, token, done_us, result FROM taketurns.fence WHERE attempt = 'done'";

/// An attempt begins with the grant of its token: $1 name, $2 token.
pub(super) const BEGIN_ATTEMPT: &str =
    "UPDATE taketurns.fence SET attempt = 'open' WHERE name = $1 AND member = '' AND token = $2";

/// An attempt has ended: $1 name, $2 its token, $3 what became of it. Fails with [`DONE_MEANWHILE`] if a transaction has
/// done the work, unless $3 says that it is recorded.
pub(super) const END_ATTEMPT: &str = "UPDATE taketurns.fence SET attempt = $3 \
     WHERE name = $1 AND member = '' AND token = $2 AND attempt IN ('open', 'done')";

/// The SQLSTATE of a step that has not seen that a transaction did the work.
pub(super) const DONE_MEANWHILE: &str = "TT004";

/// A client's refreshes: $1 names, $2 client, $3 times, $4 waiter leases.
pub(super) const REFRESH: &str = "INSERT INTO taketurns.place (name, client, seen_ms, waiter_lease_ms) \
     SELECT r.name, $2, r.seen_ms, r.waiter_lease_ms FROM unnest($1, $3, $4) AS r (name, seen_ms, waiter_lease_ms) \
     ON CONFLICT (name, client) DO UPDATE SET seen_ms = excluded.seen_ms, waiter_lease_ms = excluded.waiter_lease_ms";

/// Messages: $1 clients, $2 time, $3 texts.
pub(super) const WRITE_NOTICES: &str = "INSERT INTO taketurns.notice (client, written_ms, message) \
     SELECT n.client, $2, n.message FROM unnest($1, $3) AS n (client, message)";

/// A client takes its messages.
pub(super) const TAKE_NOTICES: &str =
    "DELETE FROM taketurns.notice WHERE client = $1 RETURNING message";

/// $1 channels, $2 messages.
pub(super) const NOTIFY: &str =
    "SELECT pg_notify(n.channel, n.message) FROM unnest($1, $2) AS n (channel, message)";

/// What is long idle, with its fences. $1 now, $2 how many. A lock does not know yet what a transaction has done.
pub(super) const FORGET: &str = "WITH gone AS (DELETE FROM taketurns.lock WHERE name IN (SELECT name FROM taketurns.lock l \
     WHERE forget_at_ms <= $1 AND NOT EXISTS (SELECT FROM taketurns.fence f WHERE f.name = l.name AND f.attempt = 'done') \
     ORDER BY forget_at_ms LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING name) \
     DELETE FROM taketurns.fence USING gone WHERE fence.name = gone.name";

/// What clients left behind. $1 from when on, $2 until when it may be of use.
pub(super) const FORGET_PLACES: &str =
    "DELETE FROM taketurns.place WHERE seen_ms < $1 OR seen_ms > $2";
pub(super) const FORGET_NOTICES: &str =
    "DELETE FROM taketurns.notice WHERE written_ms < $1 OR written_ms > $2";

/// A server that nobody has verified since it may have lost commits. $1: does it grant nothing for as long as
/// the longest lease? The client that writes first decides.
pub(super) const WRITE_MARKER: &str = concat!(
    "INSERT INTO taketurns.marker (id, server, since_ms, until_ms) SELECT 1, ",
    server!(),
    ", c.now_ms, CASE WHEN $1 THEN c.now_ms + max_lease_ms + 1 ELSE 0 END FROM taketurns.store, \
     (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS c \
     ON CONFLICT (id) DO UPDATE SET server = excluded.server, since_ms = excluded.since_ms, until_ms = excluded.until_ms \
     WHERE marker.server <> excluded.server RETURNING until_ms"
);

/// Does the marker name this server, and until when is nothing granted?
pub(super) const MARKER: &str =
    concat!("SELECT server = ", server!(), ", until_ms FROM taketurns.marker WHERE id = 1");

/// Also of a standby.
pub(super) const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Who is this server, and is it fit?
pub(super) const MEET: &str = "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), \
     current_setting('server_encoding'), current_user::text, current_database()::text";

pub(super) const STORE: &str = "SELECT version, max_lease_ms FROM taketurns.store WHERE id = 1";

/// The longest lease of all clients.
pub(super) const RAISE_MAX_LEASE: &str =
    "UPDATE taketurns.store SET max_lease_ms = $1 WHERE id = 1 AND max_lease_ms < $1";
