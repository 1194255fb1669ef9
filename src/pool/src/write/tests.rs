use serde_json::json;

use super::*;
use crate::fixture::{NEW, node, pool};
use crate::unhandled::Hold;

fn tainted(mut node: NodeView) -> NodeView {
    node.taints = serde_json::from_value(json!([
        { "key": "theirs", "effect": "NoSchedule", "value": "v" },
        { "key": "UpdateInProgress", "effect": "PreferNoSchedule" }
    ]))
    .unwrap();
    node
}

fn patch(node: &NodeView, is_assigned: bool) -> Option<serde_json::Value> {
    NodeWrite::of(node, &pool("worker", json!({})), is_assigned, None).map(|write| write.to_patch())
}

#[test]
fn assigned_node_gets_its_target_and_nothing_else() {
    assert_eq!(
        patch(&node("a"), true),
        Some(json!({
            "metadata": {
                "resourceVersion": "1",
                "annotations": { "machineconfiguration.openshift.io/desiredConfig": NEW }
            }
        }))
    );
}

#[test]
fn a_node_gets_the_labels_of_the_pool_it_was_initial_pool_once() {
    let selector = json!({ "nodeSelector": {
        "matchLabels": { "a": "1" },
        "matchExpressions": [
            { "key": "b", "operator": "In", "values": ["2"] },
            { "key": "c", "operator": "In", "values": ["3", "4"] },
            { "key": "d", "operator": "Exists" },
            { "key": "e", "operator": "NotIn", "values": ["5"] },
        ]
    } });
    let patch = NodeWrite::initial_labels(&node("a"), &pool("edge", selector)).to_patch();
    assert_eq!(
        patch["metadata"],
        json!({
            "resourceVersion": "1",
            "labels": { "a": "1", "b": "2", "d": "" },
            "annotations": { "machineconfiguration.openshift.io/customPoolLabelsApplied": "" }
        })
    );
}

#[test]
fn leftover_image_is_removed_with_the_target() {
    let mut layered = node("a");
    layered.status.desired_image = Some("image".to_owned());
    let write = NodeWrite::of(&layered, &pool("worker", json!({})), true, None).unwrap();
    assert_eq!(write.annotations[annotation::DESIRED_IMAGE], None);
    assert_eq!(write.annotations.len(), 2);
}

#[test]
fn waiting_node_is_tainted_and_other_taints_stay() {
    let mut waiting = tainted(node("a"));
    waiting.taints.pop();
    assert_eq!(
        patch(&waiting, false),
        Some(json!({
            "metadata": { "resourceVersion": "1" },
            "spec": { "taints": [
                { "effect": "NoSchedule", "key": "theirs", "value": "v" },
                { "effect": "PreferNoSchedule", "key": "UpdateInProgress" }
            ] }
        }))
    );
    assert_eq!(patch(&tainted(node("a")), false), None);
}

#[test]
fn taint_goes_when_the_node_is_done_and_not_before() {
    assert_eq!(patch(&tainted(node("a").working(NEW)), false), None);
    assert_eq!(
        patch(&tainted(node("a").done(NEW)), false),
        Some(json!({
            "metadata": { "resourceVersion": "1" },
            "spec": { "taints": [{ "effect": "NoSchedule", "key": "theirs", "value": "v" }] }
        }))
    );
    let mut only_ours = tainted(node("a").done(NEW));
    only_ours.taints.remove(0);
    assert_eq!(
        patch(&only_ours, false).unwrap()["spec"],
        json!({ "taints": null })
    );
}

#[test]
fn pool_that_does_not_roll_untaints_and_assigns_nothing() {
    for spec in [
        json!({ "paused": true }),
        json!({ "maxUnavailable": -1 }),
        json!({ "configuration": {} }),
    ] {
        let stopped = pool("worker", spec);
        let write = NodeWrite::of(&tainted(node("a")), &stopped, false, None).unwrap();
        assert_eq!(write.taints.unwrap().len(), 1);
        assert_eq!(write.annotations.len(), 0);
        assert_eq!(NodeWrite::of(&node("a"), &stopped, false, None), None);
    }
    let mut held = pool("worker", json!({}));
    let object = "MachineOSConfig worker".to_owned();
    held.hold = Some(Hold::ImageMode { object });
    assert_eq!(NodeWrite::of(&node("a"), &held, false, None), None);
}

#[test]
fn node_whose_daemon_is_silent_is_left_alone() {
    let mut silent = node("a");
    silent.status.current_config = None;
    silent.status.desired_config = None;
    assert_eq!(patch(&silent, false), None);
}

#[test]
fn topology_is_written_once() {
    let worker = pool("worker", json!({}));
    let mut done = node("a").done(NEW);
    let write = NodeWrite::of(&done, &worker, false, Some("SingleReplica")).unwrap();
    assert_eq!(
        write.annotations,
        BTreeMap::from([(
            annotation::CONTROL_PLANE_TOPOLOGY,
            Some("SingleReplica".to_owned())
        )])
    );
    done.status.topology = Some("SingleReplica".to_owned());
    assert_eq!(
        NodeWrite::of(&done, &worker, false, Some("SingleReplica")),
        None
    );
}
