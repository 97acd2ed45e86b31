//! Sentinels: who is the master, and a watch over who it is.
//!
//! ```text
//!   find:   ask one after the other ─► address of the master
//!   watch:  one Sentinel ── +switch-master ─┐
//!                        ── every second ───┴─► still the same address? else the connection is dropped
//! ```
//!
//! The message alone is not enough, since a subscription may be broken unnoticed, and polling alone
//! would cost up to a second at every fail-over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Value, cmd};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::single::SingleServer;
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::connector::Connector;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::Handshake;
use crate::engine::redis::handshake::query::text;
use crate::engine::redis::url::Address;
use crate::engine::redis::url::secret::Credentials;

const POLL: Duration = Duration::from_secs(1);

pub(crate) struct Sentinels {
    addresses: Vec<Address>,
    master: String,
    credentials: Credentials,
    /// Whom to ask first: the last one that was of use.
    first: AtomicUsize,
}

impl Sentinels {
    pub(crate) fn new(addresses: Vec<Address>, master: String, credentials: Credentials) -> Self {
        Self { addresses, master, credentials, first: AtomicUsize::new(0) }
    }

    /// The master, by the word of the first Sentinel that knows it.
    pub(crate) async fn find(&self, connector: &Connector) -> Result<Address, Failure> {
        let mut unreachable = Vec::new();
        let mut broken = None;
        // By a count of its own: the watch turns to the next one too, and none may be passed over.
        let first = self.first.load(Ordering::Relaxed);
        for number in (0..self.addresses.len()).map(|ahead| first.wrapping_add(ahead)) {
            let sentinel = self.nth(number);
            let asked = async {
                let connection = connector.connect_plain(sentinel, &self.credentials).await?;
                self.ask(&connection).await
            };
            match asked.await {
                Ok(address) => {
                    self.first.store(number, Ordering::Relaxed);
                    return Ok(address);
                }
                Err(failure @ Failure::Broken(_)) => broken = Some(failure),
                Err(_) => unreachable.push(sentinel.to_string()),
            }
        }
        Err(broken.unwrap_or_else(|| {
            Failure::Unreachable(format!("no Sentinel answers: {}", unreachable.join(", ")))
        }))
    }

    /// Asks another one first from now on.
    pub(crate) fn try_next_first(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    fn nth(&self, number: usize) -> &Address {
        &self.addresses[number % self.addresses.len()]
    }

    /// The master, by the word of this one.
    pub(crate) async fn ask(&self, connection: &ServerConnection) -> Result<Address, Failure> {
        let sentinel = &connection.address;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        let reply = connection.send(&question).await.map_err(|failure| match failure {
            Failure::NoCommand(_) => Failure::Broken(format!(
                "{sentinel} is no Sentinel: use redis://, or name Sentinels"
            )),
            other => other,
        })?;
        if reply == Value::Nil {
            return Err(Failure::Broken(format!(
                "the Sentinel {sentinel} knows no master named {:?}: see the URL",
                self.master
            )));
        }
        address(&reply, &sentinel.host)
            .ok_or_else(|| Failure::Broken(format!("{sentinel} does not answer as a Sentinel")))
    }

    /// Watches, with one Sentinel at a time, as long as there is anyone to tell.
    pub(crate) async fn watch(
        self: Arc<Self>,
        handshake: Arc<Handshake>,
        server: Weak<SingleServer>,
    ) {
        while server.strong_count() > 0 {
            let number = self.first.load(Ordering::Relaxed);
            if self.watch_by(&handshake.connector, number, &server).await.is_err() {
                // Unless somebody else has found that out.
                let next = number.wrapping_add(1);
                let _ =
                    self.first.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
            }
            sleep(POLL).await;
        }
    }

    async fn watch_by(
        &self,
        connector: &Connector,
        number: usize,
        server: &Weak<SingleServer>,
    ) -> Result<(), Failure> {
        let sentinel = self.nth(number);
        let connection = connector.connect_plain(sentinel, &self.credentials).await?;
        let subscriber = connector.subscriber(sentinel, &self.credentials).await?;
        let subscriber = subscriber.subscribed(sentinel, &["+switch-master"]).await?;
        let switched = Notify::new();
        let polling = async {
            let mut known = None;
            loop {
                let address = self.ask(&connection).await?;
                let Some(server) = server.upgrade() else { return Ok(()) };
                // Only news count: one that is behind the times would say the same for ever.
                if known.as_ref() != Some(&address) {
                    self.first.store(number, Ordering::Relaxed);
                    server.handle_master(&address);
                    known = Some(address);
                }
                drop(server);
                let _ = timeout(POLL, switched.notified()).await;
            }
        };
        tokio::select! {
            result = polling => result,
            () = subscriber.listen(|_, _| switched.notify_one()) => {
                Err(Failure::Unreachable(format!("the connection to {sentinel} is lost")))
            }
        }
    }
}

/// Where the master is, by the word of a Sentinel at this host.
pub(crate) fn address(reply: &Value, asked: &str) -> Option<Address> {
    let [host, port] = reply.as_sequence()? else { return None };
    Address::of_parts(&text(host)?, text(port)?.parse().ok()?, asked)
}
