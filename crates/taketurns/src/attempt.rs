//! One attempt to acquire, from the first request to the grant or the giving up.
//!
//! Whoever wants the lock polls it: a thread of our own between the two would cost two changes of
//! thread for each request. Meanwhile the driver keeps its place alive. It cleans up after itself
//! however it ends, on the driver: whoever stops waiting gives up the place, or the lock if it was
//! just granted. A request whose answer was not seen may still arrive: then its owner is buried.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use taketurns_core::client::{Anchor, Backoff, LossCause, Origin};
use taketurns_core::{Acquire, Ask, Grant, Label, Owner, Refusal, Reply, Request, Token};

use crate::client::{Client, sleep_until_some, sleep_until_us};
use crate::clock::local_us;
use crate::engine::EngineError;
use crate::giving_up::give_up;
use crate::held::{Held, Terms};
use crate::meter;
use crate::signals::Signal;
use crate::turns::Course;
use crate::waits::{Registration, Waits};
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
    traffic: Traffic,
    /// The tokens of grants of this owner that were broken, by what it was told.
    revoked: BTreeSet<Token>,
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

/// What may still be under way to the engine, or be there.
#[derive(Default)]
struct Traffic {
    /// The `not_after` of the last acquire sent.
    not_after_ms: u64,
    sent: u32,
    answered: u32,
    /// Any answer at all: the engine knew of us.
    placed: bool,
    /// It said that it has nothing of us.
    turned_away: bool,
    /// Why the last request was not answered.
    trouble: Option<EngineError>,
}

impl Traffic {
    /// How long an acquire of ours may still arrive: not at all if each was answered.
    fn bury_until_ms(&self) -> u64 {
        if self.sent > self.answered { self.not_after_ms } else { 0 }
    }

    /// May the engine have something of us, now or later?
    fn leaves_something(&self) -> bool {
        self.bury_until_ms() > 0 || self.placed && !self.turned_away
    }
}

/// Why the attempt goes no further.
enum Stop {
    /// Its time is over.
    TimedOut,
    Failed(Error),
    Busy,
}

impl Attempt {
    pub(crate) fn new(
        client: Arc<Client>,
        terms: Terms,
        ask: Ask,
        label: Label,
        patience: Patience,
    ) -> Self {
        let (traffic, revoked) = (Traffic::default(), BTreeSet::new());
        Self { client, terms, ask, label, patience, traffic, revoked }
    }

    /// With whom of this process it takes turns, if it does.
    pub(crate) fn course(&self) -> Option<Course> {
        let Ask::Turns { tokens: turns } = self.ask else { return None };
        let Terms { lease_ms, max_hold_us, .. } = self.terms;
        let waits = self.patience != Patience::Try;
        waits.then(|| Course { lock: self.terms.lock.clone(), lease_ms, max_hold_us, turns })
    }

    /// What comes while there is patience.
    pub(crate) async fn in_time<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = sleep_until_some(self.until_us()) => Err(self.timeout(None)),
            output = future => Ok(output),
        }
    }

    fn until_us(&self) -> Option<u64> {
        match self.patience {
            Patience::Within { until_us, .. } => Some(until_us),
            _ => None,
        }
    }

    /// Runs it. `Ok(None)` means that others hold the lock and it would not wait.
    pub(crate) async fn run(mut self) -> Result<Option<Arc<Held>>, Error> {
        let mut registration = Waits::register(&self.client, &self.terms.lock, self.terms.owner);
        let until_us = self.until_us();
        let stop = tokio::select! {
            // The end of the time given comes before a grant that arrives with it.
            biased;
            () = sleep_until_some(until_us) => Stop::TimedOut,
            result = self.pursue(&mut registration) => match result {
                Ok(held) => return Ok(Some(held)),
                Err(stop) => stop,
            },
        };
        match stop {
            Stop::Busy => Ok(None),
            Stop::Failed(error) => Err(error),
            Stop::TimedOut if self.traffic.placed => {
                Err(self.timeout(registration.quarantine_left()))
            }
            Stop::TimedOut => Err(self.no_answer()),
        }
    }

    async fn pursue(&mut self, registration: &mut Registration) -> Result<Arc<Held>, Stop> {
        let mut backoff = Backoff::default();
        let mut news = None;
        loop {
            let signal = match news.take() {
                Some(signal) => signal,
                None => self.ask_and_wait(registration, &mut backoff).await?,
            };
            match signal {
                // The wake-up came after the news that its grant was broken: only an answer tells whether
                // this owner has that grant still, or a place by now.
                Signal::Granted { grant, .. } if self.is_revoked(&grant) => continue,
                Signal::Granted { grant, anchor } => {
                    if let Some(held) = self.take(grant, anchor).await? {
                        if registration.was_revoked(&held) {
                            held.lose(LossCause::Revoked);
                        }
                        return Ok(held);
                    }
                }
                Signal::Refused(Refusal::Cancelled) => self.start_over(registration),
                Signal::Refused(refusal) => self.refused(refusal, 0)?,
                // It may be old, and this owner have a place: so it asks again as the same owner.
                Signal::Revoked { token: Some(token) } => {
                    self.revoked.insert(token);
                    continue;
                }
                // What was granted is broken, and nobody works under it yet: it is given back, and what
                // this owner is told of it from now on is old.
                Signal::Revoked { token: None } => {
                    self.clean_up();
                    self.start_over(registration);
                    continue;
                }
                Signal::Rejoin => {}
            }
            tracing::debug!(lock = %self.terms.lock, "asking again");
            let until_us = local_us() + backoff.pause_us(random::bits64());
            // What comes during the pause need not be asked for.
            tokio::select! {
                biased;
                signal = registration.signal_while_asking() => news = Some(self.heard(signal)),
                () = sleep_until_us(until_us) => {}
            }
        }
    }

    /// Asks, and waits in the place that it is given.
    async fn ask_and_wait(
        &mut self,
        registration: &mut Registration,
        backoff: &mut Backoff,
    ) -> Result<Signal, Stop> {
        registration.asks();
        let answer = tokio::select! {
            biased;
            signal = registration.signal_while_asking() => return Ok(self.heard(signal)),
            answer = self.ask() => answer,
        };
        match answer {
            Ok((Reply::Granted(grant), _)) if self.is_revoked(&grant) => {
                Ok(Signal::Revoked { token: None })
            }
            Ok((Reply::Granted(grant), (_, anchor))) => {
                Ok(Signal::Granted { grant, anchor: Some(anchor) })
            }
            Ok((Reply::Queued(place), seen)) => {
                backoff.reset();
                registration.placed(place, seen);
                let signal = registration.signal().await;
                Ok(self.heard(signal))
            }
            Ok((Reply::Busy, _)) => {
                self.traffic.turned_away = true;
                Err(Stop::Busy)
            }
            Ok((Reply::Refused(Refusal::Cancelled), _)) => Ok(Signal::Refused(Refusal::Cancelled)),
            Ok((Reply::Refused(refusal), (_, anchor))) => {
                self.refused(refusal, anchor.engine_ms)?;
                Ok(Signal::Rejoin)
            }
            Ok((reply, _)) => {
                let why = format!("an acquire was answered with {reply:?}");
                Err(Stop::Failed(Error::Store(why)))
            }
            Err(error) => {
                self.endure(error)?;
                Ok(Signal::Rejoin)
            }
        }
    }

    /// A grant that was waited for was under way for a while.
    fn heard(&self, signal: Signal) -> Signal {
        if let Signal::Granted { grant, anchor: Some(anchor) } = &signal
            && self.client.engine.guarantees().event_driven
        {
            let lease_ms = self.terms.lease_ms.min(self.client.waiter_lease_ms);
            meter::granted_late(*anchor, grant.deadline_ms, lease_ms);
        }
        signal
    }

    /// This owner was given up, and is nobody any more.
    fn start_over(&mut self, registration: &mut Registration) {
        self.terms.owner = Owner::from_bits(random::bits128());
        *registration = Waits::register(&self.client, &self.terms.lock, self.terms.owner);
        self.traffic = Traffic::default();
        self.revoked.clear();
    }

    /// Was it told that this grant is broken?
    fn is_revoked(&self, grant: &Grant) -> bool {
        grant.token.is_some_and(|token| self.revoked.contains(&token))
    }

    async fn ask(&mut self) -> Result<(Reply, (Origin, Anchor)), EngineError> {
        let traffic = &mut self.traffic;
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
    ) -> Result<Option<Arc<Held>>, Stop> {
        self.terms.bury_until_ms = self.traffic.bury_until_ms();
        if let Some(anchor) = anchor
            && let Some(held) = self.hold(grant, anchor)
        {
            return Ok(Some(held));
        }
        let Terms { owner, lease_ms, .. } = self.terms;
        let request = Request::Renew { owner, client: self.client.id, lease_ms, write_back: None };
        match self.client.call(&self.terms.lock, request).await {
            Ok((Reply::Renewed(grant), anchor)) => Ok(self.hold(grant, anchor)),
            Ok(_) => Ok(None),
            Err(error) => self.endure(error).map(|()| None),
        }
    }

    /// From here on it is the guard's to give it back.
    fn hold(&mut self, grant: Grant, anchor: Anchor) -> Option<Arc<Held>> {
        let held = Held::start(&self.client, &self.terms, grant, anchor)?;
        self.traffic = Traffic::default();
        Some(held)
    }

    /// Whatever the engine may have of us, it is to forget. In the background: nobody waits for it.
    fn clean_up(&self) {
        let (client, lock) = (self.client.clone(), self.terms.lock.clone());
        let (owner, bury_until_ms) = (self.terms.owner, self.traffic.bury_until_ms());
        let longest_ms = self.terms.lease_ms.max(client.waiter_lease_ms);
        let for_us = (longest_ms * 1_000) + ARRIVES_WITHIN.as_micros() as u64;
        // That the engine has nothing of us is as good as that it forgot it.
        drop(self.client.start(async move {
            give_up(&client, &lock, owner, bury_until_ms, None, for_us).await
        }));
    }

    fn no_answer(&self) -> Error {
        let why = match &self.traffic.trouble {
            Some(EngineError::NoQuorum(trouble)) => return Error::NoQuorum(trouble.clone()),
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

/// Nobody waits for it any more, or it has failed.
impl Drop for Attempt {
    fn drop(&mut self) {
        if self.traffic.leaves_something() {
            self.clean_up();
        }
    }
}
