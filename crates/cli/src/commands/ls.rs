//! `taketurns ls`: which locks there are, and who has them.

use taketurns::{Name, View};

use crate::exit::Failure;
use crate::json;
use crate::output::{self, Table, millis};
use crate::store;

/// List the locks, with who holds each and how many wait
///
/// A lock that nobody uses is listed for an hour, held by nobody, and a pool until its last member
/// is removed. [quarantine 57s] means that nothing is granted for so long: see `taketurns show`.
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
    let locks = store::open(store).await?;
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
    let mut table = Table::new(["LOCK", "KIND", "WAITING", "HELD", "LEFT", "HOLDER"]);
    for (name, view) in listed {
        let (held, left, holder) = match view.holders.as_slice() {
            [] => (String::new(), String::new(), "nobody".to_owned()),
            [holder, others @ ..] => {
                let more = match others.len() {
                    0 => String::new(),
                    more => format!(" and {}", output::count(more, "other")),
                };
                let label = format!("{}{more}", holder.label);
                (millis(holder.held_ms), millis(holder.left_ms), label)
            }
        };
        let paused = view.quarantine_ms.map(|left_ms| format!(" [quarantine {}]", millis(left_ms)));
        let holder = holder + &paused.unwrap_or_default();
        let waiting = view.waiting.to_string();
        table.row([name.to_string(), view.kind.to_string(), waiting, held, left, holder]);
    }
    table
}
