//! Store URLs of the Redis engine, read into a [`RedisConfig`].
//!
//! ```text
//!   redis[s][+sentinel|+cluster]://[user[:password]@]host[:port],…[/master][/db][?option=value&…]
//! ```
//!
//! An error text never repeats what may hold a password: neither what stands before an `@`, nor hosts
//! and ports, since a password with an unescaped `/` is cut into those.

mod options;
pub(crate) mod secret;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::foreign::protocol::ProtocolChoice;
use options::Options;
use secret::{Credentials, Secret, Source};

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

/// Files for TLS. Without `ca`, the machine's own certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    pub(crate) ca: Option<PathBuf>,
    /// Certificate and key of this client.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
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

/// How long the client waits for one server before it counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// For name resolution, TCP and TLS together.
    pub(crate) connect: Duration,
    /// For the answer to one request.
    pub(crate) response: Duration,
}

impl Timeouts {
    /// Leases are counted in seconds, and a renewal has a third of one: a server that takes longer is
    /// as good as gone.
    const DEFAULT: Duration = Duration::from_secs(2);

    /// Stretches a limit that fits the defaults, for several questions in a row, by as much as these
    /// timeouts exceed the defaults.
    pub(crate) fn stretch(&self, limit: Duration) -> Duration {
        let longest = self.connect.max(self.response).max(Self::DEFAULT);
        limit.mul_f64(longest.as_secs_f64() / Self::DEFAULT.as_secs_f64())
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Self::DEFAULT, response: Self::DEFAULT }
    }
}

/// A host, by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
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
        let mut options = Options::parse(query)?;
        let credentials = credentials(user, &mut options)?;
        let tls = options.tls(tls)?;
        let addresses =
            addresses(hosts, if kind == TopologyKind::Sentinel { 26379 } else { 6379 })?;
        let (servers, db) = servers(kind, addresses, path, &mut options)?;
        let config = Self {
            servers,
            tls,
            credentials,
            db,
            prefix: options.prefix(kind == TopologyKind::Cluster)?,
            max_lease: options.max_lease()?,
            failover: options.failover()?,
            strict: options.strict()?,
            native: options.module()?,
            timeouts: options.timeouts()?,
            protocol: options.protocol()?,
            distrust: None,
        };
        options.finish()?;
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

fn credentials(user: Option<&str>, options: &mut Options) -> Result<Credentials, String> {
    let (user, password) = match user.map(|user| (user, user.split_once(':'))) {
        Some((_, Some((user, password)))) => (user, Some(password)),
        Some((user, None)) => (user, None),
        None => ("", None),
    };
    let user = decode(user, "the user")?;
    let password = match password {
        Some(password) => Source::Url(Secret::new(decode(password, "the password")?)),
        None => Source::Surroundings,
    };
    let password = options.password("password", password)?;
    Ok(Credentials { user: (!user.is_empty()).then_some(user), password })
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>, String> {
    hosts.split(',').map(|host| address(host, port)).collect()
}

fn address(text: &str, default_port: u16) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("a host lacks its closing bracket ]")?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err("what is in brackets must be an IPv6 address".to_owned());
            }
            match (rest, rest.strip_prefix(':')) {
                ("", _) => (host, None),
                (_, Some(port)) => (host, Some(port)),
                _ => return Err("after a host's ] comes : and the port, or nothing".to_owned()),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address needs brackets, as in redis://[::1]:6379".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => Some(default_port),
    };
    let port = port.ok_or("a port must be a number from 1 to 65535")?;
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || "%\\<>\"'".contains(c)) {
        return Err("a host has a character that no host name has".to_owned());
    }
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Ok(Address { host: host.to_owned(), port })
}

fn servers(
    kind: TopologyKind,
    mut addresses: Vec<Address>,
    path: &str,
    options: &mut Options,
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

/// Undoes percent-encoding. `what` names the part in an error, which does not show the part.
pub(crate) fn decode(text: &str, what: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
            let byte = hex
                .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                .ok_or_else(|| format!("{what} has a % without two hex digits (write % as %25)"))?;
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))
}
