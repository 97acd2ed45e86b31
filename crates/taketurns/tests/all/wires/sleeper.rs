//! A client that never asks by itself. Whatever ends its wait is then proof of a wake-up, however long it
//! took: no refresh can have found it out.
//!
//! ```text
//!   client ── refresh ──▶ Sleeping ── only after a wake-up, or a look that the last answer asked for ──▶ server
//!          ◀── wakes ────            ◀──────────────────────────────────────────────────────────────────
//! ```

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use taketurns::engine::{
    Answer, AnswerFuture, Engine, EngineError, EngineEvent, EngineFuture, Guarantees, Open,
    Pattern, Reply, Request, Stamp, Wakes,
};
use taketurns::{ClientId, Name, View};

use super::*;

/// A holder's lease ends later than this. A stranger is looked at sooner.
const LOOK_MS_MAX: u64 = 5_000;

/// What a sleeper may ask without being woken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// Whether a stranger is still in the way, when the last answer said to look again soon.
    AtStrangers,
    /// Nothing.
    Never,
}

/// Connects a sleeper.
pub(super) async fn sleeper(url: &str, looks: Looks) -> Locks {
    let opener = OpenSleeping { url: url.to_owned(), looks };
    // Its places last for this long, since nothing refreshes them.
    let connect = Connect::engine(opener).waiter_lease(Duration::from_secs(60));
    soon("connecting", connect.open()).await.expect("a server")
}

struct OpenSleeping {
    url: String,
    looks: Looks,
}

struct Sleeping {
    engine: Arc<dyn Engine>,
    looks: Looks,
    reasons: Arc<Mutex<Reasons>>,
}

/// Why a refresh may be sent.
#[derive(Default)]
struct Reasons {
    /// The locks that were asked about.
    known: HashSet<Name>,
    woken: HashSet<Name>,
    look_again: HashSet<Name>,
}

impl Open for OpenSleeping {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let (inner, mut woken) = wakes.intercept();
            let engine = taketurns::engine::open(&self.url, client, inner).await;
            let engine = engine.map_err(|error| EngineError::Broken(error.to_string()))?;
            let engine: Arc<dyn Engine> = engine.into();
            let reasons = Arc::<Mutex<Reasons>>::default();
            let heard = reasons.clone();
            tokio::spawn(async move {
                while let Some(woken) = woken.recv().await {
                    with(&heard, |reasons| reasons.hear(&woken));
                    wakes.push(woken);
                }
            });
            Ok(Box::new(Sleeping { engine, looks: self.looks, reasons }) as Box<dyn Engine>)
        })
    }
}

fn with<T>(reasons: &Mutex<Reasons>, change: impl FnOnce(&mut Reasons) -> T) -> T {
    change(&mut reasons.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Reasons {
    fn hear(&mut self, woken: &EngineEvent) {
        match woken {
            EngineEvent::Wake { lock, .. } | EngineEvent::LockChanged { lock } => {
                self.woken.insert(lock.clone());
            }
            EngineEvent::Recheck => self.woken.extend(self.known.iter().cloned()),
            _ => {}
        }
    }

    fn take(&mut self, lock: &Name, looks: Looks) -> bool {
        self.woken.remove(lock) || looks == Looks::AtStrangers && self.look_again.contains(lock)
    }

    fn answered(&mut self, lock: &Name, answer: &Answer) {
        let recheck_ms = match &answer.reply {
            Reply::Queued(place) => place.recheck_ms,
            Reply::Refreshed { recheck_ms, .. } => *recheck_ms,
            _ => return,
        };
        let is_soon = |at_ms: u64| at_ms.saturating_sub(answer.stamp.now_ms) < LOOK_MS_MAX;
        match recheck_ms.is_some_and(is_soon) {
            true => self.look_again.insert(lock.clone()),
            false => self.look_again.remove(lock),
        };
    }
}

impl Engine for Sleeping {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (engine, reasons) = (self.engine.clone(), self.reasons.clone());
        let (looks, lock) = (self.looks, lock.clone());
        AnswerFuture::later(async move {
            let is_refresh = matches!(request, Request::Refresh { .. });
            let may_ask = with(&reasons, |reasons| {
                reasons.known.insert(lock.clone());
                !is_refresh || reasons.take(&lock, looks)
            });
            if !may_ask {
                return Err(EngineError::Unreachable("it sleeps".to_owned()));
            }
            // As several, which is how a client refreshes: then it listens anew where that is needed.
            let mut answers = match is_refresh {
                true => engine.call_all(vec![(lock.clone(), request)]).await,
                false => vec![engine.call(&lock, request).await],
            };
            let answer = answers.pop().expect("one answer")?;
            with(&reasons, |reasons| reasons.answered(&lock, &answer));
            Ok(answer)
        })
    }

    fn source(&self, lock: &Name) -> u64 {
        self.engine.source(lock)
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        self.engine.ping()
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        self.engine.view(lock, waiters_max)
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        self.engine.list(pattern, after, max, waiters_max)
    }

    fn max_lease(&self) -> Duration {
        self.engine.max_lease()
    }

    fn guarantees(&self) -> Guarantees {
        self.engine.guarantees()
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.engine.close()
    }
}
