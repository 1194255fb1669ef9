//! What a manifest leaves out and is held to all the same: the API's defaults of workloads and
//! Services, and what the cluster's own controllers fill in.
//!
//! A default that is applied is owned, so that it comes back when someone changes it. A field
//! that a controller fills is not applied at all, so that a placeholder never empties it.

use release::manifest::ObjectId;
use serde_json::{Map, Value, json};

/// Has the service CA's bundle put into an object.
const INJECT_CA: &str = "service.beta.openshift.io/inject-cabundle";

/// Label that has the cluster's trusted bundle put into a `ConfigMap`.
const INJECT_TRUSTED: &str = "config.openshift.io/inject-trusted-cabundle";

/// What stands in manifests for a bundle that is filled in: nothing, and a line's end in base64.
const PLACEHOLDERS: [&str; 2] = ["", "Cg=="];

/// Takes out what the cluster fills in.
pub(super) fn leave_to_others(id: &ObjectId, object: &mut Value) {
    let annotations = object.pointer("/metadata/annotations");
    let asks_for_ca = annotations.is_some_and(asks_for_bundle);
    let trusted = object
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(INJECT_TRUSTED));
    let asks_for_trusted = trusted.and_then(Value::as_str) == Some("true");
    match (id.group.as_str(), id.kind.as_str()) {
        ("rbac.authorization.k8s.io", "ClusterRole") => {
            let is_aggregated = object
                .get("aggregationRule")
                .is_some_and(|is| !is.is_null());
            if let Some(object) = object.as_object_mut().filter(|_| is_aggregated) {
                object.remove("rules");
            }
        }
        ("apiregistration.k8s.io", "APIService") => {
            leave_bundle(object.get_mut("spec"), asks_for_ca);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let client = object.pointer_mut("/spec/conversion/webhook/clientConfig");
            leave_bundle(client, asks_for_ca);
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            let webhooks = object.as_object_mut().into_iter();
            for webhook in webhooks.flat_map(|object| entries(object, "webhooks")) {
                leave_bundle(webhook.get_mut("clientConfig"), asks_for_ca);
            }
        }
        ("", "ConfigMap") => {
            leave_entry(object, "service-ca.crt", asks_for_ca);
            leave_entry(object, "ca-bundle.crt", asks_for_trusted);
        }
        ("", "ServiceAccount") => {
            for field in ["secrets", "imagePullSecrets"] {
                let is_empty = object.get(field).is_some_and(is_empty);
                if let Some(object) = object.as_object_mut().filter(|_| is_empty) {
                    object.remove(field);
                }
            }
        }
        _ => {}
    }
}

/// Whether metadata asks for the service CA's bundle.
pub fn asks_for_bundle(annotations: &Value) -> bool {
    annotations.get(INJECT_CA).and_then(Value::as_str) == Some("true")
}

/// What takes the webhook from a definition that has a bundle filled in, where the manifest has no
/// webhook: server-side apply would leave the bundle alone in it, which the API server refuses.
pub fn without_webhook(id: &ObjectId, wanted: &Value) -> Option<Value> {
    let is_one = (id.group.as_str(), id.kind.as_str())
        == ("apiextensions.k8s.io", "CustomResourceDefinition");
    let has_webhook = wanted
        .pointer("/spec/conversion/webhook")
        .is_some_and(|webhook| !webhook.is_null());
    let conversion = json!({ "strategy": "None", "webhook": null });
    (is_one && !has_webhook).then(|| json!({ "spec": { "conversion": conversion } }))
}

/// An object with empty bundles where it has none; none where it has no place for one. Applied
/// once its annotation is gone, it takes away what was filled in because of that.
pub fn without_bundles(id: &ObjectId, wanted: &Value) -> Option<Value> {
    let mut object = wanted.clone();
    let clients: Vec<&mut Value> = match (id.group.as_str(), id.kind.as_str()) {
        ("apiregistration.k8s.io", "APIService") => object.get_mut("spec").into_iter().collect(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let client = object.pointer_mut("/spec/conversion/webhook/clientConfig");
            client.into_iter().collect()
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            let webhooks = object.as_object_mut().into_iter();
            let webhooks = webhooks.flat_map(|object| entries(object, "webhooks"));
            webhooks
                .filter_map(|webhook| webhook.get_mut("clientConfig"))
                .collect()
        }
        _ => Vec::new(),
    };
    let mut is_changed = false;
    for client in clients.into_iter().filter_map(Value::as_object_mut) {
        if !client.contains_key("caBundle") {
            client.insert("caBundle".to_owned(), json!(""));
            is_changed = true;
        }
    }
    is_changed.then_some(object)
}

/// Takes a bundle out that is filled in by contract, or of which there is a placeholder only.
fn leave_bundle(of: Option<&mut Value>, is_filled: bool) {
    let Some(of) = of.and_then(Value::as_object_mut) else {
        return;
    };
    let is_placeholder = match of.get("caBundle") {
        Some(Value::String(text)) => PLACEHOLDERS.contains(&text.trim()),
        Some(Value::Null) => true,
        _ => false,
    };
    if is_filled || is_placeholder {
        of.remove("caBundle");
    }
}

fn leave_entry(object: &mut Value, key: &str, is_filled: bool) {
    let data = object.get_mut("data").and_then(Value::as_object_mut);
    if let Some(data) = data.filter(|_| is_filled) {
        data.remove(key);
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Puts in the API's defaults that an object is held to. `is_scaled`: an autoscaler sets the
/// replicas.
///
/// Source: `docs/reference/cvo.md`, "Waiting and failing".
pub(super) fn complete(id: &ObjectId, object: &mut Value, is_scaled: bool) {
    match (id.group.as_str(), id.kind.as_str()) {
        ("apps", "Deployment") => {
            let strategy = json!({
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" }
            });
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                if !is_scaled {
                    put(spec, "replicas", json!(1));
                }
                put(spec, "paused", json!(false));
                put(spec, "minReadySeconds", json!(0));
                put(spec, "strategy", strategy);
            }
            complete_pod(object);
        }
        ("apps", "DaemonSet") => complete_pod(object),
        ("", "Service") => {
            let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
                return;
            };
            put(spec, "type", json!("ClusterIP"));
            for port in entries(spec, "ports").filter_map(Value::as_object_mut) {
                put(port, "protocol", json!("TCP"));
                if let Some(number) = port.get("port").cloned() {
                    put(port, "targetPort", number);
                }
            }
        }
        _ => {}
    }
}

fn complete_pod(object: &mut Value) {
    let Some(pod) = object
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    put(pod, "dnsPolicy", json!("ClusterFirst"));
    put(pod, "terminationGracePeriodSeconds", json!(30));
    for list in ["initContainers", "containers"] {
        for container in entries(pod, list).filter_map(Value::as_object_mut) {
            for port in entries(container, "ports").filter_map(Value::as_object_mut) {
                put(port, "protocol", json!("TCP"));
            }
            for probe in ["livenessProbe", "readinessProbe"] {
                if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
                    complete_probe(probe);
                }
            }
        }
    }
}

fn complete_probe(probe: &mut Map<String, Value>) {
    let defaults = [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ];
    for (field, default) in defaults {
        // Zero is the default, too.
        if probe.get(field).and_then(Value::as_i64) == Some(0) {
            probe.remove(field);
        }
        put(probe, field, json!(default));
    }
    if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        put(get, "scheme", json!("HTTP"));
    }
}

/// Sets a member that is absent or null.
fn put(object: &mut Map<String, Value>, key: &str, value: Value) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), value);
    }
}

fn entries<'a>(
    object: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Value> {
    let list = object.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// The workload whose replicas an autoscaler sets.
pub fn scaled_by(id: &ObjectId, autoscaler: &Value) -> Option<ObjectId> {
    let target = autoscaler.pointer("/spec/scaleTargetRef")?;
    let text = |key: &str| target.get(key).and_then(Value::as_str);
    let version = text("apiVersion").unwrap_or("apps/v1");
    Some(ObjectId {
        group: version
            .rsplit_once('/')
            .map_or("", |(group, _)| group)
            .to_owned(),
        kind: text("kind")?.to_owned(),
        namespace: id.namespace.clone(),
        name: text("name")?.to_owned(),
    })
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

    fn completed(kind: &str, mut object: Value) -> Value {
        let group = if kind == "Service" { "" } else { "apps" };
        complete(&id(group, kind), &mut object, false);
        object
    }

    fn left(group: &str, kind: &str, mut object: Value) -> Value {
        leave_to_others(&id(group, kind), &mut object);
        object
    }

    #[test]
    fn defaults_that_a_workload_leaves_out_are_held() {
        let mut bare = json!({ "spec": { "template": { "spec": { "containers": [{
            "name": "a",
            "ports": [{ "containerPort": 80 }],
            "readinessProbe": { "httpGet": { "port": 80 }, "periodSeconds": 5, "timeoutSeconds": 0 }
        }] } } } });
        let done = completed("Deployment", bare.clone());
        let spec = &done["spec"];
        assert_eq!(spec["replicas"], 1);
        assert_eq!(spec["paused"], false);
        assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], "25%");
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["dnsPolicy"], "ClusterFirst");
        assert_eq!(pod["terminationGracePeriodSeconds"], 30);
        let container = &pod["containers"][0];
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        let probe = json!({ "httpGet": { "port": 80, "scheme": "HTTP" }, "periodSeconds": 5, "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 3 });
        assert_eq!(container["readinessProbe"], probe);
        assert_eq!(completed("Deployment", done.clone()), done);
        // A number of its own, or an autoscaler, stays.
        complete(&id("apps", "Deployment"), &mut bare, true);
        assert!(bare["spec"].get("replicas").is_none());
        let own = completed(
            "Deployment",
            json!({ "spec": { "replicas": 0, "strategy": { "type": "Recreate" } } }),
        );
        assert_eq!(own["spec"]["replicas"], 0);
        assert_eq!(own["spec"]["strategy"], json!({ "type": "Recreate" }));
        assert!(
            completed("DaemonSet", json!({ "spec": {} }))["spec"]
                .get("replicas")
                .is_none()
        );
    }

    #[test]
    fn defaults_that_a_service_leaves_out_are_held() {
        let bare = json!({ "spec": { "ports": [{ "port": 80 }, { "port": 53, "protocol": "UDP", "targetPort": "dns" }] } });
        let done = json!({ "spec": { "type": "ClusterIP", "ports": [
            { "port": 80, "protocol": "TCP", "targetPort": 80 },
            { "port": 53, "protocol": "UDP", "targetPort": "dns" }
        ] } });
        assert_eq!(completed("Service", bare), done);
    }

    #[test]
    fn what_controllers_of_the_cluster_fill_in_is_not_applied() {
        let role = json!({ "aggregationRule": { "clusterRoleSelectors": [] }, "rules": [] });
        let role = left("rbac.authorization.k8s.io", "ClusterRole", role);
        assert!(role.get("rules").is_none());
        let plain = json!({ "rules": [{ "verbs": ["get"] }] });
        assert_eq!(
            left("rbac.authorization.k8s.io", "ClusterRole", plain.clone()),
            plain
        );

        let asks = json!({ "annotations": { INJECT_CA: "true" } });
        let hooks = "admissionregistration.k8s.io";
        for (metadata, bundle, stays) in [
            (&asks, json!("QQ=="), false),
            (&Value::Null, json!("QQ=="), true),
            (&Value::Null, json!(""), false),
            (&Value::Null, json!("Cg=="), false),
            (&Value::Null, Value::Null, false),
        ] {
            let client = json!({ "caBundle": bundle, "url": "u" });
            let is_there = |client: &Value| client.get("caBundle").is_some();
            let service = json!({ "metadata": metadata, "spec": client });
            let service = left("apiregistration.k8s.io", "APIService", service);
            assert_eq!(is_there(&service["spec"]), stays);
            let hook = json!({ "metadata": metadata, "webhooks": [{ "clientConfig": client }] });
            let hook = left(hooks, "ValidatingWebhookConfiguration", hook);
            assert_eq!(is_there(&hook["webhooks"][0]["clientConfig"]), stays);
            let crd = json!({ "metadata": metadata, "spec": { "conversion": { "webhook": { "clientConfig": client } } } });
            let crd = left("apiextensions.k8s.io", "CustomResourceDefinition", crd);
            assert_eq!(
                is_there(&crd["spec"]["conversion"]["webhook"]["clientConfig"]),
                stays
            );
        }

        let config = json!({
            "metadata": { "annotations": { INJECT_CA: "true" }, "labels": { INJECT_TRUSTED: "true" } },
            "data": { "service-ca.crt": "", "ca-bundle.crt": "", "own": "1" }
        });
        assert_eq!(left("", "ConfigMap", config)["data"], json!({ "own": "1" }));
        let account = json!({ "secrets": [], "imagePullSecrets": [{ "name": "own" }] });
        let account = left("", "ServiceAccount", account);
        assert_eq!(account, json!({ "imagePullSecrets": [{ "name": "own" }] }));
    }

    #[test]
    fn places_of_bundles_are_emptied_where_the_manifest_has_none() {
        let hooks = "admissionregistration.k8s.io";
        let client = json!({ "service": {} });
        let own = json!({ "caBundle": "QQ==" });
        let empty = json!({ "service": {}, "caBundle": "" });
        let object = json!({ "webhooks": [{ "clientConfig": client }, { "clientConfig": own }] });
        let emptied = without_bundles(&id(hooks, "MutatingWebhookConfiguration"), &object).unwrap();
        assert_eq!(
            emptied,
            json!({ "webhooks": [{ "clientConfig": empty }, { "clientConfig": own }] })
        );
        assert_eq!(
            without_bundles(&id(hooks, "MutatingWebhookConfiguration"), &emptied),
            None
        );
        let service = id("apiregistration.k8s.io", "APIService");
        let emptied = without_bundles(&service, &json!({ "spec": client })).unwrap();
        assert_eq!(emptied, json!({ "spec": empty }));
        let definition = id("apiextensions.k8s.io", "CustomResourceDefinition");
        let webhook = |client: &Value| json!({ "spec": { "conversion": { "webhook": { "clientConfig": client } } } });
        assert_eq!(
            without_bundles(&definition, &webhook(&client)),
            Some(webhook(&empty))
        );
        assert_eq!(without_bundles(&definition, &json!({ "spec": {} })), None);
        assert_eq!(without_webhook(&definition, &webhook(&client)), None);
        let none = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
        for bare in [json!({ "spec": {} }), none.clone()] {
            assert_eq!(without_webhook(&definition, &bare), Some(none.clone()));
        }
        assert_eq!(without_webhook(&service, &json!({ "spec": {} })), None);
        assert_eq!(
            without_bundles(&id("", "ConfigMap"), &json!({ "data": {} })),
            None
        );
        assert!(asks_for_bundle(&json!({ INJECT_CA: "true" })));
        assert!(!asks_for_bundle(&json!({ INJECT_CA: "false" })) && !asks_for_bundle(&Value::Null));
    }

    #[test]
    fn an_autoscaler_names_its_workload() {
        let scaler = json!({ "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" } } });
        let of = scaled_by(&id("autoscaling", "HorizontalPodAutoscaler"), &scaler);
        assert_eq!(of, Some(id("apps", "Deployment")));
        assert_eq!(
            scaled_by(&id("autoscaling", "HorizontalPodAutoscaler"), &json!({})),
            None
        );
    }
}
