//! What this process knows beside the keys: who waits on which connection, which locks concern
//! somebody, and what is due when. None of it is stored: it ends with the process, as the
//! connections do.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use taketurns_core::{ClientId, Grant, Owner, WakeEvent, limits};

use crate::binding::Bindings;
use crate::blocked::Outcome;
use crate::info::Counts;
use crate::problem::Problem;
use crate::record::Record;
use crate::sys::Handle;

/// How many locks a connection is tied to before those that it let go of are looked for.
const TIES: usize = 1_024;

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Everything. Not to be held while the server is called: it may call back.
pub(crate) fn world<T>(look: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(look)
}

/// A client that waits, or was just granted the lock and not told yet.
pub(crate) struct Waiter {
    pub(crate) handle: Handle,
    /// The connection, as the server numbers it.
    pub(crate) connection: u64,
    pub(crate) record: u64,
    pub(crate) owner: Owner,
    /// What is to be told to the client: its owner, as an integer.
    pub(crate) secret: u64,
    /// For how long it wants to wait.
    pub(crate) wait_ms: u64,
    /// When its time is up.
    pub(crate) until_ms: u64,
}

/// A client that was granted the lock, and whose reply is on its way.
struct Told {
    connection: u64,
    record: u64,
    owner: Owner,
}

/// What a connection holds for only as long as it lasts.
struct Tie {
    client: ClientId,
    record: u64,
    owner: Owner,
}

/// Where a lock is that somebody waits for or holds by a connection.
struct Home {
    db: i32,
    key: Box<[u8]>,
    due_ms: Option<u64>,
}

/// Something to be done as soon as the server is back in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// This owner's connection is gone, or its time is up.
    Leave(Owner),
    /// The lock comes from elsewhere: those whose connection is not here are gone.
    Sort,
    /// This connection is tied to it by more than it may hold.
    Untie(u64),
    /// Its time has come.
    Tick,
}

/// A chore, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) record: u64,
    pub(crate) db: i32,
    pub(crate) key: Box<[u8]>,
    pub(crate) chore: Chore,
}

#[derive(Default)]
pub(crate) struct World {
    /// The id of this run of the server.
    pub(crate) run: Arc<str>,
    /// No channel yet: one for all that have none.
    no_channel: Arc<str>,
    /// It does nothing by itself: its master does.
    pub(crate) is_replica: bool,
    /// There is a log or a replica, or may be: what changes has to be repeated there. A server that
    /// has had neither since it started, nor a child that writes what one could begin with, is spared
    /// the trouble.
    pub(crate) is_followed: bool,
    /// The longest lease, if nothing is granted for as long after a restart.
    pub(crate) quarantine_ms: Option<u64>,
    /// Until when nothing is granted.
    pub(crate) until_ms: u64,
    pub(crate) bindings: Bindings,
    pub(crate) counts: Counts,
    /// The timer that runs, and when it is up.
    pub(crate) timer: Option<(u64, u64)>,
    /// What the clock said last.
    pub(crate) clock_ms: u64,
    waiters: HashMap<ClientId, Waiter>,
    /// Whose time is up when.
    ends: BTreeSet<(u64, ClientId)>,
    /// Those who wait, and those who have yet to hear that they don't any more.
    handles: HashMap<Handle, ClientId>,
    told: HashMap<ClientId, Told>,
    ties: HashMap<u64, Vec<Tie>>,
    homes: HashMap<u64, Home>,
    due: BTreeSet<(u64, u64)>,
    chores: VecDeque<(u64, Chore)>,
}

impl World {
    pub(crate) fn new_record(&self) -> Box<Record> {
        Record::new(&self.run, &self.no_channel)
    }

    pub(crate) fn max_lease_ms(&self) -> u64 {
        self.quarantine_ms.unwrap_or(limits::LEASE_MS_MAX)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn tied(&self) -> usize {
        self.ties.values().map(Vec::len).sum()
    }

    /// Everybody whose connection is open and who still wants what it asked for, and of which lock.
    pub(crate) fn open_clients(&self) -> HashMap<ClientId, u64> {
        let tied = self.ties.values().flatten().map(|tie| (tie.client, tie.record));
        let waiting = self.waiters.iter().map(|(client, waiter)| (*client, waiter.record));
        waiting.chain(tied).collect()
    }

    /// Is this lock the one that the client is here for, and not a double of it, made by RESTORE? If
    /// that one is no more, this is the same, loaded anew.
    pub(crate) fn claims(
        &mut self,
        open: &mut HashMap<ClientId, u64>,
        client: ClientId,
        record: u64,
    ) -> bool {
        let Some(of) = open.get_mut(&client) else { return false };
        if *of != record && !self.homes.contains_key(of) {
            *of = record;
            let ties = self.ties.values_mut().flatten().filter(|tie| tie.client == client);
            ties.for_each(|tie| tie.record = record);
        }
        *of == record
    }

    pub(crate) fn wait(&mut self, client: ClientId, waiter: Waiter) {
        self.handles.insert(waiter.handle, client);
        self.ends.insert((waiter.until_ms, client));
        self.waiters.insert(client, waiter);
    }

    fn take_waiter(&mut self, client: ClientId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&client)?;
        self.ends.remove(&(waiter.until_ms, client));
        Some(waiter)
    }

    /// Those who have waited for long enough, to be told so: they give up.
    pub(crate) fn tired(&mut self, now_ms: u64) -> Vec<Handle> {
        let mut handles = Vec::new();
        while let Some(&(_, client)) = self.ends.first().filter(|(until_ms, _)| *until_ms <= now_ms)
            && let Some(waiter) = self.take_waiter(client)
        {
            self.chores.push_back((waiter.record, Chore::Leave(waiter.owner)));
            handles.push(waiter.handle);
        }
        handles
    }

    /// The clock was set back: nobody waits for longer, from now on, than it asked to.
    pub(crate) fn pull_in_ends(&mut self, now_ms: u64) {
        self.ends.clear();
        for (client, waiter) in &mut self.waiters {
            waiter.until_ms = waiter.until_ms.min(now_ms.saturating_add(waiter.wait_ms));
            self.ends.insert((waiter.until_ms, *client));
        }
    }

    /// What happened to one who waits for this lock on a connection: whom to tell what. `None` if
    /// nobody does any more, or for the lock of which this one is a double.
    pub(crate) fn wake(
        &mut self,
        client: ClientId,
        record: u64,
        event: &WakeEvent,
        now_ms: u64,
    ) -> Option<(Handle, Outcome)> {
        self.waiters.get(&client).filter(|waiter| waiter.record == record)?;
        let waiter = self.take_waiter(client)?;
        let outcome = match event {
            WakeEvent::Granted(Grant { token, member, .. }) => {
                let Waiter { connection, owner, .. } = waiter;
                self.told.insert(client, Told { connection, record, owner });
                if client.is_bound() {
                    self.tie(connection, client, record, owner);
                }
                Outcome::Granted {
                    secret: waiter.secret,
                    token: token.map_or(0, |token| token.raw()),
                    member: member.clone(),
                }
            }
            WakeEvent::Refused(refusal) => {
                Outcome::Problem(Problem::refused(*refusal, now_ms, self.max_lease_ms()))
            }
            // Nobody breaks a place in the queue.
            WakeEvent::Revoked => Outcome::Problem(Problem::REVOKED),
        };
        Some((waiter.handle, outcome))
    }

    /// The client was told.
    pub(crate) fn answered(&mut self, handle: Handle) {
        if let Some(client) = self.handles.remove(&handle) {
            self.told.remove(&client);
        }
    }

    /// The client is gone, or waits no more: what it asked for is given up, also if it was granted
    /// a moment ago and never told. True if it has yet to be unblocked.
    pub(crate) fn left(&mut self, handle: Handle) -> bool {
        let Some(client) = self.handles.remove(&handle) else { return false };
        let waiter = self.take_waiter(client);
        if let Some(Waiter { record, owner, .. }) = waiter {
            self.chores.push_back((record, Chore::Leave(owner)));
        }
        if let Some(Told { connection, record, owner }) = self.told.remove(&client) {
            self.untie(connection, owner);
            self.chores.push_back((record, Chore::Leave(owner)));
        }
        waiter.is_some()
    }

    /// Is somebody about to be told that it was granted this lock? It may be gone before that.
    pub(crate) fn is_telling(&self, record: u64) -> bool {
        self.told.values().any(|told| told.record == record)
    }

    /// What is held ends with the connection.
    pub(crate) fn tie(&mut self, connection: u64, client: ClientId, record: u64, owner: Owner) {
        let homes = &self.homes;
        let ties = self.ties.entry(connection).or_default();
        if ties.len() >= TIES && ties.len().is_power_of_two() {
            ties.retain(|tie| homes.contains_key(&tie.record));
            let records: HashSet<u64> = ties.iter().map(|tie| tie.record).collect();
            let chores = records.into_iter().map(|record| (record, Chore::Untie(connection)));
            self.chores.extend(chores);
        }
        ties.push(Tie { client, record, owner });
    }

    /// It was given back.
    pub(crate) fn untie(&mut self, connection: u64, owner: Owner) {
        if let Some(ties) = self.ties.get_mut(&connection) {
            ties.retain(|tie| tie.owner != owner);
            if ties.is_empty() {
                self.ties.remove(&connection);
            }
        }
    }

    /// Of what ties a connection to a lock, only what is still held there is kept.
    pub(crate) fn keep_ties(
        &mut self,
        connection: u64,
        record: u64,
        is_held: impl Fn(Owner) -> bool,
    ) {
        if let Some(ties) = self.ties.get_mut(&connection) {
            ties.retain(|tie| tie.record != record || is_held(tie.owner));
        }
    }

    /// A connection was closed. False if nothing was tied to it.
    pub(crate) fn closed(&mut self, connection: u64) -> bool {
        let Some(ties) = self.ties.remove(&connection) else { return false };
        self.chores.extend(ties.into_iter().map(|tie| (tie.record, Chore::Leave(tie.owner))));
        true
    }

    /// This lock concerns somebody: it is here, and time changes something for it then.
    pub(crate) fn house(&mut self, record: u64, db: i32, key: &[u8], due_ms: Option<u64>) {
        let home =
            self.homes.entry(record).or_insert_with(|| Home { db, key: key.into(), due_ms: None });
        if home.db != db || *home.key != *key {
            (home.db, home.key) = (db, key.into());
        }
        if home.due_ms != due_ms {
            if let Some(due_ms) = home.due_ms {
                self.due.remove(&(due_ms, record));
            }
            self.due.extend(due_ms.map(|due_ms| (due_ms, record)));
            home.due_ms = due_ms;
        }
    }

    pub(crate) fn unhouse(&mut self, record: u64) {
        if let Some(Home { due_ms: Some(due_ms), .. }) = self.homes.remove(&record) {
            self.due.remove(&(due_ms, record));
        }
    }

    /// The same lock is under another key now.
    pub(crate) fn moved(&mut self, record: u64, db: i32, key: &[u8]) {
        if let Some(home) = self.homes.get_mut(&record) {
            (home.db, home.key) = (db, key.into());
        }
    }

    pub(crate) fn swapped(&mut self, one: i32, other: i32) {
        for home in self.homes.values_mut() {
            home.db = match home.db {
                db if db == one => other,
                db if db == other => one,
                db => db,
            };
        }
    }

    /// The locks of one database, or of all.
    pub(crate) fn housed_in(&self, db: Option<i32>) -> Vec<u64> {
        let here = |home: &Home| db.is_none_or(|db| db == home.db);
        self.homes.iter().filter(|(_, home)| here(home)).map(|(record, _)| *record).collect()
    }

    /// These locks are no more: who waited for them is to be told.
    pub(crate) fn lost(&mut self, records: &HashSet<u64>) -> Vec<Handle> {
        for record in records {
            self.unhouse(*record);
        }
        let is_lost = |waiter: &Waiter| records.contains(&waiter.record);
        let lost: Vec<(ClientId, Handle)> = self
            .waiters
            .iter()
            .filter(|(_, waiter)| is_lost(waiter))
            .map(|(client, waiter)| (*client, waiter.handle))
            .collect();
        for (client, _) in &lost {
            self.take_waiter(*client);
        }
        lost.into_iter().map(|(_, handle)| handle).collect()
    }

    /// A lock comes from elsewhere, or all do: those whose connection is not here are gone.
    pub(crate) fn sort(&mut self, record: u64) {
        self.chores.push_back((record, Chore::Sort));
    }

    pub(crate) fn sort_all(&mut self) {
        self.chores.extend(self.homes.keys().map(|record| (*record, Chore::Sort)));
    }

    /// The clock was set back: every lock has to take notice.
    pub(crate) fn tick_all(&mut self) {
        self.chores.extend(self.homes.keys().map(|record| (*record, Chore::Tick)));
    }

    /// Takes what is to be done by now, so much at most.
    pub(crate) fn take_jobs(&mut self, now_ms: u64, max: usize) -> Vec<Job> {
        let mut jobs = Vec::new();
        while jobs.len() < max {
            let due = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms).copied();
            let (record, chore) = match self.chores.pop_front() {
                Some(chore) => chore,
                None => match due {
                    Some((_, record)) => (record, Chore::Tick),
                    None => break,
                },
            };
            let Some(home) = self.homes.get_mut(&record) else { continue };
            if chore == Chore::Tick
                && let Some(due_ms) = home.due_ms.take()
            {
                self.due.remove(&(due_ms, record));
            }
            jobs.push(Job { record, db: home.db, key: home.key.clone(), chore });
        }
        jobs
    }

    /// It can't be done now.
    pub(crate) fn put_off(&mut self, job: &Job) {
        self.chores.push_back((job.record, job.chore));
    }

    /// When there is something to do next.
    pub(crate) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.chores.is_empty() {
            return Some(now_ms);
        }
        let due_ms = self.due.first().map(|(due_ms, _)| *due_ms);
        let end_ms = self.ends.first().map(|(end_ms, _)| *end_ms);
        due_ms.into_iter().chain(end_ms).min()
    }

    /// A replica does nothing by itself: its master does.
    pub(crate) fn drop_chores(&mut self) {
        self.chores.clear();
    }
}
