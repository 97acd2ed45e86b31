//! Whether this machine lets its processes run. On one that is too busy a client may lose its place
//! without anybody's fault, and the history has to say so.

use std::time::Duration;

use taketurns_servers::turns::now_us;

/// How long a pulse takes.
pub(crate) const BEAT: Duration = Duration::from_millis(50);
/// A beat that takes longer than this was held up: well below what is between two refreshes.
const LATE: Duration = Duration::from_millis(200);

/// Beats that took too long.
#[derive(Debug)]
pub(crate) struct Pulse(u64);

impl Pulse {
    pub(crate) fn new() -> Self {
        Self(now_us())
    }

    /// To be called once a [`BEAT`]. From when to when nothing ran, if that was long.
    pub(crate) fn beat(&mut self) -> Option<(u64, u64)> {
        let before_us = std::mem::replace(&mut self.0, now_us());
        let took = Duration::from_micros(self.0 - before_us);
        (took > LATE).then_some((before_us, self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_that_takes_long_is_told_of_with_its_ends() {
        let mut pulse = Pulse::new();
        let before_us = now_us();
        std::thread::sleep(LATE + BEAT);
        let (from_us, until_us) = pulse.beat().expect("it was late");
        assert!(from_us <= before_us && until_us - from_us >= 250_000);
    }
}
