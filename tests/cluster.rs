//! A cluster of real parts: a control plane, a registry, hosts with kubelets and daemons, and two
//! replicas of the controller.
//!
//! - [`objects`]: the cluster's objects, as an administrator writes and reads them
//! - [`account`]: service accounts, as pods have them
//! - `controller`, `daemon`: the programs under test
//! - `spec`: what a cluster is made from

pub mod account;
mod controller;
mod daemon;
pub mod objects;
mod spec;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::{MachineConfig, NodeState, annotation, label};
use k8s_openapi::api::core::v1::Node;
use lab::Lab;
use lab::control_plane::{ControlPlane, Options, Process, definitions};
use lab::host::{BOOTED_WITHIN, Host, HostSpec, Pod};
use lab::registry::{Registry, Request};
use lab::tree::{Commit, Overlay, Tree};
use serde_json::{Value, json};

use self::objects::{Objects, until};
pub use self::spec::{Binaries, NodeSpec};
use crate::observer::host;

/// How long what starts on its own may take to be there.
pub const SOON: Duration = Duration::from_mins(1);

/// Folder of each component's objects.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// The pool that every cluster has.
const WORKERS: &str = include_str!("cluster/worker.yaml");

/// An OS in the registry.
#[derive(Clone, Debug)]
pub struct Image {
    /// How a node is told of it, by digest.
    pub reference: String,
    /// What it is, as [`crate::observer::host::content`] gives it.
    pub content: String,
}

/// A running cluster. Everything of it is gone when dropped, but for the logs.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order.
    daemons: Vec<Pod>,
    hosts: Vec<Host>,
    controllers: Vec<Process>,
    control_plane: Arc<ControlPlane>,
    objects: Objects,
    registry: Registry,
    tree: Tree,
    lab: Lab,
    logs: PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for host in &self.hosts {
            // They are for people, and what could not be kept says nothing about the run.
            drop(keep_logs(host, &self.logs.join(host.name())));
        }
    }
}

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
        let mut cluster = Self::without_nodes(binaries, logs, objects, nodes).await?;
        let mut targets = BTreeMap::new();
        for node in nodes {
            let target = cluster.next_target(node.pool(), "").await?;
            let config = cluster.objects.machine_config(&target).await?;
            let spec = cluster.host_spec(node, &config)?;
            let mut host = Host::create(&cluster.lab, spec)?;
            host.start()?;
            cluster.hosts.push(host);
            targets.insert(node.pool(), target);
        }
        for node in nodes {
            cluster.join(node).await?;
            let host = cluster.host(&node.name)?;
            let dir = logs.join(&node.name);
            let daemon = daemon::start(binaries, &cluster.control_plane, host, &dir)?;
            cluster.daemons.push(daemon);
        }
        for (pool, target) in targets {
            cluster.all_done(pool, &target, SOON).await?;
        }
        Ok(cluster)
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
        let control_plane = Arc::new(ControlPlane::start(&options)?);
        control_plane.apply_crds(&definitions())?;
        for component in ["daemon", "controller"] {
            let dir = format!("{DEPLOY}/{component}");
            control_plane.kubectl(&["apply", "--server-side", "--kustomize", &dir])?;
        }
        // Its replicas are processes of this machine.
        let none = [
            "scale",
            "deployment",
            "machine-config-controller",
            "--replicas=0",
        ];
        control_plane.kubectl(&[none.as_slice(), &["--namespace", api::NAMESPACE]].concat())?;
        let mut cluster = Self {
            daemons: Vec::new(),
            hosts: Vec::new(),
            controllers: Vec::new(),
            objects: Objects::new(control_plane.client().await?),
            control_plane,
            registry,
            tree,
            lab,
            logs: logs.to_owned(),
        };
        let os = cluster.push(cluster.tree.base())?;
        cluster.configure(
            "00-worker",
            "worker",
            &json!({ "osImageURL": os.reference }),
        )?;
        cluster.apply(WORKERS)?;
        if !objects.is_empty() {
            cluster.apply(objects)?;
        }
        cluster.controllers = controller::start(&binaries.mcc, &cluster.control_plane, logs)?;
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

    /// What it is asked through.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Its control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Its hosts, in the order asked for.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of a node.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn host(&self, node: &str) -> Result<&Host> {
        let found = self.hosts.iter().find(|host| host.name() == node);
        found.with_context(|| format!("there is no host {node}"))
    }

    /// Kills a node's host with everything on it, turns it on again, and waits until it is up.
    ///
    /// # Errors
    ///
    /// There is none, it does not die, or it does not boot.
    pub fn kill(&mut self, node: &str) -> Result<()> {
        let found = self.hosts.iter_mut().find(|host| host.name() == node);
        let host = found.with_context(|| format!("there is no host {node}"))?;
        host.kill()?;
        host.start()?;
        host.wait_booted(BOOTED_WITHIN)?;
        Ok(())
    }

    /// The daemon of a node.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn daemon(&self, node: &str) -> Result<&Pod> {
        let place = self.hosts.iter().position(|host| host.name() == node);
        let daemon = place.and_then(|place| self.daemons.get(place));
        daemon.with_context(|| format!("there is no daemon on {node}"))
    }

    /// Applies a YAML or JSON text as the administrator does.
    ///
    /// # Errors
    ///
    /// Kubectl or the API server refuses it.
    pub fn apply(&self, text: &str) -> Result<()> {
        let mut file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
        file.write_all(text.as_bytes())?;
        let path = file
            .path()
            .to_str()
            .context("the temporary folder's path is not UTF-8")?;
        self.control_plane
            .kubectl(&["apply", "--server-side", "--filename", path])?;
        Ok(())
    }

    /// Writes the MachineConfig `name` of a role.
    ///
    /// # Errors
    ///
    /// Those of [`Self::apply`].
    pub fn configure(&self, name: &str, role: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": { "name": name, "labels": { label::ROLE: role } },
            "spec": spec,
        });
        self.apply(&object.to_string())
    }

    /// Deletes a MachineConfig.
    ///
    /// # Errors
    ///
    /// Those of kubectl, but not that there is none.
    pub fn remove_config(&self, name: &str) -> Result<()> {
        self.control_plane
            .kubectl(&["delete", "machineconfig", name, "--ignore-not-found"])?;
        Ok(())
    }

    /// Waits until a pool has another target than `before`; which.
    ///
    /// # Errors
    ///
    /// It has none in time.
    pub async fn next_target(&self, pool: &str, before: &str) -> Result<String> {
        until(
            &format!("pool {pool} to be rendered anew"),
            SOON,
            async || {
                let target = self.objects.target(pool).await?;
                Ok(if target == before {
                    Err(format!("its target is {target}"))
                } else {
                    Ok(target)
                })
            },
        )
        .await
    }

    /// Waits until all nodes with the role of a pool are Done in `config`, take pods, and have nothing
    /// under way.
    ///
    /// # Errors
    ///
    /// They are not in time; with what one that is not says.
    pub async fn all_done(&self, pool: &str, config: &str, within: Duration) -> Result<()> {
        let role = format!("node-role.kubernetes.io/{pool}");
        until(
            &format!("pool {pool} to be in {config}"),
            within,
            async || {
                let nodes = self.objects.nodes().await?;
                let in_pool = |node: &Node| {
                    node.metadata
                        .labels
                        .as_ref()
                        .is_some_and(|labels| labels.contains_key(&role))
                };
                let is_late = |node: &Node| {
                    // A node is born Done, before its daemon has looked at it.
                    let is_idle = objects::annotation(node, annotation::PHASE) == "Idle";
                    !is_idle || !objects::is_done_in(node, config)
                };
                let late = nodes
                    .iter()
                    .find(|(_, node)| in_pool(node) && is_late(node));
                Ok(late.map_or(Ok(()), |(name, node)| {
                    Err(format!("{name} says {}", objects::says(node)))
                }))
            },
        )
        .await
    }

    /// Makes an OS and puts it into the registry, as a native container image.
    ///
    /// # Errors
    ///
    /// It cannot be made or pushed.
    pub fn image(&self, os: &Overlay) -> Result<Image> {
        self.push(&self.tree.commit(os)?)
    }

    fn push(&self, commit: &Commit) -> Result<Image> {
        let image = lab::image::Image::native(commit)?;
        Ok(Image {
            reference: self
                .registry
                .push(&image, &format!("os:{}", commit.version))?,
            content: host::content_of(commit)?,
        })
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What each host asked of the registry so far, by its node's name.
    ///
    /// # Errors
    ///
    /// The registry's log cannot be read.
    pub fn fetches(&self) -> Result<BTreeMap<String, Vec<Request>>> {
        let all = self.registry.requests()?;
        let of = |host: &Host| {
            all.iter()
                .filter(|request| request.remote == host.address())
                .cloned()
                .collect()
        };
        Ok(self
            .hosts
            .iter()
            .map(|host| (host.name().to_owned(), of(host)))
            .collect())
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

/// Copies a host's logs: its console, its boots, its pods' and its journal.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
fn keep_logs(host: &Host, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for entry in fs::read_dir(host.dir())? {
        let path = entry?.path();
        let is_log = path
            .extension()
            .is_some_and(|end| end == "log" || end == "jsonl");
        if let Some(name) = path.file_name().filter(|_| is_log) {
            fs::copy(&path, dir.join(name))?;
        }
    }
    let journal = host.run(["journalctl", "--no-pager", "--output=short-iso-precise"])?;
    Ok(fs::write(dir.join("journal.log"), journal)?)
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
