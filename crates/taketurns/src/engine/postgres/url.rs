//! Store URLs of the PostgreSQL engine, read into a [`PostgresConfig`].
//!
//! ```text
//!   postgres[ql]://[user[:password]@][host[:port],…][/database][?option=value&…]
//!   postgres://%2Fvar%2Frun%2Fpostgresql/app    or    postgres:///app?host=/var/run/postgresql     a Unix socket
//! ```

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::engine::server_url::options::UrlOptions;
use crate::engine::server_url::secret::{Credentials, VariableNames};
use crate::engine::server_url::{Address, Timeouts, TlsConfig, address, credentials, decode};

const PORT: u16 = 5432;

/// What the environment calls user and password.
const VARIABLES: VariableNames =
    VariableNames { user: "TAKETURNS_POSTGRES_USER", password: "TAKETURNS_POSTGRES_PASSWORD" };

/// For the error about an unknown option.
const KNOWN: &str = "max_lease, failover, synchronous_commit, connections, listen, sslmode, ca, cert, key, \
                     connect_timeout, response_timeout, password_file, password_env, host, port";

const CONNECTIONS: RangeInclusive<usize> = 1..=32;
/// Enough that a lock whose row is blocked does not hold up the others, and few for a server with a hundred.
const CONNECTIONS_DEFAULT: usize = 4;

/// All that a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PostgresConfig {
    /// Tried in this order. The first that takes writes is used.
    pub(super) hosts: Vec<PostgresHost>,
    pub(super) credentials: Credentials,
    /// `None`: the user's name, as the server has it.
    pub(super) database: Option<String>,
    pub(super) tls: Option<TlsConfig>,
    pub(super) timeouts: Timeouts,
    pub(super) max_lease: Duration,
    pub(super) failover: PostgresFailover,
    /// A step waits until its COMMIT is on disk, and on synchronous standbys.
    pub(super) synchronous_commit: bool,
    /// Most connections for steps. One more listens while the client waits.
    pub(super) connections: usize,
    /// Where to listen instead: a server without a proxy in front of it.
    pub(super) listen: Option<Box<PostgresConfig>>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PostgresHost {
    Tcp(Address),
    /// The directory of its socket, and the port that is part of the socket's name.
    Socket(PathBuf, u16),
}

impl fmt::Display for PostgresHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Socket(directory, port) => write!(f, "{}/.s.PGSQL.{port}", directory.display()),
        }
    }
}

/// What it means for grants that the server may have lost commits: after a crash or a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostgresFailover {
    /// Nothing is granted for as long as the longest lease.
    Quarantine,
    /// The operator promises that a promoted standby was synchronous: nothing was lost.
    Synchronous,
    /// The operator accepts that a lock may have two holders then.
    Immediate,
}

impl PostgresConfig {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let rest =
            ["postgres://", "postgresql://"].iter().find_map(|start| url.strip_prefix(start));
        let rest = rest.ok_or("two slashes are missing: write postgres://host/database")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains(['@', '/']) || rest.contains('#') || query.contains(['@', '#']) {
            return Err("there is an @, / or # where none can be: in a user, password, database or option, \
                        write / as %2F, ? as %3F, # as %23 and @ as %40"
                .to_owned());
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let mut options = UrlOptions::parse(query, KNOWN)?;
        let credentials = credentials(user, &mut options, VARIABLES)?;
        let database = decode(path, "the database")?;
        let failover = failover(&mut options)?;
        let config = Self {
            hosts: hosts_of(hosts, &mut options)?,
            credentials,
            database: (!database.is_empty()).then_some(database),
            tls: tls(&mut options)?,
            timeouts: options.timeouts()?,
            max_lease: options.max_lease()?,
            failover,
            synchronous_commit: synchronous_commit(&mut options, failover)?,
            connections: connections(&mut options)?,
            listen: listen(&mut options)?,
        };
        options.finish()?;
        Ok(config)
    }
}

fn hosts_of(hosts: &str, options: &mut UrlOptions) -> Result<Vec<PostgresHost>, String> {
    let port = match options.take("port") {
        None => PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or("a port must be a number from 1 to 65535")?,
    };
    match options.take("host") {
        Some(_) if !hosts.is_empty() => {
            Err("a host is named twice: before the database, and by the option host".to_owned())
        }
        Some(host) => host.split(',').map(|host| host_of(host, port)).collect(),
        None => {
            let host = |host| host_of(&decode(host, "a host")?, port);
            hosts.split(',').map(host).collect()
        }
    }
}

fn host_of(host: &str, port: u16) -> Result<PostgresHost, String> {
    if !host.starts_with('/') {
        return address(host, port).map(PostgresHost::Tcp);
    }
    let (directory, port) = match host.rsplit_once(':') {
        Some((directory, number)) => {
            (directory, number.parse().map_err(|_| "a port must be a number from 1 to 65535")?)
        }
        None => (host, port),
    };
    Ok(PostgresHost::Socket(directory.into(), port))
}

fn tls(options: &mut UrlOptions) -> Result<Option<TlsConfig>, String> {
    let wanted = match options.take("sslmode").as_deref() {
        None | Some("disable") => false,
        Some("require" | "verify-full") => true,
        Some(_) => {
            return Err(
                "sslmode is one of disable, verify-full; require means verify-full, since a \
                        certificate is always checked"
                    .to_owned(),
            );
        }
    };
    options.tls(wanted, "sslmode=verify-full")
}

fn failover(options: &mut UrlOptions) -> Result<PostgresFailover, String> {
    match options.take("failover").as_deref() {
        None | Some("quarantine") => Ok(PostgresFailover::Quarantine),
        Some("synchronous") => Ok(PostgresFailover::Synchronous),
        Some("immediate") => Ok(PostgresFailover::Immediate),
        Some(_) => Err("failover is one of quarantine, synchronous, immediate".to_owned()),
    }
}

fn synchronous_commit(
    options: &mut UrlOptions,
    failover: PostgresFailover,
) -> Result<bool, String> {
    let is_needed = failover == PostgresFailover::Synchronous;
    match options.take("synchronous_commit").as_deref() {
        None => Ok(is_needed),
        Some("on") => Ok(true),
        Some("off") if is_needed => Err(
            "failover=synchronous and synchronous_commit=off exclude each other: a standby would \
                 not have what was committed"
                .to_owned(),
        ),
        Some("off") => Ok(false),
        Some(_) => Err("synchronous_commit is one of off, on".to_owned()),
    }
}

fn connections(options: &mut UrlOptions) -> Result<usize, String> {
    let Some(text) = options.take("connections") else { return Ok(CONNECTIONS_DEFAULT) };
    let (min, max) = (CONNECTIONS.start(), CONNECTIONS.end());
    let number = text.parse().ok().filter(|number| CONNECTIONS.contains(number));
    number.ok_or_else(|| format!("connections is a number from {min} to {max}"))
}

fn listen(options: &mut UrlOptions) -> Result<Option<Box<PostgresConfig>>, String> {
    let Some(url) = options.take("listen") else { return Ok(None) };
    let config = PostgresConfig::parse(&url).map_err(|why| format!("the option listen: {why}"))?;
    if config.listen.is_some() {
        return Err("the URL in the option listen can't have that option itself".to_owned());
    }
    Ok(Some(Box::new(config)))
}

#[cfg(test)]
mod tests;
