//! What others have added to an object where it does not belong.

use release::manifest::ObjectId;
use serde_json::{Map, Value, json};

/// Lists of a pod whose entries have keys, so that apply leaves the entries of others.
const LISTS: &[(&str, &str)] = &[
    ("initContainers", "name"),
    ("containers", "name"),
    ("volumes", "name"),
];

/// The same, of a container.
const CONTAINER_LISTS: &[(&str, &str)] = &[
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("ports", "containerPort"),
];

/// Fields of a container that must be absent where the manifest has none.
const CONTAINER_FIELDS: &[&str] = &[
    "command",
    "args",
    "env",
    "envFrom",
    "livenessProbe",
    "readinessProbe",
    "volumeMounts",
    "ports",
    "securityContext",
    "workingDir",
];

/// Fields of a pod that must be absent where the manifest has none.
const POD_FIELDS: &[&str] = &[
    "automountServiceAccountToken",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "shareProcessNamespace",
];

/// Whether what others add to an object is looked for.
pub fn has_excess(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("apps", "Deployment" | "DaemonSet") | ("", "Service")
    )
}

/// What others have added and what does not belong there: a merge patch that removes it, with the
/// version that it was found in. None if there is nothing.
///
/// Shape: `found` is a Deployment, DaemonSet or Service after `wanted` was applied. Source:
/// `docs/reference/cvo.md`, "Waiting and failing".
pub fn excess(id: &ObjectId, wanted: &Value, found: &Value) -> Option<Value> {
    let spec = if id.kind == "Service" {
        of_service(wanted.get("spec")?, found.get("spec")?)?
    } else {
        let pod = "/spec/template/spec";
        let patch = of_pod(wanted.pointer(pod)?, found.pointer(pod)?)?;
        json!({ "template": { "spec": patch } })
    };
    Some(json!({
        "metadata": { "resourceVersion": found.pointer("/metadata/resourceVersion") },
        "spec": spec,
    }))
}

/// Ports that the manifest does not have.
fn of_service(wanted: &Value, actual: &Value) -> Option<Value> {
    let found = actual.get("ports").and_then(Value::as_array)?;
    let is_known = |port: &Value| {
        let same = |own: &Value| {
            own.get("port") == port.get("port") && own.get("protocol") == port.get("protocol")
        };
        let own = wanted.get("ports").and_then(Value::as_array);
        own.is_some_and(|own| own.iter().any(same))
    };
    let kept: Vec<&Value> = found.iter().filter(|port| is_known(port)).collect();
    (kept.len() < found.len()).then(|| json!({ "ports": kept }))
}

fn of_pod(wanted: &Value, actual: &Value) -> Option<Value> {
    let mut patch = Map::new();
    for (list, key) in LISTS {
        let mut kept = kept(wanted.get(list), actual.get(list), key);
        if list.ends_with("ontainers") {
            for container in &mut kept {
                trim(container, entry_of(wanted.get(list), container, "name"));
            }
        }
        let is_same = match actual.get(list).and_then(Value::as_array) {
            Some(actual) => *actual == kept,
            None => kept.is_empty(),
        };
        if !is_same {
            let value = if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            };
            patch.insert((*list).to_owned(), value);
        }
    }
    for field in POD_FIELDS {
        let is_set = actual.get(field).is_some_and(|value| !value.is_null());
        if is_set && wanted.get(field).is_none() {
            patch.insert((*field).to_owned(), Value::Null);
        }
    }
    // The API's default is an empty one.
    let is_set = actual.get("securityContext").is_some_and(is_filled);
    if is_set && !wanted.get("securityContext").is_some_and(is_filled) {
        patch.insert("securityContext".to_owned(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn is_filled(value: &Value) -> bool {
    value.as_object().is_some_and(|members| !members.is_empty())
}

/// The entries of `actual` whose key `wanted` has.
fn kept(wanted: Option<&Value>, actual: Option<&Value>, key: &str) -> Vec<Value> {
    let actual = actual.and_then(Value::as_array).into_iter().flatten();
    let kept = actual.filter(|entry| entry_of(wanted, entry, key).is_some());
    kept.cloned().collect()
}

/// The entry of a list with the key of another entry.
fn entry_of<'a>(list: Option<&'a Value>, entry: &Value, key: &str) -> Option<&'a Value> {
    let mut entries = list?.as_array()?.iter();
    entries.find(|own| own.get(key).is_some() && own.get(key) == entry.get(key))
}

/// Takes out of a container what others have added.
fn trim(container: &mut Value, wanted: Option<&Value>) {
    let (Some(wanted), Some(container)) = (wanted, container.as_object_mut()) else {
        return;
    };
    for field in CONTAINER_FIELDS {
        if wanted.get(field).is_none_or(Value::is_null) {
            container.remove(*field);
        }
    }
    for (list, key) in CONTAINER_LISTS {
        if let Some(entries) = container.get_mut(*list).and_then(Value::as_array_mut) {
            entries.retain(|entry| entry_of(wanted.get(list), entry, key).is_some());
        }
    }
    if let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    {
        trim_resources(resources, wanted.get("resources"));
    }
}

/// Takes out amounts that the manifest does not have. A limit is the API's default of a request.
fn trim_resources(resources: &mut Map<String, Value>, wanted: Option<&Value>) {
    let own = |part: &str| wanted?.get(part)?.as_object();
    resources.retain(|part, amounts| {
        let Some(amounts) = amounts.as_object_mut() else {
            return own(part).is_some();
        };
        amounts.retain(|resource, _| {
            let is_in = |part: &str| own(part).is_some_and(|own| own.contains_key(resource));
            is_in(part) || (part == "requests" && is_in("limits"))
        });
        !amounts.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(group: &str, kind: &str) -> ObjectId {
        ObjectId {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        }
    }

    /// The patch of a pod whose container and other fields are these.
    fn patch(wanted: (Value, Value), found: (Value, Value)) -> Value {
        let workload = |(mut container, mut pod): (Value, Value)| {
            container["name"] = json!("a");
            pod["containers"] = json!([container]);
            json!({ "spec": { "template": { "spec": pod } } })
        };
        let (wanted, found) = (workload(wanted), workload(found));
        let patch = excess(&id("apps", "DaemonSet"), &wanted, &found);
        patch.map_or(Value::Null, |patch| {
            patch["spec"]["template"]["spec"].clone()
        })
    }

    #[test]
    fn fields_that_the_manifest_does_not_have_go() {
        let none = || (json!({}), json!({}));
        let defaults = (
            json!({ "resources": {}, "terminationMessagePath": "/dev/termination-log" }),
            json!({ "securityContext": {}, "restartPolicy": "Always", "affinity": {} }),
        );
        assert_eq!(patch(none(), defaults), Value::Null);
        let cases = [
            json!({ "workingDir": "/tmp" }),
            json!({ "securityContext": { "privileged": true } }),
            json!({ "ports": [{ "containerPort": 80, "protocol": "TCP" }] }),
        ];
        for dirty in cases {
            let cleaned = json!({ "containers": [{ "name": "a" }] });
            assert_eq!(
                patch(none(), (dirty.clone(), json!({}))),
                cleaned,
                "{dirty}"
            );
        }
        for field in ["hostNetwork", "hostPID", "automountServiceAccountToken"] {
            let cleaned = patch(none(), (json!({}), json!({ field: true })));
            assert_eq!(cleaned, json!({ field: null }));
        }
        let cleaned = patch(
            none(),
            (json!({}), json!({ "securityContext": { "runAsUser": 1 } })),
        );
        assert_eq!(cleaned, json!({ "securityContext": null }));
        let own = || {
            (
                json!({ "workingDir": "/a" }),
                json!({ "hostNetwork": true }),
            )
        };
        assert_eq!(patch(own(), own()), Value::Null);
    }

    #[test]
    fn amounts_that_the_manifest_does_not_have_go() {
        let of = |resources: Value| (json!({ "resources": resources }), json!({}));
        let wanted = || of(json!({ "requests": { "cpu": "10m" } }));
        let dirty =
            json!({ "requests": { "cpu": "10m", "memory": "1Gi" }, "limits": { "cpu": "1" } });
        let clean = json!({ "containers": [{ "name": "a", "resources": { "requests": { "cpu": "10m" } } }] });
        assert_eq!(patch(wanted(), of(dirty)), clean);
        assert_eq!(patch(wanted(), wanted()), Value::Null);
        // The API makes a request of a limit.
        let limited = of(json!({ "limits": { "cpu": "1" }, "requests": { "cpu": "1" } }));
        assert_eq!(
            patch(of(json!({ "limits": { "cpu": "1" } })), limited),
            Value::Null
        );
    }

    #[test]
    fn ports_that_a_service_does_not_have_go() {
        let service = |ports: Value| json!({ "spec": { "ports": ports } });
        let own = json!({ "port": 80, "protocol": "TCP", "targetPort": 80 });
        let found = json!({ "port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30000 });
        let other = json!({ "port": 81, "protocol": "TCP", "targetPort": 81 });
        let wanted = service(json!([own]));
        let of = |ports: Value| excess(&id("", "Service"), &wanted, &service(ports));
        assert_eq!(of(json!([found])), None);
        let patch = of(json!([found, other])).unwrap();
        assert_eq!(patch["spec"], json!({ "ports": [found] }));
    }
}
