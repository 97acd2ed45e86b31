//! One socket for the commands of many tasks: the task that asks writes, and one task reads for all.
//!
//! ```text
//!   ask ─► who waits, and the bytes ─┬─ as many requests are left as are under way ─► written, by the task that asks
//!                                    └─ fewer are ──────────────────────────────────► left for now
//!
//!   reader: read ─► cut into frames ─► answers, in the order of the questions ─► write what was left
//! ```
//!
//! Where the reader runs, on our own thread or on the caller's runtime, is for [`super::reader_slot`] to say.
//!
//! Asking needs no runtime, and works on any thread: a task that is alone with its connection has its
//! bytes in the kernel when `ask` returns. In a crowd a system call for each would cost more than all
//! else; there the bytes of many go out in one write, as soon as they are as many as the requests under way. So half
//! of a crowd is with the server while the other half asks, and neither waits for the other.
//!
//! **No byte stays behind.** Bytes that are appended are written by the task that appended them, or the reader
//! is told; or more requests are under way than are left, and the reader looks again when it has handed out the next
//! answers. With the last answer none is under way. That is no later than they could matter, since a server answers in
//! order; and if no answer comes, the connection ends for all, and what was left was never sent.
//!
//! **An answer in time.** While somebody waits, one timer ticks for all, eight times in the time that an answer
//! may take; so asking reads no clock. A question that has seen nine ticks is overdue, and ends the connection
//! for all, as does the first error. A tick with nobody waiting is the last until somebody asks.

use std::collections::VecDeque;
use std::io;
use std::mem::{swap, take};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use redis::{PushKind, Value};
use tokio::io::AsyncWrite;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;

use super::dial::{Stream, WriteHalf};
use super::reader::Reader;
use super::reader_slot::{ConnectionDriver, ReaderSlot};
use super::{CommandBuffer, PendingReply, WriteCommand};
use crate::sync::lock;

/// How often the timer ticks in the time that an answer may take. A question may have begun just before a tick,
/// so that it is overdue with the one after these.
pub(super) const TICKS: u32 = 8;
/// How often a caller's runtime that reads is looked after.
const CALLER_TICK: Duration = Duration::from_millis(20);
/// A burst does not keep its room.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// None came in time.
    Late,
    /// The connection ended.
    Ended,
    /// Something came that is none.
    Malformed,
    /// The question was never sent.
    Unsent,
}

/// What comes of a question, an error of the server included.
pub(crate) type ReplyResult = Result<Value, NoReply>;

/// Called with each message that is published to this connection: with its channel, and itself. It must not block.
pub(crate) type OnMessage = Arc<dyn Fn(&[u8], &[u8]) + Send + Sync>;

/// One end of a connection. The other one is its driver.
#[derive(Clone)]
pub(crate) struct Multiplexer {
    shared: Arc<Shared>,
}

impl Multiplexer {
    /// With what has to run for as long as it lives. `on_message` is called by the task that reads.
    pub(crate) fn new(
        stream: Stream,
        within: Duration,
        on_message: OnMessage,
    ) -> (Self, ConnectionDriver) {
        Self::with_tick(stream, within, CALLER_TICK.min(within / TICKS), on_message)
    }

    /// The same with a caller's runtime that is looked after as often as this.
    pub(super) fn with_tick(
        stream: Stream,
        within: Duration,
        caller_tick: Duration,
        on_message: OnMessage,
    ) -> (Self, ConnectionDriver) {
        let socket = stream.movable();
        let (reader, writer) = stream.parted();
        let state = State {
            waiting: VecDeque::new(),
            out: CommandBuffer::default(),
            ticks: 0,
            taken: 0,
            left: 0,
            writer: Some(Writer { half: writer, bytes: Vec::new(), at: 0, is_flushed: true }),
            is_stuck: false,
            is_broken: false,
            reader: None,
            keeper: None,
            caller: None,
            has_others: false,
            is_told: false,
            is_guarded: false,
            has_ended: false,
        };
        let slot = ReaderSlot::new(Reader::new(reader, socket, on_message));
        let shared = Arc::new(Shared { state: Mutex::new(state), slot, within });
        (Self { shared: shared.clone() }, ConnectionDriver::new(shared, caller_tick))
    }

    /// Sends a command, now. What is given back may be dropped: nobody hears the answer then.
    pub(crate) fn ask(&self, words: &dyn WriteCommand) -> PendingReply {
        self.put(|state| state.push(&self.shared, words, ExpectedReply::Reply))
    }

    /// Sends several in one write.
    pub(crate) fn ask_all(&self, all: &[impl WriteCommand]) -> Vec<PendingReply> {
        self.put(|state| {
            all.iter().map(|words| state.push(&self.shared, words, ExpectedReply::Reply)).collect()
        })
    }

    /// Sends a command that RESP3 confirms by a number of pushes of this kind, and that gets a reply only if it is
    /// refused.
    pub(crate) fn ask_confirmed(
        &self,
        words: &dyn WriteCommand,
        kind: PushKind,
        times: usize,
    ) -> PendingReply {
        self.put(|state| {
            state.push(&self.shared, words, ExpectedReply::Pushes { kind, lacking: times })
        })
    }

    fn put<T>(&self, push: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.shared.state);
        let answers = push(&mut state);
        self.shared.send(state);
        answers
    }

    /// Ends it, for all who wait.
    pub(crate) fn end(&self) {
        self.shared.end(NoReply::Ended);
    }
}

/// What both ends have in common.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) slot: ReaderSlot,
    /// In what time an answer has to come.
    pub(super) within: Duration,
}

pub(super) struct State {
    pub(super) waiting: VecDeque<PendingRequest>,
    /// What nobody has begun to write.
    out: CommandBuffer,
    /// How often the driver's timer has run out.
    pub(super) ticks: u64,
    /// How many bytes somebody has begun to write.
    taken: u64,
    /// How many of those who wait have bytes that nobody has begun to write.
    left: usize,
    /// `None` while somebody writes, and when nobody can any more.
    writer: Option<Writer>,
    /// The socket takes no more: only the reader may try, since its waker is the one to keep.
    is_stuck: bool,
    /// Writing failed. What came before that may still be read.
    pub(super) is_broken: bool,
    /// Wakes the task that reads. `None` before its first turn, when it looks anyway.
    pub(super) reader: Option<Waker>,
    /// Wakes the driver, which has the timer.
    pub(super) keeper: Option<Waker>,
    /// The runtime that reads, if it is not the keeper's.
    pub(super) caller: Option<Id>,
    /// Somebody has asked from elsewhere, or waits in a way that blocks the caller's runtime.
    pub(super) has_others: bool,
    /// The reader will look at all this after now.
    pub(super) is_told: bool,
    /// The driver has a timer, or will have.
    pub(super) is_guarded: bool,
    pub(super) has_ended: bool,
}

/// Somebody who waits.
pub(super) struct PendingRequest {
    /// After which tick it began to wait.
    pub(super) since: u64,
    /// Where in all that was ever sent its bytes begin.
    start: u64,
    pub(super) wanted: ExpectedReply,
    pub(super) to: oneshot::Sender<ReplyResult>,
}

/// What answers a command.
pub(super) enum ExpectedReply {
    Reply,
    Pushes { kind: PushKind, lacking: usize },
}

impl State {
    fn push(
        &mut self,
        shared: &Arc<Shared>,
        words: &dyn WriteCommand,
        wanted: ExpectedReply,
    ) -> PendingReply {
        let (to, receiver) = oneshot::channel();
        if self.has_ended {
            let _ = to.send(Err(NoReply::Unsent));
            return PendingReply { receiver, shared: None };
        }
        let start = self.taken + self.out.bytes.len() as u64;
        words.write(&mut self.out);
        let is_alone = self.waiting.is_empty();
        self.waiting.push_back(PendingRequest { since: self.ticks, start, wanted, to });
        self.left += 1;
        if let Some(caller) = self.caller {
            let asks = Handle::try_current().ok().map(|asks| asks.id());
            let is_other = |asks: Id| asks != caller && Some(asks) != shared.slot.keeper;
            self.has_others |= asks.is_none_or(is_other);
        }
        let matters = is_alone || self.caller.is_some();
        PendingReply { receiver, shared: matters.then(|| shared.clone()) }
    }

    /// Do bytes wait for more of them, or for an answer?
    fn is_crowd(&self) -> bool {
        // A server that answers what nobody has sent takes away one that is left.
        self.left < self.waiting.len().saturating_sub(self.left)
    }

    /// Is there something that does not have to wait for an answer?
    fn has_bytes(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| {
            !writer.is_done() || !self.out.bytes.is_empty() && !self.is_crowd()
        })
    }
}

impl Shared {
    /// Sees to it that the bytes get out.
    fn send<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        if state.has_ended {
            return;
        }
        if !state.is_crowd() && !state.is_stuck {
            state = self.write(state, &mut Context::from_waker(Waker::noop()));
        }
        // If somebody else writes, he tells the reader of what is left by then.
        let is_left = state.has_bytes() || state.is_broken;
        let reader = if is_left && !std::mem::replace(&mut state.is_told, true) {
            state.reader.clone()
        } else {
            None
        };
        let is_guarded = std::mem::replace(&mut state.is_guarded, true);
        let keeper = if is_guarded && !state.has_others { None } else { state.keeper.clone() };
        drop(state);
        [reader, keeper].into_iter().flatten().for_each(Waker::wake);
    }

    /// Writes all that there is, by the reader. The waker is called when there is more to be done. False if the
    /// connection is over.
    pub(super) fn flush(&self, context: &mut Context<'_>) -> bool {
        let mut state = lock(&self.state);
        keep_waker(&mut state.reader, context);
        state.is_told = false;
        while state.has_bytes() {
            state = self.write(state, context);
            if state.is_stuck {
                break;
            }
        }
        !state.is_broken && !state.has_ended
    }

    /// Writes once, unless somebody does, without keeping others from asking.
    fn write<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        context: &mut Context<'_>,
    ) -> MutexGuard<'a, State> {
        let Some(mut writer) = state.writer.take() else { return state };
        if writer.bytes.is_empty() {
            swap(&mut writer.bytes, &mut state.out.bytes);
            state.taken += writer.bytes.len() as u64;
            state.left = 0;
        }
        drop(state);
        let wrote = writer.write(context);
        let mut state = lock(&self.state);
        if state.has_ended {
            return state;
        }
        state.is_stuck = wrote.is_pending();
        match wrote {
            Poll::Ready(Err(_)) => state.is_broken = true,
            _ => state.writer = Some(writer),
        }
        state
    }

    /// Ends it for all who wait, and for good.
    pub(super) fn end(&self, lost: NoReply) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.has_ended, true) {
            return;
        }
        let (waiting, writer, taken) = (take(&mut state.waiting), state.writer.take(), state.taken);
        state.out = CommandBuffer::default();
        let wakers = [state.reader.take(), state.keeper.take()];
        drop(state);
        drop(writer);
        self.slot.clear();
        wakers.into_iter().flatten().for_each(Waker::wake);
        for PendingRequest { start, to, .. } in waiting {
            let lost = if start >= taken { NoReply::Unsent } else { lost };
            let _ = to.send(Err(lost));
        }
    }
}

pub(super) fn keep_waker(kept: &mut Option<Waker>, context: &Context<'_>) {
    if !kept.as_ref().is_some_and(|kept| kept.will_wake(context.waker())) {
        *kept = Some(context.waker().clone());
    }
}

/// The half of the socket that is written to, and what is being written.
struct Writer {
    half: WriteHalf,
    bytes: Vec<u8>,
    at: usize,
    /// TLS keeps some for itself.
    is_flushed: bool,
}

impl Writer {
    fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.is_flushed
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.at < self.bytes.len() {
            self.is_flushed = false;
            let rest = &self.bytes[self.at..];
            match ready!(Pin::new(&mut self.half).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                wrote => self.at += wrote,
            }
        }
        self.at = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        ready!(pin!(&mut self.half).poll_flush(context))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }
}
