//! Checks `docs/module.md`: runs everything that it shows, from top to bottom on one server, and compares the output
//! with the page. Secrets, tokens and times differ: a long number on the page stands for the real number that came in
//! its place, here and wherever the page repeats it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use taketurns_servers::{Flavor, Server, ServerReply, clients, module_path, on_both};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../../../docs/module.md");
/// The paths of the module and the server on the page.
const MODULE: &str = "/usr/lib/redis/modules/libtaketurns_module.so";
const PORT: &str = "6379";
/// Only secrets and tokens have this many digits.
const LONG: usize = 13;

/// A fenced block, and the word after its first fence.
struct Block<'a> {
    language: &'a str,
    text: String,
}

fn blocks() -> Vec<Block<'static>> {
    let mut blocks: Vec<Block<'static>> = Vec::new();
    let mut open = false;
    for line in PAGE.lines() {
        match (line.strip_prefix("```"), open) {
            (Some(language), false) => blocks.push(Block { language, text: String::new() }),
            (None, true) => {
                let block = blocks.last_mut().expect("an open one");
                block.text.extend([line, "\n"]);
            }
            _ => {}
        }
        open ^= line.starts_with("```");
    }
    assert!(!open, "the last block has an end");
    blocks
}

/// A server, set up as a reader of the page would have it.
struct Reader {
    server: Server,
    /// The working directory. Its `bin/redis-cli` connects to that server.
    folder: TempDir,
    /// The real numbers for the numbers on the page.
    numbers: HashMap<String, String>,
}

impl Reader {
    fn new(flavor: Flavor) -> Self {
        let server = Server::builder(flavor).args(["--enable-module-command", "yes"]).start();
        let server = server.expect("a server");
        let folder = tempfile::tempdir().expect("a folder");
        symlink(module_path().expect("the module"), folder.path().join("module.so")).expect("made");
        let cli = server.redis_cli();
        let words = [cli.get_program()].into_iter().chain(cli.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().expect("text")).collect();
        let path = std::env::var("PATH").expect("a path");
        // As at a terminal, if FORM says so.
        let script = format!("#!/bin/sh\nPATH='{path}'\nexec {} $FORM \"$@\"\n", words.join(" "));
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).expect("made");
        fs::write(bin.join("redis-cli"), script).expect("written");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bin.join("redis-cli"), mode).expect("changed");
        Self { server, folder, numbers: HashMap::new() }
    }

    /// Prepares a shell for this text.
    fn shell(&self, text: &str, form: &str) -> Command {
        let module = self.folder.path().join("module.so");
        let text = text.replace(MODULE, module.to_str().expect("text"));
        let bin = self.folder.path().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
        let mut command = Command::new("sh");
        command.args(["-c", &text]).env("PATH", path).env("FORM", form);
        command
    }

    /// Returns the output of a command.
    fn said(&self, mut command: Command) -> String {
        let output = command.current_dir(self.folder.path()).output().expect("it is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.is_empty(), "{command:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Types what the page types at a shell, and compares the output.
    fn console(&mut self, text: &str) {
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut typed = line.strip_prefix("$ ").expect("a command").to_owned();
            while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
                typed = typed + "\n" + &more["> ".len()..];
            }
            let mut expected = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                expected.extend([line, "\n"]);
            }
            let typed = self.with_numbers(&typed);
            let said = self.said(self.shell(&typed, "--no-raw"));
            self.compare(&typed, &expected, &said);
        }
    }

    /// Returns a program from the page, with the test's port.
    fn program(&self, language: &str, text: &str) -> String {
        let none: [&str; 0] = [];
        let here = text.replace(PORT, &self.server.port().to_string());
        let command = match language {
            "sh" => self.shell(text, ""),
            "python" => clients::python(&here, none).expect("redis-py"),
            _ => clients::node(&here, none).expect("ioredis"),
        };
        self.said(command)
    }

    fn with_numbers(&self, typed: &str) -> String {
        let known = |number: &str| {
            let number = self.numbers.get(number);
            number.expect("no number is typed that was not seen before").clone()
        };
        let runs = runs(typed).into_iter();
        runs.map(|run| if is_long(run) { known(run) } else { run.to_owned() }).collect()
    }

    fn compare(&mut self, what: &str, expected: &str, said: &str) {
        let shortened = shortened(expected, said);
        let (expected_runs, said_runs) = (runs(expected), runs(&shortened));
        let mut alike = expected_runs.len() == said_runs.len();
        let mut before = "";
        for (expected, said) in expected_runs.into_iter().zip(said_runs) {
            alike &= match () {
                () if is_long(expected) => is_long(said) && self.stands_for(expected, said),
                () if before.ends_with("_ms\" => (integer) ") => is_digits(said),
                () => expected == said,
            };
            before = expected;
        }
        assert!(alike, "{what}\nthe page says:\n{expected}\nit says:\n{said}");
    }

    /// Checks that a number on the page always stands for the same real number, and different ones for different ones.
    fn stands_for(&mut self, number: &str, said: &str) -> bool {
        if let Some(known) = self.numbers.get(number) {
            return known == said;
        }
        let is_new = self.numbers.values().all(|known| known != said);
        self.numbers.insert(number.to_owned(), said.to_owned());
        is_new
    }
}

fn is_digits(run: &str) -> bool {
    run.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_long(run: &str) -> bool {
    run.len() >= LONG && is_digits(run)
}

/// Leaves out what the page leaves out: spaces at the end of a line, and what `…` stands for.
fn shortened(expected: &str, said: &str) -> String {
    let mut expected = expected.lines();
    let mut line = |said: &str| {
        let start = expected.next().and_then(|line| line.strip_suffix('…'));
        match start.filter(|start| said.starts_with(*start)) {
            Some(start) => format!("{start}…\n"),
            None => format!("{said}\n"),
        }
    };
    said.lines().map(str::trim_end).map(&mut line).collect()
}

/// Splits a text into runs of digits and the text between them.
fn runs(text: &str) -> Vec<&str> {
    text.as_bytes()
        .chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit())
        .map(|run| str::from_utf8(run).expect("cut beside a digit"))
        .collect()
}

on_both! {
    fn what_the_page_shows_is_what_comes(flavor: Flavor) {
        let mut reader = Reader::new(flavor);
        let blocks = blocks();
        let mut blocks = blocks.iter().peekable();
        while let Some(Block { language, text }) = blocks.next() {
            match *language {
                "console" => reader.console(text),
                "sh" | "python" | "js" => {
                    let said = reader.program(language, text);
                    let expected = blocks.next_if(|next| next.language == "text");
                    let expected = expected.expect("what it prints is behind it");
                    reader.compare(text, &expected.text, &said);
                }
                // Has its own test.
                "conf" => {}
                _ => panic!("nobody tries this, marked as {language:?}:\n{text}"),
            }
        }
    }

    fn the_lines_that_load_it_are_what_a_server_takes(flavor: Flavor) {
        let conf: Vec<_> = blocks().into_iter().filter(|block| block.language == "conf").collect();
        let lines: Vec<_> = conf.iter().flat_map(|block| block.text.lines()).collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            let args = line.strip_prefix("loadmodule ").and_then(|rest| rest.strip_prefix(MODULE));
            let args: Vec<_> = args.expect("a path").split_whitespace().collect();
            let module = module_path().expect("the module");
            let name = Path::new(MODULE).file_name();
            assert_eq!(module.file_name(), name, "the page calls it as it is built");
            let server = Server::builder(flavor).module(&module, &args).start().expect("a server");
            let reply = server.cli(&["FENCELOCK.ACQUIRE", "lk:job", "30"]);
            if args.contains(&"quarantine") {
                assert!(reply.error().is_some_and(|error| error.starts_with("QUARANTINED ")));
            } else {
                assert_eq!(reply.array().map(<[ServerReply]>::len), Some(2), "{reply}");
            }
        }
    }

    fn every_command_and_every_figure_is_on_the_page(flavor: Flavor) {
        let module = module_path().expect("the module");
        let server = Server::builder(flavor).module(&module, &[]).start().expect("a server");
        let list = server.cli(&["COMMAND", "LIST", "FILTERBY", "MODULE", "fencelock"]);
        let commands: Vec<_> = list.array().expect("commands").iter().collect();
        assert_eq!(commands.len(), 15);
        for command in commands.into_iter().map(|command| command.text().expect("a name")) {
            let command = command.to_uppercase();
            let short = command.trim_start_matches("FENCELOCK.");
            let ways = [format!("`{command}"), format!("| `{short} "), format!("| `{short}`")];
            assert!(ways.iter().any(|way| PAGE.contains(way)), "{command}");
        }
        let info = server.info("fencelock");
        assert!(info.len() > 10, "{info:?}");
        for name in info.keys().map(|name| name.trim_start_matches("fencelock_")) {
            assert!(PAGE.contains(&format!("`{name}`")), "{name}");
        }
    }
}
