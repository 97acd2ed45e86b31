//! One lock: its holders, its waiters, and the last token it issued.
//!
//! Every step first catches up with time (expiry, unfinished hand-over), then carries out the
//! request, then hands over what the request freed. So no step sees a holder whose lease is over,
//! and only a step changes the lock. One step needs no time: a release by the only holder while
//! nobody waits.

mod acquire;
mod ballot;
mod ending;
mod grant;
mod holders;
mod lazy_box;
mod members;
mod next;
mod once;
mod queries;
mod queue;
mod snapshot;
mod tombstones;
mod view;

pub use once::Completion;
pub use snapshot::{CorruptSnapshot, Snapshot};
pub use view::{HolderView, MemberView, View, WaiterView, WorkView};

use holders::Holders;
use lazy_box::LazyBox;
use members::Members;
use next::HeadAction;
use once::WorkRecord;
use queue::{WaitQueue, Waiter};
use tombstones::Tombstones;

use crate::{
    ClientId, Kind, Member, Now, Refusal, Reply, Request, Step, Token, Wake, WakeEvent, limits,
};

/// The state of one lock. It knows neither its name nor where it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    kind: Kind,
    last_token: u64,
    /// The time of the last step, to notice when the clock was set back.
    seen_ms: u64,
    /// Until then nothing is granted, because the store may have forgotten a holder.
    quarantine_until_ms: u64,
    holders: Holders,
    queue: LazyBox<WaitQueue>,
    members: LazyBox<Members>,
    tombs: LazyBox<Tombstones>,
    /// Invariant: only a once remembers anything, and nobody holds one whose work is done.
    work: LazyBox<WorkRecord>,
}

/// The work of one step: how many waiters it may still handle, and which clients to wake.
struct StepWork {
    left: u32,
    more: bool,
    wakes: Vec<Wake>,
}

impl Lock {
    /// Returns a lock that nobody has used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a lock without holders or waiters that was used before: it last issued this token,
    /// and its last step was at `seen_ms`.
    pub fn idle(kind: Kind, last_token: Token, seen_ms: u64) -> Self {
        let last_token = last_token.raw().min(limits::COUNTED_MAX);
        Self { kind, last_token, seen_ms, ..Self::default() }
    }

    /// Carries out one request at one instant. Takes at most time logarithmic in the number of
    /// waiters, and skips or grants at most [`limits::STEP_MAX`] of them.
    pub fn apply(&mut self, now: Now, request: &Request) -> Step {
        if let Request::Release { owner, bury_until_ms: 0, last_used: None } = request
            && self.release_alone(*owner)
        {
            let (reply, wakes) = (Reply::Released, Vec::new());
            return Step { reply, wakes, timed: false, more: false, changed: true };
        }
        let mut work = StepWork { left: limits::STEP_MAX, more: false, wakes: Vec::new() };
        let kind = self.kind;
        let (caught_up, offered) = (self.catch_up(now), self.members.offered());
        self.settle(now, &mut work);
        let reply = match request {
            Request::Acquire(acquire) => self.acquire(now, acquire, &mut work),
            Request::Refresh { client, waiter_lease_ms } => {
                self.refresh(now, *client, *waiter_lease_ms, &mut work)
            }
            Request::Renew { owner, client, lease_ms, write_back } => {
                self.renew(now, *owner, *client, *lease_ms, *write_back)
            }
            Request::Release { owner, bury_until_ms, last_used } => {
                self.release(now, *owner, *bury_until_ms, *last_used)
            }
            Request::Finish { owner, token, end, bury_until_ms } => {
                self.bury(now, *owner, *bury_until_ms);
                self.finish(now, *owner, *token, end)
            }
            Request::Undo => self.undo(now),
            Request::Break { token, at_once } => self.break_(now, *token, *at_once, &mut work),
            Request::ClientGone { client } => self.client_gone(now, *client),
            Request::Resize { permits } => self.resize(*permits),
            Request::PoolAdd { member } => self.pool_add(member),
            Request::PoolRemove { member } => self.pool_remove(member),
            Request::Tick => Reply::Done,
        };
        self.settle(now, &mut work);
        // Passing by members that nobody wants takes no work, but changes what is remembered.
        let settled = work.left < limits::STEP_MAX || self.members.offered() != offered;
        // An idle lock takes the kind of the request, even if the request gets nothing.
        let turned = self.kind != kind;
        let changed = caught_up || settled || turned || may_change(request, &reply);
        Step { reply, wakes: work.wakes, timed: true, more: work.more, changed }
    }

    /// Returns the kind of the lock, or the kind it had when it was last used.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the last token issued, if any.
    pub fn last_token(&self) -> Option<Token> {
        (self.last_token > 0).then_some(Token::from_raw(self.last_token))
    }

    /// Grants nothing until this time, because the store may have forgotten a holder (a restart, a
    /// failover). Holders keep the lock, and renew and release as usual. Waiters keep their places
    /// and new ones queue; none counts as dead.
    pub fn quarantine(&mut self, until_ms: u64) {
        self.quarantine_until_ms = self.quarantine_until_ms.max(until_ms);
    }

    /// Ends the quarantine at this time at the latest. A later end was set before the clock was set
    /// back.
    pub fn end_quarantine_by(&mut self, until_ms: u64) {
        self.quarantine_until_ms = self.quarantine_until_ms.min(until_ms);
    }

    /// Returns until when nothing is granted: a time in the past if there is no quarantine.
    pub fn quarantine_until_ms(&self) -> u64 {
        self.quarantine_until_ms
    }

    /// Returns the time of the last step.
    pub fn seen_ms(&self) -> u64 {
        self.seen_ms
    }

    /// Records that the last step happened at this time, on another copy, and changed nothing: see
    /// [`Step::changed`].
    pub fn see(&mut self, now_ms: u64) {
        self.seen_ms = now_ms;
    }

    /// Resets the lock after the lease clock restarted, that is after the machine rebooted: all
    /// holders and waiters are gone, because no process survived. Token, kind and members stay, and what a once
    /// remembers.
    pub fn reboot(&mut self) {
        let mut members = std::mem::take(&mut self.members);
        for holder in self.holders.iter() {
            if let Some(member) = &holder.member {
                members.give_back(member);
            }
        }
        let work = std::mem::take(&mut self.work);
        let (kind, last_token) = (self.kind, self.last_token);
        *self = Self { kind, last_token, members, work, ..Self::default() };
        self.reboot_work();
    }

    fn in_use(&self) -> bool {
        let is_idle = self.holders.is_empty() && self.queue.is_empty() && self.members.is_empty();
        !(is_idle && self.work.is_blank())
    }

    /// Refuses a request that asks for another kind than the lock in use has.
    fn check_kind(&self, kind: Kind) -> Result<(), Refusal> {
        if self.in_use() && self.kind != kind {
            return Err(Refusal::KindMismatch(self.kind));
        }
        Ok(())
    }

    /// Expires what is due. Returns true if time has changed anything.
    fn catch_up(&mut self, now: Now) -> bool {
        let set_back = now.ms < self.seen_ms;
        if set_back {
            self.queue.begin_era(now);
            let queue = &self.queue;
            self.holders.pull_in(now, |holder| queue.lease_of(holder));
        }
        self.seen_ms = now.ms;
        let purged = !self.tombs.is_empty() && self.tombs.purge(now.ms);
        let ends = self.holders.ends();
        let expired = self.holders.take_expired(now);
        let has_expired = !expired.is_empty();
        for holder in expired {
            self.expire(now, holder);
        }
        let forgot = self.forget_work(now, set_back);
        // A scan that found nobody expired still narrows the bounds, and every copy must have the
        // same bounds.
        let looked = self.holders.ends() != ends;
        set_back || purged || looked || has_expired || forgot
    }

    /// Returns until when nothing is granted, if that is in the future.
    fn quarantined_until_ms(&self, now: Now) -> Option<u64> {
        (now.ms < self.quarantine_until_ms).then_some(self.quarantine_until_ms)
    }

    /// Returns when to ask again: the next lease may have ended, or the quarantine, or the pause after a failed attempt.
    fn recheck_ms(&self, now: Now) -> Option<u64> {
        let held_until = || self.holders.first_deadline_ms();
        self.quarantined_until_ms(now).or_else(held_until).or_else(|| self.pause_of_head_ms())
    }

    /// Hands over everything that is free to the next waiters.
    fn settle(&mut self, now: Now, work: &mut StepWork) {
        // That work is done is no grant.
        if self.quarantined_until_ms(now).is_some() && self.work.done().is_none() {
            return;
        }
        while let Some(next) = self.next(now) {
            if work.left == 0 {
                work.more = true;
                return;
            }
            work.left -= 1;
            match next {
                HeadAction::Grant(place, member) => self.hand_over(now, place, member, work),
                HeadAction::Skip(place) => {
                    self.queue.remove(place);
                }
                HeadAction::Refuse(place, event) => {
                    if let Some(Waiter { client, owner, .. }) = self.queue.remove(place) {
                        work.wakes.push(Wake { client, owner, event });
                    }
                }
            }
        }
    }

    fn refresh(
        &mut self,
        now: Now,
        client: ClientId,
        waiter_lease_ms: u64,
        work: &mut StepWork,
    ) -> Reply {
        if !limits::is_lease(waiter_lease_ms) {
            return Reply::Refused(Refusal::InvalidLease);
        }
        self.queue.keep_alive(client, waiter_lease_ms, now);
        if self.is_waited_for_by(client) {
            // Repeated, since the first message may have been lost.
            self.want(work);
        }
        let client = self.queue.client(client);
        let handed = client.map_or(&[][..], |client| &client.handed);
        let holders = handed.iter().filter_map(|owner| self.holders.get(*owner));
        // Repeated until the client renews; a refresh does not count as a renewal. If the state was
        // restored, the client may have forgotten the grant, and then nobody would give it back.
        let granted = holders
            .filter(|holder| !holder.revoked)
            .map(|holder| (holder.owner, self.grant_of(holder)))
            .collect();
        Reply::Refreshed {
            waiting: client.map_or(0, |client| client.waiting),
            front: self.queue.front(),
            recheck_ms: self.recheck_ms(now),
            quarantined_until_ms: self.quarantined_until_ms(now),
            granted,
        }
    }

    /// Tells the client that keeps the lock that another one wants it. Returns whether one does.
    fn want(&self, work: &mut StepWork) -> bool {
        // Only a mutex is kept, and that has one holder.
        let Some(holder) = self.holders.iter().next().filter(|holder| holder.stays()) else {
            return false;
        };
        let event = WakeEvent::Wanted { token: holder.token };
        work.wakes.push(Wake { client: holder.client, owner: holder.owner, event });
        true
    }

    fn resize(&mut self, permits: u32) -> Reply {
        if !(1..=limits::PERMITS_MAX).contains(&permits) {
            return Reply::Refused(Refusal::InvalidPermits);
        }
        if self.in_use() && !matches!(self.kind, Kind::Semaphore { .. }) {
            return Reply::Refused(Refusal::KindMismatch(self.kind));
        }
        let kind = Kind::Semaphore { permits };
        Reply::Changed(std::mem::replace(&mut self.kind, kind) != kind)
    }

    fn pool_add(&mut self, member: &Member) -> Reply {
        if let Err(refusal) = self.check_kind(Kind::Pool) {
            return Reply::Refused(refusal);
        }
        if self.members.len() >= limits::MEMBERS_MAX && !self.members.contains(member) {
            return Reply::Refused(Refusal::PoolFull);
        }
        self.kind = Kind::Pool;
        Reply::Changed(self.members.add(member))
    }

    fn pool_remove(&mut self, member: &Member) -> Reply {
        match self.check_kind(Kind::Pool) {
            Ok(()) => Reply::Changed(self.members.remove(member)),
            Err(refusal) => Reply::Refused(refusal),
        }
    }
}

/// Returns whether this request may have changed the lock, given its reply.
fn may_change(request: &Request, reply: &Reply) -> bool {
    match reply {
        // The sweep for dead waiters advanced.
        Reply::Refused(Refusal::QueueFull) => true,
        Reply::Busy | Reply::Kept | Reply::Refused(_) | Reply::Revoked => false,
        Reply::DoneBefore(_) => false,
        Reply::NotHeld => matches!(
            request,
            Request::Release { bury_until_ms: 1.., .. }
                | Request::Finish { bury_until_ms: 1.., .. }
        ),
        Reply::Broken(count) => *count > 0,
        Reply::Changed(changed) => *changed,
        Reply::Done => !matches!(request, Request::Tick),
        _ => true,
    }
}
