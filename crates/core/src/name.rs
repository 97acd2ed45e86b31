//! Names of locks and members, labels, notes, and patterns over names. Each is checked once and valid from
//! then on.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// It has no characters.
    #[error("a name must not be empty")]
    Empty,
    /// It is over [`limits::NAME_BYTES_MAX`].
    #[error("a name has at most {max} bytes, this one has {0}", max = limits::NAME_BYTES_MAX)]
    TooLong(usize),
    /// It contains a control character, which could disturb a terminal or a log.
    #[error("a name must not hold control characters (found U+{0:04X})")]
    Control(u32),
}

fn check(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(InvalidName::TooLong(name.len()));
    }
    match control(name) {
        Some(control) => Err(InvalidName::Control(control as u32)),
        None => Ok(()),
    }
}

/// Returns the first control character in it. The common case, plain text, is decided without
/// decoding characters.
fn control(text: &str) -> Option<char> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain { None } else { text.chars().find(|c| c.is_control()) }
}

/// The name of a lock: 1 to 512 bytes without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// [`InvalidName`] says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        check(name)?;
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a pool's member, under the same rules as [`Name`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(Arc<str>);

impl Member {
    /// Checks a member's name.
    ///
    /// # Errors
    /// [`InvalidName`] says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        check(name)?;
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! as_text {
    ($type:ty, $invalid:ty) => {
        impl TryFrom<&str> for $type {
            type Error = $invalid;

            fn try_from(name: &str) -> Result<Self, $invalid> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $type {
            type Error = $invalid;

            fn try_from(name: String) -> Result<Self, $invalid> {
                Self::new(&name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

as_text!(Name, InvalidName);
as_text!(Member, InvalidName);
as_text!(Note, InvalidNote);

/// A note is over [`limits::NOTE_BYTES_MAX`] or holds a control character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a result has at most {max} bytes and no control characters", max = limits::NOTE_BYTES_MAX)]
pub struct InvalidNote;

/// What came of work that is done, in a few words for people or programs. It may be empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Note(Arc<str>);

impl Note {
    /// Checks a note: at most 256 bytes, no control characters.
    ///
    /// # Errors
    /// [`InvalidNote`] if it is too long or contains a control character.
    pub fn new(text: &str) -> Result<Self, InvalidNote> {
        if text.len() > limits::NOTE_BYTES_MAX || control(text).is_some() {
            return Err(InvalidNote);
        }
        Ok(Self(text.into()))
    }

    /// Returns the note as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A label is over [`limits::LABEL_BYTES_MAX`] or holds a control character.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label has at most {max} bytes and no control characters", max = limits::LABEL_BYTES_MAX)]
pub struct InvalidLabel;

/// What people see of a holder or a waiter: who it is, and why it wants the lock.
///
/// Kept as one text, `who` and `why` separated by a line break, and `None` if both are empty. The
/// text is shared, because it moves from the request to the waiter to the holder.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Label(Option<Arc<str>>);

impl Label {
    /// Checks a label: at most 256 bytes in all, no control characters.
    ///
    /// # Errors
    /// [`InvalidLabel`] if it is too long or contains a control character.
    pub fn new(who: &str, why: &str) -> Result<Self, InvalidLabel> {
        // A line break inside `who` moves the separator, so the check finds a second line break in
        // `why`.
        Self::from_lines(&format!("{who}\n{why}"))
    }

    /// Parses what [`Self::lines`] returns.
    pub(crate) fn from_lines(lines: &str) -> Result<Self, InvalidLabel> {
        let (who, why) = lines.split_once('\n').ok_or(InvalidLabel)?;
        if who.len() + why.len() > limits::LABEL_BYTES_MAX {
            return Err(InvalidLabel);
        }
        match (control(who), control(why)) {
            (None, None) => Ok(Self((lines.len() > 1).then(|| lines.into()))),
            _ => Err(InvalidLabel),
        }
    }

    /// Returns `who` and `why`, one per line.
    pub(crate) fn lines(&self) -> &str {
        self.0.as_deref().unwrap_or("\n")
    }

    fn parts(&self) -> (&str, &str) {
        self.lines().split_once('\n').unwrap_or_default()
    }

    /// Returns who it is: by default host, process and program.
    pub fn who(&self) -> &str {
        self.parts().0
    }

    /// Returns why it wants the lock: free text, by default empty.
    pub fn why(&self) -> &str {
        self.parts().1
    }

    /// Returns its length.
    pub(crate) fn bytes(&self) -> usize {
        self.lines().len() - 1
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            ("", "") => f.write_str("(no label)"),
            (who, "") => f.write_str(who),
            ("", why) => write!(f, "({why})"),
            (who, why) => write!(f, "{who} ({why})"),
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Label").field("who", &self.who()).field("why", &self.why()).finish()
    }
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Label")]
struct Parts<'a> {
    #[serde(borrow)]
    who: Cow<'a, str>,
    #[serde(borrow)]
    why: Cow<'a, str>,
}

impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Parts { who: self.who().into(), why: self.why().into() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { who, why } = Parts::deserialize(deserializer)?;
        Self::new(&who, &why).map_err(serde::de::Error::custom)
    }
}

/// A pattern over names: `*` stands for any number of characters, `?` for one. All other characters
/// are literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Makes a pattern. Every text is one.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the name matches the whole pattern. Takes at most time proportional to the
    /// product of the two lengths.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // Where to continue if the characters after the last `*` don't match.
        let mut retry: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    p += 1;
                    retry = Some((p, n));
                }
                Some(&c) if c == '?' || c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match retry {
                    Some((after_star, from)) => {
                        (p, n) = (after_star, from + 1);
                        retry = Some((p, n));
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|&c| c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_to_512_bytes_without_control_characters() {
        assert_eq!(Name::new(""), Err(InvalidName::Empty));
        assert_eq!(Name::new(&"x".repeat(512)).unwrap().as_str().len(), 512);
        assert_eq!(Name::new(&"x".repeat(513)), Err(InvalidName::TooLong(513)));
        assert_eq!(Name::new("a\nb"), Err(InvalidName::Control(10)));
        assert_eq!(Name::new("a\u{9b}b"), Err(InvalidName::Control(0x9b)));
        assert_eq!(Name::new("orders/42 ü").unwrap().to_string(), "orders/42 ü");
        assert_eq!(format!("{:?}", Member::new("m").unwrap()), "\"m\"");
        assert_eq!(format!("{:>3}", Member::new("m").unwrap()), "  m");
        assert_eq!(Member::new("b-3").unwrap().as_str(), "b-3");
        assert!(Member::new("").is_err());
        assert_eq!(Name::try_from("a"), Name::new("a"));
        assert_eq!(Name::try_from("a\nb".to_owned()), Err(InvalidName::Control(10)));
    }

    #[test]
    fn labels_have_at_most_256_bytes() {
        assert!(Label::new(&"w".repeat(200), &"y".repeat(56)).is_ok());
        assert_eq!(Label::new(&"w".repeat(200), &"y".repeat(57)), Err(InvalidLabel));
        assert_eq!(Label::new("w", "\x1b[31m"), Err(InvalidLabel));
        assert_eq!(Label::new("a\n", ""), Err(InvalidLabel));
        let label = Label::new("me", "nightly").unwrap();
        assert_eq!((label.who(), label.why()), ("me", "nightly"));
        assert_eq!(label.to_string(), "me (nightly)");
        assert_eq!(Label::new("me", "").unwrap().to_string(), "me");
        assert_eq!(Label::new("", "x").unwrap().to_string(), "(x)");
        assert_eq!(Label::default().to_string(), "(no label)");
    }

    #[test]
    fn notes_have_at_most_256_bytes() {
        assert_eq!(Note::new(&"x".repeat(256)).unwrap().as_str().len(), 256);
        assert_eq!(Note::new(&"x".repeat(257)), Err(InvalidNote));
        assert_eq!(Note::new("two\nlines"), Err(InvalidNote));
        assert_eq!(Note::default(), Note::new("").unwrap());
    }

    #[test]
    fn what_is_read_back_is_checked_again() {
        let ok = postcard::to_allocvec(&Label::new("me", "x").unwrap()).unwrap();
        assert_eq!(postcard::from_bytes::<Label>(&ok).unwrap().who(), "me");
        let bad = postcard::to_allocvec(&("me", "\x1b")).unwrap();
        assert!(postcard::from_bytes::<Label>(&bad).is_err());
        let name = postcard::to_allocvec(&Name::new("n").unwrap()).unwrap();
        assert_eq!(postcard::from_bytes::<Name>(&name).unwrap().as_str(), "n");
        assert!(postcard::from_bytes::<Name>(&postcard::to_allocvec("").unwrap()).is_err());
    }

    #[test]
    fn patterns_match_the_whole_name() {
        let cases = [
            ("*", "", true),
            ("*", "anything", true),
            ("orders/*", "orders/42", true),
            ("orders/*", "order/42", false),
            ("*/42", "orders/42", true),
            ("*/42", "orders/421", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("ab**", "ab", true),
            ("*ab", "aab", true),
            ("", "", true),
            ("", "a", false),
            ("?", "ü", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} against {name}");
        }
        assert_eq!(Pattern::new("a*").as_str(), "a*");
    }
}
