//! What happens without a command: time passes, connections close, keys come, go and move, the
//! server takes over. Whatever writes is put off to a timer of no delay, when the server is back in
//! its loop; on a replica it is left to the master.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use taketurns_core::{ClientId, Request, limits, wire};

use crate::blocked::Outcome;
use crate::clock;
use crate::problem::Problem;
use crate::record::Record;
use crate::site::Site;
use crate::sys::{Ctx, Word};
use crate::world::{Chore, Job, world};

/// So many locks are looked after at a time, and the server's clients in between.
const JOBS: usize = 256;
/// How long to wait while the server must not write by itself.
const QUIET_MS: u64 = 10;
/// How long to wait while it takes no writes from anybody.
const REFUSED_MS: u64 = 100;

/// Records that are no more. Has a lock of its own, since records may be freed on another thread.
static FREED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Reads the arguments that the module is loaded with.
///
/// # Errors
/// Why it can't be.
pub(crate) fn begin(args: &[&[u8]], run: &str) -> Result<(), String> {
    let quarantine_ms = configuration(args)?;
    world(|world| (world.run, world.quarantine_ms) = (run.into(), quarantine_ms));
    Ok(())
}

/// `failover immediate`, or `failover quarantine max-lease SECONDS`: then for how long.
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

/// The module is loaded, into a server that may have been restarted just now.
pub(crate) fn loaded(ctx: &Ctx) {
    let flags = ctx.flags();
    let is_alone = ["connected_slaves", "repl_backlog_active"]
        .into_iter()
        .all(|field| ctx.server_info("replication", field) == "0");
    world(|world| {
        world.is_replica = flags.is_replica();
        world.is_followed = flags.is_replica() || flags.has_log() || !is_alone;
    });
    begin_quarantine();
}

/// Somebody may repeat what is done here from now on. A replica begins with what a child of the
/// server writes, and so does a log; one that goes on where it was needs what the server has loaded,
/// or was a replica itself: then this is called as well.
pub(crate) fn followed() {
    world(|world| world.is_followed = true);
}

fn begin_quarantine() {
    let now_ms = clock::now().ms;
    world(|world| {
        world.clock_ms = now_ms;
        world.until_ms = world.quarantine_ms.map_or(0, |ms| now_ms.saturating_add(ms));
    });
}

/// The server has loaded its keys, or was made a master or a replica. If it is a master, the
/// connections of an earlier process, or to another server, are not here.
pub(crate) fn took_over(ctx: &Ctx) {
    followed();
    let is_replica = ctx.flags().is_replica();
    world(|world| world.is_replica = is_replica);
    if is_replica {
        return;
    }
    begin_quarantine();
    world(|world| world.sort_all());
    arm(ctx);
}

/// A key was loaded or restored.
pub(crate) fn came(ctx: &Ctx, record: &mut Record, db: i32, name: &Word<'_>) {
    if record.is_awaited() {
        record.is_housed = true;
        world(|world| {
            world.house(record.id, db, name.bytes(), None);
            world.sort(record.id);
        });
        arm(ctx);
    }
}

/// A key was renamed or moved.
pub(crate) fn moved(ctx: &Ctx, name: &Word<'_>) {
    let mut key = ctx.look(name);
    if let Some(record) = key.record().filter(|record| record.is_housed) {
        world(|world| world.moved(record.id, ctx.db(), name.bytes()));
    }
}

/// Two databases changed places.
pub(crate) fn swapped(one: i32, other: i32) {
    world(|world| world.swapped(one, other));
}

/// A database was emptied, or all were. The records may be freed later, elsewhere.
pub(crate) fn flushed(ctx: &Ctx, db: Option<i32>) {
    let lost = world(|world| world.housed_in(db));
    freed_list().extend(lost);
    arm(ctx);
}

/// A record is no more. May be called on another thread.
pub(crate) fn freed(record: &Record) {
    if record.is_housed {
        freed_list().push(record.id);
    }
}

fn freed_list() -> std::sync::MutexGuard<'static, Vec<u64>> {
    FREED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection was closed.
pub(crate) fn closed(ctx: &Ctx, connection: u64) {
    if world(|world| world.closed(connection)) {
        arm(ctx);
    }
}

/// Ten times a second. The server's timers go by the wall clock, and its loop by one that nobody sets:
/// a wall clock that was set, in either direction, would hold them up.
pub(crate) fn look_at_clock(ctx: &Ctx) {
    let now_ms = clock::now().ms;
    let is_late = world(|world| {
        let set_back = now_ms < world.clock_ms;
        world.clock_ms = now_ms;
        if set_back {
            world.tick_all();
            world.pull_in_ends(now_ms);
            world.clear_polls();
            if let Some(ms) = world.quarantine_ms {
                world.until_ms = world.until_ms.min(now_ms.saturating_add(ms));
            }
        }
        let lapsed = world.lapse_polls(now_ms);
        set_back || lapsed || world.timer.is_some_and(|(_, at_ms)| at_ms < now_ms)
    });
    if is_late || !freed_list().is_empty() {
        stop_timer(ctx);
        arm(ctx);
    }
}

fn stop_timer(ctx: &Ctx) {
    if let Some((timer, _)) = world(|world| world.timer.take()) {
        ctx.stop_timer(timer);
    }
}

/// Has [`run`] called when there is something to do, if it is not going to be already.
pub(crate) fn arm(ctx: &Ctx) {
    let now_ms = clock::now().ms;
    let next_ms = match freed_list().is_empty() {
        false => Some(now_ms),
        true => world(|world| world.next_ms(now_ms)),
    };
    let Some(next_ms) = next_ms else { return };
    match world(|world| world.timer) {
        Some((_, at_ms)) if at_ms <= next_ms => return,
        _ => stop_timer(ctx),
    }
    start_timer(ctx, now_ms, next_ms);
}

fn start_timer(ctx: &Ctx, now_ms: u64, at_ms: u64) {
    let timer = ctx.start_timer(at_ms.saturating_sub(now_ms));
    world(|world| world.timer = Some((timer, at_ms)));
}

/// Does what there is to do by now.
pub(crate) fn run(ctx: &Ctx) {
    let now_ms = clock::now().ms;
    world(|world| world.timer = None);
    let freed = std::mem::take(&mut *freed_list()).into_iter().collect();
    for handle in world(|world| world.lost(&freed)) {
        handle.unblock(Some(Outcome::Problem(Problem::GONE)));
    }
    for handle in world(|world| world.tired(now_ms)) {
        handle.unblock(None);
    }
    if world(|world| world.is_replica) {
        world(|world| world.drop_chores());
        return;
    }
    if ctx.must_keep_quiet() {
        start_timer(ctx, now_ms, now_ms + QUIET_MS);
        return;
    }
    let jobs = world(|world| world.take_jobs(now_ms, JOBS));
    // Asked for once, and only if it is needed: it looks at every connection.
    let mut open = None;
    let mut is_refused = false;
    for job in jobs {
        ctx.select(job.db);
        let name = Word::new(&job.key);
        // A server that is cut off must not hand over what another may be granting.
        if ctx.takes_writes(&name) {
            carry_out(ctx, &job, &name, &mut open);
        } else {
            world(|world| world.put_off(&job));
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

fn carry_out(ctx: &Ctx, job: &Job, name: &Word<'_>, open: &mut Option<HashMap<ClientId, u64>>) {
    let Some(mut site) = Site::find(ctx, name, job.record) else {
        // It moved on without a word, and is freed or comes again by itself.
        world(|world| world.unhouse(job.record));
        return;
    };
    match job.chore {
        Chore::Leave(owner) => {
            site.step(&Request::Release { owner, bury_until_ms: 0, last_used: None });
        }
        Chore::Tick => {
            site.step(&Request::Tick);
        }
        Chore::Untie(connection) => {
            let lock = &site.record().lock;
            let is_held = |owner| lock.kept_by(owner).is_some();
            world(|world| world.keep_ties(connection, job.record, is_held));
        }
        Chore::Sort => {
            let now_ms = site.now.ms;
            let run = world(|world| world.run.clone());
            site.record().distrust(&run, now_ms);
            let open = open.get_or_insert_with(|| world(|world| world.open_clients()));
            let claims = |client| world(|world| world.claims(open, client, job.record));
            for owner in site.record().lock.cut_off(claims) {
                site.step(&Request::Release { owner, bury_until_ms: 0, last_used: None });
            }
        }
    }
    site.finish();
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
