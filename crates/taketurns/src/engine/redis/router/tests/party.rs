//! A client of the router that keeps every message and wake-up for the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Cmd, Value};
use taketurns_servers::PATIENCE;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::engine::redis::backend::Backend;
use crate::engine::redis::backend::RoutedCommand;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::ServerPeer;
use crate::engine::redis::handshake::{ServerSession, Verify};
use crate::engine::redis::router::Router;
use crate::engine::redis::url::RedisConfig;
use crate::engine::{EngineError, EngineEvent, EngineFuture, Wakes};

pub(crate) const CHANNEL: &str = "tt:channel";

/// A script that only a verified client has loaded.
pub(crate) const SCRIPT: &str = "return redis.call('INCR', KEYS[1])";
pub(crate) const SHA: &str = "61636018f4e6b5817b89791bbed242f93fa089e3";

/// Verifies by remembering the run, and counts.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) verifications: AtomicUsize,
    pub(crate) loads: AtomicUsize,
    pub(crate) keys: std::sync::Mutex<Vec<Vec<u8>>>,
}

impl Verify for Host {
    fn verify<'a>(
        &'a self,
        peer: &'a ServerPeer,
        marker_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Backend, Failure>> {
        Box::pin(async move {
            self.verifications.fetch_add(1, Ordering::SeqCst);
            if !marker_key.is_empty() {
                // Refused by a node that does not have the slot of this key.
                peer.connection
                    .send(redis::cmd("SET").arg(&marker_key).arg(&peer.facts.run))
                    .await?;
                self.keys.lock().unwrap().push(marker_key);
            }
            Ok(Backend::of_run(&peer.facts.run))
        })
    }

    fn load_scripts<'a>(
        &'a self,
        peer: &'a ServerPeer,
        _marker_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Backend, Failure>> {
        Box::pin(async move {
            self.loads.fetch_add(1, Ordering::SeqCst);
            peer.connection.send(redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT)).await?;
            Ok(Backend::of_run(&peer.facts.run))
        })
    }
}

pub(crate) struct Party {
    pub(crate) router: Arc<Router>,
    pub(crate) host: Arc<Host>,
    heard: mpsc::UnboundedReceiver<Vec<u8>>,
    woken: mpsc::UnboundedReceiver<EngineEvent>,
}

impl Party {
    pub(crate) async fn open(url: &str) -> Result<Self, EngineError> {
        let config = Arc::new(RedisConfig::parse(url).unwrap());
        let (say, heard) = mpsc::unbounded_channel();
        let (wakes, woken) = Wakes::channel();
        let host = Arc::new(Host::default());
        let hear = Arc::new(move |_: &[u8], message: &[u8]| {
            // By an empty one the handshake tries whether it may publish.
            if !message.is_empty() {
                let _ = say.send(message.to_vec());
            }
        });
        let router =
            Router::open(config, vec![CHANNEL.to_owned()], hear, wakes, host.clone()).await?;
        Ok(Self { router, host, heard, woken })
    }

    pub(crate) async fn call(
        &self,
        words: &[&str],
    ) -> Result<(Value, Arc<ServerSession>), EngineError> {
        let key = words.get(1).copied().unwrap_or("key");
        let told = self.router.call(key.as_bytes(), &|_: &Backend| command(words)).await?;
        Ok((told.value, told.session))
    }

    /// Calls until it is carried out, as a client would.
    pub(crate) async fn call_until(&self, words: &[&str]) -> (Value, Arc<ServerSession>) {
        let calling = async {
            loop {
                match self.call(words).await {
                    Ok(answer) => return answer,
                    Err(EngineError::Broken(why)) => panic!("{words:?}: {why}"),
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                }
            }
        };
        timeout(PATIENCE, calling).await.expect("it is carried out at last")
    }

    /// All are carried out, by the sessions that are returned.
    pub(crate) async fn a_hundred_at_once<const N: usize>(
        &self,
        key: &'static str,
        words: [&'static str; N],
    ) -> Vec<Arc<ServerSession>> {
        let calls = (0..100).map(|_| {
            let router = self.router.clone();
            async move { router.call(key.as_bytes(), &|_: &Backend| command(&words)).await }
        });
        let answers = calls.collect::<tokio::task::JoinSet<_>>().join_all().await;
        answers.into_iter().map(|answer| answer.unwrap().session).collect()
    }

    pub(crate) async fn heard(&mut self) -> Vec<u8> {
        timeout(PATIENCE, self.heard.recv()).await.expect("a message").unwrap()
    }

    pub(crate) async fn recheck(&mut self) {
        let woken = timeout(PATIENCE, self.woken.recv()).await.expect("a recheck");
        assert_eq!(woken, Some(EngineEvent::Recheck));
    }

    pub(crate) fn is_quiet(&mut self) -> bool {
        self.woken.try_recv().is_err() && self.heard.try_recv().is_err()
    }
}

pub(crate) fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

/// One of those that `Router::call_all` sends together.
pub(crate) fn a_call<const N: usize>(
    key: &str,
    words: [&'static str; N],
) -> (Vec<u8>, Box<dyn RoutedCommand>) {
    (key.into(), Box::new(move |_: &Backend| command(&words)))
}

pub(crate) async fn refused(url: &str) -> EngineError {
    match Party::open(url).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

pub(crate) fn assert_broken(error: &EngineError, piece: &str) {
    assert!(matches!(error, EngineError::Broken(why) if why.contains(piece)), "{error:?}");
}

pub(crate) fn text(value: &Value) -> String {
    redis::from_redis_value_ref(value).unwrap()
}
