//! The task on our own thread, the keeper: it has the timers, and reads unless a caller's runtime does.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::multiplexer::{NoReply, Shared, TICKS, keep_waker};
use super::reader_slot::{ABANDONED, CallerHealth, KEEPER, ReadStop};
use crate::sync::lock;

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
                self.shared.rest();
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
                CallerHealth::Reads => continue,
                CallerHealth::Idle => {}
                CallerHealth::Unfit => self.shared.rest(),
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
