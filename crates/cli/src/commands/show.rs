//! `taketurns show`: one lock with everybody who has it or waits for it.

use taketurns::{Kind, Name, View};

use crate::ask;
use crate::exit::Failure;
use crate::json;
use crate::output::{self, Table, millis};
use crate::store;

/// Show one lock: who holds it, and who waits for it in which order
///
/// A lock that nobody has used for an hour is forgotten, and shown as unused: it is free. A lock is in
/// quarantine after its Redis was restarted or failed over, and may have forgotten a holder: nothing
/// is granted until every lease is over that there may have been.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
The JSON document has: name, kind (mutex, rwlock, semaphore, pool), permits, state (held, idle, \
unused), quarantine_ms (for how long nothing is granted, else null), last_token, waiting; holders, \
each with who, why, client, mode, permits, token, member, held_ms, left_ms, broken; waiters, each \
with place, who, why, client, mode, permits, member, waited_ms (the first 500); members, each with \
name, held, leaving.")]
pub(crate) struct Args {
    /// The lock's name
    #[arg(value_parser = ask::name)]
    lock: Name,

    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, Failure> {
    let locks = store::open(store).await?;
    let view = locks.inspect(args.lock.as_str()).await;
    store::close(locks).await;
    match view? {
        Some(view) if args.json => output::json(&json::Lock::new(&args.lock, &view))?,
        None if args.json => output::json(&json::Lock::unused(&args.lock))?,
        Some(view) => output::text(describe(&args.lock, &view))?,
        None => output::text(format_args!("{}: unused", args.lock))?,
    }
    Ok(0)
}

fn describe(name: &Name, view: &View) -> String {
    let token = view.last_token.map_or("none".to_owned(), |token| token.to_string());
    let mut text = match view.is_blank() {
        true => format!("{name}: unused"),
        false => format!("{name}: {}, {}, last token {token}", view.kind, json::state(view)),
    };
    if let Some(left_ms) = view.quarantine_ms {
        let left = millis(left_ms);
        text.push_str(&format!(
            ", in quarantine for {left} (its store was restarted or failed over; nothing is granted \
             until then)"
        ));
    }
    for part in [holders(view), members(view), waiters(view)].into_iter().flatten() {
        text.push_str("\n\n");
        text.push_str(&part);
    }
    text
}

fn holders(view: &View) -> Option<String> {
    let mut table = Table::new(["HAS", "TOKEN", "HELD", "LEFT", "HOLDER"]);
    for holder in &view.holders {
        let token = holder.token.map_or("none".to_owned(), |token| token.to_string());
        let has = holder.member.as_ref().map_or_else(|| holder.ask.to_string(), |m| m.to_string());
        let broken = if holder.revoked { " [broken]" } else { "" };
        let (held, left) = (millis(holder.held_ms), millis(holder.left_ms));
        table.row([has, token, held, left, format!("{}{broken}", holder.label)]);
    }
    (!view.holders.is_empty()).then(|| table.to_string())
}

fn members(view: &View) -> Option<String> {
    if view.kind != Kind::Pool {
        return None;
    }
    if view.members.is_empty() {
        return Some("no members; `taketurns pool add` adds some".to_owned());
    }
    let mut free = view.members.iter().filter(|member| !member.held).peekable();
    if free.peek().is_none() {
        return Some(format!("{}, none free", output::count(view.members.len(), "member")));
    }
    let free: Vec<&str> = free.map(|member| member.name.as_str()).collect();
    Some(format!("free: {}", free.join(", ")))
}

fn waiters(view: &View) -> Option<String> {
    let mut table = Table::new(["PLACE", "WANTS", "WAITED", "WAITER"]);
    for (ahead, waiter) in view.waiters.iter().enumerate() {
        let (place, waited) = ((ahead + 1).to_string(), millis(waiter.waited_ms));
        table.row([place, waiter.ask.to_string(), waited, waiter.label.to_string()]);
    }
    let more = match view.waiting - view.waiters.len() {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    (!view.waiters.is_empty()).then(|| format!("{table}{more}"))
}

#[cfg(test)]
mod tests {
    use taketurns::{Ask, ClientId, HolderView, Label, Member, MemberView, Token, WaiterView};

    use super::*;

    #[test]
    fn a_pool_is_shown_with_holders_free_members_and_the_queue() {
        let client = ClientId::from_bits(1);
        let member = |name| Member::new(name).unwrap();
        let view = View {
            quarantine_ms: None,
            kind: Kind::Pool,
            last_token: Some(Token::from_raw(42)),
            holders: vec![HolderView {
                label: Label::new("web1:7 rsync", "nightly").unwrap(),
                client,
                token: Some(Token::from_raw(42)),
                ask: Ask::Any,
                member: Some(member("b-1")),
                held_ms: 12_000,
                left_ms: 28_000,
                revoked: true,
            }],
            waiting: 501,
            waiters: vec![WaiterView {
                label: Label::new("web2:8 sh", "").unwrap(),
                client,
                ask: Ask::Member(member("b-1")),
                waited_ms: 3_000,
            }],
            members: vec![
                MemberView { name: member("b-1"), held: true, leaving: false, stale: false },
                MemberView { name: member("b-2"), held: false, leaving: false, stale: false },
            ],
        };
        let expected = "\
browsers: pool, held, last token 42

HAS  TOKEN  HELD  LEFT  HOLDER
b-1  42     12s   28s   web1:7 rsync (nightly) [broken]

free: b-2

PLACE  WANTS       WAITED  WAITER
1      member b-1  3s      web2:8 sh
and 500 more";
        assert_eq!(describe(&Name::new("browsers").unwrap(), &view), expected);
    }

    #[test]
    fn a_quarantine_is_shown_with_its_cause_also_of_a_lock_that_is_not_known() {
        let mut view = View {
            quarantine_ms: Some(57_400),
            kind: Kind::Mutex,
            last_token: None,
            holders: vec![],
            waiting: 0,
            waiters: vec![],
            members: vec![],
        };
        let name = Name::new("orders").unwrap();
        assert_eq!(
            describe(&name, &view),
            "orders: unused, in quarantine for 57s (its store was restarted or failed over; nothing \
             is granted until then)"
        );
        view.last_token = Some(Token::from_raw(42));
        assert_eq!(
            describe(&name, &view),
            "orders: mutex, idle, last token 42, in quarantine for 57s (its store was restarted or \
             failed over; nothing is granted until then)"
        );
    }
}
