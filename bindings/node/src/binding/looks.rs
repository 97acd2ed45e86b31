//! Calls about locks that the caller does not hold: views, breaks, members of pools, elections.

use napi_derive::napi;
use taketurns::{Error, Name, Token};

use super::Binding;
use crate::options::millis;
use crate::outcome::{Answer, ClientObserver, Outcome};

#[napi]
impl Binding {
    /// Reads one lock.
    #[napi]
    pub fn inspect(&self, id: i64, client: i64, name: String) -> Option<Answer> {
        self.with(id, client, |locks| {
            let locks = locks.clone();
            async move {
                let seen = async { Ok((Name::new(&name)?, locks.inspect(&name).await?)) };
                Outcome::of(seen.await, |(name, view)| Outcome::Lock(name, view))
            }
        })
    }

    /// Reads all locks whose name matches a pattern.
    #[napi]
    pub fn list(&self, id: i64, client: i64, pattern: String, waiters: u32) -> Option<Answer> {
        self.with(id, client, |locks| {
            let locks = locks.clone();
            async move {
                let seen = locks.list_with(&pattern, waiters as usize).await;
                Outcome::of(seen, Outcome::List)
            }
        })
    }

    /// Takes a lock from its holders.
    #[napi]
    pub fn break_lock(
        &self,
        id: i64,
        client: i64,
        name: String,
        token: Option<f64>,
        at_once: bool,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let mut broken = locks.break_lock(name);
            if let Some(token) = token {
                broken = broken.token(Token::from_raw(token as u64));
            }
            if at_once {
                broken = broken.at_once();
            }
            async { Outcome::of(broken.await, |holders| Outcome::Number(holders.into())) }
        })
    }

    /// Adds a member to a pool, or removes one.
    #[napi]
    pub fn change_pool(
        &self,
        id: i64,
        client: i64,
        name: String,
        member: String,
        add: bool,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let pool = locks.pool(name);
            async move {
                let changed =
                    if add { pool.add(&member).await } else { pool.remove(&member).await };
                Outcome::of(changed, Outcome::Changed)
            }
        })
    }

    /// Sets the number of permits of a semaphore.
    #[napi]
    pub fn resize(&self, id: i64, client: i64, name: String, permits: u32) -> Option<Answer> {
        self.with(id, client, |locks| {
            let semaphore = locks.semaphore(name, permits);
            async move { Outcome::of(semaphore.resize().await, Outcome::Changed) }
        })
    }

    /// Returns who leads an election.
    #[napi]
    pub fn leader(&self, id: i64, client: i64, name: String) -> Option<Answer> {
        self.with(id, client, |locks| {
            let election = locks.election(name);
            async move { Outcome::of(election.leader().await, Outcome::Leader) }
        })
    }

    /// Makes an observer of an election. Its number must be one of those of operations.
    #[napi]
    pub fn observe(&self, id: i64, client: i64, name: String, every: Option<f64>) {
        let mut tables = self.tables.borrow_mut();
        let Some(locks) = tables.clients.get(&client) else { return };
        let mut observer = locks.election(name).observe();
        if let Some(every) = every {
            observer = observer.every(millis(every));
        }
        tables.observers.insert(id, Box::new(ClientObserver { client, observer }));
    }

    /// Waits until an observer sees another leader. A cancelled call ends the observer.
    #[napi]
    pub fn next_leader(&self, id: i64, observer: i64) -> Option<Answer> {
        let seen_by = self.tables.borrow_mut().observers.remove(&observer);
        let Some(mut seen_by) = seen_by else { return Some(Answer::failed(&Error::Closed)) };
        self.start(id, async move {
            let leader = seen_by.observer.changed().await;
            Outcome::of(leader, |leader| Outcome::Observed(observer, seen_by, leader))
        })
    }
}
