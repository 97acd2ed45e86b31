//! What store URLs of servers have in common: hosts, credentials, options, TLS.
//!
//! An error text never repeats what may hold a password: neither what stands before an `@`, nor hosts
//! and ports, since a password with an unescaped `/` is cut into those.

pub(crate) mod options;
pub(crate) mod secret;
pub(crate) mod tls;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use options::UrlOptions;
use secret::{Credentials, Secret, Source, VariableNames};

/// Files for TLS. Without `ca`, the machine's own certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    pub(crate) ca: Option<PathBuf>,
    /// Certificate and key of this client.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
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

/// Reads a host with or without a port. An empty host is this machine.
pub(crate) fn address(text: &str, default_port: u16) -> Result<Address, String> {
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
                return Err("an IPv6 address needs brackets, as in [::1]:6379".to_owned());
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

/// What stands before the `@`, and the options that name another place for the password.
pub(crate) fn credentials(
    user: Option<&str>,
    options: &mut UrlOptions,
    surroundings: VariableNames,
) -> Result<Credentials, String> {
    let (user, password) = match user.map(|user| (user, user.split_once(':'))) {
        Some((_, Some((user, password)))) => (user, Some(password)),
        Some((user, None)) => (user, None),
        None => ("", None),
    };
    let user = decode(user, "the user")?;
    let password = match password {
        Some(password) => Source::Url(Secret::new(decode(password, "the password")?)),
        None => Source::Surroundings(surroundings),
    };
    let password = options.password("password", password)?;
    Ok(Credentials { user: (!user.is_empty()).then_some(user), password })
}
