//! One shell per page, which is given the page's blocks from top to bottom, as somebody would type them
//! who reads it: variables, files and what runs in the background stay from one block to the next.
//!
//! What a block prints goes into a file of its own, so that what is left in the background can't hold anybody up.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use taketurns_servers::PATIENCE;

use crate::docs::expect::{self, is_as_expected};
use crate::docs::page::{Block, Page};
use crate::docs::place::Place;

/// What ends a program in another language that a shell is given. No page has it in a line of its own.
const END: &str = "END OF THE BLOCK";

/// One thing that is typed: a block of a script, or a command at a prompt.
struct Step {
    /// Of the page.
    line: usize,
    text: String,
    /// What is to come, if the page says so.
    expected: String,
    /// A script ends when something fails. At a prompt one sees it, and goes on.
    is_script: bool,
}

/// Types what a page says, and says how many of its blocks that were.
pub(crate) fn run(page: &Page) -> usize {
    let blocks: Vec<Block> = page.blocks().into_iter().filter(Block::is_to_be_run).collect();
    if blocks.is_empty() {
        return 0;
    }
    let place = Place::for_page(&page.text);
    let steps: Vec<Step> = blocks.iter().flat_map(|block| steps(block, page, &place)).collect();
    let notes = place.notes();
    let script = script(&steps, &notes);
    let shell = Shell::start(place.command("bash").args(["-c", &script]));
    let ended = shell.wait(&notes);
    for (number, step) in steps.iter().enumerate() {
        let complaint = complaint(step, &notes, number, ended);
        if let Some(complaint) = complaint {
            panic!("{}:{}: {complaint}\n--- typed:\n{}", page.path, step.line, step.text);
        }
    }
    blocks.len()
}

fn steps(block: &Block, page: &Page, place: &Place) -> Vec<Step> {
    let (path, line) = (&page.path, block.line);
    let here = place.with_addresses(&block.text);
    if let Some(word) = here.split_whitespace().find(|word| word.contains(".example")) {
        panic!("{path}:{line}: nothing stands behind {word}; place.rs has what does");
    }
    let script = match block.language.as_str() {
        "console" => None,
        "python" => Some(format!("python3 - <<'{END}'\n{here}{END}\n")),
        "js" => Some(format!("node - <<'{END}'\n{here}{END}\n")),
        _ => Some(here.clone()),
    };
    if let Some(text) = script {
        return vec![Step { line, text, expected: String::new(), is_script: true }];
    }
    let typed = expect::typed(&here);
    let typed = typed.unwrap_or_else(|| panic!("{path}:{line}: it begins with no prompt"));
    let step = |typed: expect::Typed| Step {
        line: line + typed.line,
        text: typed.command,
        expected: typed.expected,
        is_script: false,
    };
    typed.into_iter().map(step).collect()
}

/// Every step notes what it prints, that it began by having a file for that, and with which code it ended.
fn script(steps: &[Step], notes: &Path) -> String {
    let mut script = "set -uo pipefail\n".to_owned();
    for (number, step) in steps.iter().enumerate() {
        let [said, code] = files(notes, number).map(|file| file.display().to_string());
        let mode = if step.is_script { "set -e" } else { "set +e" };
        script.push_str(&format!("{mode}\n{{\n{}}} >{said} 2>&1\necho $? >{code}\n", step.text));
    }
    script
}

fn files(notes: &Path, number: usize) -> [PathBuf; 2] {
    ["said", "code"].map(|what| notes.join(format!("{number}.{what}")))
}

/// What is wrong with a step that was typed, or was not. `ended` is how the shell did.
fn complaint(step: &Step, notes: &Path, number: usize, ended: Option<i32>) -> Option<String> {
    let [said, code] = files(notes, number).map(|file| fs::read(file).ok());
    let Some(said) = said else {
        return Some(format!("it was not run: the shell ended before, with {ended:?}"));
    };
    let said = String::from_utf8_lossy(&said);
    let Some(code) = code else {
        return Some(match ended {
            None => format!("it hangs, and has said\n{said}"),
            Some(code) => format!("it failed with {code}, and said\n{said}"),
        });
    };
    let expected = &step.expected;
    if expected.is_empty() {
        let code = String::from_utf8_lossy(&code);
        return (code.trim() != "0").then(|| format!("it failed with {code}, and said\n{said}"));
    }
    (!is_as_expected(expected, &said))
        .then(|| format!("the page says\n{expected}--- but it says\n{said}"))
}

/// How many notes there are, and how long they are together.
fn noted(notes: &Path) -> (usize, u64) {
    let files = fs::read_dir(notes).expect("a folder").map_while(Result::ok);
    let lengths = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    lengths.fold((0, 0), |(files, bytes), length| (files + 1, bytes + length))
}

/// A shell and all that it starts. Killed when dropped.
struct Shell {
    child: Child,
}

impl Shell {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        Self { child: command.spawn().expect("bash") }
    }

    /// How it ended: with which code, or not at all. It hangs if nothing is added to its notes for long.
    fn wait(mut self, notes: &Path) -> Option<i32> {
        let (mut noted, mut since) = (noted(notes), Instant::now());
        while since.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return Some(status.code().unwrap_or(-1));
            }
            sleep(Duration::from_millis(10));
            let now = self::noted(notes);
            if now != noted {
                (noted, since) = (now, Instant::now());
            }
        }
        None
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a page.
    fn outcome(text: &str) -> Result<usize, String> {
        let page = Page { path: "a.md".to_owned(), text: text.to_owned() };
        std::panic::catch_unwind(|| run(&page))
            .map_err(|panic| panic.downcast_ref::<String>().expect("a message").clone())
    }

    #[test]
    fn a_page_that_is_true_is_run_in_one_shell() {
        let page = "```sh\na=1\n```\n```text\nfalse\n```\n```console\n$ echo $a\n1\n$ b=2\n```\n\
                    ```bash\ntest $a$b = 12\n```\n";
        assert_eq!(outcome(page), Ok(3));
    }

    #[test]
    fn a_block_that_fails_is_named_with_its_page_and_line() {
        let said =
            outcome("a\n\n```sh\ntrue\n```\n```sh\necho why; false\ntrue\n```\n").unwrap_err();
        assert!(said.starts_with("a.md:6: it failed with 1, and said\nwhy\n"), "{said}");
    }

    #[test]
    fn a_block_that_ends_the_shell_early_leaves_the_next_one_out_and_that_is_told() {
        let said = outcome("```sh\nexit 0\n```\n```sh\ntrue\n```\n").unwrap_err();
        assert!(said.starts_with("a.md:1: it failed with 0"), "{said}");
    }

    #[test]
    fn what_comes_is_compared_with_the_page() {
        let said = outcome("```console\n$ true\n$ echo a\nb\n```\n").unwrap_err();
        assert!(said.starts_with("a.md:3: the page says\nb\n--- but it says\na\n"), "{said}");
        let said = outcome("```console\n$ false\n```\n").unwrap_err();
        assert!(said.starts_with("a.md:2: it failed with 1"), "{said}");
    }

    #[test]
    fn an_address_that_nothing_stands_behind_is_told() {
        let said = outcome("```sh\necho redis://nobody.example\n```\n").unwrap_err();
        assert!(said.contains("nothing stands behind redis://nobody.example"), "{said}");
    }
}
