//! Getting to know a server before anything is asked of it: reads the marker, changes it if it has
//! to be, and binds the scripts to what it says, and the module if there is one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use taketurns_core::wire::{Args, Verb, sha1_hex};

use super::marker::{FORM, Look, Marker, Reason, Remembered, judge};
use super::module::{self, Binder, Module};
use super::net::ask::now_ms;
use super::net::errand::Way;
use super::net::failure::Failure;
use super::net::link::Link;
use super::net::session::Greet;
use super::net::url::{Config, Failover, Servers};
use super::net::words::Out;
use super::node::Seen;
use super::protocol::Wire;
use super::scripts::{Binding, TimeFrom, text};
use crate::clock::millis;
use crate::engine::EngineFuture;

/// Others may change the marker at the same moment; each time somebody gets further.
const TRIES: usize = 16;

/// Changes the marker if it is still what was read. Also on a server that is out of memory: else
/// nobody could give back what is held there.
const COMPARE_AND_SET: &str = "#!lua flags=allow-oom\n\
    local found = redis.call('GET', KEYS[1]) or ''\n\
    if found ~= ARGV[1] then return found end\n\
    redis.call('SET', KEYS[1], ARGV[2])\n\
    return ARGV[2]";

/// The keys that a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) lock: Vec<u8>,
    /// Those of the wire of others, if one is spoken.
    pub(super) gate: Vec<Vec<u8>>,
}

/// The scripts, and the module, as one run of a server knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    binding: Binding,
    /// In the order of [`Verb::ALL`].
    shas: Vec<String>,
    /// Scripts look at the marker themselves, under this key.
    marker_key: Option<Vec<u8>>,
    pub(super) module: Module,
    /// What the marker has to say still after an acquire on a server whose scripts can't look.
    pub(super) to_confirm: Option<String>,
}

impl Bound {
    fn new(binding: Binding) -> Self {
        let sha = |script| sha1_hex(text(script, &binding, TimeFrom::Server));
        let shas = Verb::ALL.into_iter().map(sha).collect();
        Self { binding, shas, marker_key: None, module: Module::Off, to_confirm: None }
    }

    /// Bound to nothing but a run.
    #[cfg(test)]
    pub(super) fn of_run(run: &str) -> Self {
        let none = String::new;
        let binding = Binding {
            run: run.to_owned(),
            known: none(),
            mark: none(),
            until_ms: 0,
            max_lease_ms: 0,
            channel: none(),
            wire: None,
        };
        Self::new(binding)
    }

    #[cfg(test)]
    pub(super) fn run(&self) -> &str {
        &self.binding.run
    }

    /// Does this server grant nothing at that time, and can its scripts not see whether it still is
    /// what it was?
    pub(super) fn is_in_quarantine(&self, now_ms: u64) -> bool {
        self.to_confirm.is_some() && now_ms < self.binding.until_ms
    }

    pub(super) fn has_module(&self) -> bool {
        self.module.is_bound()
    }

    /// Writes a step of the lock under these keys.
    pub(super) fn write(&self, way: Way, verb: Verb, keys: &Keys, args: &Args, out: &mut Out) {
        match (way, &self.module) {
            (Way::Module, Module::Bound(id)) => module::write_step(id, verb, &keys.lock, args, out),
            _ => self.write_script(verb, keys, args, out),
        }
    }

    /// The lock's key comes first, then that of the marker, then those of the gate.
    fn write_script(&self, verb: Verb, keys: &Keys, args: &Args, out: &mut Out) {
        let count = 1 + usize::from(self.marker_key.is_some()) + keys.gate.len();
        out.begin(3 + count + args.count());
        out.word(b"EVALSHA");
        out.word(self.shas[verb as usize].as_bytes());
        out.number(count);
        let keys = std::iter::once(&keys.lock).chain(&self.marker_key).chain(&keys.gate);
        keys.for_each(|key| out.word(key));
        args.iter().for_each(|arg| out.word(arg));
    }
}

/// Greets the servers of one store for one client.
pub(super) struct Greeter {
    max_lease_ms: u64,
    failover: Failover,
    /// See [`Config::distrust`].
    distrust: Option<Duration>,
    /// A script of a Cluster can't see a key of another slot.
    scripts_see_marker: bool,
    channel: String,
    wire: Option<Wire>,
    binder: Binder,
    /// The markers that we saw, by their key.
    remembered: Mutex<HashMap<Vec<u8>, Remembered>>,
    /// The last marker of each node of a Cluster, by the number of the node: its key changes with
    /// the slots that the node has.
    of_nodes: Mutex<HashMap<u64, Marker>>,
    /// When the quarantines end that were logged, by the marker's key: a server is greeted anew each
    /// time that it has forgotten a script.
    logged: Mutex<HashMap<Vec<u8>, u64>>,
}

impl Greeter {
    /// `channel` is what the channels of all clients begin with.
    pub(super) fn new(config: &Config, channel: String) -> Self {
        Self {
            max_lease_ms: millis(config.max_lease),
            failover: config.failover,
            distrust: config.distrust,
            scripts_see_marker: !matches!(config.servers, Servers::Cluster(_)),
            channel,
            wire: config.protocol.as_ref().map(|protocol| protocol.wire),
            binder: Binder::new(config.native),
            remembered: Mutex::default(),
            of_nodes: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    async fn verify(&self, link: &Link, key: Vec<u8>) -> Result<Bound, Failure> {
        let bound = self.bind_scripts(link, key).await?;
        let marker_key = bound.marker_key.as_deref();
        let module = self.binder.bind(link, &bound.binding, marker_key).await?;
        Ok(Bound { module, ..bound })
    }

    async fn bind_scripts(&self, link: &Link, key: Vec<u8>) -> Result<Bound, Failure> {
        if self.failover == Failover::Immediate || key.is_empty() {
            return Ok(Bound::new(self.binding(link, None)));
        }
        let marker = match self.settle_marker(link, &key).await {
            Err(Failure::Ask { .. } | Failure::TryAgain(_)) => self.out_of_sight(link),
            settled => settled?,
        };
        let bound = Bound::new(self.binding(link, Some(&marker)));
        Ok(if self.scripts_see_marker {
            Bound { marker_key: Some(key), ..bound }
        } else {
            Bound { to_confirm: Some(marker.to_string()), ..bound }
        })
    }

    /// The slot of the marker is on its way to another node. Who knows of this run goes on; who does
    /// not grants nothing for as long as an earlier run may have promised.
    fn out_of_sight(&self, link: &Link) -> Marker {
        let known = self.of_nodes().get(&link.source).cloned();
        known.filter(|marker| marker.run == link.facts.run).unwrap_or_else(|| Marker {
            run: link.facts.run.clone(),
            born_ms: link.facts.now_ms,
            until_ms: link.facts.now_ms.saturating_add(self.max_lease_ms),
            max_lease_ms: self.max_lease_ms,
            known: Vec::new(),
        })
    }

    fn binding(&self, link: &Link, marker: Option<&Marker>) -> Binding {
        let seen = marker.filter(|_| self.scripts_see_marker);
        Binding {
            run: link.facts.run.clone(),
            known: marker.map_or(String::new(), |marker| marker.known.join(",")),
            mark: seen.map_or(String::new(), Marker::to_string),
            until_ms: marker.map_or(0, |marker| marker.until_ms),
            max_lease_ms: marker.map_or(0, |marker| marker.max_lease_ms),
            channel: self.channel.clone(),
            wire: self.wire,
        }
    }

    /// The marker as it has to be, and as it is there when this returns.
    async fn settle_marker(&self, link: &Link, key: &[u8]) -> Result<Marker, Failure> {
        let (mut now_ms, mut found) = look(link, key).await?;
        let mut remembered = self.remembered().get(key).copied();
        let before = self.of_nodes().get(&link.source).cloned();
        let moved = before.filter(|_| remembered.is_none() && !self.scripts_see_marker);
        // The same run, so nothing is lost: its marker goes along. Another run: it has lost it all.
        let moved = match moved {
            Some(marker) if marker.run == link.facts.run => Some(marker),
            Some(marker) => {
                remembered = Some(Remembered::of(&marker));
                None
            }
            None => None,
        };
        let is_unknown = found.is_empty() && remembered.is_none() && moved.is_none();
        let lost = Remembered { born_ms: 0, max_lease_ms: self.max_lease_ms };
        if let Some(longest) = self.distrust.filter(|_| is_unknown) {
            // Also if somebody makes one before we do: it was not there.
            let max_lease_ms = lost.max_lease_ms.max(millis(longest));
            remembered = Some(Remembered { max_lease_ms, ..lost });
        } else if is_unknown && self.had_marker(link, key).await? {
            // It comes after the marker. So if there is one now, somebody has made both since we looked.
            (now_ms, found) = look(link, key).await?;
            if found.is_empty() {
                remembered = Some(lost);
            }
        }
        for _ in 0..TRIES {
            let known = match found.as_str() {
                "" => None,
                text => Some(Marker::parse(text).ok_or_else(|| strange(link))?),
            };
            let look = self.look(link, now_ms, remembered);
            let own = known.as_ref().filter(|known| known.run == look.run);
            let (marker, reason) = judge(own.or(moved.as_ref()).or(known.as_ref()), look);
            if known.as_ref() != Some(&marker) {
                let wanted = marker.to_string();
                let mut command = cmd("EVAL");
                command.arg(COMPARE_AND_SET).arg(1).arg(key).arg(&found).arg(&wanted);
                found = word(link, link.send(&command).await?)?;
                if found != wanted {
                    continue;
                }
                link.send(&load_script(&witness(link, key))).await?;
            }
            self.remembered().insert(key.to_vec(), Remembered::of(&marker));
            self.of_nodes().insert(link.source, marker.clone());
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            if logged.insert(key.to_vec(), marker.until_ms) != Some(marker.until_ms) {
                log(link, now_ms, &marker, reason);
            }
            return Ok(marker);
        }
        Err(Failure::Unreachable(format!("{}: the marker changes all the time", link.address)))
    }

    async fn had_marker(&self, link: &Link, key: &[u8]) -> Result<bool, Failure> {
        let unmarked = self.binding(link, None);
        Ok(has_witness(link, key).await? || self.binder.had_marker(link, &unmarked, key).await?)
    }

    /// What is there, as it would be judged. Changes nothing, and nothing is remembered of it.
    pub(super) async fn peek(&self, link: &Link, key: &[u8]) -> Result<Seen, Failure> {
        let (now_ms, found) = look(link, key).await?;
        if found.is_empty() {
            return Ok(Seen::Nothing);
        }
        let marker = Marker::parse(&found).ok_or_else(|| strange(link))?;
        let (judged, _) = judge(Some(&marker), self.look(link, now_ms, None));
        Ok(Seen::Marker {
            age: Duration::from_millis(now_ms.saturating_sub(marker.born_ms)),
            in_quarantine: now_ms < judged.until_ms,
            max_lease: Duration::from_millis(judged.max_lease_ms),
        })
    }

    fn look<'a>(&self, link: &'a Link, now_ms: u64, remembered: Option<Remembered>) -> Look<'a> {
        let passed_ms = now_ms.saturating_sub(link.facts.now_ms);
        Look {
            run: &link.facts.run,
            now_ms,
            uptime_ms: link.facts.uptime_s.saturating_mul(1_000).saturating_add(passed_ms),
            lag_ms: link.lag.map_or(0, millis),
            max_lease_ms: self.max_lease_ms,
            failover: self.failover,
            remembered,
        }
    }

    fn of_nodes(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Marker>> {
        self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(link: &Link, now_ms: u64, marker: &Marker, reason: Option<Reason>) {
    let left_ms = marker.until_ms.saturating_sub(now_ms);
    if left_ms == 0 {
        return;
    }
    let server = &link.address;
    // Another client has begun it, and knows better.
    let reason = reason
        .map_or("it was restarted, failed over or lost its state".to_owned(), |reason| {
            reason.to_string()
        });
    tracing::warn!(%server, left_ms, "in quarantine, and grants nothing until it is over: {reason}");
}

/// The server's time, and what the marker says; empty if there is none.
async fn look(link: &Link, key: &[u8]) -> Result<(u64, String), Failure> {
    let mut get = cmd("GET");
    get.arg(key);
    let mut answers = link.send_all(&[cmd("TIME"), get]).await.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Err(strange(link)));
    let now_ms = now_ms(&next()?).ok_or_else(|| strange(link))?;
    let found = match next() {
        Ok(Value::Nil) => String::new(),
        Ok(value) => word(link, value)?,
        Err(Failure::WrongType(_)) => return Err(strange(link)),
        Err(failure) => return Err(failure),
    };
    Ok((now_ms, found))
}

/// A script that does nothing, and is known to a run of a server that had a marker here. FLUSHALL
/// leaves scripts alone: so one who comes after it, and remembers nothing, still learns that there was
/// something.
fn witness(link: &Link, key: &[u8]) -> String {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("#!lua flags=no-writes\n-- {FORM} had a marker at {key} in run {}", link.facts.run)
}

async fn has_witness(link: &Link, key: &[u8]) -> Result<bool, Failure> {
    let mut command = cmd("EVALSHA");
    command.arg(sha1_hex(witness(link, key))).arg(0);
    match link.send(&command).await {
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

fn word(link: &Link, value: Value) -> Result<String, Failure> {
    redis::from_redis_value(value).map_err(|_| strange(link))
}

fn strange(link: &Link) -> Failure {
    let server = &link.address;
    Failure::Broken(format!(
        "{server} has something else than a marker at the key of the marker: choose another prefix"
    ))
}

impl Greet for Greeter {
    fn greet<'a>(
        &'a self,
        link: &'a Link,
        home_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Bound, Failure>> {
        Box::pin(self.verify(link, home_key))
    }

    /// What the server does not know it may have forgotten: so it is verified before anything is
    /// loaded.
    fn load<'a>(
        &'a self,
        link: &'a Link,
        home_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Bound, Failure>> {
        Box::pin(async move {
            let bound = self.verify(link, home_key.clone()).await?;
            let load = |script| load_script(&text(script, &bound.binding, TimeFrom::Server));
            let mut loads: Vec<Cmd> = Verb::ALL.into_iter().map(load).collect();
            loads.push(load_script(&witness(link, &home_key)));
            link.send_all(&loads).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok(bound)
        })
    }
}
