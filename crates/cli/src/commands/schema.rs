//! `taketurns schema`: prints the tables of a store, for a user who may make them.

use taketurns::engine;

use crate::exit::ExitFailure;
use crate::output;

/// Print the SQL that makes the tables of a store
///
/// The first client that connects makes the tables itself if its user may. If it may not, make them once
/// as a user who may:
///
///   taketurns schema postgres | psql --single-transaction DATABASE
///
/// docs/postgres.md says which rights the users of the locks need then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print only what changes tables of this version, which `taketurns doctor` shows
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide_default_value = true)]
    from: u32,

    /// Kind of store
    kind: StoreKind,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StoreKind {
    Postgres,
}

pub(crate) fn run(args: Args) -> Result<u8, ExitFailure> {
    match args.kind {
        StoreKind::Postgres => output::text(engine::postgres_schema(args.from).trim_end())?,
    }
    Ok(0)
}
