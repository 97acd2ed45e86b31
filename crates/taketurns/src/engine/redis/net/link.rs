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

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Cmd, PushKind, ServerError, Value, cmd};

use super::ask::ask_facts;
use super::ear::{Ear, auth};
use super::facts::ServerFacts;
use super::failure::Failure;
use super::line::{Died, Line, Task};
use super::mux::{Answer, Lost, Mux};
use super::opener::{Hear, Opener};
use super::secret::{Credentials, Login};
use super::url::Address;
use super::words::Words;
use crate::engine::Origin;

pub(crate) struct Link {
    line: Arc<Line>,
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
    pub(crate) async fn send(&self, words: &dyn Words) -> Result<Value, Failure> {
        send(&self.line, &self.address, words).await
    }

    /// Sends several in one write. Each has its own answer or error.
    pub(crate) async fn send_all(&self, all: &[impl Words]) -> Vec<Result<Value, Failure>> {
        send_all(&self.line, &self.address, all).await
    }

    /// Subscribes to another channel than the client's. Says whether that was possible; nothing else
    /// comes of it if not.
    pub(crate) async fn hear_also(&self, channel: &str) -> bool {
        match self.confirmed("SUBSCRIBE", PushKind::Subscribe, channel) {
            Some(answer) => matches!(answer.await, Ok(Value::Push { .. })),
            None => false,
        }
    }

    /// The opposite.
    pub(crate) async fn ignore(&self, channel: &str) {
        if let Some(answer) = self.confirmed("UNSUBSCRIBE", PushKind::Unsubscribe, channel) {
            let _ = answer.await;
        }
    }

    /// `None` where there are no pushes.
    fn confirmed(&self, name: &str, kind: PushKind, channel: &str) -> Option<Answer> {
        let mux = if self.resp3 { self.line.mux() } else { None };
        mux.map(|mux| mux.ask_confirmed(cmd(name).arg(channel), kind, 1))
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
    connect_resp2(opener, address, login.as_ref(), Arc::new(|| ())).await
}

/// A connection that is logged in, and whether it speaks RESP3.
pub(crate) async fn connect(
    opener: &Opener,
    address: &Address,
    login: Option<&Login>,
) -> Result<(Arc<Line>, bool), Failure> {
    let stream = opener.dialer.dial(address).await?;
    let (hear, channels) = (opener.hear.clone(), opener.channels.clone());
    let heard = move |from: &[u8], message: &[u8]| pass_on(from, message, &channels, &hear);
    let (mux, driver) = Mux::new(stream, opener.config.timeouts.response, Box::new(heard));
    let mut driver = Box::pin(driver.run());
    // The line is made only when this went well: nobody has to hear of the end of one that never was.
    let mut hello = mux.ask(&hello(login));
    let (answered, has_ended) = tokio::select! {
        biased;
        answered = &mut hello => (answered, false),
        () = &mut driver => (hello.await, true),
    };
    match answered {
        Ok(Value::ServerError(error)) if lacks_resp3(&error) => {
            drop((mux, driver));
            let line = connect_resp2(opener, address, login, opener.died()).await?;
            Ok((line, false))
        }
        Ok(Value::ServerError(error)) => Err(Failure::of_reply(address, &error)),
        Ok(_) if has_ended => Err(Failure::of_setup(address, Lost::Ended)),
        Ok(_) => Ok((line(opener, mux, driver, opener.died()), true)),
        Err(lost) => Err(Failure::of_setup(address, lost)),
    }
}

async fn connect_resp2(
    opener: &Opener,
    address: &Address,
    login: Option<&Login>,
    died: Died,
) -> Result<Arc<Line>, Failure> {
    let stream = opener.dialer.dial(address).await?;
    let (mux, driver) = Mux::new(stream, opener.config.timeouts.response, Box::new(|_, _| ()));
    let line = line(opener, mux, driver.run(), died);
    if let Some(login) = login {
        send(&line, address, &auth(login)).await?;
    }
    Ok(line)
}

fn line(
    opener: &Opener,
    mux: Mux,
    driver: impl Future<Output = ()> + Send + 'static,
    died: Died,
) -> Arc<Line> {
    let line = Arc::new(Line::new(mux, died));
    let weak = Arc::downgrade(&line);
    line.keep(opener.spawn(async move {
        driver.await;
        if let Some(line) = weak.upgrade() {
            line.die();
        }
    }));
    line
}

/// `CLIENT SETINFO` does not follow: it is unknown to 7.0, and some users may not.
fn hello(login: Option<&Login>) -> Cmd {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(login) = login {
        let user = login.user.as_deref().unwrap_or("default");
        hello.arg("AUTH").arg(user).arg(login.password.reveal());
    }
    hello
}

fn lacks_resp3(error: &ServerError) -> bool {
    matches!(error.code(), "NOPROTO" | "NOPERM")
        || error.details().is_some_and(|detail| detail.starts_with("unknown command"))
}

fn pass_on(from: &[u8], message: &[u8], channels: &[String], hear: &Hear) {
    if message.is_empty() {
        return;
    }
    if channels.iter().any(|channel| from == channel.as_bytes()) {
        hear(message);
    } else {
        hear(&[from, &b" "[..], message].concat());
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

/// Listens to the client's channels.
pub(crate) async fn subscribe(
    opener: &Opener,
    line: &Arc<Line>,
    address: &Address,
    resp3: bool,
) -> Result<(), Failure> {
    if resp3 {
        let mux = line.mux().ok_or_else(|| Failure::gone(address))?;
        let channels = &opener.channels;
        let command = cmd("SUBSCRIBE").arg(channels).take();
        let asked = mux.ask_confirmed(&command, PushKind::Subscribe, channels.len());
        return match asked.await {
            Ok(Value::ServerError(error)) => Err(Failure::of_reply(address, &error)),
            Ok(_) => Ok(()),
            Err(lost) => {
                line.die();
                Err(Failure::of_setup(address, lost))
            }
        };
    }
    let login = opener.config.credentials.read().map_err(Failure::Broken)?;
    let stream = opener.dialer.dial(address).await?;
    let timeout = opener.config.timeouts.response;
    let ear = Ear::open(stream, timeout, address, login.as_ref()).await?;
    let ear = ear.subscribed(address, &opener.channels).await?;
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

pub(crate) async fn send(
    line: &Line,
    address: &Address,
    words: &dyn Words,
) -> Result<Value, Failure> {
    let mux = line.mux().ok_or_else(|| Failure::gone(address))?;
    answered(line, address, mux.ask(words)).await
}

pub(crate) async fn send_all(
    line: &Line,
    address: &Address,
    all: &[impl Words],
) -> Vec<Result<Value, Failure>> {
    let Some(mux) = line.mux() else {
        return vec![Err(Failure::gone(address)); all.len()];
    };
    let mut answers = Vec::with_capacity(all.len());
    for answer in mux.ask_all(all) {
        answers.push(answered(line, address, answer).await);
    }
    answers
}

async fn answered(line: &Line, address: &Address, answer: Answer) -> Result<Value, Failure> {
    match answer.await {
        Ok(Value::ServerError(error)) => Err(Failure::of_reply(address, &error)),
        Ok(value) => Ok(value),
        Err(lost) => {
            line.die();
            Err(Failure::of_connection(address, lost))
        }
    }
}

pub(crate) fn wall_ms() -> u64 {
    crate::clock::millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
