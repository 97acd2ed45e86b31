//! What one key stores: a lock, and what the module needs beside it.
//!
//! Everything here is a function of state, time and request. Replicas, and the log that a server reads when it starts,
//! repeat the same steps at the same times ([`Entry`]), and so reach the same state.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use taketurns_core::{Lock, Now, Request, Snapshot, Step, limits};

use crate::binding::ProgramBinding;
use crate::entry::Entry;
use crate::polls;

/// The version of the stored form.
pub(crate) const VERSION: i32 = 4;

/// How much longer than needed a key lives, so that not every step has to set the expiry anew.
const SLACK_MS: u64 = limits::RETENTION_MS / 4;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// One lock.
#[derive(Debug)]
pub(crate) struct Record {
    /// Unique in this process, even if the key is renamed.
    pub(crate) id: u64,
    pub(crate) lock: Lock,
    /// The server incarnation in which a program last used the lock, or which made it.
    run: Arc<str>,
    /// The prefix of the waiting programs' channels.
    channel: Arc<str>,
    /// The newest token that was admitted to the guarded resource.
    pub(crate) admitted: u64,
    /// When the key expires; 0 for never.
    expire_at_ms: u64,
    /// The expiry that the server was told last.
    told_end_ms: u64,
    /// Some holds may be bound to a connection.
    has_bound: bool,
    /// Programs wait, and none has come since the lock was loaded or its server took over.
    distrusted: Option<Distrust>,
    /// When a client last waited for it, other than by polling. Not stored.
    waited_ms: u64,
    /// The module tracks its key: see [`crate::state::ModuleState::track`].
    pub(crate) is_tracked: bool,
}

/// A lock of another incarnation: only its waiting programs can tell how stale it may be.
#[derive(Clone, Copy, Debug)]
struct Distrust {
    /// Places that were not refreshed by then have lapsed.
    until_ms: u64,
    /// The lock's own quarantine.
    own_ms: u64,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct StoredRecord<'a> {
    snapshot: Snapshot,
    run: Cow<'a, str>,
    channel: Cow<'a, str>,
    admitted: u64,
    expire_at_ms: u64,
    has_bound: bool,
}

/// The party that a step is made for.
#[derive(Clone, Copy)]
pub(crate) enum Requester<'a> {
    /// A program that has verified this server incarnation.
    Program(&'a ProgramBinding),
    /// A client of the server, or the server itself. Nothing is granted before `until_ms`.
    Anyone { until_ms: u64 },
}

impl Record {
    /// Creates a lock that nobody has used. No program has a channel for it yet.
    pub(crate) fn new(run: &Arc<str>, channel: &Arc<str>) -> Box<Self> {
        Box::new(Self::of(Lock::new(), run.clone(), channel.clone()))
    }

    /// Creates a record for a lock from elsewhere, last used in that incarnation.
    pub(crate) fn of(lock: Lock, run: Arc<str>, channel: Arc<str>) -> Self {
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            lock,
            run,
            channel,
            admitted: 0,
            expire_at_ms: 0,
            told_end_ms: 0,
            has_bound: false,
            distrusted: None,
            waited_ms: 0,
            is_tracked: false,
        }
    }

    /// Copies the lock under another name: with its tokens and members, but without holders and waiters.
    pub(crate) fn idle_copy(&self) -> Self {
        let mut lock = self.lock.clone();
        lock.reboot();
        let copy = Self::of(lock, self.run.clone(), self.channel.clone());
        // The server copies the key's expiry too.
        let (expire_at_ms, told_end_ms) = (self.expire_at_ms, self.told_end_ms);
        Self { admitted: self.admitted, expire_at_ms, told_end_ms, ..copy }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let stored = StoredRecord {
            snapshot: self.lock.snapshot(),
            run: Cow::Borrowed(&self.run),
            channel: Cow::Borrowed(&self.channel),
            admitted: self.admitted,
            expire_at_ms: self.expire_at_ms,
            has_bound: self.has_bound,
        };
        // Plain data always serializes.
        postcard::to_allocvec(&stored).unwrap_or_default()
    }

    /// Returns what is the same on every copy: all but the time of the last step, which may have changed nothing.
    pub(crate) fn to_digest(&self) -> Vec<u8> {
        let mut lock = self.lock.clone();
        lock.see(0);
        let (run, channel) = (self.run.clone(), self.channel.clone());
        let Self { admitted, expire_at_ms, has_bound, .. } = *self;
        Self { admitted, expire_at_ms, has_bound, ..Self::of(lock, run, channel) }.to_bytes()
    }

    /// Parses a record that the server stores, with the key's expiry.
    ///
    /// # Errors
    /// Says why these bytes are no lock.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let record = Self::from_entry(bytes)?;
        Ok(Self { told_end_ms: record.expire_at_ms, ..record })
    }

    /// Parses a record from an entry.
    ///
    /// # Errors
    /// Says why these bytes are no lock.
    pub(crate) fn from_entry(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredRecord<'_> =
            postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
        let lock = Lock::restore(stored.snapshot).map_err(|error| error.to_string())?;
        let record = Self::of(lock, stored.run.into(), stored.channel.into());
        Ok(Self {
            admitted: stored.admitted,
            expire_at_ms: stored.expire_at_ms,
            has_bound: stored.has_bound,
            ..record
        })
    }

    /// Returns the prefix of the waiting programs' channels.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// Is there nothing to remember?
    pub(crate) fn is_blank(&self) -> bool {
        self.lock.is_blank() && self.admitted == 0
    }

    /// Does the lock concern a connection, or can time alone change something for a client?
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock.waiting() > 0 || self.has_bound
    }

    /// Notes that a client asks to wait if the lock is not free.
    pub(crate) fn note_wait(&mut self, now_ms: u64) {
        self.waited_ms = now_ms;
    }

    /// Does a client wait for the lock, or did one within the longest poll interval? `polling` places of the queue
    /// belong to clients that poll and do not count. Recent waits count because a client that asks to wait and finds
    /// the lock free each time is never in the queue, yet starves clients that poll.
    pub(crate) fn is_waited_for(&mut self, now_ms: u64, polling: usize) -> bool {
        if self.lock.waiting() > polling {
            self.waited_ms = now_ms;
        }
        // Not a time in the future, after the clock was set back.
        let since_ms = now_ms.checked_sub(self.waited_ms);
        since_ms.is_some_and(|ms| ms <= polls::INTERVAL_MS_MAX)
    }

    /// Makes one step. Calls `repeat` with its entry if the copies must repeat it.
    pub(crate) fn step(
        &mut self,
        now: Now,
        by: Requester<'_>,
        request: &Request,
        repeat: impl FnOnce(&Entry<'_>),
    ) -> Step {
        let own_ms = self.lock.quarantine_until_ms();
        let until_ms = self.quarantine_until_ms(now, by);
        self.set_quarantine(until_ms);
        if matches!(by, Requester::Program(_)) {
            self.distrusted = None;
        }
        let seen_ms = self.lock.seen_ms();
        let step = self.lock.apply(now, request);
        let moved = match by {
            Requester::Program(binding) => self.used_by(&binding.run, &binding.channel),
            Requester::Anyone { .. } => false,
        };
        let quarantined = until_ms != own_ms && !self.is_blank();
        // A step that the copies do not repeat must not change anything here.
        if step.changed || moved || quarantined {
            self.note_bound(request);
            self.set_end();
            repeat(&Entry::Step {
                seen_ms,
                quarantine_until_ms: until_ms,
                now,
                run: Cow::Borrowed(&self.run),
                channel: Cow::Borrowed(&self.channel),
                request: Cow::Borrowed(request),
            });
        } else {
            self.set_quarantine(own_ms);
        }
        step
    }

    /// Admits a token unless it is older than the newest admitted one.
    ///
    /// # Errors
    /// Says why the token is not admitted.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        token: u64,
        repeat: impl FnOnce(&Entry<'_>),
    ) -> Result<(), AdmitRefusal> {
        let newest = self.admitted;
        if token < newest {
            return Err(AdmitRefusal::Older { newest });
        }
        let retention_us = limits::RETENTION_MS * 1_000;
        // Nothing is known about it. A token is not older than the clock at its grant, unless the lock was forgotten
        // since.
        if newest == 0 && token < now.wall_us.saturating_sub(retention_us) {
            return Err(AdmitRefusal::Forgotten);
        }
        // An invented token must not shut out the tokens to come. If the lock itself is kept elsewhere, clocks may
        // differ.
        let newest_given = self.lock.last_token().map(|token| token.raw());
        if token > newest_given.unwrap_or(now.wall_us.saturating_add(retention_us)) {
            return Err(AdmitRefusal::NeverGiven);
        }
        if token > newest {
            let now_ms = now.ms.max(self.lock.seen_ms());
            self.admitted_at(now_ms, token);
            let run = Cow::Borrowed(&*self.run);
            repeat(&Entry::Admit { now_ms, token, run });
        }
        Ok(())
    }

    /// Repeats a change made elsewhere. The caller itself puts a whole state in place.
    pub(crate) fn repeat(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Step { seen_ms, quarantine_until_ms, now, run, channel, request } => {
                self.lock.see(*seen_ms);
                self.set_quarantine(*quarantine_until_ms);
                self.lock.apply(*now, request);
                self.note_bound(request);
                self.used_by(&Arc::from(&**run), &Arc::from(&**channel));
                self.set_end();
            }
            Entry::Admit { now_ms, token, run } => {
                self.admitted_at(*now_ms, *token);
                if *self.run != **run {
                    self.run = Arc::from(&**run);
                }
            }
            Entry::State(_) => {}
        }
    }

    /// Returns until when nothing may be granted.
    pub(crate) fn quarantine_until_ms(&self, now: Now, by: Requester<'_>) -> u64 {
        let own_ms = match (by, self.distrusted) {
            (Requester::Program(_), Some(distrusted)) => distrusted.own_ms,
            _ => self.lock.quarantine_until_ms(),
        };
        let max_lease_ms = match by {
            Requester::Program(binding) => binding.max_lease_ms,
            Requester::Anyone { .. } => limits::LEASE_MS_MAX,
        };
        let far_ms = now.ms.saturating_add(limits::quarantine_ms_max(max_lease_ms));
        let from_now_ms = now.ms.saturating_add(max_lease_ms);
        // The clock was set back since: no quarantine is that long.
        let own_ms = if own_ms > far_ms { from_now_ms } else { own_ms };
        match by {
            Requester::Anyone { until_ms } => {
                let farthest_ms = now.ms.saturating_add(limits::WAITER_LEASE_MS_MAX);
                let distrusted_ms = self.distrusted.map_or(0, |distrusted| distrusted.until_ms);
                own_ms.max(until_ms).max(distrusted_ms.min(farthest_ms))
            }
            Requester::Program(binding) => {
                // Last used in an incarnation that this server does not know: its state may be stale.
                let moved_ms = if binding.knows(&self.run) { 0 } else { from_now_ms };
                own_ms.max(moved_ms).max(binding.until_ms_at(now.ms).min(far_ms))
            }
        }
    }

    /// Marks the lock as loaded into another process, whose incarnation is `run`. Its state may be older than what
    /// programs were told. Nothing is handed to them until one of them has come. A program that does not come while its
    /// place lasts loses the place.
    pub(crate) fn distrust(&mut self, run: &str, now_ms: u64) {
        let is_over = self.distrusted.is_none_or(|distrusted| distrusted.until_ms <= now_ms);
        if *self.run != *run && is_over && self.lock.is_waited_for_by_programs() {
            let until_ms = now_ms.saturating_add(limits::WAITER_LEASE_MS_MAX);
            let own_ms = self.lock.quarantine_until_ms();
            self.distrusted = Some(Distrust { until_ms, own_ms });
        }
    }

    /// Returns when the key expires, if the server must be told: `Some(None)` for never.
    pub(crate) fn new_end_ms(&mut self) -> Option<Option<u64>> {
        let end_ms = self.expire_at_ms;
        let told_ms = std::mem::replace(&mut self.told_end_ms, end_ms);
        (told_ms != end_ms).then(|| Some(end_ms).filter(|end_ms| *end_ms > 0))
    }

    /// Sets the key's expiry. Part of each step that the copies repeat, and of no other, so that it is the same on
    /// every copy.
    pub(crate) fn set_end(&mut self) {
        let Some(forget_at_ms) = self.lock.forget_at_ms() else {
            self.expire_at_ms = 0;
            return;
        };
        let is_good =
            forget_at_ms <= self.expire_at_ms && self.expire_at_ms - forget_at_ms <= 2 * SLACK_MS;
        if !is_good {
            self.expire_at_ms = forget_at_ms.saturating_add(SLACK_MS);
        }
    }

    fn admitted_at(&mut self, now_ms: u64, token: u64) {
        self.admitted = token;
        // The lock is remembered as long as after a step.
        self.lock.see(now_ms);
        self.set_end();
    }

    fn set_quarantine(&mut self, until_ms: u64) {
        self.lock.end_quarantine_by(until_ms);
        self.lock.quarantine(until_ms);
    }

    /// Returns true if something changed.
    fn used_by(&mut self, run: &Arc<str>, channel: &Arc<str>) -> bool {
        let is_news = self.run != *run || self.channel != *channel;
        if is_news {
            (self.run, self.channel) = (run.clone(), channel.clone());
        }
        is_news
    }

    fn note_bound(&mut self, request: &Request) {
        match request {
            Request::Acquire(acquire) if acquire.client.is_bound() => self.has_bound = true,
            _ if self.lock.holding() == 0 && self.lock.waiting() == 0 => self.has_bound = false,
            _ => {}
        }
    }
}

/// Why a token is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmitRefusal {
    Older { newest: u64 },
    Forgotten,
    NeverGiven,
}

#[cfg(test)]
mod tests;
