//! What Prometheus' operator makes of the monitors of `deploy/monitoring`: items of
//! `scrape_configs`.

use std::path::Path;

use anyhow::{Context as _, Result};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use lab::manifest;
use serde_json::{Value, json};

use crate::workspace;

/// Files of `deploy/monitoring` with one monitor each.
const MONITORS: [&str; 3] = [
    "controller-monitor.yaml",
    "daemon-monitor.yaml",
    "version-monitor.yaml",
];

/// Files by which Prometheus finds the components and shows who it is, in its own folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScrapeFiles {
    /// Kubeconfig that lists pods and endpoints.
    pub(crate) kubeconfig: &'static str,
    /// Authority of the components' Services.
    pub(crate) services: &'static str,
    /// Certificate and key that it shows.
    pub(crate) client: &'static str,
}

/// What the monitors have Prometheus read.
pub(crate) fn deployed(files: ScrapeFiles) -> Result<Vec<Value>> {
    let dir = workspace().join("deploy/monitoring");
    let read = |file: &str| load(&dir.join(file)).and_then(|monitor| scrape(&monitor, files));
    MONITORS.into_iter().map(read).collect()
}

/// What a plain Service leads to, of a component without a monitor.
pub(crate) fn of_service(files: ScrapeFiles, namespace: &str, label: &str, port: &str) -> Value {
    let selected = [
        ("service_label_k8s_app", label),
        ("endpoint_port_name", port),
    ];
    let discovery = discovery(files, namespace, "endpoints");
    json!({
        "job_name": label,
        "kubernetes_sd_configs": discovery,
        "relabel_configs": relabelings(&selected),
    })
}

fn load(file: &Path) -> Result<DynamicObject> {
    let only = manifest::load(file)?.pop();
    only.with_context(|| format!("{} is empty", file.display()))
}

fn scrape(monitor: &DynamicObject, files: ScrapeFiles) -> Result<Value> {
    let kind = monitor.types.as_ref().map(|types| types.kind.as_str());
    let (role, label, port_label, endpoints) = match kind {
        Some("PodMonitor") => (
            "pod",
            "pod_label_k8s_app",
            "pod_container_port_name",
            "/spec/podMetricsEndpoints/0",
        ),
        _ => (
            "endpoints",
            "service_label_k8s_app",
            "endpoint_port_name",
            "/spec/endpoints/0",
        ),
    };
    let endpoint = monitor.data.pointer(endpoints).context("an endpoint")?;
    let app = text(&monitor.data, "/spec/selector/matchLabels/k8s-app").context("a label")?;
    let port = text(endpoint, "/port").context("a port")?;
    let namespace = monitor.namespace().context("a namespace")?;
    let mut rules = relabelings(&[(label, app), (port_label, port)]);
    let more = endpoint.pointer("/relabelings").and_then(Value::as_array);
    rules.extend(more.into_iter().flatten().map(|rule| {
        let (sources, target) = (rule.get("sourceLabels"), rule.get("targetLabel"));
        json!({ "source_labels": sources, "target_label": target })
    }));
    let scheme = text(endpoint, "/scheme").unwrap_or("http");
    let mut config = json!({
        "job_name": monitor.name_any(),
        "scheme": scheme,
        "kubernetes_sd_configs": discovery(files, &namespace, role),
        "relabel_configs": rules,
    });
    if let Some(config) = config.as_object_mut()
        && scheme == "https"
    {
        let tls = json!({
            "server_name": text(endpoint, "/tlsConfig/serverName"),
            "ca_file": files.services, "cert_file": files.client, "key_file": files.client,
        });
        config.insert("tls_config".to_owned(), tls);
    }
    Ok(config)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// All pods or endpoints of a namespace.
fn discovery(files: ScrapeFiles, namespace: &str, role: &str) -> Value {
    json!([{
        "role": role, "kubeconfig_file": files.kubeconfig,
        "namespaces": { "names": [namespace] },
    }])
}

/// Keeps those with these labels, and says which pod each is.
fn relabelings(selected: &[(&str, &str)]) -> Vec<Value> {
    let source = |label: &str| format!("__meta_kubernetes_{label}");
    let keep = selected.iter().map(|(label, value)| {
        json!({ "source_labels": [source(label)], "regex": value, "action": "keep" })
    });
    let name = [("namespace", "namespace"), ("pod_name", "pod")]
        .map(|(label, target)| json!({ "source_labels": [source(label)], "target_label": target }));
    keep.chain(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: ScrapeFiles = ScrapeFiles {
        kubeconfig: "kubeconfig",
        services: "services.crt",
        client: "client.pem",
    };

    #[test]
    fn each_deployed_monitor_selects_pods_by_label_and_port() {
        let all = deployed(FILES).unwrap();
        let names: Vec<_> = all.iter().map(|one| one["job_name"].as_str()).collect();
        let expected = [
            "machine-config-controller",
            "machine-config-daemon",
            "cluster-version-operator",
        ];
        assert_eq!(names, expected.map(Some));
        let [controller, daemon, _] = all.as_slice() else {
            panic!("three monitors");
        };
        assert_eq!(controller["scheme"], "http");
        let keep = &controller["relabel_configs"][0];
        assert_eq!(
            keep["source_labels"][0],
            "__meta_kubernetes_pod_label_k8s_app"
        );
        assert_eq!(keep["regex"], "machine-config-controller");
        assert_eq!(daemon["scheme"], "https");
        assert_eq!(daemon["tls_config"]["ca_file"], "services.crt");
        let last = daemon["relabel_configs"].as_array().unwrap().last();
        assert_eq!(last.unwrap()["target_label"], "node");
    }
}
