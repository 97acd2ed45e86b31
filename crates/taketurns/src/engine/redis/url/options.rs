//! The options of a store URL that only Redis has.

use std::time::Duration;

use super::secret::{Credentials, Source};
use super::{Failover, ModuleUse};
use crate::engine::redis::foreign::protocol::{ForeignProtocol, ProtocolChoice};
use crate::engine::server_url::options::{MAX_LEASE_S, UrlOptions};

/// For the error about an unknown one.
pub(crate) const KNOWN: &str = "prefix, max_lease, failover, strict, module, connect_timeout, \
                     response_timeout, protocol, unfenced, timeout, release, password_file, password_env, ca, cert, key, sentinel_user, \
                     sentinel_password_file, sentinel_password_env";

const PREFIX_BYTES_MAX: usize = 64;

impl UrlOptions {
    /// Whatever nobody has taken is unknown, or for other stores of Redis.
    pub(crate) fn finish_redis(self) -> Result<(), String> {
        match self.first_left() {
            Some("unfenced") => {
                Err("the option \"unfenced\" is only for a protocol= that has no tokens".to_owned())
            }
            Some(name @ ("timeout" | "release")) => {
                Err(format!("the option {name:?} is only for protocol=zmutex"))
            }
            Some(name @ ("sentinel_user" | "sentinel_password_file" | "sentinel_password_env")) => {
                Err(format!("the option {name:?} is only for redis+sentinel://"))
            }
            _ => self.finish(),
        }
    }

    pub(crate) fn sentinel_credentials(&mut self) -> Result<Credentials, String> {
        let user = self.take("sentinel_user").filter(|user| !user.is_empty());
        Ok(Credentials { user, password: self.password("sentinel_password", Source::Nothing)? })
    }

    pub(crate) fn prefix(&mut self, cluster: bool) -> Result<String, String> {
        let prefix = self.take("prefix").unwrap_or_else(|| "tt:".to_owned());
        if prefix.len() > PREFIX_BYTES_MAX || prefix.chars().any(char::is_control) {
            return Err(format!(
                "the prefix can have up to {PREFIX_BYTES_MAX} bytes and no control characters"
            ));
        }
        if cluster && prefix.contains(['{', '}']) {
            // It would decide the slot of every key.
            return Err("on a Cluster the prefix can't have { or } in it".to_owned());
        }
        Ok(prefix)
    }

    /// The longest lease, which the protocol may decide.
    pub(crate) fn max_lease_of_protocol(&mut self) -> Result<Duration, String> {
        if self.has("max_lease") && self.is("protocol", "zmutex") {
            return Err("with protocol=zmutex the longest lease is its timeout=".to_owned());
        }
        self.max_lease()
    }

    pub(crate) fn failover(&mut self) -> Result<Failover, String> {
        match self.take("failover").as_deref() {
            None | Some("quarantine") => Ok(Failover::Quarantine),
            Some("strict") => Ok(Failover::Strict),
            Some("immediate") => Ok(Failover::Immediate),
            Some(_) => Err("failover is one of quarantine, strict, immediate".to_owned()),
        }
    }

    pub(crate) fn strict(&mut self) -> Result<bool, String> {
        match self.take("strict").as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err("strict is one of true, false".to_owned()),
        }
    }

    pub(crate) fn module(&mut self) -> Result<ModuleUse, String> {
        match self.take("module").as_deref() {
            Some("required") if self.has("protocol") => {
                Err("module=required and protocol= exclude each other: the module has its own"
                    .into())
            }
            None | Some("auto") => Ok(ModuleUse::Auto),
            Some("off") => Ok(ModuleUse::Off),
            Some("required") => Ok(ModuleUse::Required),
            Some(_) => Err("module is one of auto, off, required".to_owned()),
        }
    }
}

impl UrlOptions {
    /// The foreign protocol to use, if any.
    pub(crate) fn protocol(&mut self) -> Result<Option<ProtocolChoice>, String> {
        let Some(name) = self.take("protocol") else { return Ok(None) };
        let wire = match name.as_str() {
            "plain" => ForeignProtocol::Plain,
            "python-redis-lock" => ForeignProtocol::PythonRedisLock,
            "fairqueue" => ForeignProtocol::FairQueue,
            "redturn" => ForeignProtocol::Redturn,
            "zmutex" => {
                let timeout = self.seconds("timeout", &MAX_LEASE_S, Duration::from_secs(60))?;
                ForeignProtocol::Zmutex { timeout, removes: self.removes()? }
            }
            _ => {
                let known = "plain, python-redis-lock, fairqueue, redturn, zmutex";
                return Err(format!("protocol is one of {known}"));
            }
        };
        let unfenced = match self.take("unfenced").as_deref() {
            None => false,
            Some("ok") => true,
            Some(_) => return Err("unfenced can only be ok".to_owned()),
        };
        Ok(Some(ProtocolChoice { wire, unfenced }))
    }

    /// Does what is given back leave its set?
    fn removes(&mut self) -> Result<bool, String> {
        match self.take("release").as_deref() {
            None | Some("zero") => Ok(false),
            Some("remove") => Ok(true),
            Some(_) => Err("release is one of zero, remove".to_owned()),
        }
    }
}
