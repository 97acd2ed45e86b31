//! Files of a release: folders that are made anew, copies with fixed modes, man pages and completions.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::output;

pub(super) const PROGRAM: u32 = 0o755;
pub(super) const DATA: u32 = 0o644;
/// For a file that may hold passwords.
pub(super) const PRIVATE: u32 = 0o640;

/// Where each shell looks for completions: the name that `taketurns completions` knows, and the name of the file.
pub(super) const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "taketurns.bash"), ("zsh", "_taketurns"), ("fish", "taketurns.fish")];

/// An error, with the path that it concerns.
pub(crate) fn in_file(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("==> {}: {error}", path.display())
}

/// Makes a folder without anything in it.
pub(crate) fn empty(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(in_file(folder)(error));
        }
        _ => fs::create_dir_all(folder).map_err(in_file(folder)),
    }
}

/// Puts a file into a tree, whose folders everybody can read whatever the umask is.
pub(super) fn put(tree: &Path, path: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
    let file = tree.join(path);
    let mut folder = tree.to_owned();
    fs::create_dir_all(file.parent().unwrap_or(tree)).map_err(in_file(&file))?;
    for part in Path::new(path).parent().into_iter().flatten() {
        folder.push(part);
        fs::set_permissions(&folder, Permissions::from_mode(PROGRAM)).map_err(in_file(&folder))?;
    }
    fs::set_permissions(tree, Permissions::from_mode(PROGRAM)).map_err(in_file(tree))?;
    fs::write(&file, bytes).map_err(in_file(&file))?;
    fs::set_permissions(&file, Permissions::from_mode(mode)).map_err(in_file(&file))
}

/// Puts a copy of a file into a tree.
pub(super) fn copy(from: &Path, tree: &Path, path: &str, mode: u32) -> Result<(), String> {
    put(tree, path, &fs::read(from).map_err(in_file(from))?, mode)
}

/// Puts the compressed copy of a file into a tree, without its name and time in it.
pub(super) fn compress(from: &Path, tree: &Path, path: &str) -> Result<(), String> {
    let output = Command::new("gzip").args(["-9", "-n", "--stdout"]).arg(from).output();
    match output {
        Ok(output) if output.status.success() => put(tree, path, &output.stdout, DATA),
        other => Err(format!("==> gzip {} failed: {other:?}", from.display())),
    }
}

/// Lets the program write its man pages into `pages/man` and its completions into `pages/completions`.
pub(super) fn write_pages(program: &Path, pages: &Path) -> Result<(), String> {
    empty(pages)?;
    let man = pages.join("man");
    fs::create_dir_all(&man).map_err(in_file(&man))?;
    output(Command::new(program).args(["man", "--out"]).arg(&man))?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        put(&pages.join("completions"), file, script.as_bytes(), DATA)?;
    }
    Ok(())
}

/// The man pages that [`write_pages`] wrote, by name.
pub(super) fn man_pages(pages: &Path) -> Result<Vec<String>, String> {
    let folder = pages.join("man");
    let entries = fs::read_dir(&folder).map_err(in_file(&folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}
