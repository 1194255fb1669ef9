//! Citations of `docs/reference`: each names a page that exists, and headings in quotes that the
//! page has. Code in a page is that of the file which its fence names.
//! The tests that its page of weaknesses names exist.

use std::collections::BTreeSet;

use crate::sources::{root, sources};

#[test]
fn cited_pages_and_headings_exist() {
    let root = root();
    let files = [
        ("src", "rs"),
        ("tests", "rs"),
        ("deploy", "yaml"),
        ("docs", "md"),
    ];
    let mut count = 0;
    for path in files
        .iter()
        .flat_map(|(folder, end)| sources(&root.join(folder), end))
    {
        let text = joined(&std::fs::read_to_string(&path).unwrap());
        for (page, headings) in text.split("docs/reference/").skip(1).filter_map(citation) {
            let cited = std::fs::read_to_string(root.join(format!("docs/reference/{page}.md")));
            let cited = cited.unwrap_or_default();
            assert!(!cited.is_empty(), "{} cites page {page:?}", path.display());
            for heading in headings {
                let is_there = cited.contains(&format!("\n## {heading}\n"));
                assert!(
                    is_there,
                    "{} cites {heading:?} of page {page:?}",
                    path.display()
                );
                count += 1;
            }
        }
    }
    assert!(count > 40, "only {count} headings are cited");
}

#[test]
fn code_in_pages_is_that_of_the_named_file() {
    let root = root();
    let mut count = 0;
    for page in sources(&root.join("docs"), "md") {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```rust").skip(1) {
            let (path, rest) = block.split_once('\n').unwrap();
            let (code, _) = rest.split_once("```").unwrap();
            let quoted = std::fs::read_to_string(root.join(path.trim())).unwrap_or_default();
            assert!(
                quoted.contains(code),
                "{}: code of {path:?} differs:\n{code}",
                page.display()
            );
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn known_weaknesses_name_tests_that_exist() {
    let page = root().join("docs/reference/known-weaknesses.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut functions = BTreeSet::new();
    for path in ["src", "tests"]
        .map(|folder| sources(&root().join(folder), "rs"))
        .concat()
    {
        let text = std::fs::read_to_string(path).unwrap();
        let names = text
            .split("fn ")
            .skip(1)
            .filter_map(|rest| rest.split('(').next());
        functions.extend(names.map(str::to_owned));
    }
    let mut count = 0;
    for (row, tests) in page
        .lines()
        .filter_map(|line| line.trim_end_matches(" |").rsplit_once("| `"))
    {
        for test in tests.trim_end_matches('`').split("`, `") {
            assert!(functions.contains(test), "{row}: there is no test {test:?}");
            count += 1;
        }
    }
    assert!(count > 70, "only {count} tests are named");
}

/// A text without the breaks of its lines and the marks of comments, which may stand in a heading.
fn joined(text: &str) -> String {
    let marks = ["//!", "///", "//", "#"];
    let lines = text.lines().map(|line| {
        let line = line.trim_start();
        let mark = marks.iter().find_map(|mark| line.strip_prefix(mark));
        mark.unwrap_or(line).trim_start()
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// The page and the headings at the beginning of a text; nothing where it names no page.
fn citation(text: &str) -> Option<(&str, Vec<&str>)> {
    let (page, rest) = text.split_once(".md`")?;
    let mut parts = rest.split('"');
    let mut headings = Vec::new();
    while parts
        .next()
        .is_some_and(|joint| [", ", " and ", " to ", ", and "].contains(&joint))
    {
        headings.extend(parts.next());
    }
    let is_name = page
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_name.then_some((page, headings))
}
