//! What a step of a lock writes, as a pure function of the row that was read.

use std::ops::RangeInclusive;

use taketurns_core::wire::seal;
use taketurns_core::{
    ClientId, Grant, Lock, Name, Now, Reply, Request, Step, Token, Wake, WakeEvent,
};
use tokio_postgres::types::{ToSql, Type};

use super::statements;
use super::stored_row::StoredRow;
use crate::engine::{EngineError, stored};

/// Times to forget at are rounded up to this, so that an update seldom touches their index.
const FORGET_GRAIN_MS: u64 = 10 * 60 * 1_000;

/// A statement with its parameters. It must write a row if `is_checked`.
pub(super) struct Write {
    pub(super) sql: &'static str,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
    pub(super) is_checked: bool,
}

impl Write {
    fn new(sql: &'static str) -> Self {
        Self { sql, params: Vec::new(), is_checked: false }
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> Self {
        self.params.push((Box::new(value), kind));
        self
    }

    pub(super) fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.params
            .iter()
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect()
    }
}

/// A lock after its step, and what follows from it.
pub(super) struct SteppedLock {
    pub(super) name: Name,
    pub(super) step: Step,
    pub(super) now: Now,
    pub(super) clock: String,
    lock: Lock,
    /// Where its row is in the table, if it has one and that was locked by itself.
    at: Option<String>,
    is_written: bool,
    grants: Vec<FenceRow>,
    ended: Option<EndedAttempt>,
    /// The token of an attempt that the step began.
    begun: Option<Token>,
}

/// The attempt at work that was under way before a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptUnderWay {
    pub(super) token: Token,
    /// A transaction has done the work, and the lock has taken that over.
    pub(super) is_done: bool,
}

impl AttemptUnderWay {
    /// That of a lock as it was read.
    pub(super) fn of(lock: &Lock) -> Option<Self> {
        lock.attempt().map(|token| Self { token, is_done: false })
    }
}

/// An attempt that the step ended, for the table of fences: see schema/2-once.sql.
#[derive(Clone, Copy, Debug)]
struct EndedAttempt {
    token: Token,
    outcome: &'static str,
}

/// A row of the table of fences: see schema/1-fence.sql.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FenceRow {
    member: String,
    token: i64,
    exclusive: bool,
}

impl SteppedLock {
    /// Takes the step of one lock. `attempt` is what was under way when it was read.
    pub(super) fn apply(
        name: Name,
        row: &StoredRow,
        mut lock: Lock,
        attempt: Option<AttemptUnderWay>,
        request: &Request,
    ) -> Self {
        let step = lock.apply(row.now, request);
        let claims_hold = match &step.reply {
            Reply::Granted(_) | Reply::Renewed(_) => true,
            Reply::Refreshed { granted, .. } => !granted.is_empty(),
            _ => false,
        };
        // A reply that claims a hold is sent after a COMMIT that wrote: what it read may not be on a standby yet.
        let is_done = attempt.is_some_and(|attempt| attempt.is_done);
        let is_needed = step.changed || claims_hold || is_done || !row.is_of_this_clock();
        // Asking about a lock that nobody has used leaves no trace of it.
        let is_written = is_needed && (row.exists() || !lock.is_blank());
        let grants = fence_rows(&lock, request, &step);
        let ended = attempt.and_then(|attempt| ended(&lock, attempt));
        let before = attempt.map(|attempt| attempt.token);
        let begun = lock.attempt().filter(|token| before != Some(*token));
        let (now, clock, at) = (row.now, row.clock.clone(), row.at().map(str::to_owned));
        Self { name, step, now, clock, lock, at, is_written, grants, ended, begun }
    }

    /// The step ended or began an attempt at work: a transaction may have done the work meanwhile.
    pub(super) fn changes_attempt(&self) -> bool {
        self.ended.is_some() || self.begun.is_some()
    }

    /// What writes that an attempt has ended. It comes before [`SteppedLock::write`].
    pub(super) fn write_end(&self) -> Option<Write> {
        let EndedAttempt { token, outcome } = self.ended?;
        let write = self.write_attempt(statements::END_ATTEMPT, token);
        Some(write.with(outcome, Type::TEXT))
    }

    /// What writes that an attempt has begun. It comes after [`SteppedLock::write`].
    pub(super) fn write_begin(&self) -> Option<Write> {
        self.begun.map(|token| self.write_attempt(statements::BEGIN_ATTEMPT, token))
    }

    fn write_attempt(&self, sql: &'static str, token: Token) -> Write {
        // A token is less than 2^53.
        let token = token.raw() as i64;
        Write::new(sql).with(self.name.as_str().to_owned(), Type::TEXT).with(token, Type::INT8)
    }

    pub(super) fn is_written(&self) -> bool {
        self.is_written
    }

    /// The lock is new: somebody else may make its row first.
    pub(super) fn is_new(&self) -> bool {
        self.at.is_none()
    }

    /// What writes it, with its grants.
    pub(super) fn write(&self) -> Result<Write, EngineError> {
        let (members, tokens, exclusive) = columns(&self.grants);
        let mut write = Write::new(statements::SAVE)
            .with(self.name.as_str().to_owned(), Type::TEXT)
            .with(self.at.clone(), Type::TEXT)
            .with(self.clock.clone(), Type::TEXT)
            .with(self.forget_at_ms(), Type::INT8)
            .with(stored::encode(&self.lock)?, Type::BYTEA)
            .with(members, Type::TEXT_ARRAY)
            .with(tokens, Type::INT8_ARRAY)
            .with(exclusive, Type::BOOL_ARRAY);
        write.is_checked = true;
        Ok(write)
    }

    fn forget_at_ms(&self) -> Option<i64> {
        let at_ms = self.lock.forget_at_ms()?;
        let rounded_ms = at_ms.div_ceil(FORGET_GRAIN_MS).saturating_mul(FORGET_GRAIN_MS);
        // One that is damaged may be in use for ever.
        Some(i64::try_from(rounded_ms).unwrap_or(i64::MAX))
    }
}

/// What became of an attempt, if the step ended it.
fn ended(lock: &Lock, attempt: AttemptUnderWay) -> Option<EndedAttempt> {
    let AttemptUnderWay { token, is_done } = attempt;
    if lock.attempt() == Some(token) {
        return None;
    }
    let is_recorded = is_done || lock.done_by() == Some(token);
    let outcome = if is_recorded { "recorded" } else { "failed" };
    Some(EndedAttempt { token, outcome })
}

/// What writes several locks that all have rows, and their grants. None of them changes an attempt.
pub(super) fn write_all(locks: &[&SteppedLock]) -> Result<Vec<Write>, EngineError> {
    let Some(first) = locks.first() else { return Ok(Vec::new()) };
    let names: Vec<String> = locks.iter().map(|lock| lock.name.as_str().to_owned()).collect();
    let states: Result<Vec<_>, _> = locks.iter().map(|lock| stored::encode(&lock.lock)).collect();
    let forget: Vec<_> = locks.iter().map(|lock| lock.forget_at_ms()).collect();
    let update = Write::new(statements::UPDATE_ALL)
        .with(names, Type::TEXT_ARRAY)
        .with(first.clock.clone(), Type::TEXT)
        .with(states?, Type::BYTEA_ARRAY)
        .with(forget, Type::INT8_ARRAY);
    let granting = locks.iter().flat_map(|lock| {
        lock.grants.iter().map(|grant| (lock.name.as_str().to_owned(), grant.clone()))
    });
    let (names, grants): (Vec<_>, Vec<_>) = granting.unzip();
    if grants.is_empty() {
        return Ok(vec![update]);
    }
    let (members, tokens, exclusive) = columns(&grants);
    let fence = Write::new(statements::FENCE_ALL)
        .with(names, Type::TEXT_ARRAY)
        .with(members, Type::TEXT_ARRAY)
        .with(tokens, Type::INT8_ARRAY)
        .with(exclusive, Type::BOOL_ARRAY);
    Ok(vec![update, fence])
}

fn columns(grants: &[FenceRow]) -> (Vec<String>, Vec<i64>, Vec<bool>) {
    let members = grants.iter().map(|grant| grant.member.clone()).collect();
    let tokens = grants.iter().map(|grant| grant.token).collect();
    (members, tokens, grants.iter().map(|grant| grant.exclusive).collect())
}

/// The newest grant of the step, of each member if the lock is a pool.
fn fence_rows(lock: &Lock, request: &Request, step: &Step) -> Vec<FenceRow> {
    let answered = match (request, &step.reply) {
        (Request::Acquire(acquire), Reply::Granted(grant)) => Some((acquire.owner, grant)),
        _ => None,
    };
    let handed = step.wakes.iter().filter_map(|wake| match &wake.event {
        WakeEvent::Granted(grant) => Some((wake.owner, grant)),
        _ => None,
    });
    let mut rows: Vec<FenceRow> = Vec::new();
    for (owner, Grant { token, member, .. }) in answered.into_iter().chain(handed) {
        let Some(token) = token.and_then(|token| i64::try_from(token.raw()).ok()) else { continue };
        let member = member.as_ref().map_or("", |member| member.as_str()).to_owned();
        let row = FenceRow { member, token, exclusive: lock.is_held_alone_by(owner) };
        match rows.iter_mut().find(|known| known.member == row.member) {
            Some(known) if known.token < row.token => *known = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

/// The messages of a step for other clients. A grant is sent to a waiter, which listens. All else is written, since a
/// client that holds may not listen.
pub(super) struct Messages {
    /// Client and message.
    pub(super) grants: Vec<(ClientId, String)>,
    pub(super) notices: Vec<(ClientId, String)>,
    /// This client's own.
    pub(super) own: Vec<Wake>,
}

impl Messages {
    /// `run` is that of the server, as in its wake-ups.
    pub(super) fn of(wakes: Vec<Wake>, client: ClientId, run: &str) -> Self {
        let mut messages = Self { grants: Vec::new(), notices: Vec::new(), own: Vec::new() };
        for wake in wakes {
            if wake.client == client {
                messages.own.push(wake);
                continue;
            }
            if !wake.client.is_program() {
                continue;
            }
            let message = seal(wake.owner, run, &wake.event);
            match wake.event {
                WakeEvent::Granted(_) => messages.grants.push((wake.client, message)),
                _ => messages.notices.push((wake.client, message)),
            }
        }
        messages
    }

    /// Writes the notices in the transaction of the step.
    pub(super) fn write(&self, now: Now) -> Option<Write> {
        if self.notices.is_empty() {
            return None;
        }
        let clients: Vec<i64> =
            self.notices.iter().map(|(client, _)| client_number(*client)).collect();
        let texts: Vec<String> = self.notices.iter().map(|(_, text)| text.clone()).collect();
        let write = Write::new(statements::WRITE_NOTICES)
            .with(clients, Type::INT8_ARRAY)
            .with(now.ms as i64, Type::INT8)
            .with(texts, Type::TEXT_ARRAY);
        Some(write)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.notices.is_empty()
    }

    /// What is sent once that is committed: channels and messages.
    pub(super) fn notifications(&self) -> (Vec<String>, Vec<String>) {
        let grants = self.grants.iter().map(|(client, text)| (channel(*client), text.clone()));
        let notices = self.notices.iter().map(|(client, _)| (channel(*client), LOOK.to_owned()));
        grants.chain(notices).unzip()
    }
}

/// The message that says: there is one in the table.
pub(super) const LOOK: &str = "look";

/// Where a client listens.
pub(super) fn channel(client: ClientId) -> String {
    format!("taketurns_{client}")
}

/// Deletes the refreshes and messages of other times than these.
pub(super) fn forget_old(kept: RangeInclusive<i64>) -> Vec<Write> {
    let old = |sql| Write::new(sql).with(*kept.start(), Type::INT8).with(*kept.end(), Type::INT8);
    vec![old(statements::FORGET_PLACES), old(statements::FORGET_NOTICES)]
}

/// When a client was last seen in a lock's queue.
pub(super) struct PlaceRow {
    pub(super) name: String,
    pub(super) seen_ms: i64,
    pub(super) waiter_lease_ms: i64,
}

/// Writes a client's refreshes.
pub(super) fn refresh(client: ClientId, places: &[PlaceRow]) -> Write {
    let names: Vec<_> = places.iter().map(|place| place.name.clone()).collect();
    let seen_ms: Vec<_> = places.iter().map(|place| place.seen_ms).collect();
    let leases_ms: Vec<_> = places.iter().map(|place| place.waiter_lease_ms).collect();
    Write::new(statements::REFRESH)
        .with(names, Type::TEXT_ARRAY)
        .with(client_number(client), Type::INT8)
        .with(seen_ms, Type::INT8_ARRAY)
        .with(leases_ms, Type::INT8_ARRAY)
}

/// A client as the tables name it.
pub(super) fn client_number(client: ClientId) -> i64 {
    client.bits().cast_signed()
}
