//! The options of a store URL: what follows the `?`.
//!
//! Each reader takes its options out; what is left at the end is unknown.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::secret::Source;
use super::{Timeouts, TlsConfig, decode};

pub(crate) const MAX_LEASE_S: RangeInclusive<f64> = 1.0..=86_400.0;
/// Less would give up a healthy server at the first hiccup; more than any lease is renewed by.
const TIMEOUT_S: RangeInclusive<f64> = 0.01..=60.0;

/// The options that are left, by name.
pub(crate) struct UrlOptions {
    given: BTreeMap<String, String>,
    /// For the error about an unknown one.
    known: &'static str,
}

impl UrlOptions {
    pub(crate) fn parse(query: &str, known: &'static str) -> Result<Self, String> {
        let mut options = Self { given: BTreeMap::new(), known };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value, &format!("the value of the option {name:?}"))?;
            if options.given.insert(name.to_owned(), value).is_some() {
                return Err(format!("the option {name:?} is there twice; {}", options.there_is()));
            }
        }
        Ok(options)
    }

    /// The first option that nobody has taken.
    pub(crate) fn first_left(&self) -> Option<&str> {
        self.given.keys().next().map(String::as_str)
    }

    /// Whatever nobody has taken is unknown.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.first_left() {
            None => Ok(()),
            Some(name) => Err(format!("there is no option {name:?}; {}", self.there_is())),
        }
    }

    fn there_is(&self) -> String {
        format!("the options are {}", self.known)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.given.get(name).is_some_and(|given| given == value)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.given.remove(name)
    }

    pub(crate) fn take_path(&mut self, name: &str) -> Result<Option<PathBuf>, String> {
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
            (Some(path), None, Source::Nothing | Source::Surroundings(_)) => Ok(Source::File(path)),
            (None, Some(name), Source::Nothing | Source::Surroundings(_)) => {
                Ok(Source::Variable(name))
            }
            _ => Err(format!(
                "a password can come from one place: the URL, {name}_file or {name}_env"
            )),
        }
    }

    /// The files for TLS. `how` says how TLS is asked for in this kind of URL.
    pub(crate) fn tls(&mut self, wanted: bool, how: &str) -> Result<Option<TlsConfig>, String> {
        let ca = self.take_path("ca")?;
        let identity = match (self.take_path("cert")?, self.take_path("key")?) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("the options cert and key are given together or not at all".to_owned()),
        };
        if !wanted && (ca.is_some() || identity.is_some()) {
            return Err(format!("the options ca, cert and key are for TLS: write {how}"));
        }
        Ok(wanted.then_some(TlsConfig { ca, identity }))
    }

    pub(crate) fn max_lease(&mut self) -> Result<Duration, String> {
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
    pub(crate) fn seconds(
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
}
