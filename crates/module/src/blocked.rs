//! Replies to blocked clients, which wait for a lock.

use taketurns_core::{Completion, Member};

use crate::chores;
use crate::problem::Problem;
use crate::state::with_state;
use crate::sys::{BlockedClient, Ctx};

/// The reply to a client that waited. Has no `Debug`, because it contains a secret.
pub(crate) enum BlockedReply {
    Granted { secret: u64, token: u64, member: Option<Member> },
    DoneBefore(Box<Completion>),
    Problem(Problem),
}

/// Replies to a client that waited.
pub(crate) fn reply(ctx: &Ctx, handle: BlockedClient, outcome: Option<&BlockedReply>) {
    with_state(|state| state.answered(handle));
    match outcome {
        Some(BlockedReply::Granted { secret, token, member }) => {
            granted(ctx, *secret, *token, member.as_ref());
        }
        Some(BlockedReply::DoneBefore(done)) => done_before(ctx, done),
        Some(BlockedReply::Problem(problem)) => ctx.reply_error(&problem.to_string()),
        None => ctx.reply_nil(),
    }
}

/// Sends the reply to an acquire: secret, token, and the member if the lock is a pool.
pub(crate) fn granted(ctx: &Ctx, secret: u64, token: u64, member: Option<&Member>) {
    ctx.reply_array(2 + usize::from(member.is_some()));
    ctx.reply_int(secret);
    ctx.reply_int(token);
    if let Some(member) = member {
        ctx.reply_text(member.as_str());
    }
}

/// Sends the reply to an acquire of a once whose work is done: a text first, where a grant has a secret.
pub(crate) fn done_before(ctx: &Ctx, done: &Completion) {
    ctx.reply_array(6);
    ctx.reply_text("DONE");
    ctx.reply_int(done.token.raw());
    ctx.reply_text(done.by.to_string().as_str());
    ctx.reply_int(done.at_ms);
    ctx.reply_int(done.until_ms);
    ctx.reply_text(done.result.as_str());
}

/// Notes that a client is gone, or that somebody unblocked it. Its request is given up a moment
/// later, because the server is in the middle of something here.
pub(crate) fn left(ctx: &Ctx, handle: BlockedClient) {
    if with_state(|state| state.left(handle)) {
        // The server keeps what belongs to a wait until the module ends the wait, even if no client
        // is left to answer.
        handle.unblock(None);
    }
    chores::arm(ctx);
}
