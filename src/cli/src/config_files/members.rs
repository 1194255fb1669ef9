//! Members that an object's definition does not have: the API server drops them, and so a word that
//! is written wrong asks for nothing.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

/// Members of `metadata`, which no definition lists.
///
/// Source: `ObjectMeta` of Kubernetes' API.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// JSON paths of members that the definition of a kind does not have, such as
/// `spec.kernelArgs`. None of a kind without a definition. Below what a definition keeps
/// as it is, nothing is unknown.
pub(crate) fn unknown_members(kind: &str, object: &Value) -> Vec<String> {
    let crds = api::crds::all();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == kind);
    let versions = crd.map_or(&[][..], |crd| &crd.spec.versions);
    let version = versions.iter().find(|version| version.storage);
    let schema = version.and_then(|version| version.schema.as_ref());
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    let (Some(schema), Some(members)) = (schema, object.as_object()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let metadata = members.get("metadata").and_then(Value::as_object);
    for name in metadata.into_iter().flat_map(Map::keys) {
        if !METADATA.contains(&name.as_str()) {
            found.push(format!("metadata.{name}"));
        }
    }
    let of_all_kinds = ["apiVersion", "kind", "metadata"];
    let rest = members
        .iter()
        .filter(|(name, _)| !of_all_kinds.contains(&name.as_str()));
    for (name, value) in rest {
        member(schema, name, value, "", &mut found);
    }
    found
}

/// A member of an object of this schema.
fn member(
    schema: &JSONSchemaProps,
    name: &str,
    value: &Value,
    path: &str,
    found: &mut Vec<String>,
) {
    let path = if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    };
    let property = schema.properties.as_ref().and_then(|all| all.get(name));
    if let Some(property) = property {
        walk(property, value, &path, found);
        return;
    }
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(rest)) => walk(rest, value, &path, found),
        Some(JSONSchemaPropsOrBool::Bool(true)) => {}
        Some(JSONSchemaPropsOrBool::Bool(false)) | None => {
            if schema.x_kubernetes_preserve_unknown_fields != Some(true) {
                found.push(path);
            }
        }
    }
}

fn walk(schema: &JSONSchemaProps, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                member(schema, name, value, path, found);
            }
        }
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
                for (number, value) in items.iter().enumerate() {
                    walk(schema, value, &format!("{path}[{number}]"), found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_a_definition_does_not_have_are_named_with_their_path() {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": "a", "lables": {}, "annotations": { "any": "x" } },
            "sepc": {},
            "spec": { "kernelArgs": [], "kernelArguments": ["a"], "config": { "any": { "thing": 1 } } }
        });
        let sorted = |kind: &str, object: &Value| {
            let mut found = unknown_members(kind, object);
            found.sort();
            found
        };
        let found = sorted("MachineConfig", &object);
        assert_eq!(found, ["metadata.lables", "sepc", "spec.kernelArgs"]);
        let pool = json!({
            "kind": "MachineConfigPool", "metadata": { "name": "p" },
            "spec": {
                "maxUnavailabel": 2,
                "nodeSelector": { "matchLabels": { "any": "" } },
                "machineConfigSelector": { "matchExpressions": [{ "key": "a", "operator": "In", "value": "b" }] }
            }
        });
        let found = sorted("MachineConfigPool", &pool);
        let selector = "spec.machineConfigSelector.matchExpressions[0].value";
        assert_eq!(found, [selector, "spec.maxUnavailabel"]);
        assert_eq!(sorted("Toy", &object), [""; 0]);
    }
}
