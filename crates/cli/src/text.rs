//! Text of other users in cells of a terminal. Characters without width are dropped, wide characters count twice, and
//! a text that does not fit is cut.
//!
//! So control characters and escapes never reach the terminal. Neither do marks that reverse the direction of text:
//! they have no width, and could make one name look like another.

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

/// Returns the text without characters that have no width.
pub(crate) fn clean(text: &str) -> String {
    cells(text).into_iter().map(|(symbol, _)| symbol).collect()
}

/// Returns the number of cells that the text needs.
pub(crate) fn width(text: &str) -> usize {
    cells(text).iter().map(|(_, width)| width).sum()
}

/// Cuts the text to at most `max` cells.
pub(crate) fn cut(text: &str, max: usize, at: CutSide) -> String {
    let cells = cells(text);
    if cells.iter().map(|(_, width)| width).sum::<usize>() <= max {
        return clean(text);
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

/// Each symbol with its width, without those that have none.
fn cells(text: &str) -> Vec<(String, usize)> {
    Span::raw(text)
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
    fn what_could_drive_a_terminal_or_turn_the_text_around_is_dropped() {
        assert_eq!(cut("a\x1b[31mb\x07\r\nc\u{9b}2Jd", 40, CutSide::End), "a[31mbc2Jd");
        assert_eq!(cut("a\u{202e}b\u{2066}c\u{200f}d\u{feff}e", 40, CutSide::End), "abcde");
        assert_eq!(width("\u{202e}\x1b\u{200b}"), 0);
    }

    #[test]
    fn bars_show_the_newest_numbers_against_the_largest_of_them() {
        assert_eq!(bars(&[0, 1, 2, 4, 7], 10), "▁▂▃▅█");
        assert_eq!(bars(&[9, 0, 3, 7], 3), "▁▄█");
        assert_eq!((bars(&[0, 0], 5), bars(&[], 5)), ("▁▁".into(), "".into()));
        assert_eq!(bars(&[usize::MAX / 8, 1], 5), "█▁");
    }
}
