//! `slipway upgrade preflight` where all of it is real: the release's controller renders in its
//! Job, and the daemon of a node fetches and rehearses. All faults are reported at once, and
//! nothing is changed.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

#[path = "update_cluster/release.rs"]
mod release;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use api::config::preflight::{PREFLIGHT, PREFLIGHT_RESULT, PreflightRecord};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, NAMESPACE, annotation};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use lab::control_plane::Process;
use lab::tree::Overlay;
use observer::host;
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::{
    Cluster, DONE_WITHIN, NodeSpec, Programs, ReleaseKey, SOON, SignatureServer, Testbed,
    complete_release, logs, objects, until, workspace,
};

use crate::release::{ReleaseTree, push, release, write};

const NODE: &str = "worker-0";

/// The releases: the one that runs, of which only the pull spec exists, and the next one.
const VERSION: &str = "4.2.0";
const IMAGE: &str = "registry.example/release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const NEXT: &str = "4.2.1";

/// A pool without nodes, which takes what workers have and its own.
const EDGE: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: { name: edge }
spec:
  machineConfigSelector:
    matchExpressions:
    - { key: machineconfiguration.openshift.io/role, operator: In, values: [worker, edge] }
  nodeSelector: { matchLabels: { node-role.kubernetes.io/edge: '' } }
";

struct Site {
    cluster: Cluster,
    key: ReleaseKey,
    server: SignatureServer,
    dir: PathBuf,
    /// Pull specs of the components' images.
    images: BTreeMap<&'static str, String>,
}

impl Site {
    /// A cluster at a release. The node is the only one, so that the Job runs on it, too.
    async fn start() -> Result<Self> {
        let dir = logs::folder("preflight", "rehearsed");
        let node = NodeSpec::new(NODE).containers();
        let cluster = Testbed::new(&dir).objects(EDGE).node(node).start().await?;
        cluster
            .objects()
            .set_role(NODE, "control-plane", true)
            .await?;
        let control_plane = cluster.control_plane();
        let authority = String::from_utf8(control_plane.ca_pem().to_vec())?;
        cluster
            .publish_certificates(&[&authority, &authority], &[], false)
            .await?;
        complete_release(control_plane, VERSION, IMAGE).await?;
        // The testbed has the other.
        control_plane.kubectl(&["create", "namespace", "openshift-config-managed"])?;
        Ok(Self {
            images: cluster.push_components(None).await?,
            cluster,
            key: ReleaseKey::make()?,
            server: SignatureServer::start().await?,
            dir: dir.canonicalize()?,
        })
    }

    /// Files of a release that brings one ConfigMap.
    fn release(&self, version: &str) -> Result<ReleaseTree> {
        let mut files = release(version, &[&self.key], &self.server.address)?;
        // Neither has anything to run here.
        files.retain(|path, _| {
            !path.ends_with("deployment.json") && !path.ends_with("operator.json")
        });
        let own = included(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "own", "namespace": "default" }
        }));
        let path = "manifests/0000_90_own_01_config.json";
        files.insert(path.to_owned(), own.to_string());
        Ok(files)
    }

    /// The next release, with the components' images and an OS for the workers.
    fn next(&self, os: &str) -> Result<ReleaseTree> {
        let mut files = self.release(NEXT)?;
        let maps = std::fs::read_to_string(workspace().join("deploy/release/images.yaml"))?;
        let mut maps = maps.replace("0.0.1-snapshot", NEXT);
        for (name, image) in self.images.iter().chain([(&"slipway-os", &os.to_owned())]) {
            maps = maps.replace(&format!(": {name}\n"), &format!(": {image}\n"));
            maps = maps.replace(&format!("\"{name}\""), &format!("\"{image}\""));
        }
        let path = "release-manifests/0000_80_machine-config_40_images.yaml";
        files.insert(path.to_owned(), maps);
        // The workers' own MachineConfig names an OS, which comes before that of the ConfigMap.
        let workers = Config::new().os(os).object("98-release", "worker");
        put(&mut files, "80_machine-config_50_workers", &workers);
        Ok(files)
    }

    /// Puts a signed release into the registry; its pull spec.
    async fn publish(&self, name: &str, files: &ReleaseTree) -> Result<String> {
        let registry = self.cluster.host_lab()?.registry.location();
        let place = format!("{registry}/{name}");
        let digest = push(files, &format!("{place}:latest")).await?;
        self.server.put(&digest, self.key.sign(&digest)?);
        Ok(format!("{place}@{digest}"))
    }

    /// Starts the version operator of the release that runs, and waits until it has applied it.
    async fn run(&self) -> Result<Process> {
        let payload = self.dir.join("payload");
        write(&self.release(VERSION)?, &payload)?;
        let kubeconfig = self.cluster.control_plane().admin_kubeconfig();
        let arguments = [
            "start".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--release-image={IMAGE}"),
            format!("--payload={}", payload.display()),
            format!("--payloads={}", self.dir.join("payloads").display()),
            "--leader-elect=false".to_owned(),
            "--retrieval=pull".to_owned(),
            "--insecure-registries".to_owned(),
            "--metrics-url=127.0.0.1:0".to_owned(),
            "--v=4".to_owned(),
        ];
        let process = Process::start(
            "cvo",
            &Programs::built()?.path("cvo")?,
            arguments,
            &self.dir,
        )?;
        let log = self.dir.join("cvo.log");
        until("the release that runs to be applied", SOON, async || {
            let is_applied = std::fs::read_to_string(&log)?.contains("applied the release");
            Ok(is_applied
                .then_some(())
                .ok_or_else(|| "it is not".to_owned()))
        })
        .await?;
        Ok(process)
    }

    /// Runs `slipway upgrade preflight`: its exit code, and what it printed.
    fn preflight(&self, arguments: &[&str]) -> Result<(Option<i32>, String)> {
        let kubeconfig = self.cluster.control_plane().admin_kubeconfig();
        let arguments = [&["upgrade", "preflight"], arguments].concat();
        let printed = tokio::task::block_in_place(|| testbed::slipway(&kubeconfig, &arguments))?;
        Ok((printed.code, printed.all()))
    }

    /// The outcome on the ClusterVersion.
    fn outcome(&self) -> Result<PreflightRecord> {
        let get = ["get", "clusterversion", "version", "--output=json"];
        let object: Value = serde_json::from_str(&self.cluster.control_plane().kubectl(&get)?)?;
        let text = object["metadata"]["annotations"][PREFLIGHT_RESULT].as_str();
        Ok(serde_json::from_str(text.context("no outcome")?)?)
    }

    /// What a preflight leaves alone: MachineConfigs, pools, Jobs, the node, and what its host
    /// boots.
    async fn state(&self) -> Result<Value> {
        let client = self.cluster.objects().client();
        let all = ListParams::default();
        let configs: Api<MachineConfig> = Api::all(client.clone());
        let configs = configs.list(&all).await?.items.into_iter();
        let configs = configs.map(|one| json!([one.metadata.name, one.metadata.generation]));
        let pools: Api<MachineConfigPool> = Api::all(client.clone());
        let pools = pools.list(&all).await?.items.into_iter();
        let pools = pools.map(|one| json!([one.metadata.name, one.metadata.annotations, one.spec]));
        let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
        let node = self.cluster.objects().node(NODE).await?;
        let host = self.cluster.host(NODE)?;
        let mut files = host::snapshot(host)?;
        // Containers keep their own below `/var`.
        files.retain(|path, _| !path.starts_with("/var/"));
        Ok(json!({
            "configs": configs.collect::<Vec<_>>(), "pools": pools.collect::<Vec<_>>(),
            "jobs": jobs.list(&all).await?.items.len(),
            "node": [node.metadata.annotations, node.metadata.labels, node.spec],
            "boots": host.boots().len(), "files": files,
        }))
    }

    /// Waits until all is as it was.
    async fn is_as(&self, before: &Value) -> Result<()> {
        until("the state before", SOON, async || {
            let after = self.state().await?;
            let differ = |part: &&String| after[part.as_str()] != before[part.as_str()];
            let parts = before
                .as_object()
                .into_iter()
                .flat_map(|parts| parts.keys());
            let differ: Vec<String> = parts
                .filter(differ)
                .map(|part| format!("{part}: {:#} was {:#}", after[part], before[part]))
                .collect();
            Ok(if differ.is_empty() {
                Ok(())
            } else {
                Err(differ.join("\n"))
            })
        })
        .await
    }
}

/// As a manifest that each cluster gets.
fn included(mut object: Value) -> Value {
    let include = json!({ "include.release.openshift.io/self-managed-high-availability": "true" });
    object["metadata"]["annotations"] = include;
    object
}

fn put(files: &mut ReleaseTree, name: &str, object: &Value) {
    let path = format!("release-manifests/0000_{name}.json");
    files.insert(path, included(object.clone()).to_string());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn all_that_is_wrong_with_a_release_is_said_and_nothing_is_changed() -> Result<()> {
    let site = Site::start().await?;
    let process = site.run().await?;
    let image = site
        .cluster
        .image(&Overlay::version("rehearsed").ballast(1 << 20, 18))?;
    let before = site.state().await?;

    // Two manifests that the API server rejects, a pool that cannot be rendered, and an OS that is
    // not there.
    let (repository, _) = image.reference.split_once('@').context("no digest")?;
    let missing = format!("{repository}@sha256:{}", "0".repeat(64));
    let mut files = site.next(&missing)?;
    let port = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "beta", "namespace": "default" },
        "spec": { "ports": [{ "port": 70000 }] }
    });
    put(&mut files, "50_beta_05_service", &port);
    let gamma = json!({
        "apiVersion": "gamma.example/v1", "kind": "Gamma", "metadata": { "name": "one" }
    });
    put(&mut files, "50_beta_06_gamma", &gamma);
    let relative = File::new("etc/relative", "");
    let edge = Config::new().files([relative]).object("99-edge", "edge");
    put(&mut files, "80_machine-config_51_edge", &edge);
    let bad = site.publish("bad", &files).await?;
    let (code, output) = site.preflight(&["--to-image", &bad])?;
    ensure!(code == Some(5), "{code:?}: {output}");
    let node = format!("MachineConfigPool worker: node {NODE} cannot fetch and rehearse");
    for words in [
        ": 4 failures",
        "0000_50_beta_05_service.json",
        "0000_50_beta_06_gamma.json",
        "MachineConfigPool edge: ",
        "MachineConfig \"99-edge\": spec.config: storage.files[0]",
        node.as_str(),
    ] {
        ensure!(output.contains(words), "{words:?} is not in:\n{output}");
    }
    site.is_as(&before).await?;

    // Corrected, the node has fetched and rehearsed it.
    let good = site.publish("good", &site.next(&image.reference)?).await?;
    let since = Timestamp::now();
    let (code, output) = site.preflight(&["--to-image", &good])?;
    ensure!(
        code == Some(0) && output.contains(": passed"),
        "{code:?}: {output}"
    );
    let record = site.outcome()?;
    let pools: Vec<[&str; 2]> = record
        .pools
        .iter()
        .map(|pool| [pool.pool.as_str(), pool.node.as_str()])
        .collect();
    ensure!(pools == [["edge", ""], ["worker", NODE]], "{output}");
    let fetches = site.cluster.fetches()?.remove(NODE).unwrap_or_default();
    let mut layers = fetches
        .iter()
        .filter(|request| request.started > since && request.is_blob_fetch());
    ensure!(
        layers.any(|request| request.path.contains("/os/")),
        "{fetches:?}"
    );
    site.is_as(&before).await?;
    let is_at_rest = |node: &Node| {
        let says = |key| objects::annotation(node, key);
        [says(annotation::STATE), says(annotation::PHASE)] == ["Done", "Idle"]
            && objects::is_in_service(node)
    };
    let all = site.cluster.objects();
    all.node_is(NODE, "at rest", DONE_WITHIN, is_at_rest)
        .await?;

    let (code, output) = site.preflight(&["--clear"])?;
    ensure!(code == Some(0), "{output}");
    let get = ["get", "clusterversion", "version", "--output=json"];
    let object = site.cluster.control_plane().kubectl(&get)?;
    ensure!(!object.contains(PREFLIGHT), "{object}");
    drop(process);
    Ok(())
}
