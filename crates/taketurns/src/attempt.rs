//! One attempt to acquire, from the first request to the grant or the giving up.
//!
//! It runs on the driver, so it goes on whatever happens to the caller's runtime, and it cleans up
//! after itself however it ends: whoever stops waiting gives up the place, or the lock if it was
//! just granted. A request whose answer was not seen may still arrive: then its owner is buried.

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::client::{Anchor, Backoff, LossCause, Origin};
use taketurns_core::{Acquire, Ask, Grant, Label, Owner, Refusal, Reply, Request};
use tokio::sync::oneshot;

use crate::client::{Client, sleep_until_some, sleep_until_us};
use crate::clock::local_us;
use crate::engine::EngineError;
use crate::held::{Held, Terms, give_up};
use crate::waits::{Registration, Signal, Waits};
use crate::{Error, random};

/// An acquire that arrives at the engine later than this after its sending changes nothing.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);

/// What is wanted.
pub(crate) struct Attempt {
    pub(crate) client: Arc<Client>,
    pub(crate) terms: Terms,
    pub(crate) ask: Ask,
    pub(crate) label: Label,
    pub(crate) patience: Patience,
}

/// For how long.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    Try,
    /// Until this local time.
    Within { until_us: u64, within: Duration },
    /// For ever.
    Endless,
}

/// What may still be under way to the engine.
#[derive(Default)]
struct Traffic {
    /// The `not_after` of the last acquire sent.
    not_after_ms: u64,
    sent: u32,
    answered: u32,
    /// Any answer at all: the engine knew of us.
    placed: bool,
    /// Why the last request was not answered.
    trouble: Option<EngineError>,
}

impl Traffic {
    /// How long an acquire of ours may still arrive: not at all if each was answered.
    fn bury_until_ms(&self) -> u64 {
        if self.sent > self.answered { self.not_after_ms } else { 0 }
    }
}

/// Why the attempt goes no further.
enum Stop {
    /// Nobody waits for it any more.
    Cancelled,
    /// Its time is over.
    TimedOut,
    Failed(Error),
    Busy,
}

impl Attempt {
    /// Runs it. `Ok(None)` means that others hold the lock and it would not wait.
    pub(crate) async fn run(
        mut self,
        mut cancelled: oneshot::Receiver<std::convert::Infallible>,
    ) -> Result<Option<Arc<Held>>, Error> {
        let mut registration = Waits::register(&self.client, &self.terms.lock, self.terms.owner);
        let mut traffic = Traffic::default();
        let until_us = match self.patience {
            Patience::Within { until_us, .. } => Some(until_us),
            _ => None,
        };
        let stop = tokio::select! {
            // The end of the time given comes before a grant that arrives with it.
            biased;
            _ = &mut cancelled => Stop::Cancelled,
            () = sleep_until_some(until_us) => Stop::TimedOut,
            result = self.pursue(&mut registration, &mut traffic) => match result {
                Ok(held) => return Ok(Some(held)),
                Err(stop) => stop,
            },
        };
        let quarantine_left = registration.quarantine_left();
        drop(registration);
        let nothing_there = matches!(stop, Stop::Busy) || !traffic.placed;
        if traffic.bury_until_ms() > 0 || !nothing_there {
            self.clean_up(&traffic);
        }
        match stop {
            Stop::Busy => Ok(None),
            Stop::Failed(error) => Err(error),
            Stop::Cancelled => Err(Error::Closed),
            Stop::TimedOut if traffic.placed => Err(self.timeout(quarantine_left)),
            Stop::TimedOut => Err(self.no_answer(traffic)),
        }
    }

    async fn pursue(
        &mut self,
        registration: &mut Registration,
        traffic: &mut Traffic,
    ) -> Result<Arc<Held>, Stop> {
        let mut backoff = Backoff::default();
        loop {
            registration.asks();
            let signal = tokio::select! {
                biased;
                signal = registration.signal_while_asking() => signal,
                answer = self.ask(traffic) => match answer {
                    Ok((Reply::Granted(grant), (_, anchor))) => {
                        Signal::Granted { grant, anchor: Some(anchor) }
                    }
                    Ok((Reply::Queued(place), seen)) => {
                        backoff.reset();
                        registration.placed(place, seen);
                        registration.signal().await
                    }
                    Ok((Reply::Busy, _)) => return Err(Stop::Busy),
                    Ok((Reply::Refused(Refusal::Cancelled), _)) => {
                        Signal::Refused(Refusal::Cancelled)
                    }
                    Ok((Reply::Refused(refusal), (_, anchor))) => {
                        self.refused(refusal, anchor.engine_ms)?;
                        Signal::Rejoin
                    }
                    Ok((reply, _)) => {
                        let why = format!("an acquire was answered with {reply:?}");
                        return Err(Stop::Failed(Error::Store(why)));
                    }
                    Err(error) => {
                        self.endure(error)?;
                        Signal::Rejoin
                    }
                },
            };
            match signal {
                Signal::Granted { grant, anchor } => {
                    if let Some(held) = self.take(grant, anchor, traffic).await? {
                        if registration.was_revoked() {
                            held.lose(LossCause::Revoked);
                        }
                        return Ok(held);
                    }
                }
                Signal::Refused(Refusal::Cancelled) => self.start_over(registration, traffic),
                Signal::Refused(refusal) => self.refused(refusal, 0)?,
                // What was granted is broken, and nobody works under it yet: it is given back, and what
                // this owner is told of it from now on is old.
                Signal::Revoked => {
                    self.clean_up(traffic);
                    self.start_over(registration, traffic);
                    continue;
                }
                Signal::Rejoin => {}
            }
            tracing::debug!(lock = %self.terms.lock, "asking again");
            sleep_until_us(local_us() + backoff.pause_us(random::bits64())).await;
        }
    }

    /// This owner was given up, and is nobody any more.
    fn start_over(&mut self, registration: &mut Registration, traffic: &mut Traffic) {
        self.terms.owner = Owner::from_bits(random::bits128());
        *registration = Waits::register(&self.client, &self.terms.lock, self.terms.owner);
        *traffic = Traffic::default();
    }

    async fn ask(&self, traffic: &mut Traffic) -> Result<(Reply, (Origin, Anchor)), EngineError> {
        let waits = self.patience != Patience::Try;
        traffic.not_after_ms = self.client.engine_ms_in(&self.terms.lock, ARRIVES_WITHIN);
        traffic.sent += 1;
        let request = Request::Acquire(Acquire {
            owner: self.terms.owner,
            client: self.client.id,
            ask: self.ask.clone(),
            lease_ms: self.terms.lease_ms,
            waiter_lease_ms: waits.then_some(self.client.waiter_lease_ms),
            not_after_ms: traffic.not_after_ms,
            ballot: None,
            label: self.label.clone(),
        });
        let answer = self.client.call_at(&self.terms.lock, request).await;
        match &answer {
            Ok(_) => {
                traffic.answered += 1;
                traffic.placed = true;
            }
            Err(error) => {
                // A minority may have a place of ours, or a vote.
                let is_unknown =
                    matches!(error, EngineError::Unknown(_) | EngineError::NoQuorum(_));
                if !is_unknown {
                    traffic.answered += 1;
                }
                traffic.trouble = Some(error.clone());
            }
        }
        answer
    }

    /// A refusal that says more than "send it again".
    fn refused(&self, refusal: Refusal, now_ms: u64) -> Result<(), Stop> {
        let error = Error::from_refusal(&self.terms.lock, refusal, now_ms);
        error.map_or(Ok(()), |error| Err(Stop::Failed(error)))
    }

    /// A failure that an attempt with patience outlasts.
    fn endure(&self, error: EngineError) -> Result<(), Stop> {
        let hopeless = matches!(
            error,
            EngineError::Broken(_) | EngineError::Unsupported(_) | EngineError::Unfenced
        );
        if hopeless || self.patience == Patience::Try {
            return Err(Stop::Failed(Error::from_engine(&self.terms.lock, error)));
        }
        tracing::debug!(lock = %self.terms.lock, %error, "the store did not answer");
        Ok(())
    }

    /// Takes a grant if it can be relied on; else asks how long it is good for.
    async fn take(
        &mut self,
        grant: Grant,
        anchor: Option<Anchor>,
        traffic: &Traffic,
    ) -> Result<Option<Arc<Held>>, Stop> {
        self.terms.bury_until_ms = traffic.bury_until_ms();
        if let Some(anchor) = anchor
            && let Some(held) = Held::start(&self.client, &self.terms, grant, anchor)
        {
            return Ok(Some(held));
        }
        let Terms { owner, lease_ms, .. } = self.terms;
        let request = Request::Renew { owner, client: self.client.id, lease_ms, write_back: None };
        match self.client.call(&self.terms.lock, request).await {
            Ok((Reply::Renewed(grant), anchor)) => {
                Ok(Held::start(&self.client, &self.terms, grant, anchor))
            }
            Ok(_) => Ok(None),
            Err(error) => self.endure(error).map(|()| None),
        }
    }

    /// Whatever the engine may have of us, it is to forget. In the background: nobody waits for it.
    fn clean_up(&self, traffic: &Traffic) {
        let (client, lock) = (self.client.clone(), self.terms.lock.clone());
        let (owner, bury_until_ms) = (self.terms.owner, traffic.bury_until_ms());
        let longest_ms = self.terms.lease_ms.max(client.waiter_lease_ms);
        let until_us = local_us() + (longest_ms * 1_000) + ARRIVES_WITHIN.as_micros() as u64;
        self.client.spawn(async move {
            // That the engine has nothing of us is as good as that it forgot it.
            let _ = give_up(&client, &lock, owner, bury_until_ms, until_us).await;
        });
    }

    fn no_answer(&self, traffic: Traffic) -> Error {
        let why = match traffic.trouble {
            Some(EngineError::NoQuorum(trouble)) => return Error::NoQuorum(trouble),
            Some(error) => format!(": {error}"),
            None => String::new(),
        };
        let lock = &self.terms.lock;
        Error::Unreachable(format!("there was no answer for lock {lock} in the time given{why}"))
    }

    fn timeout(&self, quarantine_left: Option<Duration>) -> Error {
        let lock = self.terms.lock.clone();
        if let Some(left) = quarantine_left {
            return Error::Quarantined { lock, left };
        }
        let within = match self.patience {
            Patience::Within { within, .. } => within,
            _ => Duration::ZERO,
        };
        Error::Timeout { lock, within }
    }
}
