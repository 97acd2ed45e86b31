//! Logging in, and the least rights.

use taketurns::{Connect, ErrorKind};
use taketurns_servers::Certificates;
use taketurns_servers::others::Postgres;

use super::{connect, database, has_waiters, is_refused, patient};

/// The rights of `docs/postgres.md`, where `app` is the user.
fn grants() -> String {
    let page = include_str!("../../../../../docs/postgres.md");
    let start = page.find("GRANT USAGE ON SCHEMA").expect("the page has the rights");
    let end = page[start..].find("```").expect("the end of the block");
    page[start..start + end].to_owned()
}

#[tokio::test]
async fn a_user_with_the_least_rights_can_do_everything_but_make_the_tables() {
    let database = database();
    let user = format!("u{}", database.name());
    database.sql(&format!("CREATE ROLE {user} LOGIN PASSWORD 'p'")).expect("a user");
    let url = database.url_of(&format!("{user}:p"));
    is_refused(&url, ErrorKind::Store, "taketurns schema postgres").await;
    database.sql(&taketurns::engine::postgres_schema(0)).expect("the tables");
    is_refused(&url, ErrorKind::Store, "needs SELECT").await;
    let grants = grants().replace(" app;", &format!(" {user};"));
    database.sql(&grants).expect("the rights of the page");

    let (one, two) = (connect(&url).await, connect(&url).await);
    let pool = one.pool("p");
    pool.add("a").await.expect("added");
    let member = pool.any().await.expect("free");
    let held = one.mutex("m").acquire().await.expect("free");
    let waiting = tokio::spawn(async move {
        let guard = two.mutex("m").acquire().await.expect("handed over");
        guard.release().await.expect("released");
        two.close().await;
    });
    has_waiters(&one, "m", 1).await;
    held.release().await.expect("released");
    waiting.await.expect("it had its turn");
    member.release().await.expect("released");
    assert_eq!(one.break_lock("m").await.expect("nobody holds it"), 0);
    // A sweep, which deletes from all tables: one step in 64.
    for _ in 0..70 {
        one.mutex("many").acquire().await.expect("free").release().await.expect("released");
    }
    let report = taketurns::doctor::examine(&patient(&url)).await.expect("a report");
    let rights = report.checks.iter().find(|check| check.name == "rights").expect("a check");
    assert_eq!(rights.level, taketurns::doctor::Level::Ok, "{rights:?}");
    one.close().await;
    database.sql(&format!("DROP OWNED BY {user}; DROP ROLE {user}")).expect("dropped");
}

#[tokio::test]
async fn a_password_comes_from_a_file() {
    let database = database();
    let user = format!("u{}", database.name());
    database.sql(&format!("CREATE ROLE {user} SUPERUSER LOGIN PASSWORD 'pa ss'")).expect("a user");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    std::fs::write(&file, "pa ss\n").expect("a file");
    let url = format!("{}?password_file={}", database.url_of(&user), file.display());
    connect(&url).await.close().await;
    database.sql(&format!("DROP OWNED BY {user} CASCADE; DROP ROLE {user}")).expect("dropped");
}

#[tokio::test]
async fn over_tls_and_over_a_unix_socket() {
    let certificates = Certificates::new().expect("certificates");
    let server = Postgres::builder().quick().socket().tls(&certificates).start().expect("a server");
    let ca = certificates.ca();
    let sealed = format!("{}?sslmode=verify-full&ca={}", server.url(), ca.display());
    let socket = server.socket_dir().display().to_string();
    let port = server.port();
    let escaped = socket.replace('/', "%2F");
    let urls = [
        sealed,
        format!("postgres://postgres@{escaped}:{port}/postgres"),
        format!("postgres://postgres@/postgres?host={socket}&port={port}"),
    ];
    for url in urls {
        let locks = connect(&url).await;
        locks.mutex("l").acquire().await.expect("free").release().await.expect("released");
        locks.close().await;
    }
    // A certificate that nobody vouches for.
    let unknown = format!("{}?sslmode=verify-full", server.url());
    let refused = Connect::new(&patient(&unknown)).open().await.expect_err("not trusted");
    assert!(matches!(refused.kind(), ErrorKind::Store | ErrorKind::Unreachable), "{refused}");
}
