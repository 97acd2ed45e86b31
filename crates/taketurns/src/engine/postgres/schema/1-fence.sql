-- Fenced transactions: the newest grant of each lock, for transactions that must not commit after it.
--
-- What a step of the engine does here: if it grants a lock that one holder has alone (a mutex, a writer, a member of a
-- pool), or grants it to readers or a semaphore's holders, it sets the row of the lock, or of the pool's member, to the
-- token of its newest grant, in the step's own transaction. It never lowers a token. No other step touches the row: not
-- a renewal, not a waiter, not a release. Forgetting a lock removes its rows.
--
-- So no transaction with token t may commit once the row has a token greater than t. A grant of several tokens at once
-- (local turns) writes the first of them: the later ones are greater, and valid.
CREATE TABLE taketurns.fence (
    name      text COLLATE "C" NOT NULL,
    member    text COLLATE "C" NOT NULL,  -- of a pool; empty otherwise
    token     bigint NOT NULL,
    exclusive boolean NOT NULL,           -- false: granted to readers or by a semaphore, which no fence protects
    PRIMARY KEY (name, member)
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

-- The fences of transactions that have not ended: a row each, until the commit. Unlogged, since no transaction
-- outlives a crash.
CREATE UNLOGGED TABLE taketurns.fenced (
    transaction xid8 NOT NULL,
    name        text COLLATE "C" NOT NULL,
    member      text COLLATE "C" NOT NULL,
    token       bigint NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX fenced_of_transaction ON taketurns.fenced (transaction);

-- Fails unless the token is of the newest grant. A grant of several tokens is known by its first one, and has no more
-- than 10000 (limits::LOCAL_TURNS_MAX).
CREATE FUNCTION taketurns.refuse_stale(
    name text, member text, token bigint, newest bigint, exclusive boolean
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    which text := name || CASE WHEN member = '' THEN '' ELSE ' (member ' || member || ')' END;
BEGIN
    CASE
        WHEN name IS NULL OR member IS NULL OR token IS NULL THEN
            RAISE EXCEPTION 'a fence needs the name of a lock and the token of its holder, not NULL'
                USING ERRCODE = 'TT002';
        WHEN newest IS NULL THEN
            RAISE EXCEPTION 'no lock % was granted in this database, or it was forgotten since', which
                USING ERRCODE = 'TT002',
                HINT = 'A fence works for locks whose store is this database. A pool''s holder names its member.';
        WHEN NOT exclusive THEN
            RAISE EXCEPTION 'lock % is held by readers or as a semaphore, which no fence protects', which
                USING ERRCODE = 'TT003', HINT = 'Acquire it as a mutex, as a writer or as a pool.';
        WHEN token < newest THEN
            RAISE EXCEPTION 'token % of lock % is stale: token % was granted since', token, which, newest
                USING ERRCODE = 'TT001', HINT = 'Roll back, and acquire the lock again.';
        WHEN token - newest >= 10000 THEN
            RAISE EXCEPTION 'token % of lock % was not granted, or not before this transaction began', token, which
                USING ERRCODE = 'TT002', DETAIL = 'The newest token is ' || newest || '.';
        ELSE NULL;
    END CASE;
END $$;

-- Lets the transaction that calls it commit only if no newer token of this lock is granted before. It waits for nobody
-- and blocks nobody: what it compares now only saves the work of a transaction that is stale already, and the commit
-- compares again.
CREATE FUNCTION taketurns.fence(name text, token bigint, member text DEFAULT '') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest bigint;
    exclusive boolean;
BEGIN
    SELECT f.token, f.exclusive INTO newest, exclusive
    FROM taketurns.fence AS f WHERE f.name = fence.name AND f.member = fence.member;
    PERFORM taketurns.refuse_stale(name, member, token, newest, exclusive);
    INSERT INTO taketurns.fenced VALUES (pg_current_xact_id(), name, member, token);
END $$;

-- Runs at COMMIT, once for all fences of the transaction. The share lock keeps a grant waiting until the commit is
-- over. Then the grant is the later one, and its holder sees what was committed. If the grant is first, this waits for
-- it and reads the new token. At the stricter isolation levels that read is a serialization failure.
--
-- Locks are taken in the order in which a batch of the engine takes them, or two could wait for each other.
--
-- The second and later turns of a grant (local turns) have tokens that are greater than its own. The first of their
-- commits raises the token of the row, so that an earlier turn is refused from then on.
CREATE FUNCTION taketurns.check_fenced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fenced record;
    newest bigint;
    exclusive boolean;
BEGIN
    FOR fenced IN
        SELECT f.name, f.member, min(f.token) AS lowest, max(f.token) AS highest
        FROM taketurns.fenced AS f WHERE f.transaction = pg_current_xact_id()
        GROUP BY f.name, f.member ORDER BY f.name, f.member
    LOOP
        UPDATE taketurns.fence AS f SET token = fenced.highest
        WHERE f.name = fenced.name AND f.member = fenced.member AND f.exclusive
            AND f.token < fenced.highest AND fenced.highest - f.token < 10000;
        SELECT f.token, f.exclusive INTO newest, exclusive
        FROM taketurns.fence AS f WHERE f.name = fenced.name AND f.member = fenced.member
        FOR SHARE;
        PERFORM taketurns.refuse_stale(fenced.name, fenced.member, fenced.lowest, newest, exclusive);
    END LOOP;
    DELETE FROM taketurns.fenced AS f WHERE f.transaction = pg_current_xact_id();
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER check_at_commit AFTER INSERT ON taketurns.fenced
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION taketurns.check_fenced();
-- Also in a session that replays changes of another server, which fires no ordinary triggers.
ALTER TABLE taketurns.fenced ENABLE ALWAYS TRIGGER check_at_commit;

-- The right to use the schema gives a role the right to fence its transactions, and no more.
REVOKE ALL ON FUNCTION taketurns.refuse_stale FROM PUBLIC;
REVOKE ALL ON FUNCTION taketurns.check_fenced FROM PUBLIC;
