//! `taketurns pool`: adds, removes and lists the members of a pool.

use clap::Subcommand;
use serde::Serialize;
use taketurns::{Kind, Member, Name, View};

use crate::ask;
use crate::exit::ExitFailure;
use crate::json;
use crate::output::{self, Table};
use crate::store;

/// Add, remove and list the members of a pool
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: PoolCommand,
}

#[derive(Debug, Subcommand)]
enum PoolCommand {
    /// Add members; existing ones are left as they are
    Add(MemberArgs),
    /// Remove members; a held one is removed when it is released
    Rm(MemberArgs),
    /// List the members with their holders
    Ls {
        /// The pool's name
        #[arg(value_parser = ask::name)]
        pool: Name,

        /// Print a JSON document, the same as `show --json`
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct MemberArgs {
    /// The pool's name
    #[arg(value_parser = ask::name)]
    pool: Name,

    /// The members' names
    #[arg(required = true, value_name = "MEMBER", value_parser = ask::member)]
    members: Vec<Member>,

    /// Print a JSON document: pool; members, each with name and changed
    #[arg(long)]
    json: bool,
}

/// What `pool add --json` and `pool rm --json` print.
#[derive(Serialize)]
struct PoolChangeJson<'a> {
    /// The pool's name.
    pool: &'a Name,
    /// In the order of the command line.
    members: Vec<MemberChangeJson<'a>>,
}

#[derive(Serialize)]
struct MemberChangeJson<'a> {
    /// The member's name.
    name: &'a Member,
    /// False if the member was already there, or already gone.
    changed: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    match args.action {
        PoolCommand::Add(change) => edit(store, &change, true).await,
        PoolCommand::Rm(change) => edit(store, &change, false).await,
        PoolCommand::Ls { pool, json } => list(store, &pool, json).await,
    }
}

async fn edit(store: Option<&str>, change: &MemberArgs, add: bool) -> Result<u8, ExitFailure> {
    let locks = store::open(store).await?;
    let pool = locks.pool(change.pool.as_str());
    let mut members = Vec::new();
    let mut failed = None;
    for name in &change.members {
        let changed =
            if add { pool.add(name.as_str()).await } else { pool.remove(name.as_str()).await };
        match changed {
            Ok(changed) => members.push(MemberChangeJson { name, changed }),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(pool);
    store::close(locks).await;
    // Even after an error, the user sees which members were changed.
    if change.json {
        output::json(&PoolChangeJson { pool: &change.pool, members })?;
    } else {
        for MemberChangeJson { name, changed } in members {
            output::text(match (add, changed) {
                (true, true) => format!("{name} added"),
                (true, false) => format!("{name} was there already"),
                (false, true) => format!("{name} removed"),
                (false, false) => format!("{name} was not there"),
            })?;
        }
    }
    failed.map_or(Ok(0), |error| Err(error.into()))
}

async fn list(store: Option<&str>, pool: &Name, json: bool) -> Result<u8, ExitFailure> {
    let locks = store::open(store).await?;
    let view = locks.inspect(pool.as_str()).await;
    store::close(locks).await;
    match view? {
        Some(view) if view.kind != Kind::Pool && !view.is_blank() => {
            let kind = view.kind;
            return Err(ExitFailure::usage(format_args!(
                "lock {pool} is a {kind}, not a pool; `taketurns show` shows it"
            )));
        }
        Some(view) if json => output::json(&json::LockJson::new(pool, &view))?,
        None if json => output::json(&json::LockJson::unused(pool))?,
        Some(view) if !view.members.is_empty() => output::text(table(&view))?,
        _ => output::text(format_args!("{pool} has no members"))?,
    }
    Ok(0)
}

fn table(view: &View) -> Table<3> {
    let mut table = Table::new(["MEMBER", "STATE", "HOLDER"]);
    for member in &view.members {
        let state = match (member.held, member.leaving, member.stale) {
            (true, true, _) => "held, leaving",
            (true, false, _) => "held",
            (false, _, true) => "free, stale",
            (false, _, false) => "free",
        };
        let mut holders = view.holders.iter();
        let holder = holders.find(|holder| holder.member.as_ref() == Some(&member.name));
        let holder = holder.map_or(String::new(), |holder| holder.label.to_string());
        table.row([member.name.to_string(), state.to_owned(), holder]);
    }
    table
}

#[cfg(test)]
mod tests {
    use taketurns::MemberView;

    use super::*;

    #[test]
    fn each_member_is_shown_with_its_state() {
        let member = |name, held, leaving, stale| {
            let mut member = MemberView::new(Member::new(name).unwrap());
            (member.held, member.leaving, member.stale) = (held, leaving, stale);
            member
        };
        let members = vec![
            member("a", true, false, false),
            member("b", true, true, false),
            member("c", false, false, false),
            member("d", false, false, true),
        ];
        let mut view = View::default();
        (view.kind, view.members) = (Kind::Pool, members);
        let shown = table(&view).to_string();
        let states: Vec<&str> = shown.lines().skip(1).map(|line| line[6..].trim()).collect();
        assert_eq!(states, ["held", "held, leaving", "free", "free, stale"], "{shown}");
    }
}
