//! Locks as JSON: what `ls`, `show` and `pool` print with `--json`, and what `serve` answers. `serve/page/openapi.json`
//! describes every field and allows no other. Field names are stable; new ones may be added. Times are in milliseconds, tokens are numbers below 2^53, owners are secrets and not here.

use serde::Serialize;
use taketurns::{
    Ask, Completion, HolderView, Kind, Member, MemberView, Name, Token, View, WaiterView, WorkView,
};

use crate::output::whole_millis;

/// A list of locks, sorted by name.
#[derive(Serialize)]
pub(crate) struct LockListJson<'a> {
    /// One entry for each lock.
    pub(crate) locks: Vec<LockJson<'a>>,
}

/// One lock.
#[derive(Serialize)]
pub(crate) struct LockJson<'a> {
    /// Its name.
    name: &'a Name,
    /// `mutex`, `rwlock`, `semaphore`, `pool` or `once`; null if nothing is known of it.
    kind: Option<&'static str>,
    /// How many permits a semaphore has, else null.
    permits: Option<u32>,
    /// `held`, or `idle` if nobody holds it; `done` for work that is done; `unused` if nothing is known of it.
    state: &'static str,
    /// For how long nothing is granted, since the store was restarted or failed over; null if it is
    /// not in quarantine.
    quarantine_ms: Option<u64>,
    /// The last token given out, null if none was.
    last_token: Option<Token>,
    /// Who holds it, in the order of the grants.
    holders: Vec<HolderJson<'a>>,
    /// How many wait; `waiters` may show fewer.
    waiting: usize,
    /// Who waits, the next one first.
    waiters: Vec<WaiterJson<'a>>,
    /// The members of a pool, else empty.
    members: Vec<MemberJson<'a>>,
    /// What is remembered of work for `once`; null if nothing is.
    work: Option<WorkJson<'a>>,
}

/// What came of a break.
#[derive(Serialize)]
pub(crate) struct BreakJson<'a> {
    /// The lock's name.
    pub(crate) lock: &'a Name,
    /// How many holders it was taken from.
    pub(crate) broken: u32,
    /// It has passed on already.
    pub(crate) at_once: bool,
}

/// A holder.
#[derive(Serialize)]
struct HolderJson<'a> {
    /// Host, process and program.
    who: &'a str,
    /// What `--why` said, empty if nothing.
    why: &'a str,
    /// The client that keeps it, as 16 hex digits.
    client: String,
    #[serde(flatten)]
    mode: ModeJson<'a>,
    /// The fencing token.
    token: Option<Token>,
    /// The pool's member it has, else null.
    member: Option<&'a Member>,
    /// For how long it has been holding.
    held_ms: u64,
    /// For how long it holds without renewal.
    left_ms: u64,
    /// It can't be renewed any more.
    broken: bool,
    /// How long nobody else gets the lock, whatever happens to this holder; null without `--at-least`.
    at_least_ms: Option<u64>,
    /// The holder is gone, and only its `--at-least` keeps others away.
    resting: bool,
}

/// A waiter.
#[derive(Serialize)]
struct WaiterJson<'a> {
    /// Its place in line, from 1.
    place: usize,
    /// Host, process and program.
    who: &'a str,
    /// What `--why` said, empty if nothing.
    why: &'a str,
    /// The client that waits, as 16 hex digits.
    client: String,
    #[serde(flatten)]
    mode: ModeJson<'a>,
    /// The pool's member it waits for; null for any, and for what is no pool.
    member: Option<&'a Member>,
    /// For how long it has been waiting.
    waited_ms: u64,
}

/// What is remembered of work that must be done once.
#[derive(Serialize)]
struct WorkJson<'a> {
    /// How many attempts failed.
    failed: u32,
    /// How long until the next attempt can begin; null without a pause.
    retry_ms: Option<u64>,
    /// How long until all of this is forgotten.
    forgotten_ms: u64,
    /// Who did it and when; null while it is not done.
    done: Option<CompletionJson<'a>>,
}

/// Work that is done.
#[derive(Serialize)]
pub(crate) struct CompletionJson<'a> {
    /// Host, process and program.
    who: &'a str,
    /// What `--why` said, empty if nothing.
    why: &'a str,
    /// The fencing token under which it was done.
    token: Token,
    /// When it was done, in Unix milliseconds by the store's clock.
    at_ms: u64,
    /// When it is forgotten, by the same clock.
    until_ms: u64,
    /// How many attempts failed before.
    failed: u32,
    /// What `--result` said, empty if nothing.
    result: &'a str,
}

/// What was asked for, which is how it is held.
#[derive(Serialize)]
struct ModeJson<'a> {
    /// `mutex`, `read`, `write`, `permits`, `any`, `member` or `once`.
    mode: &'a str,
    /// How many permits, for a semaphore, else null.
    permits: Option<u32>,
}

/// A member of a pool.
#[derive(Serialize)]
struct MemberJson<'a> {
    /// Its name.
    name: &'a Member,
    /// Somebody has it.
    held: bool,
    /// It was removed while held, and goes at its release.
    leaving: bool,
    /// Its last holder did not return it in time (`protocol=zmutex`).
    stale: bool,
}

impl<'a> LockJson<'a> {
    pub(crate) fn new(name: &'a Name, view: &'a View) -> Self {
        Self::with_waiters(name, view, usize::MAX)
    }

    /// Lists at most `waiters_max` waiters.
    pub(crate) fn with_waiters(name: &'a Name, view: &'a View, waiters_max: usize) -> Self {
        Self {
            name,
            // Of a lock that was never used the kind is not known either.
            kind: (!view.is_blank()).then(|| view.kind.word()),
            permits: match view.kind {
                Kind::Semaphore { permits } => Some(permits),
                _ => None,
            },
            state: state(view),
            quarantine_ms: view.quarantine_left.map(whole_millis),
            last_token: view.last_token,
            holders: view.holders.iter().map(HolderJson::new).collect(),
            waiting: view.waiting,
            waiters: view
                .waiters
                .iter()
                .take(waiters_max)
                .enumerate()
                .map(WaiterJson::new)
                .collect(),
            members: view.members.iter().map(MemberJson::new).collect(),
            work: view.work.as_ref().map(WorkJson::new),
        }
    }

    /// A name that the store knows nothing of: free, as it was never used or was forgotten.
    pub(crate) fn unused(name: &'a Name) -> Self {
        Self {
            name,
            kind: None,
            permits: None,
            state: "unused",
            quarantine_ms: None,
            last_token: None,
            holders: vec![],
            waiting: 0,
            waiters: vec![],
            members: vec![],
            work: None,
        }
    }
}

impl<'a> HolderJson<'a> {
    fn new(holder: &'a HolderView) -> Self {
        Self {
            who: holder.label.who(),
            why: holder.label.why(),
            client: holder.client.to_string(),
            mode: ModeJson::new(&holder.ask),
            token: holder.token,
            member: holder.member.as_ref(),
            held_ms: whole_millis(holder.held_for),
            left_ms: whole_millis(holder.left),
            broken: holder.revoked,
            at_least_ms: holder.at_least_left.map(whole_millis),
            resting: holder.resting,
        }
    }
}

impl<'a> WorkJson<'a> {
    fn new(work: &'a WorkView) -> Self {
        Self {
            failed: work.failed,
            retry_ms: work.retry_in.map(whole_millis),
            forgotten_ms: whole_millis(work.forgotten_in),
            done: work.done.as_ref().map(CompletionJson::new),
        }
    }
}

impl<'a> CompletionJson<'a> {
    pub(crate) fn new(done: &'a Completion) -> Self {
        Self {
            who: done.by.who(),
            why: done.by.why(),
            token: done.token,
            at_ms: done.at_ms,
            until_ms: done.until_ms,
            failed: done.failed,
            result: done.result.as_str(),
        }
    }
}

impl<'a> WaiterJson<'a> {
    fn new((ahead, waiter): (usize, &'a WaiterView)) -> Self {
        Self {
            place: ahead + 1,
            who: waiter.label.who(),
            why: waiter.label.why(),
            client: waiter.client.to_string(),
            mode: ModeJson::new(&waiter.ask),
            member: match &waiter.ask {
                Ask::Member(member) => Some(member),
                _ => None,
            },
            waited_ms: whole_millis(waiter.waited_for),
        }
    }
}

impl ModeJson<'_> {
    fn new(ask: &Ask) -> Self {
        let (mode, permits) = match ask {
            Ask::Mutex | Ask::Turns { .. } | Ask::Stay { .. } => ("mutex", None),
            Ask::Read => ("read", None),
            Ask::Write => ("write", None),
            Ask::Permits { take, .. } => ("permits", Some(*take)),
            Ask::Any => ("any", None),
            Ask::Member(_) => ("member", None),
            Ask::Once(_) => ("once", None),
        };
        Self { mode, permits }
    }
}

impl<'a> MemberJson<'a> {
    fn new(member: &'a MemberView) -> Self {
        let MemberView { name, held, leaving, stale, .. } = member;
        Self { name, held: *held, leaving: *leaving, stale: *stale }
    }
}

/// `held`, `done`, `idle` or `unused`: the word that people and programs read.
pub(crate) fn state(view: &View) -> &'static str {
    match () {
        () if view.is_blank() => "unused",
        () if !view.holders.is_empty() => "held",
        () if view.work.as_ref().is_some_and(|work| work.done.is_some()) => "done",
        () => "idle",
    }
}
