//! When to look next. At most one look is under way.

use std::time::{Duration, Instant};

use crate::watch::pace::Pace;

/// The looks of one kind.
#[derive(Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    due: Instant,
    began: Option<Instant>,
}

impl Schedule {
    /// The first look is due at once.
    pub(crate) fn new(every: Duration, now: Instant) -> Self {
        Self { pace: Pace::new(every), due: now, began: None }
    }

    /// What is kept to at present.
    pub(crate) fn interval(&self) -> Duration {
        self.pace.interval()
    }

    /// When to begin, unless a look is under way.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.began.is_none().then_some(self.due)
    }

    /// A look begins now, if one is due.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let begins = self.due().is_some_and(|due| due <= now);
        if begins {
            self.began = Some(now);
        }
        begins
    }

    /// The look is over.
    pub(crate) fn end(&mut self, now: Instant, went_well: bool) {
        let Some(began) = self.began.take() else { return };
        self.due = now + self.pace.rest(now - began, went_well);
    }

    /// Somebody wants to see it now, or as soon as what is under way is done.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.due = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn looks_begin_a_second_apart_and_further_apart_when_they_take_long() {
        let now = Instant::now();
        let mut looks = Schedule::new(SECOND, now);
        assert!(looks.begin(now) && !looks.begin(now), "one at a time");
        assert_eq!(looks.due(), None);
        looks.end(now + 10 * MS, true);
        assert_eq!((looks.due(), looks.interval()), (Some(now + SECOND), SECOND));
        assert!(!looks.begin(now + 999 * MS) && looks.begin(now + SECOND));
        looks.end(now + SECOND + 200 * MS, true);
        assert_eq!(looks.due(), Some(now + 2 * SECOND), "the first that does");
        looks.begin(now + 2 * SECOND);
        looks.end(now + 2 * SECOND + 200 * MS, true);
        assert_eq!((looks.due(), looks.interval()), (Some(now + 4 * SECOND), 2 * SECOND));
    }

    #[test]
    fn a_look_that_failed_is_made_again_soon_however_long_it_took() {
        let now = Instant::now();
        let mut looks = Schedule::new(SECOND, now);
        looks.begin(now);
        looks.end(now + 5 * SECOND, false);
        assert_eq!((looks.due(), looks.interval()), (Some(now + 6 * SECOND), SECOND));
    }

    #[test]
    fn a_poll_on_request_is_due_now() {
        let now = Instant::now();
        let mut looks = Schedule::new(SECOND, now);
        looks.begin(now);
        looks.end(now, true);
        looks.hurry(now + MS);
        assert!(looks.begin(now + MS));
    }
}
