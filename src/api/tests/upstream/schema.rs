//! Checks objects against a structural schema as the API server does, but for CEL rules and
//! patterns: those are proved in the lab, where a real API server runs upstream's definitions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// What is wrong with `value`, each with its path. An unknown field counts, because the API server
/// would drop it.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let mut wrong = |what: String| found.push(format!("{path}: {what}"));
    if value.is_null() {
        if schema["nullable"] != true {
            wrong("null".to_owned());
        }
        return;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        if !(value.is_i64() || value.is_string()) {
            wrong(format!("neither integer nor string: {value}"));
        }
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        wrong(format!("{value} is not in the enum"));
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(_)) => object(schema, value, path, found),
        (Some("array"), Value::Array(items)) => {
            bounds(schema, "Items", items.len(), path, found);
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        (Some("string"), Value::String(text)) => {
            bounds(schema, "Length", text.chars().count(), path, found);
            if schema["format"] == "date-time"
                && serde_json::from_value::<Time>(value.clone()).is_err()
            {
                found.push(format!("{path}: not a time: {text}"));
            }
        }
        (Some("integer"), Value::Number(number)) => {
            let Some(number) = number.as_i64() else {
                return found.push(format!("{path}: not an integer: {number}"));
            };
            if schema["minimum"]
                .as_f64()
                .is_some_and(|least| f64::from(i32::try_from(number).unwrap_or(i32::MAX)) < least)
            {
                found.push(format!("{path}: {number} is too small"));
            }
            if schema["format"] == "int32" && i32::try_from(number).is_err() {
                found.push(format!("{path}: {number} does not fit 32 bits"));
            }
        }
        (Some("boolean"), Value::Bool(_)) => {}
        (expected, _) => found.push(format!("{path}: {value} is not of type {expected:?}")),
    }
}

fn object(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for required in schema["required"].as_array().into_iter().flatten() {
        if value.get(required.as_str().unwrap()).is_none() {
            found.push(format!("{path}.{}: required", required.as_str().unwrap()));
        }
    }
    for (name, field) in value.as_object().unwrap() {
        let path = format!("{path}.{name}");
        // The API server itself checks these in every object.
        if [".apiVersion", ".kind", ".metadata"].contains(&path.as_str()) {
            continue;
        }
        if let Some(property) = schema["properties"].get(name) {
            check(property, field, &path, found);
        } else if schema["additionalProperties"].is_object() {
            check(&schema["additionalProperties"], field, &path, found);
        } else if schema["x-kubernetes-preserve-unknown-fields"] != true
            && schema["x-kubernetes-embedded-resource"] != true
        {
            found.push(format!("{path}: unknown field"));
        }
    }
}

fn bounds(schema: &Value, of: &str, length: usize, path: &str, found: &mut Vec<String>) {
    let length = length as u64;
    if schema[format!("min{of}")]
        .as_u64()
        .is_some_and(|least| length < least)
        || schema[format!("max{of}")]
            .as_u64()
            .is_some_and(|most| length > most)
    {
        found.push(format!("{path}: {length} is out of bounds"));
    }
}
