//! The options of a store URL: what follows the `?`.
//!
//! Each reader takes its options out; what is left at the end is unknown.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::secret::{Credentials, Source};
use super::{Failover, ModuleUse, Timeouts, TlsConfig, decode};
use crate::engine::redis::foreign::protocol::{ForeignProtocol, ProtocolChoice};

/// For the error about an unknown one.
const KNOWN: &str = "prefix, max_lease, failover, strict, module, connect_timeout, \
                     response_timeout, protocol, unfenced, timeout, release, password_file, password_env, ca, cert, key, sentinel_user, \
                     sentinel_password_file, sentinel_password_env";

const PREFIX_BYTES_MAX: usize = 64;
const MAX_LEASE_S: RangeInclusive<f64> = 1.0..=86_400.0;
/// Less would give up a healthy server at the first hiccup; more than any lease is renewed by.
const TIMEOUT_S: RangeInclusive<f64> = 0.01..=60.0;

pub(crate) struct Options(BTreeMap<String, String>);

impl Options {
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let mut options = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value, &format!("the value of the option {name:?}"))?;
            if options.insert(name.to_owned(), value).is_some() {
                return Err(format!("the option {name:?} is there twice; {}", there_is()));
            }
        }
        Ok(Self(options))
    }

    /// Whatever nobody has taken is unknown.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.0.keys().next().map(String::as_str) {
            None => Ok(()),
            Some("unfenced") => {
                Err("the option \"unfenced\" is only for a protocol= that has no tokens".to_owned())
            }
            Some(name @ ("timeout" | "release")) => {
                Err(format!("the option {name:?} is only for protocol=zmutex"))
            }
            Some(name @ ("sentinel_user" | "sentinel_password_file" | "sentinel_password_env")) => {
                Err(format!("the option {name:?} is only for redis+sentinel://"))
            }
            Some(name) => Err(format!("there is no option {name:?}; {}", there_is())),
        }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn take_path(&mut self, name: &str) -> Result<Option<PathBuf>, String> {
        match self.take(name) {
            Some(path) if path.is_empty() => Err(format!("the option {name:?} needs a path")),
            path => Ok(path.map(PathBuf::from)),
        }
    }

    /// The one place where the password comes from; `otherwise` if no option names any.
    pub(crate) fn password(&mut self, name: &str, otherwise: Source) -> Result<Source, String> {
        let file = self.take_path(&format!("{name}_file"))?;
        let variable = self.take(&format!("{name}_env"));
        if variable.as_ref().is_some_and(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(format!("the option \"{name}_env\" needs the name of a variable"));
        }
        match (file, variable, otherwise) {
            (None, None, otherwise) => Ok(otherwise),
            (Some(path), None, Source::Nothing | Source::Surroundings) => Ok(Source::File(path)),
            (None, Some(name), Source::Nothing | Source::Surroundings) => {
                Ok(Source::Variable(name))
            }
            _ => Err(format!(
                "a password can come from one place: the URL, {name}_file or {name}_env"
            )),
        }
    }

    pub(crate) fn sentinel_credentials(&mut self) -> Result<Credentials, String> {
        let user = self.take("sentinel_user").filter(|user| !user.is_empty());
        Ok(Credentials { user, password: self.password("sentinel_password", Source::Nothing)? })
    }

    pub(crate) fn tls(&mut self, wanted: bool) -> Result<Option<TlsConfig>, String> {
        let ca = self.take_path("ca")?;
        let identity = match (self.take_path("cert")?, self.take_path("key")?) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("the options cert and key are given together or not at all".to_owned()),
        };
        if !wanted && (ca.is_some() || identity.is_some()) {
            return Err("the options ca, cert and key are for TLS: write rediss".to_owned());
        }
        Ok(wanted.then_some(TlsConfig { ca, identity }))
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

    pub(crate) fn max_lease(&mut self) -> Result<Duration, String> {
        let is_told = self.0.contains_key("max_lease");
        if is_told && self.0.get("protocol").is_some_and(|name| name == "zmutex") {
            return Err("with protocol=zmutex the longest lease is its timeout=".to_owned());
        }
        self.seconds("max_lease", &MAX_LEASE_S, Duration::from_secs(60))
    }

    /// How long the client waits for one server.
    pub(crate) fn timeouts(&mut self) -> Result<Timeouts, String> {
        let Timeouts { connect, response } = Timeouts::default();
        Ok(Timeouts {
            connect: self.seconds("connect_timeout", &TIMEOUT_S, connect)?,
            response: self.seconds("response_timeout", &TIMEOUT_S, response)?,
        })
    }

    /// A number of seconds within bounds, or the default if the option is not there.
    fn seconds(
        &mut self,
        name: &str,
        bounds: &RangeInclusive<f64>,
        default: Duration,
    ) -> Result<Duration, String> {
        let Some(text) = self.take(name) else {
            return Ok(default);
        };
        let seconds = text.parse().ok().filter(|seconds| bounds.contains(seconds));
        let (min, max) = (bounds.start(), bounds.end());
        let seconds =
            seconds.ok_or_else(|| format!("{name} is in seconds, from {min} to {max}"))?;
        Ok(Duration::from_secs_f64(seconds))
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
            Some("required") if self.0.contains_key("protocol") => {
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

impl Options {
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

fn there_is() -> String {
    format!("the options are {KNOWN}")
}
