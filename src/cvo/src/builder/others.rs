//! What others have added to parts of an object that server-side apply takes whole.

use std::collections::BTreeMap;

use release::manifest::ObjectId;
use serde_json::{Map, Value};

/// Where the pods of a workload are described.
const POD: &str = "/spec/template/spec";

/// Operator of a toleration that names none.
const EQUAL: &str = "Equal";

/// Whether a kind has such parts, so that an object that exists is read before it is applied.
pub fn has_shared(id: &ObjectId) -> bool {
    id.group == "apps" && ["Deployment", "DaemonSet"].contains(&id.kind.as_str())
}

/// Adds to what is applied what is there besides: tolerations, and labels that nodes must have.
///
/// Shape: `found` is the object as it is. Of a part that the manifest does not have nothing is
/// added: it is not applied. Source: `docs/reference/cvo.md`, "Waiting and failing".
pub fn keep_others(id: &ObjectId, wanted: &mut Value, found: &Value) {
    let Some((wanted, found)) = wanted.pointer_mut(POD).zip(found.pointer(POD)) else {
        return;
    };
    if !has_shared(id) {
        return;
    }
    let tolerations = wanted.get_mut("tolerations").and_then(Value::as_array_mut);
    let others = found.get("tolerations").and_then(Value::as_array);
    if let (Some(own), Some(others)) = (tolerations, others) {
        for other in others {
            if !own.iter().any(|own| meaning(own) == meaning(other)) {
                own.push(other.clone());
            }
        }
    }
    let labels = wanted
        .get_mut("nodeSelector")
        .and_then(Value::as_object_mut);
    let others = found.get("nodeSelector").and_then(Value::as_object);
    if let (Some(own), Some(others)) = (labels, others) {
        let of_others: Map<String, Value> = others
            .iter()
            .filter(|(key, _)| !own.contains_key(*key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        own.extend(of_others);
    }
}

/// What a toleration says: without what is empty, and with the operator that counts.
fn meaning(toleration: &Value) -> BTreeMap<&str, Value> {
    let fields = toleration.as_object().into_iter().flatten();
    let said = fields.filter(|(_, value)| !value.is_null() && value.as_str() != Some(""));
    let mut meaning: BTreeMap<&str, Value> = said
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
