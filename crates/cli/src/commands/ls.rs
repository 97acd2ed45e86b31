//! `taketurns ls`: lists the locks with their holders.

use std::time::Duration;

use taketurns::{Locks, Name, View};

use crate::exit::ExitFailure;
use crate::json;
use crate::output::{self, Table, duration};
use crate::paint::{Ink, Paint};
use crate::watch::again;
use crate::work;

/// A lease with less left than this is about to end: a holder renews much earlier. (A new holder has a
/// waiter lease at first.)
pub(super) const ENDING: Duration = Duration::from_secs(1);

/// List the locks with their holders and the number of waiters
///
/// An unused lock stays in the list for an hour, held by nobody; a pool stays until its last member is
/// removed, and work that `once` has done until it is forgotten. [quarantine 57s] means that the lock is
/// not granted for the next 57 s: see `taketurns show`. [2 failed] counts failed attempts at work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only locks whose name matches: * matches any characters, ? matches one
    #[arg(default_value = "*")]
    pattern: String,

    /// List them again every second, or every SECS, until interrupted
    ///
    /// A store with very many locks is polled less often, so that polling takes at most a tenth of the
    /// time. With --json, each listing is one line.
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1", value_parser = again::every)]
    watch: Option<Duration>,

    /// Print a JSON document: locks, each as in `show --json`, with its first waiter
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    again::show(store, args.watch, async |locks| text(locks, &args).await).await
}

async fn text(locks: &Locks, args: &Args) -> Result<String, ExitFailure> {
    let listed = locks.list(&args.pattern).await?;
    if args.json {
        let locks = listed.iter().map(|(name, view)| json::LockJson::new(name, view)).collect();
        return output::document(&json::LockListJson { locks }, args.watch.is_some());
    }
    Ok(if listed.is_empty() { String::new() } else { table(&listed).render(Paint::stdout()) })
}

fn table(listed: &[(Name, View)]) -> Table<7> {
    let mut table = Table::new(["LOCK", "KIND", "WAITING", "HELD", "LEFT", "TOKEN", "HOLDER"]);
    for (name, view) in listed {
        let (held, left, token, holder) = match view.holders.as_slice() {
            [] => {
                let nobody = work::in_place_of_holder(view);
                (String::new(), String::new(), String::new(), nobody)
            }
            [holder, others @ ..] => {
                let more = match others.len() {
                    0 => String::new(),
                    more => format!(" and {}", output::count(more, "other")),
                };
                let broken = if holder.revoked { " [broken]" } else { "" };
                let rest = bracketed(work::rest(holder));
                let label = format!("{}{broken}{rest}{more}", holder.label);
                let token = holder.token.map_or(String::new(), |token| token.to_string());
                (duration(holder.held_for), duration(holder.left), token, label)
            }
        };
        let paused = view.quarantine_left.map(|left| format!("quarantine {}", duration(left)));
        let holder = holder + &bracketed(work::failures(view)) + &bracketed(paused);
        let waiting = view.waiting.to_string();
        let row = [name.to_string(), view.kind.to_string(), waiting, held, left, token, holder];
        let inks = table.row(row);
        inks[0] = Some(Ink::Bold);
        inks[2] = Some(if view.waiting > 0 { Ink::Warn } else { Ink::Dim });
        let is_ending = view.holders.iter().any(|holder| holder.left < ENDING);
        inks[4] = is_ending.then_some(Ink::Bad);
        inks[5] = Some(Ink::Dim);
        inks[6] = match () {
            () if view.holders.iter().any(|holder| holder.revoked) => Some(Ink::Bad),
            () if view.quarantine_left.is_some() => Some(Ink::Warn),
            () if work::failures(view).is_some() => Some(Ink::Warn),
            () if view.holders.is_empty() => Some(Ink::Dim),
            () => None,
        };
    }
    table
}

/// What is out of the ordinary, behind the holder's name.
fn bracketed(mark: Option<String>) -> String {
    mark.map_or(String::new(), |mark| format!(" [{mark}]"))
}
