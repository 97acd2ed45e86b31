//! Chooses the [`Anchor`] that turns a wake-up's deadline into local time.
//!
//! A wake-up names a deadline on the engine's clock. How long the wake-up was under way can't be known, and
//! the engine's clock may have been set back meanwhile: a later anchor would then make the grant too long,
//! and two clients would hold. An anchor older than the grant can only make it shorter then; but it would
//! make it too long if the clock was set forward before the grant, where the newest anchor makes it shorter.
//! So both are used, and the shorter result counts.

use super::{Anchor, Origin};

/// The latest anchor known to predate the grant of one acquire.
#[derive(Clone, Debug, Default)]
pub(super) struct WakeAnchor {
    before: Option<(Origin, Anchor)>,
    asked: bool,
    /// Asked more than once: it may have been granted before without knowing, and wait anew.
    again: bool,
}

impl WakeAnchor {
    /// The acquire is about to be sent. An anchor known by then predates any grant, but only the first time.
    pub(super) fn handle_asking(&mut self, known: Option<(Origin, Anchor)>) {
        if self.asked {
            (self.again, self.before) = (true, None);
        } else {
            (self.asked, self.before) = (true, known);
        }
    }

    /// The engine said that it waits: it was not granted before that.
    pub(super) fn handle_waiting(&mut self, origin: Origin, anchor: Anchor) {
        if !self.again {
            self.before = Some((origin, anchor));
        }
    }

    /// Returns the anchor for a wake-up of that origin that grants until `deadline_ms`; `newest` is the newest
    /// anchor known now. With `None` the client has to ask how long the grant is good for.
    pub(super) fn anchor(
        &self,
        origin: Origin,
        newest: Option<(Origin, Anchor)>,
        deadline_ms: u64,
    ) -> Option<Anchor> {
        let of_origin = |known: Option<(Origin, Anchor)>| {
            known.filter(|(of, _)| *of == origin).map(|(_, anchor)| anchor)
        };
        let both = [of_origin(self.before)?, of_origin(newest)?];
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
    fn judged_by(wake_anchor: &WakeAnchor, newest: Anchor) -> Option<Anchor> {
        wake_anchor.anchor(HERE, Some((HERE, newest)), 5_000)
    }

    fn waiting_since(sent_us: u64, engine_ms: u64) -> WakeAnchor {
        let mut wake_anchor = WakeAnchor::default();
        wake_anchor.handle_asking(None);
        wake_anchor.handle_waiting(HERE, at(sent_us, engine_ms));
        wake_anchor
    }

    #[test]
    fn what_was_known_before_it_asked_counts_until_it_is_known_to_wait() {
        let mut wake_anchor = WakeAnchor::default();
        let newest = at(9_000, 1_000);
        assert_eq!(judged_by(&wake_anchor, newest), None);
        wake_anchor.handle_asking(Some((HERE, at(1_000, 1_000))));
        assert_eq!(
            judged_by(&wake_anchor, newest),
            Some(at(1_000, 1_000)),
            "a wake-up before the reply"
        );
        wake_anchor.handle_waiting(HERE, at(2_000, 1_000));
        assert_eq!(judged_by(&wake_anchor, newest), Some(at(2_000, 1_000)));
    }

    #[test]
    fn a_clock_that_was_set_back_since_makes_no_grant_longer() {
        let wake_anchor = waiting_since(1_000_000, 4_000);
        // Two seconds later its clock shows one less.
        assert_eq!(judged_by(&wake_anchor, at(3_000_000, 3_000)), Some(at(1_000_000, 4_000)));
    }

    #[test]
    fn a_clock_that_was_set_forward_before_makes_no_grant_longer() {
        let wake_anchor = waiting_since(1_000_000, 1_000);
        assert_eq!(judged_by(&wake_anchor, at(2_000_000, 4_000)), Some(at(2_000_000, 4_000)));
    }

    #[test]
    fn another_run_or_connection_is_another_clock() {
        let (wake_anchor, elsewhere) = (waiting_since(1, 1), Origin { epoch: 2, ..HERE });
        assert_eq!(wake_anchor.anchor(elsewhere, Some((elsewhere, at(2, 2))), 5_000), None);
        assert_eq!(wake_anchor.anchor(HERE, Some((elsewhere, at(2, 2))), 5_000), None);
        assert_eq!(wake_anchor.anchor(HERE, None, 5_000), None);
    }

    #[test]
    fn who_asks_again_may_have_been_granted_before() {
        let mut wake_anchor = waiting_since(1, 1);
        wake_anchor.handle_asking(Some((HERE, at(3, 3))));
        assert_eq!(judged_by(&wake_anchor, at(4, 4)), None);
        wake_anchor.handle_waiting(HERE, at(4, 4));
        assert_eq!(
            judged_by(&wake_anchor, at(4, 4)),
            None,
            "an old wake-up may still be under way"
        );
    }
}
