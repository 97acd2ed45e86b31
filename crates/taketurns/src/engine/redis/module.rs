//! The module that a server may have: it does what the scripts do, in the same words, and faster.
//!
//! ```text
//!   BIND ─► an id ─► DO key id verb …      bound to what the scripts would be bound to
//!     └─ unknown command, no permission: the scripts do
//! ```

use std::collections::HashSet;
use std::sync::Mutex;

use redis::{Cmd, cmd};
use taketurns_core::wire::{Args, Verb};

use super::net::failure::Failure;
use super::net::link::Link;
use super::net::url::{Address, Native};
use super::net::words::Out;
use super::scripts::Binding;
use crate::sync::lock;

/// The type of the keys that it keeps.
pub(super) const KEY_TYPE: &str = "fencelock";

/// The command of a step: key, id, verb and arguments follow.
pub(super) const DO: &str = "FENCELOCK.DO";

/// The module as one run of a server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Module {
    /// It is there, and knows our binding by this id.
    Bound(String),
    Missing,
    /// It is there, but not for us.
    Denied(String),
    /// It is not asked for.
    Off,
}

impl Module {
    pub(super) fn is_bound(&self) -> bool {
        matches!(self, Self::Bound(_))
    }
}

/// Binds the modules of all servers of a store.
pub(super) struct Binder {
    wanted: Native,
    /// Servers whose module we may not use, and that were logged.
    logged: Mutex<HashSet<Address>>,
}

impl Binder {
    pub(super) fn new(wanted: Native) -> Self {
        Self { wanted, logged: Mutex::default() }
    }

    /// Does the module know that there was a marker in this run of the server, to one who finds none?
    /// SCRIPT FLUSH leaves it alone.
    pub(super) async fn had_marker(
        &self,
        link: &Link,
        unmarked: &Binding,
        marker_key: &[u8],
    ) -> Result<bool, Failure> {
        if self.wanted == Native::Off {
            return Ok(false);
        }
        match link.send(&bind(unmarked, Some(marker_key))).await {
            Err(Failure::Reverify) => Ok(true),
            // There is none, or not for us.
            Ok(_) | Err(Failure::NoCommand(_) | Failure::Broken(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Without a key for the marker, nothing is looked at.
    pub(super) async fn bind(
        &self,
        link: &Link,
        binding: &Binding,
        marker_key: Option<&[u8]>,
    ) -> Result<Module, Failure> {
        if self.wanted == Native::Off {
            return Ok(Module::Off);
        }
        let module = match link.send(&bind(binding, marker_key)).await {
            Ok(id) => redis::from_redis_value(id).map(Module::Bound).map_err(|_| {
                let server = &link.address;
                Failure::Broken(format!("{server} answered FENCELOCK.BIND in words not ours"))
            })?,
            Err(Failure::NoCommand(_)) => Module::Missing,
            Err(Failure::Broken(why)) => Module::Denied(why),
            Err(failure) => return Err(failure),
        };
        let server = &link.address;
        match (&module, self.wanted) {
            (Module::Missing, Native::Required) => Err(Failure::Broken(format!(
                "{server} does not have the module (module=required): load it, or leave that out"
            ))),
            (Module::Denied(why), Native::Required) => {
                Err(Failure::Broken(format!("{why} (module=required)")))
            }
            (Module::Denied(why), _) => {
                if lock(&self.logged).insert(server.clone()) {
                    tracing::info!(%server, "its module is not used, but scripts: {why}");
                }
                Ok(module)
            }
            _ => Ok(module),
        }
    }
}

pub(super) fn bind(binding: &Binding, marker_key: Option<&[u8]>) -> Cmd {
    let mut command = cmd("FENCELOCK.BIND");
    command.arg(&binding.run).arg(&binding.known).arg(&binding.mark);
    command.arg(marker_key.unwrap_or_default());
    command.arg(binding.until_ms).arg(binding.max_lease_ms).arg(&binding.channel);
    command
}

/// Writes one step of the lock under this key, or a look at it.
pub(super) fn write_step(id: &str, verb: Verb, key: &[u8], args: &Args, out: &mut Out) {
    out.begin(4 + usize::from(args.count() > 0));
    out.word(DO.as_bytes());
    out.word(key);
    out.word(id.as_bytes());
    out.word(verb.name().as_bytes());
    // All in one word, for each costs the server something. No argument has a tab in it.
    if args.count() > 0 {
        out.joined(args);
    }
}
