//! A transaction that a stale holder can't commit. A writer is paused in the middle of a transaction for longer than
//! its lease; another one gets the lock and writes; the first goes on, and PostgreSQL refuses its commit.
//!
//! `DATABASE=postgres://USER@HOST/NAME` names the database.

use std::error::Error;
use std::time::Duration;

use taketurns::fence::STALE_TOKEN;
use tokio_postgres::{Client, NoTls};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::var("DATABASE") {
        Ok(url) => pause_a_writer(&url).await,
        Err(_) => {
            println!(
                "set DATABASE=postgres://USER@HOST/NAME, for a database in which tables may be made"
            );
            Ok(())
        }
    }
}

pub(crate) async fn pause_a_writer(url: &str) -> Result<(), Box<dyn Error>> {
    // The locks are in the database that they guard.
    let locks = taketurns::connect(url).await?;
    let (mut slow, mut quick) = (connect(url).await?, connect(url).await?);
    let table = "CREATE TABLE IF NOT EXISTS reports (day date PRIMARY KEY, body text NOT NULL)";
    slow.batch_execute(table).await?;
    let write =
        "INSERT INTO reports VALUES (current_date, $1) ON CONFLICT (day) DO UPDATE SET body = $1";

    let guard = locks.mutex("report").acquire().lease(Duration::from_millis(500)).await?;
    let paused = slow.transaction().await?;
    guard.fence(&paused).await?;
    println!(
        "the slow writer has token {}, has begun a transaction, and is stopped",
        guard.token()
    );
    let _nobody_renews = guard.into_handle().await?; // as if its process had been suspended

    let guard = locks.mutex("report").acquire().await?;
    let transaction = quick.transaction().await?;
    guard.fence(&transaction).await?;
    transaction.execute(write, &[&"final"]).await?;
    transaction.commit().await?;
    println!("its lease ran out; the next one has token {}, and commits", guard.token());

    println!("the slow writer goes on as if nothing had happened …");
    paused.execute(write, &[&"first draft"]).await?;
    let refused = paused.commit().await.expect_err("the database refuses what is stale");
    let reason = refused.as_db_error().ok_or("no answer of the database")?;
    println!("… and is refused: {}", reason.message());
    assert_eq!(reason.code().code(), STALE_TOKEN);

    let body: String = quick.query_one("SELECT body FROM reports", &[]).await?.get(0);
    assert_eq!(body, "final");
    guard.release().await?;
    Ok(())
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
