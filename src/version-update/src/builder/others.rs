//! What others have added to parts of an object that server-side apply takes whole.

use std::collections::BTreeMap;

use release::manifest::ObjectId;
use serde_json::Value;

/// Where the pods of a workload are described.
const POD: &str = "/spec/template/spec";

/// Operator of a toleration that names none.
const EQUAL: &str = "Equal";

/// Such parts of a kind: where they are.
fn shared(id: &ObjectId) -> Option<(&'static str, &'static [&'static str])> {
    match (id.group.as_str(), id.kind.as_str()) {
        ("apps", "Deployment" | "DaemonSet") => Some((POD, &["tolerations", "nodeSelector"])),
        ("", "ServiceAccount") => Some(("", &["imagePullSecrets"])),
        _ => None,
    }
}

/// Whether an object has such parts, so that one that exists is read before it is applied.
pub fn has_shared(id: &ObjectId, wanted: &Value) -> bool {
    shared(id).is_some_and(|(place, parts)| {
        let place = wanted.pointer(place);
        let has = |part: &str| place.is_some_and(|place| place.get(part).is_some());
        parts.iter().any(|part| has(part))
    })
}

/// Adds to what is applied what is there besides: tolerations, labels that nodes must have, and
/// secrets for pulling images.
///
/// Shape: `found` is the object as it is. Of a part that the manifest does not have nothing is
/// added: it is not applied. Source: `docs/reference/cvo.md`, "Waiting and failing".
pub fn keep_others(id: &ObjectId, wanted: &mut Value, found: &Value) {
    let Some((place, parts)) = shared(id) else {
        return;
    };
    let Some((wanted, found)) = wanted.pointer_mut(place).zip(found.pointer(place)) else {
        return;
    };
    for part in parts {
        match (wanted.get_mut(part), found.get(part)) {
            (Some(Value::Array(own)), Some(Value::Array(others))) => {
                let is_own = |other: &Value| own.iter().any(|own| is_same(part, own, other));
                let others: Vec<Value> = others
                    .iter()
                    .filter(|other| !is_own(other))
                    .cloned()
                    .collect();
                own.extend(others);
            }
            (Some(Value::Object(own)), Some(Value::Object(others))) => {
                for (key, value) in others {
                    own.entry(key).or_insert_with(|| value.clone());
                }
            }
            _ => {}
        }
    }
}

/// Whether two entries of a part are one.
fn is_same(part: &str, one: &Value, other: &Value) -> bool {
    match part {
        "tolerations" => meaning(one) == meaning(other),
        _ => one.get("name") == other.get("name"),
    }
}

/// What a toleration says: without what is empty, and with the operator that counts.
fn meaning(toleration: &Value) -> BTreeMap<&str, Value> {
    let fields = toleration.as_object().into_iter().flatten();
    let set = fields.filter(|(_, value)| !value.is_null() && value.as_str() != Some(""));
    let mut meaning: BTreeMap<&str, Value> = set
        .map(|(field, value)| (field.as_str(), value.clone()))
        .collect();
    meaning.entry("operator").or_insert_with(|| EQUAL.into());
    meaning
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(kind: &str) -> ObjectId {
        ObjectId {
            group: "apps".to_owned(),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        }
    }

    /// The pod of a Deployment as it is applied over another one.
    fn applied(wanted: Value, found: Value) -> Value {
        let workload = |pod: Value| json!({ "spec": { "template": { "spec": pod } } });
        let mut object = workload(wanted);
        keep_others(&id("Deployment"), &mut object, &workload(found));
        object["spec"]["template"]["spec"].clone()
    }

    #[test]
    fn what_others_have_added_to_parts_that_are_taken_whole_stays() {
        let own = json!({ "key": "master", "operator": "Exists", "effect": "" });
        let same = json!({ "key": "master", "operator": "Exists" });
        let other = json!({ "key": "gpu", "value": "yes" });
        let pod = json!({ "tolerations": [own], "nodeSelector": { "role": "master" } });
        let found = json!({
            "tolerations": [other, same], "nodeSelector": { "role": "worker", "zone": "a" }
        });
        let expected = json!({
            "tolerations": [own, other], "nodeSelector": { "role": "master", "zone": "a" }
        });
        assert_eq!(applied(pod.clone(), found), expected);
        // A second time nothing changes.
        assert_eq!(applied(pod, expected.clone()), expected);
    }

    #[test]
    fn parts_that_the_manifest_does_not_have_are_not_applied() {
        let found = json!({ "tolerations": [{ "key": "a" }], "nodeSelector": { "b": "c" } });
        assert_eq!(applied(json!({}), found.clone()), json!({}));
        let mut job = json!({ "spec": { "template": { "spec": { "tolerations": [] } } } });
        let before = job.clone();
        let other = json!({ "spec": { "template": { "spec": found } } });
        keep_others(&id("StatefulSet"), &mut job, &other);
        assert_eq!(job, before);
    }

    /// OpenShift adds a secret to each account, and makes another one when it is gone.
    #[test]
    fn secrets_that_others_have_added_to_an_account_stay() {
        let account = ObjectId {
            group: String::new(),
            ..id("ServiceAccount")
        };
        let secrets = |names: &[&str]| {
            let names: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "imagePullSecrets": names })
        };
        let mut object = secrets(&["own"]);
        assert!(has_shared(&account, &object) && !has_shared(&account, &json!({})));
        keep_others(&account, &mut object, &secrets(&["a-dockercfg-x", "own"]));
        assert_eq!(object, secrets(&["own", "a-dockercfg-x"]));
    }

    #[test]
    fn toleration_without_an_operator_is_one_of_equality() {
        let (bare, full) = (
            json!({ "key": "a", "value": "b" }),
            json!({ "key": "a", "operator": "Equal", "value": "b" }),
        );
        let pod = |toleration: &Value| json!({ "tolerations": [toleration] });
        assert_eq!(applied(pod(&bare), pod(&full)), pod(&bare));
        let longer = json!({ "key": "a", "value": "b", "tolerationSeconds": 5 });
        let both = json!({ "tolerations": [bare, longer] });
        assert_eq!(applied(pod(&bare), pod(&longer)), both);
    }
}
