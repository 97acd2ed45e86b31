//! Calls about locks that are acquired, held and released.

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use taketurns::{Acquire, Error, Guard, Handle, Locks, Semaphore, Token};

use super::{Binding, Held};
use crate::failure::Failure;
use crate::options::{AcquireSettings, AskObject, millis};
use crate::outcome::{Answer, Outcome, number};
use crate::view;

#[napi]
impl Binding {
    /// Waits for a lock.
    #[napi]
    pub fn acquire(
        &self,
        id: i64,
        client: i64,
        ask: AskObject,
        settings: Option<AcquireSettings>,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let acquire = settings.unwrap_or_default().on_wait(acquire(locks, &ask));
            async { Outcome::of(acquire.await, |guard| Outcome::Guard(Some(guard))) }
        })
    }

    /// Takes a lock if it is free.
    #[napi]
    pub fn try_acquire(
        &self,
        id: i64,
        client: i64,
        ask: AskObject,
        settings: Option<AcquireSettings>,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let acquire = settings.unwrap_or_default().on(try_acquire(locks, &ask));
            async { Outcome::of(acquire.await, Outcome::Guard) }
        })
    }

    /// Waits for several mutexes.
    #[napi]
    pub fn acquire_all(
        &self,
        id: i64,
        client: i64,
        names: Vec<String>,
        settings: Option<AcquireSettings>,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let acquire = settings.unwrap_or_default().on_all(locks.all(names).acquire());
            async { Outcome::of(acquire.await, Outcome::All) }
        })
    }

    /// Returns the token of a guard if the lock is still held.
    #[napi]
    pub fn check(&self, guard: i64) -> Either<f64, Failure> {
        let token = match self.tables.borrow().held.get(&guard) {
            Some(Held::One(guard)) => guard.check(),
            Some(Held::Work(attempt)) => attempt.check(),
            // The tokens of several locks do not change: see `of_all`.
            Some(Held::All(all)) => all.check().map(|_| Token::UNFENCED),
            None => Err(Error::Closed),
        };
        match token {
            Ok(token) => Either::A(number(token).unwrap_or_default()),
            Err(error) => Either::B((&error).into()),
        }
    }

    /// Returns whether what a guard stands for is still held.
    #[napi]
    pub fn is_held(&self, guard: i64) -> bool {
        match self.tables.borrow().held.get(&guard) {
            Some(Held::One(guard)) => guard.is_held(),
            Some(Held::Work(attempt)) => attempt.is_held(),
            Some(Held::All(all)) => all.is_held(),
            None => false,
        }
    }

    /// Returns how long a lock stays held without a renewal, in milliseconds.
    #[napi]
    pub fn left(&self, guard: i64) -> f64 {
        let tables = self.tables.borrow();
        let guard = tables.held.get(&guard).and_then(Held::one);
        guard.map_or(0.0, |guard| view::millis(guard.left()))
    }

    /// Returns how long the last grant or renewal was for, in milliseconds.
    #[napi]
    pub fn span(&self, guard: i64) -> f64 {
        let tables = self.tables.borrow();
        let guard = tables.held.get(&guard).and_then(Held::one);
        guard.map_or(0.0, |guard| view::millis(guard.span()))
    }

    /// Returns why the last renewal failed, if it did.
    #[napi]
    pub fn trouble(&self, guard: i64) -> Option<String> {
        self.tables.borrow().held.get(&guard).and_then(Held::one).and_then(Guard::trouble)
    }

    /// Releases what a guard holds. Work that is not done has failed.
    #[napi]
    pub fn release(&self, id: i64, guard: i64) -> Option<Answer> {
        match self.take(guard) {
            Some(Held::One(guard)) => {
                let release = guard.release();
                self.start(id, async { Outcome::of(release.await, |()| Outcome::Done) })
            }
            Some(Held::Work(attempt)) => {
                let release = attempt.fail();
                self.start(id, async { Outcome::of(release.await, |()| Outcome::Done) })
            }
            Some(Held::All(all)) => {
                let release = all.release();
                self.start(id, async { Outcome::of(release.await, |()| Outcome::Done) })
            }
            None => Some(Answer::failed(&Error::Closed)),
        }
    }

    /// Makes a handle of a guard.
    #[napi]
    pub fn into_handle(&self, id: i64, guard: i64) -> Option<Answer> {
        let Some(Held::One(guard)) = self.take(guard) else {
            return Some(Answer::failed(&Error::Closed));
        };
        self.start(id, async { Outcome::of(guard.into_handle().await, Outcome::Handle) })
    }

    /// Makes a guard of a handle.
    #[napi]
    pub fn adopt(&self, id: i64, client: i64, handle: String) -> Option<Answer> {
        self.with(id, client, |locks| {
            let (locks, handle) = (locks.clone(), Handle::parse(&handle));
            async move {
                let adopted = async { locks.adopt(handle?).await };
                Outcome::of(adopted.await, |guard| Outcome::Guard(Some(guard)))
            }
        })
    }

    /// Renews the lock of a handle once.
    #[napi]
    pub fn renew(
        &self,
        id: i64,
        client: i64,
        handle: String,
        lease: Option<f64>,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let (locks, handle) = (locks.clone(), Handle::parse(&handle));
            async move {
                let renewed = async { locks.renew(&handle?, lease.map(millis)).await };
                Outcome::of(renewed.await, |left| Outcome::Number(view::millis(left)))
            }
        })
    }

    /// Releases the lock of a handle.
    #[napi]
    pub fn release_handle(&self, id: i64, client: i64, handle: String) -> Option<Answer> {
        self.with(id, client, |locks| {
            let (locks, handle) = (locks.clone(), Handle::parse(&handle));
            async move {
                let released = async { locks.release(&handle?).await };
                Outcome::of(released.await, |()| Outcome::Done)
            }
        })
    }

    /// Reads what a handle says, without its secret.
    #[napi]
    pub fn read_handle(&self, handle: String) -> Answer {
        match Handle::parse(&handle) {
            Ok(handle) => Answer::of_handle(&handle),
            Err(error) => Answer::failed(&error),
        }
    }
}

fn acquire(locks: &Locks, ask: &AskObject) -> Acquire {
    let name = &ask.name;
    match ask.mode.as_str() {
        "read" => locks.rwlock(name).read(),
        "write" => locks.rwlock(name).write(),
        "permits" => semaphore(locks, ask).acquire_many(ask.take.unwrap_or(1)),
        "any" => locks.pool(name).any(),
        "member" => locks.pool(name).member(ask.member.as_deref().unwrap_or_default()),
        "campaign" => locks.election(name).campaign(),
        _ => locks.mutex(name).acquire(),
    }
}

fn try_acquire(locks: &Locks, ask: &AskObject) -> Acquire<Option<Guard>> {
    let name = &ask.name;
    match ask.mode.as_str() {
        "read" => locks.rwlock(name).try_read(),
        "write" => locks.rwlock(name).try_write(),
        "permits" => semaphore(locks, ask).try_acquire_many(ask.take.unwrap_or(1)),
        "any" => locks.pool(name).try_any(),
        "member" => locks.pool(name).try_member(ask.member.as_deref().unwrap_or_default()),
        _ => locks.mutex(name).try_acquire(),
    }
}

fn semaphore(locks: &Locks, ask: &AskObject) -> Semaphore {
    locks.semaphore(&ask.name, ask.of.unwrap_or_default())
}
