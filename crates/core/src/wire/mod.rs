//! The wire format: requests as arguments, replies and wake-ups as text. The Lua scripts, the module and the
//! client all use it.
//!
//! ```text
//!   request   a verb and its arguments
//!   reply     NOW FLAGS LETTER …           one line; a refresh has one more for each grant it tells of.
//!             R                            a release that did not look at the time
//!   wake-up   SEAL ID RUN LETTER …         the seal is sha1(owner + all that follows it)
//! ```
//!
//! A reply or a wake-up that tells of work that is done has three lines: numbers, and those of its label; its result is
//! in the first, after the numbers.
//!
//! Everything that is read is checked, since any user who may write to the server may have written it. An owner is a
//! secret: only its client sends it. Everything else names the owner by a hash.

mod head;
mod reply;
mod request;
mod stored;

use request::{hex, push_hex};

pub use head::Head;
pub use reply::{SealedWake, WireReply, decode, encode, encode_to, seal};
pub use request::{
    StepArgs, Verb, ask, decode_request, encode_request, encode_request_to, number, push_number,
    resting_ask,
};
pub use stored::{StoredHolder, StoredWaiter, StoredWork};

use crate::{ClientId, Kind, Owner};

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
    into_text(hex_of(&public_id_bits(owner).to_be_bytes()))
}

/// The same as a number.
pub(crate) fn public_id_bits(owner: Owner) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = sha1(&[&owner_word(owner)]);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Reads what [`public_id`] wrote.
pub(crate) fn parse_public_id(text: &str) -> Option<u64> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_id = text.len() == 16 && text.bytes().all(is_hex);
    u64::from_str_radix(text, 16).ok().filter(|_| is_id)
}

/// Reads a kind.
pub fn kind(text: &str) -> Option<Kind> {
    Some(match text {
        "m" => Kind::Mutex,
        "r" => Kind::RwLock,
        "p" => Kind::Pool,
        "o" => Kind::Once,
        _ => Kind::Semaphore { permits: text.strip_prefix('s')?.parse().ok()? },
    })
}

/// Writes a kind.
pub fn kind_text(kind: Kind) -> String {
    match kind {
        Kind::Mutex => "m".into(),
        Kind::RwLock => "r".into(),
        Kind::Pool => "p".into(),
        Kind::Once => "o".into(),
        Kind::Semaphore { permits } => format!("s{permits}"),
    }
}
