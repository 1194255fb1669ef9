//! What Prometheus' operator makes of the monitors of `deploy/monitoring`: items of
//! `scrape_configs`, and the targets of each.
//!
//! Debian's Prometheus finds no pods by itself; it reads targets from files.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use lab::manifest;
use serde_json::{Value, json};

use crate::workspace;

/// Files of `deploy/monitoring` with one monitor each.
const MONITORS: [&str; 4] = [
    "controller-monitor.yaml",
    "daemon-monitor.yaml",
    "operator-monitor.yaml",
    "version-monitor.yaml",
];

/// Folder of the files with targets, in Prometheus' own.
pub(crate) const TARGETS: &str = "targets";

/// Files by which Prometheus shows who it is, in its own folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScrapeFiles {
    /// Authority of the components' Services.
    pub(crate) services: &'static str,
    /// Certificate and key that it shows.
    pub(crate) client: &'static str,
}

/// Which pods Prometheus reads, and how.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    name: String,
    namespace: String,
    /// Label `k8s-app` of the pods; a Service of theirs has the same.
    app: String,
    /// Name of their port.
    port: String,
    config: Value,
}

impl Monitor {
    /// Those that are deployed.
    pub(crate) fn deployed(files: ScrapeFiles) -> Result<Vec<Self>> {
        let dir = workspace().join("deploy/monitoring");
        let read = |file: &str| load(&dir.join(file)).and_then(|it| Self::of(&it, files));
        MONITORS.into_iter().map(read).collect()
    }

    /// One of pods that have no monitor, over plain HTTP.
    pub(crate) fn plain(namespace: &str, app: &str, port: &str) -> Self {
        Self {
            name: app.to_owned(),
            namespace: namespace.to_owned(),
            app: app.to_owned(),
            port: port.to_owned(),
            config: config(app, "http", &relabelings()),
        }
    }

    fn of(monitor: &DynamicObject, files: ScrapeFiles) -> Result<Self> {
        let endpoint = monitor.data.pointer("/spec/endpoints/0");
        let endpoint = endpoint.context("an endpoint")?;
        let app = text(&monitor.data, "/spec/selector/matchLabels/k8s-app");
        let scheme = text(endpoint, "/scheme").unwrap_or("http");
        let mut rules = relabelings();
        let more = endpoint.pointer("/relabelings").and_then(Value::as_array);
        rules.extend(more.into_iter().flatten().map(|rule| {
            let (sources, target) = (rule.get("sourceLabels"), rule.get("targetLabel"));
            json!({ "source_labels": sources, "target_label": target })
        }));
        let name = monitor.name_any();
        let mut config = config(&name, scheme, &rules);
        if let Some(config) = config.as_object_mut()
            && scheme == "https"
        {
            let tls = json!({
                "server_name": text(endpoint, "/tlsConfig/serverName"),
                "ca_file": files.services, "cert_file": files.client, "key_file": files.client,
            });
            config.insert("tls_config".to_owned(), tls);
        }
        Ok(Self {
            name,
            namespace: monitor.namespace().context("a namespace")?,
            app: app.context("a label")?.to_owned(),
            port: text(endpoint, "/port").context("a port")?.to_owned(),
            config,
        })
    }

    /// The item of `scrape_configs`.
    pub(crate) fn config(&self) -> Value {
        self.config.clone()
    }

    /// Name of its file in [`TARGETS`].
    pub(crate) fn file(&self) -> String {
        file(&self.name)
    }

    /// Content of that file: its pods as they are now.
    pub(crate) async fn targets(&self, client: &Client) -> Result<Value> {
        let pods = Api::<Pod>::namespaced(client.clone(), &self.namespace);
        let params = ListParams::default().labels(&format!("k8s-app={}", self.app));
        let pods = pods.list(&params).await?;
        Ok(pods.iter().filter_map(|pod| self.target(pod)).collect())
    }

    /// A pod with an address.
    fn target(&self, pod: &Pod) -> Option<Value> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
        let address = status.pod_ip.as_deref()?;
        let mut ports = spec
            .containers
            .iter()
            .flat_map(|it| it.ports.iter().flatten());
        let port = ports.find(|port| port.name.as_deref() == Some(self.port.as_str()))?;
        Some(json!({
            "targets": [format!("{address}:{}", port.container_port)],
            "labels": {
                "__meta_kubernetes_namespace": self.namespace,
                "__meta_kubernetes_pod_name": pod.name_any(),
                "__meta_kubernetes_pod_node_name": spec.node_name,
            },
        }))
    }
}

fn load(path: &Path) -> Result<DynamicObject> {
    let only = manifest::load(path)?.pop();
    only.with_context(|| format!("{} is empty", path.display()))
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn file(name: &str) -> String {
    format!("{name}.json")
}

fn config(name: &str, scheme: &str, rules: &[Value]) -> Value {
    let targets = json!([{
        "files": [format!("{TARGETS}/{}", file(name))], "refresh_interval": "5s",
    }]);
    json!({
        "job_name": name, "scheme": scheme, "file_sd_configs": targets, "relabel_configs": rules,
    })
}

/// Names the pod, as Prometheus' operator does.
fn relabelings() -> Vec<Value> {
    let labels = [("namespace", "namespace"), ("pod_name", "pod")];
    let rule = |(label, target): (&str, &str)| {
        let source = format!("__meta_kubernetes_{label}");
        json!({ "source_labels": [source], "target_label": target })
    };
    labels.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: ScrapeFiles = ScrapeFiles {
        services: "services.crt",
        client: "client.pem",
    };

    #[test]
    fn a_deployed_monitor_is_read_with_its_certificate_and_labels() {
        let all = Monitor::deployed(FILES).unwrap();
        let [controller, daemon, _, version] = all.as_slice() else {
            panic!("four monitors");
        };
        let server = &controller.config["tls_config"]["server_name"];
        assert_eq!(
            server,
            "machine-config-controller.openshift-machine-config-operator.svc"
        );
        assert_eq!(daemon.config["scheme"], "https");
        assert_eq!(daemon.config["tls_config"]["ca_file"], "services.crt");
        let last = daemon.config["relabel_configs"].as_array().unwrap().last();
        assert_eq!(last.unwrap()["target_label"], "node");
        assert_eq!(version.namespace, "openshift-cluster-version");
    }

    #[test]
    fn a_pod_is_a_target_once_it_has_an_address() {
        let monitor = Monitor::plain("spaces", "app", "metrics");
        let pod = |status: Value| -> Pod {
            let port = json!({ "name": "metrics", "containerPort": 8797 });
            serde_json::from_value(json!({
                "metadata": { "name": "app-1" }, "status": status,
                "spec": { "nodeName": "n", "containers": [{ "name": "a", "ports": [port] }] },
            }))
            .unwrap()
        };
        assert_eq!(monitor.target(&pod(json!({}))), None);
        let target = monitor
            .target(&pod(json!({ "podIP": "10.98.10.3" })))
            .unwrap();
        assert_eq!(target["targets"][0], "10.98.10.3:8797");
        assert_eq!(target["labels"]["__meta_kubernetes_pod_node_name"], "n");
    }
}
