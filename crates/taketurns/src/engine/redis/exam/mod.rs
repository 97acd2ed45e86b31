//! Is a server, a Sentinel set or a Cluster fit to hold locks?
//!
//! ```text
//!   gather: each server by itself, all at once ─► ExaminedServer ─► judge: is it fit?
//!   sentinels, cluster: which servers there are ──────────► and of them together
//! ```
//!
//! Connecting stops at the first thing that is wrong; here each is looked at by itself. Nothing is
//! written, not even a marker.

mod cluster;
mod gather;
mod judge;
mod members;
mod rights;
mod sentinels;

use std::future::Future;
use std::pin::Pin;

use super::OpenRedis;
use super::connection::connector::Connector;
use super::connection::failure::Failure;
use super::handshake::facts::field;
use super::handshake::requirements::Warning;
use super::node::Visitor;
use super::url::{Address, RedisConfig, Servers};
use crate::Error;
use crate::doctor::{ALL, Check, Report, Subject, list};
use futures_util::future::join_all;
use gather::{ExaminedKeys, ExaminedServer, ServerPart, look_at};
use judge::judge;

pub(crate) use judge::ClockReference;

/// Looks at the store of a URL.
pub(crate) async fn examine(url: &str) -> Result<Report, Error> {
    let config = OpenRedis::new(url)?.config;
    let visitor = match Visitor::new(&config) {
        Ok(visitor) => visitor,
        Err(failure) => {
            let advice = "correct what the URL says of certificates (ca=, cert=, key=)";
            let checks = vec![Subject::Reachable.fail(ALL, failure.said(), advice)];
            return Ok(Report::new(place(&config), false, checks));
        }
    };
    let (mut checks, reached) = match &config.servers {
        Servers::One(address) => {
            let keys = ExaminedKeys { marker: Some(config.marker_key()), registry: None };
            let server =
                look_at(&visitor.handshake.connector, address, ServerPart::Alone, keys).await;
            let mut checks = judge(&config, &server, ClockReference::Ours);
            if has_module(&server) == Some(true) {
                let alone = std::slice::from_ref(&server);
                let replicas = look_at_replicas(&visitor.handshake.connector, alone).await;
                checks.extend(lacking(&server, &replicas));
            }
            (checks, server.answers.is_ok())
        }
        Servers::Sentinel { sentinels, master, credentials } => {
            sentinels::examine(&visitor.handshake.connector, sentinels, master, credentials).await
        }
        Servers::Cluster(seeds) => cluster::examine(&visitor.handshake.connector, seeds).await,
    };
    checks.extend(wire(&config));
    visitor.leave().await;
    Ok(Report::new(place(&config), reached, checks))
}

/// A server as a node of a quorum, as it was found.
pub(crate) struct ExaminedNode {
    config: RedisConfig,
    server: ExaminedServer,
}

impl OpenRedis {
    /// Looks at the server as a node of a quorum, which has its membership under this key behind the prefix.
    pub(crate) async fn examine(&self, registry: &str) -> Result<ExaminedNode, String> {
        let config = self.config.clone();
        let Servers::One(address) = &config.servers else {
            return Err("it is no server of its own".to_owned());
        };
        let visitor = Visitor::new(&config).map_err(Failure::said)?;
        let registry = format!("{}{registry}", config.prefix).into_bytes();
        let keys = ExaminedKeys { marker: Some(config.marker_key()), registry: Some(registry) };
        let server = look_at(&visitor.handshake.connector, address, ServerPart::Node, keys).await;
        visitor.leave().await;
        Ok(ExaminedNode { config, server })
    }

    /// Where it is, without secrets.
    pub(crate) fn place(&self) -> String {
        place(&self.config)
    }
}

impl ExaminedNode {
    pub(crate) fn judge(&self, against: ClockReference) -> Vec<Check> {
        judge(&self.config, &self.server, against)
    }

    pub(crate) fn wire(&self) -> Option<Check> {
        wire(&self.config)
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.server.answers.is_ok()
    }

    /// Returns the server's `run_id`, if the server reports it.
    pub(crate) fn run(&self) -> Option<&str> {
        Some(&self.server.answers.as_ref().ok()?.facts.as_ref()?.run)
    }

    /// By how much its clock is ahead of ours.
    pub(crate) fn ahead_ms(&self) -> Option<i64> {
        judge::ahead_ms(&self.server.answers.as_ref().ok()?.trips)
    }

    /// The members that are written down there; `None` if that could not be read.
    pub(crate) fn members(&self) -> Option<&[String]> {
        self.server.answers.as_ref().ok()?.members.as_deref()
    }
}

/// Looks at several at once.
async fn look_at_all(
    connector: &Connector,
    wanted: Vec<(Address, ServerPart, ExaminedKeys)>,
) -> Vec<ExaminedServer> {
    let look = |(address, part, keys): (Address, ServerPart, ExaminedKeys)| {
        let looking = async move { look_at(connector, &address, part, keys).await };
        Box::pin(looking) as Pin<Box<dyn Future<Output = ExaminedServer> + Send + '_>>
    };
    join_all(wanted.into_iter().map(look)).await
}

/// Looks at those that follow a master, by its own word.
async fn look_at_replicas(
    connector: &Connector,
    masters: &[ExaminedServer],
) -> Vec<ExaminedServer> {
    let replicas = masters.iter().flat_map(replicas_of);
    let wanted = replicas.map(|replica| (replica, ServerPart::Replica, ExaminedKeys::default()));
    look_at_all(connector, wanted.collect()).await
}

fn replicas_of(master: &ExaminedServer) -> Vec<Address> {
    let facts = master.answers.as_ref().ok().and_then(|answers| answers.facts.as_ref());
    facts.map(|facts| facts.replicas.clone()).unwrap_or_default()
}

/// The checks of a master together with its replicas.
fn followed(master: &ExaminedServer, replicas: &[ExaminedServer], without: &str) -> Vec<Check> {
    let node = master.address.to_string();
    if master.answers.is_err() {
        return Vec::new();
    }
    let known = replicas_of(master);
    let mut checks = vec![match known.as_slice() {
        [] => Subject::Replicas.warn(&node, "none follows it", without),
        known => Subject::Replicas.ok(&node, format!("followed by {}", list(known))),
    }];
    checks.extend(lacking(master, replicas));
    checks
}

/// `None` if it does not say.
fn has_module(server: &ExaminedServer) -> Option<bool> {
    let info = server.answers.as_ref().ok()?.info.as_ref().ok()?;
    Some(field(info, "fencelock_failover").is_some())
}

/// Does a replica lack the module of its master?
fn lacking(master: &ExaminedServer, replicas: &[ExaminedServer]) -> Option<Check> {
    if has_module(master) != Some(true) {
        return None;
    }
    let known = replicas_of(master);
    let lacking = replicas.iter().filter(|replica| known.contains(&replica.address));
    let lacking = lacking.filter(|replica| has_module(replica) == Some(false));
    let lacking: Vec<Address> = lacking.map(|replica| replica.address.clone()).collect();
    let warning = Warning::lacking(&lacking)?;
    let advice = "MODULE LOAD it on the replicas";
    Some(Subject::Module.warn(&master.address, warning.to_string(), advice))
}

/// What a foreign protocol can't give.
fn wire(config: &RedisConfig) -> Option<Check> {
    let protocol = config.protocol.as_ref()?;
    let form = protocol.wire.form();
    let (name, given) = (form.name, form.guarantees);
    let lacks = [
        (!given.fenced, "no fencing tokens"),
        (!given.fair, "no common queue with foreign clients"),
        (!given.event_driven, "foreign clients wake nobody, so waiters poll"),
    ];
    let lacks = lacks.into_iter().filter(|(lacks, _)| *lacks).map(|(_, what)| what);
    let found = format!("protocol={name}: {}; each lock is a {}", list(lacks), form.kind);
    Some(match protocol.unfenced || given.fenced {
        true => Subject::Protocol.ok(ALL, found),
        false => Subject::Protocol.fail(
            ALL,
            format!(
                "{found}; the URL does not accept locks without tokens, so nothing can be acquired"
            ),
            "add unfenced=ok to the URL, if all programs can do without tokens",
        ),
    })
}

/// The URL without user, password and options.
fn place(config: &RedisConfig) -> String {
    let tls = if config.tls.is_some() { "s" } else { "" };
    let (kind, hosts, master) = match &config.servers {
        Servers::One(address) => ("", address.to_string(), None),
        Servers::Sentinel { sentinels, master, .. } => {
            ("+sentinel", commas(sentinels), Some(master))
        }
        Servers::Cluster(seeds) => ("+cluster", commas(seeds), None),
    };
    let master = master.map(|master| format!("/{master}")).unwrap_or_default();
    let db = if config.db == 0 { String::new() } else { format!("/{}", config.db) };
    format!("redis{tls}{kind}://{hosts}{master}{db}")
}

fn commas(addresses: &[Address]) -> String {
    let addresses: Vec<_> = addresses.iter().map(Address::to_string).collect();
    addresses.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn config(url: &str) -> RedisConfig {
        RedisConfig::parse(url).expect("a URL")
    }

    #[test]
    fn a_place_has_no_secrets() {
        let cases = [
            ("redis://u:hunter2@h:1/3?prefix=p", "redis://h:1/3"),
            ("rediss+sentinel://u:hunter2@a,b:2/m/1", "rediss+sentinel://a:26379,b:2/m/1"),
            ("redis+cluster://a,[::1]:7?prefix=x:", "redis+cluster://a:6379,[::1]:7"),
        ];
        for (url, shown) in cases {
            assert_eq!(place(&config(url)), shown);
        }
    }

    #[test]
    fn a_wire_says_what_it_lacks_and_fails_if_that_is_not_known() {
        let level = |url| wire(&config(url)).expect("a wire").level;
        assert_eq!(wire(&config("redis://h")), None);
        assert_eq!(level("redis://h?protocol=plain&unfenced=ok"), Level::Ok);
        assert_eq!(level("redis://h?protocol=plain"), Level::Fail);
        let found = wire(&config("redis://h?protocol=fairqueue&unfenced=ok")).expect("one").found;
        assert!(found.contains("no fencing tokens") && !found.contains("poll"), "{found}");
    }
}
