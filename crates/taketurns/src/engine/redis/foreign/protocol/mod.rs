//! The foreign protocols: the keys and commands of other lock libraries, so that their clients and ours
//! exclude each other.
//!
//! ```text
//!   our queue:      holder ◄─ next ◄─ …       the same hash, scripts and wake-ups as without
//!                     │
//!   the adapter:    the foreign keys          what foreign clients take, renew and release
//! ```
//!
//! When a client of ours is granted the lock, the same atomic step also takes the foreign keys. So every feature of our
//! lock (leases, cancelling, quarantine, listing waiters) works with every protocol, and clients with a protocol
//! exclude native clients, which use the same hash. The scripts' part is in `foreign/lua/`; each protocol has a file
//! here.

mod fairqueue;
mod plain;
mod python_redis_lock;
mod redturn;
#[cfg(test)]
mod tests;
mod tokens;
mod zmutex;

use std::time::Duration;

use taketurns_core::wire::Verb;
use taketurns_core::{Ask, Kind, Name, limits};

use crate::clock::millis;
use crate::engine::redis::router::slots::{slot, tag, tag_of};
use crate::engine::{EngineError, Guarantees};

pub(crate) use tokens::Tokens;

/// What adapters have that leave the lock free now and then for clients that poll.
const COURTESY: &str = include_str!("../lua/courtesy.lua");
/// What the adapters of all mutexes share.
const MUTEX: &str = include_str!("../lua/mutex.lua");

/// What a URL says of the protocol to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolChoice {
    pub(crate) wire: ForeignProtocol,
    /// The URL accepts that there are no tokens.
    pub(crate) unfenced: bool,
}

/// The lock libraries whose keys and commands we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignProtocol {
    Plain,
    PythonRedisLock,
    FairQueue,
    Redturn,
    Zmutex {
        /// How old a score is that nobody holds any more.
        timeout: Duration,
        /// What is given back leaves the set.
        removes: bool,
    },
}

/// What there is to know of a protocol.
pub(crate) struct ProtocolForm {
    /// As in a URL.
    pub(crate) name: &'static str,
    /// The kind of lock that it is.
    pub(crate) kind: Kind,
    /// The keys that foreign clients know, in the order in which its adapter wants them.
    pub(crate) keys: fn(&Name) -> Vec<Vec<u8>>,
    /// Its parts of the adapter, in Lua.
    adapter: &'static [&'static str],
    /// What it does otherwise in single requests.
    adapter_of: &'static [(Verb, &'static str)],
    /// Its parts of the adapter of a view, which is no step.
    adapter_of_view: &'static [&'static str],
    pub(crate) guarantees: Guarantees,
    /// Why it can't be spoken to a Cluster, if so.
    pub(crate) no_cluster: Option<&'static str>,
}

impl ForeignProtocol {
    pub(crate) fn form(self) -> &'static ProtocolForm {
        match self {
            Self::Plain => &plain::FORM,
            Self::PythonRedisLock => &python_redis_lock::FORM,
            Self::FairQueue => &fairqueue::FORM,
            Self::Redturn => &redturn::FORM,
            Self::Zmutex { .. } => &zmutex::FORM,
        }
    }

    /// The parts of its adapter in the script of a request: they follow the native parts, and redefine
    /// functions of those.
    pub(crate) fn adapter(self, verb: Verb) -> Vec<&'static str> {
        let (form, mut parts) = (self.form(), vec![include_str!("../lua/unreadable.lua")]);
        if verb == Verb::View {
            parts.push(include_str!("../lua/adapter.view.lua"));
            parts.extend(form.adapter_of_view);
            parts.push(include_str!("../lua/view.lua"));
            return parts;
        }
        parts.push(include_str!("../lua/adapter.lua"));
        parts.extend(form.adapter);
        if verb == Verb::Break {
            parts.push(include_str!("../lua/break.lua"));
        }
        parts.extend(form.adapter_of.iter().filter(|(of, _)| *of == verb).map(|(_, part)| part));
        // In a block: Lua has room for 200 local variables at a time, and those of an adapter end with it.
        parts.insert(0, "do\n");
        parts.push("end\n");
        parts
    }

    /// What its scripts have to know besides, by name.
    pub(crate) fn settings(self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Plain => vec![("SIGNALS", 0)],
            Self::PythonRedisLock => vec![("SIGNALS", 1)],
            Self::FairQueue | Self::Redturn => Vec::new(),
            Self::Zmutex { timeout, removes } => vec![
                ("TIMEOUT_US", millis(timeout) * 1_000),
                ("REMOVES", removes.into()),
                ("NAME_MAX", limits::NAME_BYTES_MAX as u64),
            ],
        }
    }

    /// The lists that foreign clients push to when one of ours may have its turn.
    pub(crate) fn calls(self) -> Option<Calls> {
        match self {
            Self::FairQueue => Some(Calls::PerWaiter(fairqueue::CALLS)),
            Self::PythonRedisLock => Some(Calls::PerLock(python_redis_lock::SIGNALS)),
            Self::Plain | Self::Redturn | Self::Zmutex { .. } => None,
        }
    }

    /// Returns the channel of foreign clients' messages to the client with this channel, if the protocol has any.
    pub(crate) fn channel(self, channel: &str) -> Option<String> {
        (self == Self::Redturn).then(|| redturn::channel(channel))
    }

    /// Returns the locks that a foreign client's message may be about.
    pub(crate) fn locks_in(self, message: &[u8]) -> Vec<Name> {
        if self == Self::Redturn { redturn::locks_in(message) } else { Vec::new() }
    }

    /// Is it the lock's name behind this prefix that one of its keys is?
    pub(crate) fn has_keys_like(self, prefix: &str) -> bool {
        let name = Name::new("x").expect("a name");
        let own = format!("{prefix}{name}").into_bytes();
        (self.form().keys)(&name).contains(&own)
    }

    /// The longest lease, where it is the wire that says.
    pub(crate) fn max_lease(self) -> Option<Duration> {
        match self {
            Self::Zmutex { timeout, .. } => Some(timeout),
            _ => None,
        }
    }

    /// Does the server tell of changes to its key, if it tells of any?
    pub(crate) fn has_events(self) -> bool {
        matches!(self, Self::Zmutex { .. })
    }

    /// Refuses what it has no form for.
    pub(crate) fn refuse(self, kind: Kind) -> Result<(), EngineError> {
        let form = self.form();
        if kind == form.kind {
            return Ok(());
        }
        let (name, is) = (form.name, form.kind);
        Err(EngineError::Unsupported(format!(
            "protocol={name} knows no {kind}: its locks are each a {is}"
        )))
    }

    pub(crate) fn refuse_to_rest(self) -> EngineError {
        EngineError::Unsupported(format!(
            "with protocol={} a lock can't stay taken after its release: leave out at_least",
            self.form().name
        ))
    }

    /// # Errors
    /// Says why it can't be spoken to a Cluster.
    pub(crate) fn in_a_cluster(self) -> Result<(), String> {
        match self.form().no_cluster {
            None => Ok(()),
            Some(why) => Err(format!("protocol={} has no Cluster: {why}", self.form().name)),
        }
    }
}

impl ProtocolChoice {
    pub(crate) fn refuse(&self, ask: &Ask) -> Result<(), EngineError> {
        self.wire.refuse(ask.kind())?;
        if matches!(ask, Ask::Turns { .. } | Ask::Stay { .. }) {
            let name = self.wire.form().name;
            let why = format!(
                "with protocol={name} a lock can't be kept for several turns: leave out keep"
            );
            return Err(EngineError::Unsupported(why));
        }
        if self.unfenced || self.wire.form().guarantees.fenced {
            Ok(())
        } else {
            Err(EngineError::Unfenced)
        }
    }
}

/// Which lists foreign clients push to, by their prefix.
#[derive(Clone, Copy)]
pub(crate) enum Calls {
    /// A list for each waiter: its id follows.
    PerWaiter(&'static str),
    /// A list for each lock, which all its waiters block on: the lock's name follows.
    PerLock(&'static str),
}

impl Calls {
    pub(crate) fn list(self, id: &str, lock: &Name) -> String {
        match self {
            Self::PerWaiter(prefix) => format!("{prefix}{id}"),
            Self::PerLock(prefix) => format!("{prefix}{lock}"),
        }
    }
}

/// No name has such a character.
const TAGGED: char = '\x02';

/// Returns what follows the prefix in the key of our own state: on a Cluster that key must be in the slot of the
/// protocol's key, which contains the lock's name.
pub(crate) fn tagged_name(lock: &Name) -> String {
    let name = lock.as_str();
    if tag(name.as_bytes()).is_some() {
        name.to_owned()
    } else if name.contains('}') {
        format!("{TAGGED}{{{}}}{name}", tag_of(slot(name.as_bytes())))
    } else {
        format!("{TAGGED}{{{name}}}")
    }
}

/// Which lock it is that our scripts say has changed, if that is what the message says. Anybody may say
/// so: it does no more than that we ask.
pub(crate) fn changed_lock(message: &[u8], prefix: &str) -> Option<Name> {
    let key = std::str::from_utf8(message).ok()?.strip_prefix("stirred ")?;
    Name::new(name_beside(key.strip_prefix(prefix)?)).ok()
}

/// Which lock that is the state of.
pub(crate) fn name_beside(key: &str) -> &str {
    let Some(tagged) = key.strip_prefix(TAGGED).and_then(|key| key.strip_prefix('{')) else {
        return key;
    };
    match tagged.split_once('}') {
        Some((name, "")) => name,
        Some((_, name)) => name,
        None => key,
    }
}
