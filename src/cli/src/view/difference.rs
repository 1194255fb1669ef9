//! How two releases differ, as text.

use std::collections::{BTreeMap, BTreeSet};

use super::info::Info;
use super::table::{blocks, table};

/// Two releases, side by side.
pub(crate) fn text(from: &Info, to: &Info) -> String {
    if from.head.digest == to.head.digest || from.files == to.files {
        return "Releases are identical\n".to_owned();
    }
    let row = |label: &str, of: fn(&Info) -> String| [label.to_owned(), of(from), of(to)];
    let mut rows = vec![
        ["", "FROM", "TO"].map(str::to_owned),
        row("Name:", |info| info.version().to_string()),
        row("Digest:", |info| info.head.digest.clone()),
        row("Created:", |info| info.head.created.clone()),
    ];
    if from.head.platform != to.head.platform {
        rows.push(row("OS/Arch:", |info| info.head.platform.clone()));
    }
    let versions = version_rows(from, to);
    let is_listed = to.payload.metadata.previous.contains(from.version());
    let upgrade = if is_listed { "Yes" } else { "No" };
    blocks(&[
        table(0, &rows),
        format!("Upgrade From: {upgrade}\n"),
        named("Component Versions:", &versions),
        images(from, to),
    ])
}

fn named<const COLUMNS: usize>(name: &str, rows: &[[String; COLUMNS]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("{name}\n{}", table(2, rows))
}

/// Components whose version differs.
fn version_rows(from: &Info, to: &Info) -> Vec<[String; 3]> {
    let both = [from, to].map(|info| &info.carried.versions);
    let names: BTreeSet<&String> = both.iter().flat_map(|versions| versions.keys()).collect();
    let version = |versions: &BTreeMap<String, release::component_versions::ComponentVersion>,
                   name| {
        let version = versions.get(name);
        version.map_or_else(String::new, |version| version.version.to_string())
    };
    let rows = names.into_iter().map(|name| {
        let [from, to] = both.map(|versions| version(versions, name));
        [name.clone(), from, to]
    });
    rows.filter(|[_, from, to]| from != to).collect()
}

fn images(from: &Info, to: &Info) -> String {
    let (before, after) = (from.digests(), to.digests());
    let (mut changed, mut rebuilt, mut added, mut removed) = (vec![], vec![], vec![], vec![]);
    for (name, digest) in &after {
        match before.get(name) {
            None => added.push([(*name).to_owned(), digest.clone()]),
            Some(other) if other == digest => {}
            Some(other) => {
                let row = [(*name).to_owned(), other.clone(), digest.clone()];
                let is_same_source =
                    from.commit(name) == to.commit(name) && !from.commit(name).1.is_empty();
                if is_same_source {
                    rebuilt.push(row);
                } else {
                    changed.push(row);
                }
            }
        }
    }
    for (name, digest) in &before {
        if !after.contains_key(name) {
            removed.push([(*name).to_owned(), digest.clone()]);
        }
    }
    let blocks = [
        named("Images Changed:", &changed),
        named("Images Rebuilt:", &rebuilt),
        named("Images Added:", &added),
        named("Images Removed:", &removed),
    ];
    let blocks: Vec<String> = blocks
        .into_iter()
        .filter(|block| !block.is_empty())
        .collect();
    blocks.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::info::tests::{info, with_images};

    #[test]
    fn equal_releases_are_identical() {
        assert_eq!(text(&info(), &info()), "Releases are identical\n");
    }

    #[test]
    fn images_are_sorted_by_what_became_of_them() {
        let from = with_images(
            "1.0.0",
            &[
                ("changed", "1", "a"),
                ("gone", "1", "a"),
                ("rebuilt", "1", "a"),
                ("same", "1", "a"),
            ],
        );
        let to = with_images(
            "1.0.1",
            &[
                ("changed", "2", "b"),
                ("new", "1", "a"),
                ("rebuilt", "2", "a"),
                ("same", "1", "a"),
            ],
        );
        let text = text(&from, &to);
        let digest = |text: &str| release::ImageDigest::of(text.as_bytes()).to_string();
        let expected = format!(
            "Upgrade From: Yes\n\nImages Changed:\n  changed {one} {two}\n\nImages Rebuilt:\n  rebuilt {one} {two}\n\nImages Added:\n  new {one}\n\n\
             Images Removed:\n  gone {one}\n\n",
            one = digest("1"),
            two = digest("2"),
        );
        assert!(text.ends_with(&expected), "{text}\n{expected}");
        assert!(text.starts_with("         FROM"), "{text}");
    }
}
