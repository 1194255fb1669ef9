use std::num::NonZeroU64;

use serde_json::{Value, json};

use super::*;
use crate::fixture::{
    NEW, OLD, building, named_target, node, parse_pool, pin_list, pool, pool_object, target,
};
use crate::hold::Hold;
use crate::pins::PinRound;

fn tainted(mut node: NodeView) -> NodeView {
    node.taints = serde_json::from_value(json!([
        { "key": "theirs", "effect": "NoSchedule", "value": "v" },
        { "key": "UpdateInProgress", "effect": "PreferNoSchedule" }
    ]))
    .unwrap();
    node
}

fn patch(node: &NodeView, is_assigned: bool) -> Option<Value> {
    NodeWrite::of(
        node,
        &pool("worker", json!({})),
        is_assigned,
        ClusterFacts::default(),
    )
    .map(|write| write.to_patch())
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
            { "key": "d", "operator": "Exists" },
            { "key": "e", "operator": "NotIn", "values": ["5"] },
        ]
    } });
    let edge = pool("edge", selector);
    let labels = InitialPool::Labels(&edge);
    let write = |initial| NodeWrite::initial_labels(&node("a"), initial);
    let patch = write(labels).unwrap().to_patch();
    assert_eq!(
        patch["metadata"],
        json!({
            "resourceVersion": "1",
            "labels": { "a": "1", "b": "2", "d": "" },
            "annotations": { "machineconfiguration.openshift.io/customPoolLabelsApplied": "" }
        })
    );
    // Without labels there is no marker; those of a person stay as they are.
    assert_eq!(write(InitialPool::Unknown(&edge)), None);
    let patch = write(InitialPool::Labelled(&edge)).unwrap().to_patch();
    assert_eq!(patch["metadata"].get("labels"), None);
    let marker = &patch["metadata"]["annotations"];
    assert_eq!(
        marker["machineconfiguration.openshift.io/customPoolLabelsApplied"],
        ""
    );
}

#[test]
fn leftover_image_is_removed_with_the_target() {
    let mut layered = node("a");
    layered.status.desired_image = Some("image".to_owned());
    let write = NodeWrite::of(
        &layered,
        &pool("worker", json!({})),
        true,
        ClusterFacts::default(),
    )
    .unwrap();
    assert_eq!(write.annotations[annotation::DESIRED_IMAGE], None);
    assert_eq!(write.annotations.len(), 2);
}

#[test]
fn the_image_is_assigned_with_the_configuration() {
    let mut pool = pool("worker", json!({}));
    let layered = format!("{NEW} os@1");
    pool.target = Some(target(&layered));
    let write = |node: &NodeView, is_assigned: bool| {
        let write = NodeWrite::of(node, &pool, is_assigned, ClusterFacts::default());
        write.map(|write| write.to_patch()["metadata"]["annotations"].clone())
    };
    let assigned = json!({
        "machineconfiguration.openshift.io/desiredConfig": NEW,
        "machineconfiguration.openshift.io/desiredImage": "os@1",
    });
    assert_eq!(write(&node("a"), true), Some(assigned));
    // Until then it may fetch both.
    assert_eq!(
        write(&node("a"), false),
        Some(json!({ "slipway.dev/next-config": layered }))
    );
    // It has another image of the same configuration.
    let other = node("a").done(&format!("{NEW} os@0"));
    assert!(write(&other, true).is_some());
    assert_eq!(write(&node("a").done(&layered), false), None);
    // One that is given up gets back the image that it runs.
    let stuck = other.working(&layered);
    let back = NodeWrite::quarantine(&stuck, &target(&layered));
    let annotations = &back.to_patch()["metadata"]["annotations"];
    assert_eq!(
        annotations["machineconfiguration.openshift.io/desiredImage"],
        "os@0"
    );
    assert_eq!(annotations["slipway.dev/quarantined"], json!(layered));
}

#[test]
fn waiting_node_is_tainted_and_other_taints_stay() {
    let mut waiting = tainted(node("a"));
    waiting.taints.pop();
    assert_eq!(
        patch(&waiting, false),
        Some(json!({
            "metadata": {
                "resourceVersion": "1",
                "annotations": { "slipway.dev/next-config": NEW }
            },
            "spec": { "taints": [
                { "effect": "NoSchedule", "key": "theirs", "value": "v" },
                { "effect": "PreferNoSchedule", "key": "UpdateInProgress" }
            ] }
        }))
    );
    assert_eq!(patch(&tainted(named_next("a", NEW)), false), None);
}

/// A node that waits, with the name of what it may fetch.
fn named_next(name: &str, config: &str) -> NodeView {
    node(name).reporting(|status| status.next = Some(named_target(config)))
}

#[test]
fn a_node_may_fetch_what_it_waits_for_and_nothing_else() {
    let off = |value: &str| {
        let mut object = pool_object("worker", json!({}));
        object["metadata"]["annotations"] = json!({ "slipway.dev/prefetch": value });
        parse_pool(object).1
    };
    let rolling = || pool("worker", json!({}));
    let set = || Some(Some(NEW.to_owned()));
    let failing = |node: NodeView| node.failing("rendered-worker-0");
    for (node, pool, is_assigned, change) in vec![
        (node("a"), rolling(), false, set()),
        (failing(node("a")), rolling(), false, set()),
        (named_next("a", OLD), rolling(), false, set()),
        (named_next("a", NEW), rolling(), false, None),
        // Its turn.
        (named_next("a", NEW), rolling(), true, Some(None)),
        (node("a"), rolling(), true, None),
        // The pool leads back to what it runs; it has what it was to fetch.
        (named_next("a", OLD).done(NEW), rolling(), false, Some(None)),
        // Nothing moves.
        (
            node("a"),
            pool("worker", json!({ "paused": true })),
            false,
            None,
        ),
        (
            named_next("a", NEW),
            pool("worker", json!({ "paused": true })),
            false,
            Some(None),
        ),
        (node("a"), off("true"), false, set()),
        (node("a"), off("false"), false, None),
        (named_next("a", NEW), off("no"), false, Some(None)),
    ] {
        let write = NodeWrite::of(&node, &pool, is_assigned, ClusterFacts::default());
        let annotations = write.map(|write| write.annotations).unwrap_or_default();
        let found = annotations.get(annotation::NEXT_CONFIG);
        assert_eq!(found, change.as_ref(), "{node:?} {pool:?} {is_assigned}");
    }
}

#[test]
fn what_a_node_fetches_before_its_turn_is_limited_by_the_policy() {
    let policy = |limit: Value| {
        let spec = json!({ "prefetchBytesPerSecond": limit });
        let policy = RolloutPolicy::parse(&serde_json::from_value(spec).unwrap());
        PoolView {
            policy: Some(policy.unwrap()),
            ..pool("worker", json!({}))
        }
    };
    let limited = |text: Reading<NonZeroU64>| {
        named_next("a", NEW).reporting(|status| status.next_bytes_per_second = Some(text))
    };
    let limit_of = |limit| Reading::Known(NonZeroU64::new(limit).unwrap());
    let unknown = || Reading::Unknown("fast".to_owned());
    let set = |limit: &str| Some(Some(limit.to_owned()));
    for (node, pool, is_assigned, change) in vec![
        (node("a"), policy(json!("20M")), false, set("20000000")),
        (
            named_next("a", NEW),
            policy(json!("20M")),
            false,
            set("20000000"),
        ),
        (
            limited(limit_of(20_000_000)),
            policy(json!("20M")),
            false,
            None,
        ),
        (
            limited(limit_of(1)),
            policy(json!("1Mi")),
            false,
            set("1048576"),
        ),
        (
            limited(unknown()),
            policy(json!("1Mi")),
            false,
            set("1048576"),
        ),
        // Its turn.
        (
            limited(limit_of(20_000_000)),
            policy(json!("20M")),
            true,
            Some(None),
        ),
        (node("a"), policy(json!("20M")), true, None),
        (
            limited(limit_of(20_000_000)),
            policy(Value::Null),
            false,
            Some(None),
        ),
        (
            limited(limit_of(20_000_000)),
            pool("worker", json!({})),
            false,
            Some(None),
        ),
        (node("a").done(NEW), policy(json!("20M")), false, None),
    ] {
        let write = NodeWrite::of(&node, &pool, is_assigned, ClusterFacts::default());
        let annotations = write.map(|write| write.annotations).unwrap_or_default();
        let found = annotations.get(annotation::NEXT_BYTES_PER_SECOND);
        assert_eq!(found, change.as_ref(), "{node:?} {pool:?} {is_assigned}");
    }
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
fn an_assignment_takes_the_taint_from_a_node_that_is_cordoned_at_once() {
    let theirs = json!([{ "effect": "NoSchedule", "key": "theirs", "value": "v" }]);
    for (fetched, taints) in [(None, None), (Some(OLD), None), (Some(NEW), Some(&theirs))] {
        let waiting = tainted(node("a")).reporting(|status| {
            status.fetched = fetched.map(named_target);
        });
        let patch = patch(&waiting, true).unwrap();
        assert_eq!(
            patch.pointer("/metadata/annotations/machineconfiguration.openshift.io~1desiredConfig"),
            Some(&json!(NEW)),
            "{fetched:?}"
        );
        assert_eq!(patch.pointer("/spec/taints"), taints, "{fetched:?}");
    }
}

#[test]
fn pool_that_does_not_roll_untaints_and_assigns_nothing() {
    for spec in [
        json!({ "paused": true }),
        json!({ "maxUnavailable": -1 }),
        json!({ "configuration": {} }),
    ] {
        let stopped = pool("worker", spec);
        let write = NodeWrite::of(
            &tainted(node("a")),
            &stopped,
            false,
            ClusterFacts::default(),
        )
        .unwrap();
        assert_eq!(write.taints.unwrap().len(), 1);
        assert_eq!(write.annotations.len(), 0);
        assert_eq!(
            NodeWrite::of(&node("a"), &stopped, false, ClusterFacts::default()),
            None
        );
    }
    let mut held = pool("worker", json!({}));
    held.hold = Some(Hold::Image(building("worker-1")));
    assert_eq!(
        NodeWrite::of(&node("a"), &held, false, ClusterFacts::default()),
        None
    );
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
    let single = ClusterFacts {
        topology: Some("SingleReplica"),
        ..ClusterFacts::default()
    };
    let write = NodeWrite::of(&done, &worker, false, single).unwrap();
    assert_eq!(
        write.annotations,
        BTreeMap::from([(
            annotation::CONTROL_PLANE_TOPOLOGY,
            Some("SingleReplica".to_owned())
        )])
    );
    done.status.topology = Some("SingleReplica".to_owned());
    assert_eq!(NodeWrite::of(&done, &worker, false, single), None);
}

#[test]
fn masters_get_the_roles_and_taints_that_the_cluster_asks_for() {
    let master = |labels: Value, taints: Value| {
        let mut node = node("m").done(NEW);
        node.labels = serde_json::from_value(labels).unwrap();
        node.taints = serde_json::from_value(taints).unwrap();
        node
    };
    let keep_off = |role: &str| json!({ "key": format!("node-role.kubernetes.io/{role}"), "effect": "NoSchedule" });
    let theirs = json!({ "key": "theirs", "effect": "NoSchedule" });
    let (role, both) = (
        json!({ "node-role.kubernetes.io/control-plane": "" }),
        json!({ "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/worker": "" }),
    );
    let table = [
        // Without the object roles and taints stay, but for the label.
        (
            None,
            json!({}),
            json!([]),
            Some((json!({ "node-role.kubernetes.io/control-plane": "" }), None)),
        ),
        (None, both.clone(), json!([keep_off("master")]), None),
        (
            Some(true),
            role.clone(),
            json!([theirs, keep_off("master"), keep_off("control-plane")]),
            Some((
                json!({ "node-role.kubernetes.io/worker": "" }),
                Some(json!([theirs])),
            )),
        ),
        (Some(true), both.clone(), json!([theirs]), None),
        (
            Some(false),
            both,
            json!([theirs]),
            Some((
                json!({ "node-role.kubernetes.io/worker": null }),
                Some(json!([theirs, keep_off("master")])),
            )),
        ),
        (Some(false), role, json!([keep_off("master"), theirs]), None),
    ];
    for (masters_schedulable, labels, taints, expected) in table {
        let facts = ClusterFacts {
            masters_schedulable,
            ..ClusterFacts::default()
        };
        let node = master(labels, taints);
        let write = NodeWrite::of(&node, &pool("master", json!({})), false, facts);
        let written = write.map(|write| {
            (
                json!(write.labels),
                write.taints.map(|taints| json!(taints)),
            )
        });
        assert_eq!(written, expected, "{node:?}");
        let worker = NodeWrite::of(&node, &pool("worker", json!({})), false, facts);
        assert_eq!(worker, None, "a worker's are its administrator's");
    }
}

#[test]
fn master_that_waits_has_all_its_taints() {
    let facts = ClusterFacts {
        masters_schedulable: Some(false),
        ..ClusterFacts::default()
    };
    let write = NodeWrite::of(&node("m"), &pool("master", json!({})), false, facts).unwrap();
    let taints = write.taints.iter().flatten();
    let keys: Vec<&str> = taints.map(|taint| taint.key.as_str()).collect();
    assert_eq!(keys, ["UpdateInProgress", "node-role.kubernetes.io/master"]);
    let patch = write.to_patch();
    assert_eq!(
        patch["metadata"]["labels"],
        json!({ "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/worker": null })
    );
}

#[test]
fn a_node_in_its_turn_is_assigned_the_sets_and_loses_what_it_reported_of_others() {
    let list = "edge=2.aa";
    let written = |node: &NodeView, list: &str| {
        let mut pool = pool("worker", json!({}));
        pool.target = Some(target(OLD));
        pool.pins = Some(PinRound::new(pin_list(list), &[node], 1));
        let write = NodeWrite::of(node, &pool, false, ClusterFacts::default());
        write.map(|write| write.to_patch()["metadata"]["annotations"].clone())
    };
    let desired = "slipway.dev/desired-pins";
    for (node, list, expected) in [
        (node("a"), list, Some(json!({ desired: list }))),
        (node("a").pins(list, "", ""), list, None),
        (
            node("a").pins("edge=1.aa", "", "NoRoom: x"),
            list,
            Some(json!({ desired: list, "slipway.dev/not-pinned": null })),
        ),
        (
            node("a").pins(list, list, ""),
            "",
            Some(json!({ desired: null })),
        ),
        (node("a"), "", None),
    ] {
        assert_eq!(written(&node, list), expected, "{:?}", node.status);
    }
}

#[test]
fn a_node_that_left_all_pools_loses_its_sets_and_a_contested_one_keeps_them() {
    let left = node("a").pins("edge=2.aa", "", "");
    let write = NodeWrite::of_left(&left, false).unwrap();
    let expected = json!({ "slipway.dev/desired-pins": null });
    assert_eq!(write.to_patch()["metadata"]["annotations"], expected);
    assert_eq!(NodeWrite::of_left(&left, true), None);
    assert_eq!(NodeWrite::of_left(&node("a"), false), None);
}
