//! Options as JavaScript gives them, and what the client makes of them. JavaScript has checked their types; what a value
//! may be is the client's to say.

use std::time::Duration;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use taketurns::{Acquire, AcquireAll, Keep, Locks, Once};

/// The options of an acquire. Times are in milliseconds.
#[napi(object, object_to_js = false)]
#[derive(Default)]
pub struct AcquireSettings {
    /// When to give up.
    pub within: Option<f64>,
    /// How long the lock outlives the client.
    pub lease: Option<f64>,
    /// When renewal ends.
    pub max_hold: Option<f64>,
    /// How long nobody else has it, counted from the grant.
    pub at_least: Option<f64>,
    /// For people to see.
    pub why: Option<String>,
    /// How many turns in a row, or `"until-wanted"`.
    pub keep: Option<Either<u32, String>>,
}

/// What is asked for: the kind of lock, and how much of it.
#[napi(object, object_to_js = false)]
pub struct AskObject {
    /// `mutex`, `read`, `write`, `permits`, `any`, `member` or `campaign`.
    pub mode: String,
    /// The lock's name.
    pub name: String,
    /// How many permits are taken.
    pub take: Option<u32>,
    /// How many permits the semaphore has.
    pub of: Option<u32>,
    /// Which member of a pool.
    pub member: Option<String>,
}

/// A once: its name, how long its work is remembered, and how often it is tried. Times are in milliseconds.
#[napi(object, object_to_js = false)]
pub struct OnceObject {
    /// Its name.
    pub name: String,
    /// How long it is remembered that the work is done.
    pub remember_for: Option<f64>,
    /// How long a period is, instead.
    pub every: Option<f64>,
    /// When a period begins.
    pub offset: Option<f64>,
    /// How many attempts may fail.
    pub attempts: Option<u32>,
    /// How long after a failure the next attempt begins.
    pub pause: Option<f64>,
}

impl OnceObject {
    pub(crate) fn of(&self, locks: &Locks) -> Once {
        let mut once = locks.once(&self.name);
        if let Some(time) = self.remember_for {
            once = once.remember_for(millis(time));
        }
        if let Some(length) = self.every {
            once = once.every(millis(length), millis(self.offset.unwrap_or_default()));
        }
        if let Some(attempts) = self.attempts {
            once = once.attempts(attempts);
        }
        if let Some(pause) = self.pause {
            once = once.pause(millis(pause));
        }
        once
    }
}

/// The options of a connection. Times are in milliseconds.
#[napi(object, object_to_js = false)]
#[derive(Default)]
pub struct ConnectSettings {
    /// The name that people see.
    pub who: Option<String>,
    /// How long a place in a queue outlives the client.
    pub waiter_lease: Option<f64>,
    /// How long to wait for a server that is loading its data.
    pub within: Option<f64>,
}

impl AcquireSettings {
    /// Sets the options that every acquire of one lock has.
    pub(crate) fn on<T>(&self, mut acquire: Acquire<T>) -> Acquire<T> {
        if let Some(lease) = self.lease {
            acquire = acquire.lease(millis(lease));
        }
        if let Some(max_hold) = self.max_hold {
            acquire = acquire.max_hold(millis(max_hold));
        }
        if let Some(at_least) = self.at_least {
            acquire = acquire.at_least(millis(at_least));
        }
        if let Some(why) = &self.why {
            acquire = acquire.why(why);
        }
        acquire
    }

    /// Sets the options of an acquire that waits.
    pub(crate) fn on_wait(&self, acquire: Acquire) -> Acquire {
        let mut acquire = self.on(acquire);
        if let Some(within) = self.within {
            acquire = acquire.within(millis(within));
        }
        match &self.keep {
            None => acquire,
            Some(Either::A(turns)) => acquire.keep(Keep::Turns(*turns)),
            Some(Either::B(_)) => acquire.keep(Keep::UntilWanted),
        }
    }

    /// Sets the options of an attempt at the work of a once.
    pub(crate) fn on_once(self, mut once: Once) -> Once {
        if let Some(lease) = self.lease {
            once = once.lease(millis(lease));
        }
        if let Some(max_hold) = self.max_hold {
            once = once.max_hold(millis(max_hold));
        }
        if let Some(within) = self.within {
            once = once.within(millis(within));
        }
        if let Some(why) = self.why {
            once = once.why(why);
        }
        once
    }

    /// Sets the options of an acquire of several locks.
    pub(crate) fn on_all(self, mut acquire: AcquireAll) -> AcquireAll {
        if let Some(lease) = self.lease {
            acquire = acquire.lease(millis(lease));
        }
        if let Some(max_hold) = self.max_hold {
            acquire = acquire.max_hold(millis(max_hold));
        }
        if let Some(within) = self.within {
            acquire = acquire.within(millis(within));
        }
        if let Some(why) = self.why {
            acquire = acquire.why(why);
        }
        acquire
    }
}

/// Returns a time of JavaScript; the longest there is for one that is too long.
pub(crate) fn millis(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(Duration::MAX)
}
