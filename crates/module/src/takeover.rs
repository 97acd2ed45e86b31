//! Locks that the scripts keep in a hash. A lock in use stays with the scripts. An idle one becomes
//! the module's, with its tokens, its members and everything else that it must remember.

use std::collections::HashMap;

use taketurns_core::wire::{self, Head, StoredHolder, StoredWork};
use taketurns_core::{Kind, Lock, Member, Now, Request, Token, limits};

use crate::record::Record;
use crate::sys::{Ctx, Value};

/// Reads the lock in this hash, if nobody uses it.
pub(crate) fn idle_hash(ctx: &Ctx, key: &[u8], now: Now) -> Option<Record> {
    let Value::Text(head) = ctx.run(c"HGET", &[key, Head::FIELD.as_bytes()]) else { return None };
    if !is_idle(&Head::parse(&head)?.0, now) {
        return None;
    }
    // Small, because nobody holds or waits.
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

    /// Returns the numbers in a field; `None` if it contains anything but numbers and `-`.
    fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let Some(text) = self.text(name) else { return Some(vec![0; 5]) };
        text.split(' ').map(|word| if word == "-" { Some(0) } else { word.parse().ok() }).collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.numbers(name)?.first().copied()
    }

    /// Returns the members: the free ones in their order, then those whose holder's lease is over.
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

/// Are all leases over, and does nobody wait?
fn is_idle(head: &Head, now: Now) -> bool {
    (head.holders == 0 || head.last_ms <= now.ms) && head.waiting == 0
}

fn read(fields: &Fields, now: Now) -> Option<Record> {
    let (head, first) = Head::parse(fields.0.get(Head::FIELD.as_bytes())?)?;
    is_idle(&head, now).then_some(())?;
    let others = (2..=head.holders).filter_map(|slot| fields.text(&format!("h{slot}")));
    // Its lease has ended, but it may have to rest.
    let may_rest = |holder: &str| {
        let holder = StoredHolder::parse(holder);
        let rest = holder.map(|holder| wire::resting_ask(holder.request.ask));
        rest.is_some_and(|rest| rest.is_none_or(|(at_least_ms, _)| at_least_ms > 0))
    };
    if std::str::from_utf8(first).ok().into_iter().chain(others).any(may_rest) {
        return None;
    }
    let token = Some(head.last_token).filter(|token| *token <= limits::TOKEN_CLOCK_MAX)?;
    let mut lock = Lock::idle(head.kind, Token::from_raw(token), head.seen_ms);
    if head.kind == Kind::Once {
        // An attempt whose lease has ended has failed, which the next step of the scripts will note.
        (head.holders == 0).then_some(())?;
        if let Some(text) = fields.text(StoredWork::FIELD) {
            lock.recall(now, StoredWork::parse(text)?);
        }
    }
    if head.kind == Kind::Pool {
        for member in fields.members()? {
            lock.apply(now, &Request::PoolAdd { member });
        }
    }
    let [first, next, ..] = fields.numbers("d")?[..] else { return None };
    for number in first..next {
        let owner = fields.text(&format!("t{number}"))?;
        let bury_until_ms = fields.number(&format!("b{owner}"))?;
        lock.apply(
            now,
            &Request::Release { owner: wire::owner(owner)?, bury_until_ms, last_used: None },
        );
    }
    lock.quarantine(head.quarantine_until_ms);
    Some(Record::of(lock, head.run.as_str().into(), "".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taketurns_core::{AcquireRequest, Ask, ClientId, Label, Owner, Refusal, Reply};
    use taketurns_servers::fuzz;

    const NOW: Now = Now { ms: 5_000, wall_us: 5_000_000 };

    fn head() -> Head {
        Head { seen_ms: 4_000, last_token: 77, run: "run1".into(), ..Head::default() }
    }

    fn fields(head: &Head, pairs: &[(&str, &str)]) -> Fields {
        let pairs =
            pairs.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
        Fields(pairs.chain([(Head::FIELD.into(), head.to_bytes())]).collect())
    }

    fn acquire(lock: &mut Lock, owner: u128, ask: Ask) -> Reply {
        let acquire = AcquireRequest {
            owner: Owner::from_bits(owner),
            client: ClientId::NOBODY,
            ask,
            at_least_ms: 0,
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
        let quarantined = Head { quarantine_until_ms: 9_000, ..head() };
        let record = read(&fields(&quarantined, &[]), NOW).expect("idle");
        assert_eq!(record.lock.last_token(), Some(Token::from_raw(77)));
        assert_eq!(record.lock.quarantine_until_ms(), 9_000);
        let over = Head { holders: 1, weight: 1, first_ms: 100, last_ms: 5_000, ..head() };
        assert!(read(&fields(&over, &[]), NOW).is_some(), "its holder's lease is over");
    }

    #[test]
    fn one_in_use_and_what_is_no_lock_stay_as_they_are() {
        let is_taken = |head: Head| read(&fields(&head, &[]), NOW).is_some();
        assert!(is_taken(head()));
        assert!(!is_taken(Head { holders: 1, last_ms: 5_001, ..head() }), "held");
        assert!(!is_taken(Head { waiting: 1, ..head() }), "waited for");
        assert!(!is_taken(Head { last_token: (1 << 53) - 1, ..head() }), "no token is left");
        let cut_short = Fields([(Head::FIELD.into(), head().to_bytes()[..80].to_vec())].into());
        assert!(read(&cut_short, NOW).is_none());
        assert!(read(&Fields(HashMap::new()), NOW).is_none());
    }

    #[test]
    fn a_pool_keeps_its_members_in_the_order_in_which_they_were_freed() {
        let members = [("mb", "f1"), ("ma", "f12"), ("mc", "h"), ("md", "l"), ("m", "4 1 12 13 -")];
        let mut lock =
            read(&fields(&Head { kind: Kind::Pool, ..head() }, &members), NOW).expect("idle").lock;
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
        let mut lock = read(&fields(&head(), &tombs), NOW).expect("idle").lock;
        assert_eq!(acquire(&mut lock, 5, Ask::Mutex), Reply::Refused(Refusal::Cancelled));
        assert!(read(&fields(&head(), &[("d", "3 4")]), NOW).is_none(), "a tomb without an owner");
    }

    #[test]
    fn fuzz_a_hash_is_left_alone_or_becomes_a_lock_with_its_token() {
        let text = wire::owner_text(Owner::from_bits(5));
        let buried = format!("b{text}");
        let pool = [("mb-3", "f1"), ("ma", "f12"), ("mc", "h"), ("m", "4 1 12 13 -")];
        let tombs = [("d", "3 4"), ("t3", text.as_str()), (buried.as_str(), "9000")];
        let of_a_pool = Head { kind: Kind::Pool, ..head() };
        let others =
            Head { kind: Kind::Semaphore { permits: 4 }, quarantine_until_ms: 9, ..head() };
        fuzz::rounds("hashes of scripts", 10_000, |dice| {
            let is_pool = dice.percent(50);
            let (head, pairs) =
                if is_pool { (&of_a_pool, &pool[..]) } else { (&others, &tombs[..]) };
            let mut hash = fields(head, pairs).0;
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
                Head::parse(&hash.0[Head::FIELD.as_bytes()]).expect("a head").0.last_token
            );
            assert_eq!((record.lock.holding(), record.lock.waiting()), (0, 0));
            let stored = Record::from_bytes(&record.to_bytes()).map(|record| record.lock);
            assert_eq!(stored, Ok(record.lock));
            true
        });
    }
}
