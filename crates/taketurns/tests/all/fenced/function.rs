//! The function by itself: what it admits, what it refuses and when, and whom it holds up.

use taketurns::fence::{SHARED_LOCK, STALE_TOKEN, UNKNOWN_TOKEN};
use tokio_postgres::{Client, Error};

use super::{FencedDatabase, code, column, connected, grant, granted};
use crate::support::patience::{block_on, soon};

/// A transaction with a fence, at an isolation level, up to its commit.
async fn begun(client: &Client, level: &str, fence: &str) -> Result<(), Error> {
    let begin = format!("BEGIN ISOLATION LEVEL {level}; SELECT {fence}");
    client.batch_execute(&begin).await
}

/// The SQLSTATE with which a fence refuses at once.
async fn refused(client: &Client, fence: &str) -> String {
    let error = begun(client, "READ COMMITTED", fence).await.expect_err(fence);
    client.batch_execute("ROLLBACK").await.expect("a connection");
    code(&error).to_owned()
}

#[test]
fn a_transaction_with_the_newest_token_commits_and_one_with_an_older_token_is_refused() {
    let database = FencedDatabase::new();
    block_on(async {
        let client = database.connect().await;
        granted(&client, "a", 1_000_000).await;
        begun(&client, "READ COMMITTED", "taketurns.fence('a', 1000000)").await.expect("valid");
        client.batch_execute("COMMIT").await.expect("valid");
        granted(&client, "a", 2_000_000).await;
        assert_eq!(refused(&client, "taketurns.fence('a', 1000000)").await, STALE_TOKEN);
        let left = column(&client, "SELECT count(*) FROM taketurns.fenced").await;
        assert_eq!(left.expect("a number"), ["0"], "nothing is left of it");
    });
}

#[test]
fn a_commit_is_refused_if_the_lock_was_granted_since_the_fence() {
    let database = FencedDatabase::new();
    block_on(async {
        let (stale, other) = (database.connect().await, database.connect().await);
        let levels = [
            ("READ COMMITTED", STALE_TOKEN),
            ("REPEATABLE READ", "40001"),
            ("SERIALIZABLE", "40001"),
        ];
        for (turn, (level, wanted)) in (1..).zip(levels) {
            let token = turn * 1_000_000;
            granted(&other, "a", token).await;
            begun(&stale, level, &format!("taketurns.fence('a', {token})")).await.expect("valid");
            granted(&other, "a", token + 500_000).await;
            let error = stale.batch_execute("COMMIT").await.expect_err("it is stale");
            assert_eq!(code(&error), wanted, "{level}: {error:?}");
        }
    });
}

#[test]
fn what_was_never_granted_here_has_no_fence() {
    let database = FencedDatabase::new();
    block_on(async {
        let client = database.connect().await;
        granted(&client, "a", 1_000_000).await;
        for unknown in [
            "'b', 1000000",
            "'a', 1010000",
            "'a', NULL",
            "NULL, 1",
            "'a', 1000000, NULL",
            "'a', 1000000, 'm'",
        ] {
            let fence = format!("taketurns.fence({unknown})");
            assert_eq!(refused(&client, &fence).await, UNKNOWN_TOKEN, "{fence}");
        }
    });
}

#[test]
fn a_member_of_a_pool_has_a_fence_of_its_own_and_what_several_hold_has_none() {
    let database = FencedDatabase::new();
    block_on(async {
        let client = database.connect().await;
        let rows = "INSERT INTO taketurns.fence VALUES
                    ('pool', 'm1', 1000000, true), ('pool', 'm2', 2000000, true), ('gpu', '', 5, false)";
        client.batch_execute(rows).await.expect("rows");
        let both = "taketurns.fence('pool', 1000000, 'm1'), taketurns.fence('pool', 2000000, member => 'm2')";
        begun(&client, "READ COMMITTED", both).await.expect("valid");
        client.batch_execute("COMMIT").await.expect("valid");
        assert_eq!(refused(&client, "taketurns.fence('pool', 1000000, 'm2')").await, STALE_TOKEN);
        assert_eq!(refused(&client, "taketurns.fence('gpu', 5)").await, SHARED_LOCK);
    });
}

#[test]
fn an_earlier_turn_of_a_grant_is_refused_once_a_later_turn_has_committed() {
    let database = FencedDatabase::new();
    block_on(async {
        let (first, second) = (database.connect().await, database.connect().await);
        granted(&first, "a", 1_000_000).await;
        begun(&first, "READ COMMITTED", "taketurns.fence('a', 1000000)").await.expect("valid");
        begun(&second, "READ COMMITTED", "taketurns.fence('a', 1000001)").await.expect("valid");
        second.batch_execute("COMMIT").await.expect("the later turn");
        let error = first.batch_execute("COMMIT").await.expect_err("the earlier turn");
        assert_eq!(code(&error), STALE_TOKEN);
    });
}

#[test]
fn a_fence_that_is_checked_early_is_undone_with_its_savepoint_and_checked_again() {
    let database = FencedDatabase::new();
    block_on(async {
        let (client, other) = (database.connect().await, database.connect().await);
        granted(&client, "a", 1_000_000).await;
        begun(&client, "READ COMMITTED", "taketurns.fence('a', 1000000)").await.expect("valid");
        let early = "SAVEPOINT s; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO s";
        client.batch_execute(early).await.expect("valid by now");
        granted(&other, "a", 2_000_000).await;
        let error = client.batch_execute("COMMIT").await.expect_err("it is stale");
        assert_eq!(code(&error), STALE_TOKEN);
    });
}

#[test]
fn the_trigger_runs_also_where_ordinary_triggers_do_not() {
    let database = FencedDatabase::new();
    block_on(async {
        let (client, other) = (database.connect().await, database.connect().await);
        granted(&client, "a", 1_000_000).await;
        client.batch_execute("SET session_replication_role = replica").await.expect("set");
        begun(&client, "READ COMMITTED", "taketurns.fence('a', 1000000)").await.expect("valid");
        granted(&other, "a", 2_000_000).await;
        client.batch_execute("COMMIT").await.expect_err("it is stale");
    });
}

#[test]
fn a_role_that_may_use_the_schema_may_fence_and_do_nothing_else() {
    let database = FencedDatabase::new();
    block_on(async {
        let admin = database.connect().await;
        granted(&admin, "a", 1_000_000).await;
        let role = format!("app_{}", database.0.name());
        let grant = format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA taketurns TO {role}"
        );
        admin.batch_execute(&grant).await.expect("a role");
        let app = connected(&database.0.url_of(&format!("{role}:secret"))).await;
        // A table of its own with the name of ours, in a schema that comes first, is not asked.
        let trap = "CREATE TEMP TABLE fence AS SELECT 'a'::text AS name, '' AS member, 7::bigint AS token, true AS exclusive;
                    SET search_path = pg_temp, public";
        app.batch_execute(trap).await.expect("a table");
        assert_eq!(refused(&app, "taketurns.fence('a', 7)").await, STALE_TOKEN);
        begun(&app, "READ COMMITTED", "taketurns.fence('a', 1000000)").await.expect("valid");
        app.batch_execute("COMMIT").await.expect("valid");
        for forbidden in [
            "SELECT FROM taketurns.fence",
            "DELETE FROM taketurns.fenced",
            "INSERT INTO taketurns.fenced VALUES ('1', 'a', '', 1)",
            "SELECT taketurns.refuse_stale('a', '', 1, 1, true)",
            "SELECT FROM taketurns.lock",
        ] {
            let error = app.batch_execute(forbidden).await.expect_err(forbidden);
            assert_eq!(code(&error), "42501", "{forbidden}: {error:?}");
        }
        drop(app);
        let gone = format!(
            "REVOKE ALL ON SCHEMA taketurns FROM {role}; DROP OWNED BY {role}; DROP ROLE {role}"
        );
        admin.batch_execute(&gone).await.expect("no role");
    });
}

#[test]
fn a_transaction_that_hangs_holds_up_nobody() {
    let database = FencedDatabase::new();
    block_on(async {
        let (hangs, other) = (database.connect().await, database.connect().await);
        granted(&hangs, "a", 1_000_000).await;
        begun(&hangs, "SERIALIZABLE", "taketurns.fence('a', 1000000)").await.expect("valid");
        // Whatever waits for a lock fails at once.
        other.batch_execute("SET lock_timeout = 1").await.expect("set");
        let renew = "BEGIN; SELECT 1 FROM taketurns.lock WHERE name = 'a' FOR UPDATE;
                     UPDATE taketurns.lock SET state = 'x' WHERE name = 'a'; COMMIT";
        other.batch_execute(renew).await.expect("a renewal does not wait");
        other.batch_execute(&grant("a", 2_000_000).join("; ")).await.expect("nor does a grant");
        begun(&other, "READ COMMITTED", "taketurns.fence('a', 2000000)").await.expect("valid");
        other.batch_execute("COMMIT").await.expect("nor does the next holder's transaction");
        hangs.batch_execute("COMMIT").await.expect_err("it is stale");
    });
}

#[test]
fn a_grant_waits_for_a_commit_that_has_begun_and_comes_after_it() {
    let database = FencedDatabase::new();
    block_on(async {
        let (commits, grants) = (database.connect().await, database.connect().await);
        granted(&commits, "a", 1_000_000).await;
        begun(&commits, "READ COMMITTED", "taketurns.fence('a', 1000000)").await.expect("valid");
        // As at the beginning of a COMMIT, which no client can stop in the middle.
        commits.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.expect("valid");
        let statements = grant("a", 2_000_000).join("; ");
        let waits = tokio::spawn(async move { grants.batch_execute(&statements).await });
        let looks = database.connect().await;
        soon("the grant waits", async {
            let waiting = "SELECT 1 FROM pg_stat_activity
                           WHERE wait_event_type = 'Lock' AND datname = current_database()";
            while column(&looks, waiting).await.expect("a list").is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        commits.batch_execute("COMMIT").await.expect("it is the first");
        soon("the grant", waits).await.expect("no panic").expect("it comes after");
    });
}
