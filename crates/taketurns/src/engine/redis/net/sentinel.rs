//! Sentinels: who is the master, and a watch over who it is.
//!
//! ```text
//!   find:   ask one after the other ─► address of the master
//!   watch:  one Sentinel ── +switch-master ─┐
//!                        ── every second ───┴─► still the same address? else the link is dropped
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

use super::ask::text;
use super::ear::Ear;
use super::failure::Failure;
use super::line::Line;
use super::link::{connect_plain, send};
use super::opener::Opener;
use super::secret::Credentials;
use super::solo::Solo;
use super::url::Address;

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
    pub(crate) async fn find(&self, opener: &Opener) -> Result<Address, Failure> {
        let mut unreachable = Vec::new();
        let mut broken = None;
        // By a count of its own: the watch turns to the next one too, and none may be passed over.
        let first = self.first.load(Ordering::Relaxed);
        for number in (0..self.addresses.len()).map(|ahead| first.wrapping_add(ahead)) {
            let sentinel = self.nth(number);
            let asked = async {
                let line = connect_plain(opener, sentinel, &self.credentials).await?;
                self.ask(&line, sentinel).await
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
    pub(crate) fn turn(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    fn nth(&self, number: usize) -> &Address {
        &self.addresses[number % self.addresses.len()]
    }

    /// The master, by the word of this one.
    pub(crate) async fn ask(&self, line: &Line, sentinel: &Address) -> Result<Address, Failure> {
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        let reply = send(line, sentinel, &question).await.map_err(|failure| match failure {
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
    pub(crate) async fn watch(self: Arc<Self>, opener: Arc<Opener>, solo: Weak<Solo>) {
        while solo.strong_count() > 0 {
            let number = self.first.load(Ordering::Relaxed);
            if self.watch_by(&opener, number, &solo).await.is_err() {
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
        opener: &Opener,
        number: usize,
        solo: &Weak<Solo>,
    ) -> Result<(), Failure> {
        let sentinel = self.nth(number);
        let login = self.credentials.read().map_err(Failure::Broken)?;
        let line = connect_plain(opener, sentinel, &self.credentials).await?;
        let stream = opener.dialer.dial(sentinel).await?;
        let limit = opener.config.timeouts.response;
        let ear = Ear::open(stream, limit, sentinel, login.as_ref()).await?;
        let ear = ear.subscribed(sentinel, &["+switch-master"]).await?;
        let switched = Notify::new();
        let polling = async {
            let mut known = None;
            loop {
                let address = self.ask(&line, sentinel).await?;
                let Some(solo) = solo.upgrade() else { return Ok(()) };
                // Only news count: one that is behind the times would say the same for ever.
                if known.as_ref() != Some(&address) {
                    self.first.store(number, Ordering::Relaxed);
                    solo.master_is(&address);
                    known = Some(address);
                }
                drop(solo);
                let _ = timeout(POLL, switched.notified()).await;
            }
        };
        tokio::select! {
            result = polling => result,
            () = ear.hear(|_| switched.notify_one()) => {
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
