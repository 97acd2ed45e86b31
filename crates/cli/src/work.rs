//! What the store remembers of work that must be done once, in words.

use std::time::Duration;

use taketurns::{Completion, HolderView, View, WorkView};

use crate::output::{count, duration, utc};

/// `done by web-2:2051 backup.sh (nightly) at 2026-11-16 02:31:07 UTC, with the result "314 files"`
pub(crate) fn done(done: &Completion) -> String {
    let result = match done.result.as_str() {
        "" => String::new(),
        result => format!(", with the result {result:?}"),
    };
    format!("done by {} at {}{result}", done.by, utc(done.at_ms))
}

/// What became of the attempts: `done by …; forgotten in 21h04m`, or `3 attempts failed; the next one can begin in 4m10s`.
pub(crate) fn state(work: &WorkView) -> String {
    let attempts = count(work.failed as usize, "attempt");
    let became = match &work.done {
        Some(done) if work.failed > 0 => {
            format!("{}, after {attempts} that failed", self::done(done))
        }
        Some(done) => self::done(done),
        None => format!("{attempts} failed"),
    };
    match work.retry_in {
        Some(left) => format!("{became}; the next one can begin in {}", duration(left)),
        None => format!("{became}; forgotten in {}", duration(work.forgotten_in)),
    }
}

/// What stands in place of a holder: `nobody`, or `done by web-2:2051 backup.sh (nightly), 3h02m ago`.
pub(crate) fn in_place_of_holder(view: &View) -> String {
    let done = view.work.as_ref().and_then(|work| work.done.as_ref());
    match done.zip(done_ago(view)) {
        Some((done, ago)) => format!("done by {}, {} ago", done.by, duration(ago)),
        None => "nobody".to_owned(),
    }
}

/// Attempts that failed, of work that is not done: `2 failed`, or `2 failed, paused 4m10s`.
pub(crate) fn failures(view: &View) -> Option<String> {
    let work = view.work.as_ref().filter(|work| work.failed > 0 && work.done.is_none())?;
    let paused = work.retry_in.map(|left| format!(", paused {}", duration(left)));
    Some(format!("{} failed{}", work.failed, paused.unwrap_or_default()))
}

/// Why nobody holds work at which attempts failed: `2 attempts failed, and the next one can begin in 4m10s`.
pub(crate) fn pause(view: &View) -> Option<String> {
    let work = view.work.as_ref().filter(|work| work.failed > 0 && work.done.is_none())?;
    let next = match work.retry_in {
        Some(left) => format!("the next one can begin in {}", duration(left)),
        None => "the pause after the last one is not over".to_owned(),
    };
    Some(format!("{} failed, and {next}", count(work.failed as usize, "attempt")))
}

/// The mark of a holder that is gone, and whose lock nobody gets before its `--at-least` is over.
pub(crate) fn rest(holder: &HolderView) -> Option<String> {
    let left = holder.at_least_left.filter(|_| holder.resting)?;
    Some(format!("ended, not free for {}", duration(left)))
}

/// How long ago it was done, by the store's clock.
pub(crate) fn done_ago(view: &View) -> Option<Duration> {
    let work = view.work.as_ref()?;
    let done = work.done.as_ref()?;
    let remembered = Duration::from_millis(done.until_ms.saturating_sub(done.at_ms));
    Some(remembered.saturating_sub(work.forgotten_in))
}

#[cfg(test)]
mod tests {
    use taketurns::{Note, Token};

    use super::*;
    use crate::watch::tests::{done as done_view, failed, held};

    fn changed(mut view: View, change: impl FnOnce(&mut WorkView)) -> View {
        change(view.work.as_mut().expect("work"));
        view
    }

    #[test]
    fn work_that_is_done_says_by_whom_when_and_with_what_result() {
        let view = changed(done_view(70), |work| {
            work.failed = 1;
            work.done.as_mut().expect("done").result = Note::new("3 files").expect("a note");
        });
        let work = view.work.as_ref().expect("work");
        let done =
            "done by host:1 sh (nightly) at 2026-11-16 02:31:07 UTC, with the result \"3 files\"";
        assert_eq!(super::done(work.done.as_ref().expect("done")), done);
        assert_eq!(state(work), format!("{done}, after 1 attempt that failed; forgotten in 30s"));
        let row = "done by host:1 sh (nightly), 1m10s ago";
        assert_eq!((in_place_of_holder(&view), failures(&view)), (row.to_owned(), None));
        assert_eq!(work.done.as_ref().map(|done| done.token), Some(Token::from_raw(7)));
    }

    #[test]
    fn failed_attempts_are_counted_and_a_pause_is_told() {
        let (idle, pausing) =
            (failed(2), changed(failed(2), |work| work.retry_in = Some(Duration::from_secs(250))));
        let said = |view: &View| {
            (
                state(view.work.as_ref().expect("work")),
                failures(view).unwrap(),
                pause(view).unwrap(),
            )
        };
        let (state, mark, why) = said(&idle);
        assert_eq!(
            (state.as_str(), mark.as_str()),
            ("2 attempts failed; forgotten in 9s", "2 failed")
        );
        assert_eq!(why, "2 attempts failed, and the pause after the last one is not over");
        let (state, mark, why) = said(&pausing);
        assert_eq!(state, "2 attempts failed; the next one can begin in 4m10s");
        assert_eq!(
            (mark.as_str(), why.as_str()),
            ("2 failed, paused 4m10s", "2 attempts failed, and the next one can begin in 4m10s")
        );
        assert_eq!(in_place_of_holder(&idle), "nobody");
    }

    #[test]
    fn a_holder_that_is_gone_is_marked_only_while_it_rests() {
        let mut holder = held(1, 500).holders.remove(0);
        holder.at_least_left = Some(Duration::from_secs(45));
        assert_eq!(rest(&holder), None, "it is still there");
        holder.resting = true;
        assert_eq!(rest(&holder).as_deref(), Some("ended, not free for 45s"));
    }
}
