//! The commands: one function each, from the arguments to the reply.

mod acquire;
mod clients;
mod programs;

use std::ffi::CStr;
use std::time::Duration;

use crate::problem::Problem;
use crate::state::with_state;
use crate::sys::{Args, Ctx};

type CommandResult = Result<(), Problem>;

/// A command as it is registered with the server.
pub(crate) struct ModuleCommand {
    pub(crate) name: &'static CStr,
    pub(crate) flags: &'static CStr,
    pub(crate) categories: &'static CStr,
    /// Counts the command's name; negative for "at least".
    pub(crate) arity: i32,
    /// The index of the key; 0 if there is none.
    pub(crate) key: i32,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    run: fn(&Ctx, Args<'_>) -> CommandResult,
}

impl ModuleCommand {
    pub(crate) fn writes(&self) -> bool {
        self.flags.to_bytes().starts_with(b"write")
    }
}

/// Repeats a step. Only for replicas and the log.
pub(crate) const APPLY: &CStr = c"FENCELOCK.APPLY";

const LOG_N: &CStr = c"O(log(N)) with N waiters";

pub(crate) const COMMANDS: [ModuleCommand; 15] = [
    ModuleCommand {
        name: c"FENCELOCK.ACQUIRE",
        flags: c"write deny-oom fast blocking",
        categories: c"write fast blocking",
        arity: -3,
        key: 1,
        summary: c"Takes a lock, or waits for it: answers a secret and a fencing token",
        complexity: LOG_N,
        run: acquire::acquire,
    },
    ModuleCommand {
        name: c"FENCELOCK.RELEASE",
        flags: c"write fast",
        categories: c"write fast",
        arity: 3,
        key: 1,
        summary: c"Gives a lock back, and hands it to the first waiter",
        complexity: LOG_N,
        run: clients::release,
    },
    ModuleCommand {
        name: c"FENCELOCK.RENEW",
        flags: c"write fast",
        categories: c"write fast",
        arity: -4,
        key: 1,
        summary: c"Holds a lock for longer",
        complexity: LOG_N,
        run: clients::renew,
    },
    ModuleCommand {
        name: c"FENCELOCK.DONE",
        flags: c"write fast",
        categories: c"write fast",
        arity: -4,
        key: 1,
        summary: c"Records that the work of a once is done, and tells all who wait for it",
        complexity: LOG_N,
        run: clients::done,
    },
    ModuleCommand {
        name: c"FENCELOCK.FAIL",
        flags: c"write fast",
        categories: c"write fast",
        arity: 4,
        key: 1,
        summary: c"Ends an attempt at the work of a once that failed: the next in line tries",
        complexity: LOG_N,
        run: clients::fail,
    },
    ModuleCommand {
        name: c"FENCELOCK.UNDO",
        flags: c"write fast",
        categories: c"write fast",
        arity: 2,
        key: 1,
        summary: c"Forgets that the work of a once was done, and how often it failed",
        complexity: LOG_N,
        run: clients::undo,
    },
    ModuleCommand {
        name: c"FENCELOCK.CHECK",
        flags: c"write deny-oom fast",
        categories: c"write fast",
        arity: 3,
        key: 1,
        summary: c"Admits a fencing token, unless a newer one was admitted before",
        complexity: c"O(1)",
        run: clients::check,
    },
    ModuleCommand {
        name: c"FENCELOCK.SHOW",
        flags: c"readonly",
        categories: c"read slow",
        arity: -2,
        key: 1,
        summary: c"Shows who holds a lock and who waits for it",
        complexity: c"O(N) with N holders and waiters shown",
        run: clients::show_lock,
    },
    ModuleCommand {
        name: c"FENCELOCK.LIST",
        flags: c"readonly",
        categories: c"read slow",
        arity: -1,
        key: 0,
        summary: c"Lists locks, page by page as SCAN does",
        complexity: c"O(N) with N keys looked at",
        run: clients::list,
    },
    ModuleCommand {
        name: c"FENCELOCK.BREAK",
        flags: c"write",
        categories: c"write slow dangerous",
        arity: -2,
        key: 1,
        summary: c"Revokes a lock from its holders; needs the right to DEL the key",
        complexity: LOG_N,
        run: clients::break_,
    },
    ModuleCommand {
        name: c"FENCELOCK.POOL",
        flags: c"write",
        categories: c"write slow",
        arity: -4,
        key: 2,
        summary: c"Adds members to a pool of locks, or removes them",
        complexity: LOG_N,
        run: clients::pool,
    },
    ModuleCommand {
        name: c"FENCELOCK.HELP",
        flags: c"fast allow-loading allow-stale",
        categories: c"fast",
        arity: 1,
        key: 0,
        summary: c"Says what commands there are",
        complexity: c"O(1)",
        run: clients::help,
    },
    ModuleCommand {
        name: c"FENCELOCK.BIND",
        flags: c"fast",
        categories: c"fast",
        arity: 8,
        key: 0,
        summary: c"Registers what a program has verified of this server, for FENCELOCK.DO",
        complexity: c"O(1)",
        run: programs::bind,
    },
    ModuleCommand {
        name: c"FENCELOCK.DO",
        flags: c"write fast",
        categories: c"write fast",
        arity: -4,
        key: 1,
        summary: c"Carries out one request of a program that waits by itself, and never blocks",
        complexity: LOG_N,
        run: programs::carry_out,
    },
    ModuleCommand {
        name: APPLY,
        flags: c"write no-monitor no-slowlog",
        categories: c"write slow admin dangerous",
        arity: 3,
        key: 1,
        summary: c"Repeats a step on a replica or from the log; refused to everybody else",
        complexity: LOG_N,
        run: programs::apply,
    },
];

/// Runs a command, and sends its reply.
pub(crate) fn run(command: &ModuleCommand, ctx: &Ctx, args: Args<'_>) {
    let words = args.len() as i32 + 1;
    let fits = if command.arity < 0 { words >= -command.arity } else { words == command.arity };
    let done = if fits { (command.run)(ctx, args) } else { Err(Problem::SYNTAX) };
    if let Err(problem) = done {
        ctx.reply_error(&problem.to_string());
    }
}

/// The server ensures this, unless its replicas are writable.
fn writable() -> CommandResult {
    if with_state(|state| state.is_replica) { Err(Problem::READ_ONLY) } else { Ok(()) }
}

/// Returns the longest lease that any client is granted.
fn max_lease_ms() -> u64 {
    with_state(|state| state.max_lease_ms())
}

/// Refuses a break unless the sender may delete the key: for the holder the effect is the same.
fn may_break(ctx: &Ctx, key: &[u8]) -> CommandResult {
    if ctx.may_run(&[b"DEL", key]) { Ok(()) } else { Err(Problem::NO_BREAK) }
}

/// Refuses what needs memory if the server is out of it. A release always goes through.
fn room(ctx: &Ctx) -> CommandResult {
    if ctx.flags().is_out_of_memory() { Err(Problem::OUT_OF_MEMORY) } else { Ok(()) }
}

fn left(until_ms: u64, now_ms: u64) -> Option<Duration> {
    let left_ms = until_ms.checked_sub(now_ms).filter(|left_ms| *left_ms > 0);
    left_ms.map(Duration::from_millis)
}
