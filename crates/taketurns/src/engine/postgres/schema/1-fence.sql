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
