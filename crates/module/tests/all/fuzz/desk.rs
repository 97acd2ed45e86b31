//! What commands are made of: names, secrets and numbers, some known to be valid, some not.

use taketurns_core::{ClientId, Owner};
use taketurns_servers::fuzz::Dice;

use crate::fuzz::model::{Effect, Model};

/// A command, and its effect if it is carried out.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) effect: Effect,
}

impl Command {
    pub(crate) fn new(words: &[&[u8]], effect: Effect) -> Self {
        Self { words: words.iter().map(|word| word.to_vec()).collect(), effect }
    }

    /// Builds a command that changes nothing in the model.
    pub(crate) fn plain(words: &[&[u8]]) -> Self {
        Self::new(words, Effect::Nothing)
    }

    /// May the reply take long?
    pub(crate) fn may_block(&self) -> bool {
        let is = |word: Option<&Vec<u8>>, text: &[u8]| {
            word.is_some_and(|word| word.eq_ignore_ascii_case(text))
        };
        is(self.words.first(), b"FENCELOCK.ACQUIRE")
            && self.words.iter().any(|word| is(Some(word), b"WAIT"))
    }
}

/// Numbers at the edges of what is valid.
const EDGES: [&str; 20] = [
    "0",
    "-1",
    "+1",
    "1.5",
    "-0",
    "1e3",
    "0x10",
    " 1",
    "",
    "nan",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
    "86400",
    "86400000",
];

/// The keys: any bytes may be in a name, or none.
const KEYS: [&[u8]; 6] = [b"lk:a", b"tt:b", b"", b"\xff\x00\n", b"a b {c}", &[b'k'; 2_000]];

pub(crate) const MEMBERS: [&str; 4] = ["m1", "m2", "\u{fc}", "m 4"];

pub(crate) struct Desk {
    pub(crate) rng: Dice,
    pub(crate) model: Model,
    pub(crate) run: String,
    /// The bindings that `FENCELOCK.BIND` returned.
    pub(crate) bindings: Vec<Vec<u8>>,
    pub(crate) dumps: Vec<Vec<u8>>,
    /// Small enough to be secrets of clients too.
    owners: Vec<Owner>,
    clients: Vec<ClientId>,
}

impl Desk {
    pub(crate) fn new(seed: u64, run: String, bindings: Vec<Vec<u8>>, is_wild: bool) -> Self {
        let mut rng = Dice::new(seed);
        let owners = (0..10).map(|_| Owner::from_bits((rng.any() >> 11).into())).collect();
        let clients = (0..4).map(|_| ClientId::of_program(rng.any())).collect();
        let model = Model::new(is_wild);
        Self { rng, model, run, bindings, dumps: Vec::new(), owners, clients }
    }

    pub(crate) fn key(&mut self) -> Vec<u8> {
        self.rng.pick(&KEYS).to_vec()
    }

    /// Returns a number from this range, or now and then any number.
    pub(crate) fn number(&mut self, from: u64, to: u64) -> Vec<u8> {
        if self.rng.percent(4) {
            return self.rng.pick(&EDGES).into();
        }
        (from + self.rng.any() % (to - from + 1)).to_string().into()
    }

    /// Returns a known holder of this lock, or any owner.
    pub(crate) fn owner(&mut self, key: &[u8]) -> Owner {
        let holders = self.model.holders(key);
        if !holders.is_empty() && !self.rng.percent(15) {
            return self.model.holders(key)[self.rng.below(self.model.holders(key).len())].owner;
        }
        self.owners[self.rng.below(self.owners.len())]
    }

    pub(crate) fn token(&mut self, key: &[u8]) -> u64 {
        let token = self.model.holders(key).last().map_or(5, |holder| holder.token);
        if self.rng.percent(20) { token.wrapping_sub(self.rng.any() % 3) } else { token }
    }

    /// Returns an owner, and whether it may have asked before.
    pub(crate) fn asker(&mut self) -> (Owner, bool) {
        if self.rng.percent(30) {
            return (self.owners[self.rng.below(self.owners.len())], true);
        }
        let bits = u128::from(self.rng.any()) << 64 | u128::from(self.rng.any());
        (Owner::from_bits(bits), false)
    }

    pub(crate) fn client(&mut self) -> ClientId {
        if self.rng.percent(3) {
            return ClientId::from_bits(self.rng.any());
        }
        self.clients[self.rng.below(self.clients.len())]
    }

    pub(crate) fn binding(&mut self) -> Vec<u8> {
        if self.rng.percent(3) {
            return self.rng.bytes(20);
        }
        // The last one needs a marker, which is not always there.
        let usual = self.bindings.len() - 1;
        let at = if self.rng.percent(5) { usual } else { self.rng.below(usual) };
        self.bindings[at].clone()
    }

    /// Damages a command.
    pub(crate) fn mutate(&mut self, command: Command) -> Command {
        let mut words = command.words;
        for _ in 0..1 + self.rng.below(2) {
            let at = 1 + self.rng.below(words.len());
            let edge = self.rng.pick(&EDGES).as_bytes().to_vec();
            match self.rng.below(7) {
                0 if at < words.len() => drop(words.remove(at)),
                1 if at < words.len() => words[at] = edge,
                2 if at < words.len() => words[at] = self.rng.bytes(40),
                3 if at < words.len() => words.insert(at, words[at].clone()),
                4 if at + 1 < words.len() => words.swap(at, at + 1),
                5 => words.truncate(at),
                _ => words.insert(at.min(words.len()), edge),
            }
        }
        // It may still be carried out, on any key.
        let named = words.iter().filter(|word| KEYS.contains(&&word[..])).cloned().collect();
        Command { words, effect: Effect::Upsets(named) }
    }
}

/// Parses a number as the server would; 0 if it is none.
pub(crate) fn read(number: &[u8]) -> u64 {
    str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
