//! Views of locks as JavaScript objects. Times are in milliseconds.

use std::time::Duration;

use napi_derive::napi;
use taketurns::{
    Ask, Completion, HolderView, Kind, Member, MemberView, Name, View, WaiterView, WorkView,
};

use crate::outcome::number;

/// A lock at one instant.
#[napi(object, object_from_js = false)]
pub struct LockObject {
    /// Its name.
    pub name: String,
    /// `mutex`, `rwlock`, `semaphore`, `pool` or `once`.
    pub kind: String,
    /// How many permits a semaphore has.
    pub permits: Option<u32>,
    /// The last token given out.
    pub last_token: Option<f64>,
    /// Who holds it, in the order of the grants.
    pub holders: Vec<HolderObject>,
    /// How many wait.
    pub waiting: u32,
    /// The first of those who wait.
    pub waiters: Vec<WaiterObject>,
    /// The members of a pool.
    pub members: Vec<MemberObject>,
    /// What is remembered of the work of a once.
    pub work: Option<WorkObject>,
    /// How long its quarantine lasts.
    pub quarantine_left: Option<f64>,
}

/// A holder.
#[napi(object, object_from_js = false)]
pub struct HolderObject {
    /// Host, process and program.
    pub who: String,
    /// Why it wants the lock.
    pub why: String,
    /// The client that keeps it, as 16 hex digits.
    pub client: String,
    /// `mutex`, `read`, `write`, `permits`, `any`, `member` or `once`.
    pub mode: String,
    /// How many permits it has, of a semaphore.
    pub permits: Option<u32>,
    /// The fencing token.
    pub token: Option<f64>,
    /// The member of a pool that it has.
    pub member: Option<String>,
    /// How long it has held the lock.
    pub held_for: f64,
    /// How long it holds the lock without a renewal.
    pub left: f64,
    /// Broken: it can't be renewed any more.
    pub revoked: bool,
    /// It was released or lost, and stays for the time that its acquire set with `atLeast`.
    pub resting: bool,
}

/// A waiter.
#[napi(object, object_from_js = false)]
pub struct WaiterObject {
    /// Host, process and program.
    pub who: String,
    /// Why it wants the lock.
    pub why: String,
    /// The client that waits, as 16 hex digits.
    pub client: String,
    /// As for a holder.
    pub mode: String,
    /// How many permits it wants, of a semaphore.
    pub permits: Option<u32>,
    /// The member of a pool that it waits for.
    pub member: Option<String>,
    /// How long it has been waiting.
    pub waited_for: f64,
}

/// A member of a pool.
#[napi(object, object_from_js = false)]
pub struct MemberObject {
    /// Its name.
    pub name: String,
    /// Somebody has it.
    pub held: bool,
    /// It was removed while held.
    pub leaving: bool,
    /// Its last holder did not give it back in time.
    pub stale: bool,
}

/// What is remembered of the work of a once.
#[napi(object, object_from_js = false)]
pub struct WorkObject {
    /// How many attempts failed.
    pub failed: u32,
    /// How long the first in line still waits because the last attempt failed.
    pub retry_in: Option<f64>,
    /// How long it is still remembered.
    pub forgotten_in: f64,
    /// By whom and when it was done, if it is.
    pub done: Option<CompletionObject>,
}

/// Who did the work of a once, and when: milliseconds since 1970 on the store's clock.
#[napi(object, object_from_js = false)]
pub struct CompletionObject {
    /// Host, process and program.
    pub by: String,
    /// Why it did the work.
    pub why: String,
    /// The token of the attempt that did it.
    pub token: f64,
    /// When it was done.
    pub at: f64,
    /// When it is forgotten.
    pub until: f64,
    /// How many attempts failed before.
    pub failed: u32,
    /// What its worker said of it.
    pub result: String,
}

impl LockObject {
    pub(crate) fn new(name: &Name, view: View) -> Self {
        Self {
            name: name.to_string(),
            kind: view.kind.word().to_owned(),
            permits: match view.kind {
                Kind::Semaphore { permits } => Some(permits),
                _ => None,
            },
            last_token: view.last_token.and_then(number),
            holders: view.holders.into_iter().map(Into::into).collect(),
            waiting: u32::try_from(view.waiting).unwrap_or(u32::MAX),
            waiters: view.waiters.into_iter().map(Into::into).collect(),
            members: view.members.into_iter().map(Into::into).collect(),
            work: view.work.as_ref().map(Into::into),
            quarantine_left: view.quarantine_left.map(millis),
        }
    }
}

impl From<HolderView> for HolderObject {
    fn from(holder: HolderView) -> Self {
        let (mode, permits, _) = mode(&holder.ask);
        Self {
            who: holder.label.who().to_owned(),
            why: holder.label.why().to_owned(),
            client: holder.client.to_string(),
            mode,
            permits,
            token: holder.token.and_then(number),
            member: holder.member.map(|member| member.to_string()),
            held_for: millis(holder.held_for),
            left: millis(holder.left),
            revoked: holder.revoked,
            resting: holder.resting,
        }
    }
}

impl From<WaiterView> for WaiterObject {
    fn from(waiter: WaiterView) -> Self {
        let (mode, permits, member) = mode(&waiter.ask);
        Self {
            who: waiter.label.who().to_owned(),
            why: waiter.label.why().to_owned(),
            client: waiter.client.to_string(),
            mode,
            permits,
            member,
            waited_for: millis(waiter.waited_for),
        }
    }
}

impl From<&WorkView> for WorkObject {
    fn from(work: &WorkView) -> Self {
        Self {
            failed: work.failed,
            retry_in: work.retry_in.map(millis),
            forgotten_in: millis(work.forgotten_in),
            done: work.done.as_ref().map(Into::into),
        }
    }
}

impl From<&Completion> for CompletionObject {
    fn from(done: &Completion) -> Self {
        Self {
            by: done.by.who().to_owned(),
            why: done.by.why().to_owned(),
            token: done.token.raw() as f64,
            at: done.at_ms as f64,
            until: done.until_ms as f64,
            failed: done.failed,
            result: done.result.as_str().to_owned(),
        }
    }
}

impl From<MemberView> for MemberObject {
    fn from(member: MemberView) -> Self {
        let MemberView { name, held, leaving, stale, .. } = member;
        Self { name: name.to_string(), held, leaving, stale }
    }
}

/// What was asked for: its word, how many permits, which member.
fn mode(ask: &Ask) -> (String, Option<u32>, Option<String>) {
    let (word, permits, member) = match ask {
        Ask::Mutex | Ask::Turns { .. } | Ask::Stay { .. } => ("mutex", None, None),
        Ask::Once(_) => ("once", None, None),
        Ask::Read => ("read", None, None),
        Ask::Write => ("write", None, None),
        Ask::Permits { take, .. } => ("permits", Some(*take), None),
        Ask::Any => ("any", None, None),
        Ask::Member(member) => ("member", None, Some(Member::to_string(member))),
    };
    (word.to_owned(), permits, member)
}

pub(crate) fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}
