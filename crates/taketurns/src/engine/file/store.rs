//! The database: one row per lock, one transaction per step.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};
use taketurns_core::{ClientId, Lock, Name, Now, Pattern, Reply, Request, Snapshot, View, Wake};

use super::check::{self, APPLICATION_ID, Found};
use super::wake::{Ear, Mouth};
use crate::engine::{Answer, Clock, EngineError, Stamp, Wakes, Woken};

/// The version of the tables and of the stored lock. Another one is refused, not guessed at.
const VERSION: u8 = 1;
/// Times to forget at are rounded up to this, so that an index is not rewritten by every step.
const FORGET_GRAIN_MS: u64 = 10 * 60 * 1_000;
/// One step in so many looks for locks to forget: at least as many as it can have made.
const STEPS_PER_SWEEP: u32 = 64;
const FORGET_PER_SWEEP: u32 = 2 * STEPS_PER_SWEEP;
/// Clients that turn out dead one after the other in one step: past this the rest lapse by themselves.
const DEAD_PER_STEP_MAX: u32 = 64;
/// How often a writer tries for the database before it counts as out of reach: some five seconds.
const BUSY_TRIES_MAX: i32 = 5_000;

const TABLES: &str = "
    CREATE TABLE boots (number INTEGER PRIMARY KEY, boot_id TEXT NOT NULL UNIQUE);
    CREATE TABLE locks (
        name         TEXT PRIMARY KEY,
        boot         INTEGER NOT NULL,  -- leases of another boot are over
        forget_at_ms INTEGER,           -- wall clock; null: never
        state        BLOB NOT NULL      -- a version byte, then the snapshot
    ) WITHOUT ROWID;
    CREATE INDEX locks_to_forget ON locks (forget_at_ms) WHERE forget_at_ms IS NOT NULL;
";

pub(super) struct Store {
    path: PathBuf,
    /// Device and number of the file that was opened.
    identity: (u64, u64),
    connection: Connection,
    clock: Clock,
    boot: i64,
    client: ClientId,
    wakes: Wakes,
    sockets: Option<(Mouth, Ear)>,
    steps: u32,
    /// Changes when another connection has written.
    data_version: i64,
    /// For a client without a socket: the locks that it has a place in the queue of.
    waited: BTreeSet<Name>,
}

/// A lock as it is stored.
struct Row {
    lock: Lock,
    of_boot: i64,
    forget_at_ms: Option<i64>,
}

impl Store {
    /// Opens the database, or creates it, and binds this client's socket where there can be one.
    pub(super) fn open(
        path: &Path,
        clock: Clock,
        client: ClientId,
        wakes: Wakes,
    ) -> Result<Self, EngineError> {
        if check::look(path)? == Found::Nothing {
            create(path)?;
        }
        // One name for everybody: the sockets lie beside it, and the working directory may change.
        let path = fs::canonicalize(path).map_err(|error| io_broken(path, error))?;
        let path = path.as_path();
        let connection = connect(path)?;
        let identity = identity(path)?;
        let boot = boot_number(&connection)?;
        let sockets = match sockets(path, client, &wakes) {
            Ok(sockets) => Some(sockets),
            Err(error) => {
                tracing::warn!(%error, "no socket for wake-ups beside the store: it is polled instead");
                None
            }
        };
        let path = path.to_owned();
        let mut store = Self {
            path,
            identity,
            waited: BTreeSet::new(),
            connection,
            clock,
            boot,
            client,
            wakes,
            sockets,
            steps: 0,
            data_version: 0,
        };
        store.forget()?;
        Ok(store)
    }

    /// Do wake-ups reach it, or has the file to be polled?
    pub(super) fn hears(&self) -> bool {
        self.sockets.is_some()
    }

    pub(super) fn stamp(&self) -> Stamp {
        stamp(self.clock.now())
    }

    /// One step, and the wake-ups that follow from it once it is committed.
    pub(super) fn step(&mut self, name: &Name, request: &Request) -> Result<Answer, EngineError> {
        self.still_there()?;
        let (mut answer, wakes) = self.transact(name, request)?;
        if matches!(answer.reply, Reply::Queued(_)) && !self.hears() {
            self.waited.insert(name.clone());
        }
        // The request is carried out: what fails from here on is not its failure.
        match self.follow_up(name, wakes) {
            Ok(more) => answer.more |= more,
            Err(error) => {
                tracing::warn!(lock = %name, %error, "what followed from a step was left to the next");
            }
        }
        Ok(answer)
    }

    /// Somebody who removed or replaced the file has made another store of it. Nothing that is
    /// written to this one would be seen there.
    fn still_there(&self) -> Result<(), EngineError> {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            return Ok(());
        }
        let path = self.path.display();
        Err(EngineError::Broken(format!("{path}: the store was removed or replaced while in use")))
    }

    /// Delivers wake-ups, passes on what was handed to the dead, and forgets what is long idle.
    /// Answers whether there is more to hand over.
    fn follow_up(&mut self, name: &Name, mut wakes: Vec<Wake>) -> Result<bool, EngineError> {
        let mut more = false;
        for round in 0.. {
            let dead = self.deliver(name, std::mem::take(&mut wakes));
            if dead.is_empty() || round == DEAD_PER_STEP_MAX {
                break;
            }
            for client in dead {
                let (answer, further) = self.transact(name, &Request::ClientGone { client })?;
                more |= answer.more;
                wakes.extend(further);
            }
        }
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_SWEEP) {
            self.forget()?;
        }
        Ok(more)
    }

    pub(super) fn view(
        &self,
        name: &Name,
        waiters_max: usize,
    ) -> Result<Option<View>, EngineError> {
        let row = load(&self.connection, name, self.boot)?;
        Ok(row.map(|row| row.lock.view(self.clock.now(), waiters_max)))
    }

    pub(super) fn list(
        &self,
        pattern: &Pattern,
        after: Option<&Name>,
        max: usize,
        waiters_max: usize,
    ) -> Result<Vec<(Name, View)>, EngineError> {
        let now = self.clock.now();
        let mut statement = self
            .connection
            .prepare_cached("SELECT name, boot, state FROM locks WHERE name > ?1 ORDER BY name")
            .map_err(engine_error)?;
        let after = after.map_or("", Name::as_str);
        let mut rows = statement.query([after]).map_err(engine_error)?;
        let mut views = Vec::new();
        while let Some(row) = rows.next().map_err(engine_error)? {
            let name: String = row.get(0).map_err(engine_error)?;
            if !pattern.matches(&name) {
                continue;
            }
            let name = Name::new(&name).map_err(|_| corrupt("a name that can't be one"))?;
            let state =
                row.get_ref(2).and_then(|state| Ok(state.as_blob()?)).map_err(engine_error)?;
            let boot = row.get(1).map_err(engine_error)?;
            match decode(state, boot, self.boot) {
                Ok(lock) => views.push((name, lock.view(now, waiters_max))),
                // One damaged lock must not hide all others.
                Err(error) => tracing::warn!(lock = %name, %error, "left out of the listing"),
            }
            if views.len() == max {
                break;
            }
        }
        Ok(views)
    }

    /// For a client without a socket: if anybody has written since the last look, was one of the
    /// locks that it waits for handed to it? Only then it has to ask, which writes: clients that
    /// asked at every change would wake each other for ever.
    pub(super) fn look(&mut self, wakes: &Wakes) {
        let found = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        match found {
            Ok(version) if version != self.data_version => self.data_version = version,
            _ => return,
        }
        let mut waited = std::mem::take(&mut self.waited);
        waited.retain(|name| match load(&self.connection, name, self.boot) {
            Ok(Some(row)) if row.lock.has_handed_to(self.client) => {
                wakes.push(Woken::Recheck);
                true
            }
            Ok(Some(row)) => row.lock.is_waited_for_by(self.client),
            Ok(None) => false,
            Err(_) => true,
        });
        self.waited = waited;
    }

    /// Removes this client's socket. The file is closed when this is dropped.
    pub(super) fn close(&mut self) {
        self.sockets = None;
    }

    fn transact(
        &mut self,
        name: &Name,
        request: &Request,
    ) -> Result<(Answer, Vec<Wake>), EngineError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(engine_error)?;
        // Read under the write lock, so that steps are in the order of their times.
        let now = self.clock.now();
        let row = load(&transaction, name, self.boot)?;
        let known = row.as_ref().map(|row| row.forget_at_ms);
        let mut lock = row.map_or_else(Lock::new, |row| row.lock);
        let step = lock.apply(now, request);
        save(&transaction, name, self.boot, &lock, known, now)?;
        transaction.commit().map_err(engine_error)?;
        let answer = Answer { reply: step.reply, stamp: stamp(now), more: step.more };
        Ok((answer, step.wakes))
    }

    /// Sends wake-ups, this client's own without a detour. Answers the clients that are dead.
    fn deliver(&self, lock: &Name, wakes: Vec<Wake>) -> Vec<ClientId> {
        let (own, others): (Vec<_>, Vec<_>) =
            wakes.into_iter().partition(|wake| wake.client == self.client);
        for wake in own {
            self.wakes.push(Woken::Wake { lock: lock.clone(), wake, epoch: 0 });
        }
        match &self.sockets {
            Some((mouth, _)) if !others.is_empty() => mouth.tell(lock, others),
            _ => Vec::new(),
        }
    }

    /// Forgets locks that nobody has used for long. Found by the wall clock, which anybody may set,
    /// and judged by the clock that leases are on.
    fn forget(&mut self) -> Result<(), EngineError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(engine_error)?;
        let now = self.clock.now();
        let now_ms = (now.wall_us / 1_000) as i64;
        let due: Vec<String> = transaction
            .prepare_cached("SELECT name FROM locks WHERE forget_at_ms <= ?1 LIMIT ?2")
            .and_then(|mut statement| {
                let rows =
                    statement.query_map(params![now_ms, FORGET_PER_SWEEP], |row| row.get(0))?;
                rows.collect()
            })
            .map_err(engine_error)?;
        for name in due {
            let Ok(name) = Name::new(&name) else { continue };
            let Ok(Some(row)) = load(&transaction, &name, self.boot) else { continue };
            let idle = row.lock.forget_at_ms().is_some_and(|at_ms| at_ms <= now.ms);
            // After a reboot its times are of another clock, and nobody can be holding it.
            if idle || row.of_boot != self.boot {
                transaction
                    .prepare_cached("DELETE FROM locks WHERE name = ?1")
                    .and_then(|mut statement| statement.execute([name.as_str()]))
                    .map_err(engine_error)?;
            } else {
                save(&transaction, &name, self.boot, &row.lock, Some(row.forget_at_ms), now)?;
            }
        }
        transaction.commit().map_err(engine_error)
    }
}

/// Which file it is, whatever it is called.
fn identity(path: &Path) -> Result<(u64, u64), EngineError> {
    let found = fs::metadata(path).map_err(|error| io_broken(path, error))?;
    Ok((found.dev(), found.ino()))
}

fn io_broken(path: &Path, error: std::io::Error) -> EngineError {
    EngineError::Broken(format!("{}: {error}", path.display()))
}

fn stamp(now: Now) -> Stamp {
    Stamp { now_ms: now.ms, epoch: 0 }
}

/// Makes the whole database under another name and then gives it its own, so that nobody ever sees
/// half of one, and of several processes that do this at once one wins.
fn create(path: &Path) -> Result<(), EngineError> {
    let broken =
        |error: std::io::Error| EngineError::Broken(format!("{}: {error}", path.display()));
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}.new", crate::random::bits64()));
    let draft = PathBuf::from(name);
    // The owners in it are secrets.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(broken)?;
    let made = fill(&draft).and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(broken(error)),
        _ => Ok(()),
    });
    let _ = fs::remove_file(&draft);
    made
}

fn fill(draft: &Path) -> Result<(), EngineError> {
    let connection = Connection::open(draft).map_err(engine_error)?;
    let fill = || {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", VERSION)?;
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "journal_mode", "WAL")
    };
    fill().map_err(engine_error)?;
    // Closing moves all of it into the one file.
    connection.close().map_err(|(_, error)| engine_error(error))
}

fn connect(path: &Path) -> Result<Connection, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(engine_error)?;
    connection.busy_handler(Some(wait_for_writer)).map_err(engine_error)?;
    // The journal stays for the next process: moving it at every end costs more than reading it.
    // Besides, a file that turns out damaged must not be written to on the way out.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(engine_error)?;
    if connection.is_readonly("main").map_err(engine_error)? {
        return Err(EngineError::Broken(format!("{}: not writable", path.display())));
    }
    if !is_whole(&connection, path).map_err(engine_error)? {
        return Err(EngineError::Broken(format!(
            "{}: the store is damaged or was cut short; it was left as it is. If nobody uses it move \
             it away, and a new one is made",
            path.display()
        )));
    }
    let version: u8 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(engine_error)?;
    if version != VERSION {
        return Err(EngineError::Broken(format!(
            "{}: the store has format {version}, this program format {VERSION}; use the same release everywhere",
            path.display()
        )));
    }
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(engine_error)?;
    Ok(connection)
}

/// Is all of the database there? A file that is shorter than the database is usual, since what was
/// added last is in the journal, but then it is looked at in full.
fn is_whole(connection: &Connection, path: &Path) -> rusqlite::Result<bool> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let bytes_of = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let check = || {
        let page_bytes = number("page_size")? as u64;
        let bytes = number("page_count")? as u64 * page_bytes;
        let found = bytes_of(path);
        if found >= bytes {
            return Ok(true);
        }
        let mut journal = path.as_os_str().to_owned();
        journal.push("-wal");
        if !found.is_multiple_of(page_bytes) && bytes_of(Path::new(&journal)) == 0 {
            return Ok(false);
        }
        connection
            .pragma_query_value(None, "quick_check", |row| Ok(row.get::<_, String>(0)? == "ok"))
    };
    match check() {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(false),
        result => result,
    }
}

/// Transactions take some hundred microseconds, so another's is waited for in short steps.
fn wait_for_writer(tries: i32) -> bool {
    thread::sleep(if tries < 20 { Duration::from_micros(100) } else { Duration::from_millis(1) });
    tries < BUSY_TRIES_MAX
}

/// The number of this boot in this database. Rows that carry another are of processes long gone.
fn boot_number(connection: &Connection) -> Result<i64, EngineError> {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|error| EngineError::Broken(format!("the boot id can't be read: {error}")))?;
    let boot_id = boot_id.trim();
    let known = || {
        connection
            .query_row("SELECT number FROM boots WHERE boot_id = ?1", [boot_id], |row| row.get(0))
            .optional()
            .map_err(engine_error)
    };
    if let Some(number) = known()? {
        return Ok(number);
    }
    connection
        .execute("INSERT OR IGNORE INTO boots (boot_id) VALUES (?1)", [boot_id])
        .map_err(engine_error)?;
    known()?.ok_or_else(|| corrupt("this boot is not in it"))
}

fn sockets(path: &Path, client: ClientId, wakes: &Wakes) -> std::io::Result<(Mouth, Ear)> {
    let mouth = Mouth::open(path)?;
    mouth.sweep();
    let ear = mouth.listen(client, wakes.clone())?;
    Ok((mouth, ear))
}

fn load(connection: &Connection, name: &Name, boot: i64) -> Result<Option<Row>, EngineError> {
    let mut statement = connection
        .prepare_cached("SELECT boot, forget_at_ms, state FROM locks WHERE name = ?1")
        .map_err(engine_error)?;
    let mut rows = statement.query([name.as_str()]).map_err(engine_error)?;
    let Some(row) = rows.next().map_err(engine_error)? else { return Ok(None) };
    let of_boot = row.get(0).map_err(engine_error)?;
    let forget_at_ms = row.get(1).map_err(engine_error)?;
    let state = row.get_ref(2).and_then(|state| Ok(state.as_blob()?)).map_err(engine_error)?;
    Ok(Some(Row { lock: decode(state, of_boot, boot)?, of_boot, forget_at_ms }))
}

/// `known` is when the stored row is to be forgotten, if there is one.
fn save(
    connection: &Connection,
    name: &Name,
    boot: i64,
    lock: &Lock,
    known: Option<Option<i64>>,
    now: Now,
) -> Result<(), EngineError> {
    let mut state = vec![VERSION];
    state =
        postcard::to_extend(&lock.snapshot(), state).map_err(|_| corrupt("it can't be stored"))?;
    let forget_at_ms = lock.forget_at_ms().map(|at_ms| {
        let wall_ms = now.wall_us / 1_000 + at_ms.saturating_sub(now.ms);
        (wall_ms.div_ceil(FORGET_GRAIN_MS) * FORGET_GRAIN_MS) as i64
    });
    let saved = if known == Some(forget_at_ms) {
        connection
            .prepare_cached("UPDATE locks SET boot = ?2, state = ?3 WHERE name = ?1")
            .and_then(|mut statement| statement.execute(params![name.as_str(), boot, state]))
    } else {
        connection
            .prepare_cached("INSERT OR REPLACE INTO locks (name, boot, state, forget_at_ms) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| statement.execute(params![name.as_str(), boot, state, forget_at_ms]))
    };
    saved.map(drop).map_err(engine_error)
}

fn decode(state: &[u8], of_boot: i64, boot: i64) -> Result<Lock, EngineError> {
    let Some((&VERSION, snapshot)) = state.split_first() else {
        return Err(corrupt("a lock of an unknown format"));
    };
    let snapshot: Snapshot =
        postcard::from_bytes(snapshot).map_err(|_| corrupt("a lock that can't be read"))?;
    let mut lock =
        Lock::restore(snapshot).map_err(|error| EngineError::Broken(error.to_string()))?;
    if of_boot != boot {
        lock.reboot();
    }
    Ok(lock)
}

fn corrupt(what: &str) -> EngineError {
    EngineError::Broken(format!("the store is damaged: {what}"))
}

/// SQLite rolls a failed transaction back, so nothing here is ever in doubt.
fn engine_error(error: rusqlite::Error) -> EngineError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            EngineError::Unreachable("another process keeps the database busy".into())
        }
        Some(ErrorCode::DiskFull) => EngineError::Broken("the disk is full".into()),
        _ => EngineError::Broken(error.to_string()),
    }
}
