//! What people see: SHOW, LIST and HELP.

use std::time::Duration;

use taketurns_core::{Label, View};

use crate::problem::Problem;
use crate::sys::{Ctx, ModuleString, Value};
use crate::words::ListWords;

const HELP: &[&str] = &[
    "FENCELOCK.<command> <key> ... A lock is fair, fenced and leased; its key is taken as given.",
    "ACQUIRE <key> <seconds> [MS] [WAIT <seconds>] [SHARED | EXCLUSIVE | PERMITS <k> <n> | ANY |",
    "        MEMBER <name>] [LABEL <text>] [BOUND] [ATLEAST <seconds>]",
    "    Takes the lock for so long: answers secret and token, and for a pool the member.",
    "    Nil if somebody has it. MS: the lease is in milliseconds. WAIT: block until it is granted,",
    "    in turn; 0 for as long as possible. BOUND: let go of it when this connection closes.",
    "    ATLEAST: nobody else gets it for so long, even if it is released or its client dies.",
    "    ONCE <seconds> [PERIOD <offset>] [ATTEMPTS <n>] [PAUSE <seconds>]: an attempt at work that",
    "    is done once, and remembered for so long, or until its period ends. If it is done: DONE,",
    "    token, by whom, when, until when, and the result.",
    "DONE <key> <secret> <token> [RESULT <text>]",
    "    Ends an attempt: the work is done. Answers as RELEASE does.",
    "FAIL <key> <secret> <token>",
    "    Ends an attempt that failed: the next in line tries. Answers as RELEASE does.",
    "UNDO <key>",
    "    Forgets that work was done, and how often it failed: 1, or 0 if there was nothing.",
    "RELEASE <key> <secret>",
    "    OK; nil if the secret is not that of a holder; an error if nobody holds the lock.",
    "RENEW <key> <secret> <seconds> [MS]",
    "    Holds it for so long from now, never shorter than before. Answers as RELEASE does.",
    "CHECK <key> <token>",
    "    For the resource that the lock guards: OK, or STALE if a newer token was admitted before.",
    "SHOW <key> [COUNT <waiters>]",
    "    Who holds it and who waits, in order.",
    "LIST [<cursor>] [MATCH <pattern>] [COUNT <keys>]",
    "    The locks of this database, page by page as SCAN does: key, kind, holders, waiters, token.",
    "BREAK <key> [TOKEN <token>] [NOW]",
    "    Revokes it: no renewal, and it passes on at its deadline, or at once. Needs the right to DEL.",
    "POOL ADD|REM <key> <member> [<member> ...]",
    "    Adds members to a pool or removes them; a held one goes at its release.",
];

pub(crate) fn help(ctx: &Ctx) {
    ctx.reply_array(HELP.len());
    HELP.iter().for_each(|line| ctx.reply_text(line));
}

/// Writes a name and its value.
fn text(ctx: &Ctx, name: &str, value: &str) {
    ctx.reply_text(name);
    ctx.reply_text(value);
}

fn number(ctx: &Ctx, name: &str, value: u64) {
    ctx.reply_text(name);
    ctx.reply_int(value);
}

fn millis(ctx: &Ctx, name: &str, value: Duration) {
    number(ctx, name, u64::try_from(value.as_millis()).unwrap_or(u64::MAX));
}

fn label(ctx: &Ctx, label: &Label) {
    text(ctx, "label", &label.to_string());
}

pub(crate) fn lock(ctx: &Ctx, view: &View, admitted: u64) {
    ctx.reply_map(9);
    text(ctx, "kind", &view.kind.to_string());
    number(ctx, "token", view.last_token.map_or(0, |token| token.raw()));
    number(ctx, "admitted", admitted);
    millis(ctx, "quarantine_ms", view.quarantine_left.unwrap_or_default());
    ctx.reply_text("holders");
    ctx.reply_array(view.holders.len());
    for holder in &view.holders {
        ctx.reply_map(7);
        label(ctx, &holder.label);
        number(ctx, "token", holder.token.map_or(0, |token| token.raw()));
        text(ctx, "asked", &holder.ask.to_string());
        text(ctx, "member", holder.member.as_ref().map_or("", |member| member.as_str()));
        millis(ctx, "held_ms", holder.held_for);
        millis(ctx, "left_ms", holder.left);
        let state = match (holder.resting, holder.revoked) {
            (true, _) => "resting",
            (false, true) => "revoked",
            (false, false) => "held",
        };
        text(ctx, "state", state);
    }
    number(ctx, "waiting", view.waiting as u64);
    ctx.reply_text("waiters");
    ctx.reply_array(view.waiters.len());
    for waiter in &view.waiters {
        ctx.reply_map(3);
        label(ctx, &waiter.label);
        text(ctx, "asks", &waiter.ask.to_string());
        millis(ctx, "waited_ms", waiter.waited_for);
    }
    ctx.reply_text("members");
    ctx.reply_array(view.members.len());
    for member in &view.members {
        ctx.reply_map(2);
        text(ctx, "name", member.name.as_str());
        let state = match (member.held, member.leaving) {
            (_, true) => "leaving",
            (true, false) => "held",
            (false, false) => "free",
        };
        text(ctx, "state", state);
    }
    ctx.reply_text("work");
    match &view.work {
        None => ctx.reply_array(0),
        Some(work) => {
            ctx.reply_array(2);
            ctx.reply_int(work.failed.into());
            match &work.done {
                None => ctx.reply_array(0),
                Some(done) => crate::blocked::done_before(ctx, done),
            }
        }
    }
}

/// Writes one page of locks and the next cursor. Leaves out keys that the sender may not read.
pub(crate) fn list(ctx: &Ctx, words: &ListWords<'_>) -> Result<(), Problem> {
    let (cursor, count) = (words.cursor.to_string(), words.count.to_string());
    let mut scan: Vec<&[u8]> = vec![cursor.as_bytes(), b"COUNT", count.as_bytes()];
    scan.extend([&b"TYPE"[..], b"fencelock"]);
    if let Some(pattern) = words.pattern {
        scan.extend([&b"MATCH"[..], pattern]);
    }
    let Value::Array(page) = ctx.run(c"SCAN", &scan) else { return Err(Problem::SYNTAX) };
    let [Value::Text(next), Value::Array(keys)] = &page[..] else { return Err(Problem::SYNTAX) };
    let mut locks = Vec::new();
    for key in keys {
        let Value::Text(key) = key else { continue };
        let name = ModuleString::new(key);
        if ctx.may_read(&name)
            && let Some(record) = ctx.look(&name).record()
        {
            let view = record.lock.view(crate::clock::now(), 0);
            locks.push((key, view));
        }
    }
    ctx.reply_array(2);
    ctx.reply_text(next);
    ctx.reply_array(locks.len());
    for (key, view) in locks {
        ctx.reply_map(5);
        ctx.reply_text("key");
        ctx.reply_text(key);
        text(ctx, "kind", &view.kind.to_string());
        number(ctx, "holders", view.holders.len() as u64);
        number(ctx, "waiting", view.waiting as u64);
        number(ctx, "token", view.last_token.map_or(0, |token| token.raw()));
    }
    Ok(())
}
