//! `taketurns ls`: which locks there are, and who has them.

use taketurns::{Name, View};

use super::PROGRAM;
use crate::exit::Failure;
use crate::json;
use crate::output::{self, Table, millis};
use crate::store;

/// List the locks, with who holds each and how many wait
///
/// A lock that nobody uses is listed as idle for an hour, and a pool until its last member is
/// removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only locks whose name matches: * stands for any characters, ? for one
    #[arg(default_value = "*")]
    pattern: String,

    /// Print a JSON document: locks, each as `show --json` has it, with its first waiter
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, Failure> {
    let locks = store::open(store, PROGRAM).await?;
    let listed = locks.list(&args.pattern).await;
    store::close(locks).await;
    let listed = listed?;
    if args.json {
        let locks = listed.iter().map(|(name, view)| json::Lock::new(name, view)).collect();
        output::json(&json::Locks { locks })?;
    } else if !listed.is_empty() {
        output::text(table(&listed))?;
    }
    Ok(0)
}

fn table(listed: &[(Name, View)]) -> Table<6> {
    let mut table = Table::new(["LOCK", "KIND", "WAITING", "HELD", "LEFT", "BY"]);
    for (name, view) in listed {
        let (held, left, by) = match view.holders.as_slice() {
            [] => (String::new(), String::new(), json::state(view).to_owned()),
            [holder, others @ ..] => {
                let more = match others.len() {
                    0 => String::new(),
                    more => format!(" and {}", output::count(more, "other")),
                };
                let by = format!("{}{more}", holder.label);
                (millis(holder.held_ms), millis(holder.left_ms), by)
            }
        };
        let waiting = view.waiting.to_string();
        table.row([name.to_string(), view.kind.to_string(), waiting, held, left, by]);
    }
    table
}
