//! Tries a release as a user would: compares the checksums, installs both packages into a scratch directory with a
//! dpkg database of its own, uses what was installed, and purges it again.
//!
//! What a machine has no tool for is skipped, and said so.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use taketurns_servers::{Flavor, Server, installed};

use super::deb::{COMPLETIONS, MODULE, SETTINGS, UNIT};
use super::files::{self, in_file};
use super::{Release, VERSION, has, output};

const PACKAGES: [&str; 2] = ["taketurns", "taketurns-module"];

/// The most that `systemd-analyze security` may find exposed, in tenths: 0 is nothing, 100 everything.
const EXPOSURE: &str = "25";

pub(super) fn run(release: &Release) -> Result<(), String> {
    output(Command::new("sha256sum").current_dir(&release.out).args(["--check", "SHA256SUMS"]))?;
    ok("SHA256SUMS");
    from_tarball(release)?;
    let scratch = Scratch::new(release.work.join("scratch"))?;
    for package in PACKAGES {
        scratch.dpkg(&["--install"], &[&release.deb(package)])?;
    }
    ok("dpkg --install, both packages");
    let program = scratch.root.join("usr/bin/taketurns");
    works(&program, &scratch.root)?;
    serves(&program, &scratch.root)?;
    man_pages(&scratch.root)?;
    completions(&scratch.root)?;
    unit(&scratch.root)?;
    module(&scratch.root.join(MODULE))?;
    for package in PACKAGES {
        scratch.dpkg(&["--purge"], &[Path::new(package)])?;
    }
    for gone in ["usr/bin/taketurns", MODULE, UNIT, SETTINGS, "usr/share/doc/taketurns"] {
        if scratch.root.join(gone).exists() {
            return Err(format!("==> /{gone} is still there after dpkg --purge"));
        }
    }
    ok("dpkg --purge leaves nothing behind");
    super::bindings::check(release)
}

fn ok(what: &str) {
    eprintln!("      ok  {what}");
}

pub(super) fn skip(what: &str, why: &str) {
    eprintln!(" skipped  {what}: {why}");
}

pub(super) fn is(what: &str, is: bool, said: &str) -> Result<(), String> {
    match is {
        true => {
            ok(what);
            Ok(())
        }
        false => Err(format!("==> {what}: {said}")),
    }
}

/// A root to install into.
struct Scratch {
    root: PathBuf,
}

impl Scratch {
    fn new(root: PathBuf) -> Result<Self, String> {
        files::empty(&root)?;
        for folder in ["info", "updates", "triggers"] {
            let folder = root.join("var/lib/dpkg").join(folder);
            fs::create_dir_all(&folder).map_err(in_file(&folder))?;
        }
        let status = root.join("var/lib/dpkg/status");
        fs::write(&status, "").map_err(in_file(&status))?;
        Ok(Self { root })
    }

    /// Runs dpkg on this root. Nothing else is installed there, so dependencies are not met; scripts run with the
    /// shell of this machine.
    fn dpkg(&self, words: &[&str], what: &[&Path]) -> Result<String, String> {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", self.root.display()));
        dpkg.args(["--force-not-root", "--force-depends", "--force-script-chrootless"]);
        dpkg.arg(format!("--log={}", self.root.join("dpkg.log").display()));
        output(dpkg.args(words).args(what))
    }
}

fn from_tarball(release: &Release) -> Result<(), String> {
    let folder = release.work.join("unpacked");
    files::empty(&folder)?;
    let name = release.tarball();
    let file = release.out.join(format!("{name}.tar.gz"));
    output(Command::new("tar").arg("-xzf").arg(file).current_dir(&folder))?;
    let tree = folder.join(name);
    for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "man/taketurns-run.1"] {
        if !tree.join(needed).is_file() {
            return Err(format!("==> the tarball lacks {needed}"));
        }
    }
    let said = output(Command::new(tree.join("taketurns")).arg("--version"))?;
    is("the tarball has a program that runs", said.contains(VERSION), &said)
}

/// The program, in a home of its own.
fn command(program: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("XDG_STATE_HOME", root.join("state")).env_remove("TAKETURNS_STORE");
    command
}

fn works(program: &Path, root: &Path) -> Result<(), String> {
    let said = output(command(program, root).arg("--version"))?;
    is("taketurns --version", said.trim().ends_with(VERSION), &said)?;
    let said = output(command(program, root).args(["run", "hello", "--", "echo", "only me"]))?;
    is("taketurns run hello -- echo", said == "only me\n", &said)
}

/// `taketurns serve` as the unit starts it, but on a free port and a store of its own.
fn serves(program: &Path, root: &Path) -> Result<(), String> {
    let mut serve = command(program, root);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = serve.spawn().map_err(in_file(program))?;
    let mut line = String::new();
    let read = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
    let ended = child.kill().and_then(|()| child.wait());
    is(
        "taketurns serve",
        line.starts_with("http://127.0.0.1:"),
        &format!("{read:?}, {ended:?}: {line}"),
    )
}

fn man_pages(root: &Path) -> Result<(), String> {
    if !has("man") {
        skip("man pages", "man is missing (apt-get install man-db)");
        return Ok(());
    }
    let folder = root.join("usr/share/man/man1");
    let entries = fs::read_dir(&folder).map_err(in_file(&folder))?;
    let pages: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for page in &pages {
        let mut man = Command::new("man");
        man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100").args(["--warnings", "--local-file"]);
        let man = man.arg(page).stdin(Stdio::null()).output().map_err(in_file(page))?;
        let [shown, warnings] =
            [man.stdout, man.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if !shown.contains("SYNOPSIS") || !warnings.is_empty() {
            return Err(format!("==> {} does not render: {warnings}", page.display()));
        }
    }
    is(&format!("{} man pages render without a warning", pages.len()), pages.len() > 10, "too few")
}

fn completions(root: &Path) -> Result<(), String> {
    for ((_, path), shell) in COMPLETIONS.into_iter().zip(["bash", "zsh", "fish"]) {
        let what = format!("{shell} parses its completions");
        match has(shell) {
            true => {
                output(Command::new(shell).arg("-n").arg(root.join(path)))?;
                ok(&what);
            }
            false if root.join(path).is_file() => skip(&what, &format!("{shell} is missing")),
            false => return Err(format!("==> /{path} is missing")),
        }
    }
    let script = format!(
        "source {:?}; COMP_WORDS=(taketurns el); COMP_CWORD=1; _taketurns taketurns el taketurns; echo ${{COMPREPLY[@]}}",
        root.join(COMPLETIONS[0].1)
    );
    let said = output(Command::new("bash").args(["-c", &script]))?;
    is("bash completes `taketurns el`", said.trim() == "elect", &said)
}

fn unit(root: &Path) -> Result<(), String> {
    if !has("systemd-analyze") {
        skip("the unit", "systemd-analyze is missing (apt-get install systemd)");
        return Ok(());
    }
    // As it will be: the program in its place.
    let text = fs::read_to_string(root.join(UNIT)).map_err(in_file(&root.join(UNIT)))?;
    let here =
        text.replace("/usr/bin/taketurns", &root.join("usr/bin/taketurns").to_string_lossy());
    let folder = root.join("units");
    files::put(&folder, "taketurns.service", here.as_bytes(), files::DATA)?;
    let unit = folder.join("taketurns.service");
    let mut verify = Command::new("systemd-analyze");
    let verify = verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&unit).output();
    let verify = verify.map_err(in_file(&unit))?;
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    is("systemd-analyze verify", verify.status.success() && said.is_empty(), &said)?;
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=yes", "--no-pager", "--threshold", EXPOSURE]).arg(&unit);
    let said = output(&mut security)?;
    let overall = said.lines().find(|line| line.contains("Overall exposure level"));
    let overall = overall.unwrap_or_default().trim_matches(|c: char| !c.is_ascii_alphanumeric());
    is(&format!("systemd-analyze security: {overall}"), !overall.is_empty(), &said)?;
    // Nothing may enable it but its administrator.
    let enabled = root.join("etc/systemd/system/multi-user.target.wants/taketurns.service");
    is("the unit is not enabled", !enabled.exists(), "it is")
}

fn module(module: &Path) -> Result<(), String> {
    for flavor in Flavor::ALL {
        let what = format!("{flavor} loads the module and grants a lock");
        if !installed(flavor) {
            skip(&what, "the server is not installed");
            continue;
        }
        let server = Server::builder(flavor).module(module, &[]).start();
        let server = server.map_err(|error| format!("==> {what}: {error}"))?;
        let reply = server.try_cli(&["FENCELOCK.ACQUIRE", "lk:job", "30"]);
        let said = format!("{reply:?}");
        is(&what, said.contains("Array"), &said)?;
    }
    Ok(())
}
