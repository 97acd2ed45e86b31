use std::error::Error;

use taketurns::{Locks, Token};
use tokio_postgres::{Client, NoTls};

/// Marks an order as sent, unless a newer holder has written its row.
async fn mark_sent(database: &Client, order: i64, token: Token) -> Result<(), Box<dyn Error>> {
    let token = i64::try_from(token.raw())?;
    let update = "UPDATE orders SET state = 'sent', fence = $2 WHERE id = $1 AND fence <= $2";
    match database.execute(update, &[&order, &token]).await? {
        0 => Err(format!("order {order}: no such order, or token {token} is stale").into()),
        _ => Ok(()),
    }
}

/// Sends an order while it holds the order's lock.
async fn ship(locks: &Locks, database: &Client, order: i64) -> Result<(), Box<dyn Error>> {
    let guard = locks.mutex(format!("orders/{order}")).acquire().await?;
    // … the work
    mark_sent(database, order, guard.check()?).await?;
    guard.release().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = taketurns::connect(&std::env::var("TAKETURNS_STORE")?).await?;
    let (database, connection) = tokio_postgres::connect(&std::env::var("DATABASE")?, NoTls).await?;
    tokio::spawn(connection);
    ship(&locks, &database, 42).await
}
