//! Verifies a server: reads its marker, updates the marker if needed, and binds the scripts (and the module, if there
//! is one) to it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use taketurns_core::wire::{Verb, sha1_hex};

use super::marker::{FORM, Marker, MarkerContext, MarkerMemory, MarkerSighting, Reason, judge};
use super::module::ModuleBinder;
use super::query::now_ms;
use super::{ServerPeer, Verify};
use crate::clock::millis;
use crate::engine::EngineFuture;
use crate::engine::redis::backend::Backend;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::foreign::protocol::ForeignProtocol;
use crate::engine::redis::scripts::{ScriptBinding, TimeFrom, text};
use crate::engine::redis::url::{Failover, RedisConfig, Servers};
use crate::telling::target;

/// Others may change the marker at the same moment; each time somebody gets further.
const TRIES: usize = 16;

/// Changes the marker if it is still what was read. Also on a server that is out of memory: else
/// nobody could give back what is held there.
const COMPARE_AND_SET: &str = "#!lua flags=allow-oom\n\
    local found = redis.call('GET', KEYS[1]) or ''\n\
    if found ~= ARGV[1] then return found end\n\
    redis.call('SET', KEYS[1], ARGV[2])\n\
    return ARGV[2]";

/// Verifies the servers of one store for one client.
pub(crate) struct Verifier {
    max_lease_ms: u64,
    failover: Failover,
    /// See [`RedisConfig::distrust`].
    distrust: Option<Duration>,
    /// A script of a Cluster can't see a key of another slot.
    scripts_see_marker: bool,
    channel: String,
    wire: Option<ForeignProtocol>,
    binder: ModuleBinder,
    /// The markers that we saw, by their key.
    remembered: Mutex<HashMap<Vec<u8>, MarkerMemory>>,
    /// The last marker of each node of a Cluster, by the number of the node: its key changes with
    /// the slots that the node has.
    of_nodes: Mutex<HashMap<u64, Marker>>,
    /// When the quarantines end that were logged, by the marker's key: a server is verified anew each
    /// time that it has forgotten a script.
    logged: Mutex<HashMap<Vec<u8>, u64>>,
}

impl Verifier {
    pub(crate) fn new(config: &RedisConfig, wire: Option<ForeignProtocol>) -> Self {
        Self {
            max_lease_ms: millis(config.max_lease),
            failover: config.failover,
            distrust: config.distrust,
            scripts_see_marker: !matches!(config.servers, Servers::Cluster(_)),
            channel: config.channels(),
            wire,
            binder: ModuleBinder::new(config.native),
            remembered: Mutex::default(),
            of_nodes: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    async fn bind(&self, peer: &ServerPeer, key: Vec<u8>) -> Result<Backend, Failure> {
        let mut backend = self.bind_scripts(peer, key).await?;
        let marker_key = backend.marker_key.as_deref();
        backend.module = self.binder.bind(&peer.connection, &backend.binding, marker_key).await?;
        Ok(backend)
    }

    async fn bind_scripts(&self, peer: &ServerPeer, key: Vec<u8>) -> Result<Backend, Failure> {
        if self.failover == Failover::Immediate || key.is_empty() {
            return Ok(Backend::new(self.binding(peer, None)));
        }
        let marker = match self.settle_marker(peer, &key).await {
            Err(Failure::Ask { .. } | Failure::TryAgain(_)) => self.out_of_sight(peer),
            settled => settled?,
        };
        let mut backend = Backend::new(self.binding(peer, Some(&marker)));
        match self.scripts_see_marker {
            true => backend.marker_key = Some(key),
            false => backend.to_confirm = Some(marker.to_string()),
        }
        Ok(backend)
    }

    /// The slot of the marker is on its way to another node. Who knows of this run goes on; who does
    /// not grants nothing for as long as an earlier run may have promised.
    fn out_of_sight(&self, peer: &ServerPeer) -> Marker {
        let known = self.of_nodes().get(&peer.connection.origin.source).cloned();
        known.filter(|marker| marker.run == peer.facts.run).unwrap_or_else(|| Marker {
            run: peer.facts.run.clone(),
            born_ms: peer.facts.now_ms,
            until_ms: peer.facts.now_ms.saturating_add(self.max_lease_ms),
            max_lease_ms: self.max_lease_ms,
            known: Vec::new(),
        })
    }

    fn binding(&self, peer: &ServerPeer, marker: Option<&Marker>) -> ScriptBinding {
        let seen = marker.filter(|_| self.scripts_see_marker);
        ScriptBinding {
            run: peer.facts.run.clone(),
            known: marker.map_or(String::new(), |marker| marker.known.join(",")),
            mark: seen.map_or(String::new(), Marker::to_string),
            until_ms: marker.map_or(0, |marker| marker.until_ms),
            max_lease_ms: marker.map_or(0, |marker| marker.max_lease_ms),
            channel: self.channel.clone(),
            wire: self.wire,
        }
    }

    /// Brings the server's marker to what it should be, and returns it.
    async fn settle_marker(&self, peer: &ServerPeer, key: &[u8]) -> Result<Marker, Failure> {
        let (mut now_ms, mut found) = look(peer, key).await?;
        let mut remembered = self.remembered().get(key).copied();
        let before = self.of_nodes().get(&peer.connection.origin.source).cloned();
        let moved = before.filter(|_| remembered.is_none() && !self.scripts_see_marker);
        // The same run, so nothing is lost: its marker goes along. Another run: it has lost it all.
        let moved = match moved {
            Some(marker) if marker.run == peer.facts.run => Some(marker),
            Some(marker) => {
                remembered = Some(MarkerMemory::of(&marker));
                None
            }
            None => None,
        };
        let is_unknown = found.is_empty() && remembered.is_none() && moved.is_none();
        let lost = MarkerMemory { born_ms: 0, max_lease_ms: self.max_lease_ms };
        if let Some(longest) = self.distrust.filter(|_| is_unknown) {
            // Also if somebody makes one before we do: it was not there.
            let max_lease_ms = lost.max_lease_ms.max(millis(longest));
            remembered = Some(MarkerMemory { max_lease_ms, ..lost });
        } else if is_unknown && self.had_marker(peer, key).await? {
            // It comes after the marker. So if there is one now, somebody has made both since we looked.
            (now_ms, found) = look(peer, key).await?;
            if found.is_empty() {
                remembered = Some(lost);
            }
        }
        for _ in 0..TRIES {
            let known = match found.as_str() {
                "" => None,
                text => Some(Marker::parse(text).ok_or_else(|| strange(peer))?),
            };
            let look = self.look(peer, now_ms, remembered);
            let own = known.as_ref().filter(|known| known.run == look.run);
            let (marker, reason) = judge(own.or(moved.as_ref()).or(known.as_ref()), look);
            if known.as_ref() != Some(&marker) {
                let wanted = marker.to_string();
                let mut command = cmd("EVAL");
                command.arg(COMPARE_AND_SET).arg(1).arg(key).arg(&found).arg(&wanted);
                found = word(peer, peer.connection.send(&command).await?)?;
                if found != wanted {
                    continue;
                }
                peer.connection.send(&load_script(&witness(peer, key))).await?;
            }
            self.remembered().insert(key.to_vec(), MarkerMemory::of(&marker));
            self.of_nodes().insert(peer.connection.origin.source, marker.clone());
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            if logged.insert(key.to_vec(), marker.until_ms) != Some(marker.until_ms) {
                log(peer, now_ms, &marker, reason);
            }
            return Ok(marker);
        }
        Err(Failure::Unreachable(format!(
            "{}: the marker changes all the time",
            peer.connection.address
        )))
    }

    async fn had_marker(&self, peer: &ServerPeer, key: &[u8]) -> Result<bool, Failure> {
        let unmarked = self.binding(peer, None);
        Ok(has_witness(peer, key).await?
            || self.binder.had_marker(&peer.connection, &unmarked, key).await?)
    }

    /// What is there, as it would be judged. Changes nothing, and nothing is remembered of it.
    pub(crate) async fn peek(
        &self,
        peer: &ServerPeer,
        key: &[u8],
    ) -> Result<MarkerSighting, Failure> {
        let (now_ms, found) = look(peer, key).await?;
        if found.is_empty() {
            return Ok(MarkerSighting::Nothing);
        }
        let marker = Marker::parse(&found).ok_or_else(|| strange(peer))?;
        let (judged, _) = judge(Some(&marker), self.look(peer, now_ms, None));
        Ok(MarkerSighting::Marker {
            age: Duration::from_millis(now_ms.saturating_sub(marker.born_ms)),
            in_quarantine: now_ms < judged.until_ms,
            max_lease: Duration::from_millis(judged.max_lease_ms),
        })
    }

    fn look<'a>(
        &self,
        peer: &'a ServerPeer,
        now_ms: u64,
        remembered: Option<MarkerMemory>,
    ) -> MarkerContext<'a> {
        let passed_ms = now_ms.saturating_sub(peer.facts.now_ms);
        MarkerContext {
            run: &peer.facts.run,
            now_ms,
            uptime_ms: peer.facts.uptime_s.saturating_mul(1_000).saturating_add(passed_ms),
            lag_ms: peer.lag.map_or(0, millis),
            max_lease_ms: self.max_lease_ms,
            failover: self.failover,
            remembered,
        }
    }

    fn of_nodes(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Marker>> {
        self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, MarkerMemory>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(peer: &ServerPeer, now_ms: u64, marker: &Marker, reason: Option<Reason>) {
    let left_ms = marker.until_ms.saturating_sub(now_ms);
    if left_ms == 0 {
        return;
    }
    let server = &peer.connection.address;
    // Another client has begun it, and knows better.
    let reason = reason
        .map_or("it was restarted, failed over or lost its state".to_owned(), |reason| {
            reason.to_string()
        });
    tracing::warn!(target: target::REDIS, %server, left_ms, "in quarantine, and grants nothing until it is over: {reason}");
}

/// The server's time, and what the marker says; empty if there is none.
async fn look(peer: &ServerPeer, key: &[u8]) -> Result<(u64, String), Failure> {
    let mut get = cmd("GET");
    get.arg(key);
    let mut answers = peer.connection.send_all(&[cmd("TIME"), get]).await.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Err(strange(peer)));
    let now_ms = now_ms(&next()?).ok_or_else(|| strange(peer))?;
    let found = match next() {
        Ok(Value::Nil) => String::new(),
        Ok(value) => word(peer, value)?,
        Err(Failure::WrongType(_)) => return Err(strange(peer)),
        Err(failure) => return Err(failure),
    };
    Ok((now_ms, found))
}

/// A script that does nothing, and is known to a run of a server that had a marker here. FLUSHALL
/// leaves scripts alone: so one who comes after it, and remembers nothing, still learns that there was
/// something.
fn witness(peer: &ServerPeer, key: &[u8]) -> String {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("#!lua flags=no-writes\n-- {FORM} had a marker at {key} in run {}", peer.facts.run)
}

async fn has_witness(peer: &ServerPeer, key: &[u8]) -> Result<bool, Failure> {
    let mut command = cmd("EVALSHA");
    command.arg(sha1_hex(witness(peer, key))).arg(0);
    match peer.connection.send(&command).await {
        Ok(_) => Ok(true),
        Err(Failure::NoScript) => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn load_script(text: &str) -> Cmd {
    let mut command = cmd("SCRIPT");
    command.arg("LOAD").arg(text);
    command
}

fn word(peer: &ServerPeer, value: Value) -> Result<String, Failure> {
    redis::from_redis_value(value).map_err(|_| strange(peer))
}

fn strange(peer: &ServerPeer) -> Failure {
    let server = &peer.connection.address;
    Failure::Broken(format!(
        "{server} has something else than a marker at the key of the marker: choose another prefix"
    ))
}

impl Verify for Verifier {
    fn verify<'a>(
        &'a self,
        peer: &'a ServerPeer,
        marker_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Backend, Failure>> {
        Box::pin(self.bind(peer, marker_key))
    }

    /// What the server does not know it may have forgotten: so it is verified before anything is
    /// loaded.
    fn load_scripts<'a>(
        &'a self,
        peer: &'a ServerPeer,
        marker_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Backend, Failure>> {
        Box::pin(async move {
            let backend = self.bind(peer, marker_key.clone()).await?;
            let load = |script| load_script(&text(script, &backend.binding, TimeFrom::Server));
            let mut loads: Vec<Cmd> = Verb::ALL.into_iter().map(load).collect();
            loads.push(load_script(&witness(peer, &marker_key)));
            peer.connection.send_all(&loads).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok(backend)
        })
    }
}
