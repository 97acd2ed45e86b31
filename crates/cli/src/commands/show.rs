//! `taketurns show`: shows one lock with its holders and waiters.

use std::time::Duration;

use taketurns::{Kind, Locks, Name, View};

use super::ls;
use crate::ask;
use crate::exit::ExitFailure;
use crate::json;
use crate::output::{self, Table, duration};
use crate::paint::{Ink, Paint};
use crate::text;
use crate::watch::again;
use crate::work;

/// Show one lock: its holders, and its waiters in order
///
/// A lock that nobody has used for an hour is deleted and shown as unused; it is free. After a restart or
/// failover of its server, which may have lost a holder, a lock is in quarantine: it is not granted until
/// every lease that may have been lost has ended.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
The JSON document has: name, kind (mutex, rwlock, semaphore, pool, once), permits, state (held, idle, \
done, unused), quarantine_ms (how long until the lock is granted again, else null), last_token, waiting; \
holders, each with who, why, client, mode, permits, token, member, held_ms, left_ms, broken, at_least_ms, resting; waiters \
(the first 500), each with place, who, why, client, mode, permits, member, waited_ms; members, each \
with name, held, stale, leaving; work (null unless `once` has something to remember) with failed, retry_ms, \
forgotten_ms, done (null or who, why, token, at_ms, until_ms, failed, result).")]
pub(crate) struct Args {
    /// The lock's name
    #[arg(value_parser = ask::name)]
    lock: Name,

    /// Show it again every second, or every SECS, until interrupted
    ///
    /// With --json, each output is one line.
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1", value_parser = again::every)]
    watch: Option<Duration>,

    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    again::show(store, args.watch, async |locks| text(locks, &args).await).await
}

async fn text(locks: &Locks, args: &Args) -> Result<String, ExitFailure> {
    let view = locks.inspect(args.lock.as_str()).await?;
    let on_a_line = args.watch.is_some();
    match view {
        Some(view) if args.json => {
            output::document(&json::LockJson::new(&args.lock, &view), on_a_line)
        }
        None if args.json => output::document(&json::LockJson::unused(&args.lock), on_a_line),
        Some(view) => Ok(describe(&args.lock, &view, Paint::stdout())),
        None => Ok(format!("{}: unused", args.lock)),
    }
}

fn describe(name: &Name, view: &View, paint: Paint) -> String {
    let token = view.last_token.map_or("none".to_owned(), |token| token.to_string());
    let title = paint.ink(Ink::Bold, &text::escaped(name.as_str()));
    let mut text = match view.is_blank() {
        true => format!("{title}: unused"),
        false => format!("{title}: {}, {}, last token {token}", view.kind, json::state(view)),
    };
    if let Some(left) = view.quarantine_left {
        let left = paint.ink(Ink::Warn, &format!("in quarantine for {}", duration(left)));
        text.push_str(&format!(
            ", {left} (store restarted or failed over; not granted until then)"
        ));
    }
    let work = view.work.as_ref().map(|work| text::escaped(&work::state(work)));
    let parts = [work, holders(view, paint), members(view), waiters(view, paint)];
    for part in parts.into_iter().flatten() {
        text.push_str("\n\n");
        text.push_str(&part);
    }
    text
}

fn holders(view: &View, paint: Paint) -> Option<String> {
    let mut table = Table::new(["HAS", "TOKEN", "HELD", "LEFT", "HOLDER"]);
    for holder in &view.holders {
        let token = holder.token.map_or("none".to_owned(), |token| token.to_string());
        let has = holder.member.as_ref().map_or_else(|| holder.ask.to_string(), |m| m.to_string());
        let broken = if holder.revoked { " [broken]" } else { "" };
        let rest = work::rest(holder).map_or(String::new(), |rest| format!(" [{rest}]"));
        let (held, left) = (duration(holder.held_for), duration(holder.left));
        let inks = table.row([has, token, held, left, format!("{}{broken}{rest}", holder.label)]);
        inks[3] = (holder.left < ls::ENDING).then_some(Ink::Bad);
        inks[4] = holder.revoked.then_some(Ink::Bad);
    }
    (!view.holders.is_empty()).then(|| table.render(paint))
}

fn members(view: &View) -> Option<String> {
    if view.kind != Kind::Pool {
        return None;
    }
    if view.members.is_empty() {
        return Some("no members; add some with `taketurns pool add`".to_owned());
    }
    let mut free = view.members.iter().filter(|member| !member.held).peekable();
    if free.peek().is_none() {
        return Some(format!("{}, none free", output::count(view.members.len(), "member")));
    }
    let free: Vec<&str> = free.map(|member| member.name.as_str()).collect();
    Some(format!("free: {}", free.join(", ")))
}

fn waiters(view: &View, paint: Paint) -> Option<String> {
    let mut table = Table::new(["PLACE", "WANTS", "WAITED", "WAITER"]);
    for (ahead, waiter) in view.waiters.iter().enumerate() {
        let (place, waited) = ((ahead + 1).to_string(), duration(waiter.waited_for));
        table.row([place, waiter.ask.to_string(), waited, waiter.label.to_string()]);
    }
    let more = match view.waiting - view.waiters.len() {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    (!view.waiters.is_empty()).then(|| format!("{}{more}", table.render(paint)))
}

#[cfg(test)]
mod tests {
    use taketurns::{Ask, ClientId, HolderView, Label, Member, MemberView, Token, WaiterView};

    use super::*;

    const PLAIN: Paint = Paint { on: false };

    #[test]
    fn a_pool_is_shown_with_holders_free_members_and_the_queue() {
        let client = ClientId::from_bits(1);
        let member = |name| Member::new(name).unwrap();
        let nightly = Label::new("web1:7 rsync", "nightly").unwrap();
        let mut holder = HolderView::new(nightly, client, Ask::Any);
        holder.token = Some(Token::from_raw(42));
        holder.member = Some(member("b-1"));
        holder.held_for = Duration::from_secs(12);
        holder.left = Duration::from_secs(28);
        holder.revoked = true;
        let label = Label::new("web2:8 sh", "").unwrap();
        let ask = Ask::Member(member("b-1"));
        let waiter = WaiterView::new(label, client, ask, Duration::from_secs(3));
        let mut held = MemberView::new(member("b-1"));
        held.held = true;
        let mut view = View::default();
        view.kind = Kind::Pool;
        view.last_token = Some(Token::from_raw(42));
        view.holders = vec![holder];
        view.waiting = 501;
        view.waiters = vec![waiter];
        view.members = vec![held, MemberView::new(member("b-2"))];
        let expected = "\
browsers: pool, held, last token 42

HAS  TOKEN  HELD  LEFT  HOLDER
b-1  42     12s   28s   web1:7 rsync (nightly) [broken]

free: b-2

PLACE  WANTS       WAITED  WAITER
1      member b-1  3s      web2:8 sh
and 500 more";
        assert_eq!(describe(&Name::new("browsers").unwrap(), &view, PLAIN), expected);
    }

    #[test]
    fn a_quarantine_is_shown_with_its_cause_even_of_an_unused_lock() {
        let mut view = View::default();
        view.quarantine_left = Some(Duration::from_millis(57_400));
        let name = Name::new("orders").unwrap();
        assert_eq!(
            describe(&name, &view, PLAIN),
            "orders: unused, in quarantine for 57s (store restarted or failed over; not granted until \
             then)"
        );
        view.last_token = Some(Token::from_raw(42));
        assert_eq!(
            describe(&name, &view, PLAIN),
            "orders: mutex, idle, last token 42, in quarantine for 57s (store restarted or failed \
             over; not granted until then)"
        );
    }
}
