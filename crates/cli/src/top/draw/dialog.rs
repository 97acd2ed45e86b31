//! What lies over the screen: the question before a break, and the help.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap};
use taketurns::HolderView;

use super::super::app::BreakQuestion;
use super::{BAD, FAINT, KEY, STRONG};
use crate::output::{count, duration};
use crate::text::{CutSide, cut};

/// Room for sentences that are easy to read.
const WIDTH_MAX: u16 = 66;
/// The dialog names at most this number of holders, and counts the others.
const NAMED_MAX: usize = 4;

const KEYS: [(&str, &str); 12] = [
    ("↑ ↓ j k", "choose a lock; scroll in an open one"),
    ("PgUp PgDn", "a page; Home End g G: to the ends"),
    ("Enter", "open: holders, and the queue in order"),
    ("Esc", "back; clear the filter and the selection"),
    ("b", "break the lock, after a confirmation"),
    ("/", "show only names and holders with this text"),
    ("s < >", "sort by waiting, held, left or name"),
    ("p space", "pause or resume"),
    ("r", "look now"),
    ("q Ctrl-C", "quit; Ctrl-Z: suspend"),
    ("LEFT red", "a renewal is overdue: the holder may be stuck"),
    ("bold row", "has changed since the last poll"),
];

/// Who loses the lock, what breaking does, and the keys.
pub(super) fn question(frame: &mut Frame<'_>, question: &BreakQuestion) {
    let columns = usize::from(frame.area().width.min(WIDTH_MAX)).saturating_sub(4);
    let holders = &question.view.holders;
    let mut lines = vec![Line::raw("It is taken from")];
    let named = holders.iter().take(NAMED_MAX);
    lines.extend(
        named.map(|holder| Line::styled(cut(&named_as(holder), columns, CutSide::End), STRONG)),
    );
    if let more @ 1.. = holders.len().saturating_sub(NAMED_MAX) {
        lines.push(Line::styled(format!("  and {}", count(more, "other")), STRONG));
    }
    lines.push(Line::raw(match question.view.waiters.first() {
        Some(next) => {
            let waiting = question.view.waiting;
            cut(&format!("{waiting} wait; next is {}", next.label), columns, CutSide::End)
        }
        None => "Nobody waits for it.".to_owned(),
    }));
    lines.push(Line::default());
    let left = holders.iter().map(|holder| holder.left).max().map(duration).unwrap_or_default();
    lines.push(if question.at_once {
        Line::styled(
            "AT ONCE: it passes on now, also if the holder does not know yet and goes on writing. Only \
             the fencing token protects then.",
            BAD,
        )
    } else {
        Line::raw(format!(
            "The holder is told, and can't renew. It passes on when the holder lets go, at the latest \
             when the lease ends, in {left}."
        ))
    });
    let other = if question.at_once { ": not at once  " } else { ": at once  " };
    let keys = Line::from_iter([
        Span::styled(" y", KEY),
        Span::raw(": break  "),
        Span::styled("n", KEY),
        Span::raw(other),
        Span::styled("Esc", KEY),
        Span::raw(": leave "),
    ]);
    let title = format!(
        " Break {}? ",
        cut(question.name.as_str(), columns.saturating_sub(10), CutSide::Middle)
    );
    show(frame, title, BAD, Text::from(lines), keys);
}

/// `  web1:7 rsync (nightly), held 12s, token 42`
fn named_as(holder: &HolderView) -> String {
    let token = holder.token.map(|token| format!(", token {token}")).unwrap_or_default();
    format!("  {}, held {}{token}", holder.label, duration(holder.held_for))
}

pub(super) fn help(frame: &mut Frame<'_>) {
    let line = |(key, does): &(&'static str, &'static str)| {
        Line::from_iter([Span::styled(format!("{key:10}"), KEY), Span::raw(*does)])
    };
    let text: Text<'_> = KEYS.iter().map(line).collect();
    show(frame, " Keys ".to_owned(), STRONG, text, Line::styled(" any key: back ", FAINT));
}

/// In the middle, over everything, with the keys where they can be seen however small the screen is.
fn show(frame: &mut Frame<'_>, title: String, style: Style, text: Text<'_>, keys: Line<'_>) {
    let area = frame.area();
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(style)
        .title(Span::styled(title, style))
        .title_bottom(keys)
        .padding(Padding::horizontal(1));
    let width = area.width.min(WIDTH_MAX);
    let inner = usize::from(width.saturating_sub(4)).max(1);
    // Words are wrapped, which may take a line more than their letters.
    let rows = text.lines.iter().map(|line| line.width().div_ceil(inner).max(1) as u16);
    let extra = text.lines.iter().filter(|line| line.width() > inner).count() as u16;
    let height = (rows.sum::<u16>() + extra + 2).min(area.height);
    let middle = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), middle);
}
