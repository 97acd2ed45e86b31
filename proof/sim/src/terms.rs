//! What a node may not grant yet, by its own clock: within the `at_least` of a holder, within the pause after an attempt
//! that failed, and after as many attempts as a once allows. It goes by what is on the wire, as the
//! [register](crate::register) does, and asks the lock for nothing.

use std::collections::BTreeMap;

use taketurns::engine::{
    AcquireRequest, AttemptEnd, Owner, Refusal, Reply, Request, Wake, WakeEvent,
};
use taketurns::{Ask, Name};
use taketurns_core::{Grant, OnceTerms};

fn once(ask: &Ask) -> Option<&OnceTerms> {
    match ask {
        Ask::Once(terms) => Some(terms),
        _ => None,
    }
}

/// Of all locks of a node.
#[derive(Default)]
pub(crate) struct TermsJudge {
    /// What each owner asked for.
    asked: BTreeMap<Owner, AcquireRequest>,
    locks: BTreeMap<Name, LockTerms>,
    /// The node may remember attempts that it noted before it forgot something.
    is_unsure: bool,
}

#[derive(Default)]
struct LockTerms {
    seen_ms: u64,
    /// The latest of those who hold alone, until nobody has to respect it.
    holder: Option<SoleHolder>,
    last_token: u64,
    failures: Failures,
}

struct SoleHolder {
    owner: Owner,
    since_ms: u64,
    deadline_ms: u64,
    at_least_ms: u64,
    terms: Option<OnceTerms>,
    /// Its client has answered, so its end counts.
    is_told: bool,
    /// It is over, and kept only for its `at_least_ms`.
    rests: bool,
    /// The clock was set back since its client last answered: its lease ends at `deadline_ms` or before, and when is not on
    /// the wire.
    is_set_back: bool,
}

/// The attempts that failed since the work was last done or forgotten.
#[derive(Clone, Copy, Default)]
struct Failures {
    count: u32,
    ended_ms: u64,
    until_ms: u64,
    /// Until then there may have been others.
    unsure_until_ms: u64,
}

impl SoleHolder {
    fn rests_until_ms(&self) -> u64 {
        self.since_ms + self.at_least_ms
    }
}

impl LockTerms {
    /// Takes note of what time has ended.
    fn catch_up(&mut self, now_ms: u64) {
        if now_ms < self.seen_ms {
            self.set_back(now_ms);
        }
        self.seen_ms = now_ms;
        if let Some(mut holder) = self.holder.take_if(|holder| holder.deadline_ms <= now_ms) {
            let deadline_ms = holder.deadline_ms;
            if holder.is_set_back {
                self.ended_by(&holder, deadline_ms);
                holder.terms = None;
            }
            self.end(holder, deadline_ms, false);
            self.holder = self.holder.take().filter(|holder| holder.deadline_ms > now_ms);
        }
        if self.failures.until_ms <= now_ms {
            let unsure_until_ms = self.failures.unsure_until_ms;
            self.failures = Failures { unsure_until_ms, ..Failures::default() };
        }
    }

    fn set_back(&mut self, now_ms: u64) {
        let failures = &mut self.failures;
        failures.ended_ms = failures.ended_ms.min(now_ms);
        let Some(holder) = &mut self.holder else { return };
        holder.since_ms = holder.since_ms.min(now_ms);
        if holder.rests {
            holder.deadline_ms = holder.rests_until_ms();
            return;
        }
        holder.is_set_back = true;
        // If it fails from now on, all failures are remembered as long as this last one.
        if let Some(terms) = &holder.terms {
            failures.unsure_until_ms = failures.unsure_until_ms.max(failures.until_ms);
            failures.until_ms = failures.until_ms.min(now_ms + terms.keep_ms);
        }
    }

    /// The lease of a holder ended at some time after the clock was set back, and by this time.
    fn ended_by(&mut self, holder: &SoleHolder, at_ms: u64) {
        if let Some(terms) = holder.terms.filter(|_| holder.is_set_back && holder.is_told) {
            let unsure_until_ms = &mut self.failures.unsure_until_ms;
            *unsure_until_ms = (at_ms + terms.keep_ms).max(*unsure_until_ms);
        }
    }

    /// May more attempts have failed than are counted, or less be remembered?
    fn is_unsure(&self) -> bool {
        self.failures.unsure_until_ms > self.seen_ms
            || self.holder.as_ref().is_some_and(|holder| holder.is_set_back)
    }

    /// A hold is over. One that was given back rests, and one whose lease ended does if its client knew of it.
    fn end(&mut self, mut holder: SoleHolder, at_ms: u64, is_given_back: bool) {
        if holder.rests {
            return;
        }
        if let Some(terms) = &holder.terms
            && (holder.is_told || is_given_back)
        {
            let until_ms = at_ms + terms.keep_ms;
            let count = self.failures.count + 1;
            // Those before it are forgotten with it.
            let unsure_until_ms = self.failures.unsure_until_ms.min(until_ms);
            self.failures = Failures { count, ended_ms: at_ms, until_ms, unsure_until_ms };
        }
        if holder.rests_until_ms() > at_ms && (holder.is_told || is_given_back) {
            (holder.rests, holder.deadline_ms) = (true, holder.rests_until_ms());
            holder.is_set_back = false;
            self.holder = Some(holder);
        }
    }

    /// Why this may not be granted now.
    fn bar(&self, now_ms: u64, terms: Option<&OnceTerms>) -> Option<String> {
        if let Some(holder) = &self.holder
            && holder.is_told
            && !holder.is_set_back
            && holder.rests_until_ms() > now_ms
        {
            let left_ms = holder.rests_until_ms() - now_ms;
            return Some(format!("its last holder has it for {left_ms} ms more at least"));
        }
        let Failures { count, ended_ms, .. } = self.failures;
        let terms = terms.filter(|_| count > 0)?;
        if now_ms < ended_ms + terms.pause_ms {
            let left_ms = ended_ms + terms.pause_ms - now_ms;
            return Some(format!("the pause after a failed attempt lasts {left_ms} ms more"));
        }
        let is_over = terms.attempts > 0 && count >= terms.attempts;
        is_over.then(|| format!("{count} of {} attempts failed", terms.attempts))
    }

    fn granted(&mut self, now_ms: u64, asked: &AcquireRequest, grant: &Grant, is_told: bool) {
        if let Some(holder) = self.holder.take() {
            self.ended_by(&holder, now_ms);
        }
        if matches!(asked.ask, Ask::Mutex | Ask::Write | Ask::Once(_)) {
            self.holder = Some(SoleHolder {
                owner: asked.owner,
                since_ms: now_ms,
                deadline_ms: grant.deadline_ms,
                at_least_ms: asked.at_least_ms,
                terms: once(&asked.ask).copied(),
                is_told,
                rests: false,
                is_set_back: false,
            });
        }
    }

    /// What the request itself does to the holder, if the reply says that it did.
    fn carry_out(&mut self, now_ms: u64, request: &Request, reply: &Reply) {
        let is_holder =
            |owner: Owner| move |holder: &mut SoleHolder| holder.owner == owner && !holder.rests;
        match (request, reply) {
            (Request::Renew { owner, .. }, Reply::Renewed(grant)) => {
                if let Some(holder) = self.holder.as_mut().filter(|holder| holder.owner == *owner) {
                    (holder.is_told, holder.deadline_ms) = (true, grant.deadline_ms);
                    holder.is_set_back = false;
                }
            }
            (Request::Release { owner, .. }, Reply::Released) => {
                if let Some(mut holder) = self.holder.take_if(is_holder(*owner)) {
                    let counts = holder.is_told;
                    // An attempt whose client never heard of it does not count, though it is given back.
                    holder.terms = holder.terms.filter(|_| counts);
                    holder.is_told = true;
                    self.end(holder, now_ms, true);
                }
            }
            (Request::Finish { owner, end, .. }, Reply::Released) => {
                if let Some(holder) = self.holder.take_if(is_holder(*owner)) {
                    match end {
                        AttemptEnd::Failed => self.end(holder, now_ms, true),
                        AttemptEnd::Done(_) => self.failures = Failures::default(),
                    }
                }
            }
            (Request::Break { at_once, .. }, Reply::Broken(1..)) => {
                if let Some(mut holder) = self.holder.take() {
                    // Nothing is left of its rest.
                    holder.at_least_ms = 0;
                    match *at_once || holder.rests {
                        true => self.end(holder, now_ms, false),
                        false => self.holder = Some(holder),
                    }
                }
            }
            (Request::Undo, Reply::Changed(true)) => self.failures = Failures::default(),
            _ => {}
        }
    }
}

impl TermsJudge {
    /// A node has forgotten its locks, or has others by now.
    pub(crate) fn forget(&mut self) {
        self.locks.clear();
        self.is_unsure = true;
    }

    /// Is there a reason for which nobody is granted the lock, though nobody holds it?
    pub(crate) fn bars(&self, name: &Name, owner: Owner) -> bool {
        let (Some(lock), Some(asked)) = (self.locks.get(name), self.asked.get(&owner)) else {
            return self.is_unsure;
        };
        lock.is_unsure() || lock.bar(lock.seen_ms, once(&asked.ask)).is_some()
    }

    /// Takes note of a step, and says what it may not have done.
    pub(crate) fn note(
        &mut self,
        name: &Name,
        now_ms: u64,
        request: &Request,
        reply: &Reply,
        wakes: &[Wake],
    ) -> Result<(), String> {
        if let Request::Acquire(acquire) = request {
            self.asked.insert(acquire.owner, acquire.clone());
        }
        let is_unsure = self.is_unsure;
        let lock = self.locks.entry(name.clone()).or_insert_with(|| {
            let unsure_until_ms = if is_unsure { u64::MAX } else { 0 };
            let failures = Failures { unsure_until_ms, ..Failures::default() };
            LockTerms { failures, ..LockTerms::default() }
        });
        lock.catch_up(now_ms);
        // Who is granted the lock before the request is carried out may be whom the request is about.
        let is_revoked = |owner: Owner| {
            let is_of = |wake: &Wake| matches!(wake.event, WakeEvent::Revoked { .. });
            wakes.iter().any(|wake| wake.owner == owner && is_of(wake))
        };
        let is_about = |owner: Owner| match request {
            Request::Release { owner: of, .. } | Request::Finish { owner: of, .. } => *of == owner,
            Request::Break { .. } => is_revoked(owner),
            _ => false,
        };
        let mut grants: Vec<(Owner, &Grant, bool)> = Vec::new();
        for wake in wakes {
            if let WakeEvent::Granted(grant) = &wake.event {
                grants.push((wake.owner, grant, false));
            }
        }
        if let (Request::Acquire(acquire), Reply::Granted(grant)) = (request, reply) {
            grants.push((acquire.owner, grant, true));
        }
        grants.sort_by_key(|(_, grant, _)| grant.token);
        let mut is_carried_out = false;
        for (owner, grant, is_told) in grants {
            let token = grant.token.map_or(0, |token| token.raw());
            // What is told again is no grant.
            if token <= lock.last_token {
                continue;
            }
            if !is_carried_out && !is_about(owner) {
                lock.carry_out(now_ms, request, reply);
                is_carried_out = true;
            }
            lock.last_token = token;
            let Some(asked) = self.asked.get(&owner) else { continue };
            if let Some(why) = lock.bar(now_ms, once(&asked.ask)) {
                return Err(format!("G8: {name} was granted with token {token}, and {why}"));
            }
            lock.granted(now_ms, asked, grant, is_told);
        }
        if !is_carried_out {
            lock.carry_out(now_ms, request, reply);
        }
        let given_up = wakes.iter().filter_map(|wake| match &wake.event {
            WakeEvent::Refused(refusal) => Some((wake.owner, refusal)),
            _ => None,
        });
        let refused = match (request, reply) {
            (Request::Acquire(acquire), Reply::Refused(refusal)) => Some((acquire.owner, refusal)),
            _ => None,
        };
        for (owner, refusal) in given_up.chain(refused) {
            let Refusal::Exhausted { failed } = refusal else { continue };
            let allowed = self.asked.get(&owner).and_then(|asked| once(&asked.ask));
            let is_so = allowed.is_some_and(|terms| (1..=*failed).contains(&terms.attempts));
            if !is_so || (*failed != lock.failures.count && !lock.is_unsure()) {
                let count = lock.failures.count;
                return Err(format!(
                    "G8: {name} was given up after {failed} attempts, and {count} failed"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
