//! Clients at work, with a mutex, a semaphore and a pool: none may fail, the kind limits how many are inside, and
//! tokens must grow.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns::{Error, Guard, Locks, Token};
use taketurns_servers::eventually;
use tokio::task::JoinSet;

use crate::engine::patience::soon;

pub(crate) const MUTEX: &str = "mutex";
pub(crate) const SEMAPHORE: &str = "semaphore";
pub(crate) const POOL: &str = "pool";
pub(crate) const ALL: [&str; 3] = [MUTEX, SEMAPHORE, POOL];
/// The capacity of the semaphore and of the pool.
const ROOM: u32 = 2;

/// Long enough for the others to intrude, if they could.
const HOLD: Duration = Duration::from_millis(1);
/// A pause, so that a lock is idle now and then.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// Acquires one of the three.
pub(crate) async fn acquire(locks: &Locks, lock: &str) -> Result<Guard, Error> {
    match lock {
        MUTEX => locks.mutex(lock).acquire().await,
        SEMAPHORE => locks.semaphore(lock, ROOM).acquire().await,
        _ => locks.pool(lock).any().await,
    }
}

#[derive(Default)]
pub(crate) struct Fleet {
    tasks: JoinSet<()>,
    log: Arc<TurnLog>,
}

#[derive(Default)]
struct TurnLog {
    turns: AtomicU64,
    enough: AtomicBool,
    rooms: [Mutex<Room>; 3],
}

#[derive(Default)]
struct Room {
    inside: u32,
    /// The members that are in use.
    members: BTreeSet<String>,
    tokens: BTreeSet<Token>,
}

impl Fleet {
    /// Adds a client, with a task for each lock.
    pub(crate) fn join(&mut self, locks: &Locks) {
        for lock in ALL {
            self.tasks.spawn(take_turns(locks.clone(), lock, self.log.clone()));
        }
    }

    /// Waits for that many more turns of any client.
    pub(crate) fn goes_on(&self, turns: u64) {
        let taken = || self.log.turns.load(Ordering::Relaxed);
        let enough = taken() + turns;
        eventually("the fleet goes on", || (taken() >= enough).then_some(())).expect("turns");
    }

    /// Returns the last token of each lock.
    pub(crate) fn last_tokens(&self) -> [Token; 3] {
        let last = |room: &Mutex<Room>| *room.lock().unwrap().tokens.last().expect("a turn");
        [last(&self.log.rooms[0]), last(&self.log.rooms[1]), last(&self.log.rooms[2])]
    }

    /// Waits until every client has ended its turn; none may have failed.
    pub(crate) async fn finish(mut self) {
        self.log.enough.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("a turn ends", self.tasks.join_next()).await {
            ended.expect("nobody fails");
        }
    }
}

async fn take_turns(locks: Locks, lock: &'static str, log: Arc<TurnLog>) {
    let number = ALL.iter().position(|name| *name == lock).expect("one of them");
    while !log.enough.load(Ordering::Relaxed) {
        let guard = soon(lock, acquire(&locks, lock)).await;
        let guard = guard.unwrap_or_else(|error| panic!("{lock}: {error}"));
        log.rooms[number].lock().unwrap().enter(lock, &guard);
        tokio::time::sleep(HOLD).await;
        guard.check().unwrap_or_else(|error| panic!("{lock} was lost: {error}"));
        log.rooms[number].lock().unwrap().leave(&guard);
        let released = soon(lock, guard.release()).await;
        released.unwrap_or_else(|error| panic!("{lock}: {error}"));
        log.turns.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(REST).await;
    }
}

impl Room {
    fn enter(&mut self, lock: &str, guard: &Guard) {
        let token = guard.token();
        self.inside += 1;
        assert!(self.inside <= if lock == MUTEX { 1 } else { ROOM }, "{lock} is overcrowded");
        if let Some(member) = guard.member() {
            assert!(self.members.insert(member.to_string()), "{member} has two holders");
        }
        if lock == MUTEX {
            assert!(self.tokens.last() < Some(&token), "{token} comes after a newer one");
        }
        assert!(self.tokens.insert(token), "{lock}: two grants had token {token}");
    }

    fn leave(&mut self, guard: &Guard) {
        self.inside -= 1;
        if let Some(member) = guard.member() {
            self.members.remove(member.as_str());
        }
    }
}
