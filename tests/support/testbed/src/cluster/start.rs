//! How a cluster comes up: the control plane with what an installer applies, then its nodes.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::{MachineConfig, NodeState, annotation};
use kube::api::DynamicObject;
use lab::control_plane::{ControlPlane, Options, definitions};
use lab::host::{BOOTED_WITHIN, Host, HostSpec};
use lab::registry::Registry;
use lab::tree::Tree;
use lab::{Lab, manifest};
use serde_json::json;

use super::objects::{self, Objects, until};
use super::{Binaries, Cluster, NodeSpec, SOON, controller, daemon, push};

/// Folder of each component's objects.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");

/// The pool that every cluster has.
const WORKERS: &str = include_str!("worker.yaml");

impl Cluster {
    /// Starts one with the pool `worker`, these objects and these nodes; returns when every node is
    /// Done in the first configuration of its pool, which names the image of the OS it runs.
    ///
    /// Logs of the control plane, the programs and the hosts are in `logs`.
    ///
    /// # Errors
    ///
    /// A part cannot be had, or is not up in time.
    pub async fn start(
        binaries: &Binaries,
        logs: &Path,
        objects: &str,
        nodes: &[NodeSpec],
    ) -> Result<Self> {
        let mut cluster = Self::boot(binaries, logs, objects, nodes).await?;
        cluster.adopt(binaries).await?;
        Ok(cluster)
    }

    /// The same, but for the daemons: the nodes are as an installer leaves them.
    ///
    /// # Errors
    ///
    /// A part cannot be had, or is not up in time.
    pub async fn boot(
        binaries: &Binaries,
        logs: &Path,
        objects: &str,
        nodes: &[NodeSpec],
    ) -> Result<Self> {
        let mut cluster = Self::without_nodes(binaries, logs, objects, nodes).await?;
        for node in nodes {
            let target = cluster.next_target(node.pool(), "").await?;
            let config = cluster.objects.machine_config(&target).await?;
            let spec = cluster.host_spec(node, &config)?;
            let mut host = Host::create(&cluster.lab, spec)?;
            host.start()?;
            cluster.hosts.push(host);
            cluster.targets.insert(node.pool().to_owned(), target);
        }
        for node in nodes {
            cluster.join(node).await?;
        }
        Ok(cluster)
    }

    /// Starts the daemons, and waits until every node is Done.
    ///
    /// # Errors
    ///
    /// One does not start, or a node is not Done in time.
    pub async fn adopt(&mut self, binaries: &Binaries) -> Result<()> {
        for host in &self.hosts {
            let dir = self.logs.join(host.name());
            let daemon = daemon::start(binaries, &self.control_plane, host, &dir).await?;
            self.daemons.push(daemon);
        }
        for (pool, target) in &self.targets {
            self.all_done(pool, target, SOON).await?;
        }
        Ok(())
    }

    /// The control plane, the registry and the controller, with what an installer applies.
    async fn without_nodes(
        binaries: &Binaries,
        logs: &Path,
        objects: &str,
        nodes: &[NodeSpec],
    ) -> Result<Self> {
        let tree = Tree::ready()?;
        let lab = Lab::create()?;
        let registry = Registry::start(&lab)?;
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let dir = logs.join("control-plane");
        // With the logs, it has the objects of an earlier run.
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let options = Options {
            dir: Some(dir),
            ..Options::for_hosts(lab.address().into(), names)
        };
        // The image needs no API server, which takes about as long.
        let (os, control_plane) = std::thread::scope(|scope| {
            let os = scope.spawn(|| push(&registry, tree.base()));
            let control_plane = ControlPlane::start(&options);
            let os = os
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (os, control_plane)
        });
        let (os, control_plane) = (os?, Arc::new(control_plane?));
        let client = control_plane.client().await?;
        manifest::define(&client, &definitions()?).await?;
        for component in ["daemon", "controller"] {
            let mut objects = manifest::component(&Path::new(DEPLOY).join(component))?;
            without_replicas(&mut objects);
            manifest::apply(&client, &objects).await?;
        }
        let mut cluster = Self {
            daemons: Vec::new(),
            hosts: Vec::new(),
            controllers: Vec::new(),
            targets: BTreeMap::new(),
            objects: Objects::new(client),
            control_plane,
            registry,
            tree,
            lab,
            logs: logs.to_owned(),
        };
        let spec = json!({ "osImageURL": os });
        cluster.configure("00-worker", "worker", &spec).await?;
        cluster.apply(WORKERS).await?;
        cluster.apply(objects).await?;
        let controllers = controller::start(&binaries.mcc, &cluster.control_plane, logs);
        cluster.controllers = controllers.await?;
        Ok(cluster)
    }

    /// Waits until a node is there and Ready, and gives it its roles.
    async fn join(&self, node: &NodeSpec) -> Result<()> {
        self.host(&node.name)?.wait_booted(BOOTED_WITHIN)?;
        until(&format!("node {}", node.name), SOON, async || {
            let nodes = self.objects.nodes().await?;
            Ok(match nodes.get(&node.name) {
                Some(node) if objects::is_in_service(node) => Ok(()),
                Some(_) => Err("it is not Ready".to_owned()),
                None => Err("its kubelet has not registered it".to_owned()),
            })
        })
        .await?;
        let label = |role| (format!("node-role.kubernetes.io/{role}"), "");
        let labels: BTreeMap<_, _> = node.roles.iter().map(label).collect();
        self.objects
            .patch_node(&node.name, &json!({ "metadata": { "labels": labels } }))
            .await
    }

    /// A host as an installer leaves it: with the first configuration of its pool in force.
    fn host_spec(&self, node: &NodeSpec, config: &MachineConfig) -> Result<HostSpec> {
        // The lab numbers its hosts from 10.
        let [a, b, c, _] = self.lab.address().octets();
        let address = Ipv4Addr::new(a, b, c, 10 + u8::try_from(self.hosts.len())?);
        let name = node.name.clone();
        let arguments = format!("--node-name={name} --node-ip={address}");
        let programs = self.control_plane.programs().binary();
        let target = config.metadata.name.as_deref().unwrap_or_default();
        let annotations = BTreeMap::from([
            (annotation::CURRENT_CONFIG, target),
            (annotation::DESIRED_CONFIG, target),
            (annotation::STATE, NodeState::Done.as_str()),
        ]);
        let record = |file: &str| format!("/etc/machine-config-daemon/{file}");
        let mut spec = HostSpec::new(&name, self.tree.base())
            .kubelet(&self.control_plane.node_kubeconfig(&name)?, &arguments)
            .bin(programs.parent().context("the programs are in no folder")?)
            .registry(&self.registry.location())
            .registry(&self.registry.closed_location())
            .file(&record("currentconfig"), serde_json::to_vec(config)?, 0o600)
            .file(
                &record("node-annotations.json"),
                serde_json::to_vec(&annotations)?,
                0o644,
            );
        for (path, content) in &node.files {
            spec = spec.file(path, content.as_str(), 0o644);
        }
        if let Some(bytes) = node.boot_bytes {
            spec = spec.boot_bytes(bytes);
        }
        let control_plane = Arc::clone(&self.control_plane);
        Ok(spec.when_down(move || tell_down(&control_plane, &name)))
    }
}

/// Sets the replicas of Deployments to none: the controller's are processes of this machine.
fn without_replicas(objects: &mut [DynamicObject]) {
    for object in objects {
        let is_deployment = object
            .types
            .as_ref()
            .is_some_and(|types| types.kind == "Deployment");
        if let Some(replicas) = object
            .data
            .pointer_mut("/spec/replicas")
            .filter(|_| is_deployment)
        {
            *replicas = json!(0);
        }
    }
}

/// Lets the cluster know that a host is down. That it cannot know is a cluster on its way down.
fn tell_down(control_plane: &ControlPlane, node: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let Ok(runtime) = runtime {
        drop(runtime.block_on(control_plane.host_is_down(node)));
    }
}
