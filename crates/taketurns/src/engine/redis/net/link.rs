//! One live connection to one run of one server.
//!
//! ```text
//!   open: socket ─► HELLO 3 AUTH ─► SELECT ─► SUBSCRIBE ─► PUBLISH, INFO, TIME
//!                      │ refused
//!                      └─► RESP2: AUTH ─► SELECT, and a second connection that is SUBSCRIBEd
//! ```
//!
//! Requests of many tasks share it. The first I/O error or missing answer ends it, for all of them;
//! nothing is ever sent twice here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo, RedisError, Value, cmd,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::ask::ask_facts;
use super::ear::{Ear, auth};
use super::entered::entered;
use super::facts::ServerFacts;
use super::failure::Failure;
use super::line::{Line, Task};
use super::opener::{Hear, Opener};
use super::secret::{Credentials, Login};
use super::url::Address;
use crate::engine::Origin;

/// A server that takes longer is as good as gone: leases are counted in seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    line: Arc<Line>,
    /// For the timers, whoever polls.
    runtime: Handle,
    pub(crate) address: Address,
    /// Which server: see [`super::topology::Net::source`].
    pub(crate) source: u64,
    /// Unlike that of any other link of this client, and larger than of those before.
    pub(crate) epoch: u64,
    pub(crate) facts: ServerFacts,
    /// Our wall clock when the facts came.
    pub(crate) opened_ms: u64,
    pub(crate) resp3: bool,
    /// After how long without replicas this master stops taking writes; `None` if never, or if it
    /// does not say. Asked for Sentinel alone.
    pub(crate) lag: Option<Duration>,
    listening: AtomicBool,
}

impl Link {
    /// Connects, logs in, listens if it is to, and asks the server who it is.
    pub(crate) async fn open(
        opener: &Opener,
        address: &Address,
        source: u64,
        listen: bool,
    ) -> Result<Self, Failure> {
        let login = opener.config.credentials.read().map_err(Failure::Broken)?;
        let (line, resp3) = connect(opener, address, login.as_ref()).await?;
        if opener.config.db != 0 {
            select(&line, address, opener.config.db).await?;
        }
        if listen {
            subscribe(opener, &line, address, resp3).await?;
        }
        let (facts, lag) = ask_facts(opener, &line, address).await?;
        Ok(Self {
            line,
            runtime: opener.runtime.clone(),
            address: address.clone(),
            source,
            epoch: opener.next_epoch(),
            facts,
            opened_ms: wall_ms(),
            resp3,
            lag,
            listening: AtomicBool::new(listen),
        })
    }

    /// Starts to listen to the client's channel, unless it does.
    pub(crate) async fn listen(&self, opener: &Opener) -> Result<(), Failure> {
        if !self.listening.load(Ordering::Acquire) {
            subscribe(opener, &self.line, &self.address, self.resp3).await?;
            self.listening.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Sends one command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        entered(&self.runtime, send(&self.line, &self.address, command)).await
    }

    /// Sends several in one write. Each has its own answer or error.
    pub(crate) async fn send_all(&self, commands: Vec<Cmd>) -> Vec<Result<Value, Failure>> {
        entered(&self.runtime, send_all(&self.line, &self.address, commands)).await
    }

    /// Subscribes to another channel than the client's. Says whether that was possible; nothing else
    /// comes of it if not.
    pub(crate) async fn hear_also(&self, channel: &str) -> bool {
        let Some(mut connection) = self.line.connection() else { return false };
        connection.subscribe(channel).await.is_ok()
    }

    /// The opposite.
    pub(crate) async fn ignore(&self, channel: &str) {
        if let Some(mut connection) = self.line.connection() {
            let _ = connection.unsubscribe(channel).await;
        }
    }

    /// Whose clock its answers are on.
    pub(crate) fn origin(&self) -> Origin {
        Origin { source: self.source, epoch: self.epoch }
    }

    /// Ties a task to this link.
    pub(crate) fn keep(&self, task: Task) {
        self.line.keep(task);
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.line.is_alive()
    }

    /// It is not to be used any more, and whoever listened has to know.
    pub(crate) fn kill(&self) {
        self.line.die();
    }

    /// The same, but nobody needs to know: the client is closed.
    pub(crate) fn end(&self) {
        self.line.end();
    }
}

/// A connection for commands alone, as to a Sentinel.
pub(crate) async fn connect_plain(
    opener: &Opener,
    address: &Address,
    credentials: &Credentials,
) -> Result<Arc<Line>, Failure> {
    let login = credentials.read().map_err(Failure::Broken)?;
    let stream = opener.dialer.dial(address).await?;
    let line = setup(opener, stream, &info(None), None, Arc::new(|| ()))
        .await
        .map_err(|error| Failure::of_setup(address, &error))?;
    if let Some(login) = &login {
        send(&line, address, &auth(login)).await?;
    }
    Ok(line)
}

async fn connect(
    opener: &Opener,
    address: &Address,
    login: Option<&Login>,
) -> Result<(Arc<Line>, bool), Failure> {
    let stream = opener.dialer.dial(address).await?;
    let info3 = info(login).set_protocol(ProtocolVersion::RESP3);
    let hear = Some((opener.hear.clone(), opener.channels.clone()));
    match setup(opener, stream, &info3, hear, opener.died()).await {
        Ok(line) => return Ok((line, true)),
        Err(error) if !lacks_resp3(&error) => return Err(Failure::of_setup(address, &error)),
        Err(_) => {}
    }
    let stream = opener.dialer.dial(address).await?;
    let line = setup(opener, stream, &info(None), None, opener.died())
        .await
        .map_err(|error| Failure::of_setup(address, &error))?;
    if let Some(login) = login {
        // Not by the crate, which would keep the server's reason to itself.
        send(&line, address, &auth(login)).await?;
    }
    Ok((line, false))
}

/// `CLIENT SETINFO` is skipped: it is unknown to 7.0, and some users may not.
fn info(login: Option<&Login>) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(login) = login {
        info = info.set_password(login.password.reveal());
        if let Some(user) = &login.user {
            info = info.set_username(user);
        }
    }
    info
}

fn lacks_resp3(error: &RedisError) -> bool {
    error.kind() == ErrorKind::RESP3NotSupported
        || matches!(error.code(), Some("NOPROTO" | "NOPERM"))
        || error.detail().is_some_and(|detail| detail.starts_with("unknown command"))
}

async fn setup(
    opener: &Opener,
    stream: super::dial::Stream,
    info: &RedisConnectionInfo,
    hear: Option<(Hear, Vec<String>)>,
    died: super::line::Died,
) -> Result<Arc<Line>, RedisError> {
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(Some(ANSWER_WITHIN));
    if let Some((hear, channels)) = hear {
        config = config.set_push_sender(move |push: PushInfo| {
            pass_on(&push, &channels, &hear);
            Ok::<(), ()>(())
        });
    }
    let connecting = MultiplexedConnection::new_with_config(info, stream, config);
    let (connection, driver) = timeout(ANSWER_WITHIN, connecting)
        .await
        .map_err(|_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)))??;
    let line = Arc::new(Line::new(connection, died));
    let weak = Arc::downgrade(&line);
    line.keep(opener.spawn(async move {
        driver.await;
        if let Some(line) = weak.upgrade() {
            line.die();
        }
    }));
    Ok(line)
}

fn pass_on(push: &PushInfo, channels: &[String], hear: &Hear) {
    if push.kind == PushKind::Message
        && let [Value::BulkString(from), Value::BulkString(message)] = push.data.as_slice()
        && !message.is_empty()
    {
        if channels.iter().any(|channel| from == channel.as_bytes()) {
            hear(message);
        } else {
            hear(&[from, &b" "[..], message].concat());
        }
    }
}

async fn select(line: &Line, address: &Address, db: u32) -> Result<(), Failure> {
    match send(line, address, cmd("SELECT").arg(db)).await {
        Err(Failure::Broken(why)) if why.contains("no database") => Err(Failure::Broken(format!(
            "{address} has no database {db}: see the end of the URL, and its setting `databases`"
        ))),
        other => other.map(|_| ()),
    }
}

async fn subscribe(
    opener: &Opener,
    line: &Arc<Line>,
    address: &Address,
    resp3: bool,
) -> Result<(), Failure> {
    if resp3 {
        let mut connection = line.connection().ok_or_else(|| gone(address))?;
        return connection.subscribe(&opener.channels).await.map_err(|error| {
            if error.code().is_none() {
                line.die();
            }
            Failure::of_setup(address, &error)
        });
    }
    let login = opener.config.credentials.read().map_err(Failure::Broken)?;
    let stream = opener.dialer.dial(address).await?;
    let ear = Ear::subscribe(stream, address, login.as_ref(), &opener.channels).await?;
    let (hear, weak) = (opener.hear.clone(), Arc::downgrade(line));
    line.keep(opener.spawn(async move {
        ear.hear(|message| {
            if !message.is_empty() {
                hear(message);
            }
        })
        .await;
        if let Some(line) = weak.upgrade() {
            line.die();
        }
    }));
    Ok(())
}

pub(crate) fn gone(address: &Address) -> Failure {
    Failure::Unreachable(format!("the connection to {address} is lost"))
}

pub(crate) async fn send(line: &Line, address: &Address, command: &Cmd) -> Result<Value, Failure> {
    let mut connection = line.connection().ok_or_else(|| gone(address))?;
    match connection.send_packed_command(command).await {
        Ok(Value::ServerError(error)) => Err(Failure::of_reply(address, &error)),
        Ok(value) => Ok(value),
        Err(error) => {
            line.die();
            Err(Failure::of_connection(address, &error))
        }
    }
}

pub(crate) async fn send_all(
    line: &Line,
    address: &Address,
    commands: Vec<Cmd>,
) -> Vec<Result<Value, Failure>> {
    let count = commands.len();
    let Some(mut connection) = line.connection() else {
        return vec![Err(gone(address)); count];
    };
    if count == 0 {
        return Vec::new();
    }
    let mut pipeline = redis::Pipeline::with_capacity(count);
    for command in commands {
        pipeline.add_command(command);
    }
    match connection.send_packed_commands(&pipeline, 0, count).await {
        Ok(values) => values
            .into_iter()
            .map(|value| match value {
                Value::ServerError(error) => Err(Failure::of_reply(address, &error)),
                value => Ok(value),
            })
            .collect(),
        Err(error) => {
            line.die();
            vec![Err(Failure::of_connection(address, &error)); count]
        }
    }
}

fn wall_ms() -> u64 {
    crate::clock::millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
