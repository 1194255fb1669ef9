use jiff::SignedDuration;
use lab::audit::{Event, Version};
use serde_json::{Value, json};

use super::*;
use crate::pods;
use crate::samples::{at, boot, rollout};

fn reported(second: u64, config: &str, state: &str) -> NodeSnapshot {
    NodeSnapshot {
        version: Version(second),
        at: at(second),
        user: "system:node:a".into(),
        is_unschedulable: false,
        is_ready: true,
        annotations: BTreeMap::from([
            (wire::CURRENT_CONFIG.into(), config.into()),
            (wire::STATE.into(), state.into()),
        ]),
    }
}

/// An audit event about pod `name` on node `a`.
fn about_pod(second: u64, verb: &str, metadata: &Value, body: &Value) -> Event {
    let mut pod = json!({
        "kind": "Pod",
        "metadata": { "namespace": "default", "uid": metadata["name"], "resourceVersion": "1" },
        "spec": { "nodeName": "a" },
    });
    for (key, value) in metadata.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    serde_json::from_value(json!({
        "auditID": "1",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/api/v1/namespaces/default/pods/x",
        "user": { "username": "system:node:a" },
        "objectRef": { "resource": "pods", "namespace": "default", "name": metadata["name"] },
        "responseStatus": { "code": 200 },
        "requestReceivedTimestamp": at(second),
        "stageTimestamp": at(second),
        "requestObject": body,
        "responseObject": pod,
    }))
    .unwrap()
}

#[test]
fn the_way_up_is_not_judged() {
    let ready = [(at(1), 1), (at(2), 6), (at(10), 5), (at(12), 6)];
    assert_eq!(readiness(&ready, at(3), 5), None);
    assert_eq!(fewest(&ready, at(3)), (at(10), 5));
    assert_eq!(fewest(&ready, at(11)), (at(11), 5));
}

#[test]
fn a_record_without_ready_pods_is_a_breach() {
    let all_up = [(at(1), 6)];
    let late = [(at(4), 6), (at(6), 5)];
    let cases: [(&str, &[_], _); 4] = [
        ("all are up", &all_up, None),
        ("nothing was recorded", &[], Some(0)),
        ("none was ready", &[(at(1), 0)], Some(0)),
        ("they came later", &late, Some(0)),
    ];
    for (name, ready, count) in cases {
        let expected = count.map(|count: u32| format!("{count} ready at {}, of 5 needed", at(3)));
        let what = readiness(ready, at(3), 5);
        assert_eq!(what, expected, "{name}");
    }
}

#[test]
fn a_replica_too_few_is_a_breach_at_its_moment() {
    let ready = [(at(1), 6), (at(10), 5), (at(11), 4), (at(12), 5)];
    let found = readiness(&ready, at(3), 5).unwrap();
    let expected = format!("4 ready at {}", at(11));
    assert!(found.contains(&expected), "{found}");
}

#[test]
fn a_pod_that_only_began_to_end_is_still_there() {
    let web = json!({ "name": "web", "resourceVersion": "2" });
    let going = json!({ "name": "web", "deletionGracePeriodSeconds": 30 });
    let events = [
        about_pod(1, "patch", &web, &Value::Null),
        about_pod(5, "delete", &going, &json!({ "gracePeriodSeconds": 30 })),
        about_pod(9, "delete", &going, &json!({ "gracePeriodSeconds": 0 })),
    ];
    let pods = pods::lives(&events);
    let down = |second| BTreeMap::from([("a".to_owned(), vec![at(second)])]);
    assert_eq!(drained(&pods, &down(8)).len(), 1);
    assert_eq!(drained(&pods, &down(9)), [""; 0]);
    assert_eq!(
        drained(&pods, &BTreeMap::from([("b".to_owned(), vec![at(8)])])),
        [""; 0]
    );
}

#[test]
fn pods_of_the_node_stay() {
    let owner = json!([{ "kind": "DaemonSet", "controller": true }]);
    let mirror = json!({ "kubernetes.io/config.mirror": "1" });
    let events = [
        about_pod(
            1,
            "patch",
            &json!({ "name": "agent", "ownerReferences": owner }),
            &Value::Null,
        ),
        about_pod(
            1,
            "patch",
            &json!({ "name": "static-a", "annotations": mirror }),
            &Value::Null,
        ),
    ];
    let pods = pods::lives(&events);
    assert_eq!(
        drained(&pods, &BTreeMap::from([("a".to_owned(), vec![at(8)])])),
        [""; 0]
    );

    let eviction = |pod: &str| Eviction {
        received: at(3),
        at: at(3) + SignedDuration::from_millis(1),
        user: "system:node:a".into(),
        user_agent: String::new(),
        namespace: "default".into(),
        pod: pod.into(),
        code: 201,
        message: String::new(),
        grace_secs: None,
    };
    assert_eq!(spared(&[eviction("web")], &pods), [""; 0]);
    assert_eq!(
        spared(&[eviction("agent"), eviction("static-a")], &pods).len(),
        2
    );
}

#[test]
fn done_is_said_once_until_something_else_is() {
    let history = [
        reported(1, "old", "Done"),
        reported(5, "old", "Working"),
        reported(20, "new", "Done"),
        reported(21, "new", "Done"),
    ];
    assert_eq!(said_done(&history), [(at(1), "old"), (at(20), "new")]);
}

#[test]
fn a_node_is_done_only_in_the_os_that_it_booted() {
    let history = [reported(1, "old", "Done"), reported(20, "new", "Done")];
    let first = boot(0, Some("v1"));
    let cases = [
        ("it booted the new one", vec![boot(18, Some("v2"))], ""),
        (
            "it booted later",
            vec![boot(21, Some("v2"))],
            "before it booted",
        ),
        ("it never booted", vec![], "before it booted"),
        // Any boot was enough once.
        (
            "the old one",
            vec![boot(18, Some("v1"))],
            "in another OS, aa.0",
        ),
        (
            "back in the old one",
            vec![boot(15, Some("v2")), boot(18, Some("v1"))],
            "in another OS, aa.0",
        ),
        (
            "an OS that cannot be read",
            vec![boot(18, None)],
            "in another OS, aa.0",
        ),
    ];
    for (name, later, doubt) in cases {
        let boots = [vec![first.clone()], later].concat();
        let found = truthful("a", &history, &boots, &roll("new", 10));
        let expected = format!("a said new is Done at {}, {doubt}", at(20));
        let expected = if doubt.is_empty() {
            vec![]
        } else {
            vec![expected]
        };
        assert_eq!(found, expected, "{name}");
    }
    let count = |roll| truthful("a", &history, &[], &roll).len();
    assert_eq!(count(roll("new", 10)), 1);
    assert_eq!(count(roll("newer", 10)), 0, "of another configuration");
    assert_eq!(count(roll("new", 21)), 0, "of an earlier roll");
}

/// A roll to this configuration and OS `v2`, from this second on.
fn roll(config: &str, start: u64) -> Roll {
    Roll {
        config: config.to_owned(),
        start: at(start),
        ..rollout(5, 6).rolls.remove(0)
    }
}

#[test]
fn a_roll_without_reboot_that_takes_a_node_out_is_found() {
    let out = |from, until| Interval {
        from: (Version(from), at(from)),
        until: Some((Version(until), at(until))),
    };
    let cases = [
        ("nothing happened", None, None, None),
        ("before it", Some(out(0, 1)), Some(9), None),
        ("after it", Some(out(101, 102)), Some(100), None),
        ("out", Some(out(20, 30)), None, Some("a was out at")),
        ("a boot", None, Some(10), Some("a booted at")),
    ];
    for (name, outage, booted, found) in cases {
        let mut rollout = rollout(5, 6);
        rollout.rolls[0].start = at(10);
        let booted = booted.map(|second| boot(second, Some("v2")));
        rollout.record.boots = BTreeMap::from([("a".to_owned(), booted.into_iter().collect())]);
        let outages = BTreeMap::from([("a".to_owned(), outage.into_iter().collect())]);
        let may_reboot = undisturbed(&rollout, &outages);
        assert_eq!(may_reboot, [""; 0], "{name}, but it may reboot");
        rollout.rolls[0].reboots = false;
        let breaches = undisturbed(&rollout, &outages);
        assert_eq!(breaches.len(), usize::from(found.is_some()), "{name}");
        if let Some(found) = found {
            assert!(breaches[0].starts_with(found), "{name}: {}", breaches[0]);
        }
    }
}
