//! From the words of a script to what a session is given.

use taketurns_core::session::{AcquireSpec, CallFailure, HoldTerms, WaitLimit};
use taketurns_core::{
    Ask, Completion, Grant, Kind, Label, Name, Owner, Place, Refusal, Reply, Token, WakeEvent,
};

use crate::golden::words::{Words, ask, name, owner};

pub(super) const OPTIONS: [&str; 19] = [
    "tokens",
    "stay",
    "lock",
    "lease",
    "wait",
    "max_hold",
    "turns",
    "token",
    "until",
    "place",
    "front",
    "recheck",
    "quarantined",
    "waiting",
    "granted",
    "engine",
    "server",
    "bury",
    "for",
];

/// What a request is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Acquire,
    Renew,
    Release,
}

pub(super) fn subject(word: &str) -> Result<Subject, String> {
    Ok(match word {
        "acquire" => Subject::Acquire,
        "renew" => Subject::Renew,
        "release" => Subject::Release,
        _ => return Err(format!("`{word}` is never answered")),
    })
}

/// Milliseconds, with a fraction of up to three digits.
pub(super) fn us(word: &str) -> Result<u64, String> {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let digits = format!("{whole}{part:0<3}");
    let us = digits.parse().ok().filter(|_| part.len() <= 3);
    us.ok_or_else(|| format!("`{word}` is no time"))
}

pub(super) fn lock(word: &str) -> Result<Name, String> {
    Name::new(word).map_err(|invalid| invalid.to_string())
}

pub(super) fn lock_of(words: &Words<'_>) -> Result<Name, String> {
    lock(words.value("lock").unwrap_or("job"))
}

/// The server that a lock is on.
pub(super) fn server(lock: &Name) -> u64 {
    let number = lock.as_str().split_once('@').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(0)
}

pub(super) fn terms(words: &Words<'_>) -> Result<HoldTerms, String> {
    Ok(HoldTerms {
        lock: lock_of(words)?,
        owner: owner(words.at(1)?)?,
        lease_ms: words.option("lease", 30_000)?,
        max_hold_us: words.maybe("max_hold")?.map(|ms| ms * 1_000),
        bury_until_ms: words.option("bury", 0)?,
    })
}

pub(super) fn spec(words: &Words<'_>, now_us: u64) -> Result<AcquireSpec, String> {
    let terms = terms(words)?;
    let wait_limit = match words.value("wait") {
        None => WaitLimit::Endless,
        Some("no") => WaitLimit::Try,
        Some(word) => WaitLimit::Until(now_us + us(word)?),
    };
    let ask = match (words.maybe("turns")?, words.maybe("stay")?, words.list.get(2)) {
        (Some(turns), ..) => Ask::Turns { tokens: turns as u32 },
        (_, Some(turns), _) => Ask::Stay { tokens: turns as u32 },
        (.., Some(word)) => ask(word)?,
        (.., None) => Ask::Mutex,
    };
    let label = Label::new(&name(terms.owner), "").map_err(|invalid| invalid.to_string())?;
    Ok(AcquireSpec { terms, ask, at_least_ms: 0, label, wait_limit })
}

pub(super) fn grant(words: &Words<'_>) -> Result<Grant, String> {
    let deadline_ms = words.maybe("until")?.ok_or("`until=` is missing")?;
    let tokens = words.option("tokens", 1)? as u32;
    let wanted = words.list.contains(&"wanted");
    Ok(Grant { token: token(words)?, tokens, wanted, deadline_ms, member: None, vote: None })
}

fn token(words: &Words<'_>) -> Result<Option<Token>, String> {
    Ok(words.maybe("token")?.map(Token::from_raw))
}

pub(super) fn wake(words: &Words<'_>) -> Result<WakeEvent, String> {
    Ok(match words.at(2)? {
        "granted" => WakeEvent::Granted(grant(words)?),
        "revoked" => WakeEvent::Revoked { token: token(words)? },
        "refused" => WakeEvent::Refused(refusal(words.at(3)?)?),
        "done" => WakeEvent::DoneBefore(Box::new(completion())),
        "wanted" => WakeEvent::Wanted { token: token(words)?.unwrap_or_default() },
        other => return Err(format!("`{other}` is no wake-up")),
    })
}

/// The answer to a request.
pub(super) fn reply(words: &Words<'_>) -> Result<Result<Reply, CallFailure>, String> {
    Ok(Ok(match words.at(3)? {
        "granted" => Reply::Granted(grant(words)?),
        "renewed" => Reply::Renewed(grant(words)?),
        "queued" => Reply::Queued(Place {
            number: words.option("place", 1)?,
            front: words.option("front", 1)?,
            recheck_ms: words.maybe("recheck")?,
            quarantined_until_ms: words.maybe("quarantined")?,
        }),
        "refreshed" => Reply::Refreshed {
            waiting: words.option("waiting", 0)? as u32,
            front: words.option("front", 1)?,
            recheck_ms: words.maybe("recheck")?,
            quarantined_until_ms: words.maybe("quarantined")?,
            granted: granted(words)?,
        },
        "busy" => Reply::Busy,
        "kept" => Reply::Kept,
        "done" => Reply::DoneBefore(Box::new(completion())),
        "revoked" => Reply::Revoked,
        "released" => Reply::Released,
        "left" => Reply::Left,
        "not_held" => Reply::NotHeld,
        "refused" => Reply::Refused(refusal(words.at(4)?)?),
        "failed" => return Ok(Err(failure(words.at(4)?)?)),
        other => return Err(format!("`{other}` is no reply")),
    }))
}

fn completion() -> Completion {
    Completion::new(Label::new("somebody", "").expect("a label"), Token::from_raw(7), 1, 2)
}

fn granted(words: &Words<'_>) -> Result<Vec<(Owner, Grant)>, String> {
    let Some(word) = words.value("granted") else { return Ok(Vec::new()) };
    Ok(vec![(owner(word)?, grant(words)?)])
}

fn refusal(word: &str) -> Result<Refusal, String> {
    Ok(match word {
        "cancelled" => Refusal::Cancelled,
        "too_late" => Refusal::TooLate,
        "queue_full" => Refusal::QueueFull,
        "kind" => Refusal::KindMismatch(Kind::RwLock),
        _ => return Err(format!("`{word}` is no refusal")),
    })
}

fn failure(word: &str) -> Result<CallFailure, String> {
    Ok(match word {
        "not_done" => CallFailure::NotDone,
        "unknown" => CallFailure::Unknown,
        "broken" => CallFailure::Broken,
        "unsupported" => CallFailure::Unsupported,
        _ => return Err(format!("`{word}` is no failure")),
    })
}
