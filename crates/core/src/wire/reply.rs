//! Replies as text.

use super::{
    WordReader, into_text, public_id, push_grant, push_number, push_numbers, push_refusal,
};
use crate::{Grant, Owner, Place, Reply};

/// A reply as it is on the wire, with the engine's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireReply {
    /// The engine's time.
    pub now_ms: u64,
    /// One step was not enough.
    pub more: bool,
    /// What the lock said.
    pub reply: Reply,
}

/// Reads a reply. `owner_of` is asked whose id that is: who is not known is left out. `None` if no
/// lock of ours says that.
pub fn decode(text: &str, owner_of: impl Fn(&str) -> Option<Owner>) -> Option<WireReply> {
    let (first, rest) = match text.split_once('\n') {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    let mut words = WordReader(first);
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
    Some(WireReply { now_ms, more: flags & 1 != 0, reply })
}

/// The grants that a refresh tells of, one in each line.
fn told(lines: &str, owner_of: impl Fn(&str) -> Option<Owner>) -> Option<Vec<(Owner, Grant)>> {
    let mut granted = Vec::new();
    for line in lines.split('\n') {
        let mut words = WordReader(line);
        let id = words.word()?;
        (words.word()? == "G").then_some(())?;
        let grant = words.grant()?;
        granted.extend(owner_of(id).map(|owner| (owner, grant)));
    }
    Some(granted)
}

/// Writes a reply.
pub fn encode(answered: &WireReply) -> String {
    let mut text = Vec::with_capacity(64);
    encode_to(&mut text, answered);
    into_text(text)
}

/// Writes a reply, at the end of what is there.
pub fn encode_to(text: &mut Vec<u8>, answered: &WireReply) {
    push_number(text, answered.now_ms);
    text.extend_from_slice(if answered.more { b" 1 " } else { b" 0 " });
    match &answered.reply {
        Reply::Granted(grant) => {
            text.extend_from_slice(b"G ");
            push_grant(text, grant);
        }
        Reply::Renewed(grant) => {
            text.extend_from_slice(b"N ");
            push_grant(text, grant);
        }
        Reply::Queued(Place { number, front, recheck_ms, quarantined_until_ms }) => {
            text.push(b'Q');
            let numbers = [Some(*number), Some(*front), *recheck_ms, *quarantined_until_ms];
            push_numbers(text, &numbers);
        }
        Reply::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted } => {
            text.push(b'F');
            let waiting = Some(u64::from(*waiting));
            push_numbers(text, &[waiting, Some(*front), *recheck_ms, *quarantined_until_ms]);
            for (owner, grant) in granted {
                text.push(b'\n');
                text.extend_from_slice(public_id(*owner).as_bytes());
                text.extend_from_slice(b" G ");
                push_grant(text, grant);
            }
        }
        Reply::Busy => text.push(b'B'),
        Reply::Revoked => text.push(b'V'),
        Reply::Released => text.push(b'R'),
        Reply::Left => text.push(b'L'),
        Reply::NotHeld => text.push(b'H'),
        Reply::Broken(count) => {
            text.push(b'K');
            push_numbers(text, &[Some((*count).into())]);
        }
        Reply::Changed(changed) => {
            text.extend_from_slice(if *changed { b"C 1" } else { b"C 0" });
        }
        Reply::Done => text.push(b'D'),
        Reply::Refused(refusal) => {
            text.extend_from_slice(b"X ");
            push_refusal(text, *refusal);
        }
    }
}
