//! The words in which a lock is spoken to from afar: requests as arguments, replies and wake-ups as
//! text. The scripts, the module and the client all speak them.
//!
//! ```text
//!   request   a verb and its arguments
//!   reply     NOW FLAGS LETTER …           one line; a refresh has one more for each grant it tells of
//!   wake-up   SEAL ID RUN LETTER …         the seal is sha1(owner + all that follows it)
//! ```
//!
//! What is read is checked: whoever may write to a server may have written anything. An owner is a
//! secret, and goes out only from whoever has it: all else names it by a hash.

mod reply;
mod request;
mod wake;

use std::fmt;
use std::str::FromStr;

pub use reply::{Answered, decode, encode};
pub use request::{Verb, decode_request, encode_request};
pub use wake::{Sealed, seal};

use crate::{Ask, Grant, Kind, Member, Owner, Refusal, Token, Vote};

/// The hash of the wire, in hexadecimal digits.
pub fn sha1_hex(text: impl AsRef<[u8]>) -> String {
    sha1_smol::Sha1::from(text.as_ref()).digest().to_string()
}

/// An owner as its holder sends it.
pub fn owner_text(owner: Owner) -> String {
    format!("{:032x}", owner.expose())
}

/// Reads what [`owner_text`] wrote.
pub fn owner(text: &str) -> Option<Owner> {
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Owner::from_bits))?
}

/// By what all others name an owner: a hash, since it is a secret.
pub fn public_id(owner: Owner) -> String {
    let mut id = sha1_hex(owner_text(owner));
    id.truncate(16);
    id
}

/// Reads a kind.
pub fn kind(text: &str) -> Option<Kind> {
    Some(match text {
        "m" => Kind::Mutex,
        "r" => Kind::RwLock,
        "p" => Kind::Pool,
        _ => Kind::Semaphore { permits: text.strip_prefix('s')?.parse().ok()? },
    })
}

/// Writes a kind.
pub fn kind_text(kind: Kind) -> String {
    match kind {
        Kind::Mutex => "m".into(),
        Kind::RwLock => "r".into(),
        Kind::Pool => "p".into(),
        Kind::Semaphore { permits } => format!("s{permits}"),
    }
}

/// Reads what is asked for.
pub fn ask(text: &str) -> Option<Ask> {
    Some(match text {
        "m" => Ask::Mutex,
        "r" => Ask::Read,
        "w" => Ask::Write,
        "a" => Ask::Any,
        _ => match text.split_at_checked(1)? {
            ("m", tokens) => Ask::Turns { tokens: tokens.parse().ok()? },
            ("s", permits) => {
                let (take, of) = permits.split_once('/')?;
                Ask::Permits { take: take.parse().ok()?, of: of.parse().ok()? }
            }
            ("n", member) => Ask::Member(Member::new(member).ok()?),
            _ => return None,
        },
    })
}

fn ask_text(ask: &Ask) -> String {
    match ask {
        Ask::Mutex => "m".into(),
        Ask::Turns { tokens } => format!("m{tokens}"),
        Ask::Read => "r".into(),
        Ask::Write => "w".into(),
        Ask::Permits { take, of } => format!("s{take}/{of}"),
        Ask::Any => "a".into(),
        Ask::Member(member) => format!("n{member}"),
    }
}

/// Words parted by single spaces, with free text at the end.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word)
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    /// A number, or `-` for none.
    fn maybe(&mut self) -> Option<Option<u64>> {
        maybe(self.word()?)
    }

    /// Token, deadline, and a member's name if there is one. A vote's token is followed by its number and
    /// ticket, with a mark if it is inquired about: `12/7/5!`.
    fn grant(&mut self) -> Option<Grant> {
        let word = self.word()?;
        let (token, vote) = match word.split_once('/') {
            None => (word, None),
            Some((token, vote)) => {
                let inquired = vote.strip_suffix('!');
                let (number, ticket) = inquired.unwrap_or(vote).split_once('/')?;
                let (number, ticket) = (number.parse().ok()?, ticket.parse().ok()?);
                (token, Some(Vote { number, ticket, inquired: inquired.is_some() }))
            }
        };
        let token = Some(Token::from_raw(token.parse().ok()?));
        let deadline_ms = self.number()?;
        let member = match self.0 {
            "" => None,
            name => Some(Member::new(name).ok()?),
        };
        Some(Grant { token, deadline_ms, member, vote })
    }

    fn refusal(&mut self) -> Option<Refusal> {
        Some(match self.word()? {
            "kind" => Refusal::KindMismatch(kind(self.word()?)?),
            "full" => Refusal::QueueFull,
            "pool" => Refusal::PoolFull,
            "late" => Refusal::TooLate,
            "cancelled" => Refusal::Cancelled,
            "lease" => Refusal::InvalidLease,
            "permits" => Refusal::InvalidPermits,
            "quarantined" => Refusal::Quarantined { until_ms: self.number()? },
            _ => return None,
        })
    }
}

fn maybe<T: FromStr>(word: &str) -> Option<Option<T>> {
    match word {
        "-" => Some(None),
        word => word.parse().ok().map(Some),
    }
}

/// A number, or `-` for none.
struct Maybe<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

fn write_grant(text: &mut String, grant: &Grant) -> fmt::Result {
    use fmt::Write;
    let token = grant.token.unwrap_or_default();
    write!(text, "{token}")?;
    if let Some(Vote { number, ticket, inquired }) = grant.vote {
        write!(text, "/{number}/{ticket}{}", if inquired { "!" } else { "" })?;
    }
    write!(text, " {} ", grant.deadline_ms)?;
    grant.member.as_ref().map_or(Ok(()), |member| text.write_str(member.as_str()))
}

fn write_refusal(text: &mut String, refusal: Refusal) -> fmt::Result {
    use fmt::Write;
    match refusal {
        Refusal::KindMismatch(kind) => write!(text, "kind {}", kind_text(kind)),
        Refusal::QueueFull => text.write_str("full"),
        Refusal::PoolFull => text.write_str("pool"),
        Refusal::TooLate => text.write_str("late"),
        Refusal::Cancelled => text.write_str("cancelled"),
        Refusal::InvalidLease => text.write_str("lease"),
        Refusal::InvalidPermits => text.write_str("permits"),
        Refusal::Quarantined { until_ms } => write!(text, "quarantined {until_ms}"),
    }
}
