//! [`Binding`]: the functions that JavaScript calls, and the clients, guards and observers behind its numbers.
//!
//! A call that may take time has the number of its operation first. It returns what came of it, or nothing if that is
//! not known yet; then a later [`Binding::turn`] tells. A guard has the number of the operation that acquired it.
//! `guards` has the calls about locks that are acquired and held, `work` those about a once, `looks` those about the others.

mod guards;
mod looks;
mod work;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Function, Result, Unknown};
use napi_derive::napi;
use taketurns::{AllGuard, Attempt, Begun, Connect, Error, Guard, Locks, Name, ReleaseFuture};

use crate::failure::Failure;
use crate::farewell;
use crate::options::{ConnectSettings, millis};
use crate::outcome::{Answer, ClientObserver, GuaranteesObject, Outcome, Settled};
use crate::ready::ReadyQueue;
use crate::tasks::TaskTable;
use crate::view::LockObject;

/// What one thread of JavaScript has of this package.
#[napi]
pub struct Binding {
    queue: Arc<ReadyQueue>,
    tasks: TaskTable,
    tables: RefCell<Tables>,
    /// Operations whose store is loading its data.
    loading: Arc<Mutex<Vec<(i64, String)>>>,
}

/// All that has a number and is no task.
#[derive(Default)]
struct Tables {
    clients: HashMap<i64, Locks>,
    held: HashMap<i64, Held>,
    observers: HashMap<i64, Box<ClientObserver>>,
}

/// What a guard of JavaScript stands for.
enum Held {
    One(Guard),
    Work(Attempt),
    All(AllGuard),
}

#[napi]
impl Binding {
    /// `wake` is called on this thread when `turn` should be.
    #[napi(constructor)]
    pub fn new(wake: Function<'_, (), Unknown<'static>>) -> Result<Self> {
        let queue = ReadyQueue::new(&wake)?;
        Ok(Self {
            tasks: TaskTable::new(queue.clone()),
            queue,
            tables: RefCell::default(),
            loading: Arc::default(),
        })
    }

    /// Goes on with the operations that can, and tells what came of those that are done.
    #[napi]
    pub fn turn(&self) -> Vec<Settled> {
        let done = self.tasks.turn();
        let loading = std::mem::take(&mut *lock(&self.loading));
        let loading = loading.into_iter().map(|(id, why)| {
            let answer = Answer { loading: Some(why), ..Answer::default() };
            Settled { id, answer }
        });
        let done = done.into_iter().map(|(id, outcome)| {
            let answer = self.settle(id, outcome);
            Settled { id, answer }
        });
        // In this order: an operation that was waiting for its store may be done by now.
        loading.chain(done.collect::<Vec<_>>()).collect()
    }

    /// Drops whatever has this number: an operation with what it has of its lock, or the guard, client or observer that
    /// it brought.
    #[napi]
    pub fn abandon(&self, id: i64) {
        self.tasks.cancel(id);
        let mut tables = self.tables.borrow_mut();
        let held = tables.held.remove(&id);
        let client = tables.clients.remove(&id);
        let observer = tables.observers.remove(&id);
        drop(tables);
        drop((held, client, observer));
    }

    /// Connects to a store.
    #[napi]
    pub fn connect(&self, id: i64, url: String, settings: ConnectSettings) -> Option<Answer> {
        let mut connect = Connect::new(&url);
        if let Some(who) = settings.who {
            connect = connect.who(who);
        }
        if let Some(waiter_lease) = settings.waiter_lease {
            connect = connect.waiter_lease(millis(waiter_lease));
        }
        if let Some(within) = settings.within {
            connect = connect.within(millis(within));
        }
        let (loading, queue) = (self.loading.clone(), self.queue.clone());
        let connect = connect.on_loading(move |why| {
            lock(&loading).push((id, why.to_owned()));
            queue.push(id);
        });
        self.start(id, async { Outcome::of(connect.open().await, Outcome::Client) })
    }

    /// Ends the connection of a client when all that was dropped is released, and with the last of its guards.
    #[napi]
    pub fn close(&self, id: i64, client: i64) -> Option<Answer> {
        let mut tables = self.tables.borrow_mut();
        let locks = tables.clients.remove(&client);
        tables.observers.retain(|_, watch| watch.client != client);
        drop(tables);
        self.start(id, async {
            if let Some(locks) = locks {
                locks.close().await;
            }
            Outcome::Done
        })
    }

    /// Returns the error for a guard that was released.
    #[napi]
    pub fn not_held(&self, name: String) -> Failure {
        let error = Name::new(&name).map_or_else(Error::from, |lock| Error::NotHeld { lock });
        (&error).into()
    }

    /// Returns the error for a client that was closed.
    #[napi]
    pub fn closed(&self) -> Failure {
        (&Error::Closed).into()
    }

    /// For the end of the process, when no promise is kept any more: gives up all places, releases all locks and waits
    /// for that, but no longer than a second.
    #[napi]
    pub fn end(&self) {
        let was_waiting = self.tasks.clear();
        let Tables { clients, held, observers } = self.tables.take();
        drop(observers);
        if !was_waiting && held.is_empty() {
            return;
        }
        let releases: Vec<_> = held.into_values().flat_map(Held::release).collect();
        farewell::wait_a_moment(async {
            for release in releases {
                // Its lease ends it, if the store does not answer.
                let _ = release.await;
            }
            for locks in clients.into_values() {
                locks.close().await;
            }
        });
    }
}

impl Binding {
    /// Begins an operation of a client.
    fn with<F>(&self, id: i64, client: i64, begin: impl FnOnce(&Locks) -> F) -> Option<Answer>
    where
        F: Future<Output = Outcome> + 'static,
    {
        let future = self.tables.borrow().clients.get(&client).map(begin);
        match future {
            Some(future) => self.start(id, future),
            None => Some(Answer::failed(&Error::Closed)),
        }
    }

    fn start(&self, id: i64, future: impl Future<Output = Outcome> + 'static) -> Option<Answer> {
        let outcome = self.tasks.start(id, future)?;
        Some(self.settle(id, outcome))
    }

    /// Keeps what an operation brought, and tells JavaScript of it.
    fn settle(&self, id: i64, outcome: Outcome) -> Answer {
        let default = Answer::default();
        match outcome {
            Outcome::Client(locks) => self.connected(id, locks),
            Outcome::Guard(Some(guard)) => self.granted(id, Held::One(guard)),
            Outcome::Begun(Some(Begun::Attempt(attempt))) => self.granted(id, Held::Work(attempt)),
            Outcome::Begun(Some(Begun::DoneBefore(done))) => Answer::of_completion(Some(&done)),
            Outcome::Guard(None) | Outcome::Begun(None) => {
                Answer { is_busy: Some(true), ..default }
            }
            Outcome::Completion(done) => Answer::of_completion(done.as_ref()),
            Outcome::All(all) => self.granted_all(id, all),
            Outcome::Handle(handle) => Answer::of_handle(&handle),
            Outcome::Lost(lock, cause) => Answer::failed(&Error::Lost { lock, cause }),
            Outcome::Observed(observer, seen_by, leader) => {
                self.tables.borrow_mut().observers.insert(observer, seen_by);
                Answer { leader: leader.map(Into::into), ..default }
            }
            Outcome::Done => default,
            Outcome::Changed(changed) => Answer { changed: Some(changed), ..default },
            Outcome::Number(number) => Answer { number: Some(number), ..default },
            Outcome::Leader(leader) => Answer { leader: leader.map(Into::into), ..default },
            Outcome::Lock(name, view) => {
                Answer { lock: view.map(|view| LockObject::new(&name, view)), ..default }
            }
            Outcome::List(locks) => {
                let locks = locks.into_iter().map(|(name, view)| LockObject::new(&name, view));
                Answer { locks: Some(locks.collect()), ..default }
            }
            Outcome::Failed(error) => Answer::failed(&error),
        }
    }

    fn connected(&self, id: i64, locks: Locks) -> Answer {
        let (client, guarantees) = (locks.client_id().to_string(), locks.guarantees());
        self.tables.borrow_mut().clients.insert(id, locks);
        let guarantees = GuaranteesObject {
            fair: guarantees.fair,
            fenced: guarantees.fenced,
            event_driven: guarantees.event_driven,
        };
        Answer { text: Some(client), guarantees: Some(guarantees), ..Answer::default() }
    }

    fn granted(&self, id: i64, held: Held) -> Answer {
        let Some(guard) = held.one() else { return Answer::default() };
        let (answer, lost, name) = (Answer::of_guard(guard), guard.lost(), guard.name().clone());
        self.tasks.watch(id, async { Outcome::Lost(name, lost.await) });
        self.tables.borrow_mut().held.insert(id, held);
        answer
    }

    fn granted_all(&self, id: i64, all: AllGuard) -> Answer {
        let lost = all.lost();
        self.tasks.watch(id, async {
            let (name, cause) = lost.await;
            Outcome::Lost(name, cause)
        });
        let guards = all.guards();
        let tokens = guards.iter().map(|guard| (guard.name().clone(), guard.token().fenced()));
        let answer = Answer::of_all(&tokens.collect::<Vec<_>>());
        self.tables.borrow_mut().held.insert(id, Held::All(all));
        answer
    }

    /// Takes a guard out of its table. From here on nobody is told of its loss.
    fn take(&self, guard: i64) -> Option<Held> {
        let held = self.tables.borrow_mut().held.remove(&guard);
        if held.is_some() {
            self.tasks.cancel(guard);
        }
        held
    }
}

impl Held {
    /// Returns the guard, unless there are several.
    fn one(&self) -> Option<&Guard> {
        match self {
            Self::One(guard) => Some(guard),
            Self::Work(attempt) => Some(attempt),
            Self::All(_) => None,
        }
    }

    /// Releases all of it. Work that is not done has failed.
    fn release(self) -> Vec<ReleaseFuture> {
        // The requests are sent here, all before the first is waited for.
        match self {
            Self::One(guard) => vec![guard.release()],
            Self::Work(attempt) => vec![attempt.fail()],
            Self::All(all) => all.into_guards().into_iter().map(Guard::release).collect(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
