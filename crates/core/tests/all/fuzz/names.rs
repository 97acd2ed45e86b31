//! Names, labels and patterns.

use taketurns_core::{InvalidName, Label, Member, Name, Pattern, limits};
use taketurns_servers::fuzz::{self, Dice};

const LONG: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn text(dice: &mut Dice) -> String {
    let longest = LONG.repeat(limits::NAME_BYTES_MAX / LONG.len());
    let words = ["orders/42", "ü €\u{1f512}", "a b", "\u{9b}31m", LONG, &longest, ""];
    dice.damaged_text(&words)
}

#[test]
fn a_name_is_taken_by_its_rule_alone_and_read_back_as_it_was() {
    fuzz::rounds("names", 20_000, |dice| {
        let text = text(dice);
        let why = if text.is_empty() {
            Some(InvalidName::Empty)
        } else if text.len() > limits::NAME_BYTES_MAX {
            Some(InvalidName::TooLong(text.len()))
        } else {
            text.chars().find(|c| c.is_control()).map(|c| InvalidName::Control(c as u32))
        };
        let stored = postcard::to_allocvec(&text).expect("text");
        let name = Name::new(&text);
        assert_eq!(name.clone().err(), why, "{text:?}");
        assert_eq!(Member::new(&text).err(), why, "{text:?}");
        assert_eq!(postcard::from_bytes(&stored).ok(), name.clone().ok(), "{text:?}");
        let Ok(name) = name else { return false };
        assert_eq!(name.to_string(), text);
        let json = serde_json::to_string(&name).expect("text");
        assert_eq!(serde_json::from_str::<Name>(&json).ok(), Some(name));
        true
    });
}

#[test]
fn a_label_is_taken_by_its_rule_alone_and_read_back_as_it_was() {
    fuzz::rounds("labels", 20_000, |dice| {
        let (who, why) = (text(dice), text(dice));
        let fits = who.len() + why.len() <= limits::LABEL_BYTES_MAX;
        let is_label = fits && !format!("{who}{why}").contains(char::is_control);
        let stored = postcard::to_allocvec(&(&who, &why)).expect("text");
        let read = postcard::from_bytes::<Label>(&stored).ok();
        assert_eq!(read, Label::new(&who, &why).ok());
        assert_eq!(read.is_some(), is_label, "{who:?} {why:?}");
        if let Some(label) = read {
            assert_eq!((label.who(), label.why()), (&*who, &*why));
            assert!(!label.to_string().contains(char::is_control));
        }
        is_label
    });
}

/// What a pattern means, in as few words as possible.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        (['*', rest @ ..], _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        (['?', pattern @ ..], [_, name @ ..]) => matches(pattern, name),
        ([one, pattern @ ..], [other, name @ ..]) => one == other && matches(pattern, name),
        _ => false,
    }
}

#[test]
fn a_pattern_matches_what_it_means() {
    fuzz::rounds("patterns", 20_000, |dice| {
        let mut some = |alphabet: &[char], most: usize| -> Vec<char> {
            (0..dice.below(most)).map(|_| alphabet[dice.below(alphabet.len())]).collect()
        };
        let (pattern, name) = (some(&['*', '?', 'a', 'ü', '*'], 8), some(&['a', 'ü', 'b'], 10));
        let (text, other) = (String::from_iter(&pattern), String::from_iter(&name));
        let does = Pattern::new(&text).matches(&other);
        assert_eq!(does, matches(&pattern, &name), "{text:?} against {other:?}");
        does
    });
}
