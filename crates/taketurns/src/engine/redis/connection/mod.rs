//! Bytes: one connection to one server, shared by all tasks that ask it something.
//!
//! ```text
//!   send(command) ─► Multiplexer ─► socket      the calling task writes
//!   reply, message ◄─ Reader ◄───── socket      on the caller's runtime, or on the client's own thread
//! ```
//!
//! A [`ServerConnection`] is alive, and then dead for good: once, and everything of it together. The first I/O error or
//! missing reply ends it for all who wait. Nothing is ever sent twice here, and nothing here knows of locks.
//!
//! ```text
//!   driver task ended ────┐
//!   subscriber task ended ┼─► kill() ─► socket closed, tasks ended, `on_death` called: each once
//!   no reply in time ─────┘
//! ```

mod caller_reader;
pub(crate) mod connector;
mod dial;
pub(crate) mod failure;
mod multiplexer;
mod reader;
mod reader_slot;
mod socket;
pub(crate) mod subscriber;

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use redis::{Cmd, PushKind, Value, cmd};
use taketurns_core::wire::{StepArgs, push_number};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::url::Address;
use crate::engine::Origin;
use crate::runtime::NOT_WAITING;
use crate::sync::{Mutex, lock};
use failure::Failure;
pub(crate) use multiplexer::OnMessage;
use multiplexer::{Multiplexer, NoReply, ReplyResult, Shared};

/// Called when a connection is lost.
type OnDeath = Arc<dyn Fn() + Send + Sync>;

/// One connection to one server, and the tasks that drive it.
pub(crate) struct ServerConnection {
    pub(crate) address: Address,
    /// Whose clock its replies are on.
    pub(crate) origin: Origin,
    pub(crate) resp3: bool,
    multiplexer: Multiplexer,
    is_alive: AtomicBool,
    is_subscribed: AtomicBool,
    /// `None` once it is dead.
    tasks: Mutex<Option<Vec<AbortOnDropHandle<()>>>>,
    on_death: OnDeath,
}

impl ServerConnection {
    fn new(
        address: &Address,
        origin: Origin,
        resp3: bool,
        multiplexer: Multiplexer,
        on_death: OnDeath,
    ) -> Self {
        Self {
            address: address.clone(),
            origin,
            resp3,
            multiplexer,
            is_alive: AtomicBool::new(true),
            is_subscribed: AtomicBool::new(false),
            tasks: Mutex::new(Some(Vec::new())),
            on_death,
        }
    }

    /// Sends one command.
    pub(crate) async fn send(&self, command: &dyn WriteCommand) -> Result<Value, Failure> {
        if !self.is_alive() {
            return Err(Failure::gone(&self.address));
        }
        self.reply(self.multiplexer.ask(command)).await
    }

    /// Sends several in one write. Each has its own reply or error.
    pub(crate) async fn send_all(
        &self,
        commands: &[impl WriteCommand],
    ) -> Vec<Result<Value, Failure>> {
        if !self.is_alive() {
            return vec![Err(Failure::gone(&self.address)); commands.len()];
        }
        let mut replies = Vec::with_capacity(commands.len());
        for reply in self.multiplexer.ask_all(commands) {
            replies.push(self.reply(reply).await);
        }
        replies
    }

    async fn reply(&self, reply: PendingReply) -> Result<Value, Failure> {
        match reply.await {
            Ok(Value::ServerError(error)) => Err(Failure::of_reply(&self.address, &error)),
            Ok(value) => Ok(value),
            Err(why) => {
                self.kill();
                Err(Failure::of_connection(&self.address, why))
            }
        }
    }

    /// Subscribes to another channel than the client's. False if that is not possible.
    pub(crate) async fn subscribe_to(&self, channel: &str) -> bool {
        match self.ask_confirmed("SUBSCRIBE", PushKind::Subscribe, channel) {
            Some(reply) => matches!(reply.await, Ok(Value::Push { .. })),
            None => false,
        }
    }

    pub(crate) async fn unsubscribe_from(&self, channel: &str) {
        if let Some(reply) = self.ask_confirmed("UNSUBSCRIBE", PushKind::Unsubscribe, channel) {
            let _ = reply.await;
        }
    }

    /// `None` where there are no pushes.
    fn ask_confirmed(&self, name: &str, kind: PushKind, channel: &str) -> Option<PendingReply> {
        let has_pushes = self.resp3 && self.is_alive();
        has_pushes.then(|| self.multiplexer.ask_confirmed(cmd(name).arg(channel), kind, 1))
    }

    /// Ties a task to this connection. On a dead one it ends at once.
    pub(crate) fn attach(&self, task: AbortOnDropHandle<()>) {
        if let Some(tasks) = lock(&self.tasks).as_mut() {
            tasks.push(task);
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Acquire)
    }

    /// The connection is lost or must not be used any more. `on_death` is called.
    pub(crate) fn kill(&self) {
        if self.end() {
            (self.on_death)();
        }
    }

    /// Ends it, and tells nobody: the client is closed.
    pub(crate) fn close(&self) {
        self.end();
    }

    /// True if it was alive.
    fn end(&self) -> bool {
        if !self.is_alive.swap(false, Ordering::AcqRel) {
            return false;
        }
        // Dropped after the mutex is released: a task's end may come back here.
        let tasks = lock(&self.tasks).take();
        drop(tasks);
        // Some may still wait for a reply.
        self.multiplexer.end();
        true
    }
}

/// A request that was sent: the future of its reply.
pub(crate) struct PendingReply {
    receiver: oneshot::Receiver<ReplyResult>,
    /// Until a task has waited for it. `None` if that is of no matter to where the connection is read.
    shared: Option<Arc<Shared>>,
}

impl Future for PendingReply {
    type Output = ReplyResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyResult> {
        match Pin::new(&mut self.receiver).poll(context) {
            Poll::Ready(answered) => Poll::Ready(answered.unwrap_or(Err(NoReply::Ended))),
            Poll::Pending => {
                // Here and not when it was asked for: only a task that waits lets its runtime go on.
                if !context.waker().will_wake(NOT_WAITING)
                    && let Some(shared) = self.shared.take()
                {
                    shared.handle_wait(context);
                }
                Poll::Pending
            }
        }
    }
}

/// One command to be sent, written straight into the bytes of its connection.
pub(crate) trait WriteCommand: Sync {
    fn write(&self, out: &mut CommandBuffer);
}

impl<W: WriteCommand + ?Sized> WriteCommand for &W {
    fn write(&self, out: &mut CommandBuffer) {
        (**self).write(out);
    }
}

impl WriteCommand for Cmd {
    fn write(&self, out: &mut CommandBuffer) {
        self.write_packed_command(&mut out.bytes);
    }
}

/// Commands one behind the other, as they go out.
#[derive(Default)]
pub(crate) struct CommandBuffer {
    bytes: Vec<u8>,
    /// Kept for its room alone.
    args: StepArgs,
}

impl CommandBuffer {
    /// Begins a command that has this number of words, its name included.
    pub(crate) fn begin(&mut self, words: usize) {
        self.head(b'*', words);
    }

    /// The next word.
    pub(crate) fn word(&mut self, word: &[u8]) {
        self.head(b'$', word.len());
        self.bytes.extend_from_slice(word);
        self.end();
    }

    /// The next word, a number.
    pub(crate) fn number(&mut self, number: usize) {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        self.head(b'$', digits);
        push_number(&mut self.bytes, number as u64);
        self.end();
    }

    /// The next word: all arguments, with a tab between two.
    pub(crate) fn joined(&mut self, args: &StepArgs) {
        self.head(b'$', args.joined_len());
        self.bytes.extend(args.joined(b'\t'));
        self.end();
    }

    /// Lends room for the arguments of one command. [`Self::keep_args`] takes it back.
    pub(crate) fn take_args(&mut self) -> StepArgs {
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        args
    }

    /// Keeps the room of arguments for the next command.
    pub(crate) fn keep_args(&mut self, args: StepArgs) {
        self.args = args;
    }

    fn head(&mut self, kind: u8, number: usize) {
        self.bytes.push(kind);
        push_number(&mut self.bytes, number as u64);
        self.end();
    }

    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}
