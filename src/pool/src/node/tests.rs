use prost::bytes::Bytes;
use serde_json::json;

use super::*;
use crate::fixture::{NEW, OLD, node, parse_node};

#[test]
fn conditions_and_cordon_make_a_node_unready() {
    let ready = json!({ "type": "Ready", "status": "True" });
    let table = [
        (json!([ready]), false, vec![]),
        (json!([]), false, vec![Unready::NotReady]),
        (
            json!([{ "type": "Ready", "status": "Unknown" }]),
            false,
            vec![Unready::NotReady],
        ),
        (
            json!([ready, { "type": "DiskPressure", "status": "False" }]),
            false,
            vec![],
        ),
        (
            json!([ready, { "type": "DiskPressure", "status": "True" }]),
            false,
            vec![Unready::DiskPressure],
        ),
        (
            json!([ready, { "type": "MemoryPressure", "status": "True" }]),
            false,
            vec![],
        ),
        (
            json!([ready, { "type": "NetworkUnavailable", "status": "Unknown" }]),
            false,
            vec![Unready::NetworkUnavailable],
        ),
        (json!([ready]), true, vec![Unready::Unschedulable]),
        (
            json!([{ "type": "Ready", "status": "False" }]),
            true,
            vec![Unready::NotReady, Unready::Unschedulable],
        ),
    ];
    for (conditions, unschedulable, unready) in table {
        let node = parse_node(json!({
            "metadata": { "name": "a" },
            "spec": { "unschedulable": unschedulable },
            "status": { "conditions": conditions }
        }));
        assert_eq!(node.unready, unready, "{conditions} {unschedulable}");
    }
}

#[test]
fn out_is_unready_or_on_the_way_but_not_failed() {
    let table = [
        (node("done"), false),
        (node("cordoned").unready(Unready::Unschedulable), true),
        (node("working").working(NEW), true),
        (
            node("assigned, its daemon has not seen it").reporting(|status| {
                status.desired_config = Some(NEW.to_owned());
            }),
            true,
        ),
        (node("failed").failing(NEW), false),
        (
            node("failed and not ready")
                .failing(NEW)
                .unready(Unready::NotReady),
            true,
        ),
        (node("degraded on what it runs").failing(OLD), true),
    ];
    for (node, out) in table {
        assert_eq!(node.is_out_of_service(), out, "{}", node.name);
    }
}

#[test]
fn empty_annotations_count_as_absent() {
    let node = parse_node(json!({
        "metadata": { "name": "a", "annotations": {
            "machineconfiguration.openshift.io/currentConfig": "x",
            "machineconfiguration.openshift.io/desiredConfig": "x",
            "machineconfiguration.openshift.io/desiredImage": "",
            "machineconfiguration.openshift.io/reason": ""
        } },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    }));
    assert!(node.status.is_done());
}

#[test]
fn a_node_that_is_being_deleted_is_read_in_both_forms() {
    let object = |deleted: Option<&str>| json!({ "metadata": { "name": "a", "deletionTimestamp": deleted } });
    assert!(!parse_node(object(None)).is_deleted);
    let leaving = parse_node(object(Some("2026-11-21T19:17:00Z")));
    assert!(leaving.is_deleted);
    assert!(!leaving.has_same_content(&parse_node(object(None))));
    // metadata: deletionTimestamp: seconds
    let decoded = NodeView::decode(Bytes::from_static(b"\x0a\x04\x4a\x02\x08\x01"));
    assert!(decoded.unwrap().is_deleted);
}
