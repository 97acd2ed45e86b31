//! A connection that only listens: RESP2, subscribed or popping from lists.
//!
//! For servers without RESP3, for Sentinels' `+switch-master`, and for what blocks. It is this small (log
//! in, ask, read) since in RESP2 a subscribed connection can do nothing else.

use std::time::Duration;

use redis::{Cmd, ToRedisArgs, Value, cmd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::dial::Stream;
use super::failure::Failure;
use super::multiplexer::NoReply;
use super::reader::{Frames, Malformed};
use crate::engine::redis::url::Address;
use crate::engine::redis::url::secret::Login;

/// Such a connection.
pub(crate) struct Subscriber {
    stream: Stream,
    frames: Frames,
    /// For an answer, beside what the request itself may take.
    timeout: Duration,
}

/// The command that logs in.
pub(crate) fn auth(login: &Login) -> Cmd {
    let mut command = cmd("AUTH");
    command.arg(login.user.as_deref()).arg(login.password.reveal());
    command
}

impl Subscriber {
    /// Logs in.
    pub(crate) async fn open(
        stream: Stream,
        timeout: Duration,
        server: &Address,
        login: Option<&Login>,
    ) -> Result<Self, Failure> {
        let mut subscriber = Self { stream, frames: Frames::default(), timeout };
        if let Some(login) = login {
            subscriber.ask(server, &auth(login), Duration::ZERO).await?;
        }
        Ok(subscriber)
    }

    /// Subscribes.
    pub(crate) async fn subscribed(
        mut self,
        server: &Address,
        channels: &[impl ToRedisArgs],
    ) -> Result<Self, Failure> {
        self.ask(server, cmd("SUBSCRIBE").arg(channels), Duration::ZERO).await?;
        Ok(self)
    }

    /// Asks for something that may itself take so long.
    pub(crate) async fn ask(
        &mut self,
        server: &Address,
        command: &Cmd,
        takes: Duration,
    ) -> Result<Value, Failure> {
        let limit = self.timeout;
        let asked = async {
            let packed = command.get_packed_command();
            self.stream.write_all(&packed).await.map_err(|_| NoReply::Ended)?;
            self.stream.flush().await.map_err(|_| NoReply::Ended)?;
            self.read().await
        };
        match timeout(takes + limit, asked).await {
            Ok(Ok(Value::ServerError(error))) => Err(Failure::of_reply(server, &error)),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(lost)) => Err(Failure::of_setup(server, lost)),
            Err(_) => Err(Failure::Unreachable(format!("{server} does not answer"))),
        }
    }

    async fn read(&mut self) -> Result<Value, NoReply> {
        loop {
            if let Some(value) = self.frames.next().map_err(|Malformed| NoReply::Malformed)? {
                return Ok(value);
            }
            match self.stream.read_buf(self.frames.room()).await {
                Ok(0) | Err(_) => return Err(NoReply::Ended),
                Ok(_) => {}
            }
        }
    }

    /// Passes on every message, until the connection is lost.
    pub(crate) async fn listen(mut self, on_message: impl Fn(&[u8], &[u8])) {
        while let Ok(value) = self.read().await {
            if let Value::Array(parts) = value
                && let [
                    Value::BulkString(kind),
                    Value::BulkString(channel),
                    Value::BulkString(message),
                ] = parts.as_slice()
                && kind == b"message"
            {
                on_message(channel, message);
            }
        }
    }
}
