//! What keys do, and what a new picture changes.

use std::time::Duration;

use taketurns::Token;
use taketurns::engine::EngineError;

use super::super::app::{BreakOrder, Overlay, UserAction};
use super::super::keys::KeyPress;
use super::scene::{Stage, company, held, idle, lock, semaphore};

fn three() -> Vec<(taketurns::Name, taketurns::View)> {
    vec![
        lock("a", held("web1:7 sh", 10, 20).waiting(2)),
        lock("b", held("web2:8 rsync|nightly", 90, 20).waiting(5)),
        lock("c", idle()),
    ]
}

#[test]
fn the_busiest_lock_is_on_top_and_other_orders_are_a_key_away() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    assert_eq!(stage.names(), ["b", "a", "c"]);
    for (key, order) in [
        ('s', ["b", "a", "c"]),
        ('>', ["a", "b", "c"]),
        ('s', ["a", "b", "c"]),
        ('<', ["a", "b", "c"]),
    ] {
        stage.press(KeyPress::Letter(key));
        assert_eq!(stage.names(), order);
    }
    assert!(stage.text().contains("least left first"), "{}", stage.text());
}

#[test]
fn the_chosen_lock_stays_chosen_when_the_order_changes() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    assert_eq!(stage.chosen(), None);
    stage.press(KeyPress::Down);
    assert_eq!(stage.chosen().as_deref(), Some("b"));
    stage.see([lock("a", idle().waiting(9)), lock("b", idle()), lock("bb", idle().waiting(3))]);
    assert_eq!(
        (stage.names(), stage.chosen()),
        (vec!["a".into(), "bb".into(), "b".into()], Some("b".into()))
    );
    stage.see([lock("a", idle()), lock("bb", idle())]);
    assert_eq!(stage.chosen().as_deref(), Some("bb"), "its neighbour, when it is gone");
    stage.press(KeyPress::Escape);
    assert_eq!(stage.chosen(), None);
    stage.press(KeyPress::Enter);
    assert_eq!(stage.app.open.as_ref().map(|open| open.row.name.as_str()), Some("a"), "the first");
}

#[test]
fn without_a_choice_the_screen_stays_at_the_top_and_with_one_it_follows() {
    let mut stage = Stage::new(80, 14);
    let many = |most: usize| {
        (0..100).map(move |at| lock(&format!("{at:03}"), idle().waiting((at + most) % 100)))
    };
    stage.see(many(0));
    assert_eq!(stage.names().len(), 10);
    assert_eq!(stage.names()[0], "099");
    stage.see(many(50));
    assert_eq!(stage.names()[0], "049", "not where 099 has gone");
    stage.press(KeyPress::Down);
    stage.see(many(0));
    assert_eq!(stage.names()[9], "049", "moved as little as shows it");
    stage.press(KeyPress::Home);
    stage.press(KeyPress::PageDown);
    assert_eq!((stage.names()[9].as_str(), stage.chosen().as_deref()), ("089", Some("089")));
    stage.press(KeyPress::End);
    assert_eq!((stage.names()[9].as_str(), stage.chosen().as_deref()), ("000", Some("000")));
    stage.type_in("gjjk");
    assert_eq!(stage.chosen().as_deref(), Some("098"));
}

#[test]
fn a_filter_is_applied_while_it_is_typed_to_names_and_holders() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    stage.type_in("/NIGHT");
    assert_eq!(stage.names(), ["b"]);
    assert!(matches!(stage.app.over, Overlay::Filter));
    stage.press(KeyPress::Backspace);
    stage.press(KeyPress::Enter);
    stage.see(three());
    assert_eq!(stage.names(), ["b"], "kept, also in the next picture");
    assert!(stage.text().contains("1 with NIGH"), "{}", stage.text());
    stage.press(KeyPress::Escape);
    assert_eq!(stage.names().len(), 3);
    stage.type_in("/webq");
    assert!(stage.names().is_empty(), "a letter, and no way out");
    stage.press(KeyPress::Escape);
    assert_eq!(stage.names().len(), 3);
}

#[test]
fn what_has_changed_since_the_last_look_stands_out() {
    let mut stage = Stage::new(80, 24);
    let changed = |stage: &Stage| -> Vec<String> {
        let rows = stage.app.list.visible().filter(|(row, _)| row.changed);
        rows.map(|(row, _)| row.name.to_string()).collect()
    };
    stage.see(three());
    assert!(changed(&stage).is_empty(), "not in the first picture");
    stage.see([
        lock("a", held("web1:7 sh", 11, 19).waiting(2)),
        lock("c", idle()),
        lock("d", idle()),
    ]);
    assert_eq!(changed(&stage), ["d"], "time alone is no change");
    stage.see([
        lock("a", held("web1:7 sh", 11, 19).waiting(3)),
        lock("c", held("x", 0, 9)),
        lock("d", idle()),
    ]);
    assert_eq!(changed(&stage), ["a", "c"]);
    stage.see([lock("a", held("web1:7 sh", 11, 19).waiting(3).broken())]);
    assert_eq!(changed(&stage), ["a"]);
}

#[test]
fn a_holder_whose_renewals_are_overdue_is_late() {
    let late = |looks: &[u64]| {
        let mut stage = Stage::new(80, 24);
        for left_s in looks {
            stage.see([lock("a", held("web1:7 sh", 5, *left_s))]);
        }
        stage.app.list.visible().any(|(row, _)| row.is_late())
    };
    assert!(!late(&[4]), "the first look can't tell");
    assert!(!late(&[30, 20, 30, 10]));
    assert!(late(&[12, 30, 20, 9]));
    let mut stage = Stage::new(80, 24);
    stage.see([lock("a", held("web1:7 sh", 5, 30))]);
    stage.see([lock("a", held("another", 5, 3))]);
    assert!(!stage.app.list.visible().any(|(row, _)| row.is_late()), "another lease");
}

#[test]
fn a_break_is_asked_about_and_takes_the_lock_from_those_who_were_named() {
    let mut stage = Stage::new(80, 24);
    let [_, night] = company();
    stage.see(night);
    assert_eq!(stage.press(KeyPress::Letter('b')), None);
    assert!(stage.text().contains("choose a lock"), "{}", stage.text());
    stage.type_in("/gpu");
    stage.press(KeyPress::Down);
    stage.press(KeyPress::Letter('b'));
    let Overlay::Break(question) = &stage.app.over else { panic!("no question") };
    let tokens: Vec<Token> =
        question.view.holders.iter().filter_map(|holder| holder.token).collect();
    assert_eq!(tokens.len(), 3);
    stage.see([lock("gpu", semaphore(4))]);
    let name = question_name("gpu");
    let asked = |at_once| {
        Some(UserAction::Break(BreakOrder { name: name.clone(), tokens: tokens.clone(), at_once }))
    };
    assert_eq!(stage.press(KeyPress::Letter('x')), None, "no answer");
    assert_eq!(stage.press(KeyPress::Letter('y')), asked(false));

    let [_, night] = company();
    stage.see(night);
    stage.type_in("bn");
    assert_eq!(stage.press(KeyPress::Letter('y')), asked(true));
}

fn question_name(name: &str) -> taketurns::Name {
    taketurns::Name::new(name).expect("a name")
}

#[test]
fn a_break_that_is_not_confirmed_breaks_nothing() {
    for no in [KeyPress::Escape, KeyPress::Letter('q')] {
        let mut stage = Stage::new(80, 24);
        stage.see(three());
        stage.press(KeyPress::Down);
        stage.type_in("b");
        assert_eq!(stage.press(no), None);
        assert!(matches!(stage.app.over, Overlay::Nothing));
        assert!(stage.text().contains("b was not broken"), "{}", stage.text());
        assert_eq!(stage.press(KeyPress::Letter('y')), None, "too late");
    }
}

#[test]
fn the_outcome_of_a_break_is_told() {
    let mut stage = Stage::new(80, 24);
    let asked = |at_once| BreakOrder { name: question_name("b"), tokens: vec![], at_once };
    let now = stage.now;
    let mut told = |asked: BreakOrder, outcome| {
        stage.app.broke(&asked, &outcome, now);
        stage.app.notice(now).expect("told").to_owned()
    };
    assert_eq!(
        told(asked(false), Ok(1)),
        "b: broken for 1 holder; free when the holder stops or its lease ends"
    );
    assert_eq!(told(asked(true), Ok(2)), "b: taken from 2 holders");
    assert_eq!(told(asked(true), Ok(0)), "b: released meanwhile, nothing to break");
    let gone = taketurns::Error::Unreachable(EngineError::Unreachable("gone".into()));
    assert!(told(asked(true), Err(gone)).starts_with("b was not broken: "));
    assert_eq!(stage.app.notice(now + Duration::from_secs(60)), None);
}

#[test]
fn an_open_lock_is_left_with_escape_and_the_program_with_q() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    assert_eq!(stage.press(KeyPress::Enter), Some(UserAction::Look));
    for back in [KeyPress::Escape, KeyPress::Letter('q'), KeyPress::Backspace] {
        assert!(stage.app.open.is_some());
        assert_eq!(stage.press(back), None);
        assert!(stage.app.open.is_none());
        stage.press(KeyPress::Enter);
    }
    assert_eq!(stage.press(KeyPress::Interrupt), Some(UserAction::Quit), "from anywhere");
    stage.press(KeyPress::Escape);
    assert_eq!(stage.press(KeyPress::Letter('q')), Some(UserAction::Quit));
    assert_eq!(stage.press(KeyPress::Suspend), Some(UserAction::Suspend));
}

#[test]
fn a_look_that_comes_after_another_lock_was_opened_is_not_taken_for_that() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    stage.press(KeyPress::Enter);
    let (_, view) = lock("a", idle().waiting(77));
    stage.app.see_one(&question_name("a"), Some(view.clone()), stage.now);
    assert!(!stage.text().contains("77"), "{}", stage.text());
    stage.now += Duration::from_secs(5);
    stage.app.see_one(&question_name("b"), Some(view), stage.now);
    let text = stage.text();
    assert!(text.contains("77 waiting") && text.contains("0s old"), "{text}");
    stage.press(KeyPress::Escape);
    assert!(stage.text().contains("5s old"), "the others were not looked at: {}", stage.text());
}

#[test]
fn a_store_out_of_reach_leaves_the_last_picture_and_says_since_when() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    stage.app.fail("no route to host", stage.now);
    stage.now += Duration::from_secs(7);
    stage.app.fail("no route to host", stage.now);
    let text = stage.text();
    assert!(
        text.contains("UNREACHABLE for 7s, 7s old") && text.contains("no route to host"),
        "{text}"
    );
    assert!(text.contains("rsync"), "{text}");
    stage.see(three());
    assert!(!stage.text().contains("UNREACHABLE"), "{}", stage.text());
}

#[test]
fn a_pause_is_shown_and_so_is_a_look_that_comes_less_often_than_wanted() {
    let mut stage = Stage::new(80, 24);
    stage.see(three());
    stage.type_in("p");
    assert!(stage.app.paused && stage.text().contains("PAUSED, 0s old"), "{}", stage.text());
    stage.type_in(" ");
    assert!(!stage.app.paused && stage.text().contains("0s old, every 1s\n"), "{}", stage.text());
    stage.app.interval = Duration::from_millis(4_230);
    assert!(stage.text().contains("every 4.2s (slow looks)"), "{}", stage.text());
}
