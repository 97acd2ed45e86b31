//! Clocks. Local times and lease times come from the boot clock, which keeps running while the
//! machine is suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use taketurns_core::Now;

/// `Instant` stops during suspend on Linux, but a lease does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns microseconds since a fixed moment at or before the boot.
pub(crate) fn local_us() -> u64 {
    // Under shuttle, steps take no time.
    if cfg!(shuttle) {
        return 1_000_000_000;
    }
    #[cfg(feature = "simulation")]
    if let Some(now_us) = crate::simulation::ask(|machine| machine.now_us()) {
        return now_us;
    }
    #[cfg(feature = "simulation")]
    crate::costs::count_clock();
    let time = clock_gettime(CLOCK);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The clock of an embedded engine: the system's, or one that a test moves by hand. Default: the
/// system's.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The boot clock for leases, the wall clock for tokens.
    #[default]
    System,
    /// A clock that stands still until a test moves it.
    Manual(ManualClock),
}

impl Clock {
    /// Returns the current time.
    pub fn now(&self) -> Now {
        match self {
            Clock::System => {
                #[cfg(feature = "simulation")]
                crate::costs::count_clock();
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Now { ms: local_us() / 1_000, wall_us: micros(wall) }
            }
            Clock::Manual(manual) => {
                let [lease_ms, wall_ms] = manual.0.as_ref();
                let wall_us = wall_ms.load(Ordering::SeqCst).saturating_mul(1_000);
                Now { ms: lease_ms.load(Ordering::SeqCst), wall_us }
            }
        }
    }
}

/// A clock that stands still until it is moved, for tests that do not sleep.
///
/// ```
/// # use std::time::Duration;
/// use taketurns::engine::{Clock, ManualClock};
/// let manual = ManualClock::new();
/// let clock = Clock::Manual(manual.clone());
/// let before = clock.now().ms;
/// manual.advance(Duration::from_secs(3));
/// assert_eq!(clock.now().ms, before + 3_000);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<[AtomicU64; 2]>);

impl ManualClock {
    /// Returns a clock that starts at an arbitrary time.
    pub fn new() -> Self {
        Self(Arc::new([AtomicU64::new(1_000_000), AtomicU64::new(2_000_000)]))
    }

    /// Moves lease clock and wall clock forward.
    pub fn advance(&self, by: Duration) {
        for clock in self.0.as_ref() {
            clock.fetch_add(millis(by), Ordering::SeqCst);
        }
    }

    /// Sets both back. A server's lease clock is its wall clock, which can be set back.
    pub fn set_back(&self, by: Duration) {
        for clock in self.0.as_ref() {
            clock.fetch_sub(millis(by), Ordering::SeqCst);
        }
    }

    /// Sets only the wall clock forward, as an administrator might.
    pub fn set_wall_forward(&self, by: Duration) {
        self.0[1].fetch_add(millis(by), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}
