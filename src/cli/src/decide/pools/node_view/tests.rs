use api::machineconfiguration::{MachineConfigPool, annotation};
use serde_json::{Value, json};

use super::*;

fn node(annotations: &Value, cordoned: bool) -> NodeView {
    let node = json!({
        "metadata": { "name": "w2", "labels": { "role": "worker" }, "annotations": annotations },
        "spec": { "unschedulable": cordoned },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    });
    NodeView::parse(serde_json::from_value(node).unwrap())
}

fn pool() -> MachineConfigPool {
    let pool = json!({
        "metadata": { "name": "worker" },
        "spec": {
            "nodeSelector": { "matchLabels": { "role": "worker" } },
            "configuration": { "name": "rendered-worker-b" }
        }
    });
    serde_json::from_value(pool).unwrap()
}

fn trial(pod: &str, outcome: TrialOutcome, budget: Option<&str>, message: &str) -> EvictionTrial {
    EvictionTrial {
        pod: pod.to_owned(),
        outcome,
        budget: budget.map(ToOwned::to_owned),
        message: message.to_owned(),
    }
}

fn now() -> Timestamp {
    "2026-11-25T10:00:00Z".parse().unwrap()
}

#[test]
fn a_node_under_an_update_is_printed_whole() {
    let annotations = json!({
        (annotation::CURRENT_CONFIG): "rendered-worker-a", (annotation::DESIRED_CONFIG): "rendered-worker-b",
        (annotation::STATE): "Working", (annotation::PHASE): "Draining",
        (annotation::SINCE): "2026-11-25T09:58:30Z", (annotation::WAITS_FOR): "pod shop/web-1: budget web",
        (annotation::DESIRED_DRAIN): "drain-rendered-worker-b", (annotation::LAST_APPLIED_DRAIN): "uncordon-rendered-worker-a"
    });
    let trials = vec![
        trial(
            "shop/web-1",
            TrialOutcome::Blocked,
            Some("web"),
            "The disruption budget web needs 2 healthy pods and has 2 currently\nmore",
        ),
        trial("shop/job", TrialOutcome::Evictable, None, ""),
    ];
    let details = NodeDetails::new(
        &node(&annotations, true),
        &vec![pool()].into(),
        Some(trials),
        now(),
    );
    let expected = "\
Node w2: Working, Draining, for 1m30s
  Pool:          worker
  Service:       cordoned
  Configuration: rendered-worker-a
  Assigned:      rendered-worker-b
  Waits for:     pod shop/web-1: budget web
  Asks for:      drain-rendered-worker-b

Each pod that a drain evicts, tried by itself:
  POD          EVICTION   BUDGET   MESSAGE
  shop/web-1   blocked    web      The disruption budget web needs 2 healthy pods and has 2 currently...
  shop/job     possible            \n";
    assert_eq!(details.text(), expected);
    assert!(details.needs_attention());
}

#[test]
fn what_a_node_was_not_assigned_yet_is_named() {
    let annotations = json!({
        (annotation::CURRENT_CONFIG): "rendered-worker-a", (annotation::DESIRED_CONFIG): "rendered-worker-a",
        (annotation::STATE): "Done", (annotation::PHASE): "Idle"
    });
    let details = NodeDetails::new(
        &node(&annotations, false),
        &vec![pool()].into(),
        Some(Vec::new()),
        now(),
    );
    let expected = "\
Node w2: Done, Idle
  Pool:             worker
  Service:          ready
  Configuration:    rendered-worker-a
  Not assigned yet: rendered-worker-b

A drain evicts no pod of it.\n";
    assert_eq!(details.text(), expected);
    assert!(!details.needs_attention());
}

#[test]
fn a_failed_node_shows_every_line_of_its_reason() {
    let annotations = json!({
        (annotation::CURRENT_CONFIG): "rendered-worker-a", (annotation::DESIRED_CONFIG): "rendered-worker-b",
        (annotation::STATE): "Degraded", (annotation::PHASE): "Odd", (annotation::REASON): "no room\non /sysroot"
    });
    let details = NodeDetails::new(
        &node(&annotations, false),
        &PoolObjects::default(),
        None,
        now(),
    );
    let expected = "\
Node w2: Degraded, Odd
  Pool:          none
  Unmanaged:     no MachineConfigPool selects it
  Service:       ready
  Configuration: rendered-worker-a
  Assigned:      rendered-worker-b
  Reason:        no room\n    on /sysroot\n";
    assert_eq!(details.text(), expected);
    assert!(details.needs_attention());
}

#[test]
fn node_that_writes_its_own_annotations_does_not_steer_the_terminal() {
    // The kubelet of a stolen node may write them.
    let annotations = json!({
        (annotation::CURRENT_CONFIG): "rendered-worker-a", (annotation::DESIRED_CONFIG): "rendered-worker-a",
        (annotation::STATE): "Degraded",
        (annotation::REASON): "\u{1b}]52;c;Y3VybCBldmlsfHNo\u{7}\u{1b}[2K\u{1b}[1A\u{1b}[2KNode w2: Done",
    });
    let details = NodeDetails::new(
        &node(&annotations, false),
        &vec![pool()].into(),
        None,
        now(),
    );
    let mut shown = Vec::new();
    crate::output::write_text(&mut shown, &details.text()).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("Node w2: Done"), "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
}
