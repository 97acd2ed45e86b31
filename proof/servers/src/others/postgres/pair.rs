//! A primary and its standby, which change places again and again.
//!
//! ```text
//!   servers[0] (primary) ──log──▶ servers[1] (standby)
//!      fail_over: kill -9            promote
//!      copied anew from [1]  ◀──log──┘
//! ```

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Postgres, PostgresBuilder};
use crate::others::said;
use crate::{SetupError, eventually};

/// Two servers, one of them the primary. Dropping it ends both.
#[derive(Debug)]
pub struct PostgresPair {
    servers: [Postgres; 2],
    primary: AtomicUsize,
    synchronous: bool,
}

impl PostgresPair {
    /// Starts a primary, and a standby that follows it. Synchronous means that a commit waits until the standby has
    /// it.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if PostgreSQL is not installed.
    pub fn start(synchronous: bool) -> Result<Self, SetupError> {
        Self::start_as(Postgres::builder().quick(), synchronous)
    }

    /// The same, with these options for both servers.
    ///
    /// # Errors
    ///
    /// As of [`Self::start`].
    pub fn start_as(builder: PostgresBuilder, synchronous: bool) -> Result<Self, SetupError> {
        let servers = [builder.clone().start()?, builder.prepare()?];
        let pair = Self { servers, primary: AtomicUsize::new(0), synchronous };
        pair.rebuild()?;
        Ok(pair)
    }

    /// Who takes writes now.
    pub fn primary(&self) -> &Postgres {
        &self.servers[self.primary.load(Ordering::SeqCst)]
    }

    /// Who follows.
    pub fn standby(&self) -> &Postgres {
        &self.servers[1 - self.primary.load(Ordering::SeqCst)]
    }

    /// Both servers, in an order that never changes.
    pub fn servers(&self) -> &[Postgres; 2] {
        &self.servers
    }

    /// A URL with the addresses of both.
    pub fn url(&self) -> String {
        let [first, second] = [0, 1].map(|index: usize| self.servers[index].port());
        format!("postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres")
    }

    /// Kills the primary and promotes the standby. From then on there is one server: [`Self::rebuild`] makes the
    /// other one follow.
    ///
    /// # Errors
    ///
    /// If the standby can't become the primary.
    pub fn fail_over(&self) -> Result<(), SetupError> {
        self.primary().kill();
        self.promote()
    }

    /// Promotes the standby, whatever the primary does: if it runs there are two.
    ///
    /// # Errors
    ///
    /// If the standby can't become the primary.
    pub fn promote(&self) -> Result<(), SetupError> {
        let standby = self.standby();
        // It would wait for a standby of its own.
        standby.set("synchronous_standby_names", "''")?;
        standby.sql("postgres", "SELECT pg_promote(true, 60)")?;
        eventually("a standby takes writes", || {
            let answer = standby.sql("postgres", "SELECT pg_is_in_recovery()").ok()?;
            (answer == "f").then_some(())
        })?;
        self.primary.fetch_xor(1, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the server that is not the primary a copy of it that follows it, whatever it was.
    ///
    /// # Errors
    ///
    /// If the primary does not run.
    pub fn rebuild(&self) -> Result<(), SetupError> {
        let (primary, standby) = (self.primary(), self.standby());
        standby.kill();
        if standby.data().exists() {
            fs::remove_dir_all(standby.data())?;
        }
        let port = primary.port().to_string();
        let mut copy = standby.command("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "--write-recovery-conf"]);
        copy.args(["--checkpoint", "fast", "--no-sync", "-D"]).arg(standby.data());
        said("pg_basebackup", &mut copy)?;
        standby.spawn()?;
        if self.synchronous {
            primary.set("synchronous_standby_names", "'*'")?;
        }
        eventually("a standby follows", || self.is_followed().then_some(()))
    }

    /// Does the standby follow as it should?
    fn is_followed(&self) -> bool {
        let state = "SELECT state, sync_state FROM pg_stat_replication";
        let wanted = if self.synchronous { "streaming|sync" } else { "streaming|async" };
        self.primary().sql("postgres", state).is_ok_and(|state| state == wanted)
    }
}

impl Postgres {
    /// Changes a setting of the running server, as an operator would.
    ///
    /// # Errors
    ///
    /// If it does not run, or refuses.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SetupError> {
        self.sql("postgres", &format!("ALTER SYSTEM SET {name} = {value}"))?;
        self.sql("postgres", "SELECT pg_reload_conf()")?;
        Ok(())
    }
}
