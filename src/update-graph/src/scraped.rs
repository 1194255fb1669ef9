//! Releases as images say them, and the graph that these alone make.

use std::collections::BTreeMap;

use release::update_graph::{UpdateEdge, UpdateGraph, UpdateNode};
use release::{ImageDigest, Metadata, Version};

use crate::KEY_PREFIX;
use crate::problem::SourceProblem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapedRelease {
    /// Its architecture, in the words of images: `amd64`, `arm64`, …, `multi`.
    pub architecture: String,
    /// Pull spec by digest.
    pub payload: String,
    /// Its digest: of a list, if it is one.
    pub digest: ImageDigest,
    pub metadata: Metadata,
}

/// The graphs of releases, by architecture. Versions have their architecture, as in
/// `4.16.15+amd64`.
///
/// Shape: `previous` and `next` become edges. A version that is only named there becomes a node
/// without payload. Of two images of one version and architecture the first counts. An edge that
/// would close a cycle is left out: of each cycle those that lead to a lower version.
pub fn graphs(releases: &[ScrapedRelease]) -> (BTreeMap<String, UpdateGraph>, Vec<SourceProblem>) {
    let mut graphs: BTreeMap<String, UpdateGraph> = BTreeMap::new();
    let mut problems = Vec::new();
    let mut counted = Vec::new();
    for release in releases {
        let architecture = release.architecture.as_str();
        let object = format!("release {} ({architecture})", release.metadata.version);
        let version = match release.metadata.version.with_architecture(architecture) {
            Ok(version) => version,
            Err(error) => {
                problems.push(SourceProblem::new(
                    object,
                    "architecture",
                    error.to_string(),
                ));
                continue;
            }
        };
        let graph = graphs.entry(architecture.to_owned()).or_default();
        if let Some(listed) = graph.nodes.get(&version) {
            if listed.payload != release.payload {
                let reason = format!(
                    "{} has it, too, and counts, not {}",
                    listed.payload, release.payload
                );
                problems.push(SourceProblem::new(object, "version", reason));
            }
            continue;
        }
        let mut metadata = release.metadata.metadata.clone();
        let digest = release.digest.to_string();
        metadata.insert(format!("{KEY_PREFIX}release.manifestref"), digest);
        for key in &release.metadata.not_text {
            let reason = "it is no text and is left out";
            problems.push(SourceProblem::new(
                object.as_str(),
                format!("metadata.{key}"),
                reason,
            ));
        }
        let payload = release.payload.clone();
        graph
            .nodes
            .insert(version.clone(), UpdateNode { payload, metadata });
        counted.push((release, version));
    }
    for (release, version) in counted {
        let Some(graph) = graphs.get_mut(&release.architecture) else {
            continue;
        };
        let named = |other: &Version| other.with_architecture(&release.architecture).ok();
        let previous = release.metadata.previous.iter().filter_map(named);
        let mut edges: Vec<(Version, Version)> =
            previous.map(|from| (from, version.clone())).collect();
        let next = release.metadata.next.iter().filter_map(named);
        edges.extend(next.map(|to| (version.clone(), to)));
        for (from, to) in edges {
            if from == to {
                let object = format!("release {version}");
                let reason = "it names itself; the edge is left out";
                problems.push(SourceProblem::new(object, "previous", reason));
                continue;
            }
            for end in [&from, &to] {
                graph.nodes.entry(end.clone()).or_default();
            }
            graph.edges.insert(UpdateEdge { from, to });
        }
    }
    for graph in graphs.values_mut() {
        break_cycles(graph, &mut problems);
    }
    (graphs, problems)
}

/// Takes out the edges to lower versions that are part of a cycle. Each cycle has one.
pub(crate) fn break_cycles(graph: &mut UpdateGraph, problems: &mut Vec<SourceProblem>) {
    let falling: Vec<UpdateEdge> = graph
        .edges
        .iter()
        .filter(|edge| edge.to < edge.from)
        .cloned()
        .collect();
    for edge in falling {
        if !reaches(graph, &edge.to, &edge.from) {
            continue;
        }
        let reason = format!("the edge to {} closes a cycle and is left out", edge.to);
        problems.push(SourceProblem::new(
            format!("release {}", edge.from),
            "next",
            reason,
        ));
        graph.edges.remove(&edge);
    }
}

fn reaches(graph: &UpdateGraph, from: &Version, to: &Version) -> bool {
    let mut seen = std::collections::BTreeSet::from([from.clone()]);
    let mut next = vec![from.clone()];
    while let Some(version) = next.pop() {
        if version == *to {
            return true;
        }
        let edges = graph.edges.iter().filter(|edge| edge.from == version);
        for edge in edges {
            if seen.insert(edge.to.clone()) {
                next.push(edge.to.clone());
            }
        }
    }
    false
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A release of `amd64` with these neighbours.
    pub(crate) fn release(version: &str, previous: &[&str], next: &[&str]) -> ScrapedRelease {
        let mut metadata = Metadata::new(version.parse().unwrap());
        let versions = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        metadata.previous = versions(previous);
        metadata.next = versions(next);
        let digest = ImageDigest::of(version.as_bytes());
        ScrapedRelease {
            architecture: "amd64".to_owned(),
            payload: format!("registry.example/release@{digest}"),
            digest,
            metadata,
        }
    }

    fn edges(graph: &UpdateGraph) -> Vec<String> {
        let edges = graph.edges.iter();
        edges
            .map(|edge| format!("{} {}", edge.from, edge.to))
            .collect()
    }

    #[test]
    fn neighbours_become_edges_and_unknown_ones_nodes_without_payload() {
        let releases = [
            release("1.0.1", &["1.0.0", "0.9.0"], &[]),
            release("1.0.0", &[], &["1.0.1", "1.0.2"]),
        ];
        let (graphs, problems) = graphs(&releases);
        assert_eq!(problems, []);
        let graph = graphs.get("amd64").unwrap();
        assert_eq!(
            edges(graph),
            [
                "0.9.0+amd64 1.0.1+amd64",
                "1.0.0+amd64 1.0.1+amd64",
                "1.0.0+amd64 1.0.2+amd64"
            ]
        );
        let without = graph
            .nodes
            .iter()
            .filter(|(_, node)| node.payload.is_empty());
        assert_eq!(without.count(), 2);
    }

    #[test]
    fn of_two_digests_the_first_counts_and_both_are_named() {
        let mut other = release("1.0.0", &["0.9.0"], &[]);
        other.payload = "registry.example/other@sha256:0".to_owned();
        let (graphs, problems) = graphs(&[release("1.0.0", &[], &[]), other]);
        assert_eq!(graphs.get("amd64").unwrap().edges.len(), 0);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].field, "version");
        assert!(
            problems[0].reason.contains("registry.example/other"),
            "{}",
            problems[0]
        );
    }

    #[test]
    fn a_cycle_loses_its_falling_edge() {
        let releases = [
            release("1.0.0", &["1.0.2", "1.0.0"], &["1.0.1"]),
            release("1.0.1", &[], &["1.0.2"]),
            release("1.0.3", &[], &["1.0.2"]),
        ];
        let (graphs, problems) = graphs(&releases);
        let expected = [
            "1.0.0+amd64 1.0.1+amd64",
            "1.0.1+amd64 1.0.2+amd64",
            "1.0.3+amd64 1.0.2+amd64",
        ];
        assert_eq!(edges(graphs.get("amd64").unwrap()), expected);
        let reasons: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            reasons,
            [
                "release 1.0.0+amd64: field previous: it names itself; the edge is left out",
                "release 1.0.2+amd64: field next: the edge to 1.0.0+amd64 closes a cycle and is left out",
            ]
        );
    }
}
