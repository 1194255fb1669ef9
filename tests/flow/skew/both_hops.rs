//! The control plane goes over two minor releases while workers, whose kubelets are one minor
//! release older than the API server, are paused. Then each of them is updated, by one reboot.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use api::config::control_plane_only::CONTROL_PLANE_ONLY;
use api::config::{ClusterOperator, ClusterVersion, cluster_version};
use api::machineconfiguration::annotation;
use jiff::Timestamp;
use kube::Api;
use lab::control_plane::{Older, Process};
use lab::tree::Overlay;
use observer::host::Fact;
use serde_json::{Value, json};
use testbed::config::Config;
use testbed::{
    Cluster, NodeSpec, Printed, Programs, ReleaseKey, SOON, SignatureServer, Testbed,
    complete_release, logs, objects, until,
};

use crate::judge;
use crate::release::{ReleaseTree, push, release, write};

const POOL: &str = "worker";
const NODES: [&str; 3] = ["worker-0", "worker-1", "worker-2"];

/// The release that runs, of which only the pull spec exists; that between; that at the end.
const FROM: &str = "4.2.0";
const THROUGH: &str = "4.3.0";
const TO: &str = "4.4.0";
const IMAGE: &str = "registry.example/release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Time that a run waits for all of it.
const WAIT_SECS: &str = "1500";

struct Site {
    cluster: Cluster,
    key: ReleaseKey,
    server: SignatureServer,
    dir: PathBuf,
}

impl Site {
    /// A cluster at a release, with no gate before the next minor releases.
    async fn start() -> Result<Self> {
        let dir = logs::folder("skew", "both-hops");
        let nodes = NODES.map(|name| NodeSpec::new(name).kubelet(Older::V35));
        let testbed = nodes.into_iter().fold(Testbed::new(&dir), Testbed::node);
        let cluster = testbed.start().await?;
        let control_plane = cluster.control_plane();
        complete_release(control_plane, FROM, IMAGE).await?;
        // The testbed has the other.
        control_plane.kubectl(&["create", "namespace", "openshift-config-managed"])?;
        for (name, namespace) in [
            ("admin-gates", "openshift-config-managed"),
            ("admin-acks", "openshift-config"),
        ] {
            let namespace = format!("--namespace={namespace}");
            control_plane.kubectl(&["create", "configmap", name, &namespace])?;
        }
        // Some operator, without which nothing is known of how far an update is.
        let operators: Api<ClusterOperator> = Api::all(cluster.objects().client().clone());
        let operator = json!({ "metadata": { "name": "alpha" }, "spec": {} });
        objects::create(&operators, operator).await?;
        let well = [("Available", "True", ""), ("Degraded", "False", "")];
        objects::report(&operators, "alpha", FROM, &well).await?;
        Ok(Self {
            cluster,
            key: ReleaseKey::make()?,
            server: SignatureServer::start().await?,
            dir: dir.canonicalize()?,
        })
    }

    /// Files of a release that brings one ConfigMap; and, with one, the workers' OS.
    fn release(&self, version: &str, os: Option<&str>) -> Result<ReleaseTree> {
        let mut files = release(version, &[&self.key], &self.server.address)?;
        // Neither has anything to run here.
        files.retain(|path, _| {
            !path.ends_with("deployment.json") && !path.ends_with("operator.json")
        });
        let include = "include.release.openshift.io/self-managed-high-availability";
        let annotations = json!({ include: "true" });
        // A release has manifests of the version operator.
        let own = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "own", "namespace": "default", "annotations": annotations }
        });
        let path = "manifests/0000_00_cluster-version-operator_03_own.json";
        files.insert(path.to_owned(), own.to_string());
        if let Some(os) = os {
            let mut config = Config::new().os(os).object("98-release", POOL);
            config["metadata"]["annotations"] = annotations;
            let path = "release-manifests/0000_80_machine-config_50_workers.json";
            files.insert(path.to_owned(), config.to_string());
        }
        Ok(files)
    }

    /// Puts a signed release into the registry; its pull spec.
    async fn publish(&self, version: &str, os: &str) -> Result<String> {
        let files = self.release(version, Some(os))?;
        let registry = self.cluster.host_lab()?.registry.location();
        let place = format!("{registry}/releases");
        let digest = push(&files, &format!("{place}:{version}")).await?;
        self.server.put(&digest, self.key.sign(&digest)?);
        Ok(format!("{place}@{digest}"))
    }

    /// Serves the graph with both hops, and has the cluster read it.
    async fn offer(&self, through: &str, to: &str) -> Result<()> {
        let node = |version: &str, image: &str| json!({ "version": version, "payload": image });
        let graph = json!({
            "version": 1,
            "nodes": [node(FROM, IMAGE), node(THROUGH, through), node(TO, to)],
            "edges": [[0, 1], [1, 2]],
        });
        self.server.serve("/graph", Some(&graph));
        let spec = json!({ "channel": "eus-4.4", "upstream": self.server.at("/graph") });
        objects::merge(
            &self.versions(),
            cluster_version::NAME,
            &json!({ "spec": spec }),
        )
        .await
    }

    fn versions(&self) -> Api<ClusterVersion> {
        Api::all(self.cluster.objects().client().clone())
    }

    /// Starts the version operator of the release that runs, and waits until the first hop is
    /// offered.
    async fn run(&self) -> Result<Process> {
        let payload = self.dir.join("payload");
        write(&self.release(FROM, None)?, &payload)?;
        let kubeconfig = self.cluster.control_plane().admin_kubeconfig();
        let arguments = [
            "start".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--release-image={IMAGE}"),
            format!("--payload={}", payload.display()),
            format!("--payloads={}", self.dir.join("payloads").display()),
            "--leader-elect=false".to_owned(),
            "--interval-secs=4".to_owned(),
            "--retrieval=pull".to_owned(),
            "--insecure-registries".to_owned(),
            "--metrics-url=127.0.0.1:0".to_owned(),
            "--v=4".to_owned(),
        ];
        let program = Programs::built()?.path("cvo")?;
        let process = Process::start("cvo", &program, arguments, &self.dir)?;
        until("the first hop to be offered", SOON, async || {
            let status = self.versions().get(cluster_version::NAME).await?.status;
            let offered = status.and_then(|status| status.available_updates);
            let versions = offered.unwrap_or_default().into_iter();
            let versions: Vec<String> = versions.map(|one| one.version).collect();
            Ok(if versions == [THROUGH] {
                Ok(())
            } else {
                Err(format!("{versions:?}"))
            })
        })
        .await?;
        Ok(process)
    }

    /// Runs `slipway`.
    fn slipway(&self, arguments: &[&str]) -> Result<Printed> {
        let kubeconfig = self.cluster.control_plane().admin_kubeconfig();
        tokio::task::block_in_place(|| testbed::slipway(&kubeconfig, arguments))
    }

    /// Boots of each host.
    fn boots(&self) -> Result<Vec<usize>> {
        let hosts = NODES.iter().map(|node| self.cluster.host(node));
        hosts.map(|host| Ok(host?.boots().len())).collect()
    }

    /// Mark and pause of the pool.
    async fn pause(&self) -> Result<(bool, Option<String>)> {
        let pool = self.cluster.objects().pool(POOL).await?;
        let annotations = pool.metadata.annotations.unwrap_or_default();
        let mark = annotations.get(annotation::PAUSED_BY).cloned();
        Ok((pool.spec.paused, mark))
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab, and builds an older version of Kubernetes"]
async fn paused_workers_with_older_kubelets_are_rebooted_once_after_two_minor_releases()
-> Result<()> {
    let site = Site::start().await?;
    for name in NODES {
        let node = site.cluster.objects().node(name).await?;
        let info = node.status.and_then(|status| status.node_info);
        let version = info
            .context("a node without a description")?
            .kubelet_version;
        let expected = Older::V35.version();
        ensure!(version.starts_with(expected), "{name} runs {version}");
    }
    let os = ["both-hops-3", "both-hops-4"]
        .map(|version| site.cluster.image(&Overlay::version(version)));
    let [between, last] = os;
    let (between, last) = (between?, last?);
    let through = site.publish(THROUGH, &between.reference).await?;
    let to = site.publish(TO, &last.reference).await?;
    site.offer(&through, &to).await?;
    let process = site.run().await?;

    let since = Timestamp::now();
    let before = site.boots()?;
    let update = ["upgrade", "--control-plane-only", "--to", TO];
    site.slipway(&[&update[..], &["--dry-run"]].concat())?
        .expect(
            0,
            &[
                "Control plane only: 4.2.0 -> 4.3.0 -> 4.4.0",
                "Paused until then: worker",
                "Dry run: nothing was changed",
            ],
        );
    ensure!(site.pause().await? == (false, None), "a dry run paused it");
    // The first run ends before the update does, as one that is killed.
    site.slipway(&[&update[..], &["--no-wait"]].concat())?
        .expect(
            5,
            &[
                "paused pools worker",
                "hop 1 of 2: requested 4.3.0",
                "run it again",
            ],
        );
    let mark = Some(annotation::CONTROL_PLANE_ONLY.to_owned());
    ensure!(site.pause().await? == (true, mark), "the pool has no mark");
    let status = site.slipway(&["upgrade", "status"])?.all();
    let line = "Control plane only: 4.2.0 -> 4.3.0 -> 4.4.0, hop ";
    ensure!(
        status.contains(line) && status.contains("pools paused: worker (since "),
        "{status}"
    );

    let done = site.slipway(&[&update[..], &["--wait-secs", WAIT_SECS]].concat())?;
    done.expect(
        0,
        &[
            "hop 2 of 2: requested 4.4.0",
            "resumed pools worker",
            "The cluster is at 4.4.0",
        ],
    );
    ensure!(
        site.pause().await? == (false, None),
        "the pool was not resumed"
    );
    let object = site.versions().get(cluster_version::NAME).await?;
    let annotations = object.metadata.annotations.unwrap_or_default();
    ensure!(
        !annotations.contains_key(CONTROL_PLANE_ONLY),
        "{annotations:?}"
    );
    let history = object.status.unwrap_or_default().history;
    let versions: Vec<&str> = history.iter().map(|one| one.version.as_str()).collect();
    ensure!(versions == [TO, THROUGH, FROM], "{versions:?}");
    for (name, before) in NODES.iter().zip(before) {
        let content = last.content.clone();
        let host = site.cluster.host(name)?;
        Fact::Booted { content }.check(host).context(*name)?;
        let boots = host.boots().len() - before;
        ensure!(boots == 1, "{name} was booted {boots} times");
    }
    let again: Value = site
        .slipway(&[&update[..], &["-o", "json"]].concat())?
        .json()?;
    ensure!(
        again == json!({ "message": "The cluster is at 4.4.0" }),
        "{again}"
    );
    drop(process);
    judge(&site.cluster, since)
}
