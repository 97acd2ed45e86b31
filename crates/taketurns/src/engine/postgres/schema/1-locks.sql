-- The tables of the PostgreSQL engine, version 1. `taketurns schema postgres` prints them.
--
-- A lock is one row. The client carries out each step of it (core's `Lock::apply`) in one transaction:
--
--   BEGIN; SELECT … FOR UPDATE, and the time   -- the row lock puts the steps in the order of their times
--   UPDATE; COMMIT                             -- the reply is sent to the caller after the COMMIT
--
-- Functions do this: see 1-steps.sql. A step that grants also writes `fence`: see 1-fence.sql.

CREATE SCHEMA taketurns;

-- One row: what all clients of this store must agree on.
CREATE TABLE taketurns.store (
    id           integer PRIMARY KEY CHECK (id = 1),
    version      integer NOT NULL,  -- of these tables and of the stored locks
    max_lease_ms bigint NOT NULL    -- the longest lease that any client may have asked for
);

-- The state is rewritten by every step, so most of a page is left free: an update then stays in its page, and touches
-- no index. Dead rows are removed early, whatever the size of the table.
CREATE TABLE taketurns.lock (
    name         text COLLATE "C" PRIMARY KEY,
    clock        text NOT NULL,   -- the server incarnation whose clock the times in `state` are on
    forget_at_ms bigint,          -- on that clock, rounded up; null: never
    state        bytea NOT NULL   -- a version byte, then core's snapshot, with the secrets of holders and waiters
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX lock_to_forget ON taketurns.lock (forget_at_ms) WHERE forget_at_ms IS NOT NULL;

-- When a waiting client was last seen, if that was after the last step of the lock. A refresh writes here and not to
-- the lock, so it waits for nobody. A step reads this before it counts a waiter as dead.
CREATE UNLOGGED TABLE taketurns.place (
    name            text COLLATE "C" NOT NULL,
    client          bigint NOT NULL,
    seen_ms         bigint NOT NULL,
    waiter_lease_ms bigint NOT NULL,
    PRIMARY KEY (name, client)
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

-- Messages to clients that hold, which do not listen: a broken lock, for instance. Sealed with the owner's secret.
CREATE UNLOGGED TABLE taketurns.notice (
    client     bigint NOT NULL,
    written_ms bigint NOT NULL,
    message    text NOT NULL
);
CREATE INDEX notice_of_client ON taketurns.notice (client);

-- The server that clients have verified. PostgreSQL empties an unlogged table in every recovery: after a crash, an
-- immediate stop, a promotion, a restored backup. Then commits may be lost, and nothing is granted for a while.
CREATE UNLOGGED TABLE taketurns.marker (
    id       integer PRIMARY KEY CHECK (id = 1),
    server   text NOT NULL,   -- system identifier, timeline, and the number of the table of locks
    since_ms bigint NOT NULL, -- when it was written, on the server's clock
    until_ms bigint NOT NULL  -- nothing is granted until then
);

-- Tables that were just made have forgotten nothing.
INSERT INTO taketurns.store VALUES (1, 1, 0);
INSERT INTO taketurns.marker
SELECT 1, concat_ws(
    ' ', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), 'taketurns.lock'::regclass::oid
), 0, 0
FROM pg_control_system();
