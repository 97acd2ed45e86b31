//! The two lines on top: which store, how old the picture is, and what is in it.

use std::time::Instant;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::app::{App, StoreTrouble};
use super::super::order;
use super::{BAD, BUSY, FAINT, HALTED, STRONG, TITLE};
use crate::output::{count, duration};
use crate::text::{CutSide, cut, fit, width};

const NAME: &str = " taketurns top  ";

/// The store at the left, the state of the picture at the right.
pub(super) fn title(app: &App, now: Instant, columns: u16) -> Line<'static> {
    let (state, style) = state(app, now);
    let state = format!(" {state} ");
    let room = usize::from(columns).saturating_sub(NAME.len() + width(&state));
    let line = [
        Span::styled(NAME, TITLE.add_modifier(Modifier::BOLD)),
        Span::styled(fit(&app.store, room, CutSide::Middle), TITLE),
        Span::styled(state, style),
    ];
    Line::from_iter(line)
}

fn state(app: &App, now: Instant) -> (String, Style) {
    let Some(seen) = app.seen() else {
        return match &app.trouble {
            Some(trouble) => (unreachable_for(now - trouble.since), loud(BAD)),
            None => ("looking …".to_owned(), TITLE),
        };
    };
    let old = format!("{}s old", (now - seen).as_secs());
    match &app.trouble {
        Some(trouble) => (format!("{}, {old}", unreachable_for(now - trouble.since)), loud(BAD)),
        None if app.paused => (format!("PAUSED, {old}"), loud(BUSY)),
        None => {
            let stretched = if app.interval > app.every { " (slow looks)" } else { "" };
            (format!("{old}, every {}{stretched}", precise(app.interval)), TITLE)
        }
    }
}

fn unreachable_for(time: std::time::Duration) -> String {
    format!("UNREACHABLE for {}", duration(time))
}

/// Half a second is no 0.5 of nothing: below ten seconds the tenths matter.
fn precise(interval: std::time::Duration) -> String {
    let tenths = interval.as_millis() / 100;
    match (tenths / 10, tenths % 10) {
        (secs, tenths) if secs < 10 && tenths > 0 => format!("{secs}.{tenths}s"),
        _ => duration(interval.max(std::time::Duration::from_secs(1))),
    }
}

/// Not to be overlooked.
fn loud(style: Style) -> Style {
    style.add_modifier(Modifier::REVERSED.union(Modifier::BOLD))
}

/// Why nothing can be seen.
pub(super) fn why(trouble: &StoreTrouble, columns: u16) -> Line<'static> {
    Line::styled(cut(&format!(" {}", trouble.why), columns.into(), CutSide::End), BAD)
}

/// How many of what there are, in which order.
pub(super) fn sums(app: &App, columns: u16) -> Line<'static> {
    let sums = app.list.sums();
    let mut spans = vec![
        Span::styled(format!(" {}", count(sums.locks, "lock")), STRONG),
        Span::raw(format!(", {} held, ", sums.held)),
        Span::styled(
            format!("{} waiting", sums.waiting),
            if sums.waiting > 0 { BUSY } else { Style::new() },
        ),
    ];
    if let Some(left) = sums.quarantine_left {
        spans.push(Span::styled(format!("  QUARANTINE {}", duration(left)), HALTED));
    }
    spans.push(Span::styled(format!("  {}", order::says(app.list.sort)), FAINT));
    if !app.list.filter.is_empty() {
        let shown = app.list.matching();
        spans.push(Span::styled(format!("  {shown} with "), FAINT));
        let room = usize::from(columns).saturating_sub(spans.iter().map(Span::width).sum());
        spans.push(Span::styled(cut(&app.list.filter, room, CutSide::Middle), STRONG));
    }
    Line::from_iter(spans)
}
