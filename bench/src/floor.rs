//! The floor: raw commands on the client crate that the engine uses, with nothing around them.

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::setup::{BenchError, said};

const LEASE_MS: u64 = 30_000;

/// Deletes the key if it is still ours.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// A lock as most people write one: `SET NX PX`, and a script that compares and deletes.
#[derive(Clone)]
pub(crate) struct Floor {
    connection: MultiplexedConnection,
    release: String,
}

impl Floor {
    pub(crate) async fn open(url: &str) -> Result<Self, BenchError> {
        let mut connection = connect(url, AsyncConnectionConfig::new()).await?;
        let mut load = redis::cmd("SCRIPT");
        let load = load.arg("LOAD").arg(RELEASE);
        let release = load.query_async(&mut connection).await.map_err(said)?;
        Ok(Self { connection, release })
    }

    /// Acquires it with an owner of its own, which is what releases it.
    pub(crate) async fn acquire(&mut self, name: &str) -> Result<[u8; 16], BenchError> {
        let mut owner = [0_u8; 16];
        getrandom::fill(&mut owner).map_err(said)?;
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&owner).arg("NX").arg("PX").arg(LEASE_MS);
        match set.query_async(&mut self.connection).await.map_err(said)? {
            true => Ok(owner),
            false => Err(format!("{name} was not free")),
        }
    }

    pub(crate) async fn release(&mut self, name: &str, owner: &[u8; 16]) -> Result<(), BenchError> {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(name).arg(owner);
        match release.query_async(&mut self.connection).await.map_err(said)? {
            1 => Ok(()),
            _ => Err(format!("{name} was not held")),
        }
    }
}

/// A process's end of a message that goes to and fro: it hears on one channel and answers on another.
/// Less than that no hand-over can be.
pub(crate) struct Hop {
    connection: MultiplexedConnection,
    heard: UnboundedReceiver<()>,
    to: String,
}

impl Hop {
    pub(crate) async fn open(url: &str, from: &str, to: &str) -> Result<Self, BenchError> {
        let (tell, heard) = unbounded_channel();
        let config =
            AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| match push.kind {
                PushKind::Message => tell.send(()),
                _ => Ok(()),
            });
        let mut connection = connect(url, config).await?;
        connection.subscribe(from).await.map_err(said)?;
        Ok(Self { connection, heard, to: to.to_owned() })
    }

    pub(crate) async fn say(&mut self) -> Result<(), BenchError> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&self.to).arg("x");
        publish.query_async(&mut self.connection).await.map_err(said)
    }

    pub(crate) async fn hear(&mut self) -> Result<(), BenchError> {
        self.heard.recv().await.ok_or_else(|| "the connection ended".to_owned())
    }
}

/// As the engine connects: RESP3, and nothing held back.
async fn connect(
    url: &str,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, BenchError> {
    let info = url.into_connection_info().map_err(said)?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let info = info
        .set_redis_settings(settings)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let client = Client::open(info).map_err(said)?;
    client
        .get_multiplexed_async_connection_with_config(&config.set_response_timeout(None))
        .await
        .map_err(said)
}
