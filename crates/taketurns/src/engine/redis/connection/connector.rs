//! How connections of one client are made: dial, log in, select the database, subscribe.
//!
//! ```text
//!   socket ─► HELLO 3 AUTH ─► SELECT ─► SUBSCRIBE
//!               │ refused
//!               └─► RESP2: AUTH ─► SELECT, and a second connection that is SUBSCRIBEd
//! ```

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, PushKind, ServerError, Value, cmd};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::dial::Dialer;
use super::failure::Failure;
use super::multiplexer::{Multiplexer, NoReply, OnMessage};
use super::subscriber::{Subscriber, auth};
use super::{OnDeath, ServerConnection};
use crate::engine::redis::url::secret::{Credentials, Login};
use crate::engine::redis::url::{Address, RedisConfig};
use crate::engine::{EngineEvent, Origin, Wakes};
use crate::runtime::entered;

/// Tasks that were told to end do so at their next turn.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Makes the connections of one client, and runs their tasks on the client's own runtime.
pub(crate) struct Connector {
    pub(crate) config: Arc<RedisConfig>,
    dialer: Dialer,
    /// The client's own, and where else it listens.
    pub(crate) channels: Vec<String>,
    on_message: OnMessage,
    pub(crate) wakes: Wakes,
    pub(crate) runtime: Handle,
    epochs: AtomicU64,
    tasks: TaskTracker,
}

impl Connector {
    /// To be called on the runtime that drives the connections.
    pub(crate) fn new(
        config: Arc<RedisConfig>,
        channels: Vec<String>,
        on_message: OnMessage,
        wakes: Wakes,
    ) -> Result<Self, Failure> {
        let dialer = Dialer::new(config.tls.as_ref(), config.timeouts.connect);
        Ok(Self {
            dialer: dialer.map_err(Failure::Broken)?,
            config,
            channels,
            on_message,
            wakes,
            runtime: Handle::current(),
            epochs: AtomicU64::new(0),
            tasks: TaskTracker::new(),
        })
    }

    /// Connects, logs in, selects the database and, if `subscribe` says so, listens to the client's channels.
    pub(crate) async fn connect(
        &self,
        address: &Address,
        source: u64,
        subscribe: bool,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let login = self.login()?;
        let connection = self.log_in(address, source, login.as_ref()).await?;
        if self.config.db != 0 {
            select(&connection, self.config.db).await?;
        }
        if subscribe {
            self.subscribe(&connection).await?;
        }
        Ok(connection)
    }

    fn login(&self) -> Result<Option<Login>, Failure> {
        self.config.credentials.read().map_err(Failure::Broken)
    }

    /// A connection for commands alone, as to a Sentinel.
    pub(crate) async fn connect_plain(
        &self,
        address: &Address,
        credentials: &Credentials,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let login = credentials.read().map_err(Failure::Broken)?;
        let origin = Origin { source: 0, epoch: self.next_epoch() };
        self.log_in_resp2(address, origin, login.as_ref(), Arc::new(|| ())).await
    }

    /// A connection of its own for what blocks, or for subscriptions of RESP2.
    pub(crate) async fn subscriber(
        &self,
        address: &Address,
        credentials: &Credentials,
    ) -> Result<Subscriber, Failure> {
        let login = credentials.read().map_err(Failure::Broken)?;
        let stream = self.dialer.dial(address).await?;
        Subscriber::open(stream, self.config.timeouts.response, address, login.as_ref()).await
    }

    /// A connection that is logged in.
    pub(crate) async fn log_in(
        &self,
        address: &Address,
        source: u64,
        login: Option<&Login>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let origin = Origin { source, epoch: self.next_epoch() };
        let stream = self.dialer.dial(address).await?;
        let within = self.config.timeouts.response;
        let (multiplexer, driver) = Multiplexer::new(stream, within, self.on_message.clone());
        let mut driver = Box::pin(driver.run());
        // The connection is made only when this went well: nobody is told of the death of one that never was.
        let mut hello = multiplexer.ask(&hello(login));
        let (reply, has_ended) = tokio::select! {
            biased;
            reply = &mut hello => (reply, false),
            () = &mut driver => (hello.await, true),
        };
        match reply {
            Ok(Value::ServerError(error)) if lacks_resp3(&error) => {
                drop((multiplexer, driver));
                self.log_in_resp2(address, origin, login, self.on_death()).await
            }
            Ok(Value::ServerError(error)) => Err(Failure::of_reply(address, &error)),
            Ok(_) if has_ended => Err(Failure::of_setup(address, NoReply::Ended)),
            Ok(_) => {
                let on_death = self.on_death();
                let connection =
                    ServerConnection::new(address, origin, true, multiplexer, on_death);
                Ok(self.drive(connection, driver))
            }
            Err(why) => Err(Failure::of_setup(address, why)),
        }
    }

    async fn log_in_resp2(
        &self,
        address: &Address,
        origin: Origin,
        login: Option<&Login>,
        on_death: OnDeath,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let stream = self.dialer.dial(address).await?;
        let within = self.config.timeouts.response;
        let (multiplexer, driver) = Multiplexer::new(stream, within, Arc::new(|_, _| ()));
        let connection = ServerConnection::new(address, origin, false, multiplexer, on_death);
        let connection = self.drive(connection, driver.run());
        if let Some(login) = login {
            connection.send(&auth(login)).await?;
        }
        Ok(connection)
    }

    fn drive(
        &self,
        connection: ServerConnection,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<ServerConnection> {
        let connection = Arc::new(connection);
        self.attach(&connection, driver);
        connection
    }

    /// Runs a task without which the connection is of no use.
    fn attach(
        &self,
        connection: &Arc<ServerConnection>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let weak = Arc::downgrade(connection);
        connection.attach(self.spawn(async move {
            task.await;
            if let Some(connection) = weak.upgrade() {
                connection.kill();
            }
        }));
    }

    /// Listens to the client's channels, unless it does already.
    pub(crate) async fn subscribe(
        &self,
        connection: &Arc<ServerConnection>,
    ) -> Result<(), Failure> {
        if connection.is_subscribed.load(Ordering::Acquire) {
            return Ok(());
        }
        match connection.resp3 {
            true => self.subscribe_by_push(connection).await?,
            false => self.subscribe_beside(connection).await?,
        }
        connection.is_subscribed.store(true, Ordering::Release);
        Ok(())
    }

    async fn subscribe_by_push(&self, connection: &ServerConnection) -> Result<(), Failure> {
        let address = &connection.address;
        if !connection.is_alive() {
            return Err(Failure::gone(address));
        }
        let command = cmd("SUBSCRIBE").arg(&self.channels).take();
        let confirmations = self.channels.len();
        let subscribed =
            connection.multiplexer.ask_confirmed(&command, PushKind::Subscribe, confirmations);
        match subscribed.await {
            Ok(Value::ServerError(error)) => Err(Failure::of_reply(address, &error)),
            Ok(_) => Ok(()),
            Err(why) => {
                connection.kill();
                Err(Failure::of_setup(address, why))
            }
        }
    }

    /// By a second connection: the two live and die together.
    async fn subscribe_beside(&self, connection: &Arc<ServerConnection>) -> Result<(), Failure> {
        let address = &connection.address;
        let subscriber = self.subscriber(address, &self.config.credentials).await?;
        let subscriber = subscriber.subscribed(address, &self.channels).await?;
        let on_message = self.on_message.clone();
        self.attach(connection, async move {
            subscriber.listen(|channel, message| on_message(channel, message)).await;
        });
        Ok(())
    }

    fn next_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// From then on wake-ups may be lost.
    fn on_death(&self) -> OnDeath {
        let wakes = self.wakes.clone();
        Arc::new(move || wakes.push(EngineEvent::Recheck))
    }

    /// Runs a task on the client's own runtime, until the handle is dropped.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.tasks.spawn_on(task, &self.runtime))
    }

    /// From now on [`Self::finished`] waits only for the tasks that are left.
    pub(crate) fn finish(&self) {
        self.tasks.close();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.tasks.is_closed()
    }

    /// Waits until all tasks have ended, but not for long.
    pub(crate) async fn finished(&self) {
        let ended = async { timeout(CLOSE_WITHIN, self.tasks.wait()).await };
        let _ = entered(&self.runtime, ended).await;
    }
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

async fn select(connection: &ServerConnection, db: u32) -> Result<(), Failure> {
    let address = &connection.address;
    match connection.send(cmd("SELECT").arg(db)).await {
        Err(Failure::Broken(why)) if why.contains("no database") => Err(Failure::Broken(format!(
            "{address} has no database {db}: see the end of the URL, and its setting `databases`"
        ))),
        other => other.map(|_| ()),
    }
}
