//! Reads one connection for all who ask on it, and runs the task that does so on the client's own thread.
//!
//! ```text
//!   ConnectionDriver: turn ─► read ─► cut into frames ─► replies, in the order of the requests, and messages
//!          │                                         └─► write what was left
//!          └─ timers: is the oldest request overdue? does a caller's runtime that reads still do so?
//! ```
//!
//! A caller's runtime may read instead: [`super::reader_slot`] says when.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::{PushKind, Value};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::dial::ReadHalf;
use super::frames::{Frames, Malformed};
use super::multiplexer::{
    ExpectedReply, NoReply, OnPush, PendingRequest, ReplyResult, Shared, TICKS, keep_waker,
};
use super::reader_slot::{ABANDONED, CallerHealth, KEEPER};
use super::socket::MovableSocket;
use crate::sync::lock;

/// Why a task stops reading.
pub(super) enum ReadStop {
    NoReply(NoReply),
    /// Another one reads.
    Moved,
}

pub(super) struct Reader {
    half: ReadHalf,
    /// Moves the connection to another runtime, if it can be moved.
    pub(super) socket: Option<MovableSocket>,
    frames: Frames,
    on_push: OnPush,
    /// What came in one read, and its receivers. Kept for their capacity alone.
    values: Vec<Value>,
    deliveries: Vec<Delivery>,
}

/// One thing to hand out.
enum Delivery {
    PendingReply(oneshot::Sender<ReplyResult>, Value),
    /// Channel and message.
    Message(Vec<Value>),
}

impl Reader {
    pub(super) fn new(half: ReadHalf, socket: Option<MovableSocket>, on_push: OnPush) -> Self {
        let (values, deliveries) = (Vec::new(), Vec::new());
        Self { half, socket, frames: Frames::default(), on_push, values, deliveries }
    }

    /// Reads once, and passes on all that is whole.
    pub(super) fn read(
        &mut self,
        shared: &Shared,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), NoReply>> {
        let read = pin!(self.half.read_buf(self.frames.room())).poll(context);
        match ready!(read) {
            Ok(0) | Err(_) => return Poll::Ready(Err(NoReply::Ended)),
            Ok(_) => {}
        }
        let cut = self.cut();
        let handed_out = self.hand_out(shared);
        Poll::Ready(cut.and(handed_out).map_err(|Malformed| NoReply::Malformed))
    }

    fn cut(&mut self) -> Result<(), Malformed> {
        while let Some(value) = self.frames.next()? {
            self.values.push(value);
        }
        Ok(())
    }

    /// A task that gets its reply may run at once, on this very core: so all receivers are found first. Replies and
    /// messages are delivered in the order in which they came: a reply is older than a message behind it.
    fn hand_out(&mut self, shared: &Shared) -> Result<(), Malformed> {
        let mut state = lock(&shared.state);
        let mut handed_out = Ok(());
        for value in self.values.drain(..) {
            if let Value::Push { kind: PushKind::Message, data } = value {
                self.deliveries.push(Delivery::Message(data));
                continue;
            }
            if let Value::Push { kind, .. } = &value {
                // Of other kinds, or if nobody waits for one, it is of no use to us.
                let Some(PendingRequest {
                    wanted: ExpectedReply::Pushes { kind: wanted, lacking },
                    ..
                }) = state.waiting.front_mut()
                else {
                    continue;
                };
                if wanted != kind {
                    continue;
                }
                *lacking -= 1;
                if *lacking > 0 {
                    continue;
                }
            }
            match state.waiting.pop_front() {
                Some(waiting) => self.deliveries.push(Delivery::PendingReply(waiting.to, value)),
                // Nobody asked.
                None if !state.has_ended => handed_out = Err(Malformed),
                None => {}
            }
        }
        state.note_answered();
        drop(state);
        for delivery in self.deliveries.drain(..) {
            match delivery {
                Delivery::PendingReply(to, value) => drop(to.send(Ok(value))),
                Delivery::Message(data) => {
                    if let [Value::BulkString(channel), Value::BulkString(message)] = &data[..] {
                        (self.on_push)(channel, message);
                    }
                }
            }
        }
        handed_out
    }
}

impl Shared {
    /// Reads and writes all that can be read and written now, if this place is the reader's.
    pub(super) fn turn(&self, place: u64, context: &mut Context<'_>) -> Poll<ReadStop> {
        // Before the mutex too: the keeper's thread must not wait for a caller's.
        if self.place() != place {
            return Poll::Ready(ReadStop::Moved);
        }
        let mut slot = lock(&self.slot.reader);
        if self.place() != place {
            self.slot.unlock(slot);
            return Poll::Ready(ReadStop::Moved);
        }
        let Some(reader) = slot.as_mut() else {
            return Poll::Ready(ReadStop::NoReply(NoReply::Ended));
        };
        self.slot.turns.fetch_add(1, Ordering::Relaxed);
        let lost = loop {
            match reader.read(self, context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(lost)) => break lost,
                Poll::Pending if self.flush(context) => {
                    self.slot.unlock(slot);
                    return Poll::Pending;
                }
                Poll::Pending => break NoReply::Ended,
            }
        };
        let reader = slot.take();
        drop(slot);
        drop(reader);
        Poll::Ready(ReadStop::NoReply(lost))
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
