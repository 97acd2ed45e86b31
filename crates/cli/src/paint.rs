//! Colours, at a terminal and nowhere else, and not where NO_COLOR is set.

use std::io::{self, IsTerminal};

/// What a piece of text is to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Good,
    Warn,
    Bad,
    Dim,
    Bold,
}

/// Colours text, or leaves it as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) on: bool,
}

impl Paint {
    /// For what goes to stdout.
    pub(crate) fn stdout() -> Self {
        let unwanted = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { on: io::stdout().is_terminal() && !unwanted("NO_COLOR") && !dumb }
    }

    pub(crate) fn ink(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "31",
            Ink::Dim => "2",
            Ink::Bold => "1",
        };
        if !self.on || text.is_empty() {
            text.to_owned()
        } else {
            format!("\x1b[{code}m{text}\x1b[0m")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_coloured_only_where_that_is_wanted() {
        assert_eq!(Paint { on: true }.ink(Ink::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint { on: false }.ink(Ink::Bad, "x"), "x");
        assert_eq!(Paint { on: true }.ink(Ink::Bold, ""), "", "nothing has no colour");
    }
}
