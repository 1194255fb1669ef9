//! A real Prometheus reads the daemons as `deploy/monitoring` says, and all others are refused.

#![expect(
    clippy::indexing_slicing,
    reason = "a manifest without a field fails the test"
)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::NAMESPACE;
use api::monitoring::METRICS_READER;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use lab::control_plane::Process;
use lab::{free_address, manifest};
use serde_json::{Value, json};
use testbed::{Authority, Cluster, SOON, until, workspace};

/// Key and value of the label by which the monitor selects the Service.
const LABEL: &str = "k8s-app";

/// The only object of a file of `deploy/monitoring`.
fn deployed(file: &str) -> Result<DynamicObject> {
    let path = workspace().join("deploy/monitoring").join(file);
    manifest::load(&path)?.pop().context("an empty file")
}

/// Metrics that the daemon's alerts are about.
fn metrics_of_alerts() -> Result<BTreeSet<String>> {
    let rules = deployed("daemon-alerts.yaml")?;
    let groups = rules.data["spec"]["groups"].as_array().context("groups")?;
    let rules = groups
        .iter()
        .filter_map(|group| group["rules"].as_array())
        .flatten();
    rules
        .map(|rule| {
            let expression = rule["expr"].as_str().context("expr")?;
            let metric = expression.split(' ').next().context("a metric")?;
            ensure!(metric.starts_with("mcd_"), "{expression}");
            Ok(metric.to_owned())
        })
        .collect()
}

/// Where the cluster's Prometheus keeps what it shows and trusts.
struct Files {
    dir: PathBuf,
    /// Vouches for the daemons, as OpenShift's operator of service certificates does.
    services: Authority,
}

/// Provides the certificate of the daemons' Service. It is there before their pods are.
pub(crate) async fn provide_certificate(cluster: &Cluster, dir: &Path) -> Result<Authority> {
    let services = Authority::make("signer of services")?;
    let monitor = deployed("daemon-monitor.yaml")?;
    let name = monitor.data["spec"]["endpoints"][0]["tlsConfig"]["serverName"].as_str();
    let pair = dir.join("serving");
    services.issue_service(&pair, name.context("serverName")?)?;
    let read = |end| std::fs::read_to_string(pair.with_extension(end));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": "proxy-tls", "namespace": NAMESPACE },
        "stringData": { "tls.crt": read("crt")?, "tls.key": read("key")? },
    });
    cluster.apply(&secret.to_string()).await?;
    Ok(services)
}

/// Addresses that the monitor leads to, with the nodes of their pods.
async fn targets(cluster: &Cluster, monitor: &Value) -> Result<Vec<(SocketAddr, String)>> {
    let client = cluster.objects().client();
    let selected = monitor["selector"]["matchLabels"][LABEL].as_str();
    let selected = format!("{LABEL}={}", selected.context("a label")?);
    let services = Api::<Service>::namespaced(client.clone(), NAMESPACE);
    let selected = ListParams::default().labels(&selected);
    let mut found = Vec::new();
    for service in services.list(&selected).await? {
        let endpoints = Api::<Endpoints>::namespaced(client.clone(), NAMESPACE);
        let endpoints = endpoints.get(&service.name_any()).await?;
        for subset in endpoints.subsets.into_iter().flatten() {
            let ports = subset.ports.into_iter().flatten();
            let mut ports = ports
                .filter(|port| port.name.as_deref() == monitor["endpoints"][0]["port"].as_str());
            let port = ports.next().context("no port of the monitor's name")?.port;
            for address in subset.addresses.into_iter().flatten() {
                let at = SocketAddr::new(address.ip.parse()?, u16::try_from(port)?);
                found.push((at, address.node_name.unwrap_or_default()));
            }
        }
    }
    Ok(found)
}

impl Files {
    /// Asks a target by curl, with a PEM file of a client's certificate and key; the status.
    fn ask(&self, target: SocketAddr, server_name: &str, client: Option<&Path>) -> Result<String> {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "--noproxy",
            "*",
        ])
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
        .arg("--resolve")
        .arg(format!("{server_name}:{}:{}", target.port(), target.ip()))
        .arg("--cacert")
        .arg(self.dir.join("services.crt"));
        if let Some(client) = client {
            curl.arg("--cert").arg(client);
        }
        let output = curl
            .arg(format!("https://{server_name}:{}/metrics", target.port()))
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "curl: {}", error.trim());
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The settings that Prometheus' operator makes of the monitor, with the targets found.
fn settings(monitor: &Value, targets: &[(SocketAddr, String)]) -> Value {
    let endpoint = &monitor["endpoints"][0];
    let relabelings = endpoint["relabelings"].as_array().cloned();
    let relabelings: Vec<_> = (relabelings.unwrap_or_default().iter())
        .map(|rule| {
            json!({
                "source_labels": rule["sourceLabels"], "target_label": rule["targetLabel"],
            })
        })
        .collect();
    let groups: Vec<_> = (targets.iter())
        .map(|(target, node)| {
            let labels = json!({ "__meta_kubernetes_pod_node_name": node });
            json!({ "targets": [target.to_string()], "labels": labels })
        })
        .collect();
    json!({
        "global": { "scrape_interval": "1s" },
        "scrape_configs": [{
            "job_name": "machine-config-daemon",
            "scheme": endpoint["scheme"],
            "tls_config": {
                "server_name": endpoint["tlsConfig"]["serverName"],
                "ca_file": "services.crt", "cert_file": "client.pem", "key_file": "client.pem",
            },
            "relabel_configs": relabelings,
            "static_configs": groups,
        }],
    })
}

/// The nodes that Prometheus has a metric of.
fn nodes_with(prometheus: SocketAddr, metric: &str) -> Result<BTreeSet<String>> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--noproxy", "*", "--get"])
        .arg("--data-urlencode")
        .arg(format!("query=count by (node) ({metric})"))
        .arg(format!("http://{prometheus}/api/v1/query"))
        .output()?;
    let response: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("Prometheus does not respond: {}", error.trim())
    })?;
    let series = response["data"]["result"].as_array().context("no result")?;
    let nodes = series
        .iter()
        .filter_map(|one| one["metric"]["node"].as_str());
    Ok(nodes.map(ToOwned::to_owned).collect())
}

/// Checks that Prometheus has all that alerts are about, of these nodes, and that its certificate
/// is needed for that.
pub(crate) async fn check(
    cluster: &Cluster,
    services: Authority,
    dir: &Path,
    nodes: [&str; 2],
) -> Result<()> {
    let dir = dir.join("prometheus");
    std::fs::create_dir_all(&dir)?;
    let files = Files {
        dir: dir.canonicalize()?,
        services,
    };
    let write = |name: &str, text: &str| std::fs::write(files.dir.join(name), text);
    write("services.crt", &files.services.pem)?;
    write(
        "client.pem",
        &cluster.signer()?.client(METRICS_READER, "test")?,
    )?;
    write(
        "other.pem",
        &cluster.signer()?.client("system:admin", "system:masters")?,
    )?;
    let stranger = Authority::make("another signer")?;
    write("stranger.pem", &stranger.client(METRICS_READER, "test")?)?;

    let monitor = deployed("daemon-monitor.yaml")?.data["spec"].take();
    // A node may be done before the kubelet's next readiness probe of its daemon.
    let targets = until("a target on each node", SOON, async || {
        let targets = targets(cluster, &monitor).await?;
        let found: BTreeSet<_> = targets.iter().map(|(_, node)| node.as_str()).collect();
        Ok(if found == BTreeSet::from(nodes) {
            Ok(targets)
        } else {
            Err(format!("{targets:?}"))
        })
    })
    .await?;
    write("prometheus.yml", &settings(&monitor, &targets).to_string())?;
    let address = free_address()?;
    let arguments = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        format!("--web.listen-address={address}"),
    ];
    let program = Path::new("prometheus");
    let _prometheus = Process::start("prometheus", program, arguments, &files.dir)?;
    let metrics = metrics_of_alerts()?;
    ensure!(metrics.len() >= 3, "{metrics:?}");
    until("Prometheus to read the daemons", SOON, async || {
        for metric in &metrics {
            match nodes_with(address, metric) {
                Ok(has) if has.iter().map(String::as_str).eq(nodes) => {}
                other => return Ok(Err(format!("{metric}: {other:?}"))),
            }
        }
        Ok(Ok(()))
    })
    .await?;

    let name = monitor["endpoints"][0]["tlsConfig"]["serverName"].as_str();
    let name = name.context("serverName")?;
    for (target, node) in targets {
        let ask = |client: Option<&str>| {
            let client = client.map(|file| files.dir.join(file));
            files.ask(target, name, client.as_deref())
        };
        ensure!(ask(Some("client.pem"))? == "200", "{node}");
        ensure!(ask(None)? == "401", "{node}");
        ensure!(ask(Some("other.pem"))? == "403", "{node}");
        // The name does not help where the signer is unknown.
        ensure!(ask(Some("stranger.pem")).is_err(), "{node}");
    }
    Ok(())
}
