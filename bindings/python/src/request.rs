//! What is asked for: arguments of Python as requests of the client.

use std::time::Duration;

use pyo3::prelude::*;
use taketurns::{Acquire, AcquireAll, Guard, Keep, Locks, Once};

use crate::error::invalid;

/// Returns seconds as a duration.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        invalid(format!("{name} must be a number of seconds, 0 or more, not {seconds}"))
    })
}

/// The options of every acquire.
pub(crate) struct RequestOptions {
    within: Option<Duration>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    at_least: Option<Duration>,
    why: String,
    keep: Keep,
}

/// The argument `keep`: a number of turns, or `"until_wanted"`.
#[derive(FromPyObject)]
pub(crate) enum KeepArgument {
    Turns(u32),
    Word(String),
}

/// Returns an option that is a time.
fn time(name: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    seconds.map(|seconds| duration(name, seconds)).transpose()
}

impl RequestOptions {
    /// The options that every request has.
    pub(crate) fn new(
        timeout: Option<f64>,
        lease: Option<f64>,
        max_hold: Option<f64>,
        why: String,
    ) -> PyResult<Self> {
        Ok(Self {
            within: time("timeout", timeout)?,
            lease: time("lease", lease)?,
            max_hold: time("max_hold", max_hold)?,
            at_least: None,
            why,
            keep: Keep::default(),
        })
    }

    pub(crate) fn at_least(mut self, at_least: Option<f64>) -> PyResult<Self> {
        self.at_least = time("at_least", at_least)?;
        Ok(self)
    }

    pub(crate) fn keep(mut self, keep: Option<KeepArgument>) -> PyResult<Self> {
        self.keep = match keep {
            None => Keep::default(),
            Some(KeepArgument::Turns(turns)) => Keep::Turns(turns),
            Some(KeepArgument::Word(word)) if word == "until_wanted" => Keep::UntilWanted,
            Some(KeepArgument::Word(word)) => {
                return Err(invalid(format!(
                    "keep must be a number of turns or \"until_wanted\", not {word:?}"
                )));
            }
        };
        Ok(self)
    }

    fn common<T>(self, mut acquire: Acquire<T>) -> Acquire<T> {
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(max_hold) = self.max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        if let Some(at_least) = self.at_least {
            acquire = acquire.at_least(at_least);
        }
        acquire.why(self.why)
    }

    pub(crate) fn waiting(self, mut acquire: Acquire) -> Acquire {
        acquire = acquire.keep(self.keep);
        if let Some(within) = self.within {
            acquire = acquire.within(within);
        }
        self.common(acquire)
    }

    pub(crate) fn trying(self, acquire: Acquire<Option<Guard>>) -> Acquire<Option<Guard>> {
        self.common(acquire)
    }

    pub(crate) fn once(self, mut once: Once) -> Once {
        if let Some(lease) = self.lease {
            once = once.lease(lease);
        }
        if let Some(max_hold) = self.max_hold {
            once = once.max_hold(max_hold);
        }
        if let Some(within) = self.within {
            once = once.within(within);
        }
        once.why(self.why)
    }

    pub(crate) fn all(self, mut acquire: AcquireAll) -> AcquireAll {
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(max_hold) = self.max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        if let Some(within) = self.within {
            acquire = acquire.within(within);
        }
        acquire.why(self.why)
    }
}

/// How long work is remembered, and how often it is tried: `OnceTerms` of `taketurns/_options.py`.
#[derive(FromPyObject)]
pub(crate) struct OnceArgument {
    remember_for: Option<f64>,
    every: Option<f64>,
    offset: Option<f64>,
    attempts: Option<u32>,
    pause: Option<f64>,
}

impl OnceArgument {
    pub(crate) fn of(&self, locks: &Locks, name: &str) -> PyResult<Once> {
        let mut once = locks.once(name);
        let offset = time("offset", self.offset)?;
        match (time("remember_for", self.remember_for)?, time("every", self.every)?) {
            (Some(_), Some(_)) => {
                return Err(invalid("remember_for and every exclude each other".to_owned()));
            }
            (_, None) if offset.is_some() => {
                return Err(invalid(
                    "offset says when a period begins, so it needs every".to_owned(),
                ));
            }
            (Some(remember_for), None) => once = once.remember_for(remember_for),
            (None, Some(every)) => once = once.every(every, offset.unwrap_or_default()),
            (None, None) => {}
        }
        if let Some(attempts) = self.attempts {
            once = once.attempts(attempts);
        }
        if let Some(pause) = time("pause", self.pause)? {
            once = once.pause(pause);
        }
        Ok(once)
    }
}

/// A kind of lock, and what is asked of it.
pub(crate) enum LockRequest {
    Mutex,
    Campaign,
    Read,
    Write,
    Permits { take: u32, of: u32 },
    AnyMember,
    Member(String),
}

impl LockRequest {
    /// From the words of `taketurns/_options.py`.
    pub(crate) fn new(kind: &str, take: u32, of: u32, member: Option<String>) -> PyResult<Self> {
        Ok(match (kind, member) {
            ("mutex", _) => Self::Mutex,
            ("campaign", _) => Self::Campaign,
            ("read", _) => Self::Read,
            ("write", _) => Self::Write,
            ("semaphore", _) => Self::Permits { take, of },
            ("pool", None) => Self::AnyMember,
            ("pool", Some(member)) => Self::Member(member),
            _ => return Err(invalid(format!("there is no kind of lock {kind:?}"))),
        })
    }

    pub(crate) fn waiting(&self, locks: &Locks, name: &str) -> Acquire {
        match self {
            Self::Mutex => locks.mutex(name).acquire(),
            Self::Campaign => locks.election(name).campaign(),
            Self::Read => locks.rwlock(name).read(),
            Self::Write => locks.rwlock(name).write(),
            Self::Permits { take, of } => locks.semaphore(name, *of).acquire_many(*take),
            Self::AnyMember => locks.pool(name).any(),
            Self::Member(member) => locks.pool(name).member(member),
        }
    }

    pub(crate) fn trying(&self, locks: &Locks, name: &str) -> Acquire<Option<Guard>> {
        match self {
            Self::Mutex | Self::Campaign => locks.mutex(name).try_acquire(),
            Self::Read => locks.rwlock(name).try_read(),
            Self::Write => locks.rwlock(name).try_write(),
            Self::Permits { take, of } => locks.semaphore(name, *of).try_acquire_many(*take),
            Self::AnyMember => locks.pool(name).try_any(),
            Self::Member(member) => locks.pool(name).try_member(member),
        }
    }
}
