//! One lock: its holders, and its queue in order.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use taketurns::{HolderView, View, WaiterView};

use super::super::details::{Entry, LockDetails};
use super::super::row::{Row, kind};
use super::{BAD, BUSY, FAINT, HALTED, HEADING, STRONG};
use crate::output::{count, duration};
use crate::text::{CutSide, bars, cut, fit, width};
use crate::work;

/// `any member`, `3/4 permits`: longer ones are cut.
const WANTS: usize = 12;
/// Tokens have 16 digits.
const TOKEN: usize = 16;
const TIME: usize = 6;
const PLACE: usize = 5;

/// So much of the first line is for how many waited in the last looks.
const BARS: usize = 24;

pub(super) fn draw(frame: &mut Frame<'_>, open: &LockDetails, area: Rect) {
    let (entries, before, after) = open.visible();
    for (entry, place) in entries.into_iter().zip(area.rows()) {
        frame.render_widget(line(&open.row, entry, area.width.into()), place);
    }
    for (hidden, arrow, place) in
        [(before, "↑", area.rows().next()), (after, "↓", area.rows().next_back())]
    {
        if let Some(place) = place.filter(|_| hidden > 0) {
            let more = format!(" {arrow} {hidden} more ");
            let room = place.width.saturating_sub(width(&more) as u16);
            let place = Rect { x: place.x + room, width: place.width - room, ..place };
            frame.render_widget(Span::styled(more, STRONG), place);
        }
    }
}

/// The lock's name, what it is, and how its queue went.
pub(super) fn title(open: &LockDetails, columns: usize) -> Line<'static> {
    let view = &open.row.view;
    let waiting = format!(", {} waiting ", view.waiting);
    let mut about = format!("  {}", kind(view));
    if let Some(token) = view.last_token {
        about += &format!(", last token {token}");
    }
    let history: Vec<usize> = open.history.iter().copied().collect();
    let bars = bars(&history, BARS.min(columns / 4));
    let rest = width(&about) + width(&waiting) + width(&bars) + 1;
    let name = cut(open.row.name.as_str(), columns.saturating_sub(rest).max(8), CutSide::Middle);
    Line::from_iter([
        Span::styled(format!(" {name}"), STRONG),
        Span::styled(about, FAINT),
        Span::styled(waiting, if view.waiting > 0 { BUSY } else { FAINT }),
        Span::styled(bars, BUSY),
    ])
}

fn line(row: &Row, entry: Entry<'_>, columns: usize) -> Line<'static> {
    match entry {
        Entry::Blank => Line::default(),
        Entry::Work(work) => Line::raw(cut(&work::state(work), columns, CutSide::End)),
        Entry::Holders if row.view.holders.is_empty() => Line::styled("nobody holds it", FAINT),
        Entry::Holders => Line::styled(
            fit(
                &format!(
                    "{:WANTS$} {:>TOKEN$} {:>TIME$} {:>TIME$}  HOLDER",
                    "HAS", "TOKEN", "HELD", "LEFT"
                ),
                columns,
                CutSide::End,
            ),
            HEADING,
        ),
        Entry::Holder(holder) => self::holder(row, holder, columns),
        Entry::Members => Line::styled(cut(&members(&row.view), columns, CutSide::End), FAINT),
        Entry::Waiters => waiters(&row.view, columns),
        Entry::Waiter(place, waiter) => self::waiter(place, waiter, columns),
        Entry::More(more) => Line::styled(format!("{:>PLACE$} and {more} more", ""), FAINT),
    }
}

fn holder(row: &Row, holder: &HolderView, columns: usize) -> Line<'static> {
    let has = holder.member.as_ref().map_or_else(|| holder.ask.to_string(), |m| m.to_string());
    let token = holder.token.map_or("none".to_owned(), |token| token.to_string());
    let (held, left) = (duration(holder.held_for), duration(holder.left));
    let broken = if holder.revoked { "broken " } else { "" };
    let rest = work::rest(holder).map_or(String::new(), |rest| rest + ": ");
    let room = columns.saturating_sub(WANTS + TOKEN + 2 * TIME + 5 + broken.len() + rest.len());
    let late = if row.is_late_of(holder) { BAD } else { Default::default() };
    Line::from_iter([
        Span::raw(format!("{} {token:>TOKEN$} {held:>TIME$} ", fit(&has, WANTS, CutSide::Middle))),
        Span::styled(format!("{left:>TIME$}  "), late),
        Span::styled(broken, BAD),
        Span::styled(rest, BUSY),
        Span::raw(cut(&holder.label.to_string(), room, CutSide::End)),
    ])
}

/// Which are free, which is what somebody who waits wants to know.
fn members(view: &View) -> String {
    let free: Vec<&str> = view
        .members
        .iter()
        .filter(|member| !member.held)
        .map(|member| member.name.as_str())
        .collect();
    match (view.members.len(), free.is_empty()) {
        (0, _) => "no members; `taketurns pool add` adds some".to_owned(),
        (members, true) => format!("{}, none free", count(members, "member")),
        _ => format!("free: {}", free.join(", ")),
    }
}

/// The queue's heading, or that there is none.
fn waiters(view: &View, columns: usize) -> Line<'static> {
    if let Some(left) = view.quarantine_left {
        let why = "the store was restarted or failed over: nothing is granted";
        return Line::styled(
            cut(&format!("{why} for {}", duration(left)), columns, CutSide::End),
            HALTED,
        );
    }
    if view.waiting == 0 {
        return Line::styled("nobody waits", FAINT);
    }
    let heading = format!("{:>PLACE$} {:WANTS$} {:>TIME$}  WAITER", "PLACE", "WANTS", "WAITED");
    Line::styled(fit(&heading, columns, CutSide::End), HEADING)
}

fn waiter(place: usize, waiter: &WaiterView, columns: usize) -> Line<'static> {
    let waited = duration(waiter.waited_for);
    let wants = fit(&waiter.ask.to_string(), WANTS, CutSide::Middle);
    let room = columns.saturating_sub(PLACE + WANTS + TIME + 4);
    let label = cut(&waiter.label.to_string(), room, CutSide::End);
    Line::raw(format!("{place:>PLACE$} {wants} {waited:>TIME$}  {label}"))
}
