//! How two releases differ, as text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

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
        manifests(from, to),
    ])
}

/// Fields of one manifest that are named; of more only the number.
const FIELDS: usize = 5;

/// Objects that were added, removed, or whose fields differ; where a field moved in its file does
/// not count.
fn manifests(from: &Info, to: &Info) -> String {
    let (before, after) = (objects(from), objects(to));
    let (mut changed, mut added, mut removed) = (vec![], vec![], vec![]);
    for (id, object) in &after {
        match before.get(id) {
            None => added.push([id.clone()]),
            Some(other) => {
                let mut fields = Vec::new();
                differing("", other, object, &mut fields);
                if !fields.is_empty() {
                    let more = fields.len().saturating_sub(FIELDS);
                    fields.truncate(FIELDS);
                    let more = (more > 0).then(|| format!("and {more} more"));
                    let fields: Vec<String> = fields.into_iter().chain(more).collect();
                    changed.push([id.clone(), fields.join(", ")]);
                }
            }
        }
    }
    removed.extend((before.keys().filter(|id| !after.contains_key(*id))).map(|id| [id.clone()]));
    let blocks = [
        named("Manifests Changed:", &changed),
        named("Manifests Added:", &added),
        named("Manifests Removed:", &removed),
    ];
    let blocks: Vec<String> = blocks
        .into_iter()
        .filter(|block| !block.is_empty())
        .collect();
    blocks.join("\n")
}

/// Manifests by their object; one object for several kinds of clusters has its number.
fn objects(info: &Info) -> BTreeMap<String, &Value> {
    let mut objects = BTreeMap::new();
    for manifest in &info.payload.manifests {
        let mut id = manifest.id.to_string();
        let mut number = 1;
        while objects.contains_key(&id) {
            number += 1;
            id = format!("{} ({number})", manifest.id);
        }
        objects.insert(id, &manifest.object);
    }
    objects
}

/// Paths of the fields that differ, the outermost of each.
fn differing(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => differing(&path, one, other, found),
                    _ => found.push(path),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                differing(&format!("{path}[{number}]"), one, other, found);
            }
        }
        _ if one == other => {}
        _ => found.push(path.to_owned()),
    }
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

    #[test]
    fn manifests_differ_by_object_and_field() {
        let with = |manifests: &str| {
            let mut info = info();
            let parsed = release::manifest::Manifest::parse("a.yaml", manifests.as_bytes());
            info.payload.manifests = parsed.unwrap();
            info
        };
        let object = |name: &str, rest: &str| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\n{rest}\n---\n")
        };
        let from =
            with(&(object("kept", "data: { a: x, b: y, list: [1, 2] }") + &object("old", "")));
        let to = with(&(object("kept", "data: { b: z, a: x, list: [1, 3] }") + &object("new", "")));
        assert_eq!(
            manifests(&from, &to),
            "Manifests Changed:\n  ConfigMap kept data.b, data.list[1]\n\nManifests Added:\n  \
             ConfigMap new\n\nManifests Removed:\n  ConfigMap old\n"
        );
        assert_eq!(manifests(&from, &from), "");
    }

    #[test]
    fn many_fields_are_counted() {
        let object = |value: u8| {
            let fields = ["a", "b", "c", "d", "e", "f", "g"];
            let fields = fields.map(|name| (name.to_owned(), Value::from(value)));
            Value::Object(fields.into_iter().collect())
        };
        let mut found = Vec::new();
        differing("", &object(1), &object(2), &mut found);
        assert_eq!(found.len(), 7);
        let mut found = Vec::new();
        differing(
            "x",
            &Value::from(vec![1]),
            &Value::from(vec![1, 2]),
            &mut found,
        );
        assert_eq!(found, ["x"]);
    }
}
