//! Turns that are handed on inside this process, without the store.
//!
//! ```text
//!   store:   ── grant, with tokens 7…10 ─────────────────────────────── release, 10 was used ──►
//!   here:    leader: turn 7 ─► next: turn 8 ─► next: turn 9 ─► next: turn 10 ┘
//!                                 the line: first come, first served         └─► the next one leads
//! ```
//!
//! Of those who want the same lock on the same terms, one leads: it asks the store as anybody does,
//! with tokens for several turns. The grant says how many there are. Whoever ends a turn hands the next
//! to the first in line, until the tokens are used up, the lock is lost, or it has been kept for the
//! length of a lease: then the lock goes back to the store, with the last token that was used, and the
//! first in line leads, from the tail of the store's queue.
//!
//! Invariants, all upheld under the one mutex: a line is there exactly as long as somebody leads it
//! or has a turn, and that is one at a time; who was told something by the line and goes away
//! without using it passes it on.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use taketurns_core::{Name, Token};

use crate::client::Client;
use crate::clock::local_us;
use crate::held::Held;
use crate::sync::{Arc, Mutex, MutexGuard, Weak, lock};

/// What is shared: a lock on these terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Course {
    pub(crate) lock: Name,
    pub(crate) lease_ms: u64,
    pub(crate) max_hold_us: Option<u64>,
    pub(crate) turns: u32,
}

/// All lines of one client.
#[derive(Default)]
pub(crate) struct Turns {
    lines: Mutex<BTreeMap<Arc<Course>, Line>>,
}

/// Who waits for one of this process to be done.
#[derive(Default)]
struct Line {
    waiting: BTreeMap<u64, Slot>,
    next: u64,
}

/// What one who waits was told, and how it hears of it. Told under the mutex of the lines.
type Slot = Arc<Mutex<(Option<Told>, Option<Waker>)>>;

/// What somebody is told by the line.
pub(crate) enum Told {
    Lead(Lead),
    Turn(Turn),
}

/// How somebody enters.
pub(crate) enum Entry {
    /// Nobody of this process is there.
    Leads(Lead),
    Waits(Place),
}

impl Turns {
    pub(crate) fn enter(client: &Arc<Client>, course: Course) -> Entry {
        let (client, course) = (client.clone(), Arc::new(course));
        let mut lines = client.turns.lines();
        let Some(line) = lines.get_mut(&course) else {
            lines.insert(course.clone(), Line::default());
            drop(lines);
            return Entry::Leads(Lead(Some((client, course))));
        };
        let (number, slot) = (line.next, Slot::default());
        line.next += 1;
        line.waiting.insert(number, slot.clone());
        drop(lines);
        Entry::Waits(Place { client, course, number, slot })
    }

    /// Tells the first of those who wait. Without any the line ends, and what would have been told
    /// is given back.
    fn tell(&self, course: &Arc<Course>, told: Told) -> Option<Told> {
        let mut lines = self.lines();
        let Some((_, slot)) = lines.get_mut(course).and_then(|line| line.waiting.pop_first())
        else {
            lines.remove(course);
            return Some(told);
        };
        let waker = {
            let mut slot = lock(&slot);
            slot.0 = Some(told);
            slot.1.take()
        };
        drop(lines);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<Arc<Course>, Line>> {
        lock(&self.lines)
    }
}

/// A place in the line.
pub(crate) struct Place {
    client: Arc<Client>,
    course: Arc<Course>,
    number: u64,
    slot: Slot,
}

impl Place {
    /// Resolves when it is its turn.
    pub(crate) async fn told(&self) -> Told {
        poll_fn(|context| {
            let mut slot = lock(&self.slot);
            match slot.0.take() {
                Some(told) => Poll::Ready(told),
                None => {
                    slot.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(line) = self.client.turns.lines().get_mut(&self.course) {
            line.waiting.remove(&self.number);
        }
        // From here on it is told nothing. What it was told and did not hear is passed on.
        let told = lock(&self.slot).0.take();
        drop(told);
    }
}

/// Asks the store, for all in the line. Dropped, it leaves that to the next.
pub(crate) struct Lead(Option<(Arc<Client>, Arc<Course>)>);

impl Lead {
    /// It holds the lock: here is the first turn.
    pub(crate) fn take(mut self, held: Arc<Held>) -> Option<Turn> {
        let (client, course) = self.0.take()?;
        let until_us = local_us().saturating_add(course.lease_ms.saturating_mul(1_000));
        let (token, left) = (held.token(), held.tokens().saturating_sub(1));
        Some(Turn::new(Seat { client, course, held, token, left, until_us }))
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some((client, course)) = self.0.take() {
            lead_on(&client, &course);
        }
    }
}

fn lead_on(client: &Arc<Client>, course: &Arc<Course>) {
    let lead = Lead(Some((client.clone(), course.clone())));
    if let Some(Told::Lead(mut nobodys)) = client.turns.tell(course, Told::Lead(lead)) {
        nobodys.0 = None;
    }
}

/// One turn. Dropped, it is handed on, or the lock goes back.
pub(crate) struct Turn {
    seat: Option<Seat>,
    /// Whoever asks to be told of a loss learns by it that the turn was over before.
    mark: Arc<()>,
}

/// What is handed on.
struct Seat {
    client: Arc<Client>,
    course: Arc<Course>,
    held: Arc<Held>,
    token: Option<Token>,
    /// How many turns may follow.
    left: u32,
    /// From then on it is others' turn.
    until_us: u64,
}

impl Turn {
    fn new(seat: Seat) -> Self {
        Self { seat: Some(seat), mark: Arc::new(()) }
    }

    pub(crate) fn held(&self) -> Option<&Arc<Held>> {
        self.seat.as_ref().map(|seat| &seat.held)
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.seat.as_ref().and_then(|seat| seat.token)
    }

    pub(crate) fn mark(&self) -> Weak<()> {
        Arc::downgrade(&self.mark)
    }

    /// Ends it. What is to go back to the store, if nobody of this process is next.
    pub(crate) fn end(mut self) -> Option<Arc<Held>> {
        self.seat.take().and_then(Seat::pass_on)
    }

    /// Ends it, whoever is next: the lock is somebody else's to give back.
    pub(crate) fn leave(mut self) {
        if let Some(Seat { client, course, .. }) = self.seat.take() {
            lead_on(&client, &course);
        }
    }

    /// The lock was lost before the turn began: somebody has to ask the store anew.
    pub(crate) fn lead(mut self) -> Option<Lead> {
        let Seat { client, course, held, .. } = self.seat.take()?;
        held.abandon();
        Some(Lead(Some((client, course))))
    }
}

impl Seat {
    fn pass_on(mut self) -> Option<Arc<Held>> {
        let (client, course, held) = (self.client.clone(), self.course.clone(), self.held.clone());
        if self.left == 0 || held.loss().is_some() || local_us() >= self.until_us {
            lead_on(&client, &course);
            return Some(held);
        }
        let last_used = self.token;
        self.left -= 1;
        self.token = self.token.map(|token| Token::from_raw(token.raw() + 1));
        if !held.use_token(self.token) {
            lead_on(&client, &course);
            return Some(held);
        }
        match client.turns.tell(&course, Told::Turn(Turn::new(self))) {
            Some(Told::Turn(mut nobodys)) => nobodys.seat.take().map(|_| {
                held.unuse_token(last_used);
                held
            }),
            _ => None,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(held) = self.seat.take().and_then(Seat::pass_on) {
            held.abandon();
        }
    }
}
