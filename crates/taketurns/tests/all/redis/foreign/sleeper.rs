//! A client that never asks by itself. Whatever ends its wait is then proof of a wake-up, however long it
//! took: no refresh can have found it out.
//!
//! ```text
//!   client ── refresh ──▶ Sleeping ── only after a wake-up, or a look that the last answer asked for ──▶ server
//!          ◀── wakes ────            ◀──────────────────────────────────────────────────────────────────
//! ```

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use taketurns::engine::{Answer, Engine, EngineError, EngineEvent, Reply, Request, Wakes};
use taketurns::{ClientId, Name};
use taketurns_conformance::hooks::{HookedEngine, HookedStore, Hooks};

use super::*;

/// A holder's lease ends later than this. A foreign client is looked at sooner.
const LOOK_MS_MAX: u64 = 5_000;

/// What a sleeper may ask without being woken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowedLooks {
    /// Whether a foreign client is still in the way, when the last answer said to look again soon.
    AtForeignClients,
    /// Nothing.
    Never,
}

/// Connects a sleeper.
pub(super) async fn sleeper(url: &str, looks: AllowedLooks) -> Locks {
    let sleeping = SleeperHooks { url: url.to_owned(), looks, reasons: Arc::default() };
    // Its places last for this long, since nothing refreshes them.
    let connect = Connect::engine(HookedStore(sleeping)).waiter_lease(Duration::from_secs(60));
    soon("connecting", connect.open()).await.expect("a server")
}

struct SleeperHooks {
    url: String,
    looks: AllowedLooks,
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

impl Hooks for SleeperHooks {
    async fn open(&self, client: ClientId, wakes: Wakes) -> Result<Box<dyn Engine>, EngineError> {
        let (inner, mut woken) = wakes.intercept();
        let engine = taketurns::engine::open(&self.url, client, inner).await;
        let heard = self.reasons.clone();
        tokio::spawn(async move {
            while let Some(woken) = woken.recv().await {
                with(&heard, |reasons| reasons.hear(&woken));
                wakes.push(woken);
            }
        });
        engine.map_err(|error| EngineError::Broken(error.to_string()))
    }

    async fn call(
        on: Arc<HookedEngine<Self>>,
        lock: Name,
        request: Request,
    ) -> Result<Answer, EngineError> {
        let HookedEngine { engine, hooks: Self { looks, reasons, .. } } = &*on;
        let is_refresh = matches!(request, Request::Refresh { .. });
        let may_ask = with(reasons, |reasons| {
            reasons.known.insert(lock.clone());
            !is_refresh || reasons.take(&lock, *looks)
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
        with(reasons, |reasons| reasons.answered(&lock, &answer));
        Ok(answer)
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

    fn take(&mut self, lock: &Name, looks: AllowedLooks) -> bool {
        self.woken.remove(lock)
            || looks == AllowedLooks::AtForeignClients && self.look_again.contains(lock)
    }

    fn answered(&mut self, lock: &Name, answer: &Answer) {
        let recheck_ms = match &answer.reply {
            Reply::Queued(place) => place.recheck_ms,
            Reply::Refreshed { recheck_ms, .. } => *recheck_ms,
            _ => return,
        };
        let is_soon =
            |at_ms: u64| at_ms.saturating_sub(answer.stamp.expect("a time").now_ms) < LOOK_MS_MAX;
        match recheck_ms.is_some_and(is_soon) {
            true => self.look_again.insert(lock.clone()),
            false => self.look_again.remove(lock),
        };
    }
}
