//! Where links lead: to a file that is there and a heading that it has, in the repository and in the
//! documentation of the crate. Pages that are in both name each other by labels (`[limits.md]`), which mean a
//! file at the end of the page, and a module in `manual/links.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::docs::page::{self, Page, SUMMARY, prose, root};

/// What is in the site beside the pages of the manual.
const OTHERS: [&str; 7] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bindings/node/README.md",
    "bindings/python/README.md",
    "proof/README.md",
];

/// Texts with links that are not in the site.
const ELSEWHERE: [&str; 6] = [
    SUMMARY,
    "crates/cli/README.md",
    "crates/conformance/README.md",
    "crates/core/README.md",
    "crates/module/README.md",
    "crates/taketurns/README.md",
];

/// The manual in the documentation of the crate, and what labels are there.
const MANUAL: &str = "crates/taketurns/src/manual.rs";
const LABELS: &str = "crates/taketurns/src/manual/links.md";

/// What a page has of links.
#[derive(Debug, Default, PartialEq, Eq)]
struct Links {
    /// `[text](target)`
    inline: Vec<String>,
    /// `[text][label]`, if the label is a page.
    used: BTreeSet<String>,
    /// `[label]: target`
    defined: Vec<(String, String)>,
}

fn links(text: &str) -> Links {
    let mut links = Links::default();
    for line in prose(text).lines() {
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((label, target)) = definition {
            links.defined.push((label.to_owned(), target.to_owned()));
        }
    }
    // Links may go over the end of a line, their targets don't.
    let prose = prose(text);
    let after = |mark| prose.split(mark).skip(1);
    let until = |end| move |rest: &str| rest.split_once(end).map(|(target, _)| target.to_owned());
    links.inline.extend(after("](").filter_map(until(")")));
    let labels = after("][").filter_map(until("]"));
    links.used.extend(labels.filter(|label| label.contains(".md")));
    links
}

/// What a heading is called in links.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> Vec<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| anchor(line.trim_start_matches('#')));
    let named = prose.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    headings.chain(named.map(|(name, _)| name.to_owned())).collect()
}

/// What is wrong with a link from this page.
fn complaint(page: &Page, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(&page.path).parent().expect("a page is in a folder");
    let path = root().join(folder).join(file);
    let text = if file.is_empty() {
        page.text.clone()
    } else if !path.exists() {
        return Some(format!("{}: {target} leads nowhere", page.path));
    } else {
        fs::read_to_string(path).unwrap_or_default()
    };
    let is_there = heading.is_empty() || anchors(&text).iter().any(|anchor| anchor == heading);
    (!is_there).then(|| format!("{}: {target}: there is no such heading", page.path))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let others = OTHERS.into_iter().chain(ELSEWHERE).map(str::to_owned);
    let paths = page::all().into_iter().chain(others);
    let mut wrong = Vec::new();
    for page in paths.map(|path| Page::read(&path)) {
        let links = links(&page.text);
        let targets = links.defined.iter().map(|(_, target)| target).chain(&links.inline);
        wrong.extend(targets.filter_map(|target| complaint(&page, target)));
        let labels: BTreeSet<_> = links.defined.into_iter().map(|(label, _)| label).collect();
        let one_sided = labels.symmetric_difference(&links.used);
        wrong.extend(
            one_sided.map(|label| format!("{}: [{label}] is not both used and defined", page.path)),
        );
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = links(&Page::read("docs/README.md").text);
    for path in page::all() {
        let Some(label) = path.strip_prefix("docs/").filter(|label| *label != "README.md") else {
            continue;
        };
        assert!(contents.used.contains(label), "docs/README.md does not name {label}");
    }
}

/// `cargo xtask docs` makes the site of the pages that the summary names.
#[test]
fn every_page_is_in_the_site_once() {
    let mut named = links(&Page::read(SUMMARY).text).inline;
    named.sort();
    let mut pages: Vec<String> = page::all()
        .into_iter()
        .chain(OTHERS.map(str::to_owned))
        .map(|path| match path.strip_prefix("docs/") {
            Some(path) => path.to_owned(),
            None => format!("../{path}"),
        })
        .collect();
    pages.sort();
    assert_eq!(named, pages, "{SUMMARY}");
}

#[test]
fn pages_in_the_documentation_of_the_crate_name_each_other_by_labels_that_are_known_there() {
    let manual = fs::read_to_string(root().join(MANUAL)).expect("the manual");
    let known = links(&fs::read_to_string(root().join(LABELS)).expect("labels")).defined;
    let mut used = BTreeSet::new();
    let included = manual.split("\"../docs/").skip(1).filter_map(|rest| rest.split_once('"'));
    let included: Vec<&str> = included.map(|(file, _)| file).collect();
    assert!(included.len() >= 15, "{included:?}");
    for file in included {
        let page = Page::read(&format!("docs/{file}"));
        let links = links(&page.text);
        let file =
            links.inline.iter().find(|target| !target.starts_with('#') && !target.contains("://"));
        assert_eq!(
            file, None,
            "{}: it leads to no page of the documentation: use a label",
            page.path
        );
        used.extend(links.used);
    }
    let known: BTreeSet<String> = known.into_iter().map(|(label, _)| label).collect();
    assert_eq!(known, used, "{LABELS}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_and_blocks_are_left_alone() {
        let text = "[a](b.md#c) and [d\ne][f.md]\n```\n[x](y)\n```\n[f.md]: ../f.md\n";
        let expected = Links {
            inline: vec!["b.md#c".to_owned()],
            used: BTreeSet::from(["f.md".to_owned()]),
            defined: vec![("f.md".to_owned(), "../f.md".to_owned())],
        };
        assert_eq!(links(text), expected);
    }

    #[test]
    fn a_heading_is_called_by_its_words() {
        assert_eq!(anchor(" Quarantine: after a fail-over"), "quarantine-after-a-fail-over");
        assert_eq!(anchor(" `consul lock`"), "consul-lock");
        assert_eq!(anchors("# A\n<a id=\"b\"></a>\n"), ["a", "b"]);
    }
}
