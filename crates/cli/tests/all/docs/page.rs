//! A page of the manual, split into the blocks that a reader types and the rest. Nothing is run here.

use std::fs;
use std::path::{Path, PathBuf};

/// The languages of blocks that the tests run. A block that they don't run is `text`.
const RUN: [&str; 5] = ["sh", "bash", "console", "python", "js"];

/// What stands between two fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The word behind the first fence.
    pub(crate) language: String,
    /// The line of the page that the first fence is on, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Block {
    pub(crate) fn is_to_be_run(&self) -> bool {
        RUN.contains(&self.language.as_str())
    }
}

/// A page, by its path from the root of the repository.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path));
        Self { path: path.to_owned(), text: text.unwrap_or_else(|error| panic!("{path}: {error}")) }
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        blocks(&self.text).unwrap_or_else(|line| panic!("{}:{line}: it has no end", self.path))
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The order of the pages in the site: a list of links, and no page.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// All pages of the manual.
pub(crate) fn all() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of the manual") {
            let entry = entry.expect("an entry");
            let path = format!("{folder}/{}", entry.file_name().to_str().expect("a plain name"));
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") && path != SUMMARY {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The blocks of a text, or the line on which one begins that has no end. A block in a list is indented,
/// and so are its lines.
fn blocks(text: &str) -> Result<Vec<Block>, usize> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (line, number) in text.lines().zip(1..) {
        let indent = line.len() - line.trim_start().len();
        let fence = line.trim_start().strip_prefix("```");
        open = match (open, fence) {
            (None, None) => None,
            (None, Some(info)) => {
                let language = info.split([',', ' ']).next().unwrap_or_default().to_owned();
                Some((indent, Block { language, line: number, text: String::new() }))
            }
            (Some((_, block)), Some("")) => {
                blocks.push(block);
                None
            }
            (Some((indent, mut block)), _) => {
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
                Some((indent, block))
            }
        };
    }
    open.map_or(Ok(blocks), |(_, block)| Err(block.line))
}

/// The text without its blocks.
pub(crate) fn prose(text: &str) -> String {
    let mut is_inside = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if !is_fence && !is_inside {
            prose.extend([line, "\n"]);
        }
        is_inside ^= is_fence;
    }
    prose
}

/// Counts the lines that look like the beginning of a block to run, in the simplest way.
pub(crate) fn count(text: &str) -> usize {
    let starts =
        |line: &&str| RUN.iter().any(|word| line.trim().starts_with(&format!("```{word}")));
    text.lines().filter(starts).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_language_a_line_and_its_text() {
        let text =
            "a\n```sh\none\n\ntwo\n```\nb\n- c\n\n  ```rust,no_run\n  three\n    four\n  ```\n";
        let block = |language: &str, line, text: &str| Block {
            language: language.to_owned(),
            line,
            text: text.to_owned(),
        };
        let expected = [block("sh", 2, "one\n\ntwo\n"), block("rust", 10, "three\n  four\n")];
        assert_eq!(blocks(text).expect("they end"), expected);
        assert!(expected[0].is_to_be_run() && !expected[1].is_to_be_run());
        assert_eq!(count(text), 1);
    }

    #[test]
    fn a_block_without_an_end_is_told_by_its_line() {
        assert_eq!(blocks("```\n```\n\n```sh\nls\n"), Err(4));
    }

    #[test]
    fn prose_is_what_is_in_no_block() {
        assert_eq!(prose("# a\n```sh\n# b\n```\nc\n"), "# a\nc\n");
    }

    #[test]
    fn what_can_be_run_is_counted_however_it_is_written() {
        assert_eq!(count("```sh\n```\n  ```console\n```text\n```bash\n```rust\n"), 3);
    }
}
