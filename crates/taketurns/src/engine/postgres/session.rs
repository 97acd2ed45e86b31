//! Connections: dial a host, log in, see whether the server will do.
//!
//! A connection is used by one task at a time, so whatever the server says on it belongs to that task's transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Row};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{Instrument, Span};

use super::failure::before_commit;
use super::statements;
use super::tls::PostgresTls;
use super::url::{PostgresConfig, PostgresHost};
use crate::engine::server_url::tls::connector;
use crate::engine::{EngineError, EngineFuture};
use crate::telling::Reconnect;

/// The oldest server that has all that the statements use.
pub(super) const VERSION_MIN: i32 = 130_000;

/// As for Redis: the kernel asks whether the other side is still there.
const KEEP_IDLE: Duration = Duration::from_secs(5);
const KEEP_EVERY: Duration = Duration::from_secs(2);
const KEEP_PROBES: u32 = 3;

/// What is done with a message for a channel.
pub(super) type OnNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// A connection to a server that takes writes.
pub(super) struct PgSession {
    pub(super) client: Client,
    pub(super) facts: PostgresFacts,
    /// The server warned of something since this was last asked.
    has_warned: Arc<AtomicBool>,
    /// Ends the connection at once.
    task: AbortOnDropHandle<()>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PostgresFacts {
    pub(super) version: i32,
    pub(super) in_recovery: bool,
    pub(super) encoding: String,
    pub(super) user: String,
    pub(super) database: String,
}

impl PgSession {
    /// Has the server warned that a commit may not be on its standby? (A warning with the code 01000.)
    pub(super) fn take_warning(&self) -> bool {
        self.has_warned.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Waits until the connection ends.
    pub(super) async fn ended(&mut self) {
        // A task may be waited for once only.
        if !self.task.is_finished() {
            let _ = (&mut self.task).await;
        }
    }

    /// Says goodbye: for a connection without a transaction.
    pub(super) fn end(self) {
        let Self { client, task, .. } = self;
        drop(client);
        // It ends by itself once it has said so.
        task.detach();
    }
}

/// Opens connections for one client, on the runtime that drives them.
pub(super) struct PostgresConnector {
    pub(super) config: Arc<PostgresConfig>,
    tls: PostgresTls,
    pub(super) runtime: Handle,
    tasks: ClientTasks,
}

/// The tasks of one client.
#[derive(Clone, Default)]
pub(super) struct ClientTasks {
    pub(super) tracker: TaskTracker,
    /// The client is closed: what runs on by itself ends.
    pub(super) closed: CancellationToken,
}

impl PostgresConnector {
    /// Reads the certificates, once. To be called on the runtime that drives the connections.
    pub(super) fn new(
        config: Arc<PostgresConfig>,
        tasks: ClientTasks,
    ) -> Result<Self, EngineError> {
        let tls = config.tls.as_ref().map(connector).transpose().map_err(EngineError::Broken)?;
        Ok(Self { config, tls: PostgresTls(tls), runtime: Handle::current(), tasks })
    }

    /// Connects to the first host that takes writes, perhaps in place of a connection that ended.
    pub(super) async fn connect(
        &self,
        on_notice: OnNotice,
        is_replacement: bool,
    ) -> Result<PgSession, EngineError> {
        let reconnect = is_replacement.then(Reconnect::begin);
        let span = reconnect.as_ref().map_or_else(Span::none, Reconnect::span);
        let connected = self.connect_to_primary(on_notice).instrument(span).await;
        if let Some(reconnect) = reconnect {
            reconnect.end(connected.as_ref().ok().map(|(host, _)| *host));
        }
        connected.map(|(_, session)| session)
    }

    async fn connect_to_primary(
        &self,
        on_notice: OnNotice,
    ) -> Result<(&PostgresHost, PgSession), EngineError> {
        let mut failures = Vec::new();
        for host in &self.config.hosts {
            let opening = self.connect_to(host, on_notice.clone());
            // TCP, TLS, login and the first question.
            let limit = self.config.timeouts.connect + self.config.timeouts.response;
            let opened = timeout(limit, opening).await;
            let failed = match opened {
                Ok(Ok(session)) => match refusal(&session.facts) {
                    None => return Ok((host, session)),
                    Some(refusal) => {
                        session.end();
                        refusal
                    }
                },
                Ok(Err(error)) => error,
                Err(_) => EngineError::Unreachable("it does not answer".to_owned()),
            };
            failures.push((host, failed));
        }
        Err(of_all(failures))
    }

    pub(super) async fn connect_to(
        &self,
        host: &PostgresHost,
        on_notice: OnNotice,
    ) -> Result<PgSession, EngineError> {
        let config = self.settings(host)?;
        // Sockets have none, on any server.
        let tls = match host {
            PostgresHost::Tcp(_) => self.tls.clone(),
            PostgresHost::Socket(..) => PostgresTls(None),
        };
        let (client, connection) =
            config.connect(tls).await.map_err(|error| before_commit(&error))?;
        let has_warned = Arc::new(AtomicBool::new(false));
        let run = drive(connection, has_warned.clone(), on_notice);
        let task = AbortOnDropHandle::new(self.tasks.tracker.spawn_on(run, &self.runtime));
        let met = client.query_typed_one(statements::MEET, &[]).await;
        let facts = met.and_then(|row| facts(&row)).map_err(|error| before_commit(&error))?;
        Ok(PgSession { client, facts, has_warned, task })
    }

    fn settings(&self, host: &PostgresHost) -> Result<Config, EngineError> {
        let mut config = Config::new();
        match host {
            PostgresHost::Tcp(address) => config.host(&address.host).port(address.port),
            PostgresHost::Socket(directory, port) => config.host_path(directory).port(*port),
        };
        let login = self.config.credentials.read().map_err(EngineError::Broken)?;
        if let Some(login) = &login {
            config.password(login.password.reveal());
            // Without one: the name of this process's user, as with other clients of PostgreSQL.
            login.user.as_ref().map(|user| config.user(user));
        }
        if let Some(database) = &self.config.database {
            config.dbname(database);
        }
        let is_sealed = self.config.tls.is_some() && matches!(host, PostgresHost::Tcp(_));
        let tls = if is_sealed { SslMode::Require } else { SslMode::Disable };
        config.ssl_mode(tls).application_name("taketurns");
        config.connect_timeout(self.config.timeouts.connect);
        config.keepalives_idle(KEEP_IDLE).keepalives_interval(KEEP_EVERY);
        config.keepalives_retries(KEEP_PROBES);
        Ok(config)
    }

    /// Runs a task to its end.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.tracker.spawn_on(task, &self.runtime);
    }

    /// Runs a task until the client is closed.
    pub(super) fn spawn_until_closed(&self, task: impl Future<Output = ()> + Send + 'static) {
        let closed = self.tasks.closed.clone();
        self.spawn(async move {
            let _ = closed.run_until_cancelled(task).await;
        });
    }
}

/// Reads what the server says until the connection ends. A warning is noted before the answer that it comes with.
fn drive<S, T>(
    mut connection: Connection<S, T>,
    has_warned: Arc<AtomicBool>,
    on_notice: OnNotice,
) -> EngineFuture<'static, ()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                AsyncMessage::Notice(notice) if *notice.code() == SqlState::WARNING => {
                    has_warned.store(true, Ordering::Release);
                }
                AsyncMessage::Notification(notification) => on_notice(notification.payload()),
                _ => {}
            }
        }
    })
}

fn facts(row: &Row) -> Result<PostgresFacts, tokio_postgres::Error> {
    Ok(PostgresFacts {
        version: row.try_get(0)?,
        in_recovery: row.try_get(1)?,
        encoding: row.try_get(2)?,
        user: row.try_get(3)?,
        database: row.try_get(4)?,
    })
}

/// Why a server won't do.
pub(super) fn refusal(facts: &PostgresFacts) -> Option<EngineError> {
    let PostgresFacts { version, in_recovery, encoding, database, .. } = facts;
    if *version < VERSION_MIN {
        let (major, min) = (version / 10_000, VERSION_MIN / 10_000);
        let why = format!("PostgreSQL {major} is too old: taketurns needs {min} or later");
        return Some(EngineError::Broken(why));
    }
    if *in_recovery {
        let why = "this is a standby, which takes no writes; name the primary, or all hosts: postgres://a,b/database";
        return Some(EngineError::Unreachable(why.to_owned()));
    }
    (encoding != "UTF8").then(|| {
        EngineError::Broken(format!(
            "the database {database} has the encoding {encoding}: locks need one with UTF8, since a name may have any \
             character"
        ))
    })
}

/// The failures of all hosts as one. What another attempt may change comes first.
fn of_all(failures: Vec<(&PostgresHost, EngineError)>) -> EngineError {
    let text: Vec<_> = failures.iter().map(|(host, error)| format!("{host}: {error}")).collect();
    let text = text.join("; ");
    let any = |is: fn(&EngineError) -> bool| failures.iter().any(|(_, error)| is(error));
    if any(|error| matches!(error, EngineError::Loading(_))) {
        EngineError::Loading(text)
    } else if any(|error| matches!(error, EngineError::Unreachable(_))) {
        EngineError::Unreachable(text)
    } else {
        EngineError::Broken(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> PostgresFacts {
        PostgresFacts {
            version: 150_014,
            in_recovery: false,
            encoding: "UTF8".to_owned(),
            user: "app".to_owned(),
            database: "app".to_owned(),
        }
    }

    #[test]
    fn a_server_that_will_not_do_is_refused_with_the_reason() {
        assert_eq!(refusal(&server()), None);
        let old = PostgresFacts { version: 120_022, ..server() };
        assert!(refusal(&old).unwrap().to_string().contains("PostgreSQL 12 is too old"));
        let standby = PostgresFacts { in_recovery: true, ..server() };
        assert!(refusal(&standby).unwrap().to_string().contains("standby"));
        let latin = PostgresFacts { encoding: "LATIN1".to_owned(), ..server() };
        assert!(refusal(&latin).unwrap().to_string().contains("LATIN1"));
    }

    #[test]
    fn of_several_hosts_what_may_change_comes_first() {
        let host = PostgresHost::Socket("/run".into(), 1);
        let of = |errors: &[EngineError]| {
            of_all(errors.iter().map(|error| (&host, error.clone())).collect())
        };
        let (broken, away) =
            (EngineError::Broken("a".into()), EngineError::Unreachable("b".into()));
        let text = "/run/.s.PGSQL.1: a; /run/.s.PGSQL.1: b".to_owned();
        assert_eq!(of(&[broken.clone(), away.clone()]), EngineError::Unreachable(text));
        assert!(matches!(of(std::slice::from_ref(&broken)), EngineError::Broken(_)));
        assert!(matches!(of(&[away, EngineError::Loading("c".into())]), EngineError::Loading(_)));
    }
}
