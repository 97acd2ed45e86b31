//! Text of other users in cells of a terminal. Wide characters count twice, and a text that does not fit is cut.
//!
//! Characters that control a terminal, end a line, reverse text or can't be seen are shown as escapes: `\u{202e}`. So
//! they never reach the terminal, and a name with one of them does not look like another name.

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::Span;

/// Where to cut a text that does not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CutSide {
    /// For texts that begin with what matters most.
    End,
    /// For names, which often begin alike or end alike.
    Middle,
}

/// Line and paragraph separators, marks that change the direction of the text after them, and characters that nobody sees.
const HIDDEN: [char; 19] = [
    '\u{ad}', '\u{61c}', '\u{180e}', '\u{200b}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}',
    '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2060}', '\u{2066}', '\u{2067}',
    '\u{2068}', '\u{2069}', '\u{feff}',
];

/// Returns the text on one line: with escapes in place of characters that could control a terminal or deceive a reader.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() || HIDDEN.contains(&c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Returns the number of cells that the text needs.
pub(crate) fn width(text: &str) -> usize {
    cells(text).iter().map(|(_, width)| width).sum()
}

/// Cuts the text to at most `max` cells.
pub(crate) fn cut(text: &str, max: usize, at: CutSide) -> String {
    let cells = cells(text);
    if cells.iter().map(|(_, width)| width).sum::<usize>() <= max {
        return escaped(text);
    }
    let Some(room) = max.checked_sub(1) else { return String::new() };
    let head = match at {
        CutSide::End => room,
        CutSide::Middle => room.div_ceil(2),
    };
    let (head, taken) = fitting(cells.iter(), head);
    let (tail, _) = match at {
        CutSide::End => (Vec::new(), 0),
        CutSide::Middle => fitting(cells.iter().rev(), room - taken),
    };
    head.into_iter().chain(["…"]).chain(tail.into_iter().rev()).collect()
}

/// Cuts the text or fills it with blanks, to exactly `cells` cells.
pub(crate) fn fit(text: &str, cells: usize, at: CutSide) -> String {
    let text = cut(text, cells, at);
    let blanks = cells - width(&text);
    text + &" ".repeat(blanks)
}

/// Each symbol of the escaped text with its width, without those that have none.
fn cells(text: &str) -> Vec<(String, usize)> {
    Span::raw(escaped(text))
        .styled_graphemes(Style::new())
        .map(|symbol| (symbol.symbol.to_owned(), usize::from(symbol.symbol.cell_width())))
        .filter(|(_, width)| *width > 0)
        .collect()
}

/// Returns the first symbols that fit, and the number of cells that they need.
fn fitting<'a>(
    cells: impl Iterator<Item = &'a (String, usize)>,
    room: usize,
) -> (Vec<&'a str>, usize) {
    let mut taken = 0;
    let fit = cells.map_while(|(symbol, width)| {
        (taken + width <= room).then(|| {
            taken += width;
            symbol.as_str()
        })
    });
    let fit = fit.collect();
    (fit, taken)
}

/// Draws numbers over time as bars, the newest at the right.
pub(crate) fn bars(numbers: &[usize], room: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let numbers = &numbers[numbers.len().saturating_sub(room)..];
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    numbers.iter().map(|number| BARS[number * (BARS.len() - 1) / most]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_its_end_or_in_the_middle() {
        assert_eq!(cut("backup", 6, CutSide::End), "backup");
        assert_eq!(cut("backups", 6, CutSide::End), "backu…");
        assert_eq!(cut("orders/2026/11/4711", 11, CutSide::Middle), "order…/4711");
        assert_eq!(cut("orders/2026/11/4711", 10, CutSide::Middle), "order…4711");
        assert_eq!(
            (cut("ab", 1, CutSide::Middle), cut("ab", 0, CutSide::End)),
            ("…".into(), "".into())
        );
    }

    #[test]
    fn wide_characters_count_twice_and_are_never_halved() {
        assert_eq!(width("倉庫"), 4);
        assert_eq!(cut("倉庫在庫", 6, CutSide::End), "倉庫…");
        assert_eq!(cut("倉庫在庫", 5, CutSide::Middle), "倉…庫");
        assert_eq!(fit("倉庫", 6, CutSide::End), "倉庫  ");
        assert_eq!(fit("倉庫在", 5, CutSide::End), "倉庫…");
        assert_eq!(fit("倉庫在", 4, CutSide::End), "倉… ", "half a character is a blank");
        // One person at a computer, of three code points; and a letter with its accent apart.
        assert_eq!((width("👩\u{200d}💻"), width("e\u{301}")), (2, 1));
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2, CutSide::End), "e\u{301}…");
    }

    #[test]
    fn what_controls_a_terminal_reverses_text_or_is_not_seen_is_an_escape() {
        assert_eq!(escaped("a\nb\x1b[31mc ü\u{9b}"), r"a\nb\u{1b}[31mc ü\u{9b}");
        assert_eq!(escaped("a\u{202e}b\u{2028}c"), r"a\u{202e}b\u{2028}c");
        assert_eq!(cut("a\x1b[31mb\x07", 40, CutSide::End), r"a\u{1b}[31mb\u{7}");
        assert_eq!(cut("a\u{202e}bcdef", 9, CutSide::End), r"a\u{202e…");
        assert_eq!(width("\u{202e}\u{200b}"), 16);
        for c in HIDDEN {
            assert!(!escaped(&c.to_string()).contains(c), "{:?}", c.escape_unicode());
        }
    }

    #[test]
    fn bars_show_the_newest_numbers_against_the_largest_of_them() {
        assert_eq!(bars(&[0, 1, 2, 4, 7], 10), "▁▂▃▅█");
        assert_eq!(bars(&[9, 0, 3, 7], 3), "▁▄█");
        assert_eq!((bars(&[0, 0], 5), bars(&[], 5)), ("▁▁".into(), "".into()));
        assert_eq!(bars(&[usize::MAX / 8, 1], 5), "█▁");
    }
}
