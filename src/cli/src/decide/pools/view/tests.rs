use api::machineconfiguration::annotation;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-11-25T10:00:00Z";

pub(crate) fn moment() -> Timestamp {
    NOW.parse().unwrap()
}

pub(crate) fn pool(name: &str, spec: &Value, status: &Value) -> MachineConfigPool {
    let mut pool = json!({
        "metadata": { "name": name, "generation": 2 },
        "spec": {
            "nodeSelector": { "matchLabels": { (format!("node-role.kubernetes.io/{name}")): "" } },
            "configuration": { "name": format!("rendered-{name}-b") }
        },
        "status": {
            "observedGeneration": 2, "conditions": [],
            "configuration": { "name": format!("rendered-{name}-a") }
        }
    });
    for (part, values) in [("spec", spec), ("status", status)] {
        for (key, value) in values.as_object().unwrap() {
            pool[part][key] = value.clone();
        }
    }
    serde_json::from_value(pool).unwrap()
}

fn node(name: &str, roles: &[&str], annotations: &[(&str, &str)], cordoned: bool) -> NodeView {
    let labels: Value = roles
        .iter()
        .map(|role| (format!("node-role.kubernetes.io/{role}"), json!("")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let annotations: Value = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let node = json!({
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
        "spec": { "unschedulable": cordoned },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    });
    NodeView::parse(serde_json::from_value::<Node>(node).unwrap())
}

pub(crate) fn workers() -> Vec<NodeView> {
    let a = (annotation::CURRENT_CONFIG, "rendered-worker-a");
    let b = "rendered-worker-b";
    vec![
        node(
            "w3",
            &["worker"],
            &[
                a,
                (annotation::DESIRED_CONFIG, "rendered-worker-a"),
                (annotation::STATE, "Done"),
            ],
            false,
        ),
        node(
            "w1",
            &["worker"],
            &[
                (annotation::CURRENT_CONFIG, b),
                (annotation::DESIRED_CONFIG, b),
                (annotation::STATE, "Done"),
                (annotation::PHASE, "Idle"),
                (annotation::SINCE, "2026-11-25T09:00:00Z"),
            ],
            false,
        ),
        node(
            "w2",
            &["worker"],
            &[
                a,
                (annotation::DESIRED_CONFIG, b),
                (annotation::STATE, "Working"),
                (annotation::PHASE, "Draining"),
                (annotation::SINCE, "2026-11-25T09:58:30Z"),
                (
                    annotation::WAITS_FOR,
                    "pod shop/web-1: budget web\nand more",
                ),
            ],
            true,
        ),
    ]
}

fn rolling() -> MachineConfigPool {
    let condition = |r#type: &str, status: &str, reason: &str, message: &str| json!({ "type": r#type, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-25T09:58:00Z" });
    let status = json!({
        "unavailableMachineCount": 1,
        "conditions": [
            condition("Updating", "True", "", "All nodes are updating"),
            condition("NodeDegraded", "False", "", ""),
            condition("Waiting", "True", "Budget", "w3: 1 may be out at once, out: w2")
        ]
    });
    pool("worker", &json!({}), &status)
}

#[test]
fn a_pool_is_printed_with_what_its_nodes_wait_for() {
    let (pools, unmanaged) = pools(&vec![rolling()].into(), &workers(), moment());
    let expected = "\
Pool worker: 1 of 3 nodes updated, 1 out of service, 0 failed
  Configuration:  rendered-worker-b (from rendered-worker-a)
  maxUnavailable: 1
  Waiting:        w3: 1 may be out at once, out: w2 (Budget, for 2m)
  Forecast:       none before 3 nodes of this roll are done

  NAME   STATE               PHASE      SINCE   CONFIGURATION                            WAITS FOR
  w1     Done                Idle       1h      rendered-worker-b                        \n  \
  w2     Working, cordoned   Draining   1m30s   rendered-worker-a -> rendered-worker-b   pod shop/web-1: budget web...
  w3     Done                                   rendered-worker-a                        \n";
    assert_eq!(text(&pools, &unmanaged), expected);
    assert!(!pools[0].needs_attention());
}

#[test]
fn faults_pauses_and_unseen_changes_are_named() {
    let status = json!({
        "observedGeneration": 1, "degradedMachineCount": 1, "configuration": {},
        "conditions": [
            { "type": "NodeDegraded", "status": "True", "reason": "1 nodes are reporting degraded status on sync", "message": "Node w2 is reporting: \"no room\"" },
            { "type": "RenderDegraded", "status": "True", "message": "MachineConfig 99-x: field y\nsecond" }
        ]
    });
    let spec = json!({ "paused": true, "maxUnavailable": "30%", "configuration": {} });
    let (pools, _) = pools(&vec![pool("worker", &spec, &status)].into(), &[], moment());
    let expected = "\
Pool worker: 0 of 0 nodes updated, 0 out of service, 1 failed
  Configuration:  none yet
  maxUnavailable: 30%
  Paused:         no node is assigned a configuration
  Status:         the controller has not seen the last change of the pool
  NodeDegraded:   Node w2 is reporting: \"no room\" (1 nodes are reporting degraded status on sync)
  RenderDegraded: MachineConfig 99-x: field y...\n";
    assert_eq!(text(&pools, &[]), expected);
    assert!(pools[0].needs_attention());
}

#[test]
fn the_control_plane_is_first_and_unmanaged_nodes_are_last() {
    let custom = |name: &str| pool(name, &json!({}), &json!({}));
    let nodes = [
        node("both", &["infra", "storage"], &[], false),
        node(
            "left",
            &["none"],
            &[(annotation::CURRENT_CONFIG, "rendered-worker-a")],
            false,
        ),
        node("other", &["none"], &[], false),
    ];
    let all = [custom("infra"), custom("storage"), custom("master")];
    let (pools, unmanaged) = pools(&all.to_vec().into(), &nodes, moment());
    let names: Vec<&str> = pools.iter().map(PoolDetails::name).collect();
    assert_eq!(names, ["master", "infra", "storage"]);
    assert_eq!(
        unmanaged,
        [
            "node both belongs to 2 custom roles, cannot proceed with this Node: pools infra, storage select it by spec.nodeSelector",
            "node left was managed, and no pool selects it any more"
        ]
    );
    assert!(text(&pools, &unmanaged).ends_with("no pool selects it any more\n"));
}

#[test]
fn a_roll_is_forecast_from_its_nodes() {
    let b = "rendered-worker-b";
    let done = |name: &str, since: &str| {
        let annotations = [
            (annotation::CURRENT_CONFIG, b),
            (annotation::DESIRED_CONFIG, b),
            (annotation::STATE, "Done"),
            (annotation::PHASE, "Idle"),
            (annotation::SINCE, since),
        ];
        node(name, &["worker"], &annotations, false)
    };
    let mut nodes = workers();
    nodes.retain(|node| node.name == "w3");
    nodes.extend([
        done("w4", "2026-11-25T09:58:30Z"),
        done("w5", "2026-11-25T09:59:00Z"),
        done("w6", "2026-11-25T09:59:30Z"),
    ]);
    let (pools, _) = pools(&vec![rolling()].into(), &nodes, moment());
    let text = text(&pools, &[]);
    let expected = "Forecast:       all nodes updated in 30s (p50) to 30s (p90), as 3 nodes of this roll took\n";
    assert!(text.contains(expected), "{text}");
    let json = serde_json::to_value(&pools).unwrap();
    assert_eq!(json[0]["forecast"]["p90Seconds"], 30);
}

#[test]
fn the_stream_that_is_wanted_stands_beside_the_one_that_is_there() {
    let streams = |default: &str| {
        let streams = json!({
            "metadata": { "name": "cluster" }, "spec": { "defaultStream": default },
            "status": { "defaultStream": default, "availableStreams": [] }
        });
        vec![serde_json::from_value(streams).unwrap()]
    };
    let of = |name: &str, own: Option<&str>, reached: Option<&str>| {
        let stream = |name: &str| json!({ "osImageStream": { "name": name } });
        let [spec, status] = [own, reached].map(|it| it.map_or_else(|| json!({}), stream));
        pool(name, &spec, &status)
    };
    let table = [
        // (pool, its own, the workers', the one that is there, what is shown)
        ("worker", Some("b"), Some("b"), Some("a"), "b (from a)"),
        ("worker", Some("b"), Some("b"), Some("b"), "b"),
        ("edge", None, Some("b"), None, "b (not on all nodes)"),
        ("edge", Some("a"), Some("b"), Some("a"), "a"),
        ("master", None, Some("b"), Some("a"), "a"),
        ("edge", None, None, Some("b"), "a (from b)"),
    ];
    for (name, own, workers, reached, expected) in table {
        let mut objects = PoolObjects::from(vec![of(name, own, reached)]);
        if name != "worker" {
            objects.pools.push(of("worker", workers, None));
        }
        let shown = |objects: &PoolObjects| {
            let (pools, _) = pools(objects, &[], moment());
            let text = text(&pools, &[]);
            let block = text.split("Pool ").find(|block| block.starts_with(name));
            let mut rows = block.unwrap_or_default().lines();
            let row = rows.find_map(|row| row.trim().strip_prefix("OS stream:"));
            row.map(|row| row.trim().to_owned())
        };
        // Without streams, nothing is shown.
        assert_eq!(shown(&objects), None, "{name}");
        objects.os_streams = streams("a");
        assert_eq!(shown(&objects).as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn stopped_pool_says_so_first_and_nodes_on_hold_are_counted_and_named() {
    let waiting = |reason: &str, message: &str| {
        json!({ "conditions": [
            { "type": "NodeDegraded", "status": "True", "reason": "", "message": "w2 failed" },
            { "type": "Waiting", "status": "True", "reason": reason, "message": message },
        ] })
    };
    let mut nodes = workers();
    nodes[0].hold = Some(api::machineconfiguration::NodeHold("new disk".to_owned()));
    let shown = |pool: MachineConfigPool| {
        let (details, _) = pools(&vec![pool].into(), &nodes, moment());
        (
            details[0].text(),
            details[0].notes(),
            details[0].needs_attention(),
        )
    };
    let said = "the cluster is stopped by bob since 2026-11-25T09:00:00Z: kernel bug";
    let mut stopped = pool("worker", &json!({}), &waiting("Stopped", said));
    stopped.metadata.annotations = Some(
        [(
            api::stop::STOP.to_owned(),
            r#"{"by":"alice","since":"2026-11-25T09:00:00Z"}"#.to_owned(),
        )]
        .into(),
    );
    let (text, heading, needs_attention) = shown(stopped);
    let own = "by alice since 2026-11-25T09:00:00Z, without a reason";
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines[0].ends_with(", 1 on hold"), "{text}");
    assert!(
        lines[1].starts_with("Stopped:") && lines[1].ends_with(own),
        "{text}"
    );
    let place = |words: &str| lines.iter().position(|line| line.contains(words));
    assert!(place(said) < place("w2 failed"), "{text}");
    let held = lines.iter().find(|line| line.starts_with("w3")).unwrap();
    assert!(held.ends_with("on hold: new disk"), "{held}");
    assert!(
        heading[0].ends_with(&format!("stopped {own}")),
        "{heading:?}"
    );
    assert_eq!(heading[1], format!("worker: Waiting: {said}"));
    assert!(needs_attention);
    // Nodes that wait need no one; a fault comes first.
    let (text, _, _) = shown(pool(
        "worker",
        &json!({}),
        &waiting("NodesOnHold", "w3: on hold"),
    ));
    assert!(text.find("w2 failed") < text.find("w3: on hold"), "{text}");
    assert!(!text.contains("Stopped:"), "{text}");
}
