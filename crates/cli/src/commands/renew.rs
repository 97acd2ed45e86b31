//! `taketurns renew`: renews the lease of a lock that `acquire` acquired.

use std::time::Duration;

use serde::Serialize;
use taketurns::{Name, Token};

use super::handle;
use crate::ask;
use crate::exit::{self, ExitFailure};
use crate::output;
use crate::store;

/// Renew the lease of an acquired lock
///
/// Reads the handle from TAKETURNS_HANDLE, or from stdin. Exits with 76 if the lock is no longer held:
/// then stop the work that it protects.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub(crate) struct Args {
    /// New lease, from now; default: the lease it was acquired with. A renewal never shortens a lease
    #[arg(long, value_name = "SECS", value_parser = ask::lease, allow_negative_numbers = true)]
    lease: Option<Duration>,

    /// Print a JSON document: lock, token, valid_for_ms
    #[arg(long)]
    json: bool,
}

/// What `renew --json` prints.
#[derive(Serialize)]
struct RenewJson<'a> {
    /// The lock's name.
    lock: &'a Name,
    /// The fencing token; null only from a store that has none.
    token: Option<Token>,
    /// How long the lock is held from now without a further renewal.
    valid_for_ms: u64,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let handle = handle()?;
    let locks = store::open(store).await?;
    let renewed = locks.renew(&handle, args.lease).await;
    store::close(locks).await;
    let valid_for = renewed?;
    let lock = handle.name();
    if args.json {
        let valid_for_ms = output::whole_millis(valid_for);
        output::json(&RenewJson { lock, token: handle.token().fenced(), valid_for_ms })?;
    } else {
        output::text(format_args!("lock {lock} is held for {} more", output::duration(valid_for)))?;
    }
    Ok(0)
}
