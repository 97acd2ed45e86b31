//! A file on this machine. There is no server to lose: what can go wrong is the clients themselves, what
//! they wake each other by, and others who use the database.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};
use taketurns_servers::ServerClock;

use super::TortureStage;
use crate::dice::RunDice;
use crate::faults::{Fallible, Injection, StepResult, StoreFault};
use crate::mounts;
use crate::plan::CLIENTS;

const FILE: &str = "the file";

/// The stage.
pub(super) struct FileStage {
    path: PathBuf,
    /// What fills the disk, if that is one of our own.
    filling: Option<PathBuf>,
    /// The wall clock of each client.
    clocks: Vec<ServerClock>,
}

impl FileStage {
    pub(super) fn start(folder: &Path) -> Fallible<Self> {
        let clocks = (0..CLIENTS).map(|_| ServerClock::ahead(0)).collect::<Result<_, _>>()?;
        let folder = folder.canonicalize()?.join("store");
        fs::create_dir(&folder)?;
        let filling = mounts::small_disk(&folder, 16)?.then(|| folder.join("filling"));
        Ok(Self { path: folder.join("locks.db"), filling, clocks })
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(format!("{}-wake", self.path.display()));
        folder.map_or(Vec::new(), |folder| folder.flatten().map(|entry| entry.path()).collect())
    }

    fn remove_sockets(&self) -> StepResult {
        for socket in self.sockets() {
            // Its client may end meanwhile, and remove it itself.
            let _ = fs::remove_file(socket);
        }
        Ok(())
    }

    /// Another program that uses the database for a while, such as a backup or a shell.
    fn foreign_transaction(
        &self,
        dice: &mut RunDice,
        longest_ms: u64,
        behavior: TransactionBehavior,
    ) -> Injection<'_> {
        let time = dice.time(100, longest_ms);
        Injection::on(FILE).begin(move || {
            let mut database = Connection::open(&self.path)?;
            database.busy_timeout(std::time::Duration::from_secs(10))?;
            let transaction = database.transaction_with_behavior(behavior)?;
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            std::thread::sleep(time);
            transaction.rollback()
        })
    }
}

impl TortureStage for FileStage {
    fn url(&self) -> String {
        format!("file:{}", self.path.display())
    }

    fn stopped_client_blocks(&self) -> bool {
        true
    }

    fn env(&self, slot: usize) -> Vec<(&'static str, String)> {
        self.clocks[slot].env().to_vec()
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        let disk_full = self.filling.iter().map(|filling| {
            StoreFault::new("disk full", move |dice| {
                Injection::on(FILE)
                    .begin(move || mounts::fill(filling))
                    .lasting(dice.time(200, 4_000))
                    .end(move || fs::remove_file(filling))
            })
        });
        let mut faults = vec![
            // What has none is found by its refreshes alone, until another client is in its place.
            StoreFault::new("sockets removed", move |_| {
                Injection::on(FILE).begin(|| self.remove_sockets())
            }),
            StoreFault::new("a reader stays", move |dice| {
                self.foreign_transaction(dice, 4_000, TransactionBehavior::Deferred)
            }),
            StoreFault::new("a writer stays", move |dice| {
                self.foreign_transaction(dice, 2_500, TransactionBehavior::Immediate)
            }),
            // Leases are on another clock, and tokens never go back.
            StoreFault::new("wall clock set", move |dice| {
                let slot = dice.some(1, CLIENTS)[0];
                let hours = dice.between(0, 4) as i64 - 2;
                Injection::on(format!("slot {slot}"))
                    .begin(move || self.clocks[slot].set(hours * 3_600))
            }),
        ];
        faults.extend(disk_full);
        faults
    }

    /// Who was killed leaves its socket, until somebody who comes later removes it.
    fn left(&self, killed: usize) -> Vec<String> {
        let sockets = self.sockets().len();
        let left = format!("{sockets} sockets, and only {killed} clients were killed");
        if sockets > killed { vec![left] } else { Vec::new() }
    }
}
