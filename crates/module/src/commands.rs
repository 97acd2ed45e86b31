//! The commands: one function each, from the words to the reply.

use std::ffi::CStr;

use serde::Serialize;
use taketurns_core::wire::{self, Answered, Verb};
use taketurns_core::{Acquire, ClientId, Label, Reply, Request, View, limits};

use crate::binding::Binding;
use crate::blocked::granted;
use crate::problem::Problem;
use crate::record::{By, Entry};
use crate::site::{self, Site};
use crate::sys::{Args, Ctx, Holds};
use crate::world::{Waiter, world};
use crate::{clock, secret, show, words};

type Done = Result<(), Problem>;

/// A command as the server is told of it.
pub(crate) struct Command {
    pub(crate) name: &'static CStr,
    pub(crate) flags: &'static CStr,
    pub(crate) categories: &'static CStr,
    /// With the command's name; negative for at least.
    pub(crate) arity: i32,
    /// Which word is the key; 0 if none is.
    pub(crate) key: i32,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    run: fn(&Ctx, Args<'_>) -> Done,
}

impl Command {
    pub(crate) fn writes(&self) -> bool {
        self.flags.to_bytes().starts_with(b"write")
    }
}

/// Repeats a step: for replicas and the log alone.
pub(crate) const APPLY: &CStr = c"FENCELOCK.APPLY";

const LOG_N: &CStr = c"O(log(N)) with N waiters";

pub(crate) const COMMANDS: [Command; 12] = [
    Command {
        name: c"FENCELOCK.ACQUIRE",
        flags: c"write deny-oom fast blocking",
        categories: c"write fast blocking",
        arity: -3,
        key: 1,
        summary: c"Takes a lock, or waits for it: answers a secret and a fencing token",
        complexity: LOG_N,
        run: acquire,
    },
    Command {
        name: c"FENCELOCK.RELEASE",
        flags: c"write fast",
        categories: c"write fast",
        arity: 3,
        key: 1,
        summary: c"Gives a lock back, and hands it to whoever waits first",
        complexity: LOG_N,
        run: release,
    },
    Command {
        name: c"FENCELOCK.RENEW",
        flags: c"write fast",
        categories: c"write fast",
        arity: -4,
        key: 1,
        summary: c"Holds a lock for longer",
        complexity: LOG_N,
        run: renew,
    },
    Command {
        name: c"FENCELOCK.CHECK",
        flags: c"write deny-oom fast",
        categories: c"write fast",
        arity: 3,
        key: 1,
        summary: c"Admits a fencing token, unless a newer one was admitted before",
        complexity: c"O(1)",
        run: check,
    },
    Command {
        name: c"FENCELOCK.SHOW",
        flags: c"readonly",
        categories: c"read slow",
        arity: -2,
        key: 1,
        summary: c"Shows who holds a lock and who waits for it",
        complexity: c"O(N) with N holders and waiters shown",
        run: show_lock,
    },
    Command {
        name: c"FENCELOCK.LIST",
        flags: c"readonly",
        categories: c"read slow",
        arity: -1,
        key: 0,
        summary: c"Lists locks, page by page as SCAN does",
        complexity: c"O(N) with N keys looked at",
        run: list,
    },
    Command {
        name: c"FENCELOCK.BREAK",
        flags: c"write",
        categories: c"write slow dangerous",
        arity: -2,
        key: 1,
        summary: c"Revokes a lock from whoever holds it; needs the right to DEL the key",
        complexity: LOG_N,
        run: break_,
    },
    Command {
        name: c"FENCELOCK.POOL",
        flags: c"write",
        categories: c"write slow",
        arity: -4,
        key: 2,
        summary: c"Adds members to a pool of locks, or removes them",
        complexity: LOG_N,
        run: pool,
    },
    Command {
        name: c"FENCELOCK.HELP",
        flags: c"fast allow-loading allow-stale",
        categories: c"fast",
        arity: 1,
        key: 0,
        summary: c"Says what commands there are",
        complexity: c"O(1)",
        run: help,
    },
    Command {
        name: c"FENCELOCK.BIND",
        flags: c"fast",
        categories: c"fast",
        arity: 8,
        key: 0,
        summary: c"Registers what a program has verified of this server, for FENCELOCK.DO",
        complexity: c"O(1)",
        run: bind,
    },
    Command {
        name: c"FENCELOCK.DO",
        flags: c"write fast",
        categories: c"write fast",
        arity: -4,
        key: 1,
        summary: c"Carries out one request of a program that waits by itself, and never blocks",
        complexity: LOG_N,
        run: carry_out,
    },
    Command {
        name: APPLY,
        flags: c"write no-monitor no-slowlog",
        categories: c"write slow admin dangerous",
        arity: 3,
        key: 1,
        summary: c"Repeats a step on a replica or from the log; refused to everybody else",
        complexity: LOG_N,
        run: apply,
    },
];

/// Runs a command, and replies.
pub(crate) fn run(command: &Command, ctx: &Ctx, args: Args<'_>) {
    let words = args.len() as i32 + 1;
    let fits = if command.arity < 0 { words >= -command.arity } else { words == command.arity };
    let done = if fits { (command.run)(ctx, args) } else { Err(Problem::SYNTAX) };
    if let Err(problem) = done {
        ctx.reply_error(&problem.to_string());
    }
}

/// The server sees to this, unless its replicas may be written to.
fn writable() -> Done {
    if world(|world| world.is_replica) { Err(Problem::READ_ONLY) } else { Ok(()) }
}

fn max_lease_ms() -> u64 {
    world(|world| world.max_lease_ms())
}

fn acquire(ctx: &Ctx, args: Args<'_>) -> Done {
    let words = words::acquire(&args.from(1), max_lease_ms())?;
    writable()?;
    if words.bound && ctx.flags().is_script() {
        return Err(Problem::BOUND_IN_SCRIPT);
    }
    let wait_ms = words.wait_ms.filter(|_| ctx.flags().may_block());
    let (secret, connection) = (secret::fresh(), ctx.client());
    let owner = secret::owner(secret);
    let (client, nameless) = if wait_ms.is_some() || words.bound {
        let nameless = Label::new(&format!("client {connection}"), "").unwrap_or_default();
        (ClientId::of_connection(secret::bits(), words.bound), nameless)
    } else {
        (ClientId::of_caller(connection), Label::default())
    };
    let request = Request::Acquire(Acquire {
        owner,
        client,
        ask: words.ask,
        lease_ms: words.lease_ms,
        // It lasts for as long as the connection, or until the wait is over.
        waiter_lease_ms: wait_ms.map(|_| limits::LEASE_MS_MAX),
        not_after_ms: u64::MAX,
        label: words.label.unwrap_or(nameless),
    });
    let name = args.word(0);
    let mut site = Site::open(ctx, &name)?;
    let (reply, now_ms, record) = (site.step(&request), site.now.ms, site.record().id);
    match (&reply, wait_ms) {
        (Reply::Queued(_), Some(wait_ms)) => {
            let (handle, until_ms) = (ctx.block(), now_ms.saturating_add(wait_ms));
            let waiter = Waiter { handle, connection, record, owner, secret, wait_ms, until_ms };
            world(|world| world.wait(client, waiter));
        }
        (Reply::Granted(_), _) if words.bound => {
            world(|world| world.tie(connection, client, record, owner));
        }
        _ => {}
    }
    site.finish();
    match reply {
        Reply::Granted(grant) => {
            let token = grant.token.map_or(0, |token| token.raw());
            granted(ctx, secret, token, grant.member.as_ref());
        }
        Reply::Queued(_) => {}
        Reply::Refused(refusal) => {
            return Err(Problem::refused(refusal, now_ms, max_lease_ms()));
        }
        _ => ctx.reply_nil(),
    }
    Ok(())
}

/// A request that names the secret of a grant.
fn with_secret(
    ctx: &Ctx,
    args: Args<'_>,
    request: impl FnOnce(&mut Site<'_>) -> Request,
) -> Result<Reply, Problem> {
    writable()?;
    let name = args.word(0);
    let mut site = Site::open(ctx, &name)?;
    let request = request(&mut site);
    let reply = site.step(&request);
    let is_held = site.record().lock.holding() > 0;
    site.finish();
    // A wrong secret is told from a lock that nobody holds, as ever.
    if reply == Reply::NotHeld && !is_held { Err(Problem::NOT_HELD) } else { Ok(reply) }
}

fn release(ctx: &Ctx, args: Args<'_>) -> Done {
    ctx.redact(1);
    let owner = secret::owner(words::secret(args.get(1))?);
    let release = |_: &mut Site<'_>| Request::Release { owner, bury_until_ms: 0 };
    match with_secret(ctx, args, release)? {
        Reply::Released | Reply::Left => {
            world(|world| world.untie(ctx.client(), owner));
            ctx.reply_ok();
        }
        _ => ctx.reply_nil(),
    }
    Ok(())
}

fn renew(ctx: &Ctx, args: Args<'_>) -> Done {
    // Before anything can be found wrong with the command.
    ctx.redact(1);
    let (secret, lease_ms) = words::renew(&args.from(1), max_lease_ms())?;
    let owner = secret::owner(secret);
    // Whoever keeps it goes on to: one that is bound to a connection stays so.
    let renew = |site: &mut Site<'_>| {
        let client = site.record().lock.kept_by(owner).unwrap_or(ClientId::NOBODY);
        Request::Renew { owner, client, lease_ms }
    };
    match with_secret(ctx, args, renew)? {
        Reply::Renewed(_) => ctx.reply_ok(),
        Reply::Revoked => return Err(Problem::REVOKED),
        _ => ctx.reply_nil(),
    }
    Ok(())
}

fn check(ctx: &Ctx, args: Args<'_>) -> Done {
    let token = words::token(args.get(1))?;
    writable()?;
    let name = args.word(0);
    let mut site = Site::open(ctx, &name)?;
    let admitted = site.admit(token);
    site.finish();
    world(|world| match admitted {
        Ok(()) => world.counts.admitted += 1,
        Err(_) => world.counts.stale += 1,
    });
    admitted?;
    ctx.reply_ok();
    Ok(())
}

fn show_lock(ctx: &Ctx, args: Args<'_>) -> Done {
    let waiters_max = words::show(&args.from(1))?;
    let name = args.word(0);
    let mut key = ctx.look(&name);
    let until_ms = world(|world| world.until_ms);
    match key.holds() {
        Holds::Nothing => ctx.reply_nil(),
        Holds::Lock => {
            let Some(record) = key.record() else { return Err(Problem::WRONG_TYPE) };
            let now = clock::now();
            let mut view = record.lock.view(now, waiters_max);
            let until_ms = record.quarantine_until_ms(now, By::Anyone { until_ms });
            view.quarantine_ms = left_ms(until_ms, now.ms);
            show::lock(ctx, &view, record.admitted);
        }
        _ => return Err(Problem::WRONG_TYPE),
    }
    Ok(())
}

fn left_ms(until_ms: u64, now_ms: u64) -> Option<u64> {
    until_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0)
}

fn list(ctx: &Ctx, args: Args<'_>) -> Done {
    show::list(ctx, &words::list(&args.from(0))?)
}

fn break_(ctx: &Ctx, args: Args<'_>) -> Done {
    let (token, at_once) = words::break_(&args.from(1))?;
    writable()?;
    may_break(ctx, args.get(0))?;
    let name = args.word(0);
    let mut site = Site::open(ctx, &name)?;
    let reply = site.step(&Request::Break { token, at_once });
    site.finish();
    ctx.reply_int(if let Reply::Broken(count) = reply { count.into() } else { 0 });
    Ok(())
}

/// Who breaks a lock does to its holder what deleting the key would.
fn may_break(ctx: &Ctx, key: &[u8]) -> Done {
    if ctx.may_run(&[b"DEL", key]) { Ok(()) } else { Err(Problem::NO_BREAK) }
}

fn pool(ctx: &Ctx, args: Args<'_>) -> Done {
    let adds = match args.get(0).to_ascii_uppercase().as_slice() {
        b"ADD" => true,
        b"REM" => false,
        _ => return Err(Problem::SYNTAX),
    };
    let members =
        args.from(2).iter().map(|word| words::member(word)).collect::<Result<Vec<_>, _>>()?;
    writable()?;
    if adds {
        room(ctx)?;
    }
    let name = args.word(1);
    let mut site = Site::open(ctx, &name)?;
    let (mut changed, mut problem) = (0, None);
    for member in members {
        let request =
            if adds { Request::PoolAdd { member } } else { Request::PoolRemove { member } };
        match site.step(&request) {
            Reply::Changed(true) => changed += 1,
            Reply::Refused(refusal) => {
                problem = Some(Problem::refused(refusal, site.now.ms, max_lease_ms()));
                break;
            }
            _ => {}
        }
    }
    site.finish();
    match problem {
        // Part of it was done, and is said so.
        Some(problem) if changed == 0 => Err(problem),
        _ => {
            ctx.reply_int(changed);
            Ok(())
        }
    }
}

fn help(ctx: &Ctx, _: Args<'_>) -> Done {
    show::help(ctx);
    Ok(())
}

fn bind(ctx: &Ctx, args: Args<'_>) -> Done {
    let binding = Binding::parse(&args.from(0)).ok_or(Problem::SYNTAX)?;
    if world(|world| world.run != binding.run) {
        return Err(Problem::UNVERIFIED);
    }
    let may_look = binding.marker_key.is_empty() || ctx.may_read(&args.word(3));
    let somebody = format!("{}{}", binding.channel, ClientId::NOBODY);
    if !may_look || !ctx.may_publish(&somebody) {
        return Err(Problem::NO_BIND);
    }
    // It was lost since: scripts may be flushed as keys are, but not this.
    if world(|world| world.bindings.misses_a_marker(&binding)) {
        return Err(Problem::MARKER_CHANGED);
    }
    ctx.reply_text(world(|world| world.bindings.add(binding)));
    Ok(())
}

/// `FENCELOCK.DO key binding verb …`.
fn carry_out(ctx: &Ctx, args: Args<'_>) -> Done {
    // An owner, if it is anything secret; before anything can be found wrong with the request.
    if args.len() > 3 {
        ctx.redact(3);
    }
    let binding = world(|world| world.bindings.get(args.get(1))).ok_or(Problem::UNVERIFIED)?;
    if !binding.marker_key.is_empty() {
        let marker = crate::sys::Word::new(&binding.marker_key);
        if !ctx.look(&marker).is_text(binding.mark.as_bytes()) {
            return Err(Problem::MARKER_CHANGED);
        }
    }
    let verb = Verb::parse(args.get(2)).ok_or(Problem::SYNTAX)?;
    let words = args.from(3);
    if verb == Verb::View {
        return view(ctx, args, &binding, &words);
    }
    let request = wire::decode_request(verb, &words).ok_or(Problem::SYNTAX)?;
    writable()?;
    match &request {
        Request::Acquire(acquire) => {
            program(acquire.client)?;
            lease(acquire.lease_ms)?;
            room(ctx)?;
        }
        Request::Renew { client, lease_ms, .. } => {
            program(*client)?;
            lease(*lease_ms)?;
        }
        Request::Refresh { client, .. } => program(*client)?,
        // Either may end what somebody else holds.
        Request::Break { .. } | Request::ClientGone { .. } => may_break(ctx, args.get(0))?,
        Request::PoolAdd { .. } => room(ctx)?,
        Request::Release { .. }
        | Request::Resize { .. }
        | Request::PoolRemove { .. }
        | Request::Tick => {}
    }
    let name = args.word(0);
    let mut site = Site::open(ctx, &name)?;
    let reply = site.step_by(By::Program(&binding), &request);
    let now_ms = site.now.ms;
    site.finish();
    // If one step was not enough, the server goes on by itself.
    ctx.reply_text(wire::encode(&Answered { now_ms, more: false, reply }));
    Ok(())
}

/// Connections are the server's own to name.
fn program(client: ClientId) -> Done {
    let is_ours = client.is_connection() || client.caller().is_some();
    if is_ours { Err(Problem::SYNTAX) } else { Ok(()) }
}

/// Nobody is promised more than is waited for after a restart.
fn lease(lease_ms: u64) -> Done {
    match world(|world| world.quarantine_ms) {
        Some(max_ms) if lease_ms > max_ms => Err(Problem::lease(max_ms)),
        _ => Ok(()),
    }
}

fn room(ctx: &Ctx) -> Done {
    if ctx.flags().is_out_of_memory() { Err(Problem::OUT_OF_MEMORY) } else { Ok(()) }
}

/// What a program is shown.
#[derive(Serialize)]
struct Seen {
    now_ms: u64,
    view: View,
}

fn view(ctx: &Ctx, args: Args<'_>, binding: &Binding, words: &[&[u8]]) -> Done {
    let &[waiters_max] = words else { return Err(Problem::SYNTAX) };
    let waiters_max = words::number(waiters_max).ok_or(Problem::SYNTAX)?;
    let name = args.word(0);
    let mut key = ctx.look(&name);
    let now = clock::now();
    let view = match key.holds() {
        Holds::Nothing => {
            let quarantine_ms = left_ms(binding.until_ms_at(now.ms), now.ms);
            quarantine_ms.map(|_| View { quarantine_ms, ..View::default() })
        }
        Holds::Lock => key.record().map(|record| {
            let until_ms = record.quarantine_until_ms(now, By::Program(binding));
            let mut view =
                record.lock.view(now, usize::try_from(waiters_max).unwrap_or(usize::MAX));
            view.quarantine_ms = left_ms(until_ms, now.ms);
            view
        }),
        _ => return Err(Problem::WRONG_TYPE),
    };
    let seen = view.map(|view| serde_json::to_string(&Seen { now_ms: now.ms, view }));
    match seen {
        Some(Ok(text)) => ctx.reply_text(text),
        Some(Err(error)) => return Err(Problem::say(format!("ERR {error}"))),
        None => ctx.reply_nil(),
    }
    Ok(())
}

fn apply(ctx: &Ctx, args: Args<'_>) -> Done {
    if !ctx.flags().is_repeated() {
        return Err(Problem::INTERNAL);
    }
    let unknown = Problem::new("ERR an entry of another version, or none");
    let entry = Entry::from_bytes(args.get(1)).ok_or(unknown)?;
    let name = args.word(0);
    site::repeat(ctx, &name, &entry)?;
    // Into a replica's own log.
    ctx.replicate(&name, args.get(1));
    ctx.reply_ok();
    Ok(())
}
