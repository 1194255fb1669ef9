//! Goldens: texts in the repository that a reviewer judges, compared by a test.
//!
//! `UPDATE_GOLDENS=1 cargo test …` writes what the program prints now; the change of the file is
//! then reviewed as any other.

#![expect(clippy::panic, reason = "a comparison in tests")]

use std::collections::BTreeSet;
use std::path::Path;

/// The variable that has goldens written instead of compared.
const UPDATE: &str = "UPDATE_GOLDENS";

/// Compares `text` with the file `path` of a crate:
/// `golden::assert(env!("CARGO_MANIFEST_DIR"), "tests/golden/x.txt", &text)`.
///
/// # Panics
/// Where they differ, with the first line that does, or where the file cannot be read or written.
#[track_caller]
pub fn assert(crate_folder: &str, path: &str, text: &str) {
    let path = Path::new(crate_folder).join(path);
    if is_update() {
        return write(&path, text);
    }
    compare(&path, &read(&path), text);
}

/// Compares `text` with the fenced block of a Markdown page whose info string is `name`.
///
/// # Panics
/// As [`assert`], and where the page has no such block.
#[track_caller]
pub fn assert_block(crate_folder: &str, page: &str, name: &str, text: &str) {
    let path = Path::new(crate_folder).join(page);
    let page = read(&path);
    let Some((before, block, after)) = block(&page, name) else {
        panic!("{} has no block {name}", path.display());
    };
    if is_update() {
        return write(&path, &format!("{before}{text}{after}"));
    }
    compare(&path, block, text);
}

/// The text of a fenced block, between the texts before and after it.
fn block<'page>(page: &'page str, name: &str) -> Option<(&'page str, &'page str, &'page str)> {
    let fence = format!("```{name}\n");
    let start = page.find(&fence)? + fence.len();
    let (before, rest) = page.split_at_checked(start)?;
    let (block, after) = rest.split_at_checked(rest.find("```")?)?;
    Some((before, block, after))
}

/// An edge of a drawing: from, event, to.
pub type Edge = (String, String, String);

/// Compares the edges of a state machine with its drawing: the fenced block `drawing` of a Markdown
/// page.
///
/// # Panics
/// Where an edge is missing, or drawn only, or the page has no drawing.
#[track_caller]
pub fn assert_drawing(crate_folder: &str, page: &str, edges: &BTreeSet<Edge>) {
    let path = Path::new(crate_folder).join(page);
    let page = read(&path);
    let Some((_, drawing, _)) = block(&page, "drawing") else {
        panic!("{} has no drawing", path.display());
    };
    let drawn = drawn(drawing);
    let missing: Vec<_> = edges.difference(&drawn).collect();
    let too_much: Vec<_> = drawn.difference(edges).collect();
    assert!(missing.is_empty(), "not drawn: {missing:#?}");
    assert!(too_much.is_empty(), "drawn only: {too_much:#?}");
}

/// The edges of a drawing: each `A ── E, F ──► B` in it, and `A, B ── E ──► C` for several states.
fn drawn(drawing: &str) -> BTreeSet<Edge> {
    let mut edges = BTreeSet::new();
    let list = |text: &str| -> Vec<String> {
        text.split(',').map(|name| name.trim().to_owned()).collect()
    };
    for line in drawing.lines().filter(|line| line.contains("──►")) {
        let mut nodes = line.split("──►");
        let mut from = nodes.next().unwrap_or_default().to_owned();
        for node in nodes {
            let Some((states, events)) = from.split_once("──") else {
                panic!("no event leads from {from:?}: {line:?}");
            };
            let (to, rest) = match node.split_once("──") {
                Some((to, _)) => (to, node.to_owned()),
                // What follows a gap is a remark.
                None => (
                    node.trim().split("  ").next().unwrap_or_default(),
                    String::new(),
                ),
            };
            for state in list(states) {
                for event in list(events) {
                    for to in list(to) {
                        edges.insert((state.clone(), event.clone(), to));
                    }
                }
            }
            from = rest;
        }
    }
    edges
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests are asked so, as by cargo's own variables"
)]
fn is_update() -> bool {
    std::env::var(UPDATE).is_ok_and(|value| value == "1")
}

#[expect(clippy::disallowed_methods, reason = "a file of the checkout")]
fn write(path: &Path, text: &str) {
    let folder = path.parent().unwrap_or(path);
    if let Err(error) = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text)) {
        panic!("cannot write {}: {error}", path.display());
    }
}

fn read(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => panic!(
            "cannot read {}: {error}; {UPDATE}=1 writes it",
            path.display()
        ),
    }
}

#[track_caller]
fn compare(path: &Path, golden: &str, text: &str) {
    if golden == text {
        return;
    }
    let (mut golden, mut found) = (golden.lines(), text.lines());
    for number in 1.. {
        let (expected, found) = (golden.next(), found.next());
        assert!(
            expected == found && expected.is_some(),
            "{}: line {number} of the golden is {expected:?}, found {found:?}; {UPDATE}=1 writes what was found",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = env!("CARGO_MANIFEST_DIR");

    #[test]
    fn a_block_is_found_between_its_fences() {
        let page = "# Page\n```text\na\nb\n```\nend\n";
        assert_eq!(
            block(page, "text"),
            Some(("# Page\n```text\n", "a\nb\n", "```\nend\n"))
        );
        assert_eq!(block(page, "dot"), None);
    }

    #[test]
    fn edges_are_read_from_chains_and_lists() {
        let drawing = "A ── E ──► B ── F, G ──► C     a remark\n  A, B ── H ──► C, D\nno edge\n";
        let edges = [
            ("A", "E", "B"),
            ("A", "H", "C"),
            ("A", "H", "D"),
            ("B", "F", "C"),
            ("B", "G", "C"),
            ("B", "H", "C"),
            ("B", "H", "D"),
        ];
        let edges = edges.map(|(from, event, to)| (from.into(), event.into(), to.into()));
        assert_eq!(drawn(drawing), BTreeSet::from(edges));
    }

    #[test]
    fn the_same_text_passes() {
        assert(HERE, "Cargo.toml", include_str!("../Cargo.toml"));
    }

    #[test]
    #[should_panic(expected = "line 2 of the golden is Some(\"name = \\\"golden\\\"\")")]
    fn a_difference_is_named_by_its_line() {
        let other = include_str!("../Cargo.toml").replace("golden", "other");
        assert(HERE, "Cargo.toml", &other);
    }
}
