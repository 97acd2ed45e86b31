//! The stored hash as the state that it stands for, in the same form as core's snapshot; and whether
//! the hash is sound: no field without use, every list whole in both directions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use taketurns_core::wire::{self, Head, StoredHolder, StoredWaiter, StoredWork};
use taketurns_core::{ClientId, Kind, Lock};

use super::Stored;

/// Core's state. It counts up to where members were offered; a hash names the first that was not.
pub(super) fn of_core(lock: &Lock) -> Value {
    let mut state = serde_json::to_value(lock.snapshot()).expect("a snapshot is plain data");
    let offered = state["offered"].as_u64().expect("a number");
    let free = state["members"].as_array().expect("a list").iter();
    let numbers = free.filter_map(|member| member[1]["Free"].as_u64());
    state["offered"] = json!(numbers.filter(|number| *number >= offered).min());
    state
}

/// The fields of the hash; what was read is taken out.
struct Fields(BTreeMap<String, String>);

type Read<T> = Result<T, String>;

impl Fields {
    fn take(&mut self, field: &str) -> Option<String> {
        self.0.remove(field)
    }

    fn must(&mut self, field: &str) -> Read<String> {
        self.take(field).ok_or_else(|| format!("there is no field {field:?}"))
    }

    /// Fields of one letter and something more, by what that is.
    fn family(&mut self, letter: char) -> BTreeMap<String, String> {
        let named = |field: &String| field.starts_with(letter) && field.len() > 1;
        let fields: Vec<String> = self.0.keys().filter(|field| named(field)).cloned().collect();
        fields
            .into_iter()
            .map(|field| (field[1..].to_owned(), self.take(&field).unwrap_or_default()))
            .collect()
    }

    /// A list from its head to its tail, both ways.
    fn list(&mut self, name: char, head: &str, tail: &str) -> Read<Vec<String>> {
        let end = |word: &str| (word != "-").then(|| word.to_owned());
        let (mut all, mut at, mut before) = (Vec::new(), end(head), None);
        while let Some(entry) = at {
            if before != self.take(&format!("<{name}{entry}")) {
                return Err(format!("list {name}: {entry} does not know what is before it"));
            }
            at = self.take(&format!(">{name}{entry}"));
            all.push(entry.clone());
            before = Some(entry);
        }
        if before != end(tail) {
            return Err(format!("list {name} ends at {before:?}, not at {tail:?}"));
        }
        Ok(all)
    }
}

fn int(text: &str) -> Read<u64> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn words<const N: usize>(text: &str) -> Read<[String; N]> {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    words.try_into().map_err(|_| format!("{text:?} has not {N} words"))
}

fn numbers<const N: usize>(text: &str) -> Read<[u64; N]> {
    let words: [String; N] = words(text)?;
    let mut numbers = [0; N];
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = int(&word)?;
    }
    Ok(numbers)
}

fn owner(text: &str) -> Read<Value> {
    wire::owner(text)
        .map(|owner| json!(owner.expose() as u64))
        .ok_or_else(|| format!("{text:?} is no owner"))
}

/// For how long it is taken at least, and what is asked for.
fn ask(text: &str) -> Read<(u64, Value)> {
    let read = wire::resting_ask(text).map(|(at_least_ms, ask)| (at_least_ms, json!(ask)));
    read.ok_or_else(|| format!("{text:?} asks for nothing"))
}

fn bare(ask: &str) -> &str {
    ask.trim_start_matches(|letter: char| letter.is_ascii_digit())
}

/// The state, or null if there is no such key. It has to know when it expires.
pub(super) fn canonical(stored: &Stored, expires_ms: i64) -> Read<Value> {
    let pairs = stored.array().ok_or("no hash")?;
    let text = |reply: &Stored| reply.text().map(str::to_owned).ok_or("no text");
    let mut fields = Fields(BTreeMap::new());
    let mut head = None;
    for pair in pairs.chunks(2) {
        match (text(&pair[0])?, &pair[1]) {
            (name, Stored::Bulk(bytes)) if name == Head::FIELD => head = Head::parse(bytes),
            (name, value) => _ = fields.0.insert(name, text(value)?),
        }
    }
    if pairs.is_empty() {
        return Ok(Value::Null);
    }
    let (head, first) = head.ok_or("no head")?;
    let first = std::str::from_utf8(first).map_err(|_| "the first holder is no text")?;
    if head.expires_ms as i64 != expires_ms.max(0) {
        return Err(format!("it goes at {expires_ms}, not at {}", head.expires_ms));
    }
    let [era, began] = numbers(&fields.take("e").unwrap_or("0 0".into()))?;
    let mut owners = BTreeMap::new();
    let mut state = json!({
        "kind": head.kind,
        "last_token": head.last_token,
        "seen_ms": head.seen_ms,
        "quarantine_until_ms": head.quarantine_until_ms,
        "era": { "number": era, "began_ms": began },
    });
    let parts = [
        holders(&mut fields, &mut owners, &head, first)?,
        queue(&mut fields, &mut owners, &head)?,
        clients(&mut fields)?,
        members(&mut fields)?,
        tombs(&mut fields, &head)?,
        work(&mut fields)?,
    ];
    let all = state.as_object_mut().ok_or("no object")?;
    for part in parts {
        all.extend(part.as_object().cloned().unwrap_or_default());
    }
    if fields.family('o') != owners {
        return Err("the index of owners is wrong".into());
    }
    if !fields.0.is_empty() {
        return Err(format!("fields that nothing needs: {:?}", fields.0));
    }
    Ok(state)
}

fn holders(
    fields: &mut Fields,
    owners: &mut BTreeMap<String, String>,
    head: &Head,
    first: &str,
) -> Read<Value> {
    let &Head { holders: count, weight, first_ms, last_ms, .. } = head;
    if first.is_empty() != (count == 0) {
        return Err(format!("{count} hold, but the first is {first:?}"));
    }
    let mut all = Vec::new();
    let mut sum = 0;
    for slot in 1..=count {
        let text = match slot {
            1 => first.to_owned(),
            _ => fields.must(&format!("h{slot}"))?,
        };
        let holder = StoredHolder::parse(&text).ok_or_else(|| format!("{text:?} is no holder"))?;
        let StoredHolder { handed, revoked, resting, token, deadline_ms, .. } = holder;
        let StoredHolder { request, member, vote, .. } = holder;
        let StoredWaiter { since_ms, lease_ms, owner: id, client, ask: asks, who, why } = request;
        if slot > 1 {
            owners.insert(id.into(), format!("h{slot}"));
        }
        let is_special = asks.starts_with(|first: char| first.is_ascii_digit() || first == 'o');
        if is_special != text.starts_with(['2', '3']) {
            return Err(format!("{text:?} is marked for a short cut, or not marked"));
        }
        let (at_least_ms, asked) = ask(asks)?;
        sum += match bare(asks).strip_prefix('s') {
            Some(permits) => int(permits.split('/').next().unwrap_or_default())?,
            None if bare(asks) == "w" => 1_024,
            None => 1,
        };
        let vote = if vote.is_empty() { None } else { Some(numbers(vote)?) };
        let vote = vote.map(|[number, ticket]| json!({ "number": number, "ticket": ticket }));
        all.push(json!({
            "owner": owner(id)?, "client": client, "token": token, "ask": asked,
            "at_least_ms": at_least_ms, "resting": resting,
            "member": (!member.is_empty()).then_some(member), "lease_ms": lease_ms,
            "deadline_ms": deadline_ms, "since_ms": since_ms,
            "handed": handed, "revoked": revoked,
            "vote": vote,
            "label": { "who": who, "why": why },
        }));
    }
    if sum != weight {
        return Err(format!("holders weigh {sum}, not {weight}"));
    }
    all.sort_by_key(|holder| holder["owner"].as_u64());
    Ok(json!({ "holders": all, "ends": { "first_ms": first_ms, "last_ms": last_ms } }))
}

fn queue(fields: &mut Fields, owners: &mut BTreeMap<String, String>, lock: &Head) -> Read<Value> {
    let [count, head, tail, next, sweep] = words(&fields.take("q").unwrap_or("0 - - 0 -".into()))?;
    let order = fields.list('q', &head, &tail)?;
    let mut places = Vec::new();
    let mut spots = Vec::new();
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for place in &order {
        let text = fields.must(&format!("w{place}"))?;
        let waiter = StoredWaiter::parse(&text).ok_or_else(|| format!("{text:?} is no waiter"))?;
        let StoredWaiter { since_ms, lease_ms, owner: id, client, ask: asks, who, why } = waiter;
        owners.insert(id.into(), format!("w{place}"));
        let line = format!("l{}", bare(asks).get(1..).unwrap_or_default());
        lines.entry(line).or_default().push(place.clone());
        let number = match place.split_once('.') {
            Some((ticket, of)) if of == id => ticket,
            Some(_) => return Err(format!("place {place} is not of its owner")),
            None => place,
        };
        let number = int(number)?;
        spots.push((number, id.to_owned()));
        let (at_least_ms, asked) = ask(asks)?;
        places.push(json!([number, {
            "owner": owner(id)?, "client": client, "ask": asked, "lease_ms": lease_ms,
            "at_least_ms": at_least_ms,
            "since_ms": since_ms, "ballot": place.contains('.'),
            "label": { "who": who, "why": why },
        }]));
    }
    for (name, places) in lines.into_iter().filter(|_| lock.kind == Kind::Pool) {
        let [head, tail] = words(&fields.must(&name)?)?;
        if fields.list('l', &head, &tail)? != places {
            return Err(format!("line {name} is not that of its waiters"));
        }
    }
    if [int(&count)?, lock.waiting] != [order.len() as u64; 2] {
        return Err(format!("{} wait, not {count} or {}", order.len(), lock.waiting));
    }
    if !spots.is_sorted() {
        return Err(format!("the places are out of order: {order:?}"));
    }
    let sweep_at = match order.iter().zip(&spots).find(|(place, _)| **place == sweep) {
        Some((_, (number, id))) => Some(json!([number, owner(id)?])),
        None if sweep == "-" => None,
        None => return Err(format!("the sweep goes on at {sweep}, where nobody stands")),
    };
    Ok(json!({ "places": places, "next_place": int(&next)?, "sweep_at": sweep_at }))
}

fn clients(fields: &mut Fields) -> Read<Value> {
    let mut all = Vec::new();
    for (id, text) in fields.family('c') {
        let mut parts = text.split(' ');
        let mut next = || int(parts.next().unwrap_or_default());
        let (deadline, lease, waiting, era) = (next()?, next()?, next()?, next()?);
        let handed = parts.map(owner).collect::<Read<Vec<_>>>()?;
        u64::from_str_radix(&id, 16).map(ClientId::from_bits).map_err(|_| "no client")?;
        all.push(json!([id, {
            "deadline_ms": deadline, "era": era, "waiter_lease_ms": lease, "waiting": waiting,
            "handed": handed,
        }]));
    }
    Ok(json!({ "clients": all }))
}

fn members(fields: &mut Fields) -> Read<Value> {
    let [count, head, tail, next, offer] = words(&fields.take("m").unwrap_or("0 - - 0 -".into()))?;
    let free = fields.list('f', &head, &tail)?;
    let free = free.iter().map(|number| int(number)).collect::<Read<Vec<_>>>()?;
    let by_number = fields.family('f');
    let mut all = Vec::new();
    let mut numbers = BTreeSet::new();
    for (member, state) in fields.family('m') {
        all.push(match state.strip_prefix('f') {
            Some(number) => {
                if by_number.get(number) != Some(&member) {
                    return Err(format!("number {number} is not of member {member}"));
                }
                numbers.insert(int(number)?);
                json!([member, { "Free": int(number)? }])
            }
            None => json!([member, { "Held": { "leaving": state == "l" } }]),
        });
    }
    if by_number.len() != free.len() || !numbers.into_iter().eq(free) {
        return Err("the free members are not those listed".into());
    }
    if int(&count)? != all.len() as u64 {
        return Err(format!("there are {} members, not {count}", all.len()));
    }
    let offered = if offer == "-" { None } else { Some(int(&offer)?) };
    Ok(json!({ "members": all, "next_free": int(&next)?, "offered": offered }))
}

/// The two clocks of a server are one, so what is remembered is forgotten at the same time on both.
fn work(fields: &mut Fields) -> Read<Value> {
    let Some(text) = fields.take(StoredWork::FIELD) else {
        let open = json!({ "failed": 0, "ended_ms": 0, "until_ms": 0 });
        return Ok(json!({ "work": { "state": { "Open": open }, "kept_ms": 0 } }));
    };
    let (state, kept_ms) =
        match StoredWork::parse(&text).ok_or("no work is remembered like that")? {
            StoredWork::Open { failed, ended_ms, until_ms } => {
                let open = json!({ "failed": failed, "ended_ms": ended_ms, "until_ms": until_ms });
                (json!({ "Open": open }), until_ms)
            }
            StoredWork::Done(done) => (json!({ "Done": done }), done.until_ms),
        };
    Ok(json!({ "work": { "state": state, "kept_ms": kept_ms } }))
}

fn tombs(fields: &mut Fields, head: &Head) -> Read<Value> {
    let [first, next] = numbers(&fields.take("d").unwrap_or("0 0".into()))?;
    if next - first != head.buried {
        return Err(format!("{first} to {next} are buried, not {}", head.buried));
    }
    let mut all = Vec::new();
    for number in first..next {
        let id = fields.must(&format!("t{number}"))?;
        all.push(json!([owner(&id)?, int(&fields.must(&format!("b{id}"))?)?]));
    }
    let oldest = all.first().and_then(|tomb| tomb[1].as_u64()).unwrap_or(0);
    if oldest != head.buried_until_ms {
        return Err(format!("the first is buried until {oldest}, not {}", head.buried_until_ms));
    }
    Ok(json!({ "tombs": all }))
}
