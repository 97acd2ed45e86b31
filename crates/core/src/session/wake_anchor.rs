//! Chooses the [`Anchor`] that turns a wake-up's deadline into local time.
//!
//! A wake-up names a deadline on the engine's clock. How long the wake-up was under way can't be known, and
//! the engine's clock may have been set back meanwhile: a later anchor would then make the grant too long,
//! and two clients would hold. An anchor older than the grant can only make it shorter then; but it would
//! make it too long if the clock was set forward before the grant, where the newest anchor makes it shorter.
//! So both are used, and the shorter result counts.
//!
//! An answer needs none of this, unless it tells of a grant that was made elsewhere: by the server that a
//! replica has replaced, with another clock. That server may have ended the grant by its own clock and granted
//! the lock to another, and the replica have missed it. So the clocks of the servers before count too.

use super::{Anchor, Origin};

/// How many earlier servers and connections an acquire remembers the clocks of.
const EARLIER_MAX: usize = 8;

/// What one acquire knows of the engine's clocks before it can have been granted.
#[derive(Clone, Debug, Default)]
pub(super) struct WakeAnchor {
    before: Option<(Origin, Anchor)>,
    asked: bool,
    /// Asked more than once: it may have been granted before without knowing, and wait anew.
    again: bool,
    /// The last origin that is known not to have found it granted already: whatever it is granted there was
    /// granted there.
    home: Option<Origin>,
    /// The last origin at which it asked or waited, and the newest anchor there.
    latest: Option<(Origin, Anchor)>,
    /// The same of origins before it. Most acquires know one, and need no memory for this.
    earlier: Vec<(Origin, Anchor)>,
}

impl WakeAnchor {
    /// The acquire is about to be sent. An anchor known by then predates any grant, but only the first time.
    pub(super) fn handle_asking(&mut self, known: Option<(Origin, Anchor)>) {
        if let Some((origin, anchor)) = known {
            self.note_clock(origin, anchor);
        }
        if self.asked {
            (self.again, self.before) = (true, None);
        } else {
            (self.asked, self.before) = (true, known);
        }
    }

    /// The engine said that it waits: it was not granted before that.
    pub(super) fn handle_waiting(&mut self, origin: Origin, anchor: Anchor) {
        self.note_clock(origin, anchor);
        self.home = Some(origin);
        if !self.again {
            self.before = Some((origin, anchor));
        }
    }

    /// A wake-up granted it the lock: it is sent when the grant is made. One of unknown origin says nothing of
    /// where that was.
    pub(super) fn handle_wake(&mut self, origin: Origin) {
        let is_old = |home: Origin| home.source == origin.source && home.epoch > origin.epoch;
        if origin != Origin::UNKNOWN && !self.home.is_some_and(is_old) {
            self.home = Some(origin);
        }
    }

    /// An acquire was answered that it is granted. The first one that was sent can't have been before.
    pub(super) fn handle_answered(&mut self, origin: Origin) {
        if !self.again {
            self.home = Some(origin);
        }
    }

    /// May a grant that this origin tells of have been made by another, which has perhaps ended it since?
    pub(super) fn is_from_elsewhere(&self, origin: Origin) -> bool {
        self.home != Some(origin) && self.elsewhere(origin).next().is_some()
    }

    /// What a grant until `deadline_ms` has to be judged by, if an answer of that origin told of it: `told` is
    /// that answer's own anchor.
    pub(super) fn shortest(&self, origin: Origin, told: Anchor, deadline_ms: u64) -> Anchor {
        let elsewhere = self.elsewhere(origin).filter(|_| self.is_from_elsewhere(origin));
        elsewhere.fold(told, |shortest, anchor| {
            let [one, other] = [shortest, anchor].map(|anchor| anchor.valid_until_us(deadline_ms));
            if other < one { anchor } else { shortest }
        })
    }

    fn elsewhere(&self, origin: Origin) -> impl Iterator<Item = Anchor> {
        let clocks = self.latest.iter().chain(&self.earlier);
        clocks.filter(move |(of, _)| *of != origin).map(|(_, anchor)| *anchor)
    }

    fn note_clock(&mut self, origin: Origin, anchor: Anchor) {
        let mut clocks = self.latest.iter_mut().chain(&mut self.earlier);
        if let Some((_, newest)) = clocks.find(|(of, _)| *of == origin) {
            if newest.sent_us < anchor.sent_us {
                *newest = anchor;
            }
            return;
        }
        if let Some(latest) = self.latest.replace((origin, anchor)) {
            if self.earlier.len() == EARLIER_MAX {
                self.earlier.remove(0);
            }
            self.earlier.push(latest);
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

    const REPLICA: Origin = Origin { epoch: 2, ..HERE };

    #[test]
    fn a_grant_of_the_server_before_is_judged_by_its_clock_too() {
        let mut wake_anchor = waiting_since(1_000_000, 2_000);
        // The replica's clock shows a second less.
        let told = at(3_000_000, 3_000);
        assert!(wake_anchor.is_from_elsewhere(REPLICA));
        assert_eq!(wake_anchor.shortest(REPLICA, told, 5_000), at(1_000_000, 2_000));
        assert_eq!(wake_anchor.shortest(HERE, told, 5_000), told, "what it was granted here");
        wake_anchor.handle_waiting(REPLICA, told);
        assert!(!wake_anchor.is_from_elsewhere(REPLICA));
        assert_eq!(wake_anchor.shortest(REPLICA, told, 5_000), told, "it waited there first");
        let next = Origin { epoch: 3, ..HERE };
        let told = at(4_000_000, 3_500);
        assert_eq!(
            wake_anchor.shortest(next, told, 5_000),
            at(1_000_000, 2_000),
            "the shortest of all"
        );
    }

    #[test]
    fn what_the_first_request_or_a_wake_up_is_granted_is_granted_there() {
        let mut wake_anchor = WakeAnchor::default();
        wake_anchor.handle_asking(Some((HERE, at(1, 1))));
        wake_anchor.handle_answered(REPLICA);
        assert!(!wake_anchor.is_from_elsewhere(REPLICA));
        let mut wake_anchor = waiting_since(1, 1);
        wake_anchor.handle_asking(None);
        wake_anchor.handle_answered(REPLICA);
        assert!(wake_anchor.is_from_elsewhere(REPLICA), "the second may have been granted before");
        wake_anchor.handle_wake(REPLICA);
        wake_anchor.handle_wake(HERE);
        assert!(!wake_anchor.is_from_elsewhere(REPLICA), "an old wake-up changes nothing");
    }

    #[test]
    fn a_wake_up_of_unknown_origin_does_not_move_it_elsewhere() {
        let mut wake_anchor = waiting_since(1, 1);
        wake_anchor.handle_waiting(REPLICA, at(2, 2));
        wake_anchor.handle_wake(Origin::UNKNOWN);
        assert!(!wake_anchor.is_from_elsewhere(REPLICA));
    }

    #[test]
    fn only_so_many_servers_are_remembered() {
        let mut wake_anchor = waiting_since(0, 0);
        for epoch in 2..100 {
            wake_anchor.handle_waiting(Origin { epoch, ..HERE }, at(epoch, epoch));
        }
        assert_eq!(wake_anchor.earlier.len(), EARLIER_MAX);
        assert_eq!(wake_anchor.latest.map(|(origin, _)| origin.epoch), Some(99));
    }
}
