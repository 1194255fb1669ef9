//! The real graph data, with an image for each release and architecture.

use std::time::Instant;

use release::ImageDigest;
use release::update_graph::{RiskRule, UpdateGraph};
use serde_json::json;

use crate::images::{layout, real};
use crate::service::{Service, write_data};

/// Bytes that the program may have resident with the whole graph and all it remembers of 3125
/// images: half as much again as it has.
const RESIDENT: u64 = 64 << 20;

/// A line of `expected.txt` for a response.
fn line(channel: &str, architecture: &str, graph: &UpdateGraph) -> String {
    let mut lines = Vec::new();
    for (version, node) in &graph.nodes {
        let key = "io.openshift.upgrades.graph.release.channels";
        let channels = node.metadata.get(key).map_or("", String::as_str);
        lines.push(format!("n {version} {channels}"));
    }
    lines.extend(
        graph
            .edges
            .iter()
            .map(|edge| format!("e {} {}", edge.from, edge.to)),
    );
    let mut conditional = 0;
    for group in &graph.conditional {
        let risks = group.risks.iter().map(|risk| {
            let rules = risk.rules.iter().map(|rule| match rule {
                RiskRule::Always => json!(["Always", ""]),
                RiskRule::PromQl(query) => json!(["PromQL", query.trim_end()]),
                RiskRule::Unknown { r#type, .. } => json!([r#type, ""]),
            });
            json!([risk.name, risk.url, risk.message, rules.collect::<Vec<_>>()])
        });
        let risks = json!(risks.collect::<Vec<_>>()).to_string();
        conditional += group.edges.len();
        let edges = group.edges.iter();
        lines.extend(edges.map(|edge| format!("c {} {} {risks}", edge.from, edge.to)));
    }
    lines.sort();
    let digest = ImageDigest::of(lines.join("\n").as_bytes());
    let (nodes, edges) = (graph.nodes.len(), graph.edges.len());
    format!(
        "{channel} {architecture} {nodes} {edges} {conditional} {}",
        digest.hex()
    )
}

#[test]
#[ignore = "needs root"]
fn answers_for_the_real_data_are_those_of_an_independent_script() {
    let what = "the update service on real graph data";
    let data = lab::upstream_data("graph-data", what).unwrap();
    let listed = lab::upstream_data("graph-releases/releases-4.12-4.19.json", what).unwrap();
    let (Some(data), Some(listed)) = (data, listed) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let (releases, architectures) = real(&listed);
    layout(directory.path(), &releases, &architectures);
    let settings = format!(
        "releases: {{repository: registry.example/releases, directory: {}}}\ngraphData: {{directory: {}}}\n",
        directory.path().display(),
        data.canonicalize().unwrap().display(),
    );
    let began = Instant::now();
    let service = Service::start("real", "", &settings).unwrap();
    service.ready().unwrap();
    println!("ready after {} ms", began.elapsed().as_millis());
    let expected = include_str!("expected.txt");
    assert_eq!(expected.lines().count(), 105);
    for expected in expected.lines() {
        let mut words = expected.split(' ');
        let (channel, architecture) = (words.next().unwrap(), words.next().unwrap());
        let response = service.get(&format!("/graph?channel={channel}&arch={architecture}"));
        assert_eq!(response.status, 200);
        let graph = UpdateGraph::parse(&response.body).unwrap();
        assert_eq!(line(channel, architecture, &graph), expected);
        // What is printed again is what was sent: nothing of it is lost in reading.
        assert_eq!(graph.print(), response.body);
        for node in graph.nodes.values() {
            assert!(
                node.payload
                    .starts_with("registry.example/releases@sha256:")
            );
            let is_multi = node
                .metadata
                .contains_key("release.openshift.io/architecture");
            assert_eq!(is_multi, architecture == "multi");
        }
    }
    // Versions of channels and blocked edges that the made-up releases do not have, and no others.
    for problem in service.problems() {
        assert!(problem.contains("there is no"), "{problem}");
    }
    let count = service.metric("cincinnati_gb_graph_upstream_raw_releases");
    assert!((count - 3125.0).abs() < 0.5, "{count}");
    let resident = service.resident();
    println!("resident: {} kB", resident / 1024);
    assert!(resident < RESIDENT, "{resident} bytes");
}

/// Curators publish an archive; a site without a network has one file of it.
#[test]
#[ignore = "needs root"]
fn graph_data_comes_from_an_archive_too() {
    let directory = tempfile::tempdir().unwrap();
    let releases = [
        ("1.0.0".to_owned(), vec![]),
        ("1.0.1".to_owned(), vec!["1.0.0".to_owned()]),
    ];
    layout(
        &directory.path().join("releases"),
        &releases,
        &["amd64".to_owned()],
    );
    let files = [
        ("version", "1.1.0\n"),
        ("raw/metadata.json", "{}\n"),
        (
            "channels/a.yaml",
            "name: fast-1\nversions: [1.0.0, 1.0.1]\n",
        ),
    ];
    write_data(&directory.path().join("tree/graph-data"), &files);
    let archive = directory.path().join("data.tar.gz");
    let packed = std::process::Command::new("tar")
        .args(["-czf", archive.to_str().unwrap(), "-C"])
        .arg(directory.path().join("tree"))
        .arg("graph-data")
        .status()
        .unwrap();
    assert!(packed.success());
    let settings = format!(
        "releases: {{repository: registry.example/releases, directory: {}}}\ngraphData: {{archive: {}}}\n",
        directory.path().join("releases").display(),
        archive.display(),
    );
    let service = Service::start("archive", "", &settings).unwrap();
    service.ready().unwrap();
    assert_eq!(service.versions("fast-1"), ["1.0.0", "1.0.1"]);
}
