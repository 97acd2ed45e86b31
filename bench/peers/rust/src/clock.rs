//! The time that all processes of a machine share, so that what they note can be put in order.

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in µs.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
