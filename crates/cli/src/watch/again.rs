//! Printing a text about a store once, or again and again with `--watch`: `ls` and `show`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use taketurns::Locks;

use crate::exit::{self, ExitFailure};
use crate::{ask, output, store};

use super::pace::Pace;

/// More often than this nobody can read it.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Connects to the store and prints a text about it: once, or every so often until interrupted.
pub(crate) async fn show(
    store: Option<&str>,
    watch: Option<Duration>,
    text: impl AsyncFn(&Locks) -> Result<String, ExitFailure>,
) -> Result<u8, ExitFailure> {
    let locks = store::open(store).await?;
    let done = match watch {
        Some(every) => look(every, async || text(&locks).await).await,
        None => text(&locks).await.and_then(|text| match text.is_empty() {
            true => Ok(()),
            false => output::text(text),
        }),
    };
    store::close(locks).await;
    done.map(|()| 0)
}

/// Looks for ever. At a terminal each look takes the place of the one before; elsewhere it follows it.
/// A store that can't be reached is told of once, and looked for again.
async fn look(
    every: Duration,
    mut text: impl AsyncFnMut() -> Result<String, ExitFailure>,
) -> Result<(), ExitFailure> {
    let at_terminal = io::stdout().is_terminal();
    let (mut pace, mut was_down) = (Pace::new(every), false);
    loop {
        let began = Instant::now();
        let looked = text().await;
        let rest = pace.rest(began.elapsed(), looked.is_ok());
        let is_down = looked.as_ref().is_err_and(|failure| failure.code == exit::UNAVAILABLE);
        match looked {
            Ok(text) if at_terminal => print(&screen(&text, rows()))?,
            Ok(text) => print(&format!("{text}\n"))?,
            Err(failure) if is_down && !was_down => exit::say(failure),
            Err(_) if is_down => {}
            Err(failure) => return Err(failure),
        }
        was_down = is_down;
        tokio::time::sleep(rest).await;
    }
}

/// Of the terminal. Some do not know, and say 0.
fn rows() -> usize {
    let rows = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row);
    if rows == 0 { 24 } else { rows.into() }
}

fn print(text: &str) -> Result<(), ExitFailure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// As many lines as fit, in place of what was there: each is written over the old one, so that nothing
/// flickers, and cut where the screen ends.
fn screen(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let fitting = match rows.saturating_sub(1) {
        room if lines.len() <= room => lines.len(),
        room => room.saturating_sub(1),
    };
    let mut screen = String::from("\x1b[?7l\x1b[H");
    for line in &lines[..fitting] {
        let _ = write!(screen, "{line}\x1b[K\r\n");
    }
    if fitting < lines.len() {
        let _ = write!(screen, "… and {} more lines\x1b[K\r\n", lines.len() - fitting);
    }
    screen + "\x1b[J\x1b[?7h"
}

/// How often, from a command line.
pub(crate) fn every(text: &str) -> Result<Duration, String> {
    let every = ask::span(text)?;
    if every < EVERY_MIN {
        return Err(format!("at least {} seconds", EVERY_MIN.as_secs_f64()));
    }
    Ok(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_as_many_lines_as_fit_and_says_how_many_do_not() {
        let text = "a\nb\nc\nd";
        assert_eq!(
            screen(text, 5),
            "\x1b[?7l\x1b[Ha\x1b[K\r\nb\x1b[K\r\nc\x1b[K\r\nd\x1b[K\r\n\x1b[J\x1b[?7h"
        );
        assert_eq!(
            screen(text, 4),
            "\x1b[?7l\x1b[Ha\x1b[K\r\nb\x1b[K\r\n… and 2 more lines\x1b[K\r\n\x1b[J\x1b[?7h"
        );
        assert_eq!(screen("", 24), "\x1b[?7l\x1b[H\x1b[J\x1b[?7h");
    }

    #[test]
    fn how_often_is_a_span_that_one_can_read_in() {
        assert_eq!(every("0.5"), Ok(Duration::from_millis(500)));
        assert!(every("0.01").unwrap_err().contains("0.1"));
        assert!(every("x").is_err());
    }
}
