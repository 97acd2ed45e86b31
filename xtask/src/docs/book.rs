//! What mdBook reads: a copy of every page at its own path, what the pages show and lead to, and two pages that are
//! made here, of the program's help and of the API's crates.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::CRATES;
use crate::dist::files::in_file;
use crate::dist::output;

const SUMMARY: &str = "docs/SUMMARY.md";

/// The page of the summary after which the pages that are made here come.
const REFERENCE: &str = "docs/README.md";

/// Files that a browser shows as they are. A page is made of any other file that a page leads to.
const ASSETS: [&str; 3] = ["json", "png", "svg"];

/// Writes the book into `work`.
pub(super) fn write(root: &Path, program: &Path, work: &Path) -> Result<(), String> {
    for file in ["book.toml", "book.css"] {
        let from = root.join("docs").join(file);
        fs::copy(&from, work.join(file)).map_err(in_file(&from))?;
    }
    let mut book = Book::read(root)?;
    for page in book.pages.clone() {
        let text = book.text(&page)?;
        let text = themed(&book.with_links(&page, &text)?);
        put(work, &page, &text)?;
    }
    for file in &book.files {
        put(work, &page_of(file), &listing(root, file)?)?;
    }
    for asset in &book.assets {
        let to = work.join("src").join(asset);
        fs::create_dir_all(to.parent().unwrap_or(work)).map_err(in_file(&to))?;
        fs::copy(root.join(asset), &to).map_err(in_file(&to))?;
    }
    put(work, "commands.md", &commands(program)?)?;
    put(work, "api.md", &api())?;
    put(work, "SUMMARY.md", &book.summary()?)
}

fn put(work: &Path, path: &str, text: &str) -> Result<(), String> {
    let path = work.join("src").join(path);
    fs::create_dir_all(path.parent().unwrap_or(work)).map_err(in_file(&path))?;
    fs::write(&path, text).map_err(in_file(&path))
}

/// The pages of the manual, and what they need beside them. Paths are those in the repository.
struct Book {
    root: PathBuf,
    pages: Vec<String>,
    /// Pictures and data.
    assets: BTreeSet<String>,
    /// Other files and folders that pages lead to.
    files: BTreeSet<String>,
}

impl Book {
    fn read(root: &Path) -> Result<Self, String> {
        let mut book = Self {
            root: root.to_owned(),
            pages: Vec::new(),
            assets: BTreeSet::new(),
            files: BTreeSet::new(),
        };
        let summary = book.text(SUMMARY)?;
        let targets = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        book.pages = targets.map(|(target, _)| in_repository(SUMMARY, target)).collect();
        Ok(book)
    }

    fn text(&self, path: &str) -> Result<String, String> {
        let path = self.root.join(path);
        fs::read_to_string(&path).map_err(in_file(&path))
    }

    /// The summary as seen from the root, with the pages that are made here.
    fn summary(&self) -> Result<String, String> {
        let mut summary = String::new();
        for line in self.text(SUMMARY)?.lines() {
            let Some((before, target)) = line.split_once("](") else {
                summary.extend([line, "\n"]);
                continue;
            };
            let target = in_repository(SUMMARY, target.trim_end_matches(')'));
            summary.push_str(&format!("{before}]({target})\n"));
            if target == REFERENCE {
                summary.push_str("- [Commands](commands.md)\n- [The Rust API](api.md)\n");
            }
        }
        for file in &self.files {
            summary.push_str(&format!("- [{file}]({})\n", page_of(file)));
        }
        Ok(summary)
    }

    /// The page's text, with links to pages that are made of files where it links to files.
    fn with_links(&mut self, page: &str, text: &str) -> Result<String, String> {
        let mut done = String::with_capacity(text.len());
        let mut is_inside = false;
        for line in text.split_inclusive('\n') {
            let is_fence = line.trim_start().starts_with("```");
            is_inside ^= is_fence;
            if is_fence || is_inside {
                done.push_str(line);
            } else {
                done.push_str(&self.line_with_links(page, line)?);
            }
        }
        Ok(done)
    }

    fn line_with_links(&mut self, page: &str, line: &str) -> Result<String, String> {
        let mut done = line.to_owned();
        for (start, end) in [("](", ")"), ("src=\"", "\""), ("srcset=\"", "\""), ("]: ", "\n")] {
            if start == "]: " && !line.starts_with('[') {
                continue;
            }
            for rest in line.split(start).skip(1) {
                let target = rest.split_once(end).map_or(rest, |(target, _)| target);
                if let Some(other) = self.other_target(page, target)? {
                    let [old, new] = [target, &other].map(|target| format!("{start}{target}{end}"));
                    done = done.replace(&old, &new);
                }
            }
        }
        Ok(done)
    }

    /// Where a link leads in the book, if not to where it leads in the repository. Notes what the book needs for it.
    fn other_target(&mut self, page: &str, target: &str) -> Result<Option<String>, String> {
        let file = target.split('#').next().unwrap_or_default();
        if file.is_empty() || target.contains("://") {
            return Ok(None);
        }
        let path = in_repository(page, file);
        if self.pages.contains(&path) {
            // mdBook makes an index of each README, but does not follow links to it.
            return Ok(path
                .ends_with("README.md")
                .then(|| target.replace("README.md", "index.md")));
        }
        if !self.root.join(&path).exists() {
            return Err(format!("==> {page}: {target} leads nowhere"));
        }
        if ASSETS.iter().any(|asset| path.ends_with(&format!(".{asset}"))) {
            self.assets.insert(path);
            return Ok(None);
        }
        let up = "../".repeat(page.matches('/').count());
        let other = format!("{up}{}", page_of(&path));
        self.files.insert(path);
        Ok(Some(other))
    }
}

/// The path in the repository that a link from a page leads to.
fn in_repository(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !["", "."].contains(part)) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The page that is made of a file or a folder.
fn page_of(file: &str) -> String {
    format!("files/{file}.md")
}

/// A file, or each file of a folder, as a page.
fn listing(root: &Path, file: &str) -> Result<String, String> {
    let path = root.join(file);
    let mut page = format!("# {file}\n");
    if !path.is_dir() {
        return Ok(page + &block(&path)?);
    }
    let entries = fs::read_dir(&path).map_err(in_file(&path))?;
    let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    for entry in entries.iter().filter(|entry| entry.is_file()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        page.push_str(&format!("\n## {name}\n{}", block(entry)?));
    }
    Ok(page)
}

fn block(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(in_file(path))?;
    let language =
        if path.extension().is_some_and(|extension| extension == "rs") { "rust" } else { "text" };
    Ok(format!("\n````{language}\n{}\n````\n", text.trim_end()))
}

/// A picture that has a version for each theme of the machine becomes two, and the theme of the book chooses.
fn themed(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut dark = None;
    for line in text.lines() {
        let word = line.trim();
        if let Some(source) =
            word.strip_prefix("<source media=\"(prefers-color-scheme: dark)\" srcset=\"")
        {
            dark = source.split('"').next();
        } else if let (Some(dark), Some(rest)) = (dark, word.strip_prefix("<img ")) {
            let light = rest.split("src=\"").nth(1).and_then(|rest| rest.split('"').next());
            let other = rest.replace(light.unwrap_or_default(), dark);
            done.push_str(&format!(
                "<img class=\"only-light\" {rest}\n<img class=\"only-dark\" {other}\n"
            ));
        } else if word == "</picture>" {
            dark = None;
        } else if word != "<picture>" {
            done.extend([line, "\n"]);
        }
    }
    done
}

/// The help of the program, and of each of its commands.
fn commands(program: &Path) -> Result<String, String> {
    let help = |args: &[&str]| output(Command::new(program).args(args).env("COLUMNS", "100"));
    let all = help(&["--help"])?;
    let names = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names: Vec<&str> = names
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty())
        })
        .filter(|name| *name != "help")
        .collect();
    let mut page = format!("# Commands\n\n```text\n{}\n```\n", all.trim_end());
    for name in names {
        let help = help(&["help", name])?;
        page.push_str(&format!("\n## taketurns {name}\n\n```text\n{}\n```\n", help.trim_end()));
    }
    Ok(page)
}

fn api() -> String {
    let mut page = "# The Rust API\n\n| crate | what is in it |\n|---|---|\n".to_owned();
    for (name, what) in CRATES {
        page.push_str(&format!("| [`{name}`](api/{name}/index.html) | {what} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_path_of_the_repository() {
        assert_eq!(in_repository("README.md", "docs/cron.md"), "docs/cron.md");
        assert_eq!(in_repository("docs/protocols/plain.md", "../../SECURITY.md"), "SECURITY.md");
        assert_eq!(in_repository("docs/a.md", "./b.md"), "docs/b.md");
    }

    #[test]
    fn a_link_to_a_file_becomes_a_link_to_a_page_and_a_link_to_nothing_is_an_error() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("docs")).expect("made");
        for file in ["LICENSE", "docs/SUMMARY.md", "docs/a.svg"] {
            fs::write(root.path().join(file), "[b](b.md)\n").expect("written");
        }
        let mut book = Book::read(root.path()).expect("a summary");
        let text = "[l](../LICENSE) [b](b.md#c) ![a](a.svg)\n```\n[x](y)\n```\n[l]: ../LICENSE\n";
        let expected = "[l](../files/LICENSE.md) [b](b.md#c) ![a](a.svg)\n```\n[x](y)\n```\n\
                        [l]: ../files/LICENSE.md\n";
        assert_eq!(book.with_links("docs/b.md", text).as_deref(), Ok(expected));
        assert_eq!(book.assets, BTreeSet::from(["docs/a.svg".to_owned()]));
        assert_eq!(
            book.summary().as_deref(),
            Ok("[b](docs/b.md)\n- [LICENSE](files/LICENSE.md)\n")
        );
        let wrong = book.with_links("docs/b.md", "[c](c.md)\n").expect_err("nothing is there");
        assert!(wrong.contains("docs/b.md: c.md leads nowhere"), "{wrong}");
    }

    #[test]
    fn a_picture_has_a_version_for_each_theme() {
        let text = "a\n<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"d.png\">\n  \
                    <img alt=\"b\" src=\"l.png\" width=\"7\">\n</picture>\n";
        let expected = "a\n<img class=\"only-light\" alt=\"b\" src=\"l.png\" width=\"7\">\n\
                        <img class=\"only-dark\" alt=\"b\" src=\"d.png\" width=\"7\">\n";
        assert_eq!(themed(text), expected);
    }
}
