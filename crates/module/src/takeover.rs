//! Locks that the scripts keep in a hash. While one is in use it stays with them; when it is idle it
//! becomes the module's, with its tokens, its members and all else that has to be remembered.

use std::collections::HashMap;

use taketurns_core::{Kind, Lock, Member, Now, Request, Token, limits, wire};

use crate::record::Record;
use crate::sys::{Ctx, Value};

/// The lock in this hash, if it is one that nobody uses.
pub(crate) fn idle_hash(ctx: &Ctx, key: &[u8], now: Now) -> Option<Record> {
    let names: [&[u8]; 4] = [b"s", b"h", b"q", b"r"];
    let Value::Array(head) = ctx.run(c"HMGET", &[key, names[0], names[1], names[2], names[3]])
    else {
        return None;
    };
    let head = names.into_iter().zip(head).filter_map(|(name, value)| match value {
        Value::Text(text) => Some((name.to_vec(), text)),
        _ => None,
    });
    if !Fields(head.collect()).is_idle(now)? {
        return None;
    }
    // Small, since nobody holds or waits.
    let Value::Array(all) = ctx.run(c"HGETALL", &[key]) else { return None };
    let mut fields = HashMap::new();
    let mut all = all.into_iter();
    while let (Some(Value::Text(name)), Some(Value::Text(value))) = (all.next(), all.next()) {
        fields.insert(name, value);
    }
    read(&Fields(fields), now)
}

struct Fields(HashMap<Vec<u8>, Vec<u8>>);

impl Fields {
    fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.0.get(name.as_bytes())?).ok()
    }

    /// The numbers in a field: `None` if it holds anything else but them and `-`.
    fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let Some(text) = self.text(name) else { return Some(vec![0; 5]) };
        text.split(' ').map(|word| if word == "-" { Some(0) } else { word.parse().ok() }).collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.numbers(name)?.first().copied()
    }

    /// Does nobody hold it, or only such whose lease is over, and does nobody wait? `None` if this is
    /// no lock.
    fn is_idle(&self, now: Now) -> Option<bool> {
        self.text("s")?;
        self.text("r")?;
        let [held, _, _, last_ms, ..] = self.numbers("h")?[..] else { return None };
        Some((held == 0 || last_ms <= now.ms) && self.number("q")? == 0)
    }

    /// The members: the free ones in their order, then those whose holder's time was up.
    fn members(&self) -> Option<Vec<Member>> {
        let mut members = Vec::new();
        for (name, state) in &self.0 {
            let Some(name) = name.strip_prefix(b"m").filter(|name| !name.is_empty()) else {
                continue;
            };
            let member = Member::new(std::str::from_utf8(name).ok()?).ok()?;
            let since = match state.split_first()? {
                (b'f', number) => std::str::from_utf8(number).ok()?.parse().ok()?,
                (b'h', []) => u64::MAX,
                (b'l', []) => continue,
                _ => return None,
            };
            members.push((since, member));
        }
        members.sort();
        Some(members.into_iter().map(|(_, member)| member).collect())
    }
}

fn read(fields: &Fields, now: Now) -> Option<Record> {
    fields.is_idle(now)?.then_some(())?;
    let kind = wire::kind(fields.text("k")?)?;
    let token = fields.number("t").filter(|token| *token <= limits::TOKEN_CLOCK_MAX)?;
    let mut lock = Lock::idle(kind, Token::from_raw(token), fields.number("s")?);
    if kind == Kind::Pool {
        for member in fields.members()? {
            lock.apply(now, &Request::PoolAdd { member });
        }
    }
    let [first, next, ..] = fields.numbers("d")?[..] else { return None };
    for number in first..next {
        let owner = fields.text(&format!("t{number}"))?;
        let bury_until_ms = fields.number(&format!("b{owner}"))?;
        lock.apply(now, &Request::Release { owner: wire::owner(owner)?, bury_until_ms });
    }
    lock.quarantine(fields.number("z")?);
    Some(Record::of(lock, fields.text("r")?.into(), "".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taketurns_core::{Acquire, Ask, ClientId, Label, Owner, Refusal, Reply};
    use taketurns_servers::fuzz;

    const NOW: Now = Now { ms: 5_000, wall_us: 5_000_000 };

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let base = [("s", "4000"), ("k", "m"), ("r", "run1"), ("t", "77")];
        let all = base.iter().chain(pairs);
        Fields(all.map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect())
    }

    fn acquire(lock: &mut Lock, owner: u128, ask: Ask) -> Reply {
        let acquire = Acquire {
            owner: Owner::from_bits(owner),
            client: ClientId::NOBODY,
            ask,
            lease_ms: 1_000,
            waiter_lease_ms: None,
            not_after_ms: u64::MAX,
            ballot: None,
            label: Label::default(),
        };
        lock.apply(NOW, &Request::Acquire(acquire)).reply
    }

    #[test]
    fn an_idle_lock_keeps_its_token_and_its_quarantine() {
        let record = read(&fields(&[("z", "9000")]), NOW).expect("idle");
        assert_eq!(record.lock.last_token(), Some(Token::from_raw(77)));
        assert_eq!(record.lock.quarantine_until_ms(), 9_000);
        let over = read(&fields(&[("h", "1 1 100 5000")]), NOW);
        assert!(over.is_some(), "its holder's lease is over");
    }

    #[test]
    fn one_in_use_and_what_is_no_lock_stay_as_they_are() {
        assert!(read(&fields(&[("h", "1 1 100 5001")]), NOW).is_none(), "held");
        assert!(read(&fields(&[("q", "1 4 4 5 -")]), NOW).is_none(), "waited for");
        assert!(read(&fields(&[("k", "x")]), NOW).is_none());
        assert!(read(&fields(&[("h", "x")]), NOW).is_none());
        assert!(read(&fields(&[("t", "9007199254740991")]), NOW).is_none(), "no token is left");
        assert!(read(&Fields(HashMap::new()), NOW).is_none());
    }

    #[test]
    fn a_pool_keeps_its_members_in_the_order_in_which_they_were_freed() {
        let members = [
            ("k", "p"),
            ("mb", "f1"),
            ("ma", "f12"),
            ("mc", "h"),
            ("md", "l"),
            ("m", "4 1 12 13 -"),
        ];
        let mut lock = read(&fields(&members), NOW).expect("idle").lock;
        for expected in ["b", "a", "c"] {
            let reply = acquire(&mut lock, expected.as_bytes()[0].into(), Ask::Any);
            let Reply::Granted(grant) = reply else { panic!("{reply:?}") };
            assert_eq!(grant.member.as_ref().map(Member::as_str), Some(expected));
        }
        assert_eq!(acquire(&mut lock, 9, Ask::Any), Reply::Busy, "one was leaving");
    }

    #[test]
    fn who_was_cancelled_stays_cancelled() {
        let owner = Owner::from_bits(5);
        let buried = format!("b{}", wire::owner_text(owner));
        let text = wire::owner_text(owner);
        let tombs = [("d", "3 4"), ("t3", text.as_str()), (buried.as_str(), "9000")];
        let mut lock = read(&fields(&tombs), NOW).expect("idle").lock;
        assert_eq!(acquire(&mut lock, 5, Ask::Mutex), Reply::Refused(Refusal::Cancelled));
        assert!(read(&fields(&[("d", "3 4")]), NOW).is_none(), "a tomb without an owner");
    }

    #[test]
    fn fuzz_a_hash_is_left_alone_or_becomes_a_lock_with_its_token() {
        let text = wire::owner_text(Owner::from_bits(5));
        let buried = format!("b{text}");
        let pool = [("k", "p"), ("mb-3", "f1"), ("ma", "f12"), ("mc", "h"), ("m", "4 1 12 13 -")];
        let tombs = [
            ("k", "s4"),
            ("d", "3 4"),
            ("t3", text.as_str()),
            (buried.as_str(), "9000"),
            ("z", "9"),
        ];
        fuzz::rounds("hashes of scripts", 10_000, |dice| {
            let mut hash = fields(if dice.percent(50) { &pool } else { &tombs }).0;
            let mut names: Vec<_> = hash.keys().cloned().collect();
            names.sort();
            let name = &names[dice.below(names.len())];
            let value = hash.remove(name).expect("there");
            if dice.percent(80) {
                hash.insert(name.clone(), dice.damaged(&[value]));
            } else {
                hash.insert(dice.damaged(&[name]), value);
            }
            let hash = Fields(hash);
            let Some(record) = read(&hash, NOW) else { return false };
            assert_eq!(
                record.lock.last_token().map_or(0, Token::raw),
                hash.number("t").unwrap_or(0)
            );
            assert_eq!((record.lock.holding(), record.lock.waiting()), (0, 0));
            let stored = Record::from_bytes(&record.to_bytes()).map(|record| record.lock);
            assert_eq!(stored, Ok(record.lock));
            true
        });
    }
}
