//! What a change of graph data adds and removes, as lines of text.

use std::collections::{BTreeMap, BTreeSet};

use crate::blocked_edge::BlockedEdge;
use crate::graph_data::GraphData;

/// The lines, each after `+ ` or `- `: releases of channels, then blocked edges. A blocked edge
/// that changed stands there twice.
pub fn lines(before: &GraphData, after: &GraphData) -> Vec<String> {
    let mut lines = changed(&entries(before), &entries(after));
    let blocked = |data: &GraphData| data.blocked.iter().map(line).collect();
    lines.extend(changed(&blocked(before), &blocked(after)));
    lines
}

fn changed(before: &BTreeSet<Line>, after: &BTreeSet<Line>) -> Vec<String> {
    let mut all: BTreeMap<&Line, char> = BTreeMap::new();
    all.extend(before.difference(after).map(|line| (line, '-')));
    all.extend(after.difference(before).map(|line| (line, '+')));
    all.into_iter()
        .map(|((_, text), sign)| format!("{sign} {text}"))
        .collect()
}

/// What a line is sorted by, and its text.
type Line = (Vec<release::Version>, String);

fn entries(data: &GraphData) -> BTreeSet<Line> {
    let channels = data.channels.values();
    let entries = channels.flat_map(|channel| {
        let versions = channel.versions.iter();
        versions.map(|version| {
            let text = format!("channel {}: release {version}", channel.name);
            (vec![version.clone()], text)
        })
    });
    entries.collect()
}

fn line(edge: &BlockedEdge) -> Line {
    let what = match &edge.risk {
        Some(risk) => format!("risk {} ({})", risk.name, risk.url),
        None => "silent".to_owned(),
    };
    let text = format!("blocked edge to {} from {}: {what}", edge.to, edge.from);
    (vec![edge.to.clone()], text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_data::SourceFiles;

    #[test]
    fn what_differs_is_one_line_each() {
        let data = |versions: &str, blocked: &str| {
            let files: SourceFiles = [
                ("version", "1.1.0".to_owned()),
                ("raw/metadata.json", "{}".to_owned()),
                (
                    "channels/a.yaml",
                    format!("name: a\nversions: {versions}\n"),
                ),
                (
                    "blocked-edges/1.0.1.yaml",
                    format!("to: 1.0.1\nfrom: {blocked}\n"),
                ),
            ]
            .map(|(path, text)| (path.to_owned(), text.into_bytes()))
            .into();
            GraphData::parse(&files).unwrap().0
        };
        let before = data("[1.0.0, 1.0.9]", "a");
        assert_eq!(lines(&before, &before), Vec::<String>::new());
        assert_eq!(
            lines(&before, &data("[1.0.0, 1.0.10]", "b")),
            [
                "- channel a: release 1.0.9",
                "+ channel a: release 1.0.10",
                "- blocked edge to 1.0.1 from a: silent",
                "+ blocked edge to 1.0.1 from b: silent",
            ]
        );
    }
}
