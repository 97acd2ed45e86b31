//! `cargo xtask docs`: makes the site, into `target/docs/site`. It has the manual, and the API reference in `api/`.
//!
//! ```text
//!   docs/SUMMARY.md ─► pages ─┐                            ┌─► site ─► links: does each lead somewhere?
//!   the program's help ───────┴─► book.rs ─► src ─► mdBook ┤    ▲
//!                                                               └── api ◄── cargo doc
//! ```
//!
//! The pages are those that the tests type, and stay where they are. `src` has a copy of each at the same path, so
//! that links between pages need no change.

mod book;
mod links;
mod mdbook;

use std::fs;
use std::path::{Path, PathBuf};

use taketurns_servers::target_dir;

use crate::dist::files::{empty, in_file};
use crate::{cargo, succeeds};

const USAGE: &str = "usage: cargo xtask docs [--no-install]";

/// The crates whose API a reader may use.
const CRATES: [(&str, &str); 3] = [
    ("taketurns", "the locks: `connect`, `Locks`, `Guard`, `Election`, `fence`"),
    ("taketurns_core", "the rules of a lock and of a client, without I/O"),
    ("taketurns_conformance", "the tests that every engine must pass"),
];

/// Builds the site, and checks its links.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    let may_install = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => true,
        ["--no-install"] => false,
        _ => return Err(USAGE.to_owned()),
    };
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let root = root.canonicalize().map_err(in_file(&root))?;
    let target = target_dir();
    let mdbook = mdbook::find(&target.join("tools"), may_install)?;
    let work = target.join("docs");
    let site = work.join("site");
    empty(&work)?;

    eprintln!("==> the manual");
    if !succeeds(&mut cargo(&["build", "--quiet", "--package", "taketurns-cli"]))? {
        return Err("==> the program, whose help is in the manual, can't be built".to_owned());
    }
    book::write(&root, &target.join("debug/taketurns"), &work)?;
    mdbook::build(&mdbook, &work)?;
    eprintln!("==> the API reference");
    let api = site.join("api");
    reference(&target.join("doc"), &api)?;
    eprintln!("==> links");
    let checked = links::check(&site, &api)?;
    eprintln!("==> {checked} links are good; open {}", site.join("index.html").display());
    Ok(())
}

/// Makes the API reference. `cargo doc` adds to what is there, and to its index, so its folder is emptied first.
fn reference(made: &Path, to: &Path) -> Result<(), String> {
    empty(made)?;
    let mut doc = cargo(&["doc", "--no-deps", "--all-features", "--quiet"]);
    for (name, _) in CRATES {
        doc.args(["--package", &name.replace('_', "-")]);
    }
    if !succeeds(doc.env("RUSTDOCFLAGS", "-D warnings"))? {
        return Err("==> the API reference can't be built".to_owned());
    }
    copy_tree(made, to)?;
    // Its help and settings lead to a page for all crates, which rustdoc does not make.
    let index = to.join("index.html");
    let redirect =
        format!("<meta http-equiv=\"refresh\" content=\"0; url={}/index.html\">\n", CRATES[0].0);
    fs::write(&index, redirect).map_err(in_file(&index))
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(in_file(to))?;
    for entry in fs::read_dir(from).map_err(in_file(from))? {
        let entry = entry.map_err(in_file(from))?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &copy)?;
        } else {
            fs::copy(&source, &copy).map_err(in_file(&source))?;
        }
    }
    Ok(())
}
