//! Faults of a manifest that its kind does not allow, found before anything is applied.

use serde_json::Value;

use crate::manifest::{DELETE, Manifest};

/// Where the pods of a kind are described.
const TEMPLATES: &[(&str, &str, &str, &str)] = &[
    (
        "apps",
        "Deployment",
        "/spec/template/spec",
        "spec.template.spec",
    ),
    (
        "apps",
        "DaemonSet",
        "/spec/template/spec",
        "spec.template.spec",
    ),
    (
        "apps",
        "StatefulSet",
        "/spec/template/spec",
        "spec.template.spec",
    ),
    ("batch", "Job", "/spec/template/spec", "spec.template.spec"),
    (
        "batch",
        "CronJob",
        "/spec/jobTemplate/spec/template/spec",
        "spec.jobTemplate.spec.template.spec",
    ),
];

/// All faults of a manifest, each with the field.
pub(crate) fn faults(manifest: &Manifest) -> Vec<String> {
    let mut faults = Vec::new();
    for field in ["labels", "annotations"] {
        match manifest.object.pointer(&format!("/metadata/{field}")) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, _) in map.iter().filter(|(_, value)| !value.is_string()) {
                    faults.push(format!("field metadata.{field}[{key:?}] is no text"));
                }
            }
            Some(_) => faults.push(format!("field metadata.{field} is no map")),
        }
    }
    if let Some(value) = manifest
        .annotations()
        .get(DELETE)
        .filter(|value| **value != "true")
    {
        faults.push(format!(
            "invalid delete annotation \"{DELETE}\" value: {value:?}"
        ));
        return faults;
    }
    if manifest.annotations().contains_key(DELETE) {
        return faults;
    }
    let (group, kind) = (manifest.id.group.as_str(), manifest.id.kind.as_str());
    let is_manual = manifest.object.pointer("/spec/manualSelector") == Some(&Value::Bool(true));
    if (group, kind) == ("batch", "Job")
        && manifest.object.pointer("/spec/selector").is_some()
        && !is_manual
    {
        faults.push("field spec.selector: the API server makes the selector of a Job".to_owned());
    }
    let mut templates = TEMPLATES.iter();
    if let Some((.., pointer, field)) = templates.find(|place| (place.0, place.1) == (group, kind))
    {
        faults.extend(containers(manifest.object.pointer(pointer), field));
    }
    faults
}

fn containers(pod: Option<&Value>, field: &str) -> Vec<String> {
    let list = pod
        .and_then(|pod| pod.get("containers"))
        .and_then(Value::as_array);
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        return vec![format!(
            "field {field}.containers is missing, empty or no list"
        )];
    };
    let nameless = list.iter().enumerate().filter(|(_, container)| {
        let name = container.get("name").and_then(Value::as_str);
        name.is_none_or(str::is_empty)
    });
    nameless
        .map(|(index, _)| format!("field {field}.containers[{index}].name is missing or no text"))
        .collect()
}
