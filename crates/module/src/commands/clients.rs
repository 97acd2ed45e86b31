//! Commands for any client: people type them, and programs in any language send them.

use taketurns_core::{AttemptEnd, ClientId, Reply, Request, Token};

use super::{CommandResult, left, max_lease_ms, may_break, room, writable};
use crate::open_lock::OpenLock;
use crate::problem::Problem;
use crate::record::Requester;
use crate::state::with_state;
use crate::sys::{Args, Ctx, KeyContent};
use crate::{clock, secret, show, words};

/// Carries out a request that names the secret of a grant.
fn with_secret(
    ctx: &Ctx,
    args: Args<'_>,
    request: impl FnOnce(&mut OpenLock<'_>) -> Request,
) -> Result<Reply, Problem> {
    writable()?;
    let name = args.word(0);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let request = request(&mut open_lock);
    let reply = open_lock.step(&request);
    let is_held = open_lock.record().lock.holding() > 0;
    open_lock.finish();
    // A wrong secret and a lock without a holder are different errors.
    if reply == Reply::NotHeld && !is_held { Err(Problem::NOT_HELD) } else { Ok(reply) }
}

pub(super) fn release(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    ctx.redact(1);
    let owner = secret::owner(words::secret(args.get(1))?);
    let release =
        |_: &mut OpenLock<'_>| Request::Release { owner, bury_until_ms: 0, last_used: None };
    match with_secret(ctx, args, release)? {
        Reply::Released | Reply::Left => {
            with_state(|state| state.untie(ctx.client(), owner));
            ctx.reply_ok();
        }
        _ => ctx.reply_nil(),
    }
    Ok(())
}

pub(super) fn done(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    ctx.redact(1);
    let (secret, token, result) = words::done(&args.all_from(1))?;
    finish(ctx, args, secret, token, AttemptEnd::Done(result))
}

pub(super) fn fail(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    ctx.redact(1);
    let (secret, token) = words::fail(&args.all_from(1))?;
    finish(ctx, args, secret, token, AttemptEnd::Failed)
}

fn finish(ctx: &Ctx, args: Args<'_>, secret: u64, token: Token, end: AttemptEnd) -> CommandResult {
    let owner = secret::owner(secret);
    match with_secret(ctx, args, |_| Request::Finish { owner, token, end, bury_until_ms: 0 })? {
        Reply::Released => {
            with_state(|state| state.untie(ctx.client(), owner));
            ctx.reply_ok();
        }
        Reply::Refused(refusal) => {
            return Err(Problem::refused(refusal, clock::now().ms, max_lease_ms()));
        }
        _ => ctx.reply_nil(),
    }
    Ok(())
}

pub(super) fn undo(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    writable()?;
    let name = args.word(0);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let (reply, now_ms) = (open_lock.step(&Request::Undo), open_lock.now.ms);
    open_lock.finish();
    match reply {
        Reply::Refused(refusal) => Err(Problem::refused(refusal, now_ms, max_lease_ms())),
        reply => {
            ctx.reply_int((reply == Reply::Changed(true)).into());
            Ok(())
        }
    }
}

pub(super) fn renew(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    // Redacts before any error about the command can be logged.
    ctx.redact(1);
    let (secret, lease_ms) = words::renew(&args.all_from(1), max_lease_ms())?;
    let owner = secret::owner(secret);
    // A renewal does not change who keeps the lock: a hold that is bound to a connection stays
    // bound.
    let renew = |open_lock: &mut OpenLock<'_>| {
        let client = open_lock.record().lock.kept_by(owner).unwrap_or(ClientId::NOBODY);
        Request::Renew { owner, client, lease_ms, write_back: None }
    };
    match with_secret(ctx, args, renew)? {
        Reply::Renewed(_) => ctx.reply_ok(),
        Reply::Revoked => return Err(Problem::REVOKED),
        _ => ctx.reply_nil(),
    }
    Ok(())
}

pub(super) fn check(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    let token = words::token(args.get(1))?;
    writable()?;
    let name = args.word(0);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let admitted = open_lock.admit(token);
    open_lock.finish();
    with_state(|state| match admitted {
        Ok(()) => state.counts.admitted += 1,
        Err(_) => state.counts.stale += 1,
    });
    admitted?;
    ctx.reply_ok();
    Ok(())
}

pub(super) fn show_lock(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    let waiters_max = words::show(&args.all_from(1))?;
    let name = args.word(0);
    let mut key = ctx.look(&name);
    let until_ms = with_state(|state| state.until_ms);
    match key.holds() {
        KeyContent::Nothing => ctx.reply_nil(),
        KeyContent::Lock => {
            let Some(record) = key.record() else { return Err(Problem::WRONG_TYPE) };
            let now = clock::now();
            let mut view = record.lock.view(now, waiters_max);
            let until_ms = record.quarantine_until_ms(now, Requester::Anyone { until_ms });
            view.quarantine_left = left(until_ms, now.ms);
            show::lock(ctx, &view, record.admitted);
        }
        _ => return Err(Problem::WRONG_TYPE),
    }
    Ok(())
}

pub(super) fn list(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    show::list(ctx, &words::list(&args.all_from(0))?)
}

pub(super) fn break_(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    let (token, at_once) = words::break_(&args.all_from(1))?;
    writable()?;
    may_break(ctx, args.get(0))?;
    let name = args.word(0);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let reply = open_lock.step(&Request::Break { token, at_once });
    open_lock.finish();
    ctx.reply_int(if let Reply::Broken(count) = reply { count.into() } else { 0 });
    Ok(())
}

pub(super) fn pool(ctx: &Ctx, args: Args<'_>) -> CommandResult {
    let adds = match args.get(0).to_ascii_uppercase().as_slice() {
        b"ADD" => true,
        b"REM" => false,
        _ => return Err(Problem::SYNTAX),
    };
    let members = args.from(2).map(words::member).collect::<Result<Vec<_>, _>>()?;
    writable()?;
    if adds {
        room(ctx)?;
    }
    let name = args.word(1);
    let mut open_lock = OpenLock::open(ctx, &name)?;
    let (mut changed, mut problem) = (0, None);
    for member in members {
        let request =
            if adds { Request::PoolAdd { member } } else { Request::PoolRemove { member } };
        match open_lock.step(&request) {
            Reply::Changed(true) => changed += 1,
            Reply::Refused(refusal) => {
                problem = Some(Problem::refused(refusal, open_lock.now.ms, max_lease_ms()));
                break;
            }
            _ => {}
        }
    }
    open_lock.finish();
    match problem {
        // If a part was done, the reply says so.
        Some(problem) if changed == 0 => Err(problem),
        _ => {
            ctx.reply_int(changed);
            Ok(())
        }
    }
}

pub(super) fn help(ctx: &Ctx, _: Args<'_>) -> CommandResult {
    show::help(ctx);
    Ok(())
}
