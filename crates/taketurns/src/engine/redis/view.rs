//! What people see of a lock, from what the view script read, or as the module shows it. Of the
//! script's answer expiry is computed here, since it writes nothing.

use std::str::FromStr;
use std::time::Duration;

use redis::Value;
use serde::Deserialize;
use taketurns_core::wire::{self, StoredHolder, StoredWaiter, StoredWork};
use taketurns_core::{
    Ask, ClientId, HolderView, Label, Member, MemberView, Token, View, WaiterView, WorkView,
};

/// A lock as the script answers it: now, quarantine, kind, token, era, holders, waiting, waiters,
/// members, what a once remembers.
type RawView = (
    u64,
    u64,
    String,
    String,
    String,
    Vec<Option<String>>,
    usize,
    Vec<Option<String>>,
    Vec<String>,
    String,
);

/// A lock as the module answers it, in JSON.
#[derive(Deserialize)]
struct ModuleView {
    view: View,
}

/// Reads an answer: `None` if it makes no sense, `Some(None)` if there is no such lock and nothing to
/// say about it.
pub(super) fn read(value: &Value) -> Option<Option<View>> {
    match value {
        Value::Nil => Some(None),
        Value::BulkString(json) => {
            let native: ModuleView = serde_json::from_slice(json).ok()?;
            Some(Some(native.view))
        }
        value => read_script(value),
    }
}

fn read_script(value: &Value) -> Option<Option<View>> {
    if let Ok((now_ms, until_ms)) = redis::from_redis_value::<(u64, u64)>(value.clone()) {
        let mut view = View::default();
        view.quarantine_left = left(until_ms, now_ms);
        return Some(view.quarantine_left.is_some().then_some(view));
    }
    let (now_ms, until_ms, kind, token, era, holders, waiting, waiters, members, work): RawView =
        redis::from_redis_value(value.clone()).ok()?;
    let era = RawEra::parse(&era)?;
    let (mut views, mut held) = (Vec::new(), Vec::new());
    for (text, client) in pairs(&holders) {
        let client = match client {
            Some(text) => Some(ViewClient::parse(text)?),
            None => None,
        };
        if let Some(view) = holder(text?, client, now_ms)? {
            held.extend(view.member.clone());
            views.push(view);
        }
    }
    views.sort_by_key(|view: &HolderView| view.token);
    let (mut queue, mut dead) = (Vec::new(), 0);
    let first = match pairs(&waiters).next() {
        Some((text, _)) => wire::resting_ask(StoredWaiter::parse(text?)?.ask).map(|(_, ask)| ask),
        None => None,
    };
    for (text, client) in pairs(&waiters) {
        match ViewClient::parse(client?)?.lapses_ms(&era) > now_ms {
            true => queue.push(waiter(text?, now_ms)?),
            false => dead += 1,
        }
    }
    let mut members = members
        .chunks_exact(2)
        .map(|pair| {
            let name = Member::new(&pair[0]).ok()?;
            let (leaving, stale) = (pair[1] == "l", pair[1] == "s");
            let is_held = held.contains(&name);
            let mut member = MemberView::new(name);
            (member.held, member.leaving, member.stale) = (is_held, leaving, stale);
            Some(member)
        })
        .collect::<Option<Vec<_>>>()?;
    members.sort_by(|a, b| a.name.cmp(&b.name));
    let mut view = View::default();
    view.kind = wire::kind(&kind)?;
    view.last_token = number(&token).filter(|token| *token > 0).map(Token::from_raw);
    view.holders = views;
    view.waiting = waiting.saturating_sub(dead);
    view.waiters = queue;
    view.members = members;
    view.work = match work.as_str() {
        "" => None,
        work => self::work(work, first, now_ms)?,
    };
    view.quarantine_left = left(until_ms, now_ms);
    Some(Some(view))
}

/// What a once remembers, unless that is over. A pause is as long as the first in line asked for.
fn work(text: &str, first: Option<Ask>, now_ms: u64) -> Option<Option<WorkView>> {
    let (failed, until_ms, ended_ms, done) = match StoredWork::parse(text)? {
        StoredWork::Open { failed, ended_ms, until_ms } => (failed, until_ms, Some(ended_ms), None),
        StoredWork::Done(done) => (done.failed, done.until_ms, None, Some(done)),
    };
    let Some(forgotten_in) = left(until_ms, now_ms) else { return Some(None) };
    let mut work = WorkView::new(failed, forgotten_in, done);
    if let (Some(ended_ms), Some(Ask::Once(terms))) = (ended_ms, first) {
        work.retry_in = left(ended_ms.saturating_add(terms.pause_ms), now_ms);
    }
    Some(Some(work))
}

fn left(until_ms: u64, now_ms: u64) -> Option<Duration> {
    let left_ms = until_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0);
    left_ms.map(Duration::from_millis)
}

fn since(since_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(since_ms))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Texts come in twos: a holder or waiter, and its client's record if there is one.
fn pairs(texts: &[Option<String>]) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
    texts.chunks_exact(2).map(|pair| (pair[0].as_deref(), pair[1].as_deref()))
}

/// How often the clock was set back, and to what.
struct RawEra {
    number: u64,
    began_ms: u64,
}

impl RawEra {
    fn parse(text: &str) -> Option<Self> {
        let (number_, began_ms) = text.split_once(' ')?;
        Some(Self { number: number(number_)?, began_ms: number(began_ms)? })
    }
}

/// The record of a client that waits, or was handed the lock.
struct ViewClient {
    deadline_ms: u64,
    waiter_lease_ms: u64,
    era: u64,
}

impl ViewClient {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut next = || number(words.next()?);
        let (deadline_ms, waiter_lease_ms, _waiting, era) = (next()?, next()?, next()?, next()?);
        Some(Self { deadline_ms, waiter_lease_ms, era })
    }

    fn lapses_ms(&self, era: &RawEra) -> u64 {
        if self.era == era.number {
            return self.deadline_ms;
        }
        self.deadline_ms.min(era.began_ms.saturating_add(self.waiter_lease_ms))
    }
}

/// A holder whose lease is not over.
fn holder(text: &str, client: Option<ViewClient>, now_ms: u64) -> Option<Option<HolderView>> {
    let stored = StoredHolder::parse(text)?;
    let StoredWaiter { lease_ms, client: id, ask, who, why, since_ms, .. } = stored.request;
    let granted_ms = match client {
        Some(client) if stored.handed => lease_ms.min(client.waiter_lease_ms),
        _ => lease_ms,
    };
    let (at_least_ms, ask) = wire::resting_ask(ask)?;
    let granted_ms = if stored.resting { at_least_ms } else { granted_ms };
    let at_least_left = match at_least_ms {
        0 => None,
        at_least_ms => self::left(since_ms.saturating_add(at_least_ms), now_ms),
    };
    // A lease that has ended since the last step may have left a rest.
    let rest = at_least_left.filter(|_| stored.resting || !stored.handed);
    let (left, is_resting) = match (self::left(stored.deadline_ms, now_ms), rest) {
        (Some(left), _) => (left.min(Duration::from_millis(granted_ms)), stored.resting),
        (None, Some(left)) => (left, true),
        (None, None) => return Some(None),
    };
    let mut holder = HolderView::new(Label::new(who, why).ok()?, client_id(id)?, ask);
    (holder.at_least_left, holder.resting) = (at_least_left, is_resting);
    holder.token = Some(Token::from_raw(stored.token));
    let member = stored.member;
    holder.member = if member.is_empty() { None } else { Some(Member::new(member).ok()?) };
    holder.held_for = since(since_ms, now_ms);
    holder.left = left;
    holder.revoked = stored.revoked;
    Some(Some(holder))
}

fn waiter(text: &str, now_ms: u64) -> Option<WaiterView> {
    let StoredWaiter { client: id, ask, who, why, since_ms, .. } = StoredWaiter::parse(text)?;
    let (label, client) = (Label::new(who, why).ok()?, client_id(id)?);
    let (_, ask) = wire::resting_ask(ask)?;
    Some(WaiterView::new(label, client, ask, since(since_ms, now_ms)))
}

fn client_id(text: &str) -> Option<ClientId> {
    u64::from_str_radix(text, 16).ok().map(ClientId::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taketurns_core::Kind;

    #[test]
    fn what_the_module_shows_is_read_as_it_is() {
        let mut view = View::default();
        (view.kind, view.quarantine_left) = (Kind::Pool, Some(Duration::from_millis(7)));
        let json = serde_json::json!({ "now_ms": 1, "view": view }).to_string();
        assert_eq!(read(&Value::BulkString(json.into_bytes())), Some(Some(view)));
        assert_eq!(read(&Value::Nil), Some(None), "there is no such lock");
    }

    #[test]
    fn what_is_no_view_is_not_read() {
        for junk in ["", "{}", "{\"now_ms\":1}", "[]", "{\"view\":null}"] {
            assert_eq!(read(&Value::BulkString(junk.into())), None, "{junk}");
        }
        assert_eq!(read(&Value::Okay), None);
    }
}
