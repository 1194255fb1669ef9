//! What runs beside the cluster, and the managed upgrade operator in its pod.
//!
//! Real: the operator, the update service, the config server, Prometheus and Alertmanager. Played:
//! the machine API ([`crate::machines`]).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use api::config::ClusterVersion;
use api::upgrade::NAMESPACE;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use lab::control_plane::Process;
use lab::manifest;
use serde_json::{Value, json};
use testbed::{Cluster, ConfigServer, Monitoring, Programs, SOON, http, until};

use crate::machines::Machines;

/// The channel of all releases.
pub(crate) const CHANNEL: &str = "stable-1";

/// Namespaces of parts that this cluster does not have otherwise.
const NAMESPACES: &str = "
apiVersion: v1
kind: Namespace
metadata: { name: openshift-machine-api }
---
apiVersion: v1
kind: Namespace
metadata: { name: openshift-monitoring }
";

/// What the update service's graph data has.
#[derive(Clone, Debug)]
pub(crate) struct GraphData<'a> {
    /// Versions of [`CHANNEL`].
    pub(crate) versions: &'a [&'a str],
    /// A file of `blocked-edges` by name.
    pub(crate) blocked: Option<(&'a str, Value)>,
}

/// All of it, running. Dropped, it ends.
pub(crate) struct Services {
    pub(crate) config_server: ConfigServer,
    pub(crate) machines: Machines,
    pub(crate) monitoring: Monitoring,
    /// Where the update service has its graphs.
    pub(crate) graph: String,
    _update_service: Process,
}

impl Services {
    /// Starts all of it. The cluster is at the first release.
    ///
    /// # Errors
    ///
    /// A part cannot be had, or is not up in time.
    pub(crate) async fn start(
        cluster: &Cluster,
        programs: &Programs,
        out: &Path,
        graph_data: &GraphData<'_>,
    ) -> Result<Self> {
        cluster.apply(NAMESPACES).await?;
        let machines = Machines::start(cluster).await?;
        let config_server = ConfigServer::start(cluster, &out.join("config-server")).await?;
        let dir = folder(&out.join("update-service"))?;
        let (update_service, graph, status) =
            update_service(cluster, programs, &dir, graph_data).await?;
        let others = [("update-service", status)];
        let monitoring = Monitoring::start(cluster, &out.join("monitoring"), &others).await?;
        follow(cluster, &graph, graph_data.versions).await?;
        deploy(cluster, &monitoring).await?;
        Ok(Self {
            config_server,
            machines,
            monitoring,
            graph,
            _update_service: update_service,
        })
    }
}

/// The update service, which has read the releases from the lab's registry; the address of its
/// graphs, and that of its metrics.
async fn update_service(
    cluster: &Cluster,
    programs: &Programs,
    dir: &Path,
    graph_data: &GraphData<'_>,
) -> Result<(Process, String, SocketAddr)> {
    let address = || -> Result<SocketAddr> {
        let address = cluster.host_lab()?.lab.address();
        Ok((address, lab::free_address()?.port()).into())
    };
    let (address, status) = (address()?, address()?);
    let data = folder(&dir.join("graph-data"))?;
    write(&data, "version", "1.1.0")?;
    write(&folder(&data.join("raw"))?, "metadata.json", "{}")?;
    let channel = json!({ "name": CHANNEL, "versions": graph_data.versions });
    let channels = folder(&data.join("channels"))?;
    write(&channels, &format!("{CHANNEL}.yaml"), &channel.to_string())?;
    let edges = folder(&data.join("blocked-edges"))?;
    if let Some((name, edge)) = &graph_data.blocked {
        write(&edges, name, &edge.to_string())?;
    }
    let registry = cluster.host_lab()?.registry.location();
    let repository = format!("{registry}/slipway/release");
    let settings = json!({
        "serve": { "listen": address.to_string(), "status": status.to_string() },
        "releases": { "repository": repository, "insecure": true },
        "graphData": { "directory": data },
        "scrape": { "intervalSeconds": 5, "timeoutSeconds": 60 },
    });
    let file = write(dir, "settings.yaml", &settings.to_string())?;
    let arguments = ["start".to_owned(), format!("--config={}", file.display())];
    let program = programs.path("update-service")?;
    let process = Process::start("update-service", &program, arguments, dir)?;
    let url = format!("http://{status}/readyz");
    until("the update service", SOON, async || {
        Ok(http::get(&url).map(drop).map_err(|error| error.to_string()))
    })
    .await?;
    Ok((process, format!("http://{address}/graph"), status))
}

/// Has the cluster ask the update service, and waits until it has an advice on all versions but its
/// own, which is the first.
async fn follow(cluster: &Cluster, graph: &str, versions: &[&str]) -> Result<()> {
    let api = Api::<ClusterVersion>::all(cluster.objects().client().clone());
    let spec = json!({ "upstream": graph, "channel": CHANNEL });
    let patch = Patch::Merge(json!({ "spec": spec }));
    let params = PatchParams::default();
    api.patch("version", &params, &patch).await?;
    let wanted = versions.get(1..).unwrap_or_default();
    until(&format!("{wanted:?} to be offered"), SOON, async || {
        let status = api.get("version").await?.status.unwrap_or_default();
        let available = status.available_updates.into_iter().flatten();
        let conditional = status.conditional_updates.into_iter();
        let offered: Vec<String> = available
            .map(|update| update.version)
            .chain(conditional.map(|update| update.release.version))
            .collect();
        let is_offered = |version: &&str| offered.iter().any(|it| it == version);
        Ok(if wanted.iter().all(is_offered) {
            Ok(())
        } else {
            Err(format!("offered: {offered:?}"))
        })
    })
    .await
}

/// Runs the managed upgrade operator in its pod.
async fn deploy(cluster: &Cluster, monitoring: &Monitoring) -> Result<()> {
    let servers = &monitoring.servers;
    let more = [
        format!("--promql-url=http://{}", servers.prometheus),
        format!("--alertmanager-url=http://{}", servers.alertmanager),
    ];
    let (mut definitions, mut others) = (Vec::new(), Vec::new());
    for mut object in cluster.deployed("managed-upgrade", "slipway-muo").await? {
        let is = |kind: &str| object.types.as_ref().is_some_and(|it| it.kind == kind);
        if is("CustomResourceDefinition") {
            definitions.push(object);
            continue;
        }
        if is("Deployment") {
            arguments(&mut object)?.extend(more.iter().cloned().map(Value::from));
        }
        others.push(object);
    }
    let client = cluster.objects().client();
    manifest::apply(client, &definitions).await?;
    manifest::apply(client, &others).await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    until("the managed upgrade operator", SOON, async || {
        let all = deployments.list(&ListParams::default()).await?;
        let is_ready = |it: &Deployment| {
            let status = it.status.as_ref();
            status.and_then(|status| status.ready_replicas) == Some(1)
        };
        Ok(if !all.items.is_empty() && all.items.iter().all(is_ready) {
            Ok(())
        } else {
            Err("its pod is not ready".to_owned())
        })
    })
    .await
}

/// Arguments of the first container.
fn arguments(object: &mut DynamicObject) -> Result<&mut Vec<Value>> {
    let arguments = "/spec/template/spec/containers/0/args";
    let arguments = object.data.pointer_mut(arguments);
    arguments
        .and_then(Value::as_array_mut)
        .context("the Deployment's container has no arguments")
}

fn folder(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.canonicalize()?)
}

#[expect(clippy::disallowed_methods, reason = "a run's own files")]
fn write(dir: &Path, file: &str, text: &str) -> Result<PathBuf> {
    let path = dir.join(file);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
