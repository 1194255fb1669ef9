//! A release of the size of a real one: 901 manifests of 45 components, 15 MB of YAML, the same
//! bytes each time. Pure, but for the writing of the files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

pub(crate) const COMPONENTS: usize = 45;
pub(crate) const MANIFESTS: usize = 901;
pub(crate) const DEFINITIONS: usize = 120;

/// Group of all definitions.
pub(crate) const GROUP: &str = "bench.slipway.dev";

/// Kinds of which each component has one object.
const OF_EACH: usize = 8;

const MAPS: usize = MANIFESTS - COMPONENTS * OF_EACH - DEFINITIONS;

/// Objects in a definition's schema, and fields in each of them.
const SCHEMA: (usize, usize) = (33, 10);

/// Bytes of all manifests, at least and at most.
const BYTES: (usize, usize) = (14_500_000, 15_500_000);

/// Name of a component and of its ClusterOperator.
pub(crate) fn component(number: usize) -> String {
    format!("component-{number:02}")
}

/// Writes the release; the bytes of its manifests.
///
/// Errors: the folder cannot be written, or the manifests have other bytes than they shall have.
pub(crate) fn write(dir: &Path, version: &str) -> Result<usize> {
    let manifests = dir.join("release-manifests");
    for dir in [&manifests, &dir.join("manifests")] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let metadata = json!({ "kind": "cincinnati-metadata-v0", "version": version });
    put(&manifests.join("release-metadata"), &metadata.to_string())?;
    let references = json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
        "metadata": { "name": version }, "spec": { "tags": [] }
    });
    put(&manifests.join("image-references"), &references.to_string())?;
    let (mut files, mut bytes) = (0, 0);
    for (name, object) in objects(version) {
        let text = yaml(&object);
        bytes += text.len();
        files += 1;
        put(&manifests.join(name), &text)?;
    }
    ensure!(files == MANIFESTS, "{files} manifests, not {MANIFESTS}");
    ensure!(
        (BYTES.0..=BYTES.1).contains(&bytes),
        "the manifests have {bytes} bytes"
    );
    Ok(bytes)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file that lasts as long as the run"
)]
fn put(path: &PathBuf, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Names of files, with their objects.
fn objects(version: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for number in 0..COMPONENTS {
        let of_each = of_component(number, version).into_iter();
        let file = |place: &str| file(number, place);
        all.extend(of_each.map(|(place, object)| (file(place), object)));
    }
    for number in 0..DEFINITIONS {
        let place = format!("10_definition-{number:03}");
        all.push((file(number % COMPONENTS, &place), definition(number)));
    }
    for number in 0..MAPS {
        let place = format!("30_map-{number:03}");
        let component = number % COMPONENTS;
        all.push((file(component, &place), map(number, component)));
    }
    all
}

fn file(number: usize, place: &str) -> String {
    // Four run levels, in the order of the components: the last component is in the last level.
    let level = 20 + 10 * (number * 4 / COMPONENTS);
    format!("0000_{level}_{}_{place}.yaml", component(number))
}

fn of_component(number: usize, version: &str) -> [(&'static str, Value); OF_EACH] {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let name = component(number);
    let rules = json!([
        { "apiGroups": ["", "apps"], "resources": ["configmaps", "deployments"],
          "verbs": ["get", "list", "watch", "update"] },
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"] }
    ]);
    let subjects = json!([{ "kind": "ServiceAccount", "name": name, "namespace": name }]);
    let role =
        |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    let ports = json!([{ "name": "metrics", "port": 8443, "protocol": "TCP", "targetPort": 8443 }]);
    let status = json!({
        "versions": [{ "name": "operator", "version": version }],
        "relatedObjects": [{ "group": "", "resource": "namespaces", "name": name }]
    });
    let global = |api: &str, kind: &str, rest: Value| object(api, kind, &name, None, rest);
    let own = |api: &str, kind: &str, rest: Value| object(api, kind, &name, Some(&name), rest);
    [
        ("00_namespace", global("v1", "Namespace", json!({}))),
        ("01_account", own("v1", "ServiceAccount", json!({}))),
        (
            "02_cluster-role",
            global(RBAC, "ClusterRole", json!({ "rules": rules })),
        ),
        (
            "03_cluster-role-binding",
            global(
                RBAC,
                "ClusterRoleBinding",
                json!({ "subjects": subjects, "roleRef": role("ClusterRole") }),
            ),
        ),
        ("04_role", own(RBAC, "Role", json!({ "rules": rules }))),
        (
            "05_role-binding",
            own(
                RBAC,
                "RoleBinding",
                json!({ "subjects": subjects, "roleRef": role("Role") }),
            ),
        ),
        (
            "06_service",
            own(
                "v1",
                "Service",
                json!({ "spec": { "selector": { "app": name }, "ports": ports } }),
            ),
        ),
        (
            "90_operator",
            global(
                "config.openshift.io/v1",
                "ClusterOperator",
                json!({ "spec": {}, "status": status }),
            ),
        ),
    ]
}

fn object(api: &str, kind: &str, name: &str, namespace: Option<&str>, rest: Value) -> Value {
    let included = "include.release.openshift.io/self-managed-high-availability";
    let mut metadata = json!({ "name": name, "annotations": { included: "true" } });
    if let (Some(namespace), Some(fields)) = (namespace, metadata.as_object_mut()) {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(api));
    object.insert("kind".to_owned(), json!(kind));
    object.insert("metadata".to_owned(), metadata);
    if let Value::Object(rest) = rest {
        object.extend(rest);
    }
    Value::Object(object)
}

fn map(number: usize, component_number: usize) -> Value {
    let line = |line: usize| {
        format!("setting-{line}: \"value {number} of a component's settings, {line}\"")
    };
    let lines = (0..100).map(line).collect::<Vec<_>>().join("\n");
    object(
        "v1",
        "ConfigMap",
        &format!("settings-{number:03}"),
        Some(&component(component_number)),
        json!({ "data": { "settings.yaml": lines } }),
    )
}

fn definition(number: usize) -> Value {
    let plural = format!("things{number:03}");
    let fields = |part: usize| -> Map<String, Value> {
        let field = |field: usize| {
            let description = format!(
                "field {field} of part {part}, which says what the operator shall do with it when \
                 it is set, when it is not, and from which version on; more of it is in the manual."
            );
            let schema = json!({ "type": "string", "maxLength": 253, "description": description });
            (format!("field{field:02}"), schema)
        };
        (0..SCHEMA.1).map(field).collect()
    };
    let part = |part: usize| {
        let schema = json!({
            "type": "object", "description": "one part of the settings",
            "properties": fields(part)
        });
        (format!("part{part:02}"), schema)
    };
    let parts: Map<String, Value> = (0..SCHEMA.0).map(part).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" }, "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": { "type": "object", "properties": parts },
            "status": { "type": "object", "properties": { "phase": { "type": "string" } } }
        }
    });
    let names = json!({
        "kind": format!("Thing{number:03}"), "listKind": format!("Thing{number:03}List"),
        "plural": plural, "singular": format!("thing{number:03}")
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": schema }
    });
    let spec = json!({ "spec": {
        "group": GROUP, "names": names, "scope": "Cluster", "versions": [version]
    } });
    let name = format!("{plural}.{GROUP}");
    object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &name,
        None,
        spec,
    )
}

/// The object or list in block style, with strings as JSON has them.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    print(value, 0, &mut text);
    text
}

fn print(value: &Value, indent: usize, text: &mut String) {
    let is_leaf = |value: &Value| {
        value.as_object().is_none_or(Map::is_empty) && value.as_array().is_none_or(Vec::is_empty)
    };
    let entry = |head: String, value: &Value, text: &mut String| {
        text.push_str(&" ".repeat(indent));
        text.push_str(&head);
        if is_leaf(value) {
            text.extend([" ", &value.to_string(), "\n"]);
        } else {
            text.push('\n');
            print(value, indent + 2, text);
        }
    };
    if let Value::Object(fields) = value {
        for (key, value) in fields {
            entry(format!("{key}:"), value, text);
        }
    } else if let Value::Array(items) = value {
        for item in items {
            entry("-".to_owned(), item, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_number_of_manifests_and_bytes_each_time() {
        let dir = std::env::temp_dir().join(format!("bench-payload-{}", std::process::id()));
        let bytes = write(&dir, "4.2.0").unwrap();
        assert_eq!(write(&dir, "4.2.1").unwrap(), bytes);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_object_is_printed_in_blocks() {
        let value = json!({ "a": { "b": [1, { "c": "x: \"y\"\n" }], "d": {} } });
        let expected = "a:\n  b:\n    - 1\n    -\n      c: \"x: \\\"y\\\"\\n\"\n  d: {}\n";
        assert_eq!(yaml(&value), expected);
    }
}
