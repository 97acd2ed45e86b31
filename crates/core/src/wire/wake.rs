//! Wake-ups as text, sealed with the secret of the owner whom they are for.

use super::{
    WordReader, hex_of, into_text, owner_word, public_id, push_grant, push_number, push_numbers,
    push_refusal, sha1,
};
use crate::{Owner, Token, WakeEvent};

/// A wake-up whose seal has yet to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedWake<'a> {
    seal: &'a str,
    body: &'a str,
    /// The owner it is for: see [`public_id`].
    pub id: &'a str,
    /// The beginning of the run of the server that sent it.
    pub run: &'a str,
    event: &'a str,
}

impl<'a> SealedWake<'a> {
    /// Takes a message apart. `None` if it can't be a wake-up.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (seal, body) = std::str::from_utf8(message).ok()?.split_once(' ')?;
        let (id, rest) = body.split_once(' ')?;
        let (run, event) = rest.split_once(' ')?;
        Some(Self { seal, body, id, run, event })
    }

    /// What it says, if it was made by somebody who knows the owner's secret.
    pub fn open(&self, owner: Owner) -> Option<WakeEvent> {
        if seal_of(owner, self.body.as_bytes()) != self.seal.as_bytes() {
            return None;
        }
        let mut words = WordReader(self.event);
        Some(match words.word()? {
            "G" => WakeEvent::Granted(words.grant()?),
            // Scripts and modules of before said no token.
            "V" if words.0.is_empty() => WakeEvent::Revoked { token: None },
            "V" => WakeEvent::Revoked { token: Some(Token::from_raw(words.number()?)) },
            "X" => WakeEvent::Refused(words.refusal()?),
            "I" => WakeEvent::Inquired { number: words.number()? },
            _ => return None,
        })
    }
}

/// The message of a wake-up, sent in this run of a server.
pub fn seal(owner: Owner, run: &str, event: &WakeEvent) -> String {
    let run = run.get(..16).unwrap_or(run);
    let mut body = Vec::with_capacity(96);
    for word in [&public_id(owner), run] {
        body.extend_from_slice(word.as_bytes());
        body.push(b' ');
    }
    match event {
        WakeEvent::Granted(grant) => {
            body.extend_from_slice(b"G ");
            push_grant(&mut body, grant);
        }
        WakeEvent::Revoked { token } => {
            body.push(b'V');
            if let Some(token) = token {
                push_numbers(&mut body, &[Some(token.raw())]);
            }
        }
        WakeEvent::Inquired { number } => {
            body.extend_from_slice(b"I ");
            push_number(&mut body, *number);
        }
        WakeEvent::Refused(refusal) => {
            body.extend_from_slice(b"X ");
            push_refusal(&mut body, *refusal);
        }
    }
    into_text([&*seal_of(owner, &body), b" ", &body].concat())
}

fn seal_of(owner: Owner, body: &[u8]) -> Vec<u8> {
    hex_of(&sha1(&[&owner_word(owner), body]))
}
