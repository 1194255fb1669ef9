//! Words: pages, comments, messages and names use the terms of `docs/glossary.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::packages::packages;
use crate::sources::{root, sources};

/// Phrases that no page, comment, message or name has, each with what to write instead.
///
/// A phrase is matched in lower case, between characters that are no letters. In a name, `_` stands
/// for the space.
const FORBIDDEN: &[(&str, &str)] = &[
    ("somebody", "the person or program that acts"),
    ("nobody", "no user, no program"),
    ("whoever", "the person or program that acts"),
    ("is told", "is assigned, receives, is asked"),
    ("are told", "are assigned, receive, are asked"),
    ("was told", "was assigned, received, was asked"),
    ("were told", "were assigned, received, were asked"),
    ("gives back", "uncordons, returns, releases"),
    ("give back", "uncordon, return, release"),
    ("gave back", "uncordoned, returned, released"),
    ("given back", "uncordoned, returned, released"),
    ("goes back", "reverts, rolls back"),
    ("go back", "revert, roll back"),
    ("went back", "reverted, rolled back"),
    ("gone back", "reverted, rolled back"),
    ("take back", "revert, undo"),
    ("takes back", "reverts, undoes"),
    ("taken back", "reverted, undone"),
    ("looks again", "reconciles, reads again"),
    ("look again", "reconcile, read again"),
    ("look at", "read, check, reconcile"),
    ("the original", "OpenShift's MCO"),
    ("begun anew", "restarted"),
    ("birthplace", "initial configuration, initial pool"),
    ("newborn", "adopted, new node"),
];

/// A word that is right now and then, and stands for a missing term where it comes often.
#[derive(Debug)]
struct RareWord {
    /// [`ABOVE`] names it by the first.
    forms: &'static [&'static str],
    /// Uses per 100,000 lines of a crate.
    per_100_000: usize,
    /// Uses in a crate that is too short for a density.
    few: usize,
    instead: &'static str,
}

/// Words by density: whole, in any case, in a crate's Rust and Markdown files.
const RARE: &[RareWord] = &[
    RareWord {
        forms: &["said"],
        per_100_000: 210,
        few: 4,
        instead: "the message, event or condition; is reported",
    },
    RareWord {
        forms: &["asked"],
        per_100_000: 210,
        few: 4,
        instead: "the request; is requested, is set",
    },
    RareWord {
        forms: &["answer", "answers"],
        per_100_000: 240,
        few: 4,
        instead: "the response, the result",
    },
    RareWord {
        forms: &["anew"],
        per_100_000: 20,
        few: 1,
        instead: "again; is recreated",
    },
    RareWord {
        forms: &["known"],
        per_100_000: 280,
        few: 4,
        instead: "the cached, stored, observed or previous object, by its noun",
    },
    RareWord {
        forms: &["told"],
        per_100_000: 14,
        few: 1,
        instead: "is assigned, receives, is reported",
    },
];

/// Crates that use a word of [`RARE`] too often, and how often at most. Entries and numbers only
/// shrink.
const ABOVE: &[(&str, &str, usize)] = &[("api", "known", 30), ("api", "told", 2)];

/// Files with the old words on purpose.
const EXEMPT: &[&str] = &["docs/glossary.md", "tests/workspace/words.rs"];

/// Pages and sources that people read.
const READ: &[(&str, &str)] = &[
    ("src", "rs"),
    ("src", "md"),
    ("tests", "rs"),
    ("tests", "md"),
    ("docs", "md"),
    ("deploy", "md"),
    ("selinux", "md"),
    ("systemd", "service"),
];

#[test]
fn forbidden_words_are_in_no_page_comment_message_or_name() {
    let root = root();
    let mut count = 0;
    let mut found = Vec::new();
    let pages = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ]
    .map(|page| root.join(page));
    let read = READ
        .iter()
        .flat_map(|(folder, end)| sources(&root.join(folder), end));
    for path in read.chain(pages) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        if EXEMPT.contains(&name.as_str()) {
            continue;
        }
        count += 1;
        let text = plain(&std::fs::read_to_string(&path).unwrap());
        for (phrase, instead) in FORBIDDEN {
            for (at, _) in text.match_indices(phrase) {
                if is_whole(&text, at, phrase.len()) {
                    let line = text[..at].matches('\n').count() + 1;
                    found.push(format!("{name}:{line}: {phrase:?}: write {instead}"));
                }
            }
        }
    }
    assert!(count > 300, "only {count} files");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn comments_end_by_column_100() {
    let root = root();
    let mut long = Vec::new();
    for path in sources(&root.join("src"), "rs")
        .into_iter()
        .chain(sources(&root.join("tests"), "rs"))
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        // Tables cannot be wrapped, nor can a single word.
        let is_long = |line: &&str| {
            let comment = line.trim_start();
            comment.starts_with("//")
                && !comment.starts_with("//! |")
                && line.chars().count() > 100
                && comment.trim_start_matches(['/', '!', ' ']).contains(' ')
        };
        let lines = text.lines().enumerate().filter(|(_, line)| is_long(line));
        long.extend(lines.map(|(number, _)| format!("{name}:{}", number + 1)));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn no_crate_uses_a_rare_word_often() {
    let packages = packages();
    let folders: Vec<&PathBuf> = packages.iter().map(|package| &package.folder).collect();
    let mut wrong = Vec::new();
    let mut needed = Vec::new();
    for package in &packages {
        let text = text_of(&package.folder, &folders).to_lowercase();
        let lines = text.matches('\n').count();
        for rare in RARE {
            let word = rare.forms[0];
            let uses = uses(&text, rare.forms);
            let limit = rare.few.max(lines * rare.per_100_000 / 100_000);
            if uses <= limit {
                continue;
            }
            needed.push((package.name.as_str(), word));
            let entry = ABOVE
                .iter()
                .find(|(name, above, _)| *name == package.name && *above == word);
            let allowed = entry.map_or(limit, |(_, _, most)| *most);
            if uses > allowed {
                wrong.push(format!(
                    "{}: {word:?}: {uses} uses in {lines} lines, {allowed} allowed: write {}",
                    package.name, rare.instead
                ));
            }
        }
    }
    for (name, word, _) in ABOVE {
        if !needed.contains(&(*name, *word)) {
            wrong.push(format!("{name}: {word:?}: drop it from ABOVE"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The Rust and Markdown files of a crate, without those of crates below its folder.
fn text_of(folder: &Path, crates: &[&PathBuf]) -> String {
    let root = root();
    let is_own = |path: &PathBuf| {
        let path = path.strip_prefix(&root).unwrap();
        let deepest = crates
            .iter()
            .filter(|other| path.starts_with(other))
            .max_by_key(|other| other.components().count());
        deepest.is_some_and(|deepest| deepest.as_path() == folder)
            && !EXEMPT.iter().any(|exempt| path == Path::new(exempt))
    };
    let files = ["rs", "md"].map(|end| sources(&root.join(folder), end));
    let files = files.into_iter().flatten().filter(is_own);
    files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// How often one of these words is in a text in lower case, whole. `_` is part of a word.
fn uses(text: &str, forms: &[&str]) -> usize {
    let is_part = |found: Option<char>| found.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_word = |at: usize, form: &str| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + form.len()..].chars().next())
    };
    let whole = forms.iter().map(|form| {
        let found = text.match_indices(form);
        found.filter(|(at, _)| is_word(*at, form)).count()
    });
    whole.sum()
}

/// The text in lower case, with `_` as a space.
fn plain(text: &str) -> String {
    text.to_lowercase().replace('_', " ")
}

/// Whether no letter precedes or follows.
fn is_whole(text: &str, at: usize, length: usize) -> bool {
    let is_letter = |found: Option<char>| found.is_some_and(char::is_alphabetic);
    !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + length..].chars().next())
}

#[test]
fn one_crate_defines_a_public_type() {
    let mut defined: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for package in packages() {
        let folder = root().join(&package.folder).join("src");
        if !package.folder.starts_with("src") {
            continue;
        }
        for path in sources(&folder, "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let place = path.strip_prefix(root()).unwrap().display().to_string();
            for name in text.lines().filter_map(public_type) {
                let crates = defined.entry(name.to_owned()).or_default();
                crates.insert(package.name.clone(), place.clone());
            }
        }
    }
    assert!(defined.len() > 200, "only {} types", defined.len());
    let repeated: Vec<_> = defined
        .iter()
        .filter(|(name, crates)| *name != "Error" && crates.len() > 1)
        .map(|(name, crates)| format!("{name}: {:?}", crates.values().collect::<Vec<_>>()))
        .collect();
    assert!(repeated.is_empty(), "{}", repeated.join("\n"));
}

/// The name of the public type that a line defines.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric());
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[test]
fn a_phrase_is_found_between_characters_that_are_no_letters() {
    assert!(is_whole("it is told it", 3, 7));
    assert!(!is_whole("basis tolded", 3, 7));
    assert_eq!(plain("Give_Back"), "give back");
    assert_eq!(uses("known, known-so; unknown is_known", &["known"]), 2);
    assert_eq!(public_type("    pub enum Phase<T> {"), Some("Phase"));
    assert_eq!(public_type("pub(crate) struct Own;"), None);
}
