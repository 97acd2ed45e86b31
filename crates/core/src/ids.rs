//! Ids: the secret [`Owner`], the public [`ClientId`] and the fencing [`Token`].

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The secret that authorises renewing and releasing one grant: 128 random bits, fresh for every
/// acquire. It has no `Display`, and its `Debug` hides the bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner(u128);

impl Owner {
    /// Wraps 128 bits that the caller drew from the operating system.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the bits, for the wire and for storage only.
    pub const fn expose(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(…)")
    }
}

/// The client that a holder or a waiter belongs to. Wake-ups go to it, and its refreshes keep its
/// places in the queue alive. Public: it authorises nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// Set if the client is only a connection to the server that keeps the lock.
const CONNECTION: u64 = 1 << 63;
/// With `CONNECTION`: what the client holds ends when its connection closes. Without it: an
/// anonymous caller, which keeps nothing alive; the other bits are the caller's number.
const BOUND: u64 = 1 << 62;

impl ClientId {
    /// No client at all. A holder with this id gets no wake-ups.
    pub const NOBODY: Self = Self(0);

    /// Returns the id of a program, which keeps its places and leases alive by itself. `bits` are
    /// 64 bits that the caller drew from the operating system.
    pub const fn of_program(bits: u64) -> Self {
        Self(bits & !(CONNECTION | BOUND))
    }

    /// Returns the id of a caller that asked on the connection with this number and does not wait.
    /// A holder with this id gets no wake-ups.
    pub const fn of_caller(number: u64) -> Self {
        Self(number & !CONNECTION | BOUND)
    }

    /// Returns the number of the caller if this is an id from [`ClientId::of_caller`].
    pub const fn caller(self) -> Option<u64> {
        let is_caller = !self.is_connection() && self.0 & BOUND != 0;
        if is_caller { Some(self.0 & !BOUND) } else { None }
    }

    /// Returns whether it is a program, which gets wake-ups.
    pub const fn is_program(self) -> bool {
        self.0 & (CONNECTION | BOUND) == 0 && self.0 != 0
    }

    /// Returns the id of a connection to the server that keeps the lock, from 64 random bits. Its
    /// places in the queue end when the connection closes, and so do its holds if it is `bound`.
    pub const fn of_connection(bits: u64, bound: bool) -> Self {
        let bits = bits | CONNECTION;
        Self(if bound { bits | BOUND } else { bits & !BOUND })
    }

    /// Returns whether this client's places end when its connection closes.
    pub const fn is_connection(self) -> bool {
        self.0 & CONNECTION != 0
    }

    /// Returns whether this client's holds end when its connection closes.
    pub const fn is_bound(self) -> bool {
        self.is_connection() && self.0 & BOUND != 0
    }

    /// Wraps 64 bits that are an id already.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Serializes as text for people and JavaScript, and as a number for stores.
impl Serialize for ClientId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for ClientId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            u64::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
        } else {
            u64::deserialize(deserializer).map(Self)
        }
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientId({self})")
    }
}

/// A fencing token: strictly increasing per lock, in the order of the grants. It is not a secret.
/// The resource that the lock guards refuses every token older than the newest it has seen.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// The token of a lock without tokens, because its store speaks a foreign protocol that has
    /// none. Every token from a store is larger, and a fence never admits this one.
    pub const UNFENCED: Self = Self(0);

    /// Wraps a number that [`Token::raw`] returned earlier, for example one read from a database.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Returns whether a store issued it, so that a resource can compare it. False only for
    /// [`Token::UNFENCED`].
    pub const fn is_fenced(self) -> bool {
        self.0 > Self::UNFENCED.0
    }

    /// Returns the token, or `None` if it is [`Token::UNFENCED`].
    pub fn fenced(self) -> Option<Self> {
        self.is_fenced().then_some(self)
    }

    /// Returns the number that the resource compares.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_the_owner() {
        assert_eq!(format!("{:?}", Owner::from_bits(0xdead_beef)), "Owner(…)");
        assert_eq!(Owner::from_bits(5).expose(), 5);
    }

    #[test]
    fn every_token_of_a_store_is_larger_than_none() {
        assert!(!Token::UNFENCED.is_fenced() && Token::UNFENCED.fenced().is_none());
        let first = Token::from_raw(1);
        assert!(first > Token::UNFENCED && first.fenced() == Some(first));
    }

    #[test]
    fn what_a_client_is_can_be_told_from_its_id() {
        for bits in [0, 1, u64::MAX] {
            let program = ClientId::of_program(bits);
            assert!(!program.is_connection() && program.is_program() == (bits != 0));
            assert!(program.caller().is_none());
            let (waits, holds) =
                (ClientId::of_connection(bits, false), ClientId::of_connection(bits, true));
            assert!(waits.is_connection() && !waits.is_bound());
            assert!(holds.is_connection() && holds.is_bound());
        }
        let caller = ClientId::of_caller(7);
        assert!(!caller.is_connection() && !caller.is_bound() && !caller.is_program());
        assert_eq!(caller.caller(), Some(7));
        assert!(!ClientId::NOBODY.is_connection() && !ClientId::NOBODY.is_program());
    }

    #[test]
    fn a_client_id_reads_as_sixteen_hex_digits() {
        assert_eq!(ClientId::from_bits(0xab).to_string(), "00000000000000ab");
        assert_eq!(format!("{:?}", ClientId::from_bits(1)), "ClientId(0000000000000001)");
        assert_eq!(ClientId::from_bits(9).bits(), 9);
    }

    #[test]
    fn a_client_id_is_text_for_people_and_a_number_for_a_store() {
        let id = ClientId::from_bits(u64::MAX);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, "\"ffffffffffffffff\"");
        assert_eq!(serde_json::from_str::<ClientId>(&text).unwrap(), id);
        assert!(serde_json::from_str::<ClientId>("\"x\"").is_err());
        let bytes = postcard::to_allocvec(&id).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&u64::MAX).unwrap());
        assert_eq!(postcard::from_bytes::<ClientId>(&bytes).unwrap(), id);
    }

    #[test]
    fn a_token_reads_as_its_number() {
        assert_eq!(Token::from_raw(42).to_string(), "42");
        assert_eq!(Token::from_raw(42).raw(), 42);
    }
}
