//! Fencing, on the resource's side: admit a token, refuse any older one.
//!
//! A lease can end while its holder is paused, and the holder then resumes as if nothing had happened. No lock can
//! prevent that, but the resource can: it remembers the newest token it has seen and refuses older ones, so a stale
//! writer can't overwrite what a later holder wrote. It always refuses [`Token::UNFENCED`].
//!
//! ```
//! use taketurns::Token;
//! use taketurns::fence::Fence;
//!
//! let fence = Fence::new();
//! assert!(fence.admit("orders/42", Token::from_raw(7)).is_ok());
//! assert!(fence.admit("orders/42", Token::from_raw(9)).is_ok()); // a later holder
//! assert!(fence.admit("orders/42", Token::from_raw(7)).is_err()); // the stale one comes back
//! ```
//!
//! If the resource is in the PostgreSQL database that also keeps the lock, [`Guard::fence`](crate::Guard::fence) makes
//! the database itself refuse, when a stale holder's transaction commits.

#[cfg(feature = "postgres")]
mod transaction;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use taketurns_core::Token;

/// A token that a fence refuses: one older than a token admitted before, or [`Token::UNFENCED`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
#[non_exhaustive]
pub struct StaleToken {
    /// The resource that should be written to.
    pub resource: String,
    /// The token that was refused.
    pub token: Token,
    /// The newest token that was admitted; [`Token::UNFENCED`] if none was.
    pub newest: Token,
}

impl StaleToken {
    fn message(&self) -> String {
        let Self { resource, token, newest } = self;
        match token.is_fenced() {
            true => format!("token {token} for {resource} is stale: {newest} was admitted before"),
            false => format!("a write to {resource} came without a token: its lock has none"),
        }
    }
}

/// Remembers the newest token of each resource in this process. For a resource that outlives the
/// process, `SqliteFence` remembers it in a file.
#[derive(Debug, Default)]
pub struct Fence {
    newest: Mutex<HashMap<String, Token>>,
}

impl Fence {
    /// Returns a fence that has seen no token.
    pub fn new() -> Self {
        Self::default()
    }

    /// Admits a token, or refuses it if a newer one was admitted before. The same token may come any number of times,
    /// because a holder may write more than once.
    ///
    /// # Errors
    /// [`StaleToken`]: the write must not happen.
    pub fn admit(&self, resource: &str, token: Token) -> Result<(), StaleToken> {
        self.write(resource, token, || ())
    }

    /// Admits a token and writes, as one step: no token is admitted in between, for any resource. So `write` must not
    /// use the same fence.
    ///
    /// # Errors
    /// [`StaleToken`]: `write` was not called.
    pub fn write<T>(
        &self,
        resource: &str,
        token: Token,
        write: impl FnOnce() -> T,
    ) -> Result<T, StaleToken> {
        let mut newest = self.newest();
        compare(resource, token, newest.get(resource).copied())?;
        match newest.get_mut(resource) {
            Some(newest) => *newest = token,
            None => drop(newest.insert(resource.to_owned(), token)),
        }
        Ok(write())
    }

    fn newest(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        // If a write panicked, its token was admitted all the same.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compare(resource: &str, token: Token, newest: Option<Token>) -> Result<(), StaleToken> {
    let newest = newest.unwrap_or(Token::UNFENCED);
    if token < newest || !token.is_fenced() {
        return Err(StaleToken { resource: resource.to_owned(), token, newest });
    }
    Ok(())
}

#[cfg(feature = "postgres")]
pub use transaction::{
    DONE_BEFORE, FencedTransaction, SHARED_LOCK, STALE_TOKEN, TransactionError, UNKNOWN_TOKEN,
};

#[cfg(feature = "file")]
pub use sqlite::{FenceError, SqliteFence};

#[cfg(feature = "file")]
mod sqlite {
    use std::path::Path;
    use std::time::Duration;

    use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
    use taketurns_core::Token;

    use super::{StaleToken, compare};

    /// Why a fence did not admit a token.
    #[derive(Debug, thiserror::Error)]
    #[non_exhaustive]
    pub enum FenceError {
        /// The token is stale: the write must not happen.
        #[error(transparent)]
        Stale(#[from] StaleToken),
        /// The file can't be read or written. It is unknown whether the token is stale, so the write must not happen
        /// either.
        #[error("the fence's file can't be used: {0}")]
        File(#[source] Box<dyn std::error::Error + Send + Sync>),
    }

    impl From<rusqlite::Error> for FenceError {
        fn from(error: rusqlite::Error) -> Self {
            FenceError::File(error.into())
        }
    }

    /// Remembers the newest token of each resource in a SQLite file, for all processes that open it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use taketurns::{Token, fence::SqliteFence};
    ///
    /// let mut fence = SqliteFence::open(dir.path().join("fence.db"))?;
    /// fence.write("report", Token::from_raw(7), || std::fs::write(dir.path().join("report"), "7"))??;
    /// assert!(fence.admit("report", Token::from_raw(6)).is_err());
    /// # Ok(()) }
    /// ```
    #[derive(Debug)]
    pub struct SqliteFence {
        connection: Connection,
    }

    impl SqliteFence {
        /// Opens the file, or creates it. Other tables in it are left alone.
        ///
        /// # Errors
        /// [`FenceError::File`].
        pub fn open(path: impl AsRef<Path>) -> Result<Self, FenceError> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(5))?;
            // A token that was admitted must not be forgotten in a power cut.
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS taketurns_fence
                 (resource TEXT PRIMARY KEY, newest INTEGER NOT NULL) WITHOUT ROWID",
            )?;
            // In a table that is damaged a token may be written and not be found again.
            let check = "PRAGMA integrity_check(taketurns_fence)";
            let found: String = connection.query_row(check, [], |row| row.get(0))?;
            if found != "ok" {
                return Err(FenceError::File(format!("it is damaged: {found}").into()));
            }
            Ok(Self { connection })
        }

        /// Admits a token, as [`Fence::admit`](super::Fence::admit) does.
        ///
        /// # Errors
        /// [`FenceError`]: the write must not happen.
        pub fn admit(&mut self, resource: &str, token: Token) -> Result<(), FenceError> {
            self.remember(resource, token)
        }

        /// Admits a token and writes while no other process can admit one. So the result is the newest write, or a
        /// newer one follows it.
        ///
        /// # Errors
        /// [`FenceError`]: `write` was not called.
        pub fn write<T>(
            &mut self,
            resource: &str,
            token: Token,
            write: impl FnOnce() -> T,
        ) -> Result<T, FenceError> {
            self.remember(resource, token)?;
            // The token is stored, so nothing older follows, even if the write crashes. Nothing newer may precede it
            // either: the token is compared again, and none is admitted until the write is done.
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            compare(resource, token, newest(&transaction, resource)?)?;
            let output = write();
            // The transaction changed nothing.
            drop(transaction);
            Ok(output)
        }

        /// Admits a token and stores it durably.
        fn remember(&mut self, resource: &str, token: Token) -> Result<(), FenceError> {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            compare(resource, token, newest(&transaction, resource)?)?;
            transaction.execute(
                "INSERT OR REPLACE INTO taketurns_fence (resource, newest) VALUES (?1, ?2)",
                (resource, token.raw() as i64),
            )?;
            Ok(transaction.commit()?)
        }
    }

    fn newest(connection: &Connection, resource: &str) -> rusqlite::Result<Option<Token>> {
        let select = "SELECT newest FROM taketurns_fence WHERE resource = ?1";
        let newest = connection.query_row(select, [resource], |row| row.get::<_, i64>(0));
        Ok(newest.optional()?.map(|newest| Token::from_raw(newest as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn token(raw: u64) -> Token {
        Token::from_raw(raw)
    }

    #[test]
    fn an_older_token_is_refused_and_the_same_is_not() {
        let fence = Fence::new();
        fence.admit("a", token(5)).unwrap();
        fence.admit("a", token(5)).unwrap();
        fence.admit("b", token(1)).unwrap();
        fence.admit("b", token(3)).unwrap();
        assert!(fence.admit("b", token(2)).is_err());
        let stale = fence.admit("a", token(4)).unwrap_err();
        assert_eq!(stale, StaleToken { resource: "a".into(), token: token(4), newest: token(5) });
        let written = fence.write("a", token(4), || unreachable!("a stale write happened"));
        assert!(written.is_err());
    }

    #[test]
    fn what_comes_without_a_token_is_never_admitted() {
        let fence = Fence::new();
        let refused = fence.admit("new", Token::UNFENCED).unwrap_err();
        assert_eq!(refused.to_string(), "a write to new came without a token: its lock has none");
        fence.admit("new", token(1)).unwrap();
        assert!(fence.admit("new", Token::UNFENCED).is_err());
    }

    #[test]
    fn nothing_newer_is_admitted_in_the_middle_of_a_write() {
        let fence = &Fence::new();
        std::thread::scope(|scope| {
            let (admitted, newer) = std::sync::mpsc::channel();
            let overtaken = fence.write("a", token(5), || {
                scope.spawn(move || {
                    fence.admit("a", token(6)).unwrap();
                    let _ = admitted.send(());
                });
                // Gives the other thread time to be admitted, if that were possible.
                newer.recv_timeout(std::time::Duration::from_millis(50)).is_ok()
            });
            assert!(!overtaken.unwrap());
        });
        assert!(fence.admit("a", token(5)).is_err());
    }

    #[cfg(feature = "file")]
    #[test]
    fn no_other_process_can_admit_in_the_middle_of_a_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fence.db");
        let mut fence = SqliteFence::open(&path).unwrap();
        let other = rusqlite::Connection::open(&path).unwrap();
        other.busy_timeout(std::time::Duration::ZERO).unwrap();
        let begin = || other.execute_batch("BEGIN IMMEDIATE");
        assert!(fence.write("a", token(5), || begin().is_err()).unwrap(), "it was overtaken");
        begin().unwrap();
    }

    #[cfg(feature = "file")]
    #[test]
    fn a_fence_in_a_file_has_a_token_for_each_resource() {
        let dir = tempfile::tempdir().unwrap();
        let mut fence = SqliteFence::open(dir.path().join("fence.db")).unwrap();
        assert!(fence.admit("a", Token::UNFENCED).is_err());
        fence.admit("a", token(5)).unwrap();
        fence.admit("b", token(2)).unwrap();
        assert!(fence.admit("a", token(4)).is_err());
        assert!(fence.admit("b", token(1)).is_err());
    }

    #[cfg(feature = "file")]
    #[test]
    fn a_fence_in_a_file_remembers_across_processes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fence.db");
        SqliteFence::open(&path).unwrap().admit("a", token(5)).unwrap();
        let mut again = SqliteFence::open(&path).unwrap();
        let refused = again.write("a", token(4), || unreachable!("a stale write happened"));
        assert!(matches!(refused, Err(FenceError::Stale(stale)) if stale.newest == token(5)));
        again.admit("a", token(6)).unwrap();
    }

    /// SQLite looks a resource up by its sort position, so it doesn't find one that is out of order.
    #[cfg(feature = "file")]
    #[test]
    fn a_fence_whose_resources_are_out_of_order_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fence.db");
        let mut fence = SqliteFence::open(&path).unwrap();
        (0..9).for_each(|n| fence.admit(&format!("resource {n}"), token(5)).unwrap());
        drop(fence);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(10).position(|name| name == b"resource 4").unwrap();
        bytes[at + 8] = b'0';
        std::fs::write(&path, bytes).unwrap();
        let refused = SqliteFence::open(&path).unwrap_err().to_string();
        assert!(refused.contains("it is damaged"), "{refused}");
    }

    #[cfg(feature = "file")]
    #[test]
    fn a_write_that_ends_in_a_crash_was_admitted_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let mut fence = SqliteFence::open(dir.path().join("fence.db")).unwrap();
        let crash = std::panic::AssertUnwindSafe(|| {
            fence.write("a", token(9), || panic!("in the middle of the write"))
        });
        assert!(std::panic::catch_unwind(crash).is_err());
        assert!(matches!(fence.admit("a", token(8)), Err(FenceError::Stale(_))));
        fence.admit("a", token(9)).unwrap();
    }
}
