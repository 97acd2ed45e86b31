//! What one server says when it is looked at. Each question has its own answer or refusal: one that is
//! not answered keeps none of the others from being asked. Nothing is written.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};
use tokio::time::timeout;

use super::members;
use super::rights::{self, Rights};
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::connector::Connector;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::facts::{SECTIONS, ServerFacts};
use crate::engine::redis::handshake::query::{lag, now_ms, text, wall_ms};
use crate::engine::redis::url::secret::{Credentials, Source};
use crate::engine::redis::url::{Address, RedisConfig};

/// For all questions to one server together.
const NODE_WITHIN: Duration = Duration::from_secs(15);
/// How often a round trip is measured, and for how long at the most.
const ROUND_TRIPS: usize = 20;
const MEASURE_WITHIN: Duration = Duration::from_secs(3);

/// What is said by INFO beside what every client asks for.
const MORE_SECTIONS: [&str; 2] = ["modules", "fencelock"];
const SETTINGS: [&str; 6] = [
    "save",
    "appendfsync",
    "stop-writes-on-bgsave-error",
    "timeout",
    "min-replicas-to-write",
    "min-replicas-max-lag",
];

/// The role that the server should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerPart {
    /// The one that the URL names.
    Alone,
    /// Of Sentinel or of a Cluster.
    Master,
    Replica,
    /// Of a quorum.
    Node,
}

/// One server, as it was found.
#[derive(Clone, Debug)]
pub(super) struct ExaminedServer {
    pub(super) address: Address,
    pub(super) part: ServerPart,
    /// As whom we log in, if we do.
    pub(super) login: Option<String>,
    /// Is anybody let in who does not?
    pub(super) is_open: bool,
    pub(super) answers: Result<Answers, Failure>,
}

/// What it said.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) resp3: bool,
    pub(super) database: Result<(), Failure>,
    /// All sections of INFO that it answered.
    pub(super) info: Result<String, Failure>,
    /// The same, read; `None` if there is no sense in it.
    pub(super) facts: Option<ServerFacts>,
    /// `None` if this user may not ask for them.
    pub(super) settings: Option<HashMap<String, String>>,
    /// As [`crate::engine::redis::handshake::ServerPeer::lag`].
    pub(super) lag: Option<Duration>,
    /// Who we are to it, if it says.
    pub(super) user: Option<String>,
    pub(super) trips: Vec<Trip>,
    pub(super) rights: Result<Rights, Failure>,
    pub(super) subscribes: Result<(), Failure>,
    /// The text of the marker; empty if there is none. `None` on a server that has none of its own.
    pub(super) marker: Option<Result<String, Failure>>,
    /// To which quorum it belongs, in the words that are written there; `None` if that was not asked for or
    /// can't be read.
    pub(super) members: Option<Vec<String>>,
}

/// One question about the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trip {
    /// Our wall clock when it was asked.
    pub(super) sent_ms: u64,
    pub(super) took: Duration,
    /// Its wall clock.
    pub(super) server_ms: u64,
}

/// Which keys of it are looked at, if any.
#[derive(Clone, Debug, Default)]
pub(super) struct ExaminedKeys {
    pub(super) marker: Option<Vec<u8>>,
    /// Where it is written to which quorum it belongs.
    pub(super) registry: Option<Vec<u8>>,
}

/// Looks at one server.
pub(super) async fn look_at(
    connector: &Connector,
    address: &Address,
    part: ServerPart,
    keys: ExaminedKeys,
) -> ExaminedServer {
    let asked = timeout(connector.config.timeouts.stretch(NODE_WITHIN), async {
        let answers = ask(connector, address, keys).await;
        let is_open = answers.is_ok() && is_open(connector, address).await;
        (answers, is_open)
    });
    let late = || Failure::Unreachable(format!("{address} does not answer in time"));
    let (answers, is_open) = asked.await.unwrap_or_else(|_| (Err(late()), false));
    let login = connector.config.credentials.read().ok().flatten();
    let login = login.map(|login| login.user.unwrap_or_else(|| "default".to_owned()));
    ExaminedServer { address: address.clone(), part, login, is_open, answers }
}

/// A client that may not log in is refused whatever it asks.
async fn is_open(connector: &Connector, address: &Address) -> bool {
    let nobody = Credentials { user: None, password: Source::Nothing };
    let Ok(connection) = connector.connect_plain(address, &nobody).await else { return false };
    let answer = connection.send(&cmd("TIME")).await;
    connection.close();
    answer.is_ok()
}

async fn ask(
    connector: &Connector,
    address: &Address,
    keys: ExaminedKeys,
) -> Result<Answers, Failure> {
    let config = &connector.config;
    let login = config.credentials.read().map_err(Failure::Broken)?;
    let connection = connector.log_in(address, 0, login.as_ref()).await?;
    let asking = ExamConnection { connection: &connection, address };
    // Who is not let in says so at the first question: else each would be refused for that reason.
    if let Err(failure @ Failure::Broken(_)) = asking.one(&cmd("TIME")).await
        && !failure.is_right_missing()
    {
        return Err(failure);
    }
    let database = match config.db {
        0 => Ok(()),
        db => asking.one(cmd("SELECT").arg(db)).await.map(|_| ()),
    };
    let (info, facts) = asking.info().await?;
    let rights = asking.rights(config).await;
    // Where the rights are unknown, it is tried.
    let may = |what: fn(&Rights) -> bool| rights.as_ref().map_or(true, what);
    let (settings, lag) = match may(|rights| rights.may_see_settings) {
        true => asking.settings().await,
        false => (None, None),
    };
    let user = match may(|rights| rights.may_see_user) {
        true => asking.one(cmd("ACL").arg("WHOAMI")).await.ok().and_then(|user| text(&user)),
        false => None,
    };
    let marker = match keys.marker {
        Some(key) => Some(asking.marker(&key).await),
        None => None,
    };
    let members = match (keys.registry, &facts) {
        (Some(key), Some(facts)) => members::read(&asking, config, facts, &key).await,
        _ => None,
    };
    let trips = asking.trips().await;
    // Last, since nothing else can be asked of a subscribed connection of RESP2.
    let subscribes = connector.subscribe(&connection).await;
    let answers = Answers {
        resp3: connection.resp3,
        database,
        info,
        facts,
        settings,
        lag,
        user,
        trips,
        rights,
        subscribes,
        marker,
        members,
    };
    connection.close();
    Ok(answers)
}

/// A connection that is asked.
pub(super) struct ExamConnection<'a> {
    connection: &'a ServerConnection,
    address: &'a Address,
}

impl ExamConnection<'_> {
    pub(super) async fn one(&self, command: &Cmd) -> Result<Value, Failure> {
        self.connection.send(command).await
    }

    /// What it says of itself. An error only if it is no server at all that locks could be on.
    async fn info(&self) -> Result<(Result<String, Failure>, Option<ServerFacts>), Failure> {
        let sections = SECTIONS.iter().chain(&MORE_SECTIONS);
        let commands = sections.map(|section| {
            let mut info = cmd("INFO");
            info.arg(section);
            info
        });
        let mut commands: Vec<Cmd> = commands.collect();
        commands.push(cmd("TIME"));
        let mut answers = self.connection.send_all(&commands).await;
        let time = answers.pop().and_then(Result::ok).and_then(|time| now_ms(&time));
        let sections: Result<Vec<_>, _> =
            answers.into_iter().map(|answer| answer.map(|info| text(&info))).collect();
        let info = sections.map(|all| all.into_iter().flatten().collect::<Vec<_>>().join("\n"));
        if info.as_ref().is_ok_and(|info| info.contains("redis_mode:sentinel")) {
            return Err(Failure::is_sentinel(self.address));
        }
        let facts = info.as_ref().ok();
        let facts = facts.and_then(|info| ServerFacts::parse(info, time.unwrap_or_default()));
        Ok((info, facts))
    }

    async fn settings(&self) -> (Option<HashMap<String, String>>, Option<Duration>) {
        let mut question = cmd("CONFIG");
        question.arg("GET").arg(&SETTINGS);
        let Ok(reply) = self.one(&question).await else { return (None, None) };
        let pairs = reply.as_map_iter().map(|pairs| {
            pairs.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
        });
        (pairs, lag(&reply))
    }

    async fn marker(&self, key: &[u8]) -> Result<String, Failure> {
        let found = self.one(cmd("GET").arg(key)).await?;
        Ok(text(&found).unwrap_or_default())
    }

    async fn rights(&self, config: &RedisConfig) -> Result<Rights, Failure> {
        let mut question = cmd("EVAL");
        question.arg(rights::ASK).arg(0).arg(rights::question(config));
        let answers = self.one(&question).await?;
        let answers: Option<Vec<i64>> = redis::from_redis_value(answers).ok();
        answers.and_then(|answers| rights::read(config, &answers)).ok_or_else(|| {
            Failure::Broken(format!("{} sent a malformed reply to EVAL", self.address))
        })
    }

    async fn trips(&self) -> Vec<Trip> {
        let (mut trips, begun) = (Vec::new(), Instant::now());
        while trips.len() < ROUND_TRIPS && begun.elapsed() < MEASURE_WITHIN {
            let (sent_ms, sent) = (wall_ms(), Instant::now());
            let Ok(time) = self.one(&cmd("TIME")).await else { break };
            let took = sent.elapsed();
            let Some(server_ms) = now_ms(&time) else { break };
            trips.push(Trip { sent_ms, took, server_ms });
        }
        trips
    }
}
