-- What a step of one lock reads and writes, as functions: a session plans their statements once, where a statement that
-- a client sends is planned each time. They have the rights of the user who calls them.

-- Locks the row of a lock, and reads it. `lock_name` is null if there is none. Each statement here sees what was
-- committed before it began, so the refreshes and the time are of after the row was locked: the steps of a lock are in
-- the order of their times.
CREATE FUNCTION taketurns.load(
    wanted text,
    OUT now_us bigint,        -- the server's time
    OUT now_clock text,       -- which clock that is: a promoted standby has another timeline, a restarted server another start
    OUT server text,          -- as in `marker`
    OUT marked_server text, OUT marked_since_ms bigint, OUT marked_until_ms bigint,
    OUT lock_name text, OUT lock_clock text, OUT lock_state bytea,
    OUT clients bigint[], OUT seen_ms bigint[], OUT leases_ms bigint[],
    OUT lock_at text          -- where the row is
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT l.name, l.clock, l.state, l.ctid INTO lock_name, lock_clock, lock_state, lock_at
    FROM taketurns.lock AS l WHERE l.name = wanted FOR UPDATE;
    SELECT m.server, m.since_ms, m.until_ms INTO marked_server, marked_since_ms, marked_until_ms
    FROM taketurns.marker AS m WHERE m.id = 1;
    SELECT array_agg(p.client), array_agg(p.seen_ms), array_agg(p.waiter_lease_ms)
    INTO clients, seen_ms, leases_ms FROM taketurns.place AS p WHERE p.name = wanted;
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    -- A refresh from before the clock was set back counts as one of now, but only once: its client may be dead.
    IF now_us / 1000 < ANY (seen_ms) THEN
        UPDATE taketurns.place AS p SET seen_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)
        WHERE p.name = wanted AND p.seen_ms > extract(epoch FROM clock_timestamp()) * 1000;
    END IF;
    now_clock := left(pg_walfile_name(pg_current_wal_lsn()), 8)
        || '-' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
    SELECT concat_ws(
        ' ', c.system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), 'taketurns.lock'::regclass::oid
    ) INTO server FROM pg_control_system() AS c;
END $$;

-- Writes a lock, and its grants: see 1-fence.sql. `at` is where its row is, which this transaction has locked: to find it by
-- its name would mean to read past all dead rows once more. It is null if there was no row. Returns false if nothing
-- was written, because somebody else has made the row meanwhile.
CREATE FUNCTION taketurns.save(
    lock_name text, at text, lock_clock text, forget bigint, lock_state bytea,
    members text[], tokens bigint[], exclusives boolean[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF at IS NULL THEN
        INSERT INTO taketurns.lock AS l (name, clock, forget_at_ms, state)
        VALUES (lock_name, lock_clock, forget, lock_state) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE taketurns.lock AS l SET clock = lock_clock, forget_at_ms = forget, state = lock_state
        WHERE l.ctid = at::tid;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF cardinality(tokens) > 0 THEN
        INSERT INTO taketurns.fence AS f (name, member, token, exclusive)
        SELECT lock_name, g.member, g.token, g.exclusive
        FROM unnest(members, tokens, exclusives) AS g (member, token, exclusive)
        ON CONFLICT (name, member) DO UPDATE SET token = excluded.token, exclusive = excluded.exclusive
        WHERE f.token < excluded.token;
    END IF;
    RETURN true;
END $$;
