//! [`Handle`]: a held lock as text, to pass it to another process.

use std::fmt;

use taketurns_core::session::HoldTerms;
use taketurns_core::{Name, Owner, Token, limits};

use crate::Error;

/// The name and version of the text format.
const FORM: &str = "tt1";

/// A held lock that nobody renews, on its way to another process. That process adopts it with
/// [`Locks::adopt`](crate::Locks::adopt) before its lease ends. A handle is a secret: it is enough to release the lock.
/// Do not copy it: if two processes adopt it, one may release the lock while the other still relies on it.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// use taketurns::Handle;
///
/// let text = locks.mutex("import").acquire().await?.into_handle().await?.expose();
/// let handle = Handle::parse(&text)?; // in another process
/// assert_eq!(handle.name().as_str(), "import");
/// let guard = locks.adopt(handle).await?;
/// # drop(guard);
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
#[derive(PartialEq, Eq)]
pub struct Handle {
    name: Name,
    owner: Owner,
    token: Token,
    lease_ms: u64,
    /// Until when an acquire of the same owner may still be in flight.
    bury_until_ms: u64,
}

impl Handle {
    pub(crate) fn new(terms: HoldTerms, token: Token) -> Self {
        let HoldTerms { lock: name, owner, lease_ms, bury_until_ms, .. } = terms;
        Self { name, owner, token, lease_ms, bury_until_ms }
    }

    /// Returns the terms on which an adopted lock is held.
    pub(crate) fn terms(&self) -> HoldTerms {
        HoldTerms {
            lock: self.name.clone(),
            owner: self.owner,
            lease_ms: self.lease_ms,
            max_hold_us: None,
            bury_until_ms: self.bury_until_ms,
        }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the fencing token of the grant; [`Token::UNFENCED`] if the store has none.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the handle as one line of text. It is a secret: keep it out of logs and command lines.
    pub fn expose(&self) -> String {
        let Self { name, owner, token, lease_ms, bury_until_ms } = self;
        format!("{FORM}.{:032x}.{token}.{lease_ms}.{bury_until_ms}.{name}", owner.expose())
    }

    /// Parses what [`Handle::expose`] returned.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`], which does not repeat the text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::read(text.trim_end_matches(['\r', '\n'])).ok_or(Error::InvalidHandle)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(6, '.');
        if parts.next()? != FORM {
            return None;
        }
        let owner = parts.next().filter(|hex| hex.len() == 32)?;
        let owner = u128::from_str_radix(owner, 16).ok()?;
        let token: u64 = parts.next()?.parse().ok().filter(|token| *token <= limits::TOKEN_MAX)?;
        let lease_ms = parts.next()?.parse().ok().filter(|lease_ms| limits::is_lease(*lease_ms))?;
        let bury_until_ms = parts.next()?.parse().ok()?;
        let name = Name::new(parts.next()?).ok()?;
        let (owner, token) = (Owner::from_bits(owner), Token::from_raw(token));
        Some(Self { name, owner, token, lease_ms, bury_until_ms })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("lock", &self.name)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle {
            name: Name::new("a.b c").unwrap(),
            owner: Owner::from_bits(0xab),
            token: Token::from_raw(7),
            lease_ms: 30_000,
            bury_until_ms: 99,
        }
    }

    #[test]
    fn a_handle_survives_the_way_through_text() {
        let text = handle().expose();
        assert_eq!(text, "tt1.000000000000000000000000000000ab.7.30000.99.a.b c");
        assert_eq!(Handle::parse(&format!("{text}\n")).unwrap(), handle());
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        let text = handle().expose();
        for wrong in [
            "",
            "tt1",
            "tt2.000000000000000000000000000000ab.7.30000.99.a",
            "tt1.ab.7.30000.99.a",
            "tt1.000000000000000000000000000000ab.x.30000.99.a",
            "tt1.000000000000000000000000000000ab.9007199254740992.30000.99.a",
            "tt1.000000000000000000000000000000ab.7.1.99.a",
            "tt1.000000000000000000000000000000ab.7.30000.99.",
            "tt1.000000000000000000000000000000ab.7.30000.x.a",
            &text[..text.len() - 6],
        ] {
            assert!(Handle::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn debug_shows_nothing_of_the_secret() {
        assert!(!format!("{:?}", handle()).contains("ab,"));
        assert!(format!("{:?}", handle()).contains("a.b c"));
    }
}
