//! `cargo xtask dist`: makes what is released, into `target/dist`, and tries it.
//!
//! ```text
//!   crates ─► cargo package ─► unpacked sources ─► release build ─┬─► taketurns-VERSION-ARCH-linux-gnu.tar.gz
//!                                              man pages,         ├─► taketurns_VERSION_ARCH.deb
//!                                              completions ───────┤
//!                                              packaging/ ────────┼─► taketurns-module_VERSION_ARCH.deb
//!                                              bindings/ ─────────┴─► taketurns-VERSION-….whl, taketurns-VERSION.tar.gz,
//!                                                                     taketurns-VERSION.tgz
//!                                                                     SHA256SUMS ─► check: install, run, purge
//! ```
//!
//! The program and the module are built from the packaged crates, so that a release also proves that the packages
//! are complete. Nothing here needs root.

mod bindings;
mod check;
mod deb;
pub(crate) mod files;
mod node;
mod shipped;
mod sources;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use taketurns_servers::{module_in, target_dir};

use crate::install::{self, Dependency};
use files::in_file;

const USAGE: &str = "usage: cargo xtask dist [--check]";

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const STEPS: usize = 7;

/// What is needed beside the toolchain, and the package of Debian that has it.
const TOOLS: [(&str, &str); 4] =
    [("dpkg-deb", "dpkg"), ("tar", "tar"), ("gzip", "gzip"), ("sha256sum", "coreutils")];

/// Where a release is made, and what it is made of.
struct Release {
    /// The root of the repository.
    root: PathBuf,
    /// What is released.
    out: PathBuf,
    /// What it is made in.
    work: PathBuf,
    /// The time of the commit, in seconds, so that a release made again has the same times.
    epoch: String,
    /// What Debian calls this machine's architecture.
    arch: String,
}

/// Makes a release and tries it, or only tries the one that is there.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    let only_check = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => return Err(USAGE.to_owned()),
    };
    need_tools()?;
    let release = Release::new()?;
    if !only_check {
        release.make()?;
    }
    step(STEPS, "trying the packages");
    check::run(&release)?;
    eprintln!("==> in {}:", release.out.display());
    for path in release.files()? {
        let bytes = fs::metadata(&path).map_err(in_file(&path))?.len();
        eprintln!("{:>8} KiB  {}", bytes.div_ceil(1024), name_of(&path));
    }
    Ok(())
}

impl Release {
    fn new() -> Result<Self, String> {
        let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let root = root.canonicalize().map_err(in_file(&root))?;
        let git = |args: &[&str]| output(Command::new("git").current_dir(&root).args(args));
        let epoch = git(&["log", "-1", "--format=%ct"])?.trim().to_owned();
        if !git(&["status", "--porcelain"])?.is_empty() {
            eprintln!(
                "==> some changes are not committed: this is good for a trial, not for a release"
            );
        }
        let arch = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
        let target = target_dir();
        Ok(Self { root, out: target.join("dist"), work: target.join("dist-build"), epoch, arch })
    }

    fn make(&self) -> Result<(), String> {
        install::missing(&[Dependency::Libclang])?;
        files::empty(&self.out)?;
        step(1, "packaging the crates");
        let sources = sources::package(self)?;
        step(2, "building the program and the module from the packages: some minutes");
        let built = sources::build(self, &sources)?;
        let [program, module] = [built.join("taketurns"), module_in(&built)];
        step(3, "man pages and completions");
        let pages = self.work.join("pages");
        files::write_pages(&program, &pages)?;
        step(4, "tarball");
        tarball::make(self, &program, &pages)?;
        step(5, "Debian packages");
        deb::program(self, &program, &pages)?;
        deb::module(self, &module)?;
        step(6, "packages for other languages");
        bindings::make(self, &sources)?;
        let names: Vec<String> = self.files()?.iter().map(|path| name_of(path)).collect();
        let sums = output(Command::new("sha256sum").current_dir(&self.out).args(names))?;
        let path = self.out.join("SHA256SUMS");
        fs::write(&path, sums).map_err(in_file(&path))
    }

    /// The folder in the tarball, which is also the tarball's name.
    fn tarball(&self) -> String {
        format!("taketurns-{VERSION}-{}-linux-gnu", std::env::consts::ARCH)
    }

    fn deb(&self, package: &str) -> PathBuf {
        self.out.join(format!("{package}_{VERSION}_{}.deb", self.arch))
    }

    /// What is released, in the order of names.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(&self.out).map_err(in_file(&self.out))?;
        let mut files: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        Ok(files)
    }
}

fn step(number: usize, what: &str) {
    eprintln!("==> {what} ({number} of {STEPS})");
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn need_tools() -> Result<(), String> {
    for (tool, package) in TOOLS {
        if !has(tool) {
            return Err(format!(
                "{tool} is missing: apt-get install {package}, or your system's equivalent"
            ));
        }
    }
    Ok(())
}

fn has(tool: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a command prints. It has to succeed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("==> {command:?} can't be started: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!(
            "==> {command:?} failed with {}\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        )),
    }
}
