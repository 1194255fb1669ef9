//! What a cluster puts into workloads that ask for it.

use serde_json::{Value, json};

use super::InjectionError;

/// Annotation of the containers, by name with commas, that get the cluster's proxy.
pub const INJECT_PROXY: &str = "config.openshift.io/inject-proxy";

/// The cluster's proxy; empty texts are not set.
///
/// Source: Proxy `cluster` of `config.openshift.io/v1`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClusterProxy {
    /// `HTTP_PROXY`.
    pub http: String,
    /// `HTTPS_PROXY`.
    pub https: String,
    /// `NO_PROXY`.
    pub none: String,
}

impl ClusterProxy {
    pub fn read(object: &Value) -> Self {
        let text = |key: &str| {
            let value = object.pointer(&format!("/status/{key}"));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Self {
            http: text("httpProxy"),
            https: text("httpsProxy"),
            none: text("noProxy"),
        }
    }
}

/// Sets the proxy in the environment of containers.
///
/// Shape: `containers` is the annotation's value; the object is a Deployment or DaemonSet.
///
/// # Errors
/// [`InjectionError::FindContainer`].
pub fn inject_proxy(
    object: &mut Value,
    containers: &str,
    proxy: &ClusterProxy,
) -> Result<(), InjectionError> {
    let variables = [
        ("HTTP_PROXY", &proxy.http),
        ("HTTPS_PROXY", &proxy.https),
        ("NO_PROXY", &proxy.none),
    ];
    let is_set = variables.iter().any(|(_, value)| !value.is_empty());
    for name in containers.split(',').map(str::trim) {
        let mut found = false;
        for list in ["containers", "initContainers"] {
            let list = object.pointer_mut(&format!("/spec/template/spec/{list}"));
            for container in list.and_then(Value::as_array_mut).into_iter().flatten() {
                if container.get("name").and_then(Value::as_str) == Some(name) {
                    found = true;
                    if is_set {
                        set(container, &variables);
                    }
                }
            }
        }
        if !found {
            let name = name.to_owned();
            return Err(InjectionError::FindContainer { name });
        }
    }
    Ok(())
}

fn set(container: &mut Value, variables: &[(&str, &String)]) {
    let Some(container) = container.as_object_mut() else {
        return;
    };
    let environment = container.entry("env").or_insert_with(|| json!([]));
    if let Some(environment) = environment.as_array_mut() {
        for (name, value) in variables.iter().filter(|(_, value)| !value.is_empty()) {
            environment
                .retain(|variable| variable.get("name").and_then(Value::as_str) != Some(name));
            environment.push(json!({ "name": name, "value": value }));
        }
    }
}
