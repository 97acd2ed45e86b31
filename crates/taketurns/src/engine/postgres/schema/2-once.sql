-- Work that is done in a transaction, version 2 of the tables: `taketurns.done` records with the commit of a transaction
-- that the work of a once is done. So what the transaction wrote happens exactly once.
--
-- The row of a once in `fence` says what became of its newest attempt:
--
--   open ── the holder's transaction commits ──► done ── the lock's next step takes it over ──► recorded
--     └──── a step ends the attempt ──► recorded or failed
--
-- A commit and a step both change it under the lock of that row, so one of them is first. A commit that is second is
-- refused. A step that is second fails, and the client takes it again: it has not seen that the work is done.
ALTER TABLE taketurns.fence
    ADD COLUMN attempt text CHECK (attempt IN ('open', 'done', 'recorded', 'failed')), -- null: the lock is no once
    ADD COLUMN done_us bigint,                                                         -- when the transaction did it
    ADD COLUMN result  text;                                                           -- what it said of it
CREATE INDEX fence_done ON taketurns.fence (name) WHERE attempt = 'done';

CREATE FUNCTION taketurns.keep_done() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a transaction has done the work of lock %, and the lock does not know it yet', OLD.name
        USING ERRCODE = 'TT004';
END $$;
CREATE TRIGGER keep_done BEFORE UPDATE ON taketurns.fence FOR EACH ROW
WHEN (OLD.attempt = 'done' AND NEW.attempt IS DISTINCT FROM 'recorded') EXECUTE FUNCTION taketurns.keep_done();
CREATE TRIGGER keep_done_row BEFORE DELETE ON taketurns.fence FOR EACH ROW
WHEN (OLD.attempt = 'done') EXECUTE FUNCTION taketurns.keep_done();

-- What the transaction says of the work that it does; null: it is only fenced.
ALTER TABLE taketurns.fenced ADD COLUMN result text;

-- Fails unless the attempt with this token is under way.
CREATE FUNCTION taketurns.refuse_ended(name text, token bigint, newest bigint, attempt text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    CASE
        WHEN attempt IS NULL THEN
            RAISE EXCEPTION 'lock % is not held as a once', name
                USING ERRCODE = 'TT002', HINT = 'Begin an attempt with `taketurns once`, or `begin` of a once.';
        WHEN token <> newest THEN
            RAISE EXCEPTION 'token % of lock % was not granted, or not before this transaction began', token, name
                USING ERRCODE = 'TT002', DETAIL = 'The newest token is ' || newest || '.';
        WHEN attempt IN ('done', 'recorded') THEN
            RAISE EXCEPTION 'the work of lock % was done before, by this attempt', name
                USING ERRCODE = 'TT004', HINT = 'Roll back: what this transaction would do is done.';
        WHEN attempt = 'failed' THEN
            RAISE EXCEPTION 'token % of lock % is stale: its attempt has ended', token, name
                USING ERRCODE = 'TT001', HINT = 'Roll back, and begin another attempt.';
        ELSE NULL;
    END CASE;
END $$;

-- Lets the transaction that calls it commit only while the attempt with this token is under way, and records with the
-- commit that the work is done. Like `fence`, it waits for nobody and blocks nobody before the commit.
CREATE FUNCTION taketurns.done(name text, token bigint, result text DEFAULT '') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest taketurns.fence;
    control text := '[' || chr(1) || '-' || chr(31) || chr(127) || '-' || chr(159) || ']';
BEGIN
    IF result IS NULL OR octet_length(result) > 256 OR result ~ control THEN
        RAISE EXCEPTION 'a result has at most 256 bytes and no control characters' USING ERRCODE = '22023';
    END IF;
    SELECT * INTO newest FROM taketurns.fence AS f WHERE f.name = done.name AND f.member = '';
    PERFORM taketurns.refuse_stale(name, '', token, newest.token, newest.exclusive);
    PERFORM taketurns.refuse_ended(name, token, newest.token, newest.attempt);
    INSERT INTO taketurns.fenced VALUES (pg_current_xact_id(), name, '', token, result);
END $$;

-- As in version 1, and what `done` adds: it takes the row for itself instead of sharing it, and writes.
CREATE OR REPLACE FUNCTION taketurns.check_fenced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fenced record;
    newest taketurns.fence;
BEGIN
    FOR fenced IN
        SELECT f.name, f.member, min(f.token) AS lowest, max(f.token) AS highest, max(f.result) AS result
        FROM taketurns.fenced AS f WHERE f.transaction = pg_current_xact_id()
        GROUP BY f.name, f.member ORDER BY f.name, f.member
    LOOP
        UPDATE taketurns.fence AS f SET token = fenced.highest
        WHERE f.name = fenced.name AND f.member = fenced.member AND f.exclusive
            AND f.token < fenced.highest AND fenced.highest - f.token < 10000;
        IF fenced.result IS NULL THEN
            SELECT * INTO newest FROM taketurns.fence AS f
            WHERE f.name = fenced.name AND f.member = fenced.member FOR SHARE;
        ELSE
            SELECT * INTO newest FROM taketurns.fence AS f
            WHERE f.name = fenced.name AND f.member = fenced.member FOR NO KEY UPDATE;
        END IF;
        PERFORM taketurns.refuse_stale(fenced.name, fenced.member, fenced.lowest, newest.token, newest.exclusive);
        CONTINUE WHEN fenced.result IS NULL;
        PERFORM taketurns.refuse_ended(fenced.name, fenced.lowest, newest.token, newest.attempt);
        UPDATE taketurns.fence AS f
        SET attempt = 'done', result = fenced.result,
            done_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        WHERE f.name = fenced.name AND f.member = '';
    END LOOP;
    DELETE FROM taketurns.fenced AS f WHERE f.transaction = pg_current_xact_id();
    RETURN NULL;
END $$;

-- Who may call `done` decides what is done, so that is a right of its own: GRANT EXECUTE ON FUNCTION taketurns.done.
REVOKE ALL ON FUNCTION taketurns.done FROM PUBLIC;
REVOKE ALL ON FUNCTION taketurns.refuse_ended FROM PUBLIC;

UPDATE taketurns.store SET version = 2;
