//! The store as one client sees it: one transaction per step, and the wake-ups that follow from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, Row, params};
use taketurns_core::{ClientId, Lock, Name, Now, Pattern, Reply, Request, View, Wake};

use super::check::{self, PathState};
use super::database::{
    WriteTransaction, boot_number, broken, checkpoint, connect, corrupt, create, engine_error,
    identity, set_patience,
};
use super::rows::{decode, load, save};
use super::wake_socket::{WakeListener, WakeSender};
use crate::engine::{Answer, Clock, EngineError, EngineEvent, Origin, Stamp, Wakes};
use crate::telling::target;

/// One step in this many looks for locks to forget. A sweep can forget more locks than the steps since the last one can
/// have created.
const STEPS_PER_SWEEP: u32 = 64;
const FORGET_PER_SWEEP: u32 = 2 * STEPS_PER_SWEEP;
/// The journal is copied into the database when it has this many pages. SQLite would do the same by itself, but in a
/// commit, which runs on a caller's thread.
const JOURNAL_PAGES_MAX: i32 = 1_000;
/// Clients that turn out dead one after the other in one step: past this the rest lapse by themselves.
const DEAD_PER_STEP_MAX: u32 = 64;

/// A step that is committed, and whose wake-ups are sent.
pub(super) struct CommittedStep {
    pub(super) answer: Answer,
    /// Clients that turned out dead by their wake-ups.
    pub(super) dead: Vec<ClientId>,
}

/// The open database, and this client's sockets.
pub(super) struct FileStore {
    path: PathBuf,
    /// Device and number of the file that was opened.
    identity: (u64, u64),
    connection: Connection,
    clock: Clock,
    boot: i64,
    client: ClientId,
    wakes: Wakes,
    sockets: Option<(WakeSender, WakeListener)>,
    /// Waits while another process writes.
    is_patient: bool,
    steps: u32,
    /// How many pages the journal had after the last commit.
    journal_pages: Arc<AtomicI32>,
    /// Changes when another connection has written.
    data_version: i64,
    /// For a client without a socket: the locks that it has a place in the queue of.
    waited: BTreeSet<Name>,
}

impl FileStore {
    /// Opens the database, or creates it, and binds this client's socket where there can be one.
    pub(super) fn open(
        path: &Path,
        clock: Clock,
        client: ClientId,
        wakes: Wakes,
    ) -> Result<Self, EngineError> {
        if check::look(path)? == PathState::Nothing {
            create(path)?;
        }
        // One name for everybody: the sockets lie beside it, and the working directory may change.
        let path = fs::canonicalize(path).map_err(|error| broken(path, error))?;
        let path = path.as_path();
        let mut connection = connect(path)?;
        let journal_pages = Arc::new(AtomicI32::new(0));
        let note = journal_pages.clone();
        let hook = move |_: &mut Wal, pages| {
            note.store(pages, Ordering::Relaxed);
            Ok(())
        };
        // This takes the place of SQLite's own checkpoints.
        connection.wal_hook(Some(hook)).map_err(engine_error)?;
        let identity = identity(path)?;
        let boot = boot_number(&connection)?;
        let sockets = match sockets(path, client, &wakes) {
            Ok(sockets) => Some(sockets),
            Err(error) => {
                tracing::warn!(target: target::FILE, %error, "no socket for wake-ups beside the store: it is polled instead");
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
            is_patient: true,
            steps: 0,
            journal_pages,
            data_version: 0,
        };
        store.forget()?;
        Ok(store)
    }

    /// Returns whether wake-ups arrive over a socket. If not, the client must poll the file.
    pub(super) fn has_socket(&self) -> bool {
        self.sockets.is_some()
    }

    pub(super) fn stamp(&self) -> Stamp {
        stamp(self.clock.now())
    }

    /// One step, and all that follows from it. Waits for other processes.
    pub(super) fn step(&mut self, name: &Name, request: &Request) -> Result<Answer, EngineError> {
        self.set_patience(true)?;
        let step = self.commit_step(name, request)?;
        Ok(self.follow_up(name, step))
    }

    /// One step that waits for nobody. `None` if another process writes: then nothing was done.
    pub(super) fn try_step(
        &mut self,
        name: &Name,
        request: &Request,
    ) -> Option<Result<CommittedStep, EngineError>> {
        let step = self.set_patience(false).and_then(|()| self.commit_step(name, request));
        match step {
            Err(EngineError::Unreachable(_)) => None,
            step => Some(step),
        }
    }

    fn set_patience(&mut self, waits: bool) -> Result<(), EngineError> {
        if std::mem::replace(&mut self.is_patient, waits) != waits {
            set_patience(&mut self.connection, waits)?;
        }
        Ok(())
    }

    /// One step, and its wake-ups once it is committed.
    fn commit_step(
        &mut self,
        name: &Name,
        request: &Request,
    ) -> Result<CommittedStep, EngineError> {
        self.still_there()?;
        let (answer, wakes) = self.transact(name, request)?;
        if matches!(answer.reply, Reply::Queued(_)) && !self.has_socket() {
            self.waited.insert(name.clone());
        }
        self.steps = self.steps.wrapping_add(1);
        Ok(CommittedStep { answer, dead: self.deliver(name, wakes) })
    }

    /// Somebody who removed or replaced the file has made another store of it. Nothing that is
    /// written to this one would be seen there.
    fn still_there(&self) -> Result<(), EngineError> {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            return Ok(());
        }
        Err(broken(&self.path, "the store was removed or replaced while in use"))
    }

    /// Passes on what was handed to the dead, and answers. The request is carried out: what fails from here on is not
    /// its failure.
    pub(super) fn follow_up(&mut self, name: &Name, step: CommittedStep) -> Answer {
        let CommittedStep { mut answer, mut dead } = step;
        let followed = self.set_patience(true).and_then(|()| {
            for _ in 0..DEAD_PER_STEP_MAX {
                let mut wakes = Vec::new();
                for client in std::mem::take(&mut dead) {
                    let (gone, further) = self.transact(name, &Request::ClientGone { client })?;
                    answer.more |= gone.more;
                    wakes.extend(further);
                }
                dead = self.deliver(name, wakes);
                if dead.is_empty() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = followed {
            tracing::warn!(
                target: target::FILE,
                lock = %name,
                %error,
                "the step was committed, but its follow-up failed and is left to the next step"
            );
        }
        answer
    }

    /// Is there something to do that no step should wait for?
    pub(super) fn has_chores(&self) -> bool {
        self.steps.is_multiple_of(STEPS_PER_SWEEP) || self.is_journal_long()
    }

    fn is_journal_long(&self) -> bool {
        self.journal_pages.load(Ordering::Relaxed) >= JOURNAL_PAGES_MAX
    }

    /// Forgets what is long idle, and keeps the journal short.
    pub(super) fn do_chores(&mut self) {
        let done = self.set_patience(true).and_then(|()| {
            if self.steps.is_multiple_of(STEPS_PER_SWEEP) {
                self.steps = self.steps.wrapping_add(1);
                self.forget()?;
            }
            if self.is_journal_long() { checkpoint(&self.connection) } else { Ok(()) }
        });
        if let Err(error) = done {
            tracing::warn!(target: target::FILE, %error, "tidying the store failed and is left to a later step");
        }
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
            match listed(row, pattern, self.boot) {
                Ok(Some((name, lock))) => {
                    let view = lock.view(now, waiters_max);
                    // All that is known of it may be who was cancelled.
                    if !view.is_blank() {
                        views.push((name, view));
                    }
                }
                Ok(None) => {}
                // One damaged lock must not hide all others.
                Err(error) => {
                    let name = row.get_ref(0).and_then(|name| Ok(name.as_str()?)).unwrap_or("?");
                    tracing::warn!(target: target::FILE, lock = name, %error, "left out of the listing");
                }
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
                wakes.push(EngineEvent::Recheck);
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
        let transaction = WriteTransaction::begin(&self.connection)?;
        // Read under the write lock, so that steps are in the order of their times.
        let now = self.clock.now();
        let row = load(&self.connection, name, self.boot)?;
        let known = row.as_ref().map(|row| row.forget_at_ms);
        let mut lock = row.map_or_else(Lock::new, |row| row.lock);
        let step = lock.apply(now, request);
        // Asking about a lock that nobody has used leaves no trace of it.
        if known.is_some() || !lock.is_blank() {
            save(&self.connection, name, self.boot, &lock, known, now)?;
        }
        transaction.commit()?;
        let stamp = step.timed.then(|| stamp(now));
        let answer = Answer { reply: step.reply, stamp, more: step.more };
        Ok((answer, step.wakes))
    }

    /// Sends wake-ups, this client's own without a detour. Answers the clients that are dead.
    fn deliver(&self, lock: &Name, wakes: Vec<Wake>) -> Vec<ClientId> {
        let (own, others): (Vec<_>, Vec<_>) =
            wakes.into_iter().partition(|wake| wake.client == self.client);
        for wake in own {
            self.wakes.push(EngineEvent::Wake {
                lock: lock.clone(),
                wake,
                origin: Origin::default(),
            });
        }
        match &self.sockets {
            Some((sender, _)) if !others.is_empty() => sender.send(lock, others),
            _ => Vec::new(),
        }
    }

    /// Forgets locks that nobody has used for long. Found by the wall clock, which anybody may set,
    /// and judged by the clock that leases are on.
    fn forget(&mut self) -> Result<(), EngineError> {
        let transaction = WriteTransaction::begin(&self.connection)?;
        let now = self.clock.now();
        let now_ms = (now.wall_us / 1_000) as i64;
        let due: Vec<String> = self
            .connection
            .prepare_cached("SELECT name FROM locks WHERE forget_at_ms <= ?1 LIMIT ?2")
            .and_then(|mut statement| {
                // One that is no name is damaged, and left alone.
                let name = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().ok().map(str::to_owned));
                let rows = statement.query_map(params![now_ms, FORGET_PER_SWEEP], name)?;
                rows.filter_map(Result::transpose).collect()
            })
            .map_err(engine_error)?;
        for name in due {
            let Ok(name) = Name::new(&name) else { continue };
            let Ok(Some(row)) = load(&self.connection, &name, self.boot) else { continue };
            let idle = row.lock.forget_at_ms().is_some_and(|at_ms| at_ms <= now.ms);
            // After a reboot its times are of another clock, and nobody can be holding it.
            if idle || row.of_boot != self.boot {
                self.connection
                    .prepare_cached("DELETE FROM locks WHERE name = ?1")
                    .and_then(|mut statement| statement.execute([name.as_str()]))
                    .map_err(engine_error)?;
            } else {
                save(&self.connection, &name, self.boot, &row.lock, Some(row.forget_at_ms), now)?;
            }
        }
        transaction.commit()
    }
}

/// A lock of a listing, if it matches.
fn listed(
    row: &Row<'_>,
    pattern: &Pattern,
    boot: i64,
) -> Result<Option<(Name, Lock)>, EngineError> {
    let name: String = row.get(0).map_err(engine_error)?;
    if !pattern.matches(&name) {
        return Ok(None);
    }
    let name = Name::new(&name).map_err(|_| corrupt("a name that can't be one"))?;
    let of_boot = row.get(1).map_err(engine_error)?;
    let state = row.get_ref(2).and_then(|state| Ok(state.as_blob()?)).map_err(engine_error)?;
    Ok(Some((name, decode(state, of_boot, boot)?)))
}

fn stamp(now: Now) -> Stamp {
    Stamp { now_ms: now.ms, origin: Origin::default(), sent_us: None }
}

fn sockets(
    path: &Path,
    client: ClientId,
    wakes: &Wakes,
) -> std::io::Result<(WakeSender, WakeListener)> {
    let sender = WakeSender::open(path)?;
    sender.sweep();
    let listener = sender.listen(client, wakes.clone())?;
    Ok((sender, listener))
}
