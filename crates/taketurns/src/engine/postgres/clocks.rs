//! Whose time an answer tells: one origin for each server incarnation that this client has met.

use std::sync::Mutex;

use taketurns_core::wire::sha1_hex;

use crate::engine::Origin;
use crate::sync::lock;

/// The clock of the last answer. All connections to one server incarnation share its clock.
#[derive(Default)]
pub(super) struct ServerClocks {
    current: Mutex<IncarnationClock>,
}

#[derive(Default)]
struct IncarnationClock {
    name: String,
    run: String,
    epoch: u64,
}

impl ServerClocks {
    /// The origin of an answer on this clock. A clock that comes back is a new one: the epoch only grows.
    pub(super) fn origin(&self, clock: &str) -> Origin {
        let mut current = lock(&self.current);
        if current.name != clock {
            let epoch = current.epoch + 1;
            *current = IncarnationClock { name: clock.to_owned(), run: run_of(clock), epoch };
        }
        Origin { source: 0, epoch: current.epoch }
    }

    /// The origin of a wake-up that names its server by this run.
    pub(super) fn origin_of_run(&self, run: &str) -> Option<Origin> {
        let current = lock(&self.current);
        (current.run == run).then_some(Origin { source: 0, epoch: current.epoch })
    }
}

/// How a wake-up names the server incarnation: in sixteen characters.
pub(super) fn run_of(clock: &str) -> String {
    let mut run = sha1_hex(clock);
    run.truncate(16);
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_clock_is_another_origin_even_if_it_comes_back() {
        let clocks = ServerClocks::default();
        let first = clocks.origin("00000001-5");
        assert_eq!(clocks.origin("00000001-5"), first);
        let second = clocks.origin("00000002-5");
        assert!(second.epoch > first.epoch);
        assert!(clocks.origin("00000001-5").epoch > second.epoch);
        assert_eq!(clocks.origin_of_run(&run_of("00000002-5")), None);
        let origin = clocks.origin_of_run(&run_of("00000001-5"));
        assert_eq!(origin, Some(clocks.origin("00000001-5")));
    }
}
