//! Where a connection is read: on our own thread, the keeper, or on the runtime of the caller.
//!
//! ```text
//!   a task asks, and no other waits ─► its runtime reads ─┬─ has not turned for 20 ms ─┐
//!                                                         ├─ many wait ────────────────┼─► the keeper reads
//!                                                         └─ has ended ────────────────┘
//! ```
//!
//! An answer that is read where it is awaited changes no thread, which saves a sixth of the time of a lone request
//! and nearly half of its CPU time. But a runtime may block or end, so it has the reader only while it turns. The
//! keeper has all timers. It looks every 20 ms while a caller reads, and takes the reader back if nothing was read:
//! so a client that is idle, waits or only holds locks is read by the keeper, which needs no timer for that.
//!
//! Many tasks at once are read by the keeper: there the answers of one read wake tasks on all cores.
//!
//! **One reads at a time.** A task that reads has the mutex of the reader, and `place` is its own number. Only a task
//! that has the mutex changes `place`, but for [`CallerReader`], which gives up its own number when it is dropped.
//!
//! **No byte stays unread.** A new place polls at once: the keeper after it took the reader, a caller's task since it
//! is new. If that task never runs or is dropped, the keeper finds out, by the timer or by `place`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use super::mux::{Lost, Shared};
use super::reader::Reader;
use crate::sync::lock;

/// The place of the keeper. Those of callers' tasks count from 1.
pub(super) const KEEPER: u64 = 0;
/// The task of a caller had the reader, and was dropped.
const ABANDONED: u64 = u64::MAX;
/// With more requests than this unanswered at a tick, the keeper reads.
const CROWD: usize = 8;

pub(super) struct ReaderSlot {
    /// `None` once the connection is over.
    reader: Mutex<Option<Reader>>,
    place: AtomicU64,
    /// How many tasks of callers have had the reader.
    callers: AtomicU64,
    /// How often they have read.
    turns: AtomicU64,
    keeper: Option<Id>,
    /// A caller's runtime could not have it: no other is tried.
    is_fixed: AtomicBool,
}

/// Why a task stops reading.
pub(super) enum Stop {
    Lost(Lost),
    /// Another one reads.
    Moved,
}

impl ReaderSlot {
    /// For a keeper on the current runtime.
    pub(super) fn new(reader: Reader) -> Self {
        // With `panic = "abort"` a runtime without I/O could not be survived: see `move_to_caller`.
        let is_fixed = reader.socket.is_none() || cfg!(panic = "abort");
        Self {
            reader: Mutex::new(Some(reader)),
            place: AtomicU64::new(KEEPER),
            callers: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            keeper: Handle::try_current().ok().map(|keeper| keeper.id()),
            is_fixed: AtomicBool::new(is_fixed),
        }
    }

    /// `None` while a task reads.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Reader>>> {
        match self.reader.try_lock() {
            Ok(reader) => Some(reader),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Closes the socket. A task that reads right now does it when it has read.
    pub(super) fn clear(&self) {
        let reader = self.try_lock().and_then(|mut reader| reader.take());
        drop(reader);
    }

    fn place(&self) -> u64 {
        self.place.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Reads and writes all that can be read and written now, if this place is the reader's.
    pub(super) fn turn(&self, place: u64, context: &mut Context<'_>) -> Poll<Stop> {
        let mut slot = lock(&self.slot.reader);
        if self.slot.place() != place {
            return Poll::Ready(Stop::Moved);
        }
        let Some(reader) = slot.as_mut() else { return Poll::Ready(Stop::Lost(Lost::Ended)) };
        self.slot.turns.fetch_add(u64::from(place != KEEPER), Ordering::Relaxed);
        let lost = loop {
            match reader.read(self, context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(lost)) => break lost,
                Poll::Pending if self.flush(context) => return Poll::Pending,
                Poll::Pending => break Lost::Ended,
            }
        };
        let reader = slot.take();
        drop(slot);
        drop(reader);
        Poll::Ready(Stop::Lost(lost))
    }

    /// Has the runtime of the caller read, if the keeper does so far and that runtime can.
    pub(super) fn move_to_caller(self: &Arc<Self>) {
        let slot = &self.slot;
        if slot.place() != KEEPER || slot.is_fixed.load(Ordering::Relaxed) {
            return;
        }
        let Ok(caller) = Handle::try_current() else { return };
        // On a current-thread runtime whatever blocks the caller would block the reader too.
        let has_threads = caller.runtime_flavor() == RuntimeFlavor::MultiThread;
        if !has_threads || Some(caller.id()) == slot.keeper {
            return;
        }
        let Some(guard) = slot.try_lock() else { return };
        let Some(socket) = guard.as_ref().and_then(|reader| reader.socket.as_ref()) else { return };
        if slot.place() != KEEPER {
            return;
        }
        // It panics on a runtime without I/O, and there is no other way to find out.
        let attached = catch_unwind(AssertUnwindSafe(|| socket.attach()));
        if !matches!(attached, Ok(Ok(()))) {
            slot.is_fixed.store(true, Ordering::Relaxed);
            return;
        }
        let place = slot.callers.fetch_add(1, Ordering::Relaxed) + 1;
        slot.place.store(place, Ordering::Release);
        let mut state = lock(&self.state);
        state.is_told = false;
        let (old, keeper) = (state.reader.take(), state.keeper.clone());
        drop(state);
        drop(guard);
        drop(old);
        drop(caller.spawn(CallerReader { shared: self.clone(), place }));
        // It has to look after the caller from now on.
        keeper.into_iter().for_each(Waker::wake);
    }

    /// Was the task of a caller dropped?
    pub(super) fn is_abandoned(&self) -> bool {
        self.slot.place() == ABANDONED
    }

    /// Has no caller read since this was last asked, or do many wait? `turns` is what was found then.
    pub(super) fn is_keepers(&self, turns: &mut u64) -> bool {
        let before = std::mem::replace(turns, self.slot.turns.load(Ordering::Relaxed));
        before == *turns || lock(&self.state).waiting.len() > CROWD
    }

    /// Has the current runtime read, which is the keeper's. False if a caller reads right now.
    pub(super) fn move_to_keeper(&self) -> bool {
        let Some(slot) = self.slot.try_lock() else { return false };
        let socket = slot.as_ref().and_then(|reader| reader.socket.as_ref());
        let attached = socket.is_none_or(|socket| socket.attach().is_ok());
        self.slot.place.store(KEEPER, Ordering::Release);
        let mut state = lock(&self.state);
        state.is_told = false;
        state.is_broken |= !attached;
        let caller = state.reader.take();
        drop(state);
        drop(slot);
        // It ends.
        caller.into_iter().for_each(Waker::wake);
        true
    }
}

/// Reads on the runtime of a caller, for as long as the reader has this place.
struct CallerReader {
    shared: Arc<Shared>,
    place: u64,
}

impl Future for CallerReader {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.shared.turn(self.place, context).map(|stop| match stop {
            Stop::Lost(lost) => self.shared.end(lost),
            Stop::Moved => {}
        })
    }
}

/// Also if its runtime ends, before or after it was first polled.
impl Drop for CallerReader {
    fn drop(&mut self) {
        let place = &self.shared.slot.place;
        let abandoned =
            place.compare_exchange(self.place, ABANDONED, Ordering::AcqRel, Ordering::Relaxed);
        if abandoned.is_ok() {
            let keeper = lock(&self.shared.state).keeper.clone();
            keeper.into_iter().for_each(Waker::wake);
        }
    }
}
