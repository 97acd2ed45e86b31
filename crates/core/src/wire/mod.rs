//! The wire format: requests as arguments, replies and wake-ups as text. The Lua scripts, the module and the
//! client all use it.
//!
//! ```text
//!   request   a verb and its arguments
//!   reply     NOW FLAGS LETTER …           one line; a refresh has one more for each grant it tells of
//!   wake-up   SEAL ID RUN LETTER …         the seal is sha1(owner + all that follows it)
//! ```
//!
//! What is read is checked: whoever may write to a server may have written anything. An owner is a
//! secret, and goes out only from whoever has it: all else names it by a hash.

mod digits;
mod head;
mod reply;
mod request;
mod wake;

use digits::{hex, push_hex};

pub use digits::{number, push_number};
pub use head::Head;
pub use reply::{WireReply, decode, encode, encode_to};
pub use request::{StepArgs, Verb, decode_request, encode_request, encode_request_to};
pub use wake::{SealedWake, seal};

use crate::{Ask, ClientId, Grant, Kind, Member, Owner, Refusal, Token, Vote};

/// The hash of the wire, in hexadecimal digits.
pub fn sha1_hex(text: impl AsRef<[u8]>) -> String {
    into_text(hex_of(&sha1(&[text.as_ref()])))
}

/// The hash of all these, one behind the other.
fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut hash = sha1_smol::Sha1::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.digest().bytes()
}

fn hex_of(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 * bytes.len());
    push_hex(&mut text, bytes);
    text
}

/// An owner as its holder sends it.
pub fn owner_text(owner: Owner) -> String {
    into_text(owner_word(owner))
}

fn owner_word(owner: Owner) -> Vec<u8> {
    hex_of(&owner.expose().to_be_bytes())
}

/// A client as all name it.
pub fn client_text(client: ClientId) -> String {
    into_text(hex_of(&client.bits().to_be_bytes()))
}

/// Reads what [`owner_text`] wrote.
pub fn owner(text: &str) -> Option<Owner> {
    read_owner(text.as_bytes())
}

fn read_owner(word: &[u8]) -> Option<Owner> {
    let (high, low) = word.split_at_checked(16).filter(|_| word.len() == 32)?;
    Some(Owner::from_bits(u128::from(hex(high)?) << 64 | u128::from(hex(low)?)))
}

/// What we write is text: of ourselves we write digits and letters, and names are text already.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// By what all others name an owner: a hash, since it is a secret.
pub fn public_id(owner: Owner) -> String {
    into_text(hex_of(&sha1(&[&owner_word(owner)])[..8]))
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

fn push_ask(text: &mut Vec<u8>, ask: &Ask) {
    match ask {
        Ask::Mutex => text.push(b'm'),
        Ask::Turns { tokens } => {
            text.push(b'm');
            push_number(text, (*tokens).into());
        }
        Ask::Read => text.push(b'r'),
        Ask::Write => text.push(b'w'),
        Ask::Permits { take, of } => {
            text.push(b's');
            push_number(text, (*take).into());
            text.push(b'/');
            push_number(text, (*of).into());
        }
        Ask::Any => text.push(b'a'),
        Ask::Member(member) => {
            text.push(b'n');
            text.extend_from_slice(member.as_str().as_bytes());
        }
    }
}

/// Words parted by single spaces, with free text at the end.
struct WordReader<'a>(&'a str);

impl<'a> WordReader<'a> {
    fn word(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(number(self.word()?.as_bytes())?).ok()
    }

    /// A number, or `-` for none.
    fn maybe(&mut self) -> Option<Option<u64>> {
        maybe(self.word()?.as_bytes())
    }

    /// Token, deadline, and a member's name if there is one. A token with which others are reserved is
    /// followed by how many: `12+3`. A vote's token is followed by its number and ticket, with a mark if
    /// it is inquired about: `12/7/5!`.
    fn grant(&mut self) -> Option<Grant> {
        let word = self.word()?;
        let (token, vote) = match word.split_once('/') {
            None => (word, None),
            Some((token, vote)) => {
                let inquired = vote.strip_suffix('!');
                let (number, ticket) = inquired.unwrap_or(vote).split_once('/')?;
                let (number, ticket) =
                    (self::number(number.as_bytes())?, self::number(ticket.as_bytes())?);
                (token, Some(Vote { number, ticket, inquired: inquired.is_some() }))
            }
        };
        let (token, more) = token.split_once('+').unwrap_or((token, "0"));
        let token = Some(Token::from_raw(self::number(token.as_bytes())?));
        let more = u32::try_from(self::number(more.as_bytes())?).ok()?;
        let tokens = more.checked_add(1)?;
        let deadline_ms = self.number()?;
        let member = match self.0 {
            "" => None,
            name => Some(Member::new(name).ok()?),
        };
        Some(Grant { token, tokens, deadline_ms, member, vote })
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

fn maybe(word: &[u8]) -> Option<Option<u64>> {
    match word {
        b"-" => Some(None),
        word => number(word).map(Some),
    }
}

/// A number, or `-` for none.
fn push_maybe(text: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => push_number(text, number),
        None => text.push(b'-'),
    }
}

/// Numbers, with a space before each.
fn push_numbers(text: &mut Vec<u8>, numbers: &[Option<u64>]) {
    for number in numbers {
        text.push(b' ');
        push_maybe(text, *number);
    }
}

fn push_grant(text: &mut Vec<u8>, grant: &Grant) {
    push_number(text, grant.token.unwrap_or_default().raw());
    if grant.tokens > 1 {
        text.push(b'+');
        push_number(text, u64::from(grant.tokens - 1));
    }
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

fn push_refusal(text: &mut Vec<u8>, refusal: Refusal) {
    let word: &[u8] = match refusal {
        Refusal::KindMismatch(_) => b"kind ",
        Refusal::QueueFull => b"full",
        Refusal::PoolFull => b"pool",
        Refusal::TooLate => b"late",
        Refusal::Cancelled => b"cancelled",
        Refusal::InvalidLease => b"lease",
        Refusal::InvalidPermits => b"permits",
        Refusal::Quarantined { .. } => b"quarantined ",
    };
    text.extend_from_slice(word);
    match refusal {
        Refusal::KindMismatch(kind) => text.extend_from_slice(kind_text(kind).as_bytes()),
        Refusal::Quarantined { until_ms } => push_number(text, until_ms),
        _ => {}
    }
}
