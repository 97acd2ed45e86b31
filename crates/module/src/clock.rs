//! The server's wall clock, as TIME returns it.

use std::time::{SystemTime, UNIX_EPOCH};

use taketurns_core::Now;

pub(crate) fn now() -> Now {
    let wall_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let wall_us = u64::try_from(wall_us).unwrap_or(u64::MAX);
    Now { ms: wall_us / 1_000, wall_us }
}
