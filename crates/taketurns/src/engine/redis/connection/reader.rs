//! Reads one connection for all who ask on it, and cuts what comes into whole frames: RESP2 and RESP3.
//!
//! ```text
//!   turn ─► read ─► Frames: is one whole? ─► its value ─► replies, in the order of the requests, and messages
//!                                                     └─► write what was left
//! ```
//!
//! [`super::reader_slot`] says which task reads. The sender may be anybody: malformed bytes are reported as soon as
//! they are read, and no frame's word is taken for its size: memory is allocated for bytes that have come.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use redis::{PushKind, Value, parse_redis_value};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use super::dial::ReadHalf;
use super::multiplexer::{ExpectedReply, NoReply, OnMessage, PendingRequest, ReplyResult, Shared};
use super::socket::MovableSocket;
use crate::sync::lock;

/// As much as a server puts into one string. No answer of ours comes near.
const FRAME_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Of a number, a status or an error. A script's error may carry a trace.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Ours are nested by three.
const DEPTH_MAX: usize = 32;
/// For one read. Most answers are of some hundred bytes, and a crowd has some hundred of them.
const ROOM: usize = 16 * 1024;
/// A long answer does not keep its room.
const KEPT_BYTES_MAX: usize = 256 * 1024;

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
    on_message: OnMessage,
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
    pub(super) fn new(
        half: ReadHalf,
        socket: Option<MovableSocket>,
        on_message: OnMessage,
    ) -> Self {
        let (values, deliveries) = (Vec::new(), Vec::new());
        Self { half, socket, frames: Frames::default(), on_message, values, deliveries }
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
        drop(state);
        for delivery in self.deliveries.drain(..) {
            match delivery {
                Delivery::PendingReply(to, value) => drop(to.send(Ok(value))),
                Delivery::Message(data) => {
                    if let [Value::BulkString(channel), Value::BulkString(message)] = &data[..] {
                        (self.on_message)(channel, message);
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

/// Bytes that no server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Bytes on their way to become values.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// How many of them have been made values of.
    used: usize,
    scan: Scan,
}

impl Frames {
    /// Where to append what comes, with some room.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.used);
        self.used = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_BYTES_MAX);
        }
        // The whole of it is reserved again only when half is used, so that no read is tiny.
        if self.bytes.capacity() - self.bytes.len() < ROOM / 2 {
            self.bytes.reserve(ROOM);
        }
        &mut self.bytes
    }

    /// The next frame, if it is there as a whole. Attributes are left out.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, Malformed> {
        let rest = &self.bytes[self.used..];
        let Some(length) = self.scan.frame(rest)? else { return Ok(None) };
        self.used += length;
        let value = match quick(&rest[..length], &mut 0) {
            Some(value) => value,
            None => parse_redis_value(&rest[..length]).map_err(|_| Malformed)?,
        };
        Ok(Some(match value {
            Value::Attribute { data, .. } => *data,
            value => value,
        }))
    }
}

/// Finds the end of a frame, and goes on where it stopped when there are more bytes.
#[derive(Default)]
struct Scan {
    /// Where the next element begins.
    at: usize,
    /// How many elements each open aggregate still lacks, the innermost last.
    open: Vec<usize>,
}

impl Scan {
    /// The length of the first frame, if these bytes have the whole of it. They are the same as before,
    /// or more, until it was found.
    fn frame(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        loop {
            let Some(line) = line(bytes, self.at)? else { return Ok(None) };
            let mut children = 0;
            self.at = match line.kind {
                b'$' | b'!' | b'=' => match line.length()? {
                    None => line.end,
                    Some(length) => {
                        let end = line.end + length + 2;
                        if bytes.len() < end {
                            return Ok(None);
                        }
                        if bytes[end - 2..end] != *b"\r\n" {
                            return Err(Malformed);
                        }
                        end
                    }
                },
                kind => {
                    if let b'*' | b'~' | b'>' | b'%' | b'|' = kind {
                        let length = line.length()?.unwrap_or(0);
                        children = match kind {
                            b'%' => 2 * length,
                            // Names and values, and then what they are attributes of.
                            b'|' => 2 * length + 1,
                            _ => length,
                        };
                    }
                    line.end
                }
            };
            if self.at > FRAME_BYTES_MAX {
                return Err(Malformed);
            }
            if children > 0 {
                if self.open.len() == DEPTH_MAX {
                    return Err(Malformed);
                }
                self.open.push(children);
            } else if self.close() {
                return Ok(Some(std::mem::take(&mut self.at)));
            }
        }
    }

    /// Ends an element, and every aggregate whose last element it is. Returns whether the frame is complete.
    fn close(&mut self) -> bool {
        while let Some(lacking) = self.open.last_mut() {
            *lacking -= 1;
            if *lacking > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

/// The first line of an element.
struct FrameHead<'a> {
    kind: u8,
    text: &'a [u8],
    /// Where the next one begins.
    end: usize,
}

fn line(bytes: &[u8], at: usize) -> Result<Option<FrameHead<'_>>, Malformed> {
    let Some((kind, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else {
        return Ok(None);
    };
    if !b"+-:$*_#,(!=%~>|".contains(kind) {
        return Err(Malformed);
    }
    let length = rest.windows(2).take(LINE_BYTES_MAX).position(|pair| pair == b"\r\n");
    match length {
        Some(length) => {
            Ok(Some(FrameHead { kind: *kind, text: &rest[..length], end: at + 1 + length + 2 }))
        }
        None if rest.len() > LINE_BYTES_MAX => Err(Malformed),
        None => Ok(None),
    }
}

impl FrameHead<'_> {
    /// Of what follows. `None` is the null that RESP2 has for some kinds.
    fn length(&self) -> Result<Option<usize>, Malformed> {
        if self.text == b"-1" && matches!(self.kind, b'$' | b'*' | b'~') {
            return Ok(None);
        }
        if self.text.is_empty() || self.text.len() > 10 {
            return Err(Malformed);
        }
        let length = self.text.iter().try_fold(0, |sum, digit| match digit {
            b'0'..=b'9' => Ok(sum * 10 + usize::from(digit - b'0')),
            _ => Err(Malformed),
        })?;
        if length > FRAME_BYTES_MAX { Err(Malformed) } else { Ok(Some(length)) }
    }
}

/// Reads what scripts, the module and wake-ups are made of, from a frame that is whole. `None` if there
/// is anything else in it: the crate has a parser for all, which takes several times as long.
fn quick(frame: &[u8], at: &mut usize) -> Option<Value> {
    let line = line(frame, *at).ok()??;
    *at = line.end;
    match line.kind {
        b'$' => {
            let Some(length) = line.length().ok()? else { return Some(Value::Nil) };
            let bytes = frame[*at..*at + length].to_vec();
            *at += length + 2;
            Some(Value::BulkString(bytes))
        }
        b':' => Some(Value::Int(str::from_utf8(line.text).ok()?.parse().ok()?)),
        b'+' if line.text == b"OK" => Some(Value::Okay),
        b'+' => Some(Value::SimpleString(str::from_utf8(line.text).ok()?.to_owned())),
        b'_' if line.text.is_empty() => Some(Value::Nil),
        b'*' => {
            let Some(length) = line.length().ok()? else { return Some(Value::Nil) };
            let values = (0..length).map(|_| quick(frame, at));
            Some(Value::Array(values.collect::<Option<_>>()?))
        }
        b'>' if line.text == b"3" => {
            let Value::BulkString(kind) = quick(frame, at)? else { return None };
            if kind != b"message" {
                return None;
            }
            let data = vec![quick(frame, at)?, quick(frame, at)?];
            Some(Value::Push { kind: PushKind::Message, data })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
