//! A lock that is open for one command: from opening its key to the last wake-up.
//!
//! ```text
//!   open ─► step … ─► finish: wake-ups, and the releases that follow; then the key is stored or deleted
//! ```
//!
//! A client that will block is registered between the step and `finish`, so that no wake-up can come too early.

use taketurns_core::{Now, Owner, Reply, Request, Wake, WakeEvent, wire};

use crate::clock;
use crate::entry::Entry;
use crate::problem::Problem;
use crate::record::{Record, Requester};
use crate::state::with_state;
use crate::sys::{Ctx, KeyContent, ModuleString, OpenKey};
use crate::{chores, takeover};

pub(crate) struct OpenLock<'a> {
    ctx: &'a Ctx,
    name: &'a ModuleString<'a>,
    key: OpenKey<'a>,
    /// A lock that is not stored yet.
    fresh: Option<Box<Record>>,
    pub(crate) now: Now,
    wakes: Vec<Wake>,
    more: bool,
    /// A change was made that replicas and the log repeat.
    changed: bool,
}

impl<'a> OpenLock<'a> {
    /// Opens a lock, or a key that may become one.
    pub(crate) fn open(ctx: &'a Ctx, name: &'a ModuleString<'a>) -> Result<Self, Problem> {
        let now = clock::now();
        let mut key = ctx.open(name);
        let mut changed = false;
        let fresh = match key.holds() {
            KeyContent::Lock => None,
            KeyContent::Nothing => Some(with_state(|state| state.new_record())),
            KeyContent::Hash => {
                let mut record =
                    takeover::idle_hash(ctx, name.bytes(), now).ok_or(Problem::WRONG_TYPE)?;
                record.set_end();
                let state = Entry::State(record.to_bytes().into());
                replicate(ctx, name, &state);
                key.put(Box::new(record));
                changed = true;
                None
            }
            KeyContent::Text | KeyContent::Other => return Err(Problem::WRONG_TYPE),
        };
        Ok(Self { ctx, name, key, fresh, now, wakes: Vec::new(), more: false, changed })
    }

    /// Opens the lock that was under this key, if it is still there.
    pub(crate) fn find(ctx: &'a Ctx, name: &'a ModuleString<'a>, record: u64) -> Option<Self> {
        let mut key = ctx.open(name);
        key.record().filter(|found| found.id == record)?;
        let (now, fresh, wakes) = (clock::now(), None, Vec::new());
        Some(Self { ctx, name, key, fresh, now, wakes, more: false, changed: false })
    }

    pub(crate) fn record(&mut self) -> &mut Record {
        let stored = self.key.record();
        // One of the two exists since `open`: nothing else touches the key meanwhile.
        stored.or(self.fresh.as_deref_mut()).expect("a lock is here")
    }

    /// Makes one step for a client of the server.
    pub(crate) fn step(&mut self, request: &Request) -> Reply {
        let until_ms = with_state(|state| state.until_ms);
        self.step_by(Requester::Anyone { until_ms }, request)
    }

    pub(crate) fn step_by(&mut self, by: Requester<'_>, request: &Request) -> Reply {
        let reply = self.step_uncounted(by, request);
        with_state(|state| state.counts.note_reply(&reply));
        reply
    }

    /// Makes a step of a poll, whose sender gets another reply than the lock's.
    pub(crate) fn step_of_poll(&mut self, request: &Request) -> Reply {
        let until_ms = with_state(|state| state.until_ms);
        self.step_uncounted(Requester::Anyone { until_ms }, request)
    }

    fn step_uncounted(&mut self, by: Requester<'_>, request: &Request) -> Reply {
        let (ctx, name, now) = (self.ctx, self.name, self.now);
        let mut changed = false;
        let step = self.record().step(now, by, request, |entry| {
            replicate(ctx, name, entry);
            changed = true;
        });
        self.changed |= changed;
        with_state(|state| state.counts.note_wakes(&step));
        self.wakes.extend(step.wakes);
        self.more |= step.more;
        step.reply
    }

    /// Admits a token for the resource that the lock guards.
    pub(crate) fn admit(&mut self, token: u64) -> Result<(), Problem> {
        let (ctx, name, now) = (self.ctx, self.name, self.now);
        let mut changed = false;
        let admitted = self.record().admit(now, token, |entry| {
            replicate(ctx, name, entry);
            changed = true;
        });
        self.changed |= changed;
        admitted.map_err(|stale| Problem::stale(token, stale))
    }

    /// Does any client wait for the lock, or did recently, so that a polling client would starve?
    pub(crate) fn is_waited_for(&mut self) -> bool {
        let (now_ms, record) = (self.now.ms, self.record());
        record.is_waited_for(now_ms, with_state(|state| state.polls.queued_in(record.id)))
    }

    /// Suppresses the wake-up for this owner: the reply to its own command tells it.
    pub(crate) fn need_not_wake(&mut self, owner: Owner) {
        self.wakes.retain(|wake| wake.owner != owner);
    }

    /// Sends all wake-ups, then stores or deletes the key.
    pub(crate) fn finish(mut self) {
        while !self.wakes.is_empty() {
            let wakes = std::mem::take(&mut self.wakes);
            for wake in wakes {
                if let Some(owner) = self.deliver(wake) {
                    self.step(&Request::Release { owner, bury_until_ms: 0, last_used: None });
                }
            }
        }
        let more_ms = self.more.then_some(self.now.ms);
        if keep(self.ctx, self.name, self.key, self.fresh, more_ms, self.changed) {
            chores::arm(self.ctx);
        }
    }

    /// Delivers one wake-up. Returns the owner if it was handed the lock and is gone, or polls and can't have the
    /// offer.
    fn deliver(&mut self, wake: Wake) -> Option<Owner> {
        let Wake { client, owner, event } = wake;
        if client.is_program() {
            let message = with_state(|state| wire::seal(owner, &state.run, &event));
            let channel = [self.record().channel(), &wire::client_text(client)].concat();
            self.ctx.publish(&channel, &message);
            return None;
        }
        if !client.is_connection() {
            return None;
        }
        let (record, now_ms) = (self.record().id, self.now.ms);
        if let Some((handle, outcome)) =
            with_state(|state| state.wake(client, record, &event, now_ms))
        {
            handle.unblock(Some(outcome));
            return None;
        }
        let is_given_back = with_state(|state| match event {
            WakeEvent::Granted(_) => !state.polls.offer(client, record, now_ms),
            _ => state.polls.drop_place(client, record),
        });
        is_given_back.then_some(owner)
    }
}

/// Passes an entry to the replicas and the log, if there are or may be any.
fn replicate(ctx: &Ctx, name: &ModuleString<'_>, entry: &Entry<'_>) {
    if with_state(|state| state.is_followed) {
        entry.with_bytes(|bytes| ctx.replicate(name, bytes));
    }
}

/// Repeats on a replica, or from the log, a change that was made elsewhere.
pub(crate) fn repeat(ctx: &Ctx, name: &ModuleString<'_>, entry: &Entry<'_>) -> Result<(), Problem> {
    let corrupt = |why: &str| Problem::say(format!("ERR this is no entry of the log: {why}"));
    let mut key = ctx.open(name);
    let mut fresh = None;
    match (entry, key.holds()) {
        (Entry::State(bytes), _) => {
            key.put(Box::new(Record::from_entry(bytes).map_err(|why| corrupt(&why))?));
        }
        (_, KeyContent::Lock) => {}
        (_, KeyContent::Nothing) => fresh = Some(with_state(|state| state.new_record())),
        _ => return Err(Problem::WRONG_TYPE),
    }
    if let Some(record) = key.record().or(fresh.as_deref_mut()) {
        record.repeat(entry);
    }
    keep(ctx, name, key, fresh, None, true);
    Ok(())
}

/// Stores or deletes the key, with its expiry, and tracks it. Returns true if something is due for it later.
fn keep(
    ctx: &Ctx,
    name: &ModuleString<'_>,
    mut key: OpenKey<'_>,
    fresh: Option<Box<Record>>,
    more_ms: Option<u64>,
    changed: bool,
) -> bool {
    if let Some(record) = fresh {
        if record.is_blank() {
            return false;
        }
        key.put(record);
    }
    let Some(record) = key.record() else { return false };
    let end_ms = record.new_end_ms();
    let is_telling = record.is_tracked && with_state(|state| state.is_telling(record.id));
    let is_awaited = record.is_awaited() || is_telling;
    if is_awaited {
        let due_ms = more_ms.or_else(|| record.lock.due_ms());
        with_state(|state| state.track(record.id, ctx.db(), name.bytes(), due_ms));
        record.is_tracked = true;
    } else if std::mem::take(&mut record.is_tracked) {
        with_state(|state| state.untrack(record.id));
    }
    // A copy may be blank from the beginning. A step that is not repeated elsewhere must not delete it here.
    if changed && record.is_blank() {
        key.delete();
    } else if let Some(end_ms) = end_ms {
        key.end_at_ms(end_ms);
    }
    is_awaited
}
