//! Whole screens.

use std::path::PathBuf;
use std::time::Duration;

use ratatui::style::{Color, Modifier};
use taketurns::{Ask, Label};

use super::super::keys::KeyPress;
use super::scene::{Stage, company, held, idle, lock, once};
use crate::text::{CutSide, cut};
use crate::watch::tests::{done, failed};

fn at_night(width: u16, height: u16) -> Stage {
    let mut stage = Stage::new(width, height);
    for picture in company() {
        stage.see(picture);
    }
    stage
}

/// Compares a screen with the text of that name.
#[track_caller]
fn looks_like(name: &str, stage: &Stage) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/top/tests/screens").join(name);
    let text = stage.text();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} is now:\n{text}\nand was:\n{expected}", path.display());
}

#[test]
fn all_locks_at_80_by_24() {
    looks_like("list-80x24.txt", &at_night(80, 24));
}

#[test]
fn all_locks_at_120_by_40() {
    looks_like("list-120x40.txt", &at_night(120, 40));
}

#[test]
fn all_locks_at_the_smallest_size() {
    looks_like("list-40x8.txt", &at_night(40, 8));
}

#[test]
fn one_lock_with_its_queue() {
    let mut stage = at_night(80, 24);
    stage.press(KeyPress::Enter);
    for waiting in [12, 9, 14, 17] {
        let [_, mut later] = company();
        let (name, mut view) = later.remove(0);
        view.waiting = waiting;
        stage.app.see_one(&name, Some(view), stage.now);
    }
    looks_like("open-80x24.txt", &stage);
}

#[test]
fn one_pool_with_its_members() {
    let mut stage = at_night(80, 24);
    stage.type_in("/browsers");
    stage.press(KeyPress::Enter);
    stage.press(KeyPress::Enter);
    looks_like("pool-80x24.txt", &stage);
}

#[test]
fn work_that_is_done_once_and_a_lock_that_rests() {
    let mut stage = Stage::new(80, 14);
    stage.see([
        lock("nightly/done", once(done(70))),
        lock("nightly/failed", once(failed(2))),
        lock("nightly/tried", once(failed(1)).holder("db-1:4242 backup.sh", 70, 25, Ask::Mutex)),
        lock("ping", held("web1:7 sh|health", 12, 48).resting(48)),
    ]);
    looks_like("once-80x14.txt", &stage);
    stage.press(KeyPress::Down);
    stage.press(KeyPress::Down);
    stage.press(KeyPress::Down);
    stage.press(KeyPress::Enter);
    looks_like("once-open-80x14.txt", &stage);
}

#[test]
fn an_open_lock_that_nobody_uses_says_so() {
    let mut stage = Stage::new(80, 24);
    stage.see([lock("a", idle())]);
    stage.press(KeyPress::Enter);
    let text = stage.text();
    assert!(text.contains("nobody holds it") && text.contains("nobody waits"), "{text}");
}

#[test]
fn a_long_queue_is_scrolled_through() {
    let mut stage = Stage::new(80, 14);
    let waiters: Vec<_> = (0..50).map(|at| ("web1:7 sh", 500 - at, Ask::Mutex)).collect();
    stage.see([lock("a", held("web2:8 sh", 600, 20).queue(&waiters).waiting(700))]);
    stage.press(KeyPress::Enter);
    for _ in 0..2 {
        stage.press(KeyPress::PageDown);
    }
    stage.press(KeyPress::Down);
    looks_like("scrolled-80x14.txt", &stage);
    stage.press(KeyPress::End);
    assert!(stage.text().contains("and 650 more"), "{}", stage.text());
}

#[test]
fn the_question_before_a_break() {
    let mut stage = at_night(80, 24);
    stage.press(KeyPress::Down);
    stage.press(KeyPress::Letter('b'));
    looks_like("break-80x24.txt", &stage);
    stage.press(KeyPress::Letter('n'));
    looks_like("break-at-once-80x24.txt", &stage);
}

#[test]
fn the_question_can_be_answered_on_the_smallest_screen() {
    let mut stage = at_night(40, 8);
    stage.press(KeyPress::Down);
    stage.press(KeyPress::Letter('b'));
    looks_like("break-40x8.txt", &stage);
}

#[test]
fn the_help() {
    let mut stage = at_night(80, 24);
    stage.press(KeyPress::Letter('?'));
    looks_like("help-80x24.txt", &stage);
}

#[test]
fn a_screen_that_is_too_small_says_so() {
    for (width, height) in [(39, 24), (80, 7), (1, 1), (0, 0)] {
        let text = at_night(width, height).text();
        assert!("too small: 40×8 is needed".starts_with(text.trim_end()), "{text}");
    }
    assert!(!at_night(40, 8).text().contains("too small"));
}

#[test]
fn a_quarantine_is_on_top_and_at_each_lock() {
    let mut stage = Stage::new(80, 24);
    stage
        .see([lock("a", idle().quarantine(57)), lock("b", held("web1:7 sh", 3, 9).quarantine(50))]);
    let text = stage.text();
    assert!(text.contains("QUARANTINE 57s") && text.contains("quarantine 50s web1:7 sh"), "{text}");
    stage.press(KeyPress::Enter);
    let text = stage.text();
    assert!(text.contains("restarted or failed over: nothing is granted for 50s"), "{text}");
}

#[test]
fn a_picture_of_a_store_out_of_reach_is_grey() {
    let mut stage = at_night(80, 24);
    assert!(stage.drawn().content.iter().any(|cell| cell.fg == Color::Yellow));
    stage.app.fail("gone", stage.now + Duration::from_secs(1));
    stage.now += Duration::from_secs(9);
    let (top, end) = (2 * 80, 23 * 80);
    let drawn = stage.drawn();
    let mut cells = drawn.content[top..end].iter().filter(|cell| cell.symbol() != " ");
    assert!(cells.all(|cell| cell.fg == Color::Reset && cell.modifier == Modifier::DIM));
}

#[test]
fn whatever_a_name_or_label_holds_the_columns_stay_where_they_are() {
    let names = [
        "plain",
        "在庫/東京",
        "שלום",
        "مرحبا",
        "e\u{301}te\u{301}",
        "👩\u{200d}💻",
        "a\u{202e}b\u{2066}c",
        "\u{200b}",
    ];
    let mut stage = Stage::new(80, 24);
    stage.see(names.map(|name| lock(name, held(&format!("{name} who|{name}"), 12, 20).waiting(3))));
    let text = stage.text();
    for line in text.lines().skip(3).take(names.len()) {
        let at = line.find("mutex").expect("a kind");
        // The name with two escapes is the longest.
        assert_eq!(crate::text::width(&line[..at]), 21, "{text}");
    }
    assert!(!text.contains('\u{202e}') && !text.contains('\u{2066}'), "{text:?}");
    assert!(text.contains(r"a\u{202e}b"), "{text}");
}

#[test]
fn no_escape_reaches_the_terminal() {
    // The library refuses them. If it did not, or where an error has one, they end here.
    assert!(Label::new("a\x1b[2J", "").is_err());
    let mut stage = Stage::new(80, 24);
    stage.see([lock("a", idle())]);
    stage.app.tell("told \x1b[2J\u{9b}2J\r\n", stage.now);
    stage.type_in("");
    stage.app.store = "file:/tmp/\x1b]0;x\x07".to_owned();
    let told = stage.text();
    stage.app.fail("failed \x1b[2J\x07", stage.now);
    for text in [told, stage.text()] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    assert_eq!(cut("\x1b[2J", 10, CutSide::End), r"\u{1b}[2J");
}
