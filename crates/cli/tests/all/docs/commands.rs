//! Commands that a page names and the tests don't run: in sentences and tables, in crontabs and units. The program must
//! have them.

use std::process::Command;

use crate::docs::page::{self, Page, prose};
use crate::docs::place::PROGRAM;

/// What is before a command where it is not code in a sentence.
const BEFORE: [&str; 2] = ["* * *  ", "ExecStart=/usr/local/bin/"];

/// The program's own part of each command that a text names: what it is to run, behind `--`, is not ours.
fn commands(page: &Page) -> Vec<String> {
    let prose = prose(&page.text);
    // What is between every other pair of backticks.
    let spans = prose.split('`').skip(1).step_by(2).map(str::to_owned);
    let blocks = page.blocks().into_iter().filter(|block| block.language == "text");
    let lines = blocks.flat_map(|block| {
        let after = |line: &str| {
            BEFORE.iter().find_map(|before| Some(line.split_once(before)?.1.to_owned()))
        };
        block.text.lines().filter_map(after).collect::<Vec<_>>()
    });
    let ours = |text: String| {
        let text = text.replace('\n', " ");
        let args = text.strip_prefix("taketurns ")?;
        Some(args.split(" -- ").next().unwrap_or_default().to_owned())
    };
    spans.chain(lines).filter_map(ours).filter(|args| !args.starts_with("help ")).collect()
}

#[test]
fn every_command_that_a_page_names_is_one_that_the_program_has() {
    let mut named = 0;
    for page in page::all().iter().map(|path| Page::read(path)) {
        for args in commands(&page) {
            let mut shell = Command::new("bash");
            // As the last word it is asked for when all before it made sense.
            shell.args(["-c", &format!("exec \"$0\" {args} --help"), PROGRAM]);
            let output = shell.output().expect("bash");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: taketurns {args}: {said}", page.path);
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
}

#[test]
fn a_command_is_found_in_a_sentence_a_crontab_and_a_unit() {
    let text = "Say `taketurns run -n a -- b` or `taketurns::fence` or `taketurns\nls`.\n```text\n\
                30 2 * * *  taketurns run c -- d\nExecStart=/usr/local/bin/taketurns run e\n\
                a taketurns run\n```\n";
    let page = Page { path: String::new(), text: text.to_owned() };
    assert_eq!(commands(&page), ["run -n a", "ls", "run c", "run e"]);
}
