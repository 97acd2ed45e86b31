//! Is libclang there? The bindings of the module are made with it while that is built. It is looked
//! for where they look for it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Where systems keep libraries. `*` stands for what is in a folder.
const FOLDERS: [&str; 5] =
    ["usr/local/lib", "usr/lib", "usr/lib64", "usr/lib/*/lib", "usr/lib64/*/lib64"];

pub(super) fn is_there() -> bool {
    // Who says where it is has to know.
    env::var_os("LIBCLANG_PATH").is_some() || is_below(Path::new("/"))
}

/// The library, and the headers of its compiler, which it does not work without and which are a
/// package of their own.
fn is_below(root: &Path) -> bool {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().flat_map(|name| matching(root, name)).collect();
    let headers = folders.iter().any(|folder| {
        matching(folder, "clang/*/include").any(|include| include.join("stddef.h").is_file())
    });
    folders.push(root.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH)));
    headers && folders.iter().any(|folder| entries(folder).iter().any(|path| is_library(path)))
}

fn matching(root: &Path, pattern: &str) -> impl Iterator<Item = PathBuf> {
    let mut found = vec![root.to_owned()];
    for word in pattern.split('/') {
        found = match word {
            "*" => found.iter().flat_map(|folder| entries(folder)).collect(),
            _ => found.iter().map(|folder| folder.join(word)).collect(),
        };
    }
    found.into_iter().filter(|path| path.is_dir())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// `libclang.so`, `libclang-14.so.1`, but not the one for C++, nor one of its static parts. A link
/// that leads nowhere is none.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let version = name.and_then(|name| name.strip_prefix("libclang")?.split_once(".so"));
    let named = version.is_some_and(|(version, _)| {
        version.is_empty() || version.starts_with('-') && version != "-cpp"
    });
    named && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these files.
    fn machine(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "").expect("written");
        }
        root
    }

    fn found(files: &[&str]) -> bool {
        is_below(machine(files).path())
    }

    #[test]
    fn libclang_is_found_where_systems_have_it() {
        let multiarch = format!("usr/lib/{}-linux-gnu/libclang-14.so.14.0.6", env::consts::ARCH);
        let debian = "usr/lib/llvm-14/lib/clang/14.0.6/include/stddef.h";
        assert!(found(&[&multiarch, debian]));
        assert!(found(&["usr/lib/llvm-14/lib/libclang.so.1", debian]));
        assert!(found(&["usr/lib/libclang.so", "usr/lib/clang/18/include/stddef.h"]));
        assert!(found(&["usr/lib64/libclang.so.19.1", "usr/lib/clang/19/include/stddef.h"]));
        assert!(found(&[
            "usr/lib64/llvm20/lib64/libclang.so",
            "usr/local/lib/clang/20/include/stddef.h"
        ]));
    }

    #[test]
    fn what_only_looks_like_it_is_not_it() {
        let headers = "usr/lib/clang/18/include/stddef.h";
        assert!(!found(&[]));
        assert!(!found(&["usr/lib/libclang.so"]), "no headers");
        for other in ["libclang-cpp.so.14", "libclangAST.a", "libclangd.so", "libclang.a"] {
            assert!(!found(&[&format!("usr/lib/{other}"), headers]), "{other}");
        }
    }
}
