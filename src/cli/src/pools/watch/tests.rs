use serde_json::json;

use super::*;
use crate::decide::pools::view::tests::{moment, pool, workers};

fn progressing(status: &str) -> ClusterObject {
    ClusterObject(json!({"status": {"conditions": [
        {"type": "Progressing", "status": status, "message": "Working towards 4.18.9"}
    ]}}))
}

fn cluster() -> (PoolObjects, Vec<NodeView>) {
    let waiting = json!({
        "unavailableMachineCount": 1,
        "conditions": [{
            "type": "Waiting", "status": "True", "reason": "Budget", "message": "w3: one is out"
        }]
    });
    let pools = PoolObjects::from(vec![
        pool("worker", &json!({}), &waiting),
        pool("master", &json!({ "paused": true }), &json!({})),
    ]);
    (pools, workers())
}

#[test]
fn a_frame_has_pools_above_and_nodes_in_their_order() {
    let (pools, nodes) = cluster();
    let version = progressing("True");
    let frame = frame(&pools, &nodes, Some(&version), None, moment());
    assert_eq!(frame.heading.title, "All pools");
    assert_eq!(
        frame.heading.notes,
        [
            "release: Working towards 4.18.9",
            "master: 0 of 0 nodes updated, 0 out of service, 0 failed, paused",
            "worker: 1 of 3 nodes updated, 1 out of service, 0 failed",
            "worker: Waiting: w3: one is out",
        ]
    );
    let shown: Vec<_> = frame
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.pool.as_str(), node.phase.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("w1", "worker", "Idle"),
            ("w2", "worker", "Draining"),
            // Its daemon reports a state only.
            ("w3", "worker", "Done"),
        ]
    );
    assert!(frame.nodes[1].is_out);
    assert!(!frame.nodes[1].waits_for.is_empty());
}

#[test]
fn one_pool_is_shown_alone_and_an_idle_release_is_not_shown() {
    let (pools, nodes) = cluster();
    let version = progressing("False");
    let master = frame(&pools, &nodes, Some(&version), Some("master"), moment());
    assert_eq!(master.heading.notes.len(), 1);
    assert!(master.nodes.is_empty());
    let none = frame(&pools, &nodes, None, Some("infra"), moment());
    assert!(none.heading.notes.is_empty());
}

#[test]
fn a_failed_read_keeps_the_last_frame_with_the_cause() {
    let (pools, nodes) = cluster();
    let last = frame(&pools, &nodes, None, None, moment());
    let error = anyhow::anyhow!("connection refused").context("cannot list Nodes");
    let shown = stale(&last, &error);
    assert_eq!(shown.nodes, last.nodes);
    assert_eq!(
        shown.heading.notes[0],
        "cluster: cannot be read, this is how it was before: cannot list Nodes: connection refused"
    );
}

#[test]
fn programs_get_a_line_or_a_document_a_moment() {
    let (pools, nodes) = cluster();
    let frame = frame(&pools, &nodes, None, Some("master"), moment());
    let line = document(ViewForm::Json, &frame, moment()).unwrap();
    let expected = "{\"time\":\"2026-11-25T10:00:00Z\",\"title\":\"Pool master\",\"notes\":[\"master: \
                    0 of 0 nodes updated, 0 out of service, 0 failed, paused\"],\"nodes\":[]}\n";
    assert_eq!(line, expected);
    let yaml = document(ViewForm::Yaml, &frame, moment()).unwrap();
    assert!(yaml.starts_with("---\n"), "{yaml}");
}
