//! The Debian packages: `taketurns` with the program and a unit for systemd, `taketurns-module` with the module.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{self, DATA, PRIVATE, PROGRAM, compress, copy, in_file, put};
use super::{Release, VERSION, has, output};

/// Where Debian keeps modules of Redis, and `docs/module.md` looks for this one.
pub(super) const MODULE: &str = "usr/lib/redis/modules/libtaketurns_module.so";
pub(super) const UNIT: &str = "usr/lib/systemd/system/taketurns.service";
pub(super) const SETTINGS: &str = "etc/default/taketurns";

/// The maintainer scripts of the program: they make systemd read the unit, and start nothing.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Where Debian keeps the completions of each shell, beside their names in `files::COMPLETIONS`.
pub(super) const COMPLETIONS: [(&str, &str); 3] = [
    ("taketurns.bash", "usr/share/bash-completion/completions/taketurns"),
    ("_taketurns", "usr/share/zsh/vendor-completions/_taketurns"),
    ("taketurns.fish", "usr/share/fish/vendor_completions.d/taketurns.fish"),
];

/// What a control file says beside what all have in common.
struct Control<'a> {
    package: &'a str,
    section: &'a str,
    depends: &'a str,
    /// Fields of its own, a line each.
    more: &'a str,
    /// A line, and then the rest.
    description: [&'a str; 2],
}

pub(super) fn program(release: &Release, program: &Path, pages: &Path) -> Result<(), String> {
    let tree = release.work.join("deb/taketurns");
    files::empty(&tree)?;
    copy(program, &tree, "usr/bin/taketurns", PROGRAM)?;
    for page in files::man_pages(pages)? {
        let to = format!("usr/share/man/man1/{page}.gz");
        compress(&pages.join("man").join(&page), &tree, &to)?;
    }
    for (file, to) in COMPLETIONS {
        copy(&pages.join("completions").join(file), &tree, to, DATA)?;
    }
    let packaging = release.root.join("packaging");
    copy(&packaging.join("taketurns.service"), &tree, UNIT, DATA)?;
    copy(&packaging.join("taketurns.default"), &tree, SETTINGS, PRIVATE)?;
    put(&tree, "DEBIAN/conffiles", format!("/{SETTINGS}\n").as_bytes(), DATA)?;
    for script in SCRIPTS {
        copy(&packaging.join(script), &tree, &format!("DEBIAN/{script}"), PROGRAM)?;
    }
    let control = Control {
        package: "taketurns",
        section: "utils",
        depends: &depends(release, &tree, "usr/bin/taketurns")?,
        more: "Suggests: redis-server | valkey-server\n",
        description: [
            "distributed lock for the shell: fair, fenced and leased",
            " taketurns runs a command while it holds a lock, and shows who holds what and who\n \
             waits. Locks live in a file on one machine, or in Redis or Valkey for many machines.\n \
             .\n The unit taketurns.service shows the locks of a store in a browser and to\n \
             Prometheus. It is not enabled by the installation.\n",
        ],
    };
    documents(release, &tree, control.package, &[("README.md", "README.md")])?;
    make(release, &tree, &control)
}

pub(super) fn module(release: &Release, module: &Path) -> Result<(), String> {
    let tree = release.work.join("deb/taketurns-module");
    files::empty(&tree)?;
    // Redis loads no module without the right to execute it.
    copy(module, &tree, MODULE, PROGRAM)?;
    let control = Control {
        package: "taketurns-module",
        section: "database",
        depends: &depends(release, &tree, MODULE)?,
        more: "Recommends: redis-server (>= 5:7.0) | valkey-server (>= 8.0)\n",
        description: [
            "distributed lock as a module for Redis and Valkey",
            " Fair, fenced and leased locks inside the server, by one command each, for any client\n \
             in any language. The installation loads the module into no server: see\n \
             /usr/share/doc/taketurns-module/README.\n",
        ],
    };
    let texts = [("packaging/module.README", "README"), ("docs/module.md", "module.md")];
    documents(release, &tree, control.package, &texts)?;
    make(release, &tree, &control)
}

/// What Debian wants in every package, and these texts.
fn documents(
    release: &Release,
    tree: &Path,
    package: &str,
    texts: &[(&str, &str)],
) -> Result<(), String> {
    let folder = format!("usr/share/doc/{package}");
    let needed = [
        ("packaging/copyright", "copyright"),
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
    ];
    for (from, to) in needed.iter().chain(texts) {
        copy(&release.root.join(from), tree, &format!("{folder}/{to}"), DATA)?;
    }
    compress(&release.root.join("CHANGELOG.md"), tree, &format!("{folder}/changelog.gz"))
}

fn make(release: &Release, tree: &Path, control: &Control<'_>) -> Result<(), String> {
    let Control { package, section, depends, more, description: [line, rest] } = control;
    let text = format!(
        "Package: {package}\nVersion: {VERSION}\nArchitecture: {}\nMaintainer: the taketurns developers\n\
         Section: {section}\nPriority: optional\nInstalled-Size: {}\nDepends: {depends}\n{more}\
         Description: {line}\n{rest}",
        release.arch,
        size(tree)?.div_ceil(1024)
    );
    put(tree, "DEBIAN/control", text.as_bytes(), DATA)?;
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]).env("SOURCE_DATE_EPOCH", &release.epoch);
    output(build.arg(tree).arg(release.deb(package))).map(drop)
}

/// How many bytes the files below a folder have.
fn size(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(in_file(folder))?.flatten() {
        let path = entry.path();
        bytes += match path.is_dir() {
            true => size(&path)?,
            false => fs::metadata(&path).map_err(in_file(&path))?.len(),
        };
    }
    Ok(bytes)
}

/// The libraries that a binary needs: by dpkg-shlibdeps where it is, else by the names in the binary.
fn depends(release: &Release, tree: &Path, binary: &str) -> Result<String, String> {
    let path = tree.join(binary);
    if !has("dpkg-shlibdeps") {
        return Ok(libraries(&fs::read(&path).map_err(in_file(&path))?));
    }
    // It wants to be in the sources of a package.
    let folder: PathBuf = release.work.join("deb/shlibdeps");
    files::empty(&folder)?;
    put(
        &folder,
        "debian/control",
        b"Source: taketurns\n\nPackage: taketurns\nArchitecture: any\n",
        DATA,
    )?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    let said = output(shlibdeps.current_dir(&folder).args(["-O", "-e"]).arg(&path))?;
    let depends = said.trim().strip_prefix("shlibs:Depends=");
    depends.map(str::to_owned).ok_or_else(|| format!("==> dpkg-shlibdeps said {said:?}"))
}

/// The newest `GLIBC_2.x` that a binary names is the libc it needs.
fn libraries(binary: &[u8]) -> String {
    let mark = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits = binary[at..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    let found = (mark.len()..binary.len()).filter(|at| binary[..*at].ends_with(mark));
    let newest = found.map(minor).max().unwrap_or(17);
    let gcc = b"libgcc_s.so.1";
    let needs_gcc = binary.windows(gcc.len()).any(|window| window == gcc);
    format!("libc6 (>= 2.{newest}){}", if needs_gcc { ", libgcc-s1" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_needs_the_newest_libc_that_it_names() {
        assert_eq!(libraries(b"..GLIBC_2.34\0GLIBC_2.4\0libc.so.6\0"), "libc6 (>= 2.34)");
        assert_eq!(libraries(b"GLIBC_2.28\0libgcc_s.so.1\0"), "libc6 (>= 2.28), libgcc-s1");
    }

    #[test]
    fn every_completion_has_a_place() {
        let named = files::COMPLETIONS.map(|(_, file)| file);
        assert_eq!(COMPLETIONS.map(|(file, _)| file), named);
    }
}
