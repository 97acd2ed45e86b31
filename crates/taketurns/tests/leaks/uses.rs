//! One use of a lock after the other, each given up or let go of in one of all the ways there are.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use taketurns::{Acquire, Error, ErrorKind, Guard, Handle, Locks, Name, View};
use taketurns_servers::fuzz::Dice;
use tokio::time::{sleep, timeout};

/// From before anything is sent until after it is granted.
fn moment(dice: &mut Dice) -> Duration {
    let at_most_us = 1 << dice.roll(13);
    Duration::from_micros(dice.roll(at_most_us))
}

/// So long that a lock that was left behind is still held when a test gives up. So cleaning up can't be left to time.
const LEASE: Duration = Duration::from_secs(60);

/// The pool that has members.
pub(crate) const POOL: &str = "pool";
pub(crate) const MEMBERS: [&str; 2] = ["a", "b"];

const LOCKS: u64 = 4;

/// Who uses the locks.
pub(crate) struct User {
    pub(crate) locks: Locks,
    /// Another client, which takes over what this one hands on, and breaks what it holds.
    pub(crate) other: Locks,
    /// The store has mutexes and nothing else.
    pub(crate) mutexes_only: bool,
    pub(crate) dice: Dice,
    /// For a test that hangs.
    pub(crate) doing: &'static str,
}

/// Was the lock had?
pub(crate) type IsAcquired = bool;

impl User {
    /// One acquire and its end.
    pub(crate) async fn one(&mut self) -> IsAcquired {
        match self.dice.roll(10) {
            0 => self.dropped_after_some_polls().await,
            1 | 2 => {
                let moment = moment(&mut self.dice);
                match timeout(moment, self.waiting().into_future()).await {
                    Ok(outcome) => self.end(outcome.map(Some)).await,
                    Err(_) => false,
                }
            }
            3 | 4 => {
                let within = moment(&mut self.dice);
                let outcome = self.waiting().within(within).await;
                self.end(outcome.map(Some)).await
            }
            5 => {
                let outcome = self.trying().await;
                self.end(outcome).await
            }
            6 => self.under_run().await,
            7 => self.of_all().await,
            _ => {
                let outcome = self.there().await;
                self.end(outcome.map(Some)).await
            }
        }
    }

    /// Says what was never done, and what it found there.
    pub(crate) async fn hangs(&self) -> ! {
        let seen = self.locks.list("*").await;
        let used = |(_, view): &(Name, View)| !view.holders.is_empty() || view.waiting > 0;
        let seen = seen.map(|all| all.into_iter().filter(used).collect::<Vec<_>>());
        panic!("this hangs: {}, with {seen:#?}", self.doing)
    }

    fn name(&mut self) -> String {
        format!("l{}", self.dice.roll(LOCKS))
    }

    /// One that is had in the end.
    async fn there(&mut self) -> Result<Guard, Error> {
        self.doing = "an acquire";
        let name = self.name();
        let kind = if self.mutexes_only { 0 } else { self.dice.roll(8) };
        let acquire = match kind {
            0..4 => self.locks.mutex(&name).acquire(),
            4 => self.locks.rwlock(format!("{name}/rw")).write(),
            5 => self.locks.rwlock(format!("{name}/rw")).read(),
            6 => {
                let permits = 1 + self.dice.roll(3) as u32;
                self.locks.semaphore(format!("{name}/s"), 3).acquire_many(permits)
            }
            _ => self.locks.pool(POOL).any(),
        };
        acquire.lease(LEASE).await
    }

    /// One that may never be had.
    fn waiting(&mut self) -> Acquire {
        self.doing = "an acquire that is given up";
        let name = self.name();
        let kind = if self.mutexes_only { 0 } else { self.dice.roll(9) };
        let acquire = match kind {
            0..4 => self.locks.mutex(&name).acquire(),
            4 => self.locks.rwlock(format!("{name}/rw")).write(),
            5 => self.locks.rwlock(format!("{name}/rw")).read(),
            6 => self.locks.semaphore(format!("{name}/s"), 3).acquire_many(2),
            7 => self.locks.pool(POOL).member(MEMBERS[0]),
            _ => self.locks.pool("nobody").member("never there"),
        };
        acquire.lease(LEASE)
    }

    fn trying(&mut self) -> Acquire<Option<Guard>> {
        self.doing = "a try";
        let name = self.name();
        let kind = if self.mutexes_only { 0 } else { self.dice.roll(7) };
        let acquire = match kind {
            0..3 => self.locks.mutex(&name).try_acquire(),
            3 => self.locks.rwlock(format!("{name}/rw")).try_write(),
            4 => self.locks.rwlock(format!("{name}/rw")).try_read(),
            5 => self.locks.semaphore(format!("{name}/s"), 3).try_acquire(),
            _ => self.locks.pool(POOL).try_any(),
        };
        acquire.lease(LEASE)
    }

    /// Wherever it is by then. What it got and never told is given back too.
    async fn dropped_after_some_polls(&mut self) -> IsAcquired {
        let mut acquire = pin!(self.waiting().into_future());
        for _ in 0..self.dice.roll(4) {
            let polled = std::future::poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx))).await;
            if let Poll::Ready(outcome) = polled {
                return self.end(outcome.map(Some)).await;
            }
            match self.dice.roll(2) {
                0 => tokio::task::yield_now().await,
                _ => sleep(moment(&mut self.dice)).await,
            }
        }
        false
    }

    /// Work that is dropped in the middle, or done.
    async fn under_run(&mut self) -> IsAcquired {
        self.doing = "work under a lock";
        let (name, work, moment) = (self.name(), moment(&mut self.dice), moment(&mut self.dice));
        let acquire = self.locks.mutex(name).acquire().lease(LEASE);
        let work = acquire.run(|_token| sleep(work));
        match timeout(moment, work).await {
            Ok(done) => expected(done).is_some(),
            Err(_) => false,
        }
    }

    /// Several, given up when some of them are had, or when all are.
    async fn of_all(&mut self) -> IsAcquired {
        self.doing = "an acquire of all";
        let names = [self.name(), self.name(), self.name()];
        let all = self.locks.all(names);
        let (acquire, moment) = (all.acquire().lease(LEASE), moment(&mut self.dice));
        let outcome = match self.dice.roll(3) {
            0 => match timeout(moment, acquire.into_future()).await {
                Ok(outcome) => outcome,
                Err(_) => return false,
            },
            1 => acquire.within(moment).await,
            _ => acquire.await,
        };
        let Some(guards) = expected(outcome) else { return false };
        match self.dice.roll(3) {
            0 => drop(guards),
            1 => drop(guards.release()),
            _ => {
                expected(guards.release().await);
            }
        }
        true
    }

    async fn end(&mut self, outcome: Result<Option<Guard>, Error>) -> IsAcquired {
        match expected(outcome).flatten() {
            Some(guard) => {
                self.let_go(guard).await;
                true
            }
            None => false,
        }
    }

    async fn let_go(&mut self, guard: Guard) {
        self.doing = "a release";
        match self.dice.roll(9) {
            0 => drop(guard),
            1 => drop(guard.release()),
            2 => released(guard).await,
            3 => {
                sleep(moment(&mut self.dice)).await;
                released(guard).await;
            }
            // The guard is dropped with it, unless it was made a handle already.
            4 => {
                let moment = moment(&mut self.dice);
                if let Ok(handle) = timeout(moment, guard.into_handle()).await
                    && let Some(handle) = expected(handle)
                {
                    expected(self.other.release(&handle).await);
                }
            }
            5 | 6 => self.hand_on(guard).await,
            7 => {
                expected(self.break_it(&guard).await);
                // It is told, or was too quick.
                drop(timeout(moment(&mut self.dice), guard.lost()).await);
                drop(guard);
            }
            _ => {
                let moment = moment(&mut self.dice);
                drop(timeout(moment, self.break_it(&guard)).await);
                released(guard).await;
            }
        }
    }

    async fn break_it(&mut self, guard: &Guard) -> Result<u32, Error> {
        self.doing = "a break";
        let mut breaks = self.other.break_lock(guard.name().as_str());
        if let Some(token) = guard.token().fenced() {
            breaks = breaks.token(token);
        }
        if self.dice.roll(2) == 0 {
            breaks = breaks.at_once();
        }
        breaks.await
    }

    /// To the other client, which lets go of it or is dropped while it takes it over.
    async fn hand_on(&mut self, guard: Guard) {
        self.doing = "a handle";
        let Some(handle) = expected(guard.into_handle().await) else { return };
        let copy = Handle::parse(&handle.expose()).expect("its own words");
        self.doing = "an adoption";
        let adopted = match self.dice.roll(2) {
            0 => timeout(moment(&mut self.dice), self.other.adopt(handle)).await.ok(),
            _ => Some(self.other.adopt(handle).await),
        };
        match adopted.and_then(expected) {
            Some(guard) if self.dice.roll(2) == 0 => drop(guard),
            Some(guard) => released(guard).await,
            // A handle outlives who was about to adopt it: it is somebody's to release.
            None => {
                self.doing = "a release by handle";
                expected(self.locks.release(&copy).await);
            }
        }
    }
}

async fn released(guard: Guard) {
    expected(guard.release().await);
}

/// What went as it may: it took too long, or somebody broke it.
fn expected<T>(outcome: Result<T, Error>) -> Option<T> {
    let error = match outcome {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let may_be = [
        ErrorKind::Timeout,
        // There was no answer in the time given.
        ErrorKind::Unreachable,
        ErrorKind::NoQuorum,
        ErrorKind::Lost,
        ErrorKind::NotHeld,
    ];
    assert!(may_be.contains(&error.kind()), "{error}");
    None
}
