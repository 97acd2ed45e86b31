//! What a page says that comes, and what came. `…` on the page stands for what differs from one time to the
//! next: a line of nothing else for any lines, or none, and inside a line for any words.

const ANY: char = '…';

/// What is typed at a prompt, and what the page shows behind it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The line of it, from 1.
    pub(crate) line: usize,
    pub(crate) command: String,
    /// Nothing if the page shows nothing: then nothing is compared.
    pub(crate) expected: String,
}

/// Cuts what a terminal shows into commands, each with what it printed. `None` if it begins with something
/// else than a prompt.
pub(crate) fn typed(console: &str) -> Option<Vec<Typed>> {
    let mut all: Vec<Typed> = Vec::new();
    for (text, line) in console.lines().zip(1..) {
        if let Some(command) = text.strip_prefix("$ ") {
            all.push(Typed { line, command: format!("{command}\n"), expected: String::new() });
            continue;
        }
        let last = all.last_mut()?;
        match text.strip_prefix("> ") {
            Some(more) if last.expected.is_empty() => last.command.extend([more, "\n"]),
            _ => last.expected.extend([text, "\n"]),
        }
    }
    Some(all)
}

/// Is this what the page said? Spaces at the end of a line don't count, nor do empty lines at the end.
pub(crate) fn is_as_expected(expected: &str, came: &str) -> bool {
    let lines =
        |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    are_lines(&lines(expected.trim_end()), &lines(came.trim_end()))
}

fn are_lines(expected: &[String], came: &[String]) -> bool {
    match expected.split_first() {
        None => came.is_empty(),
        Some((line, rest)) if line.trim() == ANY.to_string() => {
            (0..=came.len()).any(|skipped| are_lines(rest, &came[skipped..]))
        }
        Some((line, rest)) => {
            let first = came.split_first();
            first.is_some_and(|(one, others)| is_line(line, one) && are_lines(rest, others))
        }
    }
}

fn is_line(expected: &str, came: &str) -> bool {
    match expected.split_once(ANY) {
        None => expected == came,
        Some((start, rest)) => came.strip_prefix(start).is_some_and(|came| {
            came.char_indices()
                .map(|(at, _)| at)
                .chain([came.len()])
                .any(|at| is_line(rest, &came[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_read_as_commands_and_what_they_print() {
        let typed = typed("$ a\n$ cat <<END\n> b\n> END\nb\n> c\n").expect("a prompt");
        let one = |line, command: &str, expected: &str| Typed {
            line,
            command: command.to_owned(),
            expected: expected.to_owned(),
        };
        assert_eq!(typed, [one(1, "a\n", ""), one(2, "cat <<END\nb\nEND\n", "b\n> c\n")]);
        assert_eq!(super::typed("a\n$ b\n"), None);
    }

    #[test]
    fn an_ellipsis_stands_for_words_in_a_line_or_for_lines() {
        let yes = [
            ("a\nb\n", "a \nb\n\n"),
            ("a …\n", "a b c\n"),
            ("a … c\n", "a b c c\n"),
            ("…\nz\n", "x\ny\nz\n"),
            ("a\n…\n", "a\n"),
        ];
        let no = [
            ("a\n", "b\n"),
            ("a\n", "a\nb\n"),
            ("a\nb\n", "a\n"),
            ("a … c\n", "a b\n"),
            ("a…\n", "b\na\n"),
            ("…\nz\n", "x\ny\n"),
        ];
        for (expected, came) in yes {
            assert!(is_as_expected(expected, came), "{expected:?} {came:?}");
        }
        for (expected, came) in no {
            assert!(!is_as_expected(expected, came), "{expected:?} {came:?}");
        }
    }
}
