//! Wake-ups as text, sealed with the secret of the owner whom they are for.

use std::fmt::Write;

use super::{Words, owner_text, public_id, sha1_hex, write_grant, write_refusal};
use crate::{Owner, WakeEvent};

/// A wake-up whose seal has yet to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    seal: &'a str,
    body: &'a str,
    /// The owner it is for: see [`public_id`].
    pub id: &'a str,
    /// The beginning of the run of the server that sent it.
    pub run: &'a str,
    event: &'a str,
}

impl<'a> Sealed<'a> {
    /// Takes a message apart. `None` if it can't be a wake-up.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (seal, body) = std::str::from_utf8(message).ok()?.split_once(' ')?;
        let (id, rest) = body.split_once(' ')?;
        let (run, event) = rest.split_once(' ')?;
        Some(Self { seal, body, id, run, event })
    }

    /// What it says, if it was made by somebody who knows the owner's secret.
    pub fn open(&self, owner: Owner) -> Option<WakeEvent> {
        if sha1_hex(owner_text(owner) + self.body) != self.seal {
            return None;
        }
        let mut words = Words(self.event);
        Some(match words.word()? {
            "G" => WakeEvent::Granted(words.grant()?),
            "V" => WakeEvent::Revoked,
            "X" => WakeEvent::Refused(words.refusal()?),
            "I" => WakeEvent::Inquired { number: words.number()? },
            _ => return None,
        })
    }
}

/// The message of a wake-up, sent in this run of a server.
pub fn seal(owner: Owner, run: &str, event: &WakeEvent) -> String {
    let run = run.get(..16).unwrap_or(run);
    let mut body = format!("{} {run} ", public_id(owner));
    // Writing to a string never fails.
    let _ = match event {
        WakeEvent::Granted(grant) => {
            body.push_str("G ");
            write_grant(&mut body, grant)
        }
        WakeEvent::Revoked => body.write_str("V"),
        WakeEvent::Inquired { number } => write!(body, "I {number}"),
        WakeEvent::Refused(refusal) => {
            body.push_str("X ");
            write_refusal(&mut body, *refusal)
        }
    };
    format!("{} {body}", sha1_hex(owner_text(owner) + &body))
}
