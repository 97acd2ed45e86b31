//! The package for Node: the JavaScript of `bindings/node` with the addon of this platform, as npm packs it.
//!
//! ```text
//!   bindings/node ─┬─ lib, package.json, README ─┬─► npm pack ─► taketurns-VERSION.tgz ─► npm install
//!                  └─ cargo build ─► native/*.node ┘
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use taketurns_servers::packages::node::addon_name;
use taketurns_servers::{Flavor, Server, installed};

use super::bindings::blocks;
use super::check::{is, skip};
use super::files::{self, DATA, PROGRAM, in_file};
use super::{Release, VERSION, output, sources};
use crate::cargo;
use crate::install::{self, Dependency};

/// The files of the package that are no code.
const TEXTS: [&str; 4] =
    ["bindings/node/package.json", "bindings/node/README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs the package. The folder has the unpacked sources of the crates.
pub(super) fn make(release: &Release, sources: &Path) -> Result<(), String> {
    install::missing(&[Dependency::Node])?;
    let mut build = cargo(&["build", "--release", "--locked", "--package", "taketurns-node"]);
    build.arg("--target-dir").arg(&release.work);
    // As the packages were built, so that what they depend on is there.
    build.env("CARGO_ENCODED_RUSTFLAGS", sources::flags(sources).join("\u{1f}"));
    output(build.env("CARGO_PROFILE_RELEASE_STRIP", "true"))?;
    let folder = release.work.join("npm");
    files::empty(&folder)?;
    for text in TEXTS {
        let name = text.rsplit('/').next().unwrap_or(text);
        files::copy(&release.root.join(text), &folder, name, DATA)?;
    }
    let lib = release.root.join("bindings/node/lib");
    for entry in fs::read_dir(&lib).map_err(in_file(&lib))? {
        let entry = entry.map_err(in_file(&lib))?;
        let name = format!("lib/{}", entry.file_name().display());
        files::copy(&entry.path(), &folder, &name, DATA)?;
    }
    let addon = release.work.join("release/libtaketurns_node.so");
    files::copy(&addon, &folder, &format!("native/{}", addon_name()), PROGRAM)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(&release.out);
    output(npm.current_dir(folder)).map(drop)
}

/// Installs the tarball into a new folder, and runs the ten lines of the README with it.
pub(super) fn check(release: &Release) -> Result<(), String> {
    let folder = release.work.join("npm-install");
    files::empty(&folder)?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(in_file(&path))
    };
    write("package.json", "{ \"private\": true }\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"]);
    npm.arg(release.out.join(format!("taketurns-{VERSION}.tgz")));
    output(npm.current_dir(&folder))?;
    let readme = folder.join("node_modules/taketurns/README.md");
    let readme = fs::read_to_string(&readme).map_err(in_file(&readme))?;
    let blocks = blocks(&readme, "js");
    let ten_lines =
        blocks.first().ok_or("==> the README of the package for Node has no program")?;
    let on_store = |what: &str, url: &str| {
        write("ten-lines.mjs", &ten_lines.replace("redis://127.0.0.1", url))?;
        let said = output(Command::new("node").arg("ten-lines.mjs").current_dir(&folder))?;
        is(what, said.starts_with("shipping order 42 with token "), &said)
    };
    let file = format!("file:{}", folder.join("locks.db").display());
    on_store("npm install of the tarball, and the README on file:", &file)?;
    let what = "npm install of the tarball, and the README on Redis";
    if !installed(Flavor::Redis) {
        skip(what, "the server is not installed");
        return Ok(());
    }
    let server = Server::start(Flavor::Redis).map_err(|error| format!("==> {what}: {error}"))?;
    on_store(what, &server.url())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_has_the_version_of_the_workspace() {
        let package = include_str!("../../../bindings/node/package.json");
        assert!(package.contains(&format!("\"version\": \"{VERSION}\"")), "{package}");
    }
}
