//! [`Guard::fence`]: a transaction that a stale holder can't commit, in the PostgreSQL database that also keeps the lock.
//! And [`Attempt::done_in`]: a transaction that records the work of a once.
//!
//! The database does it (`engine/postgres/schema`): it compares tokens when the transaction commits. Here is only how to
//! call it with the clients that people use, each behind a feature.

use std::error::Error as StdError;
use std::future::Future;

use taketurns_core::Token;

use crate::once::Attempt;
use crate::{Error, Guard};

/// The SQLSTATE of a fence that refuses: a newer token of the lock was granted. The commit of a fenced transaction
/// fails with it too.
pub const STALE_TOKEN: &str = "TT001";

/// The SQLSTATE of a fence for a lock or token that was never granted in this database, or was forgotten.
pub const UNKNOWN_TOKEN: &str = "TT002";

/// The SQLSTATE of a fence for a lock that several hold: readers, or a semaphore.
pub const SHARED_LOCK: &str = "TT003";

/// The SQLSTATE of work that this attempt has done before, in another transaction or by [`Attempt::done`].
pub const DONE_BEFORE: &str = "TT004";

/// Call the functions for every client: unnamed and prepared for this once, or a proxy that pools transactions might
/// send its second part to another server process.
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
const CALL: &str = "SELECT taketurns.fence($1, $2, $3)";
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
const CALL_DONE: &str = "SELECT taketurns.done($1, $2, $3)";

/// An error of a database client.
type ClientError = Box<dyn StdError + Send + Sync>;

/// Why a transaction is not fenced. Roll it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The lock is lost, or has no token.
    #[error(transparent)]
    Guard(#[from] Error),
    /// The database refuses ([`STALE_TOKEN`], [`UNKNOWN_TOKEN`], [`SHARED_LOCK`], [`DONE_BEFORE`]), or can't be reached.
    /// The source is the client's own error.
    #[error("the transaction is not fenced: {0}")]
    Database(#[source] ClientError),
}

/// A transaction of a PostgreSQL client, as [`Guard::fence`] and [`Attempt::done_in`] take it: `&tokio_postgres::Transaction` with the feature
/// `tokio-postgres`, and `&mut sqlx::Transaction<Postgres>` with the feature `sqlx`.
pub trait FencedTransaction {
    /// Calls `taketurns.fence` in the transaction. `member` is empty unless the lock is a pool.
    fn fence(
        self,
        lock: &str,
        token: Token,
        member: &str,
    ) -> impl Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send;

    /// Calls `taketurns.done` in the transaction.
    fn done(
        self,
        once: &str,
        token: Token,
        result: &str,
    ) -> impl Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send;
}

impl Guard {
    /// Lets this transaction commit only if the lock was not granted again before. It needs a lock that is kept in the
    /// database of the transaction: a mutex, a writer or a member of a pool.
    ///
    /// Call it outside of savepoints, since rolling back to a savepoint undoes it, and once per transaction. It costs
    /// one round trip and waits for nobody; the commit compares again, and fails with [`STALE_TOKEN`] if the token is
    /// stale by then.
    ///
    /// ```no_run
    /// # #[cfg(feature = "tokio-postgres")]
    /// # async fn example(locks: taketurns::Locks, client: &mut tokio_postgres::Client)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.mutex("orders/42").acquire().await?;
    /// let transaction = client.transaction().await?;
    /// guard.fence(&transaction).await?;
    /// transaction.execute("UPDATE orders SET state = 'sent' WHERE id = 42", &[]).await?;
    /// transaction.commit().await?; // fails if somebody else has been granted the lock since
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TransactionError`]: the transaction must be rolled back.
    pub async fn fence<T: FencedTransaction>(
        &self,
        transaction: T,
    ) -> Result<(), TransactionError> {
        let token = self.check()?;
        let member = self.member().map_or("", |member| member.as_str());
        let fenced = transaction.fence(self.name().as_str(), token, member).await;
        fenced.map_err(TransactionError::Database)
    }
}

impl Attempt {
    /// Records that the work is done, with the commit of this transaction: exactly once for all that the transaction
    /// writes. It needs a once that is kept in the database of the transaction. `result` is as in
    /// [`Attempt::done_with`], and may be empty.
    ///
    /// The attempt must be under way at the commit, or that fails with [`STALE_TOKEN`]. If the transaction is rolled
    /// back, the attempt goes on. Call it outside of savepoints. If the answer to the commit is lost, do the whole
    /// transaction again: it fails with [`DONE_BEFORE`] if the work is done.
    ///
    /// After the commit drop the attempt: those who wait are told at once then. If the process dies before, they are
    /// told when the lease is over at the latest.
    ///
    /// ```no_run
    /// # #[cfg(feature = "tokio-postgres")]
    /// # async fn example(locks: taketurns::Locks, client: &mut tokio_postgres::Client)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// use taketurns::Begun;
    ///
    /// if let Begun::Attempt(attempt) = locks.once("message/4711").begin().await? {
    ///     let transaction = client.transaction().await?;
    ///     transaction.execute("INSERT INTO charges VALUES (4711)", &[]).await?;
    ///     attempt.done_in(&transaction, "").await?;
    ///     transaction.commit().await?; // both, or neither
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TransactionError`]: the transaction must be rolled back.
    pub async fn done_in<T: FencedTransaction>(
        &self,
        transaction: T,
        result: &str,
    ) -> Result<(), TransactionError> {
        let token = self.check()?;
        let done = transaction.done(self.name().as_str(), token, result).await;
        done.map_err(TransactionError::Database)
    }
}

/// The token as the database has it.
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
fn bigint(token: Token) -> Result<i64, ClientError> {
    Ok(i64::try_from(token.raw())?)
}

#[cfg(feature = "tokio-postgres")]
impl FencedTransaction for &tokio_postgres::Transaction<'_> {
    async fn fence(self, lock: &str, token: Token, member: &str) -> Result<(), ClientError> {
        use tokio_postgres::types::Type;

        let token = bigint(token)?;
        let parameters =
            [(&lock as _, Type::TEXT), (&token as _, Type::INT8), (&member as _, Type::TEXT)];
        self.query_typed(CALL, &parameters).await?;
        Ok(())
    }

    async fn done(self, once: &str, token: Token, result: &str) -> Result<(), ClientError> {
        use tokio_postgres::types::Type;

        let token = bigint(token)?;
        let parameters =
            [(&once as _, Type::TEXT), (&token as _, Type::INT8), (&result as _, Type::TEXT)];
        self.query_typed(CALL_DONE, &parameters).await?;
        Ok(())
    }
}

#[cfg(feature = "sqlx")]
impl FencedTransaction for &mut sqlx_core::transaction::Transaction<'_, sqlx_postgres::Postgres> {
    async fn fence(self, lock: &str, token: Token, member: &str) -> Result<(), ClientError> {
        let call = sqlx_core::query::query::<sqlx_postgres::Postgres>(CALL).persistent(false);
        let call = call.bind(lock).bind(bigint(token)?).bind(member);
        call.execute(&mut **self).await?;
        Ok(())
    }

    async fn done(self, once: &str, token: Token, result: &str) -> Result<(), ClientError> {
        let call = sqlx_core::query::query::<sqlx_postgres::Postgres>(CALL_DONE).persistent(false);
        let call = call.bind(once).bind(bigint(token)?).bind(result);
        call.execute(&mut **self).await?;
        Ok(())
    }
}
