//! The line on stderr that says whom a lock is waited for, and at which place.
//!
//! At a terminal it is kept current and is gone when the wait is over. Elsewhere it would fill a log
//! with news that is old the next moment, so it is said once, and only if asked for.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use taketurns::{ClientId, Kind, Locks, Name, View};
use tokio::time::sleep;

use crate::exit;
use crate::output::{count, duration, ordinal};
use crate::text;
use crate::work;

/// A wait shorter than this is not worth a word.
const FIRST_AFTER: Duration = Duration::from_millis(250);
const EVERY: Duration = Duration::from_millis(500);

/// Is the line kept current where we are?
pub(crate) fn is_drawn() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && io::IsTerminal::is_terminal(&io::stderr())
}

/// Keeps the user informed for as long as it is polled. What it has drawn goes when it is dropped.
pub(crate) async fn keep_informed(locks: &Locks, name: &Name, verbose: bool) {
    let live = is_drawn();
    if !live && !verbose {
        return std::future::pending().await;
    }
    let line = StatusLine;
    sleep(FIRST_AFTER).await;
    loop {
        let text = match locks.inspect(name.as_str()).await {
            Ok(view) => describe(name, view.as_ref(), locks.client_id()),
            Err(_) => format!("waiting for {name}: the store can't be reached just now"),
        };
        if live {
            line.draw(&text);
        } else {
            exit::say(text);
            return std::future::pending().await;
        }
        sleep(EVERY).await;
    }
}

/// The line that says that the store is loading its data. It goes when it is dropped.
pub(crate) struct LoadingLine {
    line: StatusLine,
    /// It is still to be said where there is no terminal: once is enough for a log.
    aloud: bool,
}

impl LoadingLine {
    /// One that is drawn at a terminal, and elsewhere said once if `aloud`.
    pub(crate) fn new(aloud: bool) -> Self {
        Self { line: StatusLine, aloud }
    }

    pub(crate) fn tell(&mut self, why: &str) {
        let text = format!("waiting for the store: {why}");
        if is_drawn() {
            self.line.draw(&text);
        } else if std::mem::take(&mut self.aloud) {
            exit::say(text);
        }
    }
}

/// Why a lock was not granted: `is held by web1:4242 rsync (nightly) for 12s`.
pub(crate) fn state(view: &View) -> String {
    match holders(view) {
        Some(held) => format!("is held {held}"),
        None if has_no_members(view) => "is a pool without members".to_owned(),
        None => match work::pause(view) {
            Some(pause) => format!("is not held, but {pause}"),
            None => "was held a moment ago".to_owned(),
        },
    }
}

/// `by web1:4242 rsync (nightly) for 12s and 2 others`
fn holders(view: &View) -> Option<String> {
    let (holder, others) = view.holders.split_first()?;
    let rest = work::rest(holder).map_or(String::new(), |rest| format!(" [{rest}]"));
    let held = format!("by {} for {}{rest}", holder.label, duration(holder.held_for));
    Some(match others.len() {
        0 => held,
        others => format!("{held} and {}", count(others, "other")),
    })
}

fn has_no_members(view: &View) -> bool {
    view.kind == Kind::Pool && view.members.is_empty()
}

/// `waiting for backup: held by web1:4242 rsync (nightly) for 12s, you are 3rd in line`
fn describe(name: &Name, view: Option<&View>, me: ClientId) -> String {
    let Some(view) = view else { return format!("waiting for {name}") };
    let held = match holders(view) {
        Some(held) => format!("held {held}"),
        None if has_no_members(view) => "the pool has no members".to_owned(),
        None if view.quarantine_left.is_some() => String::new(),
        None => work::pause(view).unwrap_or_else(|| "held by nobody just now".to_owned()),
    };
    let paused = view.quarantine_left.map(|left| {
        let comma = if held.is_empty() { "" } else { ", " };
        format!("{comma}in quarantine for {} (store restarted or failed over)", duration(left))
    });
    let paused = paused.unwrap_or_default();
    let place = match view.waiters.iter().position(|waiter| waiter.client == me) {
        Some(ahead) => format!(", you are {} in line", ordinal(ahead + 1)),
        None if view.waiting > view.waiters.len() => {
            format!(", you are behind the first {} in line", view.waiters.len())
        }
        None => String::new(),
    };
    format!("waiting for {name}: {held}{paused}{place}")
}

/// There is a line on the terminal, which whatever else is said would be appended to.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Takes the line away, if there is one, to make room for something that stays.
pub(crate) fn make_room() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// One line of the terminal, drawn over and over.
struct StatusLine;

impl StatusLine {
    fn draw(&self, text: &str) {
        // A background job must not write over what is in front.
        if tcgetpgrp(io::stderr()).ok() != Some(getpgrp()) {
            return;
        }
        // A terminal that nobody has told its size says 0.
        let columns = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { 80 } else { columns.max(20) };
        let text = cut(&text::escaped(text), columns - 1);
        // Without wrapping, so that a wide character can't push the line into the next one, which
        // would not be cleared.
        let _ = write!(io::stderr(), "\r\x1b[K\x1b[?7l{text}\x1b[?7h");
        DRAWN.store(true, Ordering::Relaxed);
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        make_room();
    }
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use taketurns::{Ask, HolderView, Label, WaiterView};

    use super::*;

    fn holder(who: &str, why: &str, held_ms: u64) -> HolderView {
        let label = Label::new(who, why).unwrap();
        let mut holder = HolderView::new(label, ClientId::from_bits(1), Ask::Mutex);
        holder.held_for = Duration::from_millis(held_ms);
        holder
    }

    fn view(holders: Vec<HolderView>, clients: &[u64]) -> View {
        let waiter = |&client| {
            let (label, client) = (Label::default(), ClientId::from_bits(client));
            WaiterView::new(label, client, Ask::Mutex, Duration::ZERO)
        };
        let mut view = View::default();
        view.holders = holders;
        view.waiting = clients.len();
        view.waiters = clients.iter().map(waiter).collect();
        view
    }

    fn said(view: &View) -> String {
        describe(&Name::new("backup").unwrap(), Some(view), ClientId::from_bits(9))
    }

    #[test]
    fn it_says_who_holds_it_since_when_and_where_we_stand() {
        let one = view(vec![holder("web1:4242 rsync", "nightly", 12_000)], &[4, 5, 9, 6]);
        assert_eq!(
            said(&one),
            "waiting for backup: held by web1:4242 rsync (nightly) for 12s, you are 3rd in line"
        );
        let three =
            view(vec![holder("a:1 x", "", 1_000), holder("b", "", 0), holder("c", "", 0)], &[9]);
        assert_eq!(
            said(&three),
            "waiting for backup: held by a:1 x for 1s and 2 others, you are 1st in line"
        );
    }

    #[test]
    fn it_does_not_guess_what_it_does_not_know() {
        let mut far = view(vec![], &[1, 2]);
        far.waiting = 700;
        assert_eq!(
            said(&far),
            "waiting for backup: held by nobody just now, you are behind the first 2 in line"
        );
        let name = Name::new("backup").unwrap();
        assert_eq!(describe(&name, None, ClientId::from_bits(9)), "waiting for backup");
    }

    #[test]
    fn it_says_that_nothing_is_granted_after_a_restart() {
        let mut view = view(vec![], &[9]);
        view.quarantine_left = Some(Duration::from_secs(57));
        let paused = "in quarantine for 57s (store restarted or failed over), you are 1st in line";
        assert_eq!(said(&view), format!("waiting for backup: {paused}"));
        view.holders = vec![holder("a:1 x", "", 1_000)];
        assert_eq!(said(&view), format!("waiting for backup: held by a:1 x for 1s, {paused}"));
    }

    #[test]
    fn a_line_is_cut_to_the_terminals_width() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
    }
}
