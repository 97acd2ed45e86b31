//! Checks the links of the manual's pages: each must lead to a file of the site, and to an anchor that the file has.
//! rustdoc checks those of the API reference, as far as they are ours: pages of a type also have the documentation of
//! other crates' traits, whose links lead nowhere outside those crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::dist::files::in_file;

/// What a page of the site has: links, and anchors that others may name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Document {
    links: BTreeSet<String>,
    anchors: BTreeSet<String>,
}

impl Document {
    fn parse(html: &str) -> Self {
        let values = |attribute: &str| {
            let start = format!(" {attribute}=\"");
            let values = html.split(&start).skip(1).filter_map(|rest| rest.split_once('"'));
            values.map(|(value, _)| unescaped(value)).collect::<BTreeSet<_>>()
        };
        let mut links = values("href");
        links.append(&mut values("src"));
        Self { links, anchors: values("id") }
    }
}

fn unescaped(value: &str) -> String {
    value.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("%20", " ")
}

/// Checks all links from pages outside `reference`, and returns how many there are. The error has a line for each
/// broken link.
pub(super) fn check(site: &Path, reference: &Path) -> Result<usize, String> {
    let mut documents = BTreeMap::new();
    read(site, &mut documents)?;
    let pages = documents.iter().filter(|(path, _)| !path.starts_with(reference));
    let mut broken = Vec::new();
    let mut checked = 0;
    for (path, document) in pages {
        for link in document.links.iter().filter(|link| is_local(link)) {
            checked += 1;
            if let Err(why) = follow(path, link, &documents) {
                broken.push(format!("{}: {link} {why}", inside(path, site)));
            }
        }
    }
    if broken.is_empty() { Ok(checked) } else { Err(broken.join("\n")) }
}

fn inside(path: &Path, site: &Path) -> String {
    path.strip_prefix(site).unwrap_or(path).display().to_string()
}

fn read(folder: &Path, documents: &mut BTreeMap<PathBuf, Document>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(in_file(folder))? {
        let path = entry.map_err(in_file(folder))?.path();
        if path.is_dir() {
            read(&path, documents)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let html = fs::read_to_string(&path).map_err(in_file(&path))?;
            documents.insert(path, Document::parse(&html));
        }
    }
    Ok(())
}

fn is_local(link: &str) -> bool {
    !link.contains("://")
        && !["data:", "javascript:", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

fn follow(
    from: &Path,
    link: &str,
    documents: &BTreeMap<PathBuf, Document>,
) -> Result<(), &'static str> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = file.split('?').next().unwrap_or_default();
    let path = match file {
        "" => from.to_owned(),
        _ => resolved(&from.parent().unwrap_or(from).join(file)),
    };
    if !path.is_file() {
        return Err("leads nowhere");
    }
    let Some(document) = documents.get(&path).filter(|_| !anchor.is_empty()) else {
        return Ok(());
    };
    if document.anchors.contains(anchor) { Ok(()) } else { Err("names no anchor of that page") }
}

/// The path without `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_needs_a_file_and_the_anchor_that_it_names() {
        let site = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = site.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(
            "index.html",
            "<a href=\"docs/a.html#b\">a</a> <img src=\"d.svg\"> <a href=\"https://x/y\">",
        );
        write("docs/a.html", "<h2 id=\"b\">b</h2> <a href=\"../index.html\"> <a href=\"#b\">");
        write("d.svg", "");
        write("api/a.html", "<h2 id=\"b\">b</h2> <a href=\"nowhere.html\">");
        let check = || check(site.path(), &site.path().join("api"));
        assert_eq!(check(), Ok(4));
        write("docs/a.html", "<h2 id=\"c\">c</h2> <a href=\"b.html\">");
        assert_eq!(
            check(),
            Err("docs/a.html: b.html leads nowhere\n\
                 index.html: docs/a.html#b names no anchor of that page"
                .to_owned())
        );
    }
}
