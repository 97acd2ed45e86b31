//! One planted bug: a small change of one place in the code, which can be switched on.
//!
//! ```text
//!   A waiter that has lapsed is granted the lock.     what is wrong then
//!   crates/core/src/lock/next.rs                      where
//!   --- is
//!   !self.queue.is_live(waiter, now)                  what is there, once
//!   --- instead
//!   false                                             what is there when it is switched on
//! ```
//!
//! What is there and what is there instead are an expression each, or statements that end with `;` or
//! `}`. How it is broken into lines does not matter, so formatting does not make an edit outdated.

use std::ops::Range;

/// A planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) name: String,
    /// What is wrong when it is switched on.
    pub(super) what: String,
    /// The file that it is in, from the root of the repository.
    pub(super) file: String,
    is: String,
    instead: String,
}

const IS: &str = "--- is";
const INSTEAD: &str = "--- instead";

impl Edit {
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let (head, changes) = text.split_once(IS).ok_or_else(|| missing(name, IS))?;
        let (is, instead) = changes.split_once(INSTEAD).ok_or_else(|| missing(name, INSTEAD))?;
        let (what, file) = head
            .trim()
            .rsplit_once('\n')
            .ok_or_else(|| missing(name, "what is wrong, or where"))?;
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if one_line(is).is_empty() {
            return Err(missing(name, "what is there now"));
        }
        Ok(Self {
            name: name.to_owned(),
            what: one_line(what),
            file: file.trim().to_owned(),
            is: is.trim().to_owned(),
            instead: instead.trim().to_owned(),
        })
    }

    /// Where in its file the bug goes.
    pub(super) fn place(&self, source: &str) -> Result<Range<usize>, String> {
        let mut places = occurrences(&self.is, source);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(format!("{}: what it changes is not in {}", self.name, self.file)),
            _ => Err(format!("{}: what it changes is in {} twice", self.name, self.file)),
        }
    }

    /// What goes there: both, and the switch between them.
    fn switched(&self, source: &str) -> String {
        let Self { name, is, instead, .. } = self;
        let krate = if self.file.starts_with("crates/core/") { "crate" } else { "taketurns_core" };
        let both = format!("if {krate}::planted::on({name:?}) {{ {instead} }} else {{ {source} }}");
        if is.ends_with([';', '}']) { both } else { format!("({both})") }
    }
}

fn missing(name: &str, what: &str) -> String {
    format!("{name}.edit does not say: {what}")
}

/// A file with all bugs that go into it, none of them switched on.
pub(super) fn plant(edits: &[&Edit], source: &str) -> Result<String, String> {
    let mut places = Vec::new();
    for edit in edits {
        places.push((edit.place(source)?, edit));
    }
    places.sort_by_key(|(place, _)| place.start);
    let mut planted = String::new();
    let mut done = 0;
    for (place, edit) in places {
        if place.start < done {
            return Err(format!("{} changes what another changes too", edit.name));
        }
        planted.push_str(&source[done..place.start]);
        planted.push_str(&edit.switched(&source[place.clone()]));
        done = place.end;
    }
    planted.push_str(&source[done..]);
    Ok(planted)
}

/// Where these words stand in the source, whatever is between them of blanks and line breaks.
fn occurrences(words: &str, source: &str) -> impl Iterator<Item = Range<usize>> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let starts = source.match_indices(words[0]).map(|(start, _)| start).collect::<Vec<_>>();
    starts.into_iter().filter_map(move |start| {
        let mut rest = &source[start..];
        for (index, word) in words.iter().enumerate() {
            let trimmed = rest.trim_start();
            if index > 0 && trimmed.len() == rest.len() {
                return None;
            }
            rest = trimmed.strip_prefix(word)?;
        }
        Some(start..source.len() - rest.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFO: &str = "The last one\nis first.\ncrates/core/src/a.rs\n--- is\n\
                        queue\n    .first()\n--- instead\nqueue.last()\n";

    fn edit(is: &str, instead: &str) -> Edit {
        let text = format!("It is wrong.\ncrates/core/src/a.rs\n{IS}\n{is}\n{INSTEAD}\n{instead}");
        Edit::parse("bug", &text).expect("an edit")
    }

    #[test]
    fn an_edit_says_what_is_wrong_and_where_and_how() {
        let edit = Edit::parse("lifo", LIFO).expect("an edit");
        assert_eq!(edit.what, "The last one is first.");
        assert_eq!(edit.file, "crates/core/src/a.rs");
        assert_eq!(
            (edit.is.as_str(), edit.instead.as_str()),
            ("queue\n    .first()", "queue.last()")
        );
        for part in ["--- is", "--- instead", "The last one\nis first.\n", "queue\n    .first()"] {
            let without = LIFO.replace(part, "");
            Edit::parse("lifo", &without).expect_err(part);
        }
    }

    #[test]
    fn an_edit_is_found_however_its_place_is_formatted_and_only_if_it_is_there_once() {
        let edit = Edit::parse("lifo", LIFO).expect("an edit");
        assert_eq!(edit.place("let a = queue .first();"), Ok(8..22));
        assert_eq!(edit.place("queue\n.first()\n"), Ok(0..14));
        assert!(edit.place("queue.first()").is_err(), "other words");
        let twice = edit.place("queue .first() + queue .first()");
        assert!(twice.is_err_and(|why| why.contains("twice")));
        assert!(edit.place("").is_err_and(|why| why.contains("not in")));
    }

    #[test]
    fn a_planted_bug_is_a_choice_between_what_is_and_what_is_instead() {
        let expression = edit("a > b", "true");
        let planted = plant(&[&expression], "let c = a\n    > b && d;");
        let expected =
            "let c = (if crate::planted::on(\"bug\") { true } else { a\n    > b }) && d;";
        assert_eq!(planted.as_deref(), Ok(expected));
        let statement = edit("drop(a);", "");
        let planted = plant(&[&statement], "{ drop(a); }");
        let expected = "{ if crate::planted::on(\"bug\") {  } else { drop(a); } }";
        assert_eq!(planted.as_deref(), Ok(expected));
        let elsewhere = Edit { file: "crates/taketurns/src/a.rs".to_owned(), ..expression };
        assert!(elsewhere.switched("a").contains("taketurns_core::planted::on"));
    }

    #[test]
    fn several_bugs_go_into_one_file_but_not_into_one_place() {
        let (first, second) = (edit("1 + 1", "3"), edit("2", "4"));
        let planted = plant(&[&second, &first], "1 + 1 == 2").expect("two bugs");
        assert!(planted.contains("{ 3 }") && planted.contains("{ 4 }"), "{planted}");
        let third = edit("1 == 2", "true");
        assert!(plant(&[&first, &third], "1 + 1 == 2").is_err());
    }
}
