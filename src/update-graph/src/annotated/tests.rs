use std::path::Path;

use super::*;
use crate::graph_data::SourceFiles;
use crate::scraped;
use crate::scraped::tests::release;

fn data(files: &[(&str, &str)]) -> GraphData {
    let mut all: SourceFiles = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect();
    all.insert("version".to_owned(), b"1.1.0".to_vec());
    let raw = all.entry("raw/metadata.json".to_owned());
    raw.or_insert_with(|| b"{}".to_vec());
    let channel = b"name: fast-1\nversions: [1.0.0, 1.0.1, 1.0.2]\n";
    all.insert("channels/fast-1.yaml".to_owned(), channel.to_vec());
    let (data, problems) = GraphData::parse(&all).unwrap();
    assert_eq!(problems, []);
    data
}

/// 1.0.0, 1.0.1 and 1.0.2, each with an edge to all above it.
fn base() -> UpdateGraph {
    let releases = [
        release("1.0.0", &[], &[]),
        release("1.0.1", &["1.0.0"], &[]),
        release("1.0.2", &["1.0.0", "1.0.1"], &[]),
    ];
    scraped::graphs(&releases).0.remove("amd64").unwrap()
}

fn set(graph: &mut UpdateGraph, version: &str, key: &str, value: &str) {
    let version: Version = version.parse().unwrap();
    let node = graph
        .nodes
        .get_mut(&version.with_architecture("amd64").unwrap())
        .unwrap();
    node.metadata
        .insert(format!("{KEY_PREFIX}{key}"), value.to_owned());
}

/// The channel's edges: plain ones, and conditional ones with the names of their risks.
fn edges(graph: UpdateGraph, data: &GraphData) -> (Vec<String>, Vec<String>, Vec<String>) {
    let mut problems = Vec::new();
    let (graph, silenced) = AnnotatedGraph::new(graph, data, &mut problems).channel("fast-1");
    let text = |edge: &UpdateEdge| format!("{} {}", edge.from, edge.to);
    let plain = graph.edges.iter().map(text).collect();
    let conditional = graph.conditional.iter().flat_map(|group| {
        let names: Vec<&str> = group.risks.iter().map(|risk| risk.name.as_str()).collect();
        let names = names.join(",");
        group
            .edges
            .iter()
            .map(move |edge| format!("{} {names}", text(edge)))
    });
    let conditional = conditional.collect();
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    problems.extend(
        silenced
            .iter()
            .map(|blocked| format!("{} by {}", text(&blocked.edge), blocked.by)),
    );
    (plain, conditional, problems)
}

fn risk(to: &str, from: &str, name: &str) -> String {
    format!(
        "to: {to}\nfrom: {from}\nurl: https://example.com\nname: {name}\nmessage: m\nmatchingRules: [{{type: Always}}]\n"
    )
}

#[test]
fn a_risk_makes_matching_edges_conditional_and_creates_none() {
    let (one, two) = (
        risk("1.0.2", "1[.]0[.]0[+].*$", "A"),
        risk("1.0.2", ".*", "B"),
    );
    let three = risk("1.0.0", ".*", "C");
    let data = data(&[
        ("blocked-edges/1.0.2-A.yaml", &one),
        ("blocked-edges/1.0.2-B.yaml", &two),
        ("blocked-edges/1.0.0-C.yaml", &three),
    ]);
    let (plain, conditional, problems) = edges(base(), &data);
    assert_eq!(plain, ["1.0.0 1.0.1"]);
    assert_eq!(conditional, ["1.0.0 1.0.2 A,B", "1.0.1 1.0.2 B"]);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn a_silent_block_wins_over_a_risk() {
    let risk = risk("1.0.2", ".*", "B");
    let data = data(&[
        ("blocked-edges/1.0.2-B.yaml", &risk),
        ("blocked-edges/1.0.2.yaml", "to: 1.0.2\nfrom: 1[.]0[.]0\n"),
    ]);
    let (plain, conditional, silenced) = edges(base(), &data);
    assert_eq!(plain, ["1.0.0 1.0.1"]);
    assert_eq!(conditional, ["1.0.1 1.0.2 B"]);
    assert_eq!(silenced, ["1.0.0 1.0.2 by blocked-edges/1.0.2.yaml"]);
}

#[test]
fn an_architecture_of_a_block_limits_it() {
    let (other, own) = (
        risk("1.0.2+s390x", ".*", "A"),
        risk("1.0.1+amd64", ".*", "B"),
    );
    let data = data(&[
        ("blocked-edges/1.0.2+s390x-A.yaml", &other),
        ("blocked-edges/1.0.1+amd64-B.yaml", &own),
        (
            "blocked-edges/1.0.2+arm64.yaml",
            "to: 1.0.2+arm64\nfrom: .*\n",
        ),
    ]);
    let (plain, conditional, _) = edges(base(), &data);
    assert_eq!(plain, ["1.0.0 1.0.2", "1.0.1 1.0.2"]);
    assert_eq!(conditional, ["1.0.0 1.0.1 B"]);
}

#[test]
fn metadata_adds_and_then_removes_edges() {
    let none = data(&[]);
    let mut graph = base();
    set(&mut graph, "1.0.2", "previous.remove", "1.0.0, 9.9.9,");
    set(&mut graph, "1.0.0", "next.remove", "1.0.1");
    assert_eq!(edges(graph, &none).0, ["1.0.1 1.0.2"]);
    let mut graph = base();
    set(&mut graph, "1.0.2", "previous.remove", "*");
    assert_eq!(edges(graph, &none).0, ["1.0.0 1.0.1"]);
    let mut graph = base();
    set(&mut graph, "1.0.2", "previous.remove_regex", "1[.]0[.]1[+]");
    assert_eq!(edges(graph, &none).0, ["1.0.0 1.0.1", "1.0.0 1.0.2"]);
    let mut graph = base();
    graph.edges.clear();
    set(&mut graph, "1.0.2", "previous.add", "1.0.0, 9.9.9");
    set(&mut graph, "1.0.1", "next.add", "1.0.2");
    set(&mut graph, "1.0.2", "previous.remove", "1.0.1");
    assert_eq!(edges(graph, &none).0, ["1.0.0 1.0.2"]);
    let mut graph = base();
    set(&mut graph, "1.0.1", "release.remove", "true");
    assert_eq!(edges(graph, &none).0, ["1.0.0 1.0.2"]);
}

#[test]
fn bad_metadata_is_listed_and_the_rest_counts() {
    let mut graph = base();
    set(&mut graph, "1.0.2", "next.add", "1.0.0,two");
    set(&mut graph, "1.0.1", "previous.remove_regex", "(");
    let (plain, _, problems) = edges(graph, &data(&[]));
    assert_eq!(plain.len(), 3);
    assert_eq!(
        problems,
        [
            "release 1.0.2+amd64: field metadata.io.openshift.upgrades.graph.next.add: \"two\" is no semantic version",
            "release 1.0.2+amd64: field metadata.io.openshift.upgrades.graph.next.add: the edge to 1.0.0+amd64 closes a cycle and is left out",
            "release 1.0.1+amd64: field metadata.io.openshift.upgrades.graph.previous.remove_regex: it is no regular expression: unclosed group",
        ]
    );
}

#[test]
fn an_unknown_channel_is_empty_and_channels_are_sorted_by_their_number() {
    let files = [
        (
            "channels/a.yaml",
            "name: candidate-1.9\nversions: [1.0.0]\n",
        ),
        (
            "channels/b.yaml",
            "name: candidate-1.10\nversions: [1.0.0+amd64]\n",
        ),
        ("channels/c.yaml", "name: plain\nversions: [1.0.0+arm64]\n"),
    ];
    let graph = AnnotatedGraph::new(base(), &data(&files), &mut Vec::new());
    assert_eq!(graph.channel("fast-2").0, UpdateGraph::default());
    let version = "1.0.0+amd64".parse().unwrap();
    assert_eq!(
        graph.channels_of(&version),
        Some("fast-1,candidate-1.10,candidate-1.9")
    );
    let (channel, _) = graph.channel("candidate-1.10");
    assert_eq!(channel.nodes.keys().next().unwrap().to_string(), "1.0.0");
}

/// A folder of upstream's data; nothing where it is not there.
///
/// Source: `docs/development/upstream-data.md`.
fn shared(folder: &str) -> Option<std::path::PathBuf> {
    let named = std::env::var_os("SLIPWAY_DATA").filter(|folder| !folder.is_empty());
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = named.map_or_else(beside, Into::into).join(folder);
    let is_required = std::env::var_os("SLIPWAY_REQUIRE_DATA").is_some();
    assert!(
        path.exists() || !is_required,
        "{} is missing",
        path.display()
    );
    path.exists().then_some(path)
}

fn files(path: &Path) -> SourceFiles {
    let mut files = SourceFiles::new();
    for folder in ["", "channels", "blocked-edges", "raw"] {
        for entry in std::fs::read_dir(path.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let name = entry.file_name().into_string().unwrap();
                let name = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                files.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    files
}

/// A real graph, of 2020-03, with all architectures in one: what its own tools published.
#[test]
fn the_real_case_has_the_edges_and_channels_that_were_published() {
    let Some(path) = shared("graph-fixture-2020-03") else {
        return;
    };
    let read = |name: &str| UpdateGraph::parse(&std::fs::read(path.join(name)).unwrap()).unwrap();
    let (data, problems) = GraphData::parse(&files(&path.join("graph-data"))).unwrap();
    assert_eq!(problems, []);
    let mut problems = Vec::new();
    let ours = AnnotatedGraph::new(read("graph-gb-raw.json"), &data, &mut problems);
    let published = read("graph-gb-with-quay-metadata.json");
    let theirs = AnnotatedGraph::new(published, &GraphData::default(), &mut problems);
    assert_eq!(ours.versions.len(), 132);
    assert_eq!(ours.edges.len(), 559);
    assert_eq!(ours.edges, theirs.edges);
    assert_eq!(ours.channels, theirs.channels);
    assert_eq!(problems, []);
}

#[test]
fn the_real_graph_data_parses_without_a_problem() {
    let Some(path) = shared("graph-data") else {
        return;
    };
    let (data, problems) = GraphData::parse(&files(&path)).unwrap();
    assert_eq!(problems, []);
    assert_eq!((data.channels.len(), data.blocked.len()), (21, 1005));
}

#[test]
fn a_blocked_edge_knows_whether_it_matches_an_update() {
    let file = |to: &str, from: &str| format!("to: {to}\nfrom: '{from}'\n");
    let files = [
        ("blocks", file("1.0.2", "^1[.]0[.]0[+]")),
        ("bare", file("1.0.2", "^1[.]0[.][01]$")),
        // 1.0.2 is a release, and no update leads from it to 1.0.1.
        ("nothing", file("1.0.1", "^1[.]0[.]2[+]")),
        ("unknown", file("1.0.9", ".*")),
    ];
    let mut all: SourceFiles = [
        ("version", "1.1.0"),
        ("raw/metadata.json", "{}"),
        (
            "channels/a.yaml",
            "name: a\nversions: [1.0.0, 1.0.1, 1.0.2]\n",
        ),
    ]
    .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
    .into();
    for (name, text) in files {
        all.insert(format!("blocked-edges/{name}.yaml"), text.into_bytes());
    }
    let (data, _) = GraphData::parse(&all).unwrap();
    let graph = AnnotatedGraph::new(base(), &data, &mut Vec::new());
    let effects: Vec<(&str, &BlockEffect)> = graph
        .blocks()
        .iter()
        .map(|(file, effect)| (file.as_str(), effect))
        .collect();
    assert_eq!(
        effects,
        [
            (
                "blocked-edges/bare.yaml",
                &BlockEffect::Bare("1.0.0".parse().unwrap())
            ),
            ("blocked-edges/blocks.yaml", &BlockEffect::Blocks),
            ("blocked-edges/nothing.yaml", &BlockEffect::Nothing),
        ]
    );
}
