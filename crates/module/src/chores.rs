//! What happens without a command: time passes, connections close, keys come, go and move, the server takes over.
//! Anything that writes is put off to a timer without delay, when the server is back in its loop. A replica leaves it
//! to the master.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use taketurns_core::{ClientId, Request, limits, wire};

use crate::blocked::BlockedReply;
use crate::clock;
use crate::open_lock::OpenLock;
use crate::problem::Problem;
use crate::record::Record;
use crate::state::{Chore, DueChore, with_state};
use crate::sys::{Ctx, ModuleString};

/// How many locks one run looks after. Between runs the server serves its clients.
const JOBS: usize = 256;
/// The retry interval while the server must not write by itself.
const QUIET_MS: u64 = 10;
/// The retry interval while the server takes no writes from anybody.
const REFUSED_MS: u64 = 100;

/// Records that were freed. Has its own mutex, because the server may free records on another thread.
static FREED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Reads the arguments that the module is loaded with.
///
/// # Errors
/// Says why the arguments are wrong.
pub(crate) fn begin(args: &[&[u8]], run: &str) -> Result<(), String> {
    let quarantine_ms = configuration(args)?;
    with_state(|state| (state.run, state.quarantine_ms) = (run.into(), quarantine_ms));
    Ok(())
}

/// Parses `failover immediate`, or `failover quarantine max-lease SECONDS`. Returns the quarantine, if any.
fn configuration(args: &[&[u8]]) -> Result<Option<u64>, String> {
    let lower: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
    let lower: Vec<&[u8]> = lower.iter().map(Vec::as_slice).collect();
    match lower[..] {
        [] | [b"failover", b"immediate"] => Ok(None),
        [b"failover", b"quarantine", b"max-lease", seconds] => {
            let ms = wire::number(seconds).and_then(|seconds| seconds.checked_mul(1_000));
            ms.filter(|ms| limits::is_lease(*ms)).map(Some).ok_or_else(|| {
                let max = limits::LEASE_MS_MAX / 1_000;
                format!("max-lease takes seconds from 1 to {max}")
            })
        }
        _ => Err("it takes `failover immediate` or `failover quarantine max-lease SECONDS`".into()),
    }
}

/// Handles that the module was loaded, possibly into a server that has just restarted.
pub(crate) fn loaded(ctx: &Ctx) {
    let flags = ctx.flags();
    let is_alone = ["connected_slaves", "repl_backlog_active"]
        .into_iter()
        .all(|field| ctx.server_info("replication", field) == "0");
    with_state(|state| {
        state.is_replica = flags.is_replica();
        state.is_followed = flags.is_replica() || flags.has_log() || !is_alone;
    });
    begin_quarantine();
}

/// Handles that a replica or a log may follow this server from now on. Both begin with what a child process of the
/// server writes. A replica that resumes needs a server that has loaded its state, or was a replica itself: this is
/// called in those cases too.
pub(crate) fn followed() {
    with_state(|state| state.is_followed = true);
}

fn begin_quarantine() {
    let now_ms = clock::now().ms;
    with_state(|state| {
        state.clock_ms = now_ms;
        state.until_ms = state.quarantine_ms.map_or(0, |ms| now_ms.saturating_add(ms));
    });
}

/// Handles that the server has loaded its keys, or became a master or a replica. A master does not have the connections
/// of an earlier process or of another server.
pub(crate) fn took_over(ctx: &Ctx) {
    followed();
    let is_replica = ctx.flags().is_replica();
    with_state(|state| state.is_replica = is_replica);
    if is_replica {
        return;
    }
    begin_quarantine();
    with_state(|state| state.sort_all());
    arm(ctx);
}

/// Handles that a key was loaded or restored.
pub(crate) fn came(ctx: &Ctx, record: &mut Record, db: i32, name: &ModuleString<'_>) {
    if record.is_awaited() {
        record.is_tracked = true;
        with_state(|state| {
            state.track(record.id, db, name.bytes(), None);
            state.sort(record.id);
        });
        arm(ctx);
    }
}

/// Handles that a key was renamed or moved.
pub(crate) fn moved(ctx: &Ctx, name: &ModuleString<'_>) {
    let mut key = ctx.look(name);
    if let Some(record) = key.record().filter(|record| record.is_tracked) {
        with_state(|state| state.moved(record.id, ctx.db(), name.bytes()));
    }
}

/// Handles that two databases changed places.
pub(crate) fn swapped(one: i32, other: i32) {
    with_state(|state| state.swapped(one, other));
}

/// Handles that one database or all were flushed. The server may free the records later, on another thread.
pub(crate) fn flushed(ctx: &Ctx, db: Option<i32>) {
    let lost = with_state(|state| state.tracked_in(db));
    freed_list().extend(lost);
    arm(ctx);
}

/// Handles that a record was freed. May be called on another thread.
pub(crate) fn freed(record: &Record) {
    if record.is_tracked {
        freed_list().push(record.id);
    }
}

fn freed_list() -> std::sync::MutexGuard<'static, Vec<u64>> {
    FREED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles that a connection was closed.
pub(crate) fn closed(ctx: &Ctx, connection: u64) {
    if with_state(|state| state.closed(connection)) {
        arm(ctx);
    }
}

/// Checks the wall clock ten times a second. The server's timers follow the wall clock, but its loop follows a
/// monotonic one: setting the wall clock, in either direction, would delay the timers.
pub(crate) fn look_at_clock(ctx: &Ctx) {
    let now_ms = clock::now().ms;
    let is_late = with_state(|state| {
        let set_back = now_ms < state.clock_ms;
        state.clock_ms = now_ms;
        if set_back {
            state.tick_all();
            state.pull_in_ends(now_ms);
            state.clear_polls();
            if let Some(ms) = state.quarantine_ms {
                state.until_ms = state.until_ms.min(now_ms.saturating_add(ms));
            }
        }
        let lapsed = state.lapse_polls(now_ms);
        set_back || lapsed || state.timer.is_some_and(|(_, at_ms)| at_ms < now_ms)
    });
    if is_late || !freed_list().is_empty() {
        stop_timer(ctx);
        arm(ctx);
    }
}

fn stop_timer(ctx: &Ctx) {
    if let Some((timer, _)) = with_state(|state| state.timer.take()) {
        ctx.stop_timer(timer);
    }
}

/// Arranges that [`run`] is called when something is due, unless that is arranged already.
pub(crate) fn arm(ctx: &Ctx) {
    let now_ms = clock::now().ms;
    let next_ms = match freed_list().is_empty() {
        false => Some(now_ms),
        true => with_state(|state| state.next_ms(now_ms)),
    };
    let Some(next_ms) = next_ms else { return };
    match with_state(|state| state.timer) {
        Some((_, at_ms)) if at_ms <= next_ms => return,
        _ => stop_timer(ctx),
    }
    start_timer(ctx, now_ms, next_ms);
}

fn start_timer(ctx: &Ctx, now_ms: u64, at_ms: u64) {
    let timer = ctx.start_timer(at_ms.saturating_sub(now_ms));
    with_state(|state| state.timer = Some((timer, at_ms)));
}

/// Does everything that is due.
pub(crate) fn run(ctx: &Ctx) {
    let now_ms = clock::now().ms;
    with_state(|state| state.timer = None);
    let freed = std::mem::take(&mut *freed_list()).into_iter().collect();
    for handle in with_state(|state| state.lost(&freed)) {
        handle.unblock(Some(BlockedReply::Problem(Problem::GONE)));
    }
    for handle in with_state(|state| state.tired(now_ms)) {
        handle.unblock(None);
    }
    if with_state(|state| state.is_replica) {
        with_state(|state| state.drop_chores());
        return;
    }
    if ctx.must_keep_quiet() {
        start_timer(ctx, now_ms, now_ms + QUIET_MS);
        return;
    }
    let jobs = with_state(|state| state.take_jobs(now_ms, JOBS));
    // Computed once, and only if needed: it looks at every connection.
    let mut open = None;
    let mut is_refused = false;
    for job in jobs {
        ctx.select(job.db);
        let name = ModuleString::new(&job.key);
        // A server that is cut off must not hand over a lock that another server may be granting.
        if ctx.takes_writes(&name) {
            carry_out(ctx, &job, &name, &mut open);
        } else {
            with_state(|state| state.put_off(&job));
            is_refused = true;
        }
    }
    if is_refused {
        stop_timer(ctx);
        start_timer(ctx, now_ms, now_ms + REFUSED_MS);
    } else {
        arm(ctx);
    }
}

fn carry_out(
    ctx: &Ctx,
    job: &DueChore,
    name: &ModuleString<'_>,
    open: &mut Option<HashMap<ClientId, u64>>,
) {
    let Some(mut open_lock) = OpenLock::find(ctx, name, job.record) else {
        // The record moved without an event. The server frees it, or it comes back by an event.
        with_state(|state| state.untrack(job.record));
        return;
    };
    match job.chore {
        Chore::Leave(owner) => {
            open_lock.step(&Request::Release { owner, bury_until_ms: 0, last_used: None });
        }
        Chore::Tick => {
            open_lock.step(&Request::Tick);
        }
        Chore::Untie(connection) => {
            let lock = &open_lock.record().lock;
            let is_held = |owner| lock.kept_by(owner).is_some();
            with_state(|state| state.keep_ties(connection, job.record, is_held));
        }
        Chore::Sort => {
            let now_ms = open_lock.now.ms;
            let run = with_state(|state| state.run.clone());
            open_lock.record().distrust(&run, now_ms);
            let open = open.get_or_insert_with(|| with_state(|state| state.open_clients()));
            let claims = |client| with_state(|state| state.claims(open, client, job.record));
            for owner in open_lock.record().lock.cut_off(claims) {
                open_lock.step(&Request::Release { owner, bury_until_ms: 0, last_used: None });
            }
        }
    }
    open_lock.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<u64>, String> {
        let args: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        configuration(&args)
    }

    #[test]
    fn it_is_loaded_with_two_forms_of_arguments_or_none() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("failover immediate"), Ok(None));
        assert_eq!(read("FAILOVER quarantine MAX-LEASE 60"), Ok(Some(60_000)));
        for wrong in [
            "failover",
            "failover later",
            "failover quarantine",
            "failover quarantine max-lease",
            "failover quarantine max-lease 0",
            "failover quarantine max-lease x",
            "failover quarantine max-lease 86401",
            "failover immediate max-lease 60",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
