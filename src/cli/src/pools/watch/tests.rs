use api::machineconfiguration::annotation;
use serde_json::{Value, json};

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

/// A pool in image mode with a build, as the builder writes its status.
fn in_image_mode(pool_status: &Value, build: &Value) -> PoolObjects {
    let config = json!({
        "metadata": { "name": "worker", "generation": 1 },
        "spec": {
            "machineConfigPool": { "name": "worker" },
            "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" },
            "renderedImagePushSpec": "registry.example/os:latest",
        },
        "status": {
            "observedGeneration": 1,
            "machineOSBuild": {
                "group": "machineconfiguration.openshift.io", "resource": "machineosbuilds",
                "name": "worker-1",
            },
        },
    });
    let build = json!({
        "metadata": { "name": "worker-1" },
        "spec": {
            "machineConfig": { "name": "rendered-worker-b" },
            "machineOSConfig": { "name": "worker" },
            "renderedImagePushSpec": "registry.example/os:worker-1",
        },
        "status": build,
    });
    PoolObjects {
        pools: vec![pool("worker", &json!({}), pool_status)],
        os_configs: vec![serde_json::from_value(config).unwrap()],
        os_builds: vec![serde_json::from_value(build).unwrap()],
        os_streams: Vec::new(),
    }
}

fn condition(r#type: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": r#type, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-25T09:58:00Z",
    })
}

/// Each state of a build: seconds after it began, status of the pool, and of the build.
fn course() -> Vec<(i64, Value, Value)> {
    let calm = || json!({});
    let running = |reason: &str, message: &str| {
        json!({
            "buildStart": "2026-11-25T10:00:00Z",
            "conditions": [condition("Building", reason, message)],
        })
    };
    let why = "BackoffLimitExceeded: exit code 1\nno such package";
    let degraded = format!("MachineOSBuild worker-1 failed: {why}");
    let over = |r#type: &str, message: &str| {
        let mut status = running("Building", "");
        status["conditions"] = json!([condition(r#type, "R", message)]);
        status["buildEnd"] = json!("2026-11-25T10:04:00Z");
        status
    };
    let mut built = over("Succeeded", "");
    let digest = "0123456789abcdef".repeat(4);
    built["digestedImagePushSpec"] = json!(format!("registry.example/os@sha256:{digest}"));
    let prepared = json!({ "conditions": [condition("Prepared", "Prepared", "")] });
    vec![
        (-2, calm(), json!({})),
        (-1, calm(), prepared),
        (1, calm(), running("Building", "")),
        (30, calm(), running("Building", "")),
        (
            60,
            calm(),
            running("PodNotScheduled", "no node takes its pod: Unschedulable"),
        ),
        (125, calm(), running("Building", "")),
        (
            240,
            json!({ "conditions": [condition("ImageBuildDegraded", "BuildFailed", &degraded)] }),
            over("Failed", why),
        ),
        (300, calm(), over("Interrupted", "")),
        (360, calm(), built),
    ]
}

/// Each change is a line, once.
#[test]
fn a_build_is_followed_from_its_queue_to_its_image() {
    let mut view = LiveView::new(Medium::Lines);
    let mut said = String::new();
    for (seconds, pool_status, build) in course() {
        let now = moment() + jiff::SignedDuration::from_secs(seconds);
        let objects = in_image_mode(&pool_status, &build);
        let frame = frame(&objects, &[], None, None, now);
        let size = ScreenSize {
            columns: 100,
            lines: 50,
        };
        said.push_str(&view.show(&frame.heading, frame.nodes, now, size));
    }
    let expected = "\
09:59:58  worker: 0 of 0 nodes updated, 0 out of service, 0 failed
09:59:58  worker: OS image: queued
09:59:59  worker: OS image: prepared
10:00:01  worker: OS image: building now
10:01:00  worker: OS image: held for 1m: no node takes its pod: Unschedulable
10:02:05  worker: OS image: building for 2m
10:04:00  worker: OS image: build failed: BackoffLimitExceeded: exit code 1...
10:05:00  worker: OS image: build interrupted: its Job is gone
10:06:00  worker: OS image: registry.example/os@sha256:0123456789ab
";
    assert_eq!(said, expected);
}

#[test]
fn a_refusal_is_shown_without_a_build_and_a_pool_without_images_has_no_line() {
    let mut objects = in_image_mode(&json!({}), &json!({}));
    let config = &mut objects.os_configs[0];
    let refused = condition("Refused", "BuildRefused", "spec.containerFile[0]: no");
    config.status.as_mut().unwrap().conditions = vec![serde_json::from_value(refused).unwrap()];
    let shown = frame(&objects, &[], None, None, moment());
    assert_eq!(
        shown.heading.notes[1..],
        ["worker: OS image: refused: spec.containerFile[0]: no"]
    );
    objects.os_configs.clear();
    let shown = frame(&objects, &[], None, None, moment());
    assert_eq!(shown.heading.notes.len(), 1);
}

/// What is drawn below the title, of pins: sets of the pool, nodes, those that have all, and the
/// condition of the pool.
#[test]
fn pins_are_shown_while_nodes_lack_some_or_fail() {
    let said = |sets: &Value, counts: Option<(i64, i64)>, faults: &Value, failing: &[&str]| {
        let status = match counts {
            Some((nodes, pinned)) => json!({
                "conditions": faults,
                "poolSynchronizersStatus": [{
                    "poolSynchronizerType": "PinnedImageSets", "machineCount": nodes,
                    "updatedMachineCount": pinned, "readyMachineCount": pinned,
                    "availableMachineCount": nodes, "unavailableMachineCount": 0,
                }],
            }),
            None => json!({ "conditions": faults }),
        };
        let worker = pool("worker", &json!({ "pinnedImageSets": sets }), &status);
        let nodes = failing.iter().map(|name| {
            let node = json!({ "metadata": {
                "name": name,
                "labels": { "node-role.kubernetes.io/worker": "" },
                "annotations": {
                    (annotation::DESIRED_PINS): "edge=2.aa",
                    (annotation::NOT_PINNED): "NoRoom: set edge lacks 5 bytes",
                },
            } });
            NodeView::parse(serde_json::from_value(node).unwrap())
        });
        let nodes: Vec<NodeView> = nodes.collect();
        let objects = PoolObjects::from(vec![worker]);
        let shown = frame(&objects, &nodes, None, None, moment());
        shown.heading.notes[1..].to_vec()
    };
    let sets = json!([{ "name": "edge" }]);
    let none = json!([]);
    let degraded = |message: &str| {
        json!([condition(
            "PinnedImageSetsDegraded",
            "PrefetchFailed",
            message
        )])
    };
    let no_lines: [&str; 0] = [];
    assert_eq!(said(&none, None, &none, &[]), no_lines);
    assert_eq!(said(&sets, Some((3, 3)), &none, &[]), no_lines);
    assert_eq!(
        said(&sets, None, &none, &[]),
        ["worker: pinned images: not counted by the controller yet"]
    );
    assert_eq!(
        said(&sets, Some((3, 1)), &none, &[]),
        ["worker: pinned images: 1 of 3 nodes have them"]
    );
    // The condition has the same text.
    assert_eq!(
        said(&sets, Some((3, 2)), &degraded("node w2"), &["w2"]),
        ["worker: pinned images: 2 of 3 nodes have them; w2: NoRoom: set edge lacks 5 bytes"]
    );
    assert_eq!(
        said(&sets, Some((3, 3)), &degraded("which sets"), &[]),
        ["worker: PinnedImageSetsDegraded: which sets"]
    );
}

#[test]
fn builds_and_pins_stand_above_the_nodes() {
    let (seconds, pool_status, build) = course().remove(4);
    let now = moment() + jiff::SignedDuration::from_secs(seconds);
    let mut objects = in_image_mode(&pool_status, &build);
    let spec = json!({ "pinnedImageSets": [{ "name": "edge" }] });
    objects.pools = vec![pool("worker", &spec, &pool_status)];
    let frame = frame(&objects, &workers(), None, None, now);
    let size = ScreenSize {
        columns: 100,
        lines: 50,
    };
    let mut view = LiveView::new(Medium::Terminal(Ink::Plain));
    let drawn = view.show(&frame.heading, frame.nodes, now, size);
    let drawn: Vec<&str> = drawn.lines().map(str::trim_end).collect();
    let expected = [
        "",
        "All pools",
        "worker: 0 of 3 nodes updated, 0 out of service, 0 failed",
        "worker: OS image: held for 1m: no node takes its pod: Unschedulable",
        "worker: pinned images: not counted by the controller yet",
        "",
    ];
    assert_eq!(drawn[..expected.len()], expected, "{drawn:#?}");
}

#[test]
fn an_update_of_the_control_plane_alone_is_one_line_above_all() {
    let (pools, nodes) = cluster();
    let mut version = progressing("True");
    version.0["metadata"]["annotations"] = json!({ "slipway.dev/control-plane-only": "7" });
    let frame = frame(&pools, &nodes, Some(&version), None, moment());
    let first = frame.heading.notes.first().unwrap();
    assert!(first.starts_with("Control plane only: ClusterVersion version: annotation "));
    assert_eq!(frame.heading.notes[1], "release: Working towards 4.18.9");
}
