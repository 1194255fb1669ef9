//! The book of `docs/`: it has every page, and each link between pages leads to one.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::sources::{root, sources};

/// Texts and targets of the links and pictures of a page, outside of code.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The anchor that a heading gets: lower case, hyphens for spaces, no other characters.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|character| match character {
        ' ' | '-' => Some('-'),
        '_' => Some('_'),
        other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// The path without `..`; none where it leads out.
fn within(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => clean.pop().then_some(())?,
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    Some(clean)
}

/// What is wrong with a link of a page.
fn fault(docs: &Path, page: &Path, target: &str) -> Vec<String> {
    if target.starts_with("https://") || target.starts_with("http://") {
        return Vec::new();
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let name = page.strip_prefix(docs).unwrap();
    let linked = if path.is_empty() {
        Some(name.to_owned())
    } else {
        within(&name.parent().unwrap().join(path))
    };
    let says = format!("{}: {target:?}", name.display());
    let Some(linked) = linked.filter(|linked| docs.join(linked).is_file()) else {
        return vec![format!("{says} leads out of the book or nowhere")];
    };
    let text = std::fs::read_to_string(docs.join(linked)).unwrap_or_default();
    if fragment.is_empty() || anchors(&text).contains(fragment) {
        Vec::new()
    } else {
        vec![format!("{says}: no such heading")]
    }
}

#[test]
fn every_page_is_in_the_book_and_its_links_lead_to_pages() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<_> = links(&summary).into_iter().collect();
    let mut faults = Vec::new();
    let mut count = 0;
    for page in sources(&docs, "md") {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        if name != "SUMMARY.md" && !listed.contains(&name) {
            faults.push(format!("{name} is not in SUMMARY.md"));
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for target in links(&text) {
            count += 1;
            faults.extend(fault(&docs, &page, &target));
        }
    }
    assert!(count > 100, "only {count} links");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
fn links_that_lead_nowhere_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path();
    std::fs::create_dir(docs.join("a")).unwrap();
    let page = docs.join("a/one.md");
    std::fs::write(&page, "# One\n\n## What `x_y` does, twice\n").unwrap();
    std::fs::write(docs.join("two.md"), "# Two\n").unwrap();
    for (target, is_good) in [
        ("https://example.com/x", true),
        ("../two.md", true),
        ("../two.md#two", true),
        ("#what-x_y-does-twice", true),
        ("../two.md#three", false),
        ("two.md", false),
        ("../../README.md", false),
        ("#one-more", false),
    ] {
        let fault = fault(docs, &page, target);
        assert_eq!(fault.is_empty(), is_good, "{target}: {fault:?}");
    }
    assert_eq!(
        links("[a](b) ![c](d#e)\n```\n[f](g)\n```\n[h](i)"),
        ["b", "d#e", "i"]
    );
}
