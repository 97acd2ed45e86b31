//! The table of locks.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use taketurns::View;

use super::super::app::App;
use super::super::row::{Row, kind};
use super::{BAD, BUSY, CHOSEN, FAINT, HALTED, HEADING, KEY};
use crate::output::duration;
use crate::text::{CutSide, cut, fit, width};
use crate::watch::order::Sort;
use crate::work;

const KIND: usize = 8;
const WAITING: usize = 7;
const TIME: usize = 6;
/// Two blanks after the name and before the holder, one between the others.
const GAPS: usize = 7;

/// Narrower than this, kind and lease are left out.
const ROOMY: u16 = 64;

/// The name's share, in per cent at most, of the width that it shares with the holder.
const NAME_PERCENT: usize = 45;

/// How wide the columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    name: usize,
    holder: usize,
    /// Are kind and lease there?
    roomy: bool,
}

impl Columns {
    /// For names of up to this width.
    fn new(columns: u16, widest: usize) -> Self {
        let roomy = columns >= ROOMY;
        let fixed = if roomy { KIND + WAITING + 2 * TIME + GAPS } else { WAITING + TIME + 5 };
        let rest = usize::from(columns).saturating_sub(fixed);
        let name = widest.max("LOCK".len()).min(rest * NAME_PERCENT / 100);
        Self { name, holder: rest - name, roomy }
    }

    fn line(&self, cells: [Span<'static>; 6]) -> Line<'static> {
        let [name, kind, waiting, held, left, holder] = cells;
        let gap = |blanks: &'static str| Span::raw(blanks);
        if self.roomy {
            let spans = [name, gap("  "), kind, gap(" "), waiting, gap(" "), held, gap(" "), left];
            return Line::from_iter(spans.into_iter().chain([gap("  "), holder]));
        }
        Line::from_iter([name, gap("  "), waiting, gap(" "), held, gap("  "), holder])
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let parts = [Constraint::Length(1), Constraint::Fill(1)];
    let [heading, body] = Layout::vertical(parts).areas(area);
    let lines = lines(app, area.width);
    frame.render_widget(lines.heading, heading);
    if lines.rows.is_empty() {
        let nothing = match app.seen() {
            None => "",
            Some(_) if app.list.filter.is_empty() => "no locks: nobody has used one for an hour",
            Some(_) => "no lock, holder or next waiter matches the filter",
        };
        frame.render_widget(Line::styled(format!(" {nothing}"), FAINT), body);
    }
    for ((line, chosen), place) in lines.rows.into_iter().zip(body.rows()) {
        frame.render_widget(line, place);
        if chosen {
            frame.buffer_mut().set_style(place, CHOSEN);
        }
    }
}

/// What is drawn.
pub(super) struct TableLines {
    heading: Line<'static>,
    /// And whether each is the chosen one.
    pub(super) rows: Vec<(Line<'static>, bool)>,
}

/// Only the rows that are on the screen.
pub(super) fn lines(app: &App, columns: u16) -> TableLines {
    let widest = app.list.visible().map(|(row, _)| width(row.name.as_str())).max();
    let columns = Columns::new(columns, widest.unwrap_or(0));
    // What the order goes by stands out.
    let titled = |text: String, sort: Option<Sort>| {
        Span::styled(text, if sort == Some(app.list.sort) { KEY } else { Style::new() })
    };
    let heading = columns.line([
        titled(format!("{:1$}", "LOCK", columns.name), Some(Sort::Name)),
        titled(format!("{:KIND$}", "KIND"), None),
        titled(format!("{:>WAITING$}", "WAITING"), Some(Sort::Waiting)),
        titled(format!("{:>TIME$}", "HELD"), Some(Sort::Held)),
        titled(format!("{:>TIME$}", "LEFT"), Some(Sort::Left)),
        titled(format!("{:1$}", "HOLDER", columns.holder), None),
    ]);
    let rows = app.list.visible().map(|(row, chosen)| (line(row, chosen, columns), chosen));
    TableLines { heading: heading.style(HEADING), rows: rows.collect() }
}

fn line(row: &Row, chosen: bool, columns: Columns) -> Line<'static> {
    let view = &row.view;
    let time = |span: Option<Duration>| span.map(duration).unwrap_or_default();
    // Where the row is coloured as a whole, colours of its own could not be read.
    let style = |is_so: bool, style: Style| if is_so && !chosen { style } else { Style::new() };
    let (waiting, held, left) = (view.waiting, time(row.held_for()), time(row.left()));
    let waiting = if waiting == 0 { "·".to_owned() } else { waiting.to_string() };
    let mut line = columns.line([
        Span::raw(fit(row.name.as_str(), columns.name, CutSide::Middle)),
        Span::styled(fit(&kind(view), KIND, CutSide::End), style(true, FAINT)),
        Span::styled(format!("{waiting:>WAITING$}"), style(view.waiting > 0, BUSY)),
        Span::raw(format!("{held:>TIME$}")),
        Span::styled(format!("{left:>TIME$}"), style(row.is_late(), BAD)),
        Span::raw(""),
    ]);
    let mut room = columns.holder;
    for (mark, is) in marks(row) {
        room = room.saturating_sub(width(&mark) + 1);
        line.push_span(Span::styled(mark, style(true, is)));
        line.push_span(Span::raw(" "));
    }
    line.push_span(Span::styled(holder(view, room), style(view.holders.is_empty(), FAINT)));
    if row.changed {
        line.style = line.style.add_modifier(Modifier::BOLD);
    }
    if view.holders.is_empty() && view.waiting == 0 && !chosen {
        line.style = line.style.patch(FAINT);
    }
    line
}

/// What is out of the ordinary, before the holder's name, which may be cut.
fn marks(row: &Row) -> Vec<(String, Style)> {
    let broken = row.is_broken().then(|| ("broken".to_owned(), BAD));
    let quarantine = row.view.quarantine_left;
    let quarantine = quarantine.map(|left| (format!("quarantine {}", duration(left)), HALTED));
    let failures = work::failures(&row.view).map(|failures| (failures, BAD));
    let rest = row.view.holders.first().and_then(work::rest).map(|rest| (rest, BUSY));
    broken.into_iter().chain(quarantine).chain(failures).chain(rest).collect()
}

/// The first holder, and how many others there are, which is never cut.
fn holder(view: &View, room: usize) -> String {
    let Some(first) = view.holders.first() else {
        return cut(&work::in_place_of_holder(view), room, CutSide::End);
    };
    let others = match view.holders.len() - 1 {
        0 => String::new(),
        others => format!(" +{others}"),
    };
    cut(&first.label.to_string(), room.saturating_sub(others.len()), CutSide::End) + &others
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::super::tests::scene::{held, lock};
    use super::*;

    #[test]
    fn names_get_what_they_need_and_holders_the_rest() {
        assert_eq!(Columns::new(80, 6), Columns { name: 6, holder: 40, roomy: true });
        assert_eq!(Columns::new(80, 500), Columns { name: 20, holder: 26, roomy: true });
        assert_eq!(Columns::new(120, 500), Columns { name: 38, holder: 48, roomy: true });
        assert_eq!(Columns::new(40, 500), Columns { name: 9, holder: 13, roomy: false });
        assert_eq!(Columns::new(3, 0), Columns { name: 0, holder: 0, roomy: false });
    }

    #[test]
    fn of_ten_thousand_locks_only_those_on_the_screen_are_formatted() {
        let mut app = App::new("file:x".to_owned(), Duration::from_secs(1));
        app.list.fit(20);
        let locks = (0..10_000).map(|at| lock(&format!("orders/{at}"), held("web1:7 sh", 12, 20)));
        app.see(locks.collect(), Instant::now());
        assert_eq!(lines(&app, 80).rows.len(), 20);
        assert_eq!(app.list.matching(), 10_000);
    }
}
