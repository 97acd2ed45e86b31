//! The tarball: a folder with the program, its man pages, completions, licences and README.

use std::path::Path;
use std::process::Command;

use super::files::{self, COMPLETIONS, DATA, PROGRAM, copy};
use super::{Release, output};

const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

pub(super) fn make(release: &Release, program: &Path, pages: &Path) -> Result<(), String> {
    let name = release.tarball();
    let parent = release.work.join("tarball");
    files::empty(&parent)?;
    let tree = parent.join(&name);
    copy(program, &tree, "taketurns", PROGRAM)?;
    for page in files::man_pages(pages)? {
        copy(&pages.join("man").join(&page), &tree, &format!("man/{page}"), DATA)?;
    }
    for (_, file) in COMPLETIONS {
        let from = pages.join("completions").join(file);
        copy(&from, &tree, &format!("completions/{file}"), DATA)?;
    }
    for text in TEXTS {
        copy(&release.root.join(text), &tree, text, DATA)?;
    }
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--use-compress-program=gzip -9 -n");
    tar.arg("--file").arg(release.out.join(format!("{name}.tar.gz")));
    output(tar.arg("--directory").arg(&parent).arg(&name)).map(drop)
}
