//! A PostgreSQL with a synchronous standby, which takes over again and again. The store is told so, so nothing waits
//! for a quarantine: if the standby lacked a step that was answered, there would be two holders.

use taketurns_servers::others::PostgresPair;

use super::TortureStage;
use super::postgres_faults::{command_faults, connections_left, crash_faults, options};
use crate::dice::RunDice;
use crate::faults::{Fallible, Injection, StoreFault};

const PRIMARY: &str = "the primary";
const DATABASE: &str = "postgres";

/// The stage.
pub(super) struct PostgresPairStage(PostgresPair);

impl PostgresPairStage {
    pub(super) fn start() -> Fallible<Self> {
        Ok(Self(PostgresPair::start(true)?))
    }

    fn promotion(&self, kind: &'static str, out_ms: u64) -> StoreFault<'_> {
        StoreFault::new(kind, move |dice: &mut RunDice| {
            Injection::on(PRIMARY)
                .begin(|| self.0.fail_over())
                .lasting(dice.time(0, out_ms))
                .end(|| self.0.rebuild())
        })
    }

    fn standby_faults(&self) -> Vec<StoreFault<'_>> {
        vec![
            // More often than any other fault.
            self.promotion("promotion", 200),
            self.promotion("promotion, one server for a while", 3_000),
            self.promotion("promotion once more", 200),
            // Commits wait for it.
            StoreFault::new("standby stopped", move |dice| {
                Injection::on("the standby")
                    .begin(|| self.0.standby().pause())
                    .lasting(dice.time(200, 3_000))
                    .end(|| self.0.standby().resume())
            }),
            StoreFault::new("standby killed", move |dice| {
                Injection::on("the standby")
                    .begin(|| self.0.standby().kill())
                    .lasting(dice.time(200, 3_000))
                    .end(|| self.0.rebuild())
            }),
        ]
    }
}

impl TortureStage for PostgresPairStage {
    fn url(&self) -> String {
        format!("{}{}&failover=synchronous", self.0.url(), options())
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        let mut faults = self.standby_faults();
        faults.extend(crash_faults(PRIMARY, || self.0.primary()));
        faults.extend(command_faults(PRIMARY, DATABASE, || self.0.primary()));
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        connections_left(self.0.primary(), DATABASE)
    }
}
