//! The packages for other languages: each is made from what it ships as source, and tried in a fresh environment.
//!
//! ```text
//!   bindings/python ─► maturin sdist ─► taketurns-VERSION.tar.gz ─► unpacked ─► maturin build ─► taketurns-VERSION-….whl
//! ```
//!
//! The wheel is built from the source distribution, so that this is complete. A language is one row of [`PACKAGES`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use taketurns_servers::clients::PYTHON_BUILD;
use taketurns_servers::{Flavor, Server, installed};

use super::check::{is, skip};
use super::files::{self, in_file};
use super::{Release, VERSION, node, output, sources};
use crate::install;

/// A package for another language.
struct LanguagePackage {
    name: &'static str,
    /// Puts the package into the release. The folder has the unpacked sources of the crates.
    make: fn(&Release, &Path) -> Result<(), String>,
    /// Tries it as a user would.
    check: fn(&Release) -> Result<(), String>,
}

const PACKAGES: [LanguagePackage; 2] = [
    LanguagePackage { name: "Python", make: make_python, check: check_python },
    LanguagePackage { name: "Node", make: node::make, check: node::check },
];

pub(super) fn make(release: &Release, sources: &Path) -> Result<(), String> {
    PACKAGES.iter().try_for_each(|package| {
        eprintln!("==> the package for {}: some minutes", package.name);
        (package.make)(release, sources)
    })
}

pub(super) fn check(release: &Release) -> Result<(), String> {
    PACKAGES.iter().try_for_each(|package| (package.check)(release))
}

fn make_python(release: &Release, sources: &Path) -> Result<(), String> {
    install::environment(PYTHON_BUILD)?;
    let environment = PYTHON_BUILD.find().map_err(|error| error.to_string())?;
    let maturin = || {
        let mut maturin = Command::new(environment.join("bin/maturin"));
        // Every file has the time of the commit.
        maturin.env("SOURCE_DATE_EPOCH", &release.epoch);
        maturin
    };
    let package = release.root.join("bindings/python");
    output(maturin().arg("sdist").arg("--out").arg(&release.out).current_dir(package))?;
    let source = format!("taketurns-{VERSION}");
    let folder = sources.join("python");
    files::empty(&folder)?;
    let archive = release.out.join(format!("{source}.tar.gz"));
    output(Command::new("tar").current_dir(&folder).args(["-xzmf"]).arg(archive))?;
    // The lock file is the workspace's, and has more in it than is here: so it can't be `--locked`.
    let mut build = maturin();
    build.args(["build", "--release", "--strip", "--out"]).arg(&release.out);
    build.arg("--target-dir").arg(&release.work);
    build.env("CARGO_ENCODED_RUSTFLAGS", sources::flags(sources).join("\u{1f}"));
    output(build.current_dir(folder.join(source))).map(drop)
}

/// Installs the wheel into a new environment, and runs every block of Python of the README with it.
fn check_python(release: &Release) -> Result<(), String> {
    let environment = release.work.join("wheel");
    files::empty(&environment)?;
    let mut venv = Command::new("python3");
    output(venv.args(["-m", "venv", "--without-pip"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--python"]).arg(&python).args(["install", "--quiet", "--no-index"]);
    pip.arg("--disable-pip-version-check").env("PIP_ROOT_USER_ACTION", "ignore");
    output(pip.arg(wheel(release)?))?;
    let readme = release.root.join("bindings/python/README.md");
    let readme = fs::read_to_string(&readme).map_err(in_file(&readme))?;
    let file = format!("file:{}", environment.join("locks.db").display());
    on_store("pip install of the wheel, and the README on file:", &python, &readme, &file)?;
    let what = "pip install of the wheel, and the README on Redis";
    if !installed(Flavor::Redis) {
        skip(what, "the server is not installed");
        return Ok(());
    }
    let server = Server::start(Flavor::Redis).map_err(|error| format!("==> {what}: {error}"))?;
    on_store(what, &python, &readme, &server.url())
}

fn wheel(release: &Release) -> Result<PathBuf, String> {
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    release.files()?.into_iter().find(is_wheel).ok_or_else(|| "==> there is no wheel".to_owned())
}

/// Runs each block of a README as a program of its own, with a store in place of the one that it names.
fn on_store(what: &str, python: &Path, readme: &str, url: &str) -> Result<(), String> {
    let blocks = blocks(readme, "python");
    for block in &blocks {
        let program = block.replace("redis://localhost", url);
        output(Command::new(python).args(["-I", "-c", &program]).env("TAKETURNS_STORE", url))?;
    }
    is(what, !blocks.is_empty(), "it has no code")
}

/// The blocks of code of a language in a page.
pub(super) fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_page_are_those_of_the_language() {
        let page = "a\n```python\nb\nc\n```\nd\n```text\ne\n```\n```python\nf\n```\n";
        assert_eq!(blocks(page, "python"), ["b\nc\n", "f\n"]);
    }
}
