//! Replies as text.

use std::fmt::{self, Write};

use super::{Maybe, Words, public_id, write_grant, write_refusal};
use crate::{Grant, Owner, Place, Reply};

/// A reply, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The engine's time.
    pub now_ms: u64,
    /// One step was not enough.
    pub more: bool,
    /// What the lock said.
    pub reply: Reply,
}

/// Reads a reply. `owner_of` is asked whose id that is: who is not known is left out. `None` if no
/// lock of ours says that.
pub fn decode(text: &str, owner_of: impl Fn(&str) -> Option<Owner>) -> Option<Answered> {
    let (first, rest) = match text.split_once('\n') {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    let mut words = Words(first);
    let (now_ms, flags): (u64, u8) = (words.number()?, words.number()?);
    let reply = match words.word()? {
        "G" => Reply::Granted(words.grant()?),
        "N" => Reply::Renewed(words.grant()?),
        "Q" => Reply::Queued(Place {
            number: words.number()?,
            front: words.number()?,
            recheck_ms: words.maybe()?,
            quarantined_until_ms: words.maybe()?,
        }),
        "F" => Reply::Refreshed {
            waiting: words.number()?,
            front: words.number()?,
            recheck_ms: words.maybe()?,
            quarantined_until_ms: words.maybe()?,
            granted: rest.map_or(Some(Vec::new()), |rest| told(rest, owner_of))?,
        },
        "B" => Reply::Busy,
        "V" => Reply::Revoked,
        "R" => Reply::Released,
        "L" => Reply::Left,
        "H" => Reply::NotHeld,
        "K" => Reply::Broken(words.number()?),
        "C" => Reply::Changed(words.word()? == "1"),
        "D" => Reply::Done,
        "X" => Reply::Refused(words.refusal()?),
        _ => return None,
    };
    Some(Answered { now_ms, more: flags & 1 != 0, reply })
}

/// The grants that a refresh tells of, one in each line.
fn told(lines: &str, owner_of: impl Fn(&str) -> Option<Owner>) -> Option<Vec<(Owner, Grant)>> {
    let mut granted = Vec::new();
    for line in lines.split('\n') {
        let mut words = Words(line);
        let id = words.word()?;
        (words.word()? == "G").then_some(())?;
        let grant = words.grant()?;
        granted.extend(owner_of(id).map(|owner| (owner, grant)));
    }
    Some(granted)
}

/// Writes a reply.
pub fn encode(answered: &Answered) -> String {
    let mut text = String::with_capacity(64);
    // Writing to a string never fails.
    let _ = write_answered(&mut text, answered);
    text
}

fn write_answered(text: &mut String, answered: &Answered) -> fmt::Result {
    write!(text, "{} {} ", answered.now_ms, u8::from(answered.more))?;
    match &answered.reply {
        Reply::Granted(grant) => {
            text.write_str("G ")?;
            write_grant(text, grant)
        }
        Reply::Renewed(grant) => {
            text.write_str("N ")?;
            write_grant(text, grant)
        }
        Reply::Queued(Place { number, front, recheck_ms, quarantined_until_ms }) => {
            let (recheck, until) = (Maybe(*recheck_ms), Maybe(*quarantined_until_ms));
            write!(text, "Q {number} {front} {recheck} {until}")
        }
        Reply::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted } => {
            let (recheck, until) = (Maybe(*recheck_ms), Maybe(*quarantined_until_ms));
            write!(text, "F {waiting} {front} {recheck} {until}")?;
            for (owner, grant) in granted {
                write!(text, "\n{} G ", public_id(*owner))?;
                write_grant(text, grant)?;
            }
            Ok(())
        }
        Reply::Busy => text.write_str("B"),
        Reply::Revoked => text.write_str("V"),
        Reply::Released => text.write_str("R"),
        Reply::Left => text.write_str("L"),
        Reply::NotHeld => text.write_str("H"),
        Reply::Broken(count) => write!(text, "K {count}"),
        Reply::Changed(changed) => write!(text, "C {}", u8::from(*changed)),
        Reply::Done => text.write_str("D"),
        Reply::Refused(refusal) => {
            text.write_str("X ")?;
            write_refusal(text, *refusal)
        }
    }
}
