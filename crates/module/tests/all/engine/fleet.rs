//! Clients at work, with a mutex, a semaphore and a pool: nobody may fail, no more may be inside than
//! the kind allows, and tokens have to grow.

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
/// How many the semaphore and the pool have room for.
const ROOM: u32 = 2;

/// Long enough for the others to come by, if they could.
const HOLD: Duration = Duration::from_millis(1);
/// So that a lock is idle now and then.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// Gets one of the three.
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
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    turns: AtomicU64,
    enough: AtomicBool,
    rooms: [Mutex<Room>; 3],
}

#[derive(Default)]
struct Room {
    inside: u32,
    /// The members that are taken.
    members: BTreeSet<String>,
    tokens: BTreeSet<Token>,
}

impl Fleet {
    /// One more client, with a task for each lock.
    pub(crate) fn join(&mut self, locks: &Locks) {
        for lock in ALL {
            self.tasks.spawn(take_turns(locks.clone(), lock, self.seen.clone()));
        }
    }

    /// Waits for that many more turns of anybody.
    pub(crate) fn goes_on(&self, turns: u64) {
        let taken = || self.seen.turns.load(Ordering::Relaxed);
        let enough = taken() + turns;
        eventually("the fleet goes on", || (taken() >= enough).then_some(())).expect("turns");
    }

    /// The last token that anybody saw of each lock.
    pub(crate) fn last_tokens(&self) -> [Token; 3] {
        let last = |room: &Mutex<Room>| *room.lock().unwrap().tokens.last().expect("a turn");
        [last(&self.seen.rooms[0]), last(&self.seen.rooms[1]), last(&self.seen.rooms[2])]
    }

    /// Everyone ends its turn, and nobody has failed.
    pub(crate) async fn finish(mut self) {
        self.seen.enough.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("a turn ends", self.tasks.join_next()).await {
            ended.expect("nobody fails");
        }
    }
}

async fn take_turns(locks: Locks, lock: &'static str, seen: Arc<Seen>) {
    let number = ALL.iter().position(|name| *name == lock).expect("one of them");
    while !seen.enough.load(Ordering::Relaxed) {
        let guard = soon(lock, acquire(&locks, lock)).await;
        let guard = guard.unwrap_or_else(|error| panic!("{lock}: {error}"));
        seen.rooms[number].lock().unwrap().enter(lock, &guard);
        tokio::time::sleep(HOLD).await;
        guard.check().unwrap_or_else(|error| panic!("{lock} was lost: {error}"));
        seen.rooms[number].lock().unwrap().leave(&guard);
        let released = soon(lock, guard.release()).await;
        released.unwrap_or_else(|error| panic!("{lock}: {error}"));
        seen.turns.fetch_add(1, Ordering::Relaxed);
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
