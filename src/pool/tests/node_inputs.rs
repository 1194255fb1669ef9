//! What a node may write is listed, each with what a lie may cause: `docs/node-inputs.md`.

#![expect(clippy::unwrap_used, reason = "tests that read the workspace")]

use api::machineconfiguration::NodeStatus;
use api::machineconfiguration::annotation::{self, AnnotationReader, AnnotationWriter, OF_NODES};
use k8s_openapi::api::core::v1::Node;
use pool::node::NodeView;
use serde_json::json;

const PAGE: &str = include_str!("../../../docs/node-inputs.md");

/// Values of which each annotation takes at least one.
const VALUES: [&str; 6] = [
    "Degraded",
    annotation::REBOOTING,
    "drain-c",
    "7",
    "2026-11-25T10:00:00Z",
    "Applying c",
];

/// The rows below a heading of the page: input, reader, what a lie may cause, what limits it.
fn rows(heading: &str) -> Vec<[&'static str; 4]> {
    let (_, below) = PAGE.split_once(&format!("## {heading}\n")).unwrap();
    let section = below.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, input, reader, lie, limit, _] = cells.try_into().unwrap();
        [input.trim_matches('`'), reader, lie, limit]
    })
    .collect()
}

#[test]
fn each_annotation_that_a_node_may_write_has_its_row() {
    for (heading, writer) in [
        ("Written by the daemon", AnnotationWriter::Daemon),
        (
            "Written by others, and writable for the node",
            AnnotationWriter::Other,
        ),
    ] {
        let rows = rows(heading);
        let mut found: Vec<_> = rows
            .iter()
            .map(|[input, reader, ..]| (*input, *reader))
            .collect();
        let of_writer = OF_NODES.iter().filter(|one| one.writer == writer);
        let mut expected: Vec<_> = of_writer
            .map(|one| {
                let reader = match one.reader {
                    AnnotationReader::Status => "all programs",
                    AnnotationReader::Controller => "controller",
                    AnnotationReader::Daemon => "daemon",
                    AnnotationReader::Clients => "clients",
                };
                (one.key, reader)
            })
            .collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{heading}");
        let is_empty = |row: &&[&str; 4]| row.iter().any(|cell| cell.is_empty());
        assert_eq!(rows.iter().find(is_empty), None);
    }
}

#[test]
fn an_annotation_is_read_by_whom_the_list_names() {
    let parse = |annotations: &serde_json::Value| {
        let node: Node =
            serde_json::from_value(json!({ "metadata": { "annotations": annotations } })).unwrap();
        NodeView::parse(node)
    };
    let without = parse(&json!({}));
    for one in OF_NODES {
        // What was first installed counts until the node has the labels of its pool.
        let is_marker = one.key == annotation::CUSTOM_POOL_LABELS_APPLIED;
        let base = if is_marker {
            json!({ (annotation::FIRST_PIVOT_CONFIG): "c" })
        } else {
            json!({})
        };
        let without = if is_marker { &parse(&base) } else { &without };
        let views = VALUES.map(|value| {
            let mut annotations = base.clone();
            annotations[one.key] = json!(value);
            parse(&annotations)
        });
        let is_of_status = views
            .iter()
            .any(|view| view.status != NodeStatus::default());
        let is_of_view = views.iter().any(|view| !view.has_same_content(without));
        let expected = match one.reader {
            AnnotationReader::Status => (true, true),
            AnnotationReader::Controller => (false, true),
            AnnotationReader::Daemon | AnnotationReader::Clients => (false, false),
        };
        assert_eq!((is_of_status, is_of_view), expected, "{}", one.key);
    }
}
