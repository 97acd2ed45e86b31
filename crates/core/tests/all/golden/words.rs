//! The words that the scripts of both kinds are made of.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use taketurns_core::{Ask, ClientId, Member, Owner};

const LETTERS: RangeInclusive<char> = 'A'..='Z';
/// Owners from here on belong to a crowd.
pub(super) const CROWD: u128 = 1_000;

pub(super) fn owner(word: &str) -> Result<Owner, String> {
    let letter = word.chars().next().filter(|letter| word.len() == 1 && LETTERS.contains(letter));
    let letter = letter.ok_or_else(|| format!("`{word}` is no owner"))?;
    Ok(Owner::from_bits(u128::from(letter as u32 - 'A' as u32 + 1)))
}

pub(super) fn name(owner: Owner) -> String {
    match owner.expose() {
        n if n > CROWD => format!("#{}", n - CROWD),
        n => char::from(b'A' + n as u8 - 1).to_string(),
    }
}

pub(super) fn client(word: &str) -> Result<ClientId, String> {
    let number = word.strip_prefix('c').and_then(|number| number.parse().ok());
    number.map(ClientId::from_bits).ok_or_else(|| format!("`{word}` is no client"))
}

pub(super) fn member(word: &str) -> Result<Member, String> {
    Member::new(word).map_err(|invalid| invalid.to_string())
}

pub(super) fn ask(word: &str) -> Result<Ask, String> {
    let permits = |(take, of): (&str, &str)| Some((take.parse().ok()?, of.parse().ok()?));
    Ok(match word {
        "read" => Ask::Read,
        "write" => Ask::Write,
        "any" => Ask::Any,
        _ if word == "mutex" || word.contains('=') => Ask::Mutex,
        _ if word.starts_with("turns:") => {
            let tokens = word["turns:".len()..].parse();
            Ask::Turns { tokens: tokens.map_err(|_| format!("`{word}` has no number"))? }
        }
        _ if word.starts_with("stay:") => {
            let tokens = word["stay:".len()..].parse();
            Ask::Stay { tokens: tokens.map_err(|_| format!("`{word}` has no number"))? }
        }
        _ => match (word.strip_prefix("member:"), word.split_once('/').and_then(permits)) {
            (Some(name), _) => Ask::Member(member(name)?),
            (_, Some((take, of))) => Ask::Permits { take, of },
            _ => return Err(format!("`{word}` is nothing to ask for")),
        },
    })
}

/// A command, split at its blanks.
pub(super) struct Words<'a> {
    pub(super) list: Vec<&'a str>,
    pub(super) options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str, known: &[&str]) -> Result<Self, String> {
        let list: Vec<&str> = line.split_whitespace().collect();
        let options: BTreeMap<_, _> = list.iter().filter_map(|word| word.split_once('=')).collect();
        match options.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(format!("`{key}=` is no option")),
            None => Ok(Self { list, options }),
        }
    }

    pub(super) fn first(&self) -> Option<&'a str> {
        self.list.first().copied()
    }

    pub(super) fn at(&self, index: usize) -> Result<&'a str, String> {
        self.list.get(index).copied().ok_or_else(|| "a word is missing".into())
    }

    pub(super) fn parse<T: FromStr>(&self, index: usize) -> Result<T, String> {
        let word = self.at(index)?;
        word.parse().map_err(|_| format!("`{word}` is no number"))
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.options.get(key).copied()
    }

    pub(super) fn option(&self, key: &str, default: u64) -> Result<u64, String> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.parse().map_err(|_| format!("`{value}` is no number"))
    }

    pub(super) fn maybe(&self, key: &str) -> Result<Option<u64>, String> {
        self.value(key).map(|_| self.option(key, 0)).transpose()
    }
}
