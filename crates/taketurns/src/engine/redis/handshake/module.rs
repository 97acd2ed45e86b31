//! Binds the module that a server may have: it does what the scripts do, argument for argument, and faster.
//!
//! ```text
//!   BIND ─► an id, for FENCELOCK.DO         bound to what the scripts would be bound to
//!     └─ unknown command, no permission: the scripts do
//! ```

use std::collections::HashSet;
use std::sync::Mutex;

use crate::engine::redis::backend::ModuleBinding;
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::scripts::ScriptBinding;
use crate::engine::redis::url::{Address, ModuleUse};
use crate::sync::lock;
use crate::telling::target;
use redis::{Cmd, cmd};

/// The type of the keys that it keeps.
pub(crate) const KEY_TYPE: &str = "fencelock";

/// Binds the modules of all servers of a store.
pub(crate) struct ModuleBinder {
    wanted: ModuleUse,
    /// Servers whose module we may not use, and that were logged.
    logged: Mutex<HashSet<Address>>,
}

impl ModuleBinder {
    pub(crate) fn new(wanted: ModuleUse) -> Self {
        Self { wanted, logged: Mutex::default() }
    }

    /// Does the module know that there was a marker in this run of the server, to one who finds none?
    /// SCRIPT FLUSH leaves it alone.
    pub(crate) async fn had_marker(
        &self,
        connection: &ServerConnection,
        unmarked: &ScriptBinding,
        marker_key: &[u8],
    ) -> Result<bool, Failure> {
        if self.wanted == ModuleUse::Off {
            return Ok(false);
        }
        match connection.send(&bind(unmarked, Some(marker_key))).await {
            Err(Failure::Reverify) => Ok(true),
            // There is none, or not for us.
            Ok(_) | Err(Failure::NoCommand(_) | Failure::Broken(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Without a key for the marker, nothing is looked at.
    pub(crate) async fn bind(
        &self,
        connection: &ServerConnection,
        binding: &ScriptBinding,
        marker_key: Option<&[u8]>,
    ) -> Result<ModuleBinding, Failure> {
        if self.wanted == ModuleUse::Off {
            return Ok(ModuleBinding::Off);
        }
        let module = match connection.send(&bind(binding, marker_key)).await {
            Ok(id) => redis::from_redis_value(id).map(ModuleBinding::Bound).map_err(|_| {
                let server = &connection.address;
                Failure::Broken(format!("{server} sent a malformed reply to FENCELOCK.BIND"))
            })?,
            Err(Failure::NoCommand(_)) => ModuleBinding::Missing,
            Err(Failure::Broken(why)) => ModuleBinding::Denied(why),
            Err(failure) => return Err(failure),
        };
        let server = &connection.address;
        match (&module, self.wanted) {
            (ModuleBinding::Missing, ModuleUse::Required) => Err(Failure::Broken(format!(
                "{server} does not have the module (module=required): load it, or leave that out"
            ))),
            (ModuleBinding::Denied(why), ModuleUse::Required) => {
                Err(Failure::Broken(format!("{why} (module=required)")))
            }
            (ModuleBinding::Denied(why), _) => {
                if lock(&self.logged).insert(server.clone()) {
                    tracing::info!(target: target::REDIS, %server, "its module is not used, but scripts: {why}");
                }
                Ok(module)
            }
            _ => Ok(module),
        }
    }
}

pub(crate) fn bind(binding: &ScriptBinding, marker_key: Option<&[u8]>) -> Cmd {
    let mut command = cmd("FENCELOCK.BIND");
    command.arg(&binding.run).arg(&binding.known).arg(&binding.mark);
    command.arg(marker_key.unwrap_or_default());
    command.arg(binding.until_ms).arg(binding.max_lease_ms).arg(&binding.channel);
    command
}
