//! Options as JavaScript gives them, and what the client makes of them. JavaScript has checked their types; what a value
//! may be is the client's to say.

use std::time::Duration;

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use taketurns::{Acquire, AcquireAll, Keep};

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
