//! The monitoring of a cluster with hosts: Prometheus reads the components as `deploy/monitoring`
//! says, and is there as Service `thanos-querier`.
//!
//! It stands in for three operators of OpenShift: those of Prometheus, of service certificates, and
//! of clients' authorities.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::monitoring::METRICS_READER;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use lab::Outpost;
use lab::host::Host;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::alert_servers::{AlertServers, AlertSettings};
use crate::monitors::{Monitor, ScrapeFiles, TARGETS};
use crate::tls_door::TlsDoor;
use crate::{Authority, Cluster};

/// Namespace of OpenShift's monitoring.
const NAMESPACE: &str = "openshift-monitoring";

/// Service by which clients reach Prometheus, and its port.
const QUERIER: (&str, u16) = ("thanos-querier", 9091);

/// Alerts of the components that it reads.
const ALERTS: [&str; 4] = ["controller", "daemon", "upgrade", "version"];

/// Secrets with the certificate of a Service: the Secret, the Service and their namespace.
///
/// Source: annotation `serving-cert-secret-name` of the Services in `deploy/`.
const SERVING: [(&str, &str, &str); 4] = [
    (
        "mco-proxy-tls",
        "machine-config-operator",
        "openshift-machine-config-operator",
    ),
    (
        "mcc-proxy-tls",
        "machine-config-controller",
        "openshift-machine-config-operator",
    ),
    (
        "proxy-tls",
        "machine-config-daemon",
        "openshift-machine-config-operator",
    ),
    (
        "cluster-version-operator-serving-cert",
        "cluster-version-operator",
        "openshift-cluster-version",
    ),
];

/// Seconds between two reads of the components.
const INTERVAL_SECS: u32 = 5;

/// Time between two reads of which pods there are.
const FOLLOW_EVERY: Duration = Duration::from_secs(5);

/// Name of the network namespace, after the lab's.
const OUTPOST: &str = "monitor";

/// Where a host has the authorities of its clients.
const CLIENT_AUTHORITIES: &str = "kubernetes/kubelet-ca.crt";

/// Where clients on a host find authorities.
const AUTHORITIES: &str = "ssl/certs/ca-certificates.crt";

const FILES: ScrapeFiles = ScrapeFiles {
    services: "services.crt",
    client: "client.pem",
};

/// Running monitoring. Dropped, it ends.
#[derive(Debug)]
pub struct Monitoring {
    /// Prometheus and Alertmanager.
    pub servers: AlertServers,
    _querier: TlsDoor,
    _targets: Targets,
}

impl Monitoring {
    /// Starts it, with files in the folder `dir`. `others` are `address:port` of further servers
    /// with metrics, by name.
    ///
    /// The cluster has its hosts, ControllerConfig, and the namespaces of the components.
    pub async fn start(
        cluster: &Cluster,
        dir: &Path,
        others: &[(&str, SocketAddr)],
    ) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let services = Authority::make("signer of services")?;
        let clients = Authority::make("signer of metrics clients")?;
        write(&dir, FILES.services, &services.pem)?;
        write(&dir, FILES.client, &clients.client(METRICS_READER, "test")?)?;
        for (secret, service, namespace) in SERVING {
            certify(cluster, &services, &dir, (secret, service, namespace)).await?;
        }
        let bundle = cluster.trust_clients(&clients.pem).await?;
        // Daemons read it from the ControllerConfig, too, but not for some minutes.
        for host in cluster.hosts().iter().filter(|host| host.is_on()) {
            write(&host.etc_of_booted()?, CLIENT_AUTHORITIES, &bundle)?;
        }

        let lab = &cluster.host_lab()?.lab;
        let hosts: Vec<Ipv4Addr> = cluster.hosts().iter().map(Host::address).collect();
        let outpost = Outpost::make(lab, OUTPOST, &hosts)?;
        let mut monitors = Monitor::deployed(FILES)?;
        monitors.push(Monitor::plain(
            api::upgrade::NAMESPACE,
            "managed-upgrade-operator",
            "http-metrics",
        ));
        let mut scrapes: Vec<Value> = monitors.iter().map(Monitor::config).collect();
        scrapes.extend(others.iter().map(|(name, address)| {
            let targets = json!([{ "targets": [address.to_string()] }]);
            json!({ "job_name": name, "static_configs": targets })
        }));
        let targets = Targets::follow(cluster, monitors, &dir.join(TARGETS))?;
        let settings = AlertSettings {
            alerts: &ALERTS,
            scrapes,
            interval_secs: INTERVAL_SECS,
        };
        let servers = AlertServers::start(&dir, Some(outpost), &settings).await?;
        let querier = querier(cluster, &services, &dir, servers.prometheus).await?;
        Ok(Self {
            servers,
            _querier: querier,
            _targets: targets,
        })
    }
}

/// Provides the certificate of a Service.
async fn certify(
    cluster: &Cluster,
    services: &Authority,
    dir: &Path,
    (secret, service, namespace): (&str, &str, &str),
) -> Result<()> {
    let pair = dir.join(service);
    services.issue_service(&pair, &format!("{service}.{namespace}.svc"))?;
    let read = |end| fs::read_to_string(pair.with_extension(end));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": secret, "namespace": namespace },
        "stringData": { "tls.crt": read("crt")?, "tls.key": read("key")? },
    });
    cluster.apply(&secret.to_string()).await
}

/// Makes Prometheus the Service that clients of the cluster's metrics know, and has the hosts of
/// the control plane trust it.
async fn querier(
    cluster: &Cluster,
    services: &Authority,
    dir: &Path,
    prometheus: SocketAddr,
) -> Result<TlsDoor> {
    let (name, port) = QUERIER;
    let pair = dir.join(name);
    services.issue_service(&pair, &format!("{name}.{NAMESPACE}.svc.cluster.local"))?;
    let address = cluster.host_lab()?.lab.address();
    let at = (address, lab::free_address()?.port()).into();
    let door = TlsDoor::open(at, &pair, prometheus).await?;
    let ip = address.to_string();
    let metadata = json!({ "name": name, "namespace": NAMESPACE });
    let pod = json!({ "kind": "Pod", "name": name, "namespace": NAMESPACE });
    let listens = json!([{ "name": "web", "port": door.address.port() }]);
    for object in [
        json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        }),
        // The API server's proxy leads to pods only. No node runs this one, and none is to.
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {
                "schedulerName": "none",
                "containers": [{ "name": "prometheus", "image": "prometheus" }],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": { "ports": [{ "name": "web", "port": port }] },
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
            "subsets": [{ "addresses": [{ "ip": ip, "targetRef": pod }], "ports": listens }],
        }),
    ] {
        cluster.apply(&object.to_string()).await?;
    }
    let pods = Api::<Pod>::namespaced(cluster.objects().client().clone(), NAMESPACE);
    let status = json!({ "status": {
        "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{
            "name": "prometheus", "image": "prometheus", "imageID": "", "ready": true,
            "restartCount": 0,
        }],
    } });
    let params = PatchParams::default();
    pods.patch_status(name, &params, &Patch::Merge(status))
        .await?;
    for host in cluster.hosts() {
        if host.name().starts_with(crate::CONTROL_PLANE_POOL) {
            write(&host.etc_of_booted()?, AUTHORITIES, &services.pem)?;
        }
    }
    Ok(door)
}

/// Keeps the files with targets as pods are. Dropped, it ends.
#[derive(Debug)]
struct Targets(JoinHandle<()>);

impl Targets {
    fn follow(cluster: &Cluster, monitors: Vec<Monitor>, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let (client, dir) = (cluster.objects().client().clone(), dir.to_owned());
        Ok(Self(tokio::spawn(async move {
            loop {
                for monitor in &monitors {
                    // What cannot be read now is read in the next turn.
                    if let Ok(targets) = monitor.targets(&client).await {
                        write(&dir, &monitor.file(), &targets.to_string()).ok();
                    }
                }
                tokio::time::sleep(FOLLOW_EVERY).await;
            }
        })))
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Writes a file at once: Prometheus reads it at any time.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
fn write(dir: &Path, file: &str, text: &str) -> Result<()> {
    let (path, partial) = (dir.join(file), dir.join(format!("{file}.partial")));
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_of_the_services_that_monitors_name() {
        let monitors = Monitor::deployed(FILES).unwrap();
        let scrapes: Vec<Value> = monitors.iter().map(Monitor::config).collect();
        for (_, service, namespace) in SERVING {
            let mut jobs = scrapes.iter();
            let job = jobs.find(|scrape| scrape["job_name"] == service).unwrap();
            let name = job["tls_config"]["server_name"].as_str().unwrap();
            assert_eq!(name, format!("{service}.{namespace}.svc"));
        }
    }
}
