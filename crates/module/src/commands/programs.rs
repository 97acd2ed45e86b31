//! Commands for programs that wait without blocking a connection and have verified the server, and the command by which
//! replicas and the log repeat what it did.

use std::cell::RefCell;

use serde::Serialize;
use taketurns_core::wire::{self, Verb, WireReply};
use taketurns_core::{ClientId, Request, View};

use super::{CommandResult, left, may_break, room, writable};
use crate::binding::ProgramBinding;
use crate::clock;
use crate::entry::Entry;
use crate::facts::CommandWords;
use crate::open_lock::{self, OpenLock};
use crate::problem::Problem;
use crate::record::Requester;
use crate::state::with_state;
use crate::sys::{Args, Ctx, KeyContent};

pub(super) fn bind(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    let binding = ProgramBinding::parse(&args.all_from(0)).ok_or(Problem::SYNTAX)?;
    if with_state(|state| state.run != binding.run) {
        return Err(Problem::UNVERIFIED);
    }
    let may_look = binding.marker_key.is_empty() || ctx.may_read(&args.word(3));
    let somebody = format!("{}{}", binding.channel, ClientId::NOBODY);
    if !may_look || !ctx.may_publish(&somebody) {
        return Err(Problem::NO_BIND);
    }
    // The marker was lost since: a flush deletes keys and scripts, but not what the module remembers.
    if with_state(|state| state.bindings.misses_a_marker(&binding)) {
        return Err(Problem::MARKER_CHANGED);
    }
    ctx.reply_text(with_state(|state| state.bindings.add(binding)));
    Ok(())
}

/// `FENCELOCK.DO key binding verb arguments`.
pub(super) fn carry_out(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    // Redacts the word that may be an owner, before any error about the request can be logged.
    if args.len() > 3 {
        ctx.redact(3);
    }
    let bound = with_state(|state| state.bindings.get(args.get(1))).ok_or(Problem::UNVERIFIED)?;
    let binding = &bound.binding;
    if let Some(marker) = bound.marker()
        && !ctx.look(marker).is_text(binding.mark.as_bytes())
    {
        return Err(Problem::MARKER_CHANGED);
    }
    let verb = Verb::parse(args.get(2)).ok_or(Problem::SYNTAX)?;
    let words = arguments(args);
    if verb == Verb::View {
        return view(ctx, args, binding, &words);
    }
    let request = wire::decode_request(verb, &words).ok_or(Problem::SYNTAX)?;
    writable()?;
    match &request {
        Request::Acquire(acquire) => {
            program(acquire.client)?;
            lease(acquire.lease_ms.max(acquire.at_least_ms))?;
            room(ctx)?;
        }
        Request::Renew { client, lease_ms, .. } => {
            program(*client)?;
            lease(*lease_ms)?;
        }
        Request::Refresh { client, .. } => program(*client)?,
        // Either may end another client's hold.
        Request::Break { .. } | Request::ClientGone { .. } => may_break(ctx, args.get(0))?,
        Request::PoolAdd { .. } => room(ctx)?,
        Request::Release { .. }
        | Request::Resize { .. }
        | Request::PoolRemove { .. }
        | Request::Finish { .. }
        | Request::Undo
        | Request::Tick => {}
    }
    let name = args.word(0);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let now_ms = open_lock.now.ms;
    if matches!(&request, Request::Acquire(acquire) if acquire.waiter_lease_ms.is_some()) {
        open_lock.record().note_wait(now_ms);
    }
    let reply = open_lock.step_by(Requester::Program(binding), &request);
    // If one step was not enough, the server continues by itself. The server writes to the client that was told last
    // first. So the next holder, who is woken when this step is finished, is served before the client that releases.
    // With threads for I/O there is no such order, and nothing relies on it.
    answer(ctx, &WireReply { now_ms: Some(now_ms), more: false, reply });
    open_lock.finish();
    Ok(())
}

/// Returns the arguments after the verb. Programs send them as one word with tabs in between, because each word of a
/// command costs the server more than the lock's own work. No argument contains a tab.
fn arguments(args: Args<'_>) -> CommandWords<'_> {
    args.from(3).flat_map(|word| word.split(|byte| *byte == b'\t')).collect()
}

thread_local! {
    /// One buffer for all replies: they are written one at a time, and very often.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn answer(ctx: &Ctx, answered: &WireReply) {
    TEXT.with_borrow_mut(|text| {
        text.clear();
        wire::encode_to(text, answered);
        ctx.reply_text(text);
    });
}

/// Refuses the ids of connections: only the server gives those out.
fn program(client: ClientId) -> CommandResult {
    let is_ours = client.is_connection() || client.caller().is_some();
    if is_ours { Err(Problem::SYNTAX) } else { Ok(()) }
}

/// Refuses a lease longer than the quarantine after a restart.
fn lease(lease_ms: u64) -> CommandResult {
    match with_state(|state| state.quarantine_ms) {
        Some(max_ms) if lease_ms > max_ms => Err(Problem::lease(max_ms)),
        _ => Ok(()),
    }
}

/// The view of a lock that a program gets.
#[derive(Serialize)]
struct ProgramView {
    now_ms: u64,
    view: View,
}

fn view(ctx: &Ctx, args: Args<'_>, binding: &ProgramBinding, words: &[&[u8]]) -> CommandResult {
    let &[waiters_max] = words else { return Err(Problem::SYNTAX) };
    let waiters_max = wire::number(waiters_max).ok_or(Problem::SYNTAX)?;
    let name = args.word(0);
    let mut key = ctx.look(&name);
    let now = clock::now();
    let view = match key.holds() {
        KeyContent::Nothing => {
            let mut view = View::default();
            view.quarantine_left = left(binding.until_ms_at(now.ms), now.ms);
            view.quarantine_left.is_some().then_some(view)
        }
        KeyContent::Lock => key.record().map(|record| {
            let until_ms = record.quarantine_until_ms(now, Requester::Program(binding));
            let mut view =
                record.lock.view(now, usize::try_from(waiters_max).unwrap_or(usize::MAX));
            view.quarantine_left = left(until_ms, now.ms);
            view
        }),
        _ => return Err(Problem::WRONG_TYPE),
    };
    let seen = view.map(|view| serde_json::to_string(&ProgramView { now_ms: now.ms, view }));
    match seen {
        Some(Ok(text)) => ctx.reply_text(text),
        Some(Err(error)) => return Err(Problem::say(format!("ERR {error}"))),
        None => ctx.reply_nil(),
    }
    Ok(())
}

pub(super) fn apply(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    if !ctx.flags().is_repeated() {
        return Err(Problem::INTERNAL);
    }
    let unknown = Problem::new("ERR an entry of another version, or none");
    let entry = Entry::from_bytes(args.get(1)).ok_or(unknown)?;
    let name = args.word(0);
    open_lock::repeat(ctx, &name, &entry)?;
    // Into the replica's own log.
    ctx.replicate(&name, args.get(1));
    ctx.reply_ok();
    Ok(())
}
