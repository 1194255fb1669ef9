//! The images of a release, opened: what each weighs, and that it is there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::table::table;
use crate::decide::blocks::duration;

/// Stands for an absent value.
const UNKNOWN: &str = "unknown";

/// Characters of a digest that tell layers apart.
const DIGEST_WIDTH: usize = 12;

/// An image of a release.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) created: Option<Timestamp>,
    /// Layers, lowest first.
    pub(crate) layers: Vec<PartLayer>,
}

/// A layer, compressed as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct PartLayer {
    /// Hexadecimal digits of its digest.
    pub(crate) digest: String,
    pub(crate) bytes: u64,
}

/// What each image weighs, by name; BASE is its uppermost layer that another image has, too. A
/// layer counts once in the last row.
pub(crate) fn sizes(parts: &[Part], now: Timestamp) -> String {
    let mut holders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for part in parts {
        for layer in &part.layers {
            holders.entry(&layer.digest).or_default().insert(&part.name);
            all.insert(&layer.digest, layer.bytes);
        }
    }
    let is_shared = |layer: &&PartLayer| {
        holders
            .get(layer.digest.as_str())
            .is_some_and(|names| names.len() > 1)
    };
    let head = ["NAME", "AGE", "LAYERS", "SIZE MB", "UNIQUE MB", "BASE"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(parts.iter().map(|part| {
        let bytes = part.layers.iter().map(|layer| layer.bytes).sum();
        let unique = part.layers.iter().filter(|layer| !is_shared(layer));
        let base = part.layers.iter().rfind(is_shared);
        [
            part.name.clone(),
            age(part.created, now),
            part.layers.len().to_string(),
            megabytes(bytes),
            megabytes(unique.map(|layer| layer.bytes).sum()),
            base.map_or("-", |layer| short(&layer.digest)).to_owned(),
        ]
    }));
    let total = [
        "Total".to_owned(),
        String::new(),
        all.len().to_string(),
        megabytes(all.values().sum()),
        String::new(),
        String::new(),
    ];
    rows.push(total);
    let text = table(2, &rows);
    let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
    format!("Images:\n{}", lines.collect::<String>())
}

/// A line for each image.
pub(crate) fn verified(parts: &[Part]) -> String {
    let line = |part: &Part| {
        let created = part.created;
        let created = created.map_or_else(|| UNKNOWN.to_owned(), |time| time.to_string());
        format!("{} {created} {}\n", part.digest, part.name)
    };
    parts.iter().map(line).collect()
}

fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    created.map_or_else(
        || UNKNOWN.to_owned(),
        |created| duration(now.as_second().saturating_sub(created.as_second()).max(0)),
    )
}

fn short(digest: &str) -> &str {
    digest.get(..DIGEST_WIDTH).unwrap_or(digest)
}

/// A megabyte has a million bytes.
pub(super) fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Part> {
        let layer = |digest: char, bytes| PartLayer {
            digest: digest.to_string().repeat(64),
            bytes,
        };
        let part = |name: &str, created: Option<&str>, layers| Part {
            name: name.to_owned(),
            digest: format!("sha256:{name}"),
            created: created.map(|time| time.parse().unwrap()),
            layers,
        };
        let (base, tools) = (layer('a', 80_000_000), layer('b', 20_040_000));
        vec![
            part(
                "cli",
                Some("2026-01-01T00:00:00Z"),
                vec![base.clone(), tools.clone(), layer('c', 1)],
            ),
            part("dns", None, vec![base, tools]),
            part(
                "os",
                Some("2026-01-01T11:00:00Z"),
                vec![layer('d', 950_000)],
            ),
        ]
    }

    #[test]
    fn a_layer_that_images_share_counts_once() {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let expected = "Images:\n  \
             NAME  AGE     LAYERS SIZE MB UNIQUE MB BASE\n  \
             cli   12h     3      100.0   0.0       bbbbbbbbbbbb\n  \
             dns   unknown 2      100.0   0.0       bbbbbbbbbbbb\n  \
             os    1h      1      1.0     1.0       -\n  \
             Total         4      101.0\n";
        assert_eq!(sizes(&parts(), now), expected);
    }

    #[test]
    fn each_image_has_a_line() {
        let expected = "sha256:cli 2026-01-01T00:00:00Z cli\n\
             sha256:dns unknown dns\n\
             sha256:os 2026-01-01T11:00:00Z os\n";
        assert_eq!(verified(&parts()), expected);
    }
}
