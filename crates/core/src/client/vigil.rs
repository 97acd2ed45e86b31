//! Keeping watch over the places that a client has in one lock's queue: when to refresh them, and
//! when to ask whether the holder's lease has run out.

use super::Anchor;

/// Between two places in the queue that ask again at the holder's deadline, so that they do not all
/// ask at once: the first is the one that matters.
const STAGGER_US: u64 = 5_000;

/// The schedule of one client's refreshes of one lock. While all is well a waiting client sends
/// nothing else.
#[derive(Clone, Debug)]
pub struct Vigil {
    third_us: u64,
    refresh_at_us: u64,
    recheck_at_us: Option<u64>,
    /// Since when something may have been missed that no refresh sent since can have told of.
    doubt_since_us: Option<u64>,
}

impl Vigil {
    /// Starts with a request that was answered, or is about to be sent, at `now_us`.
    pub fn new(now_us: u64, waiter_lease_ms: u64) -> Self {
        let third_us = waiter_lease_ms.saturating_mul(1_000) / 3;
        let refresh_at_us = now_us.saturating_add(third_us);
        Self { third_us, refresh_at_us, recheck_at_us: None, doubt_since_us: None }
    }

    /// When the next refresh is due.
    pub fn due_us(&self) -> u64 {
        let sooner = [self.recheck_at_us, self.doubt_since_us].into_iter().flatten();
        sooner.fold(self.refresh_at_us, u64::min)
    }

    /// A refresh is sent now; the next is due a third of the waiter lease later, whether or not this
    /// one is answered.
    pub fn handle_sent(&mut self, now_us: u64) {
        self.handle_placed(now_us);
        self.doubt_since_us = None;
    }

    /// A request sent at `now_us` has given the first place. What was missed while it was under way is
    /// still in doubt.
    pub fn handle_placed(&mut self, now_us: u64) {
        self.refresh_at_us = now_us.saturating_add(self.third_us);
        self.recheck_at_us = None;
    }

    /// The engine said when the next holder's lease ends. `ahead` of the client's foremost place
    /// staggers the question, by at most one refresh.
    pub fn handle_recheck(
        &mut self,
        now_us: u64,
        anchor: Anchor,
        recheck_ms: Option<u64>,
        ahead: u64,
    ) {
        self.recheck_at_us = recheck_ms.map(|recheck_ms| {
            let stagger_us = ahead.saturating_mul(STAGGER_US).min(self.third_us);
            anchor.surely_passed_us(now_us, recheck_ms).saturating_add(stagger_us)
        });
    }

    /// Something may have been missed (a connection was lost): ask now.
    pub fn handle_doubt(&mut self, now_us: u64) {
        self.doubt_since_us = Some(now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Anchor = Anchor { sent_us: 0, engine_ms: 100 };

    #[test]
    fn a_place_is_refreshed_at_a_third_of_its_lease() {
        let mut vigil = Vigil::new(1_000, 3_000);
        assert_eq!(vigil.due_us(), 1_001_000);
        vigil.handle_sent(1_200_000);
        assert_eq!(vigil.due_us(), 2_200_000);
    }

    #[test]
    fn the_holders_deadline_is_asked_about_once_it_has_passed() {
        let mut vigil = Vigil::new(0, 3_000);
        vigil.handle_recheck(0, ANCHOR, Some(300), 0);
        assert_eq!(vigil.due_us(), 200_000 + 2_000 + 2_000);
        vigil.handle_recheck(0, ANCHOR, Some(60_000), 0);
        assert_eq!(vigil.due_us(), 1_000_000, "a far deadline is left to the refresh");
        vigil.handle_recheck(0, ANCHOR, None, 0);
        assert_eq!(vigil.due_us(), 1_000_000);
    }

    #[test]
    fn what_is_missed_while_a_request_is_under_way_stays_in_doubt() {
        let mut vigil = Vigil::new(0, 3_000);
        vigil.handle_sent(10);
        vigil.handle_doubt(20);
        vigil.handle_recheck(30, ANCHOR, Some(60_000), 0);
        assert_eq!(vigil.due_us(), 20, "its answer may be older");
        vigil.handle_placed(10);
        assert_eq!(vigil.due_us(), 20);
        vigil.handle_sent(40);
        assert_eq!(vigil.due_us(), 1_000_040);
    }

    #[test]
    fn those_behind_ask_later_but_not_by_more_than_a_refresh() {
        let due = |ahead| {
            let mut vigil = Vigil::new(0, 30_000);
            vigil.handle_recheck(0, ANCHOR, Some(100), ahead);
            vigil.due_us()
        };
        assert_eq!(due(3) - due(0), 15_000);
        assert_eq!(due(u64::MAX), 10_000_000);
    }

    #[test]
    fn doubt_asks_at_once_and_a_refresh_answers_it() {
        let mut vigil = Vigil::new(0, 3_000);
        vigil.handle_doubt(7);
        assert_eq!(vigil.due_us(), 7);
        vigil.handle_sent(8);
        assert_eq!(vigil.due_us(), 1_000_008);
    }
}
