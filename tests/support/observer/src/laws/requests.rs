//! Requests of the programs under test to the API server.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lab::audit::{Event, ObjectRef, Verb};
use serde_json::Value;

use super::Law;
use crate::wire;

/// The daemon's name in its user agent.
const DAEMON: &str = "mcd/";

/// What a daemon reads by name with its account, and the one name where there is but one.
const READ: [(&str, Option<&str>); 4] = [
    ("machineconfigs", None),
    ("machineconfigurations", None),
    ("controllerconfigs", Some(wire::CONTROLLER_CONFIG)),
    ("configmaps", Some("kubeconfig-data")),
];

/// What it asks a server by which an authority is tried.
const MEETS: &str = "/version";

/// Laws of requests.
pub const LAWS: &[&Law] = &[&MODEST, &KEPT];

/// A daemon asks the API server for what `deploy/daemon/README.md` lists, of its own node alone;
/// and in a rollout, in which none is restarted, it reads each MachineConfig at its turn, and
/// once before that. No program asks for what it is not granted.
pub static MODEST: Law = Law {
    name: "Modest",
    sentence: "no program asks the API server for more than it is granted",
    judge: |run| {
        let audit = &run.record.audit;
        let mut found = asked_for_theirs(audit);
        if run.rolled.is_some() {
            found.extend(read_once(audit));
        }
        found
    },
};

/// The API server keeps every field that is written to Nodes and pools. One that a definition does
/// not know is dropped in silence.
pub static KEPT: Law = Law {
    name: "Kept",
    sentence: "every field that is written is kept",
    judge: |run| kept(&run.record.audit),
};

/// No program asks for more than is its own.
fn asked_for_theirs(events: &[Event]) -> Vec<String> {
    let mut found = Vec::new();
    let mut conflicts = BTreeMap::<&str, usize>::new();
    for event in events {
        let name = &event.user.username;
        let is_daemon = is_of_a_daemon(event);
        if !is_daemon && !is_of_an_account(event) {
            continue;
        }
        let code = event.status.as_ref().map_or(0, |status| status.code);
        let is_own = is_of_own_node(event);
        if is_daemon && is_own && event.verb == Verb::Patch && code == 409 {
            *conflicts.entry(name).or_default() += 1;
        }
        // It reads its Node only after another's write came before its own, once each time.
        let left = conflicts.entry(name).or_default();
        let is_read_anew = is_own && event.verb == Verb::Get && *left > 0;
        if is_read_anew {
            *left -= 1;
        }
        if code == 403 || is_daemon && !is_read_anew && !is_the_daemons(event) {
            found.push(format!(
                "{name}, {}: {:?} {}, {code}",
                event.user_agent, event.verb, event.uri
            ));
        }
    }
    found
}

/// Each daemon reads each of the MachineConfigs at its turn, and once before it, to fetch.
///
/// Daemons share an account for their reads, and are distinguished by their hosts' addresses.
fn read_once(events: &[Event]) -> Vec<String> {
    let mut reads = BTreeMap::<(&[IpAddr], &str), usize>::new();
    for event in events {
        let code = event.status.as_ref().map_or(0, |status| status.code);
        if is_of_a_daemon(event)
            && let Some(config) = object(event, "machineconfigs")
            && !is_to_be_tried_again(code)
        {
            *reads.entry((&event.sources, &config.name)).or_default() += 1;
        }
    }
    let often = reads.into_iter().filter(|(_, times)| *times > 2);
    let breach = |((sources, config), times): ((&[IpAddr], &str), usize)| {
        format!("the daemon at {sources:?} read {config} {times} times")
    };
    often.map(breach).collect()
}

/// Whether it is a request of a daemon.
pub(crate) fn is_of_a_daemon(event: &Event) -> bool {
    event.user_agent.starts_with(DAEMON)
}

/// Whether it is a request of a service account of the programs' namespace, the controller's
/// among them.
pub(crate) fn is_of_an_account(event: &Event) -> bool {
    let account = event.user.username.strip_prefix("system:serviceaccount:");
    account
        .and_then(|account| account.strip_prefix(wire::NAMESPACE))
        .is_some_and(|rest| rest.starts_with(':'))
}

/// Whether a response decides nothing about the request: none, too many requests, the server's own
/// trouble.
const fn is_to_be_tried_again(code: u16) -> bool {
    matches!(code, 0 | 429 | 500..)
}

fn subresource(event: &Event) -> &str {
    let object = event.object.as_ref();
    object.map_or("", |object| object.subresource.as_str())
}

/// Whether a node asks for its own Node itself.
fn is_of_own_node(event: &Event) -> bool {
    let node = event.user.username.strip_prefix("system:node:");
    subresource(event).is_empty()
        && object(event, "nodes").is_some_and(|object| Some(object.name.as_str()) == node)
}

/// Whether a node reads its own MachineConfigNode itself, or writes its status.
fn is_of_own_machine_config_node(event: &Event) -> bool {
    let node = event.user.username.strip_prefix("system:node:");
    let is_own = object(event, "machineconfignodes")
        .is_some_and(|object| Some(object.name.as_str()) == node);
    let is_read = event.verb == Verb::Get && subresource(event).is_empty();
    let is_reported = event.verb == Verb::Patch && subresource(event) == "status";
    is_own && (is_read || is_reported)
}

/// Whether a request is one of the daemon's.
fn is_the_daemons(event: &Event) -> bool {
    let is_of = |field: &str, node: &str| {
        let wanted = [format!("{field}%3D{node}"), format!("{field}={node}")];
        event.uri.split(['?', '&']).any(|part| {
            part.strip_prefix("fieldSelector=")
                .is_some_and(|selector| wanted.iter().any(|wanted| wanted == selector))
        })
    };
    match (
        event.user.username.strip_prefix("system:node:"),
        &event.verb,
    ) {
        (Some(node), Verb::Watch) if object(event, "nodes").is_some() => {
            is_of("metadata.name", node)
        }
        (Some(_), Verb::Get) => is_of_own_machine_config_node(event),
        (Some(_), Verb::Patch) => is_of_own_node(event) || is_of_own_machine_config_node(event),
        (Some(node), Verb::List | Verb::Watch) => {
            object(event, "pods").is_some() && is_of("spec.nodeName", node)
        }
        (Some(_), Verb::Create) => {
            object(event, "pods").is_some() && subresource(event) == "eviction"
        }
        (None, Verb::Get) => {
            let is_read = |(resource, only): (&str, Option<&str>)| {
                object(event, resource).is_some_and(|object| {
                    !object.name.is_empty() && only.is_none_or(|only| object.name == only)
                })
            };
            event.uri == MEETS || READ.into_iter().any(is_read)
        }
        (None, Verb::Create) => object(event, "events").is_some(),
        _ => false,
    }
}

fn object<'a>(event: &'a Event, resource: &str) -> Option<&'a ObjectRef> {
    event
        .object
        .as_ref()
        .filter(|object| object.resource == resource)
}

fn kept(events: &[Event]) -> Vec<String> {
    let is_ours = |event: &&Event| is_of_a_daemon(event) || is_of_an_account(event);
    let mut found = Vec::new();
    for event in events
        .iter()
        .filter(is_ours)
        .filter(|event| event.verb == Verb::Patch)
    {
        let is_done = event
            .status
            .as_ref()
            .is_some_and(|status| status.code == 200);
        if let (true, Some(request), Some(response)) = (is_done, &event.request, &event.response) {
            let mut lost = Vec::new();
            compare(request, response, "", &mut lost);
            found.extend(
                lost.into_iter()
                    .map(|field| format!("{} of {}", field, event.uri)),
            );
        }
    }
    found
}

/// Fields of a merge patch that are not in what came of it.
fn compare(patch: &Value, stored: &Value, at: &str, lost: &mut Vec<String>) {
    match (patch, stored) {
        (Value::Object(patch), Value::Object(stored)) => {
            for (key, value) in patch {
                let at = format!("{at}.{key}");
                // Its value is what was there before.
                if at == ".metadata.resourceVersion" {
                    continue;
                }
                match stored.get(key) {
                    Some(stored) => compare(value, stored, &at, lost),
                    None if is_nothing(value) => {}
                    None => lost.push(at),
                }
            }
        }
        (Value::Array(patch), Value::Array(stored)) if patch.len() == stored.len() => {
            for (index, (value, stored)) in patch.iter().zip(stored).enumerate() {
                compare(value, stored, &format!("{at}[{index}]"), lost);
            }
        }
        (patch, stored) if patch == stored => {}
        _ => lost.push(at.to_owned()),
    }
}

/// What an object without the field means, too.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(members) => members.values().all(is_nothing),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn modest(events: &[Event]) -> Vec<String> {
        [asked_for_theirs(events), read_once(events)].concat()
    }

    /// A request of the daemon on node `a`.
    fn request(user: &str, verb: &str, uri: &str, object: &Value, code: u16) -> Event {
        serde_json::from_value(json!({
            "auditID": "1",
            "stage": "ResponseComplete",
            "verb": verb,
            "requestURI": uri,
            "user": { "username": user },
            "userAgent": "mcd/0.1.0",
            "objectRef": object,
            "responseStatus": { "code": code },
            "requestReceivedTimestamp": "2026-11-21T20:05:00Z",
            "stageTimestamp": "2026-11-21T20:05:00Z",
        }))
        .unwrap()
    }

    const NODE: &str = "system:node:a";
    const ACCOUNT: &str =
        "system:serviceaccount:openshift-machine-config-operator:machine-config-daemon";

    fn is_fine(event: Event) -> bool {
        modest(&[event]).is_empty()
    }

    #[test]
    fn a_daemon_asks_of_its_own_node_only() {
        let nodes = json!({ "resource": "nodes" });
        let watch = |selector: &str| {
            let uri = format!("/api/v1/nodes?fieldSelector={selector}&watch=true");
            is_fine(request(NODE, "watch", &uri, &nodes, 200))
        };
        assert!(watch("metadata.name%3Da"));
        assert!(!watch("metadata.name%3Dab") && !watch(""));
        assert!(!is_fine(request(
            NODE,
            "list",
            "/api/v1/nodes",
            &nodes,
            200
        )));
        let patch = |name: &str, subresource: &str| {
            let object = json!({ "resource": "nodes", "name": name, "subresource": subresource });
            is_fine(request(NODE, "patch", "/api/v1/nodes/x", &object, 200))
        };
        assert!(patch("a", ""));
        assert!(!patch("b", "") && !patch("a", "status"));
        let pods = json!({ "resource": "pods" });
        assert!(!is_fine(request(NODE, "list", "/api/v1/pods", &pods, 200)));
        let eviction = json!({ "resource": "pods", "subresource": "eviction" });
        assert!(is_fine(request(NODE, "create", "/x", &eviction, 429)));
        assert!(!is_fine(request(NODE, "delete", "/x", &pods, 200)));
    }

    #[test]
    fn a_daemon_reads_its_node_only_after_a_conflict_and_once() {
        let own = json!({ "resource": "nodes", "name": "a" });
        let other = json!({ "resource": "nodes", "name": "b" });
        let conflict = || request(NODE, "patch", "/api/v1/nodes/a", &own, 409);
        let read = |object: &Value| request(NODE, "get", "/api/v1/nodes/x", object, 200);
        assert_eq!(modest(&[read(&own)]).len(), 1);
        assert_eq!(modest(&[conflict(), read(&own)]).len(), 0);
        assert_eq!(modest(&[conflict(), read(&own), read(&own)]).len(), 1);
        assert_eq!(modest(&[conflict(), read(&other)]).len(), 1);
    }

    /// Host and code of each read; which hosts read too often.
    type Reads<'a> = (&'a [(u8, u16)], &'a [u8]);

    #[test]
    fn a_configuration_is_read_by_name_and_once() {
        let config = json!({ "resource": "machineconfigs", "name": "rendered-worker-1" });
        let read = |host: u8, code| {
            let mut read = request(ACCOUNT, "get", "/x", &config, code);
            read.sources = vec![IpAddr::from([10, 0, 0, host])];
            read
        };
        let cases: [Reads<'_>; 9] = [
            (&[(1, 200), (2, 200), (3, 200)], &[]),
            // Before its turn, and at it.
            (&[(1, 200), (2, 200), (1, 200)], &[]),
            (&[(1, 200), (1, 200), (2, 200), (1, 200)], &[1]),
            // As many reads as there are daemons.
            (&[(1, 200), (1, 200), (1, 200), (2, 404), (3, 200)], &[1]),
            (&[[(1, 200), (2, 200)]; 3].concat(), &[1, 2]),
            (&[(1, 404), (1, 404), (1, 404)], &[1]),
            (&[(1, 404), (1, 200), (1, 200)], &[1]),
            (&[(1, 500), (1, 429), (1, 503), (1, 0), (1, 200)], &[]),
            (&[(1, 403)], &[]),
        ];
        for (reads, often) in cases {
            let events: Vec<_> = reads
                .iter()
                .map(|(host, code)| read(*host, *code))
                .collect();
            let found = read_once(&events);
            let expected: Vec<_> = often
                .iter()
                .map(|host| format!("the daemon at [10.0.0.{host}] read rendered-worker-1 3 times"))
                .collect();
            assert_eq!(found, expected, "{reads:?}");
        }
        let list = json!({ "resource": "machineconfigs" });
        assert!(!is_fine(request(ACCOUNT, "list", "/x", &list, 200)));
    }

    #[test]
    fn what_there_is_once_is_read_under_its_name() {
        let read = |resource: &str, name: &str, code| {
            let object = json!({ "resource": resource, "name": name });
            is_fine(request(ACCOUNT, "get", "/x", &object, code))
        };
        assert!(read("controllerconfigs", "machine-config-controller", 200));
        // A cluster need not have one.
        assert!(read("controllerconfigs", "machine-config-controller", 404));
        assert!(!read("controllerconfigs", "another", 200));
        assert!(!read("controllerconfigs", "", 200));
        assert!(read("configmaps", "kubeconfig-data", 200));
        assert!(!read("configmaps", "another", 200));
        assert!(!read("secrets", "kubeconfig-data", 200));
        let list = json!({ "resource": "controllerconfigs" });
        assert!(!is_fine(request(ACCOUNT, "watch", "/x", &list, 200)));
        let none = json!({});
        assert!(is_fine(request(ACCOUNT, "get", "/version", &none, 200)));
        assert!(!is_fine(request(ACCOUNT, "get", "/apis", &none, 200)));
    }

    #[test]
    fn a_node_asks_for_its_own_machine_config_node() {
        let asks = |verb: &str, name: &str, subresource: &str| {
            let object = json!({ "resource": "machineconfignodes", "name": name, "subresource": subresource });
            is_fine(request(NODE, verb, "/x", &object, 200))
        };
        assert!(asks("get", "a", "") && asks("patch", "a", "status"));
        assert!(!asks("get", "b", "") && !asks("patch", "b", "status"));
        assert!(!asks("patch", "a", "") && !asks("list", "a", ""));
    }

    #[test]
    fn what_is_not_granted_is_found() {
        let events = json!({ "resource": "events" });
        assert!(is_fine(request(ACCOUNT, "create", "/x", &events, 201)));
        assert!(!is_fine(request(ACCOUNT, "create", "/x", &events, 403)));
    }

    #[test]
    fn a_field_that_is_dropped_is_found() {
        let lost = |patch: Value, stored: Value| {
            let mut lost = Vec::new();
            compare(&patch, &stored, "", &mut lost);
            lost
        };
        let stored = json!({ "metadata": { "resourceVersion": "2" }, "status": { "conditions": [{ "type": "A" }] } });
        let patch = json!({ "metadata": { "resourceVersion": "1", "annotations": null },
                            "status": { "conditions": [{ "type": "A" }], "unavailable": 0 } });
        assert_eq!(lost(patch, stored.clone()), [""; 0]);
        let patch = json!({ "status": { "conditions": [{ "type": "A", "why": "b" }], "new": 1 } });
        assert_eq!(
            lost(patch, stored),
            [".status.conditions[0].why", ".status.new"]
        );
    }
}
