//! Which anchor a wake-up is judged by.
//!
//! A wake-up says until when on the engine's clock, and an [`Anchor`] what that is on ours. How long
//! the wake-up was under way can't be known, and the engine's clock may have been set back meanwhile:
//! a later anchor would then make the grant too long, and two would hold. An anchor older than the grant
//! can only make it shorter then; but it would make it too long if the clock was set forward before the
//! grant, where the newest anchor makes it shorter. So both are used, and the shorter result counts.

use super::{Anchor, Origin};

/// What one acquire has seen of the engine's clock before it can have been granted.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    seen: Option<(Origin, Anchor)>,
    asked: bool,
    /// Asked more than once: it may have been granted before, unheard, and waits anew.
    again: bool,
}

impl Sight {
    /// It is about to ask. What is known of the engine's clock by then is older than any grant, but only
    /// the first time.
    pub(super) fn handle_asking(&mut self, known: Option<(Origin, Anchor)>) {
        if self.asked {
            (self.again, self.seen) = (true, None);
        } else {
            (self.asked, self.seen) = (true, known);
        }
    }

    /// The engine said that it waits: it was not granted before that.
    pub(super) fn handle_waiting(&mut self, origin: Origin, anchor: Anchor) {
        if !self.again {
            self.seen = Some((origin, anchor));
        }
    }

    /// What a wake-up of that origin, which grants until `deadline_ms`, can be judged by, if `newest` is
    /// the newest that is known now. Without it, it has to be asked about.
    pub(super) fn anchor(
        &self,
        origin: Origin,
        newest: Option<(Origin, Anchor)>,
        deadline_ms: u64,
    ) -> Option<Anchor> {
        let of_origin = |known: Option<(Origin, Anchor)>| {
            known.filter(|(of, _)| *of == origin).map(|(_, anchor)| anchor)
        };
        let both = [of_origin(self.seen)?, of_origin(newest)?];
        both.into_iter().min_by_key(|anchor| anchor.valid_until_us(deadline_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Origin = Origin { source: 0, epoch: 1 };

    fn at(sent_us: u64, engine_ms: u64) -> Anchor {
        Anchor { sent_us, engine_ms }
    }

    /// By what a grant until 5 s is judged, if this was heard last.
    fn judged_by(sight: &Sight, newest: Anchor) -> Option<Anchor> {
        sight.anchor(HERE, Some((HERE, newest)), 5_000)
    }

    fn waiting_since(sent_us: u64, engine_ms: u64) -> Sight {
        let mut sight = Sight::default();
        sight.handle_asking(None);
        sight.handle_waiting(HERE, at(sent_us, engine_ms));
        sight
    }

    #[test]
    fn what_was_known_before_it_asked_counts_until_it_is_known_to_wait() {
        let mut sight = Sight::default();
        let newest = at(9_000, 1_000);
        assert_eq!(judged_by(&sight, newest), None);
        sight.handle_asking(Some((HERE, at(1_000, 1_000))));
        assert_eq!(judged_by(&sight, newest), Some(at(1_000, 1_000)), "a wake-up before the reply");
        sight.handle_waiting(HERE, at(2_000, 1_000));
        assert_eq!(judged_by(&sight, newest), Some(at(2_000, 1_000)));
    }

    #[test]
    fn a_clock_that_was_set_back_since_makes_no_grant_longer() {
        let sight = waiting_since(1_000_000, 4_000);
        // Two seconds later its clock shows one less.
        assert_eq!(judged_by(&sight, at(3_000_000, 3_000)), Some(at(1_000_000, 4_000)));
    }

    #[test]
    fn a_clock_that_was_set_forward_before_makes_no_grant_longer() {
        let sight = waiting_since(1_000_000, 1_000);
        assert_eq!(judged_by(&sight, at(2_000_000, 4_000)), Some(at(2_000_000, 4_000)));
    }

    #[test]
    fn another_run_or_connection_is_another_clock() {
        let (sight, elsewhere) = (waiting_since(1, 1), Origin { epoch: 2, ..HERE });
        assert_eq!(sight.anchor(elsewhere, Some((elsewhere, at(2, 2))), 5_000), None);
        assert_eq!(sight.anchor(HERE, Some((elsewhere, at(2, 2))), 5_000), None);
        assert_eq!(sight.anchor(HERE, None, 5_000), None);
    }

    #[test]
    fn who_asks_again_may_have_been_granted_before() {
        let mut sight = waiting_since(1, 1);
        sight.handle_asking(Some((HERE, at(3, 3))));
        assert_eq!(judged_by(&sight, at(4, 4)), None);
        sight.handle_waiting(HERE, at(4, 4));
        assert_eq!(judged_by(&sight, at(4, 4)), None, "an old wake-up may still be under way");
    }
}
