//! What is on the screen, from the state alone. Only what is visible is formatted.

mod details;
mod dialog;
mod header;
mod table;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::app::{App, Overlay};
use crate::text::{CutSide, cut};

/// Below this there is no room for anything.
const SMALLEST: (u16, u16) = (40, 8);

/// Two lines of the header, and the keys.
const FRAME_LINES: u16 = 3;

pub(super) const TITLE: Style = Style::new().fg(Color::White).bg(Color::Blue);
pub(super) const HEADING: Style =
    Style::new().add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED));
pub(super) const CHOSEN: Style = Style::new().fg(Color::Black).bg(Color::Cyan);
pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const BUSY: Style = Style::new().fg(Color::Yellow);
pub(super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub(super) const HALTED: Style = Style::new().fg(Color::Magenta).add_modifier(Modifier::BOLD);
pub(super) const KEY: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);

/// How many lines there are between header and keys on a screen of this size.
pub(crate) fn page(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(FRAME_LINES))
}

/// Draws all of it.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &App, now: Instant) {
    let area = frame.area();
    let (width, height) = SMALLEST;
    if area.width < width || area.height < height {
        let text = format!("too small: {width}×{height} is needed");
        return frame.render_widget(Line::from(text), area);
    }
    let parts = [1, 1].map(Constraint::Length);
    let parts = [parts[0], parts[1], Constraint::Fill(1), Constraint::Length(1)];
    let [title, sums, body, foot] = Layout::vertical(parts).areas(area);
    frame.render_widget(header::title(app, now, title.width), title);
    match (&app.trouble, &app.open) {
        (Some(trouble), _) => frame.render_widget(header::why(trouble, sums.width), sums),
        (None, Some(open)) => frame.render_widget(details::title(open, sums.width.into()), sums),
        (None, None) => frame.render_widget(header::sums(app, sums.width), sums),
    }
    match &app.open {
        Some(open) => details::draw(frame, open, body),
        None => table::draw(frame, app, body),
    }
    if app.trouble.is_some() {
        // What was true is not thrown away, and not taken for what is.
        frame.buffer_mut().set_style(body, Style::reset().add_modifier(Modifier::DIM));
    }
    frame.render_widget(footer(app, now, foot.width), foot);
    match &app.over {
        Overlay::Break(question) => dialog::question(frame, question),
        Overlay::Help => dialog::help(frame),
        Overlay::Nothing | Overlay::Filter => {}
    }
}

/// Something to tell, or the keys.
fn footer(app: &App, now: Instant, width: u16) -> Line<'static> {
    let width = usize::from(width);
    if let Overlay::Filter = app.over {
        let keys = "  Enter keeps it, Esc clears it";
        let filter = cut(&app.list.filter, width.saturating_sub(keys.len() + 2), CutSide::Middle);
        return Line::from_iter([
            Span::styled(format!("/{filter}"), STRONG),
            Span::styled("▏", BUSY),
            Span::styled(keys, FAINT),
        ]);
    }
    if let Some(notice) = app.notice(now) {
        return Line::styled(cut(notice, width, CutSide::End), STRONG);
    }
    let keys: &[(&str, &str)] = match &app.open {
        Some(_) => &[
            ("Esc", "back"),
            ("↑↓", "scroll"),
            ("b", "break"),
            ("p", "pause"),
            ("r", "look now"),
            ("?", "help"),
        ],
        None => &[
            ("q", "quit"),
            ("↑↓", "choose"),
            ("Enter", "open"),
            ("b", "break"),
            ("/", "filter"),
            ("s", "sort"),
            ("p", "pause"),
            ("?", "help"),
        ],
    };
    let spans = keys
        .iter()
        .flat_map(|(key, does)| [Span::styled(*key, KEY), Span::raw(format!(" {does}  "))]);
    Line::from_iter(spans)
}
