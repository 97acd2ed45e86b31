//! Reads one connection for all who ask on it.
//!
//! ```text
//!   read ─► cut into frames ─► answers, in the order of the questions, and messages
//! ```

use std::pin::pin;
use std::task::{Context, Poll, ready};

use redis::{PushKind, Value};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use super::dial::ReadHalf;
use super::frames::{Frames, Malformed};
use super::multiplexer::{ExpectedReply, NoReply, OnPush, PendingRequest, ReplyResult, Shared};
use super::socket::MovableSocket;
use crate::sync::lock;

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
                // Of other kinds, or if nobody waits for one, it is deliveries of no use to us.
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
        for deliveries in self.deliveries.drain(..) {
            match deliveries {
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
