//! What replicas and the log repeat: a step with its time, and nothing that depends on when it is
//! repeated.

use std::borrow::Cow;
use std::cell::RefCell;

use serde::{Deserialize, Serialize};
use taketurns_core::{Now, Request};

/// One change that replicas and the log repeat.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Entry<'a> {
    /// A step of the lock.
    Step {
        /// When the last step was made, even if it changed nothing.
        seen_ms: u64,
        quarantine_until_ms: u64,
        now: Now,
        run: Cow<'a, str>,
        channel: Cow<'a, str>,
        request: Cow<'a, Request>,
    },
    /// A token was admitted.
    Admit {
        /// The time of the last step, if the clock was set back since.
        now_ms: u64,
        token: u64,
        run: Cow<'a, str>,
    },
    /// The whole state, which replaces the present one.
    State(Cow<'a, [u8]>),
}

thread_local! {
    /// One buffer for all entries: they are written one at a time, very often, and nearly all fit.
    static BUFFER: RefCell<[u8; 2_048]> = const { RefCell::new([0; 2_048]) };
}

impl<'a> Entry<'a> {
    /// Calls `then` with the stored form.
    pub(crate) fn with_bytes(&self, then: impl FnOnce(&[u8])) {
        BUFFER.with_borrow_mut(|buffer| match postcard::to_slice(self, &mut buffer[..]) {
            Ok(bytes) => then(bytes),
            // Plain data always serializes.
            Err(_) => then(&postcard::to_allocvec(self).unwrap_or_default()),
        });
    }

    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
