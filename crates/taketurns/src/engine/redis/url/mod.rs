//! Store URLs of the Redis engine, read into a [`RedisConfig`].
//!
//! ```text
//!   redis[s][+sentinel|+cluster]://[user[:password]@]host[:port],…[/master][/db][?option=value&…]
//! ```
//!
//! An error text never repeats what may hold a password: neither what stands before an `@`, nor hosts
//! and ports, since a password with an unescaped `/` is cut into those.

mod options;

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::foreign::protocol::ProtocolChoice;
use crate::engine::server_url::options::UrlOptions;
use crate::engine::server_url::secret::{Credentials, VariableNames};
pub(crate) use crate::engine::server_url::{Address, Timeouts, TlsConfig, secret};
use crate::engine::server_url::{address, credentials, decode};

/// What the environment calls user and password.
const VARIABLES: VariableNames =
    VariableNames { user: "TAKETURNS_REDIS_USER", password: "TAKETURNS_REDIS_PASSWORD" };

/// All that a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisConfig {
    pub(crate) servers: Servers,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) credentials: Credentials,
    pub(crate) db: u32,
    /// What the keys of locks begin with.
    pub(crate) prefix: String,
    pub(crate) max_lease: Duration,
    pub(crate) failover: Failover,
    /// Warnings are errors.
    pub(crate) strict: bool,
    pub(crate) native: ModuleUse,
    pub(crate) timeouts: Timeouts,
    /// The foreign protocol to use, if any.
    pub(crate) protocol: Option<ProtocolChoice>,
    /// Not from the URL. If set, a server without a marker counts as having lost it, even for a client that never saw
    /// one there.
    pub(crate) distrust: Option<Duration>,
}

/// Where the locks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    One(Address),
    Sentinel { sentinels: Vec<Address>, master: String, credentials: Credentials },
    Cluster(Vec<Address>),
}

/// What a new run of a server means for grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failover {
    Quarantine,
    Strict,
    Immediate,
}

/// Is a server's module used?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleUse {
    /// Where there is one.
    Auto,
    Off,
    /// A server without it won't do.
    Required,
}

impl Address {
    /// `host:port` as servers write it, where an IPv6 host has no brackets. An empty host, or `?`,
    /// is the one that was asked.
    pub(crate) fn announced(text: &str, asked: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Self::of_parts(host, port.parse().ok()?, asked)
    }

    pub(crate) fn of_parts(host: &str, port: u16, asked: &str) -> Option<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() || host == "?" { asked } else { host };
        (port != 0).then(|| Self { host: host.to_owned(), port })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TopologyKind {
    One,
    Sentinel,
    Cluster,
}

impl RedisConfig {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            // A known one, or the caller would have found another engine.
            let scheme = url.split(':').next().filter(|scheme| kind(scheme).is_ok());
            format!("two slashes are missing: write {}://host", scheme.unwrap_or("redis"))
        })?;
        let (kind, tls) = kind(scheme)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') || rest.contains('#') || query.contains(['@', '#']) {
            return Err("there is an @ or # where none can be: in a user, password or option, \
                        write / as %2F, ? as %3F, # as %23 and @ as %40"
                .to_owned());
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let mut options = UrlOptions::parse(query, options::KNOWN)?;
        let credentials = credentials(user, &mut options, VARIABLES)?;
        let tls = options.tls(tls, "rediss")?;
        let addresses =
            addresses(hosts, if kind == TopologyKind::Sentinel { 26379 } else { 6379 })?;
        let (servers, db) = servers(kind, addresses, path, &mut options)?;
        let config = Self {
            servers,
            tls,
            credentials,
            db,
            prefix: options.prefix(kind == TopologyKind::Cluster)?,
            max_lease: options.max_lease_of_protocol()?,
            failover: options.failover()?,
            strict: options.strict()?,
            native: options.module()?,
            timeouts: options.timeouts()?,
            protocol: options.protocol()?,
            distrust: None,
        };
        options.finish_redis()?;
        config.speaking(kind)
    }

    /// What a protocol of others asks of all else.
    fn speaking(mut self, kind: TopologyKind) -> Result<Self, String> {
        let Some(protocol) = &self.protocol else { return Ok(self) };
        if kind == TopologyKind::Cluster {
            protocol.wire.in_a_cluster()?;
        }
        self.max_lease = protocol.wire.max_lease().unwrap_or(self.max_lease);
        if self.prefix.is_empty() {
            return Err(
                "with a protocol, the prefix can't be empty: our own keys would be those of the protocol"
                    .into(),
            );
        }
        if protocol.wire.has_keys_like(&self.prefix) {
            return Err(format!(
                "with this protocol, the prefix can't be {}: our own keys would be those of the protocol",
                self.prefix
            ));
        }
        // The module's locks have no adapter.
        self.native = ModuleUse::Off;
        Ok(self)
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Where the marker of a single server is.
    /// What the channels of all clients begin with.
    pub(crate) fn channels(&self) -> String {
        format!("{}wake:", self.prefix)
    }

    pub(crate) fn marker_key(&self) -> Vec<u8> {
        format!("{}\x01run", self.prefix).into_bytes()
    }
}

fn kind(scheme: &str) -> Result<(TopologyKind, bool), String> {
    match scheme {
        "redis" => Ok((TopologyKind::One, false)),
        "rediss" => Ok((TopologyKind::One, true)),
        "redis+sentinel" => Ok((TopologyKind::Sentinel, false)),
        "rediss+sentinel" => Ok((TopologyKind::Sentinel, true)),
        "redis+cluster" => Ok((TopologyKind::Cluster, false)),
        "rediss+cluster" => Ok((TopologyKind::Cluster, true)),
        _ => Err("it must start with redis://, redis+sentinel:// or redis+cluster://, \
                  or with rediss for TLS"
            .to_owned()),
    }
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>, String> {
    hosts.split(',').map(|host| address(host, port)).collect()
}

fn servers(
    kind: TopologyKind,
    mut addresses: Vec<Address>,
    path: &str,
    options: &mut UrlOptions,
) -> Result<(Servers, u32), String> {
    match kind {
        TopologyKind::One if addresses.len() > 1 => {
            Err("redis:// takes one host; several are for redis+sentinel:// and redis+cluster://"
                .to_owned())
        }
        TopologyKind::One => Ok((Servers::One(addresses.remove(0)), database(path)?)),
        TopologyKind::Cluster if !path.is_empty() => {
            Err("a Cluster has no databases: leave out what follows the hosts".to_owned())
        }
        TopologyKind::Cluster => Ok((Servers::Cluster(addresses), 0)),
        TopologyKind::Sentinel => {
            let (master, db) = path.split_once('/').unwrap_or((path, ""));
            let master = decode(master, "the master's name")?;
            if master.is_empty() {
                return Err("the master's name is missing, as in \
                            redis+sentinel://h1,h2,h3/mymaster"
                    .to_owned());
            }
            let credentials = options.sentinel_credentials()?;
            Ok((Servers::Sentinel { sentinels: addresses, master, credentials }, database(db)?))
        }
    }
}

fn database(text: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| "the database must be a number, as in redis://host/2".to_owned())
}
