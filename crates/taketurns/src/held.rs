//! A held lock: its state, shared by the guard and the task that renews all guards
//! ([`crate::guards`]).
//!
//! Invariant: once anybody was told that the lock is lost, nobody is told that it is held. The
//! [`Hold`] under the mutex upholds it, and everyone asks that.

use std::sync::OnceLock;
use std::time::Duration;

use taketurns_core::client::{Anchor, Due, Hold, LossCause};
use taketurns_core::{Grant, Member, Name, Owner, Reply, Request, Token};
use tokio::sync::watch;

use crate::client::Client;
use crate::clock::local_us;
use crate::engine::EngineError;
use crate::giving_up::give_up;
use crate::meter::{self, Ended, Renewal};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::{Error, random};

/// One held lock.
pub(crate) struct Held {
    client: Arc<Client>,
    lock: Name,
    owner: Owner,
    token: Option<Token>,
    /// How many tokens in a row are ours, for local turns.
    tokens: u32,
    member: Option<Member>,
    lease_ms: u64,
    /// When it was taken.
    since_us: u64,
    /// Until when an acquire of the same owner may still be under way; 0 if none can be.
    bury_until_ms: u64,
    state: Mutex<State>,
    /// Made for whoever asks first to be told.
    lost: OnceLock<watch::Sender<Option<LossCause>>>,
}

struct State {
    hold: Hold,
    /// The token of the last turn that was begun with it.
    last_used: Option<Token>,
    /// How long the last grant or renewal was for.
    span: Duration,
    /// Released, or made a handle: nothing renews it any more.
    over: bool,
    /// A renewal is under way.
    renewing: bool,
    /// That it is lost was said.
    announced: bool,
    /// Why the last renewal failed, if it did.
    trouble: Option<String>,
    /// As long as somebody has it, and it is not lost.
    watched: Option<meter::Hold>,
}

/// What a hold is made of.
pub(crate) struct Terms {
    pub(crate) lock: Name,
    pub(crate) owner: Owner,
    pub(crate) lease_ms: u64,
    pub(crate) max_hold_us: Option<u64>,
    pub(crate) bury_until_ms: u64,
}

impl Held {
    /// Takes a grant, and starts to renew it. `None` if it is over already by our own clock.
    pub(crate) fn start(
        client: &Arc<Client>,
        terms: &Terms,
        grant: Grant,
        anchor: Anchor,
    ) -> Option<Arc<Self>> {
        let now_us = local_us();
        let valid_until_us = anchor.valid_until_us(grant.deadline_ms);
        if valid_until_us <= now_us {
            return None;
        }
        let hold = Hold::new(now_us, valid_until_us, terms.lease_ms, terms.max_hold_us);
        let span = Duration::from_micros(valid_until_us - now_us);
        let held = Arc::new(Self {
            client: client.clone(),
            lock: terms.lock.clone(),
            owner: terms.owner,
            token: grant.token,
            tokens: grant.tokens,
            member: grant.member,
            lease_ms: terms.lease_ms,
            since_us: now_us,
            bury_until_ms: terms.bury_until_ms,
            state: Mutex::new(State {
                hold,
                last_used: grant.token,
                span,
                over: false,
                renewing: false,
                announced: false,
                trouble: None,
                watched: Some(meter::Hold::begin(now_us)),
            }),
            lost: OnceLock::new(),
        });
        let due_us = held.next_due_us(now_us);
        client.register_guard(&held, due_us);
        Some(held)
    }

    pub(crate) fn name(&self) -> &Name {
        &self.lock
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.token
    }

    /// How many tokens in a row, beginning with its own, are for local turns.
    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// A further turn is to begin, with this token. Not if the lock is lost or on its way back: then the
    /// store may give that token to somebody else.
    pub(crate) fn use_token(&self, token: Option<Token>) -> bool {
        let mut state = self.state();
        let may = !state.over && state.hold.lost(local_us()).is_none();
        if may {
            state.last_used = token;
        }
        may
    }

    /// The last turn that was to begin did not: nobody wanted it.
    pub(crate) fn unuse_token(&self, last_used: Option<Token>) {
        self.state().last_used = last_used;
    }

    /// Is it the grant with this token? Without tokens there is nothing to tell grants apart by.
    pub(crate) fn is_of(&self, token: Option<Token>) -> bool {
        self.token.is_none() || token.is_none() || self.token == token
    }

    pub(crate) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    pub(crate) fn since_us(&self) -> u64 {
        self.since_us
    }

    pub(crate) fn bury_until_ms(&self) -> u64 {
        self.bury_until_ms
    }

    /// Why it is lost, if it is. Looks at the clock, so it needs no task to have run.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        let loss = self.state().hold.lost(local_us());
        if let Some(cause) = loss {
            self.announce(cause);
        }
        loss
    }

    pub(crate) fn left(&self) -> Duration {
        if self.loss().is_some() {
            return Duration::ZERO;
        }
        Duration::from_micros(self.state().hold.valid_until_us().saturating_sub(local_us()))
    }

    pub(crate) fn span(&self) -> Duration {
        self.state().span
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<LossCause>> {
        let lost = self.lost.get_or_init(|| watch::channel(None).0).subscribe();
        // It may have been said before anybody could be told.
        self.loss();
        lost
    }

    /// The engine said that it is over.
    pub(crate) fn lose(&self, cause: LossCause) {
        let now_us = local_us();
        self.state().hold.handle_loss(now_us, cause);
        self.loss();
        self.client.guards.schedule(self.owner, now_us);
    }

    /// What is due, or will be within so long.
    pub(crate) fn due(&self, now_us: u64, soon_us: u64) -> Due {
        let mut state = self.state();
        let due = state.hold.poll_early(now_us, soon_us);
        let valid_until_us = state.hold.valid_until_us();
        match due {
            Due::Renew { .. } if state.renewing => Due::Wait { until_us: valid_until_us },
            Due::Renew { .. } => {
                state.renewing = true;
                drop(state);
                self.client.guards.schedule(self.owner, valid_until_us);
                due
            }
            due => due,
        }
    }

    fn next_due_us(&self, now_us: u64) -> u64 {
        match self.state().hold.poll(now_us) {
            Due::Wait { until_us } => until_us,
            _ => now_us,
        }
    }

    /// It is lost, and the engine may not know.
    pub(crate) fn is_over(self: &Arc<Self>, cause: LossCause) {
        self.announce(cause);
        self.client.forget_guard(self.owner);
        // Whoever works under a lock that was broken has until its deadline to stop, and the engine,
        // which renews it no more, passes it on then. Else a renewal may be answered yet, and nobody
        // would keep what it renewed.
        if cause == LossCause::Revoked {
            return;
        }
        // First this: as long as its guard is there, the client does not end before we are done.
        let Some(busy) = self.client.busy() else { return };
        if !self.state().over {
            let held = self.clone();
            drop(self.client.start(async move {
                let _ = held.release().await;
                drop(busy);
            }));
        }
    }

    /// A renewal, or a refresh that counted as one, was granted.
    pub(crate) fn renewed(&self, anchor: Anchor, deadline_ms: u64) {
        let now_us = local_us();
        let mut state = self.state();
        if state.hold.handle_renewed(now_us, anchor, deadline_ms) {
            state.span = Duration::from_micros(state.hold.valid_until_us().saturating_sub(now_us));
            state.trouble = None;
        }
    }

    /// Nobody wants it any more: releases it in the background, once.
    pub(crate) fn abandon(self: &Arc<Self>) {
        if self.end() {
            // It ends with its lease at the latest, and nobody waits for the answer.
            let held = self.clone();
            drop(self.client.start(async move { held.release().await }));
        }
    }

    /// The next of this process has it.
    pub(crate) fn begin_turn(&self) {
        let mut state = self.state();
        if !state.announced {
            state.watched = Some(meter::Hold::begin(local_us()));
        }
    }

    /// Whoever had it lets go of it. Answers for how long it was held, unless it was lost before.
    pub(crate) fn let_go(&self, how: Ended) -> Option<u64> {
        let watched = self.state().watched.take();
        watched.map(|hold| hold.end(how))
    }

    /// Nothing renews it any more. True the first time.
    pub(crate) fn end(&self) -> bool {
        let first = !std::mem::replace(&mut self.state().over, true);
        self.client.forget_guard(self.owner);
        first
    }

    pub(crate) fn renewal(&self, lease_ms: u64) -> Request {
        Request::Renew { owner: self.owner, client: self.client.id, lease_ms, write_back: None }
    }

    /// Renews now, whatever the schedule says.
    pub(crate) async fn renew(&self, lease_ms: u64) -> Result<(), Error> {
        let answer = self.client.call(&self.lock, self.renewal(lease_ms)).await;
        self.renewed_or(answer)
    }

    /// The renewal that was due was answered.
    pub(crate) fn renewal_answered(&self, answer: Result<(Reply, Anchor), EngineError>) {
        let result = self.renewed_or(answer);
        let now_us = local_us();
        let mut state = self.state();
        state.renewing = false;
        if let Err(error) = result {
            tracing::debug!(lock = %self.lock, %error, "a renewal failed");
            state.hold.handle_failure(now_us, random::bits64());
            state.trouble = Some(error.to_string());
        }
        drop(state);
        self.client.guards.schedule(self.owner, self.next_due_us(now_us));
    }

    fn renewed_or(&self, answer: Result<(Reply, Anchor), EngineError>) -> Result<(), Error> {
        meter::renewal(Renewal::of(&answer));
        match answer {
            Ok((Reply::Renewed(grant), anchor)) => self.renewed(anchor, grant.deadline_ms),
            Ok((Reply::Revoked, _)) => self.lose(LossCause::Revoked),
            Ok((Reply::NotHeld, _)) => self.lose(LossCause::Gone),
            Ok((reply, _)) => {
                return Err(Error::Store(format!("a renewal was answered with {reply:?}")));
            }
            Err(error) => return Err(Error::from_engine(&self.lock, error)),
        }
        match self.loss() {
            Some(cause) => Err(Error::Lost { lock: self.lock.clone(), cause }),
            None => Ok(()),
        }
    }

    /// Gives the lock back. Tries for as long as the lease may still be standing.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        self.give_back(self.loss()).await
    }

    /// The same, if it is known why it is lost, or that it is not.
    pub(crate) async fn give_back(&self, lost: Option<LossCause>) -> Result<(), Error> {
        let for_us = self.lease_ms * 1_000;
        let last_used = self.state().last_used.filter(|_| self.tokens > 1);
        let bury_until_ms = self.bury_until_ms;
        let release =
            give_up(&self.client, &self.lock, self.owner, bury_until_ms, last_used, for_us);
        let released = release.await;
        match (lost, released) {
            (Some(cause), _) => Err(Error::Lost { lock: self.lock.clone(), cause }),
            (None, result) => result,
        }
    }

    fn announce(&self, cause: LossCause) {
        let (first, watched) = {
            let mut state = self.state();
            let first = !std::mem::replace(&mut state.announced, true) && !state.over;
            (first, state.watched.take())
        };
        if first {
            tracing::warn!(name: "taketurns.lost", lock = %self.lock, %cause, "the lock was lost");
            meter::lost(cause);
        }
        if let Some(hold) = watched {
            hold.end(Ended::Lost);
        }
        if let Some(lost) = self.lost.get() {
            lost.send_if_modified(|known| known.replace(cause).is_none());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
