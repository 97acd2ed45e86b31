//! mdBook: the one on the path or in the target directory, or one that is installed there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{cargo, succeeds};

/// The version that is installed, and the start of the versions that are good enough.
const VERSION: &str = "0.5.4";
const SERIES: &str = "mdbook v0.5.";

/// Finds mdBook, or installs it into `tools`.
pub(super) fn find(tools: &Path, may_install: bool) -> Result<PathBuf, String> {
    let own = tools.join("bin/mdbook");
    if let Some(found) = [PathBuf::from("mdbook"), own.clone()].into_iter().find(|path| fits(path))
    {
        return Ok(found);
    }
    if !may_install {
        return Err(format!(
            "mdbook is missing: `cargo xtask docs` installs it into {}, or install it with \
             `cargo install mdbook --version {VERSION} --locked`",
            tools.display()
        ));
    }
    eprintln!("==> installing mdbook {VERSION} into {}: some minutes", tools.display());
    let mut install = cargo(&["install", "mdbook", "--version", VERSION, "--locked", "--quiet"]);
    // The search is all that the book needs of what can be left out.
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(tools);
    match succeeds(&mut install)? && fits(&own) {
        true => Ok(own),
        false => Err(format!("==> mdbook can't be installed; alone: {install:?}")),
    }
}

/// Is it there, in a version that reads our `book.toml`?
fn fits(mdbook: &Path) -> bool {
    let output = Command::new(mdbook).arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| is_version(&String::from_utf8_lossy(&output.stdout)))
}

fn is_version(said: &str) -> bool {
    said.starts_with(SERIES)
}

/// Builds the book in `work`. mdBook warns of what it can't render, and that is an error here.
pub(super) fn build(mdbook: &Path, work: &Path) -> Result<(), String> {
    let mut build = Command::new(mdbook);
    let output = build.arg("build").arg(work).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("==> {build:?} can't be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_warning = |line: &str| ["WARN", "ERROR"].iter().any(|word| line.contains(word));
    match output.status.success() && !said.lines().any(is_warning) {
        true => Ok(()),
        false => Err(format!("==> {build:?} failed:\n{said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_series_that_is_installed_is_good_enough() {
        assert!(is_version(&format!("mdbook v{VERSION}\n")));
        assert!(!is_version("mdbook v0.4.52\n") && !is_version(""));
    }

    #[test]
    fn a_missing_mdbook_is_asked_for_in_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        // On a machine that has it, there is nothing to ask for.
        if fits(Path::new("mdbook")) {
            return;
        }
        let said = find(folder.path(), false).expect_err("it is missing");
        assert!(said.starts_with("mdbook is missing: ") && said.lines().count() == 1, "{said}");
    }
}
