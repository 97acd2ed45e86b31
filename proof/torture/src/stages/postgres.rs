//! One PostgreSQL, behind a proxy, with a clock that can be set, and with its tables on a disk that is soon full.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use taketurns_history::Guarantee::{G1, G5};
use taketurns_servers::others::Postgres;
use taketurns_servers::{Proxy, ServerClock};
use tempfile::TempDir;

use super::TortureStage;
use super::postgres_faults::{command_faults, connections_left, crash_faults, options};
use super::servers::FORGETS;
use crate::faults::{Fallible, Injection, StoreFault};
use crate::mounts;

const SERVER: &str = "the server";
const DATABASE: &str = "locks";

/// The database itself has 8 of these.
const DISK_MB: u32 = 48;

/// The stage.
pub(super) struct PostgresStage {
    proxy: Proxy,
    server: Postgres,
    clock: ServerClock,
    /// How far the clock is ahead.
    ahead_s: AtomicI64,
    /// What fills the disk, if that is one of our own.
    filling: Option<PathBuf>,
    _disk: TempDir,
}

impl PostgresStage {
    pub(super) fn start() -> Fallible<Self> {
        let clock = ServerClock::ahead(0)?;
        let server = Postgres::builder().quick().clock(&clock).start()?;
        let disk = tempfile::tempdir()?;
        // The server runs as another user, which has to pass through.
        fs::set_permissions(&disk, Permissions::from_mode(0o711))?;
        let tables = disk.path().join("tables");
        fs::create_dir(&tables)?;
        let filling = mounts::small_disk(&tables, DISK_MB)?.then(|| tables.join("filling"));
        let space = tables.join("space");
        fs::create_dir(&space)?;
        server.own(&space)?;
        if filling.is_some() {
            fs::set_permissions(&tables, Permissions::from_mode(0o711))?;
        }
        server
            .sql("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", space.display()))?;
        let create = format!("CREATE DATABASE {DATABASE} TEMPLATE template0 TABLESPACE small");
        server.sql("postgres", &create)?;
        let proxy = Proxy::start(server.port())?;
        Ok(Self { proxy, server, clock, ahead_s: AtomicI64::new(0), filling, _disk: disk })
    }

    fn set_clock(&self, by_s: i64) -> std::io::Result<()> {
        self.clock.set(self.ahead_s.fetch_add(by_s, Ordering::Relaxed) + by_s)
    }

    fn clock_faults(&self) -> Vec<StoreFault<'_>> {
        vec![
            // As of Redis, in `single.rs`.
            StoreFault::new("clock set back", move |_| {
                let back = Duration::from_secs(2);
                Injection::on(SERVER).begin(|| self.set_clock(-2)).lasting(back)
            }),
            // docs/limits.md: the clock of a server must not be set forward within a lease.
            StoreFault::new("clock set forward", move |_| {
                Injection::on(SERVER).begin(|| self.set_clock(3))
            })
            .excusing(&[G1, G5]),
        ]
    }
}

impl TortureStage for PostgresStage {
    fn url(&self) -> String {
        format!("postgres://postgres@{}/{DATABASE}{}", self.proxy.addr(), options())
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        // No step waits for the disk, so a crash may lose that work was recorded.
        let crashes = crash_faults(SERVER, || &self.server).into_iter();
        let mut faults: Vec<_> = crashes.map(|crash| crash.excusing(FORGETS)).collect();
        faults.extend(command_faults(SERVER, DATABASE, || &self.server));
        faults.extend(self.clock_faults());
        faults.extend(super::network::faults(SERVER, &self.proxy));
        // The log is on another disk: if that is full, the server ends.
        faults.extend(self.filling.iter().map(|filling| {
            StoreFault::new("disk full", move |dice| {
                Injection::on(SERVER)
                    .begin(move || mounts::fill(filling))
                    .lasting(dice.time(200, 4_000))
                    .end(move || fs::remove_file(filling))
            })
        }));
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        connections_left(&self.server, DATABASE)
    }
}
