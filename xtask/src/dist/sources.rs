//! Packages the crates as for crates.io, unpacks them, and builds from what is in the packages alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{empty, in_file};
use super::shipped::CRATES;
use super::{Release, VERSION, output};
use crate::{cargo, succeeds};

/// Packages every crate that ships, and returns the folder with their unpacked sources.
pub(super) fn package(release: &Release) -> Result<PathBuf, String> {
    let mut package = cargo(&["package", "--quiet", "--no-verify", "--allow-dirty"]);
    package.args(CRATES.iter().flat_map(|name| ["--package", name]));
    package.arg("--target-dir").arg(&release.work);
    output(&mut package)?;
    let sources = release.work.join("sources");
    empty(&sources)?;
    for name in CRATES {
        let file = release.work.join(format!("package/{name}-{VERSION}.crate"));
        let bytes = fs::metadata(&file).map_err(in_file(&file))?.len();
        // Cargo gives every file in a package the same old time, and would take new sources for built ones.
        output(Command::new("tar").current_dir(&sources).args(["-xzmf"]).arg(&file))?;
        eprintln!("{:>8} KiB  {name}-{VERSION}.crate", bytes.div_ceil(1024));
    }
    let manifest = release.root.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(in_file(&manifest))?;
    let profile = profile(&text).ok_or("==> Cargo.toml has no [profile.release]")?;
    let path = sources.join("Cargo.toml");
    fs::write(&path, workspace(profile)).map_err(in_file(&path))?;
    let lock = release.root.join("Cargo.lock");
    fs::copy(&lock, sources.join("Cargo.lock")).map_err(in_file(&lock))?;
    Ok(sources)
}

/// A workspace of unpacked crates, which find each other instead of asking crates.io. Packages have no profile.
fn workspace(profile: &str) -> String {
    let members: Vec<String> = CRATES.iter().map(|name| format!("\"{name}-{VERSION}\"")).collect();
    let patches = CRATES.map(|name| format!("{name} = {{ path = \"{name}-{VERSION}\" }}\n"));
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n{}\n{profile}\nstrip = true\n",
        members.join(", "),
        patches.concat()
    )
}

/// The release profile, as the workspace has it.
fn profile(manifest: &str) -> Option<&str> {
    let profile = &manifest[manifest.find("[profile.release]\n")?..];
    Some(profile.split("\n\n").next().unwrap_or(profile))
}

/// Builds every package, and returns the folder with the program and the module.
pub(super) fn build(release: &Release, sources: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(&["build", "--release", "--workspace", "--target-dir"]);
    build.arg(&release.work).current_dir(sources);
    build.env("CARGO_ENCODED_RUSTFLAGS", flags(sources).join("\u{1f}"));
    match succeeds(&mut build)? {
        true => Ok(release.work.join("release")),
        false => Err("==> the packages can't be built: see above".to_owned()),
    }
}

/// Keeps the paths of this machine out of the messages in the binaries.
pub(super) fn flags(sources: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or(home.join(".cargo"), PathBuf::from);
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    vec![remap(&cargo, "/cargo"), remap(sources, "/taketurns")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_of_the_workspace_is_taken_along() {
        let manifest = "[a]\nb = 1\n\n[profile.release]\nlto = \"fat\"\n\n[profile.sim]\nc = 2\n";
        assert_eq!(profile(manifest), Some("[profile.release]\nlto = \"fat\""));
        assert_eq!(profile("[a]\n"), None);
        let workspace = workspace("[profile.release]\nlto = \"fat\"");
        assert!(workspace.ends_with("[profile.release]\nlto = \"fat\"\nstrip = true\n"));
    }
}
