//! What the program prints: aligned tables, durations as people say them, and JSON documents.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::exit::ExitFailure;
use crate::paint::{Ink, Paint};
use crate::text;

/// Prints text on stdout.
pub(crate) fn text(text: impl fmt::Display) -> Result<(), ExitFailure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints one JSON document on stdout.
pub(crate) fn json(document: &impl Serialize) -> Result<(), ExitFailure> {
    text(self::document(document, false)?)
}

/// A JSON document as text: on one line for programs that read several, else for people too.
pub(crate) fn document(document: &impl Serialize, on_a_line: bool) -> Result<String, ExitFailure> {
    let to_text = if on_a_line { serde_json::to_string } else { serde_json::to_string_pretty };
    Ok(to_text(document).map_err(io::Error::from)?)
}

/// Prints a JSON document on one line of stdout.
pub(crate) fn json_line(document: &impl Serialize) -> Result<(), ExitFailure> {
    text(serde_json::to_string(document).map_err(io::Error::from)?)
}

/// Rows under a heading, each column as wide as its widest cell. Other users choose names and labels, so cells are
/// escaped.
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
    inks: Vec<[Option<Ink>; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned)], inks: vec![[Some(Ink::Dim); N]] }
    }

    /// Adds a row. The colours of its cells can be set in what is given back.
    pub(crate) fn row(&mut self, cells: [String; N]) -> &mut [Option<Ink>; N] {
        self.rows.push(cells.map(|cell| text::escaped(&cell)));
        self.inks.push([None; N]);
        self.inks.last_mut().expect("just pushed")
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::width(cell));
            }
        }
        let lines = self.rows.iter().zip(&self.inks).map(|(row, inks)| {
            // Nothing but blanks after the last cell that has something in it.
            let last = row.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
            let mut line = String::new();
            for (column, (cell, ink)) in row.iter().zip(inks).enumerate().take(last + 1) {
                line.push_str(&ink.map_or_else(|| cell.clone(), |ink| paint.ink(ink, cell)));
                if column < last {
                    line.push_str(&" ".repeat(widths[column] - text::width(cell) + 2));
                }
            }
            line
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Paint { on: false }))
    }
}

/// `0.3s`, `12s`, `3m04s`, `2h05m`, `1d03h`: two units at most, since nobody needs the third.
pub(crate) fn duration(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0 => format!("0.{}s", duration.subsec_millis() / 100),
        1..60 => format!("{secs}s"),
        60..3_600 => format!("{}m{:02}s", secs / 60, secs % 60),
        3_600..86_400 => format!("{}h{:02}m", secs / 3_600, secs % 3_600 / 60),
        _ => format!("{}d{:02}h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

/// The same for what a view counts in milliseconds.
pub(crate) fn millis(millis: u64) -> String {
    duration(Duration::from_millis(millis))
}

/// A duration as JSON has it: whole milliseconds.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time in Unix milliseconds, in UTC: `2026-11-16 02:31:07 UTC`.
pub(crate) fn utc(ms: u64) -> String {
    let (days, seconds) = (ms / 86_400_000, ms / 1_000 % 86_400);
    let (year, month, day) = date(days);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
}

/// The date of a day, counted from 1970-01-01. Years are counted from March, so that a leap day is the last day of
/// one; 400 of them have the same number of days each time.
fn date(days: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    const FROM_0000_03_01: u64 = 719_468;
    let days = days + FROM_0000_03_01;
    let (eras, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
    // Without the leap days before it, of every 4 years, but not of every 100, but of every 400.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days together, and so have the next five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (eras * 400 + year, month, day)
}

/// `1st`, `2nd`, `3rd`, `4th`, `11th`.
pub(crate) fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `1 holder`, `2 holders`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let cases = [
            (0, "0.0s"),
            (340, "0.3s"),
            (999, "0.9s"),
            (12_900, "12s"),
            (184_000, "3m04s"),
            (7_500_000, "2h05m"),
            (97_200_000, "1d03h"),
        ];
        for (ms, said) in cases {
            assert_eq!(millis(ms), said);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_794_796_267_000, "2026-11-16 02:31:07 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ];
        for (ms, expected) in cases {
            assert_eq!(utc(ms), expected);
        }
        // Each day follows the one before, for a thousand years.
        let mut before = date(0);
        for days in 1..=365_243 {
            let (year, month, day) = date(days);
            let is_next = (year, month, day) == (before.0, before.1, before.2 + 1)
                || (year, month, day) == (before.0, before.1 + 1, 1)
                || (year, month, day) == (before.0 + 1, 1, 1);
            assert!(is_next && month <= 12 && day <= 31, "{before:?}, then {year}-{month}-{day}");
            before = (year, month, day);
        }
        assert_eq!(before, (2970, 1, 1));
    }

    #[test]
    fn places_in_line_are_ordinals() {
        let said: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal).into();
        let expected =
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
        assert_eq!(said, expected);
    }

    #[test]
    fn tables_align_by_width_and_leave_no_trailing_blanks() {
        let mut table = Table::new(["NAME", "FOR"]);
        table.row(["über".into(), "1s".into()]);
        table.row(["順番".into(), "2s".into()]);
        table.row(["a\x1b".into(), "".into()]);
        let lines = ["NAME     FOR", "über     1s", "順番     2s", r"a\u{1b}"];
        assert_eq!(table.to_string(), lines.join("\n"));
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let mut table = Table::new(["A", "B"]);
        table.row(["x".into(), "y".into()])[0] = Some(Ink::Bad);
        let (dim, red, end) = ("\x1b[2m", "\x1b[31m", "\x1b[0m");
        assert_eq!(
            table.render(Paint { on: true }),
            format!("{dim}A{end}  {dim}B{end}\n{red}x{end}  y")
        );
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            (count(1, "holder"), count(2, "holder")),
            ("1 holder".into(), "2 holders".into())
        );
    }
}
