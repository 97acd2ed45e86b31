//! Tables of an older release.

use taketurns::{Begun, ErrorKind};
use taketurns_servers::others::PostgresDatabase;

use super::{connect, database, is_refused};

/// The tables as version 1 made them.
const VERSION_1: [&str; 3] = [
    include_str!("../../../src/engine/postgres/schema/1-locks.sql"),
    include_str!("../../../src/engine/postgres/schema/1-fence.sql"),
    include_str!("../../../src/engine/postgres/schema/1-steps.sql"),
];

fn version_1() -> PostgresDatabase<'static> {
    let database = database();
    database.sql(&VERSION_1.join("\n")).expect("the tables");
    database
}

fn version(database: &PostgresDatabase<'_>) -> String {
    database.sql("SELECT version FROM taketurns.store").expect("a row")
}

#[tokio::test]
async fn the_first_client_of_a_newer_release_changes_the_tables_and_keeps_the_locks() {
    let database = version_1();
    let token = 1_700_000_000_000_000_i64;
    let granted = format!("INSERT INTO taketurns.fence VALUES ('l', '', {token}, true)");
    database.sql(&granted).expect("a row");
    let url = database.url();
    let (one, two) = tokio::join!(connect(&url), connect(&url));
    assert_eq!(version(&database), "2");
    assert_eq!(database.sql("SELECT token FROM taketurns.fence").expect("rows"), token.to_string());
    let Begun::Attempt(attempt) = one.once("w").begin().await.expect("begun") else {
        panic!("nobody has done it")
    };
    let call = format!("SELECT taketurns.done('w', {})", attempt.token());
    database.sql(&call).expect("under way");
    assert!(matches!(two.once("w").begin().await.expect("an answer"), Begun::DoneBefore(_)));
}

#[tokio::test]
async fn a_user_who_may_not_change_the_tables_is_told_what_their_owner_runs() {
    let database = version_1();
    let user = format!("u{}", database.name());
    let rights = format!(
        "CREATE ROLE {user} LOGIN PASSWORD 'p'; GRANT USAGE ON SCHEMA taketurns TO {user};
         GRANT ALL ON ALL TABLES IN SCHEMA taketurns TO {user}"
    );
    database.sql(&rights).expect("a user");
    let url = database.url_of(&format!("{user}:p"));
    let advice = "taketurns schema postgres --from 1 | psql";
    is_refused(&url, ErrorKind::Store, advice).await;
    assert_eq!(version(&database), "1", "nothing was changed");
    database.sql(&taketurns::engine::postgres_schema(1)).expect("the newer tables");
    let locks = connect(&url).await;
    locks.once("w").run(async |_| Ok::<_, ()>(())).await.expect("an answer");
    locks.close().await;
    database.sql(&format!("DROP OWNED BY {user}; DROP ROLE {user}")).expect("dropped");
}

#[test]
fn the_owner_of_newer_tables_has_nothing_to_run() {
    assert_eq!(taketurns::engine::postgres_schema(2), "");
}
