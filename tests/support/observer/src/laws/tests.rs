use jiff::SignedDuration;
use lab::audit::{Event, Version};
use serde_json::{Value, json};

use super::*;
use crate::pods;

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

fn out(from: u64, until: Option<u64>) -> Interval {
    let place = |second| (Version(second), at(second));
    Interval {
        from: place(from),
        until: until.map(place),
    }
}

fn said(second: u64, config: &str, state: &str) -> NodeState {
    NodeState {
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
fn one_node_after_another_keeps_the_budget() {
    let outages = BTreeMap::from([
        ("a".to_owned(), vec![out(1, Some(5)), out(9, None)]),
        ("b".to_owned(), vec![out(5, Some(9))]),
    ]);
    assert_eq!(budget(&outages, 1), None);
}

#[test]
fn two_nodes_at_once_are_named() {
    let outages = BTreeMap::from([
        ("a".to_owned(), vec![out(1, Some(6))]),
        ("b".to_owned(), vec![out(5, Some(9))]),
        ("c".to_owned(), vec![out(9, None)]),
    ]);
    let breach = budget(&outages, 1).unwrap();
    assert_eq!(
        breach.to_string(),
        format!(
            "law broken: {}: a, b at {}, of 1",
            Law::Budget.sentence(),
            at(5)
        )
    );
    assert_eq!(budget(&outages, 2), None);
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
        let what = readiness(ready, at(3), 5).map(|breach| breach.what);
        assert_eq!(what, expected, "{name}");
    }
}

#[test]
fn nodes_that_were_never_out_are_named() {
    let nodes = ["a", "b", "c"].map(str::to_owned);
    let all = [("a", 1), ("b", 5), ("c", 9)];
    let cases: [(&[_], &[&str]); 4] = [
        (&all, &[]),
        (&[("a", 1), ("c", 9)], &["b"]),
        // Before the stretch of time, and after it.
        (&[("a", 1), ("b", 0), ("c", 10)], &["b", "c"]),
        (&[], &["a", "b", "c"]),
    ];
    for (seen, expected) in cases {
        let outages = seen
            .iter()
            .map(|(node, second)| ((*node).to_owned(), vec![out(*second, Some(20))]))
            .collect();
        let unseen = unseen(&outages, nodes.iter(), &(at(1)..=at(9)));
        assert_eq!(unseen, expected, "{seen:?}");
    }
}

#[test]
fn a_replica_too_few_is_a_breach_at_its_moment() {
    let ready = [(at(1), 6), (at(10), 5), (at(11), 4), (at(12), 5)];
    let breach = readiness(&ready, at(3), 5).unwrap();
    assert!(
        breach.what.contains(&format!("4 ready at {}", at(11))),
        "{breach}"
    );
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
    assert_eq!(drained(&pods, &down(9)), []);
    assert_eq!(
        drained(&pods, &BTreeMap::from([("b".to_owned(), vec![at(8)])])),
        []
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
        []
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
    assert_eq!(spared(&[eviction("web")], &pods), []);
    assert_eq!(
        spared(&[eviction("agent"), eviction("static-a")], &pods).len(),
        2
    );
}

#[test]
fn done_is_said_once_until_something_else_is() {
    let history = [
        said(1, "old", "Done"),
        said(5, "old", "Working"),
        said(20, "new", "Done"),
        said(21, "new", "Done"),
    ];
    assert_eq!(said_done(&history), [(at(1), "old"), (at(20), "new")]);
}

/// A boot into an OS with this content.
fn boot(second: u64, content: Option<&str>) -> Boot {
    Boot {
        id: second.to_string(),
        deployment: "aa.0".to_owned().try_into().unwrap(),
        content: content.map(ToOwned::to_owned),
        options: String::new(),
        started: at(second),
        ready: None,
        ended: None,
    }
}

#[test]
fn a_node_is_done_only_in_the_os_that_it_booted() {
    let history = [said(1, "old", "Done"), said(20, "new", "Done")];
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
        let claim = Claim {
            config: "new",
            content: "v2",
            since: at(10),
        };
        let breaches = truthful("a", &history, &boots, claim);
        let found: Vec<_> = breaches.iter().map(|breach| breach.what.as_str()).collect();
        let expected = format!("a said new is Done at {}, {doubt}", at(20));
        let expected = if doubt.is_empty() {
            vec![]
        } else {
            vec![expected.as_str()]
        };
        assert_eq!(found, expected, "{name}");
    }
    let claim = Claim {
        config: "new",
        content: "v2",
        since: at(10),
    };
    assert_eq!(truthful("a", &history, &[], claim).len(), 1);
    let of_another = Claim {
        config: "newer",
        ..claim
    };
    assert_eq!(truthful("a", &history, &[], of_another), []);
    let of_an_earlier_roll = Claim {
        since: at(21),
        ..claim
    };
    assert_eq!(truthful("a", &history, &[], of_an_earlier_roll), []);
}
