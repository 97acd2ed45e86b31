//! Folders that appear only when they are complete. Several processes may want a folder of the target directory at
//! once, and the one that fills it may be killed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Has a command fill a folder, which gets its name when it is whole: what is there can be used.
///
/// # Errors
///
/// A line for people, if the command can't be started or fails.
pub fn into_place(place: &Path, fill: impl Fn(&Path) -> Command) -> Result<(), String> {
    let half = format!("{}.half-{}", place.display(), std::process::id());
    let half = Path::new(&half);
    let at = |error| format!("{}: {error}", half.display());
    fs::create_dir_all(half).map_err(at)?;
    let mut command = fill(half);
    let program = command.get_program().display().to_string();
    let status = command.stdin(Stdio::null()).status();
    let done = match status {
        Ok(status) if status.success() => fs::rename(half, place).map_err(at),
        Ok(status) => Err(format!("==> {program} failed with {status}")),
        Err(error) => Err(format!("==> {program} can't be started: {error}")),
    };
    if done.is_err() {
        let _ = fs::remove_dir_all(half);
    }
    // Another one that does the same may have been quicker.
    if place.is_dir() { Ok(()) } else { done }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &'static str) -> impl Fn(&Path) -> Command {
        move |folder| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder);
            command
        }
    }

    #[test]
    fn a_library_is_there_when_it_is_whole_and_not_before() {
        let target = tempfile::tempdir().expect("a folder");
        let place = target.path().join("clients/a-1.0");
        let failed = into_place(&place, sh("touch half; exit 3")).expect_err("it failed");
        assert!(failed.contains("sh failed") && failed.contains('3'), "{failed}");
        into_place(&place, |_| Command::new("no-such-program")).expect_err("it can't start");
        let left = fs::read_dir(target.path().join("clients")).expect("a folder").count();
        assert_eq!(left, 0, "nothing is left of what failed");

        into_place(&place, sh("touch whole; test ! -e ../a-1.0")).expect("a library");
        assert!(place.join("whole").exists());
        into_place(&place, sh("touch late")).expect("another was quicker");
        let left = fs::read_dir(target.path().join("clients")).expect("a folder").count();
        assert_eq!(left, 1, "only the library");
        assert!(!place.join("late").exists());
    }
}
