//! Where a connection is read: on our own thread, the keeper, or on the runtime of the caller.
//!
//! ```text
//!   a task waits, and no other ─► its runtime reads ─┬─ has not read for 20 ms ────┐
//!                                                    ├─ many wait, or others do ───┼─► the keeper reads
//!                                                    └─ has ended ─────────────────┘
//! ```
//!
//! An answer that is read where it is awaited changes no thread, which saves a sixth of the time of a lone request
//! and nearly half of its CPU time. But a runtime may block or end, so it has the reader only while it turns. The
//! keeper has all timers. It looks every 20 ms while a caller reads, and takes the reader back if nothing was read:
//! so a client that is idle, waits or only holds locks is read by the keeper, which needs no timer for that.
//!
//! For many tasks at once the keeper reads: there the answers of one read wake tasks on all cores. It reads too if
//! threads or runtimes besides the caller's ask: they must not wait for a runtime that is busy with something else.
//! After either, and after a caller that left somebody waiting, it goes on for some requests: few after a first crowd,
//! more if crowds come again. What the keeper's own tasks ask, renewals and refreshes, can wait for its next look.
//!
//! **One reads at a time.** A task that reads has the mutex of the reader, and `place` is its own number. Only a task
//! that has the mutex changes `place`, but for [`CallerReader`], which gives up its own number when it is dropped.
//!
//! **No byte stays unread.** A new place polls at once: the keeper after it took the reader, a caller's task since it
//! is new. If that task never runs or is dropped, the keeper finds out, by the timer or by `place`.
//!
//! The [`ConnectionDriver`] is the keeper's task. It has the timers: is the oldest request overdue, and does a caller's
//! runtime that reads still do so?

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use std::{mem, process, ptr};

use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::{Sleep, sleep};

use super::caller_reader::{CallerReader, ReaderGroup};
use super::multiplexer::{NoReply, Shared, TICKS, keep_waker};
use super::reader::{ReadStop, Reader};
use crate::sync::lock;

/// The place of the keeper. Those of callers' tasks count from 1.
pub(super) const KEEPER: u64 = 0;
/// The task of a caller had the reader, and was dropped.
pub(super) const ABANDONED: u64 = u64::MAX;
/// With more requests than this unanswered at a tick, the keeper reads.
const CROWD: usize = 8;
/// How many lone requests the keeper reads after a caller turned out to be unfit.
const REST: u32 = 256;
/// The same after a crowd. Each crowd that follows doubles it, up to [`REST`], until a caller is found to read well.
const CROWD_REST: u32 = 16;

pub(super) struct ReaderSlot {
    /// `None` once the connection is over.
    pub(super) reader: Mutex<Option<Reader>>,
    pub(super) place: AtomicU64,
    /// How many tasks of callers have had the reader.
    callers: AtomicU64,
    /// How often the last of them has read.
    pub(super) turns: AtomicU64,
    /// How many lone requests are still read by the keeper.
    resting: AtomicU32,
    /// With whom its reader shares a task on a caller's runtime.
    group: Arc<ReaderGroup>,
    /// How many those are after the next crowd.
    crowd_rest: AtomicU32,
    /// The runtime of the keeper.
    pub(super) keeper: Option<Id>,
    /// A forked child must not read what is its parent's.
    process: u32,
    /// A caller's runtime had no I/O: no other is tried.
    is_fixed: AtomicBool,
    is_over: AtomicBool,
}

/// What the keeper finds when it looks after a caller.
pub(super) enum CallerHealth {
    Reads,
    /// It has read nothing since, and nobody waits.
    Idle,
    /// It has read nothing since though somebody waits.
    Unfit,
    /// Many wait.
    Crowded,
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
            resting: AtomicU32::new(0),
            group: ReaderGroup::of_thread(),
            crowd_rest: AtomicU32::new(CROWD_REST),
            keeper: Handle::try_current().ok().map(|keeper| keeper.id()),
            process: process::id(),
            is_fixed: AtomicBool::new(is_fixed),
            is_over: AtomicBool::new(false),
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

    /// Closes the socket. If somebody has the mutex right now, it does so in [`Self::unlock`].
    pub(super) fn clear(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let reader = self.try_lock().and_then(|mut reader| reader.take());
        drop(reader);
    }

    /// Ends what `lock` or `try_lock` began.
    pub(super) fn unlock(&self, guard: MutexGuard<'_, Option<Reader>>) {
        drop(guard);
        fence(Ordering::SeqCst);
        if self.is_over.load(Ordering::Relaxed) {
            self.clear();
        }
    }
}

impl Shared {
    pub(super) fn place(&self) -> u64 {
        self.slot.place.load(Ordering::Acquire)
    }

    /// Somebody waits for the answer to a request that was alone, or that was sent while a caller's runtime reads.
    pub(super) fn handle_wait(self: &Arc<Self>, context: &Context<'_>) {
        if self.place() == KEEPER {
            self.move_to_caller(context);
        } else if !self.is_task(context) {
            // It may block the very runtime that reads.
            let mut state = lock(&self.state);
            state.has_others = true;
            let keeper = state.keeper.clone();
            drop(state);
            keeper.into_iter().for_each(Waker::wake);
        }
    }

    /// Has the runtime of a task that waits read, if it can.
    fn move_to_caller(self: &Arc<Self>, context: &Context<'_>) {
        let slot = &self.slot;
        if slot.is_fixed.load(Ordering::Relaxed) {
            return;
        }
        let Ok(caller) = Handle::try_current() else { return };
        // On a current-thread runtime whatever blocks the caller would block the reader too.
        let fits = caller.runtime_flavor() == RuntimeFlavor::MultiThread
            && Some(caller.id()) != slot.keeper
            && process::id() == slot.process;
        if !fits || !self.is_task(context) {
            return;
        }
        let one_less = |resting: u32| resting.checked_sub(1);
        if slot.resting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return;
        }
        let Some(guard) = slot.try_lock() else { return };
        let keeper = self.leave_keeper(&guard, &caller);
        slot.unlock(guard);
        let Some((place, keeper)) = keeper else { return };
        slot.group.join(&caller, CallerReader::new(self, place));
        // It has to look after the caller from now on.
        keeper.into_iter().for_each(Waker::wake);
    }

    /// Is this a task of a runtime, which goes on with other tasks while this one waits? All wakers of tokio's tasks
    /// have one table of functions. A thread that blocks has another waker, and would keep its runtime from reading.
    fn is_task(&self, context: &Context<'_>) -> bool {
        let state = lock(&self.state);
        let keeper = state.keeper.as_ref().filter(|_| !state.is_broken && !state.has_ended);
        keeper.is_some_and(|keeper| ptr::eq(keeper.vtable(), context.waker().vtable()))
    }

    /// Gives the reader a new place on the caller's runtime, which is the current one. Returns it with the keeper's
    /// waker.
    fn leave_keeper(
        &self,
        reader: &Option<Reader>,
        caller: &Handle,
    ) -> Option<(u64, Option<Waker>)> {
        let socket = reader.as_ref()?.socket.as_ref()?;
        if self.place() != KEEPER {
            return None;
        }
        // It panics on a runtime without I/O, and there is no other way to find out.
        match catch_unwind(AssertUnwindSafe(|| socket.leave_home())) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return None,
            Err(_) => {
                self.slot.is_fixed.store(true, Ordering::Relaxed);
                return None;
            }
        }
        let place = self.slot.callers.fetch_add(1, Ordering::Relaxed) + 1;
        self.slot.turns.store(0, Ordering::Relaxed);
        self.slot.place.store(place, Ordering::Release);
        let mut state = lock(&self.state);
        (state.caller, state.has_others, state.is_told) = (Some(caller.id()), false, false);
        let (old, keeper) = (state.reader.take(), state.keeper.clone());
        drop(state);
        drop(old);
        Some((place, keeper))
    }

    /// Is the reader wanted by somebody for whom the caller's runtime should not read?
    pub(super) fn has_others(&self) -> bool {
        lock(&self.state).has_others
    }

    /// Looks how a caller is doing. `turns` is how often it had read when it was last looked after.
    pub(super) fn look_after(&self, turns: &mut u64) -> CallerHealth {
        let waiting = lock(&self.state).waiting.len();
        let before = mem::replace(turns, self.slot.turns.load(Ordering::Relaxed));
        match *turns {
            _ if waiting > CROWD => CallerHealth::Crowded,
            // Somebody waits, and perhaps for what lies unread.
            same if same == before && waiting > 0 => CallerHealth::Unfit,
            same if same == before => CallerHealth::Idle,
            _ => CallerHealth::Reads,
        }
    }

    /// The keeper reads for a while.
    fn rest(&self, requests: u32) {
        self.slot.resting.store(requests, Ordering::Relaxed);
    }

    /// The same after a crowd.
    fn rest_of_crowd(&self) {
        let requests = self.slot.crowd_rest.load(Ordering::Relaxed);
        self.slot.crowd_rest.store(REST.min(2 * requests), Ordering::Relaxed);
        self.rest(requests);
    }

    /// Has the current runtime read, which is the keeper's. False if a caller reads right now.
    pub(super) fn move_to_keeper(&self) -> bool {
        let Some(slot) = self.slot.try_lock() else { return false };
        let socket = slot.as_ref().and_then(|reader| reader.socket.as_ref());
        let is_home = socket.is_none_or(|socket| socket.go_home().is_ok());
        self.slot.place.store(KEEPER, Ordering::Release);
        let mut state = lock(&self.state);
        (state.caller, state.has_others, state.is_told) = (None, false, false);
        state.is_broken |= !is_home;
        let caller = state.reader.take();
        drop(state);
        self.slot.unlock(slot);
        // It ends.
        caller.into_iter().for_each(Waker::wake);
        true
    }
}

/// Until a task that has the reader is tried again.
const MOMENT: Duration = Duration::from_millis(1);

/// To be run, on tokio. The connection ends with it.
pub(crate) struct ConnectionDriver {
    shared: Arc<Shared>,
    late: Option<Pin<Box<Sleep>>>,
    caller: Option<Pin<Box<Sleep>>>,
    caller_tick: Duration,
    /// The caller's task that is looked after, and how often it had read at the last tick.
    attended: (u64, u64),
}

/// Also if the task, or the whole runtime, is ended from outside.
impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.shared.end(NoReply::Ended);
    }
}

impl ConnectionDriver {
    pub(super) fn new(shared: Arc<Shared>, caller_tick: Duration) -> Self {
        Self { shared, late: None, caller: None, caller_tick, attended: (KEEPER, 0) }
    }

    /// Until the connection is lost.
    pub(crate) async fn run(mut self) {
        let lost = poll_fn(|context| self.turn(context)).await;
        self.shared.end(lost);
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Poll<NoReply> {
        loop {
            // First of all, so that an answer that is here is neither late nor lost with a broken socket.
            match self.shared.turn(KEEPER, context) {
                Poll::Ready(ReadStop::NoReply(lost)) => return Poll::Ready(lost),
                Poll::Ready(ReadStop::Moved) if self.attend(context).is_ready() => continue,
                Poll::Ready(ReadStop::Moved) | Poll::Pending => {}
            }
            let lost = ready!(self.watch(context));
            if lost != NoReply::Late || self.shared.place() == KEEPER {
                return Poll::Ready(lost);
            }
            // A caller may have left the answer unread. If it reads right now, the next tick tells.
            self.shared.move_to_keeper();
        }
    }

    /// Looks after a caller's runtime that reads. Ready when the reader is back.
    fn attend(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let place = self.shared.place();
            if self.attended.0 != place {
                self.attended = (place, 0);
                self.caller = None;
            }
            let is_wanted = self.shared.has_others();
            if is_wanted {
                self.shared.rest(REST);
            }
            if is_wanted || place == ABANDONED {
                if self.shared.move_to_keeper() {
                    return Poll::Ready(());
                }
                // It reads right now, for a moment.
                self.caller = None;
            }
            let tick = if is_wanted || place == ABANDONED { MOMENT } else { self.caller_tick };
            let timer = self.caller.get_or_insert_with(|| Box::pin(sleep(tick)));
            ready!(timer.as_mut().poll(context));
            self.caller = None;
            match self.shared.look_after(&mut self.attended.1) {
                CallerHealth::Reads => {
                    self.shared.slot.crowd_rest.store(CROWD_REST, Ordering::Relaxed);
                    continue;
                }
                CallerHealth::Idle => {}
                CallerHealth::Unfit => self.shared.rest(REST),
                CallerHealth::Crowded => self.shared.rest_of_crowd(),
            }
            if self.shared.move_to_keeper() {
                return Poll::Ready(());
            }
        }
    }

    /// Is the oldest question overdue?
    fn watch(&mut self, context: &mut Context<'_>) -> Poll<NoReply> {
        loop {
            let mut state = lock(&self.shared.state);
            keep_waker(&mut state.keeper, context);
            if state.has_ended {
                return Poll::Ready(NoReply::Ended);
            }
            if self.late.is_none() && !state.is_guarded {
                return Poll::Pending;
            }
            drop(state);
            let tick = self.shared.within / TICKS;
            let timer = self.late.get_or_insert_with(|| Box::pin(sleep(tick)));
            ready!(timer.as_mut().poll(context));
            self.late = None;
            let mut state = lock(&self.shared.state);
            state.ticks += 1;
            match state.waiting.front() {
                Some(oldest) if state.ticks > oldest.since + u64::from(TICKS) => {
                    return Poll::Ready(NoReply::Late);
                }
                Some(_) => {}
                None => state.is_guarded = false,
            }
        }
    }
}
