//! Where cargo put things: the target directory of the program that runs, and what else is in it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::SetupError;

/// The root of this repository.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Cargo's target directory: the one that the running program was built into, or else where cargo
/// would build.
pub fn target_dir() -> PathBuf {
    target_dirs().swap_remove(0)
}

/// The target directory, and where it would be for a program that was built in another way.
pub(crate) fn target_dirs() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    places(profile_dir(&program).as_deref(), env::var_os("CARGO_TARGET_DIR"))
}

fn places(profile: Option<&Path>, named: Option<OsString>) -> Vec<PathBuf> {
    let own = profile.and_then(Path::parent).map(Path::to_owned);
    // Cargo takes it as seen from where it was called. That is the root, if anything.
    let named = named.map(|named| Path::new(WORKSPACE).join(named));
    own.into_iter().chain(named).chain([Path::new(WORKSPACE).join("target")]).collect()
}

/// The folder of the profile: `target/debug` for `target/debug/xtask`, and for the test
/// `target/debug/deps/server-0123`. A doctest is built elsewhere, and has none.
fn profile_dir(program: &Path) -> Option<PathBuf> {
    program.ancestors().skip(1).find(|folder| folder.join("deps").is_dir()).map(Path::to_owned)
}

/// The module, as it was built in the profile of the running program.
///
/// # Errors
///
/// [`SetupError::NoModule`] if it was not built.
pub fn module_path() -> Result<PathBuf, SetupError> {
    module_of(&env::current_exe()?)
}

fn module_of(program: &Path) -> Result<PathBuf, SetupError> {
    library_of(program, "taketurns_module").map_err(SetupError::NoModule)
}

/// A dynamic library of this workspace, as it was built in the profile of the running program; or else where it would
/// be.
pub(crate) fn built_library(name: &str) -> Result<PathBuf, PathBuf> {
    library_of(&env::current_exe().unwrap_or_default(), name)
}

fn library_of(program: &Path, name: &str) -> Result<PathBuf, PathBuf> {
    let profile = profile_of(program);
    // The first is made whenever the library is built, the second only if it was asked for itself, so
    // it may be older.
    let [first, second] = [profile.join("deps"), profile].map(|folder| library_in(&folder, name));
    if first.is_file() {
        return Ok(first);
    }
    if second.is_file() { Ok(second) } else { Err(first) }
}

/// The folder of the profile that the running program was built in.
pub(crate) fn profile_folder() -> PathBuf {
    profile_of(&env::current_exe().unwrap_or_default())
}

fn profile_of(program: &Path) -> PathBuf {
    profile_dir(program).unwrap_or_else(|| target_dir().join("debug"))
}

/// The module's file in this folder, be it there or not.
pub fn module_in(folder: &Path) -> PathBuf {
    library_in(folder, "taketurns_module")
}

fn library_in(folder: &Path, name: &str) -> PathBuf {
    use env::consts::{DLL_PREFIX, DLL_SUFFIX};
    folder.join(format!("{DLL_PREFIX}{name}{DLL_SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A target directory of its own, and the path of a test in it.
    fn built() -> (tempfile::TempDir, PathBuf) {
        let target = tempfile::tempdir().expect("a folder");
        let deps = target.path().join("debug/deps");
        fs::create_dir_all(&deps).expect("a folder");
        (target, deps.join("server-0123"))
    }

    #[test]
    fn a_program_is_in_its_target_directory() {
        let (target, test) = built();
        let profile = target.path().join("debug");
        for program in [&test, &profile.join("xtask"), &profile.join("examples/mutex")] {
            assert_eq!(profile_dir(program).as_ref(), Some(&profile));
        }
        assert_eq!(profile_dir(&target.path().join("rust_out")), None);
        let root = Path::new(WORKSPACE);
        let own = places(Some(&profile), Some("/elsewhere".into()));
        assert_eq!(own, [target.path(), Path::new("/elsewhere"), &root.join("target")]);
        let named = places(None, Some("near".into()));
        assert_eq!(named, [root.join("near"), root.join("target")]);
    }

    #[test]
    fn the_module_is_found_beside_the_test_or_a_folder_up() {
        let (target, test) = built();
        let profile = target.path().join("debug");
        let missing = module_of(&test).expect_err("it was not built").to_string();
        assert!(missing.contains("build it: cargo build -p taketurns-module"), "{missing}");
        let [up, beside] = [&profile, &profile.join("deps")].map(|folder| module_in(folder));
        for path in [up, beside] {
            fs::write(&path, "").expect("written");
            assert_eq!(module_of(&test).expect("a module"), path, "the newer one");
        }
    }
}
