//! The task that reads for all who ask on one connection, writes what they left, and has the timer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use redis::{PushKind, Value};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::dial::ReadHalf;
use super::frames::{Frames, Garbled};
use super::mux::{Answered, Heard, Lost, Shared, Waiting, Wanted};
use crate::sync::lock;

/// How often the timer ticks in the time that an answer may take. A question may have begun just before a tick,
/// so that it is overdue with the one after these.
const TICKS: u32 = 8;

/// To be run, on tokio. The connection ends with it.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    reader: ReadHalf,
    frames: Frames,
    heard: Heard,
    timer: Option<Pin<Box<Sleep>>>,
    /// What came in one read, and who is told. Kept for their room alone.
    values: Vec<Value>,
    news: Vec<News>,
}

/// What somebody is told.
enum News {
    Answer(oneshot::Sender<Answered>, Value),
    /// Channel and message.
    Message(Vec<Value>),
}

/// Also if the task, or the whole runtime, is ended from outside.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.end(Lost::Ended);
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, reader: ReadHalf, heard: Heard) -> Self {
        let (values, news) = (Vec::new(), Vec::new());
        Self { shared, reader, frames: Frames::default(), heard, timer: None, values, news }
    }

    /// Until the connection is lost.
    pub(crate) async fn run(mut self) {
        let lost = poll_fn(|context| self.turn(context)).await;
        self.shared.end(lost);
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Poll<Lost> {
        // First of all, so that an answer that is here is neither late nor lost with a broken socket.
        while let Poll::Ready(lost) = self.read(context) {
            if let Err(lost) = lost {
                return Poll::Ready(lost);
            }
        }
        let flushed = self.shared.flush(context);
        if flushed.is_broken {
            return Poll::Ready(Lost::Ended);
        }
        self.watch(context, flushed.is_guarded)
    }

    /// Reads once, and passes on all that is whole.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        let read = pin!(self.reader.read_buf(self.frames.room())).poll(context);
        match std::task::ready!(read) {
            Ok(0) | Err(_) => return Poll::Ready(Err(Lost::Ended)),
            Ok(_) => {}
        }
        let cut = self.cut();
        let handed_out = self.hand_out();
        Poll::Ready(cut.and(handed_out).map_err(|Garbled| Lost::Garbled))
    }

    fn cut(&mut self) -> Result<(), Garbled> {
        while let Some(value) = self.frames.next()? {
            self.values.push(value);
        }
        Ok(())
    }

    /// Whoever is told runs at once, perhaps on this very core: so all are found first. Answers and
    /// messages are told in the order in which they came: what an answer says is older than what a
    /// message behind it does.
    fn hand_out(&mut self) -> Result<(), Garbled> {
        let mut state = lock(&self.shared.state);
        let mut handed_out = Ok(());
        for value in self.values.drain(..) {
            if let Value::Push { kind: PushKind::Message, data } = value {
                self.news.push(News::Message(data));
                continue;
            }
            if let Value::Push { kind, .. } = &value {
                // Of other kinds, or if nobody waits for one, it is news of no use to us.
                let Some(Waiting { wanted: Wanted::Pushes { kind: wanted, lacking }, .. }) =
                    state.waiting.front_mut()
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
                Some(waiting) => self.news.push(News::Answer(waiting.to, value)),
                // Nobody asked.
                None if !state.has_ended => handed_out = Err(Garbled),
                None => {}
            }
        }
        state.note_answered();
        drop(state);
        for news in self.news.drain(..) {
            match news {
                News::Answer(to, value) => drop(to.send(Ok(value))),
                News::Message(data) => {
                    if let [Value::BulkString(channel), Value::BulkString(message)] = &data[..] {
                        (self.heard)(channel, message);
                    }
                }
            }
        }
        handed_out
    }

    /// Is the oldest question overdue?
    fn watch(&mut self, context: &mut Context<'_>, mut is_guarded: bool) -> Poll<Lost> {
        while self.timer.is_some() || is_guarded {
            let tick = self.shared.within / TICKS;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(tick)));
            std::task::ready!(timer.as_mut().poll(context));
            self.timer = None;
            let mut state = lock(&self.shared.state);
            state.ticks += 1;
            match state.waiting.front() {
                Some(oldest) if state.ticks > oldest.since + u64::from(TICKS) => {
                    return Poll::Ready(Lost::Late);
                }
                Some(_) => {}
                None => state.is_guarded = false,
            }
            is_guarded = state.is_guarded;
        }
        Poll::Pending
    }
}
