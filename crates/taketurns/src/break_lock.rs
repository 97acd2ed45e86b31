//! [`BreakLock`]: takes a lock away from its holders.

use std::future::Future;
use std::pin::Pin;

use taketurns_core::{Name, Reply, Request, Token};

use crate::error::malformed;
use crate::{Error, Locks};

/// Takes a lock away from its holders once awaited, and returns how many holders there were.
///
/// By default it revokes: the holders can't renew any more, and their guards report the loss. The lock passes on when
/// they release it or their leases end, so no two holders overlap.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// let guard = locks.mutex("stuck").acquire().await?;
/// assert_eq!(locks.break_lock("stuck").token(guard.token()).at_once().await?, 1);
/// assert!(locks.mutex("stuck").try_acquire().await?.is_some());
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
///
/// # Errors
/// [`Error::InvalidName`]; [`Error::Unfenced`] for [`Token::UNFENCED`]; [`Error::Unreachable`], [`Error::NoQuorum`],
/// [`Error::Indeterminate`], [`Error::Unsupported`] or [`Error::Store`].
///
/// # Cancel safety
/// Nothing is sent before the first poll. After it, the break may be carried out even if the future is dropped.
#[must_use = "a break does nothing until it is awaited"]
#[derive(Debug)]
pub struct BreakLock {
    locks: Locks,
    name: String,
    token: Option<Token>,
    at_once: bool,
}

impl BreakLock {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self { locks: locks.clone(), name: name.to_owned(), token: None, at_once: false }
    }

    /// Passes the lock on at once. The old holder may not have noticed when the next one starts, so only the token
    /// separates their writes. Default: waits for the holder to stop.
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Breaks only the holder with this token. Default: all holders.
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }
}

impl IntoFuture for BreakLock {
    type Output = Result<u32, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let name = Name::new(&self.name)?;
            // This token names no holder; checking it here keeps the check out of every engine.
            if self.token == Some(Token::UNFENCED) {
                return Err(Error::Unfenced { lock: name });
            }
            let request = Request::Break { token: self.token, at_once: self.at_once };
            match self.locks.request(&name, request).await? {
                Reply::Broken(holders) => Ok(holders),
                reply => Err(malformed("a break", &reply)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::blocking::Wait;

    #[test]
    fn the_token_of_a_lock_without_one_breaks_nobody() {
        let locks = crate::connect("memory:").wait().expect("a store");
        let guard = locks.mutex("l").acquire().wait().expect("free");
        let broken = locks.break_lock("l").token(Token::UNFENCED).wait();
        assert_eq!(broken.expect_err("it names nobody").kind(), ErrorKind::Unfenced);
        assert!(guard.is_held());
    }
}
