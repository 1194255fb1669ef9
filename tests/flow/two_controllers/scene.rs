//! A pool of nodes without hosts, and what their daemons would write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{NodeState, annotation};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::control_plane::{ControlPlane, Options, Parts, Process};
use lab::manifest;
use serde_json::{Value, json};
use testbed::cluster::objects::{self, Objects, until};
use testbed::cluster::{Binaries, DONE_WITHIN, account};
use testbed::logs;

const NODES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];
const POOL: &str = "worker";
pub(crate) const ACCOUNT: &str = "machine-config-controller";

/// Folder of each component's objects.
pub(crate) const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// How many nodes may be out at once.
pub(crate) const BUDGET: usize = 2;

/// How long an update takes here.
const UPDATE: Duration = Duration::from_millis(200);

/// How often a node is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(30);

/// How long a rollout of all nodes may take; and with a leader's lease to run out.
pub(crate) const WITHIN: Duration = DONE_WITHIN;

/// What a leader logs first.
const WORKS: &str = "this replica works";

/// What a controller logs that is about to claim a round.
const DECIDED: &str = "nodes to tell";

/// A control plane with a pool of nodes.
pub(crate) struct Scene {
    pub(crate) control_plane: ControlPlane,
    pub(crate) objects: Objects,
    nodes: Api<Node>,
    dir: PathBuf,
}

impl Scene {
    pub(crate) async fn start(name: &str, definitions: &Path) -> Result<Self> {
        let dir = logs::folder("two-controllers", name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        let control_plane_dir = dir.join("control-plane");
        fs::create_dir_all(&control_plane_dir)?;
        let options = Options {
            dir: Some(control_plane_dir),
            parts: Parts::Api,
            ..Options::default()
        };
        let control_plane =
            tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await??;
        let client = control_plane.client().await?;
        manifest::define(&client, definitions).await?;
        let deploy = Path::new(DEPLOY);
        let mut objects = manifest::load(&deploy.join("daemon/namespace.yaml"))?;
        objects.extend(manifest::component(&deploy.join("controller"))?);
        manifest::apply(&client, &objects).await?;
        let scene = Self {
            objects: Objects::new(client.clone()),
            nodes: Api::all(client),
            control_plane,
            dir,
        };
        for node in NODES {
            scene.create(node).await?;
        }
        scene.configure("00-worker", "quiet").await?;
        let pool = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigPool",
            "metadata": { "name": POOL },
            "spec": {
                "maxUnavailable": BUDGET,
                "machineConfigSelector": { "matchLabels": { api::label::ROLE: POOL } },
                "nodeSelector": { "matchLabels": { api::label::WORKER: "" } }
            }
        });
        scene.apply(&pool).await?;
        Ok(scene)
    }

    /// Makes a Node that is Ready. Without a node lifecycle controller it stays so.
    async fn create(&self, name: &str) -> Result<()> {
        let node = json!({ "metadata": { "name": name, "labels": { api::label::WORKER: "" } } });
        self.nodes
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        let ready = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }
        ] } });
        let patch = Patch::Strategic(ready);
        self.nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Replicas that have not decided anything so far.
    pub(crate) fn idle<'a>(
        &self,
        replicas: &'a BTreeMap<String, Process>,
    ) -> Result<Vec<&'a String>> {
        let mut idle = Vec::new();
        for name in replicas.keys() {
            if !self.log_of(name)?.contains(DECIDED) {
                idle.push(name);
            }
        }
        Ok(idle)
    }

    /// Starts both replicas; their logs are in the run's folder.
    pub(crate) async fn controllers(
        &self,
        arguments: &[&str],
    ) -> Result<BTreeMap<String, Process>> {
        let program = Binaries::built()?.mcc;
        let kubeconfig = self.dir.join("kubeconfig");
        account::write_kubeconfig(&self.control_plane, ACCOUNT, &kubeconfig).await?;
        let kubeconfig = kubeconfig
            .to_str()
            .context("the run's folder is not UTF-8")?;
        let start = |name: &str| {
            let fixed = [
                "start",
                "--kubeconfig",
                kubeconfig,
                "--metrics-url=127.0.0.1:0",
                "--identity",
                name,
            ];
            let arguments = [&fixed, arguments].concat();
            Ok((
                name.to_owned(),
                Process::start(name, &program, arguments, &self.dir)?,
            ))
        };
        ["mcc-0", "mcc-1"].into_iter().map(start).collect()
    }

    fn log_of(&self, replica: &str) -> Result<String> {
        Ok(fs::read_to_string(self.dir.join(format!("{replica}.log")))?)
    }

    /// Which replicas have ever worked.
    pub(crate) fn working(&self) -> Result<Vec<String>> {
        let mut working = Vec::new();
        for name in ["mcc-0", "mcc-1"] {
            if self.log_of(name)?.contains(WORKS) {
                working.push(name.to_owned());
            }
        }
        Ok(working)
    }

    pub(crate) async fn configure(&self, name: &str, argument: &str) -> Result<()> {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": { "name": name, "labels": { api::label::ROLE: POOL } },
            "spec": { "kernelArguments": [argument] }
        });
        self.apply(&config).await
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let objects = manifest::parse(&object.to_string())?;
        manifest::apply(self.objects.client(), &objects).await?;
        Ok(())
    }

    /// Gives the nodes the pool's first configuration, as if they were born in it. That configuration.
    pub(crate) async fn born(&self) -> Result<String> {
        let first = until("the first configuration", WITHIN, async || {
            let target = self.objects.target(POOL).await?;
            Ok(if target.is_empty() {
                Err("none yet".to_owned())
            } else {
                Ok(target)
            })
        })
        .await?;
        let annotations = json!({
            annotation::CURRENT_CONFIG: first,
            annotation::DESIRED_CONFIG: first,
            annotation::STATE: NodeState::Done.as_str()
        });
        for node in NODES {
            let patch = json!({ "metadata": { "annotations": annotations } });
            self.objects.patch_node(node, &patch).await?;
        }
        Ok(first)
    }

    /// Updates nodes until the pool has another target and all of them are done in it. That target.
    pub(crate) async fn rolled(&self, before: &str) -> Result<String> {
        let target = self.retargeted(before).await?;
        self.all_done(&target).await?;
        Ok(target)
    }

    /// Updates nodes until the pool has another target, and somebody was told it.
    pub(crate) async fn retargeted(&self, before: &str) -> Result<String> {
        let mut daemons = Daemons::default();
        let deadline = Instant::now() + WITHIN;
        loop {
            let nodes = daemons.look(self).await?;
            let target = self.objects.target(POOL).await?;
            let is_told =
                |node: &Node| objects::annotation(node, annotation::DESIRED_CONFIG) == target;
            if target != before && nodes.values().any(is_told) {
                return Ok(target);
            }
            ensure!(
                Instant::now() < deadline,
                "nobody was told another target than {before}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Updates nodes until all are done in `target`, and the pool says so.
    pub(crate) async fn all_done(&self, target: &str) -> Result<()> {
        let mut daemons = Daemons::default();
        let deadline = Instant::now() + WITHIN;
        loop {
            let nodes = daemons.look(self).await?;
            let pool = self.objects.pool(POOL).await?;
            let status = pool.status.unwrap_or_default();
            let is_done = nodes.values().all(|node| objects::is_done_in(node, target));
            if is_done
                && status.configuration.name() == Some(target)
                && status.updated_machine_count == 6
            {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let says: Vec<String> = nodes.values().map(objects::says).collect();
                anyhow::bail!("not all are done in {target}: {says:#?}\n{status:#?}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// What the nodes' daemons would write: Working when they see another target, Done in it a while later.
#[derive(Default)]
struct Daemons {
    began: BTreeMap<String, Instant>,
}

impl Daemons {
    /// Looks at all nodes once and writes what is due.
    async fn look(&mut self, scene: &Scene) -> Result<BTreeMap<String, Node>> {
        let nodes = scene.objects.nodes().await?;
        for (name, node) in &nodes {
            let of = |key| objects::annotation(node, key);
            let desired = of(annotation::DESIRED_CONFIG);
            if of(annotation::STATE) == "Done" && desired == of(annotation::CURRENT_CONFIG) {
                continue;
            }
            let written = match self.began.get(name) {
                None => {
                    self.began.insert(name.clone(), Instant::now());
                    json!({ annotation::STATE: "Working" })
                }
                Some(since) if since.elapsed() > UPDATE => {
                    self.began.remove(name);
                    json!({ annotation::STATE: "Done", annotation::CURRENT_CONFIG: desired })
                }
                Some(_) => continue,
            };
            let patch = json!({ "metadata": { "annotations": written } });
            scene.objects.patch_node(name, &patch).await?;
        }
        Ok(nodes)
    }
}
