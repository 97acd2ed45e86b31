//! Holders and waiters as the scripts store them: numbers of fixed widths, then the words of the request.

use super::head::{LEASE_DIGITS, TIME_DIGITS, TOKEN_DIGITS};
use super::number;
use super::reply::WordReader;
use crate::Completion;

/// A stored waiter: since when it waits, and its request. The request is stored as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the word of that name")]
pub struct StoredWaiter<'a> {
    pub since_ms: u64,
    pub lease_ms: u64,
    pub owner: &'a str,
    pub client: &'a str,
    /// What it asks for, and before that for how long at least.
    pub ask: &'a str,
    pub who: &'a str,
    pub why: &'a str,
}

/// A stored holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the word of that name")]
pub struct StoredHolder<'a> {
    pub handed: bool,
    pub revoked: bool,
    pub resting: bool,
    pub token: u64,
    pub deadline_ms: u64,
    /// What it asked for, and since when it holds it.
    pub request: StoredWaiter<'a>,
    /// Empty except in a pool.
    pub member: &'a str,
    /// Empty, or number and ticket of a vote.
    pub vote: &'a str,
}

impl<'a> StoredWaiter<'a> {
    /// Reads a waiter. `None` if it is none.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (waiter, rest) = Self::parse_first(text)?;
        rest.is_none().then_some(waiter)
    }

    /// Reads a waiter, and the lines that follow it.
    fn parse_first(text: &'a str) -> Option<(Self, Option<&'a str>)> {
        let (since_us, text) = text.split_at_checked(TOKEN_DIGITS)?;
        let (lease_ms, text) = text.split_at_checked(LEASE_DIGITS)?;
        let (owner, text) = text.split_at_checked(32)?;
        let (client, text) = text.split_at_checked(16)?;
        let mut lines = text.splitn(4, '\n');
        let waiter = Self {
            since_ms: number(since_us.as_bytes())? / 1_000,
            lease_ms: number(lease_ms.as_bytes())?,
            owner,
            client,
            ask: lines.next()?,
            who: lines.next()?,
            why: lines.next()?,
        };
        Some((waiter, lines.next()))
    }
}

impl<'a> StoredHolder<'a> {
    /// Reads a holder. `None` if it is none.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (flags, text) = text.split_at_checked(2)?;
        let (token, text) = text.split_at_checked(TOKEN_DIGITS)?;
        let (deadline_ms, text) = text.split_at_checked(TIME_DIGITS)?;
        let (request, rest) = StoredWaiter::parse_first(text)?;
        let (member, vote) = rest.map_or(Some(("", "")), |rest| rest.split_once('\n'))?;
        Some(Self {
            handed: flags.starts_with(['1', '3']),
            revoked: flags.ends_with('1'),
            resting: flags.ends_with('2'),
            token: number(token.as_bytes())?,
            deadline_ms: number(deadline_ms.as_bytes())?,
            request,
            member,
            vote,
        })
    }
}

/// What a once remembers, as the scripts store it in one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredWork {
    /// Attempts failed.
    #[expect(missing_docs, reason = "each is the word of that name")]
    Open { failed: u32, ended_ms: u64, until_ms: u64 },
    /// The work is done.
    Done(Completion),
}

impl StoredWork {
    /// The field of the hash.
    pub const FIELD: &str = "x";

    /// Reads it. `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, lines) = text.split_once('\n').unwrap_or((text, ""));
        let mut words = WordReader(first.get(2..)?);
        match &first[..2] {
            "A " => Some(StoredWork::Open {
                failed: words.number()?,
                ended_ms: words.number()?,
                until_ms: words.number()?,
            }),
            "E " => words.completion(lines).map(StoredWork::Done),
            _ => None,
        }
    }
}
