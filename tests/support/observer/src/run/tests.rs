use jiff::SignedDuration;
use lab::audit::{Event, Version};
use lab::host::DeploymentId;
use serde_json::{Value, json};

use super::*;
use crate::laws::{Law, node};
use crate::samples::{at, fetch};

fn boot(from: u64, ended: (u64, End)) -> Boot {
    Boot {
        id: from.to_string(),
        deployment: DeploymentId {
            checksum: "aa".to_owned(),
            serial: 0,
        },
        content: None,
        options: String::new(),
        started: at(from),
        ready: None,
        ended: Some((at(ended.0), ended.1)),
    }
}

fn audited(second: u64, resource: &str, stored: &Value) -> Event {
    serde_json::from_value(json!({
        "auditID": second.to_string(),
        "stage": "ResponseComplete",
        "verb": "patch",
        "requestURI": "/x",
        "user": { "username": "system:node:a" },
        "objectRef": { "resource": resource, "name": "a" },
        "responseStatus": { "code": 200 },
        "requestReceivedTimestamp": at(second),
        "stageTimestamp": at(second),
        "responseObject": stored,
    }))
    .unwrap()
}

/// A write that leaves node `a` cordoned or not, with these annotations.
fn node(second: u64, cordoned: bool, annotations: &Value) -> Event {
    let stored = json!({
        "kind": "Node",
        "metadata": { "name": "a", "resourceVersion": second.to_string(), "annotations": annotations },
        "spec": { "unschedulable": cordoned },
    });
    audited(second, "nodes", &stored)
}

/// A write that shows a pod on node `a`.
fn pod(second: u64) -> Event {
    let metadata = json!({ "namespace": "default", "name": "web", "uid": "1" });
    let stored = json!({ "kind": "Pod", "metadata": metadata, "spec": { "nodeName": "a" } });
    audited(second, "pods", &stored)
}

fn of_a<T>(what: T) -> BTreeMap<String, T> {
    BTreeMap::from([("a".to_owned(), what)])
}

fn broken(record: &Record) -> Vec<&'static Law> {
    let breaches = record.judge(at(0));
    breaches.into_iter().map(|breach| breach.law).collect()
}

#[test]
fn what_is_fetched_while_a_node_is_out_is_found() {
    let out = Interval {
        from: (Version(1), at(20)),
        until: Some((Version(2), at(30))),
    };
    let outages = of_a(vec![out]);
    for (from, to, bytes) in [
        (5, 19, 0),
        (31, 32, 0),
        (22, 23, 5),
        (19, 21, 5),
        (29, 31, 5),
        (5, 60, 5),
    ] {
        let record = Record {
            fetches: of_a(vec![fetch(from, to)]),
            ..Record::default()
        };
        let mut run = Run::of_record(&record, at(0));
        run.outages = outages.clone();
        let fetched = run.bytes_fetched_while_out();
        assert_eq!(fetched["a"], bytes, "{from} to {to}");
        let breaches = node::FETCH_BEFORE.judge(&run).len();
        assert_eq!(breaches, usize::from(bytes > 0), "{from} to {to}");
    }
}

#[test]
fn in_any_run_only_a_cordoned_node_is_out() {
    // It is never Ready, as where its host was killed.
    let audit = [node(1, false, &json!({})), node(20, true, &json!({}))];
    let fetched = |from, to| Record {
        audit: audit.to_vec(),
        fetches: of_a(vec![fetch(from, to)]),
        ..Record::default()
    };
    assert!(broken(&fetched(5, 6)).is_empty());
    assert_eq!(broken(&fetched(25, 26)), [&node::FETCH_BEFORE]);
}

#[test]
fn in_any_run_a_host_is_drained_for_an_announced_reboot() {
    let announced = json!({ (wire::PHASE): "Rebooting" });
    let single = json!({
        (wire::PHASE): "Rebooting",
        (wire::CONTROL_PLANE_TOPOLOGY): "SingleReplica",
    });
    let draining = json!({ (wire::PHASE): "Draining" });
    let cases = [
        ("it was announced", &announced, End::Reboot, true),
        ("the host was killed", &announced, End::Killed, false),
        ("one replica", &single, End::Reboot, false),
        ("another reboots it", &draining, End::Reboot, false),
    ];
    for (name, annotations, end, is_breach) in cases {
        let record = Record {
            audit: vec![pod(1), node(5, true, annotations)],
            boots: of_a(vec![boot(0, (9, end))]),
            ..Record::default()
        };
        let expected = if is_breach {
            vec![&node::DRAINED]
        } else {
            vec![]
        };
        assert_eq!(broken(&record), expected, "{name}");
    }
}

#[test]
fn a_host_went_down_when_a_boot_ended_after_the_start() {
    let mut boots = vec![
        boot(0, (5, End::Reboot)),
        boot(6, (9, End::Killed)),
        boot(10, (20, End::Reboot)),
    ];
    boots.push(Boot {
        ended: None,
        ..boot(21, (0, End::Died))
    });
    let record = Record {
        boots: of_a(boots),
        ..Record::default()
    };
    let all = went_down(&record, at(5), |_| true);
    assert_eq!(all, of_a(vec![at(9), at(20)]));
    let requested = went_down(&record, at(5), |end| end == End::Reboot);
    assert_eq!(requested, of_a(vec![at(20)]));
    let later = at(20) + SignedDuration::from_millis(1);
    assert_eq!(went_down(&record, later, |_| true), of_a(vec![]));
}
