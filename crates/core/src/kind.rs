//! The five kinds of lock, and how much of a lock a request asks for.
//!
//! One rule serves all: a request is granted beside the present holders if its weight still
//! fits into the lock's capacity. A pool applies the rule to each member separately, with capacity
//! one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Member, limits};

/// The kind of a lock. It is fixed while the lock is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One holder.
    #[default]
    Mutex,
    /// Many readers or one writer.
    RwLock,
    /// A number of permits; each holder takes one or more.
    Semaphore {
        /// How many permits there are.
        permits: u32,
    },
    /// Named members, each with at most one holder.
    Pool,
    /// One holder at a time, until one says that the work is done.
    Once,
}

impl Kind {
    /// Returns how much weight all holders together may have.
    pub(crate) fn capacity(self) -> u64 {
        match self {
            Kind::Mutex | Kind::Once => 1,
            Kind::RwLock | Kind::Pool => limits::HOLDERS_MAX as u64,
            Kind::Semaphore { permits } => u64::from(permits),
        }
    }
}

impl Kind {
    /// Returns the name of the kind, without its size.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::RwLock => "rwlock",
            Kind::Semaphore { .. } => "semaphore",
            Kind::Pool => "pool",
            Kind::Once => "once",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Kind::Semaphore { permits } => write!(f, " of {permits}"),
            _ => Ok(()),
        }
    }
}

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// The mutex.
    Mutex,
    /// The mutex, with tokens for several turns in a row, which its client passes from task to task
    /// itself.
    Turns {
        /// How many tokens at most: the grant's own token and the ones after it.
        /// [`Grant::tokens`](crate::Grant) says how many were granted.
        tokens: u32,
    },
    /// A read-write lock, shared with other readers.
    Read,
    /// A read-write lock, alone.
    Write,
    /// Some permits of a semaphore.
    Permits {
        /// How many are taken.
        take: u32,
        /// How many the semaphore has.
        of: u32,
    },
    /// The member of a pool that has been free for longest.
    Any,
    /// One member of a pool.
    Member(Member),
    /// The mutex, which its client keeps between the turns of its tasks until another client wants
    /// it: see [`WakeEvent::Wanted`](crate::WakeEvent::Wanted).
    Stay {
        /// How many tokens at most, as for [`Ask::Turns`].
        tokens: u32,
    },
    /// The right to do work that nobody has done yet.
    Once(OnceTerms),
}

/// How often work may be tried, and how long a once remembers what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceTerms {
    /// How long it is remembered, by the wall clock; or how long a period is.
    pub keep_ms: u64,
    /// When periods begin, in milliseconds after 1970 and its multiples of `keep_ms`. What became of the work is
    /// remembered until the period of its grant ends. `None` if there are no periods: then it is remembered for
    /// `keep_ms` from its end.
    pub offset_ms: Option<u64>,
    /// How many attempts may fail; 0 for no limit.
    pub attempts: u32,
    /// How long nobody is granted after an attempt failed.
    pub pause_ms: u64,
}

impl OnceTerms {
    /// Returns until when the end of an attempt is remembered. All times are the wall clock's.
    pub(crate) fn until_ms(&self, granted_ms: u64, ended_ms: u64) -> u64 {
        match self.offset_ms {
            None => ended_ms.saturating_add(self.keep_ms),
            // Before the first period there is none, and what is remembered is forgotten when it begins.
            Some(offset_ms) => match granted_ms.checked_sub(offset_ms) {
                None => offset_ms,
                Some(into_ms) => offset_ms + (into_ms / self.keep_ms + 1) * self.keep_ms,
            },
        }
    }

    fn is_possible(&self) -> bool {
        let keeps = (limits::REMEMBER_MS_MIN..=limits::REMEMBER_MS_MAX).contains(&self.keep_ms);
        keeps
            && self.offset_ms.is_none_or(|offset_ms| offset_ms < self.keep_ms)
            && self.pause_ms <= limits::LEASE_MS_MAX
    }
}

impl Ask {
    /// Returns the kind of lock that can grant this.
    pub fn kind(&self) -> Kind {
        match self {
            Ask::Mutex | Ask::Turns { .. } | Ask::Stay { .. } => Kind::Mutex,
            Ask::Read | Ask::Write => Kind::RwLock,
            Ask::Permits { of, .. } => Kind::Semaphore { permits: *of },
            Ask::Any | Ask::Member(_) => Kind::Pool,
            Ask::Once(_) => Kind::Once,
        }
    }

    /// Returns whether any lock could ever grant this.
    pub fn is_possible(&self) -> bool {
        match *self {
            Ask::Permits { take, of } => 1 <= take && take <= of && of <= limits::PERMITS_MAX,
            Ask::Turns { tokens } | Ask::Stay { tokens } => {
                (1..=limits::LOCAL_TURNS_MAX).contains(&tokens)
            }
            Ask::Once(terms) => terms.is_possible(),
            _ => true,
        }
    }

    /// Returns how much of the lock's capacity this takes.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Ask::Mutex
            | Ask::Turns { .. }
            | Ask::Stay { .. }
            | Ask::Read
            | Ask::Any
            | Ask::Member(_)
            | Ask::Once(_) => 1,
            Ask::Write => Kind::RwLock.capacity(),
            Ask::Permits { take, .. } => u64::from(*take),
        }
    }

    /// Returns how many tokens in a row it asks for.
    pub(crate) fn tokens(&self) -> u32 {
        match *self {
            Ask::Turns { tokens } | Ask::Stay { tokens } => tokens.max(1),
            _ => 1,
        }
    }

    /// Returns the same request with another number of tokens, if it asks for several.
    pub(crate) fn with_tokens(self, tokens: u32) -> Self {
        match self {
            Ask::Turns { .. } => Ask::Turns { tokens },
            Ask::Stay { .. } => Ask::Stay { tokens },
            other => other,
        }
    }

    /// Returns whether the lock may stay taken for a time after the grant, whatever its holder does. Not what its
    /// client passes on itself, and not work, which has a pause instead.
    pub fn may_rest(&self) -> bool {
        !matches!(self, Ask::Turns { .. } | Ask::Stay { .. } | Ask::Once(_))
    }

    /// Returns the terms on which work is tried.
    pub(crate) fn once(&self) -> Option<&OnceTerms> {
        match self {
            Ask::Once(terms) => Some(terms),
            _ => None,
        }
    }

    /// Returns the line that a waiter with this request stands in: a member's line, or `None` for
    /// the common one.
    pub(crate) fn line(&self) -> Option<&Member> {
        match self {
            Ask::Member(member) => Some(member),
            _ => None,
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Mutex => f.write_str("mutex"),
            Ask::Turns { tokens: 1 } => f.write_str("mutex, 1 turn"),
            Ask::Turns { tokens } => write!(f, "mutex, {tokens} turns"),
            Ask::Read => f.write_str("read"),
            Ask::Write => f.write_str("write"),
            Ask::Permits { take, of } => write!(f, "{take}/{of} permits"),
            Ask::Any => f.write_str("any member"),
            Ask::Member(member) => write!(f, "member {member}"),
            Ask::Stay { .. } => f.write_str("mutex, kept until wanted"),
            Ask::Once(_) => f.write_str("once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_asks_read_as_people_say_them() {
        let member = Member::new("b-3").unwrap();
        let nightly = OnceTerms { keep_ms: 1_000, offset_ms: None, attempts: 0, pause_ms: 0 };
        let asks = [
            (Ask::Mutex, "mutex", "mutex"),
            (Ask::Turns { tokens: 1 }, "mutex, 1 turn", "mutex"),
            (Ask::Turns { tokens: 8 }, "mutex, 8 turns", "mutex"),
            (Ask::Stay { tokens: 8 }, "mutex, kept until wanted", "mutex"),
            (Ask::Read, "read", "rwlock"),
            (Ask::Write, "write", "rwlock"),
            (Ask::Permits { take: 2, of: 4 }, "2/4 permits", "semaphore of 4"),
            (Ask::Any, "any member", "pool"),
            (Ask::Member(member), "member b-3", "pool"),
            (Ask::Once(nightly), "once", "once"),
        ];
        for (ask, said, kind) in asks {
            assert_eq!(ask.to_string(), said);
            assert_eq!(ask.kind().to_string(), kind);
        }
    }

    #[test]
    fn a_period_ends_where_the_next_begins_however_long_the_work_took() {
        const HOUR: u64 = 3_600_000;
        let terms = OnceTerms { keep_ms: 24 * HOUR, offset_ms: None, attempts: 0, pause_ms: 0 };
        assert_eq!(terms.until_ms(100 * HOUR, 101 * HOUR), 125 * HOUR, "from its end");
        let nightly = OnceTerms { offset_ms: Some(2 * HOUR), ..terms };
        assert_eq!(nightly.until_ms(49 * HOUR, 49 * HOUR), 50 * HOUR);
        assert_eq!(
            nightly.until_ms(50 * HOUR, 50 * HOUR),
            74 * HOUR,
            "the first moment of a period"
        );
        assert_eq!(nightly.until_ms(49 * HOUR, 51 * HOUR), 50 * HOUR, "the period of the grant");
        assert_eq!(nightly.until_ms(HOUR, HOUR), 2 * HOUR, "before the first");
    }
}
