//! `FENCELOCK.ACQUIRE`: waits for a lock, tries it once, or polls for it.

use taketurns_core::{AcquireRequest, ClientId, Label, Refusal, Reply, Request, limits};

use super::{CommandResult, max_lease_ms, writable};
use crate::blocked::{done_before, granted};
use crate::open_lock::OpenLock;
use crate::polls::{PollAsker, PollTarget};
use crate::problem::Problem;
use crate::secret;
use crate::state::{BlockedWaiter, with_state};
use crate::sys::{Args, Ctx};
use crate::words::{self, AcquireWords};

pub(super) fn acquire(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    let words = words::acquire(&args.all_from(1), max_lease_ms())?;
    writable()?;
    if words.bound && ctx.flags().is_script() {
        return Err(Problem::BOUND_IN_SCRIPT);
    }
    let name = args.word(0);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let target =
        PollTarget { connection: ctx.client(), record: open_lock.record().id, words: &words };
    if let Some(wait_ms) = words.wait_ms.filter(|_| ctx.flags().may_block()) {
        return wait(ctx, open_lock, target, wait_ms);
    }
    match asker(ctx, &mut open_lock, target) {
        Some(asker) => poll(ctx, open_lock, target, asker),
        None => attempt(ctx, open_lock, target),
    }
}

/// Blocks the connection until the lock is granted or the wait times out.
fn wait(
    ctx: &Ctx,
    mut open_lock: OpenLock<'_>,
    target: PollTarget<'_>,
    wait_ms: u64,
) -> CommandResult {
    let PollTarget { connection, record, words } = target;
    let (secret, now_ms) = (secret::fresh(), open_lock.now.ms);
    let (owner, client) = (secret::owner(secret), fresh_client(words));
    open_lock.record().note_wait(now_ms);
    // The place lasts as long as the connection, or until the wait is over.
    let waiter_lease_ms = Some(limits::LEASE_MS_MAX);
    let reply = open_lock.step(&request(target, client, secret, waiter_lease_ms));
    match &reply {
        Reply::Queued(_) => {
            let (handle, until_ms) = (ctx.block(), now_ms.saturating_add(wait_ms));
            let waiter =
                BlockedWaiter { handle, connection, record, owner, secret, wait_ms, until_ms };
            with_state(|state| state.wait(client, waiter));
        }
        Reply::Granted(_) => tie_if_bound(target, client, secret),
        _ => {}
    }
    open_lock.finish();
    if let Reply::Queued(_) = reply { Ok(()) } else { answer(ctx, reply, secret, now_ms) }
}

/// Tries once. Notes a refusal while others wait: it may be the first of many polls.
fn attempt(ctx: &Ctx, mut open_lock: OpenLock<'_>, target: PollTarget<'_>) -> CommandResult {
    let (secret, now_ms) = (secret::fresh(), open_lock.now.ms);
    let client = match target.words.bound {
        true => fresh_client(target.words),
        false => ClientId::of_caller(target.connection),
    };
    let reply = open_lock.step(&request(target, client, secret, None));
    match &reply {
        Reply::Granted(_) => tie_if_bound(target, client, secret),
        Reply::Busy if open_lock.is_waited_for() && ctx.flags().may_block() => {
            with_state(|state| state.polls.refused(target, now_ms));
        }
        _ => {}
    }
    open_lock.finish();
    answer(ctx, reply, secret, now_ms)
}

/// Returns as whom to ask, if this is a poll. In a script or a transaction nothing can block, so an acquire there is a
/// plain try and never a poll.
fn asker(ctx: &Ctx, open_lock: &mut OpenLock<'_>, target: PollTarget<'_>) -> Option<PollAsker> {
    if !with_state(|state| state.polls.is_known(target.connection)) || !ctx.flags().may_block() {
        return None;
    }
    let (now_ms, is_waited_for) = (open_lock.now.ms, open_lock.is_waited_for());
    let fresh = || (fresh_client(target.words), secret::fresh());
    with_state(|state| state.polls.ask(target, now_ms, is_waited_for, fresh))
}

/// Keeps a place in the queue, takes a new one, or takes the lock if it was offered meanwhile. The reply is always that
/// of a try: the lock, or nil.
fn poll(
    ctx: &Ctx,
    mut open_lock: OpenLock<'_>,
    target: PollTarget<'_>,
    asker: PollAsker,
) -> CommandResult {
    let now_ms = open_lock.now.ms;
    let PollAsker { client, secret, waiter_lease_ms } = asker;
    let owner = asker.owner();
    let reply = open_lock.step_of_poll(&request(target, client, secret, Some(waiter_lease_ms)));
    let was_offered = open_lock.record().lock.has_handed_to(client);
    let reply = match reply {
        Reply::Granted(_) if was_offered => {
            // The client learns of the grant only now, so its lease begins now.
            let lease_ms = target.words.lease_ms;
            let renew = Request::Renew { owner, client, lease_ms, write_back: None };
            match open_lock.step_of_poll(&renew) {
                Reply::Renewed(grant) => Reply::Granted(grant),
                _ => Reply::Busy,
            }
        }
        Reply::Refused(Refusal::QueueFull) => Reply::Busy,
        reply => reply,
    };
    with_state(|state| match &reply {
        Reply::Queued(_) => state.polls.queued(target, asker, now_ms),
        _ => state.polls.forget(target),
    });
    let reply = match reply {
        Reply::Queued(place) => match place.quarantined_until_ms {
            Some(until_ms) => Reply::Refused(Refusal::Quarantined { until_ms }),
            None => Reply::Busy,
        },
        reply => reply,
    };
    if let Reply::Granted(_) = reply {
        tie_if_bound(target, client, secret);
        open_lock.need_not_wake(owner);
    }
    if !was_offered {
        // An offer was already counted as a hand-over.
        with_state(|state| state.counts.note_reply(&reply));
    }
    open_lock.finish();
    answer(ctx, reply, secret, now_ms)
}

/// Returns an id that no other client has. What it waits for ends with its connection.
fn fresh_client(words: &AcquireWords) -> ClientId {
    ClientId::of_connection(secret::bits(), words.bound)
}

fn request(
    target: PollTarget<'_>,
    client: ClientId,
    secret: u64,
    waiter_lease_ms: Option<u64>,
) -> Request {
    let PollTarget { connection, words, .. } = target;
    // The id of a client that asked without blocking says which connection it was.
    let nameless = || match client.is_connection() {
        true => Label::new(&format!("client {connection}"), "").unwrap_or_default(),
        false => Label::default(),
    };
    Request::Acquire(AcquireRequest {
        owner: secret::owner(secret),
        client,
        ask: words.ask.clone(),
        at_least_ms: words.at_least_ms,
        lease_ms: words.lease_ms,
        waiter_lease_ms,
        not_after_ms: u64::MAX,
        ballot: None,
        label: words.label.clone().unwrap_or_else(nameless),
    })
}

fn tie_if_bound(target: PollTarget<'_>, client: ClientId, secret: u64) {
    let PollTarget { connection, record, words } = target;
    if words.bound {
        with_state(|state| state.bound_hold(connection, client, record, secret::owner(secret)));
    }
}

fn answer(ctx: &Ctx, reply: Reply, secret: u64, now_ms: u64) -> CommandResult {
    match reply {
        Reply::Granted(grant) => {
            let token = grant.token.map_or(0, |token| token.raw());
            granted(ctx, secret, token, grant.member.as_ref());
        }
        Reply::DoneBefore(done) => done_before(ctx, &done),
        Reply::Refused(refusal) => {
            return Err(Problem::refused(refusal, now_ms, max_lease_ms()));
        }
        _ => ctx.reply_nil(),
    }
    Ok(())
}
