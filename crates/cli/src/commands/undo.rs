//! `taketurns undo`: makes the store forget that work is done.

use serde::Serialize;
use taketurns::Name;

use crate::ask;
use crate::exit::ExitFailure;
use crate::output;
use crate::store;

/// Forget that work is done, so that `once` runs it again
///
/// Forgets failed attempts too, so that work that was given up after --attempts is tried again. It is no
/// error if there is nothing to forget.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The work's name
    #[arg(value_parser = ask::name)]
    name: Name,

    /// Print a JSON document: name, undone (whether there was anything to forget)
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct UndoJson<'a> {
    /// The work's name.
    name: &'a Name,
    /// There was something to forget.
    undone: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let locks = store::open(store).await?;
    let undone = locks.once(args.name.as_str()).undo().await;
    store::close(locks).await;
    let (name, undone) = (&args.name, undone?);
    match (args.json, undone) {
        (true, _) => output::json(&UndoJson { name, undone })?,
        (false, true) => output::text(format_args!("{name}: forgotten, so it can run again"))?,
        (false, false) => output::text(format_args!("{name}: not done, nothing to undo"))?,
    }
    Ok(0)
}
