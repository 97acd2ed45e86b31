//! What a server says: replies, and wake-ups, which are sealed with the secret of the owner they are for.

use super::request::{maybe, push_number, push_numbers};
use super::{hex_of, into_text, kind, kind_text, number, owner_word, public_id, sha1};
use crate::{
    Completion, Grant, Label, Member, Note, Owner, Place, Refusal, Reply, Token, Vote, WakeEvent,
};

/// A reply as it is on the wire, with the engine's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireReply {
    /// The engine's time. `None` for a release that did not look at it.
    pub now_ms: Option<u64>,
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
    let now_ms = first.starts_with(|first: char| first.is_ascii_digit()).then(|| words.number());
    let (now_ms, flags): (Option<u64>, u8) = match now_ms {
        Some(now_ms) => (Some(now_ms?), words.number()?),
        None => (None, 0),
    };
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
        "S" => Reply::Kept,
        "E" => Reply::DoneBefore(Box::new(words.completion(rest?)?)),
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
    let is_timed = now_ms.is_some() || reply == Reply::Released;
    is_timed.then_some(WireReply { now_ms, more: flags & 1 != 0, reply })
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
    if let Some(now_ms) = answered.now_ms {
        push_number(text, now_ms);
        text.extend_from_slice(if answered.more { b" 1 " } else { b" 0 " });
    }
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
        Reply::Kept => text.push(b'S'),
        Reply::DoneBefore(done) => push_completion(text, done),
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
        let (first, lines) = match self.event.split_once('\n') {
            Some((first, lines)) if self.event.starts_with("E ") => (first, lines),
            _ => (self.event, ""),
        };
        let mut words = WordReader(first);
        Some(match words.word()? {
            "G" => WakeEvent::Granted(words.grant()?),
            // Scripts and modules of before said no token.
            "V" if words.0.is_empty() => WakeEvent::Revoked { token: None },
            "V" => WakeEvent::Revoked { token: Some(Token::from_raw(words.number()?)) },
            "X" => WakeEvent::Refused(words.refusal()?),
            "E" => WakeEvent::DoneBefore(Box::new(words.completion(lines)?)),
            "I" => WakeEvent::Inquired { number: words.number()? },
            "W" => WakeEvent::Wanted { token: Token::from_raw(words.number()?) },
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
        WakeEvent::Wanted { token } => {
            body.extend_from_slice(b"W ");
            push_number(&mut body, token.raw());
        }
        WakeEvent::DoneBefore(done) => push_completion(&mut body, done),
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

/// Words parted by single spaces, with free text at the end.
pub(super) struct WordReader<'a>(pub(super) &'a str);

impl<'a> WordReader<'a> {
    fn word(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word)
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(number(self.word()?.as_bytes())?).ok()
    }

    /// A number, or `-` for none.
    pub(super) fn maybe(&mut self) -> Option<Option<u64>> {
        maybe(self.word()?.as_bytes())
    }

    /// Token, deadline, and a member's name if there is one. A token with which others are reserved is
    /// followed by how many: `12+3`, with a mark if the lock is kept and wanted: `12+3!`. A vote's token
    /// is followed by its number and ticket, with a mark if it is inquired about: `12/7/5!`.
    fn grant(&mut self) -> Option<Grant> {
        let word = self.word()?;
        let (token, vote) = match word.split_once('/') {
            None => (word, None),
            Some((token, vote)) => {
                let inquired = vote.strip_suffix('!');
                let (first, second) = inquired.unwrap_or(vote).split_once('/')?;
                let (number, ticket) = (number(first.as_bytes())?, number(second.as_bytes())?);
                (token, Some(Vote { number, ticket, inquired: inquired.is_some() }))
            }
        };
        let wanted = token.strip_suffix('!');
        let token = wanted.unwrap_or(token);
        let (token, more) = token.split_once('+').unwrap_or((token, "0"));
        let token = Some(Token::from_raw(number(token.as_bytes())?));
        let more = u32::try_from(number(more.as_bytes())?).ok()?;
        let tokens = more.checked_add(1)?;
        let deadline_ms = self.number()?;
        let member = match self.0 {
            "" => None,
            name => Some(Member::new(name).ok()?),
        };
        Some(Grant { token, tokens, wanted: wanted.is_some(), deadline_ms, member, vote })
    }

    /// Token, times and failed attempts; and in more lines the label and the result.
    pub(super) fn completion(&mut self, lines: &str) -> Option<Completion> {
        let (token, at_ms) = (Token::from_raw(self.number()?), self.number()?);
        let (until_ms, failed) = (self.number()?, self.number()?);
        self.0.is_empty().then_some(())?;
        let (label, result) = lines.rsplit_once('\n')?;
        let by = Label::from_lines(label).ok()?;
        let done = Completion::new(by, token, at_ms, until_ms);
        Some(Completion { failed, result: Note::new(result).ok()?, ..done })
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
            "terms" => Refusal::InvalidTerms,
            "exhausted" => Refusal::Exhausted { failed: self.number()? },
            "quarantined" => Refusal::Quarantined { until_ms: self.number()? },
            _ => return None,
        })
    }
}

fn push_grant(text: &mut Vec<u8>, grant: &Grant) {
    push_number(text, grant.token.unwrap_or_default().raw());
    if grant.tokens > 1 {
        text.push(b'+');
        push_number(text, u64::from(grant.tokens - 1));
    }
    text.extend(grant.wanted.then_some(b'!'));
    if let Some(Vote { number, ticket, inquired }) = grant.vote {
        text.push(b'/');
        push_number(text, number);
        text.push(b'/');
        push_number(text, ticket);
        text.extend(inquired.then_some(b'!'));
    }
    text.push(b' ');
    push_number(text, grant.deadline_ms);
    text.push(b' ');
    if let Some(member) = &grant.member {
        text.extend_from_slice(member.as_str().as_bytes());
    }
}

fn push_completion(text: &mut Vec<u8>, done: &Completion) {
    text.push(b'E');
    let numbers = [done.token.raw(), done.at_ms, done.until_ms, done.failed.into()];
    push_numbers(text, &numbers.map(Some));
    for lines in [done.by.lines(), done.result.as_str()] {
        text.push(b'\n');
        text.extend_from_slice(lines.as_bytes());
    }
}

fn push_refusal(text: &mut Vec<u8>, refusal: Refusal) {
    let word: &[u8] = match refusal {
        Refusal::KindMismatch(_) => b"kind ",
        Refusal::QueueFull => b"full",
        Refusal::PoolFull => b"pool",
        Refusal::TooLate => b"late",
        Refusal::Cancelled => b"cancelled",
        Refusal::InvalidLease => b"lease",
        Refusal::InvalidPermits => b"permits",
        Refusal::InvalidTerms => b"terms",
        Refusal::Exhausted { .. } => b"exhausted ",
        Refusal::Quarantined { .. } => b"quarantined ",
    };
    text.extend_from_slice(word);
    match refusal {
        Refusal::KindMismatch(kind) => text.extend_from_slice(kind_text(kind).as_bytes()),
        Refusal::Quarantined { until_ms } => push_number(text, until_ms),
        Refusal::Exhausted { failed } => push_number(text, failed.into()),
        _ => {}
    }
}
