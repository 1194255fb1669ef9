//! What a node may write is listed, each with what a lie may cause: `docs/node-inputs.md`.

#![expect(clippy::unwrap_used, reason = "tests that read the workspace")]

use std::collections::BTreeMap;

const KEYS: &str = include_str!("../../api/src/machineconfiguration/annotation.rs");
const PAGE: &str = include_str!("../../../docs/node-inputs.md");

/// Keys of the annotations of a Node, of which a kubelet may write each.
fn keys() -> Vec<&'static str> {
    let mut is_of_node = false;
    let mut text = KEYS;
    let mut keys = Vec::new();
    while let Some((line, rest)) = text.split_once('\n') {
        text = rest;
        if let Some(doc) = line.strip_prefix("/// ") {
            is_of_node |= doc.starts_with("On a Node;");
        } else if line.starts_with("pub const") {
            // The value may stand on the next line.
            let value = format!("{line}{}", rest.lines().next().unwrap_or_default());
            if is_of_node {
                let start = KEYS.len() - text.len() - line.len() - 1;
                let value_at = KEYS[start..].split('"').nth(1).unwrap();
                assert!(value.contains(value_at), "{line}");
                keys.push(value_at);
            }
            is_of_node = false;
        }
    }
    keys
}

/// The rows of the page: each input with what a lie may cause.
fn rows() -> BTreeMap<&'static str, &'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let cells: [&str; 4] = cells.try_into().unwrap();
        let [_, key, lie, _] = cells;
        (key.trim_matches('`'), lie)
    })
    .collect()
}

#[test]
fn each_annotation_that_a_node_may_write_has_its_row() {
    let (keys, rows) = (keys(), rows());
    assert!(keys.len() > 25, "{keys:?}");
    for key in &keys {
        let what = rows.get(key).unwrap_or_else(|| panic!("{key} has no row"));
        assert!(!what.is_empty(), "{key}");
    }
    let is_known = |input: &str| keys.contains(&input) || !input.contains('/');
    let unknown: Vec<_> = rows.keys().filter(|input| !is_known(input)).collect();
    assert!(unknown.is_empty(), "no annotation of a Node: {unknown:?}");
}
