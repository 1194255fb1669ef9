//! A cluster of real parts: a control plane, a registry, hosts with kubelets, and the components
//! under test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::machineconfiguration::{MachineConfig, annotation};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use lab::audit::{self, Event};
use lab::control_plane::{ControlPlane, Process};
use lab::host::{BOOTED_WITHIN, Containers, Host, Pod};
use lab::manifest;
use lab::registry::Request;
use lab::tree::Overlay;
use observer::record::Record;
use serde_json::Value;

use crate::images::ComponentImages;
use crate::objects::{self, Objects};
use crate::{Authority, Component, DAEMON, HostLab, Image, Programs, SOON, config, until};

/// A running cluster. Everything of it is gone when dropped, but for the logs.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order.
    /// What runs on nodes, by component and node.
    pub(crate) pods: BTreeMap<(&'static str, String), Pod>,
    pub(crate) hosts: Vec<Host>,
    /// What runs beside them, by the name of the replica.
    pub(crate) replicas: BTreeMap<String, Process>,
    /// What is to run on every node.
    pub(crate) on_nodes: Vec<Component>,
    /// The first configuration of each pool that has nodes.
    pub(crate) targets: BTreeMap<String, String>,
    pub(crate) control_plane: Arc<ControlPlane>,
    /// Signs the certificates of kubelets, where they have some.
    pub(crate) signer: Option<Authority>,
    pub(crate) objects: Objects,
    /// Hosts whose pods are processes, by their nodes.
    pub(crate) with_containers: BTreeSet<String>,
    /// Where there are such hosts.
    pub(crate) containers: Option<Containers>,
    /// Options of the controller in place of those in `deploy/`, or besides them.
    pub(crate) controller_arguments: Vec<String>,
    pub(crate) images: ComponentImages,
    /// Where there are hosts.
    pub(crate) host_lab: Option<HostLab>,
    pub(crate) programs: Programs,
    pub(crate) logs: PathBuf,
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
    /// The client of its API server.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Its control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Its hosts, in the order in which they were named.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of a node.
    pub fn host(&self, node: &str) -> Result<&Host> {
        let found = self.hosts.iter().find(|host| host.name() == node);
        found.with_context(|| format!("there is no host {node}"))
    }

    /// Folder with what a node's kubelet has in its own: `kubeconfig` and the certificate that it
    /// names. Only in a cluster [`crate::Testbed::certificates`].
    pub fn kubelet_dir(&self, node: &str) -> PathBuf {
        self.logs.join(node).join("kubelet")
    }

    /// Who signs the certificates of the API server's clients. Only in a cluster
    /// [`crate::Testbed::certificates`].
    pub fn signer(&self) -> Result<&Authority> {
        self.signer.as_ref().context("clients have tokens")
    }

    /// The host of a node, to be turned on or off.
    pub fn host_mut(&mut self, node: &str) -> Result<&mut Host> {
        let found = self.hosts.iter_mut().find(|host| host.name() == node);
        found.with_context(|| format!("there is no host {node}"))
    }

    /// Kills a node's host with everything on it, turns it on again, and waits until it is up.
    pub fn kill(&mut self, node: &str) -> Result<()> {
        let host = self.host_mut(node)?;
        host.kill()?;
        host.start()?;
        host.wait_booted(BOOTED_WITHIN)?;
        Ok(())
    }

    /// The daemon of a node.
    pub fn daemon(&self, node: &str) -> Result<&Pod> {
        let daemon = self.pods.get(&(DAEMON.folder, node.to_owned()));
        daemon.with_context(|| format!("there is no daemon on {node}"))
    }

    /// The replicas that run beside the nodes, by name; removing one ends it.
    pub fn replicas(&mut self) -> &mut BTreeMap<String, Process> {
        &mut self.replicas
    }

    /// What a replica wrote so far.
    pub fn log_of(&self, replica: &str) -> Result<String> {
        let log = self.logs.join(replica).join(format!("{replica}.log"));
        fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))
    }

    /// Applies a YAML or JSON text as the administrator does.
    pub async fn apply(&self, text: &str) -> Result<()> {
        let objects = manifest::parse(text)?;
        manifest::apply(self.objects.client(), &objects).await?;
        Ok(())
    }

    /// Writes the MachineConfig `name` of a role.
    pub async fn configure(&self, name: &str, role: &str, spec: &Value) -> Result<()> {
        let object = config::object(name, role, spec);
        self.apply(&object.to_string()).await
    }

    /// Deletes a MachineConfig, if there is one.
    pub async fn remove_config(&self, name: &str) -> Result<()> {
        let configs = Api::<MachineConfig>::all(self.objects.client().clone());
        match configs.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Waits until a pool has another target than `before`; which.
    pub async fn next_target(&self, pool: &str, before: &str) -> Result<String> {
        until(
            &format!("pool {pool} to be rendered again"),
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

    /// Waits until all nodes with the role of a pool are Done in `config`, take pods, and have
    /// nothing under way. A worker with a role besides belongs to the pool of that one.
    pub async fn all_done(&self, pool: &str, config: &str, within: Duration) -> Result<()> {
        let role = |pool: &str| format!("node-role.kubernetes.io/{pool}");
        let others = self.targets.keys().filter(|other| *other != pool);
        let others: Vec<String> = others.map(|other| role(other)).collect();
        let is_of_workers = pool == "worker";
        let role = role(pool);
        until(
            &format!("pool {pool} to be in {config}"),
            within,
            async || {
                let nodes = self.objects.nodes().await?;
                let in_pool = |node: &Node| {
                    node.metadata.labels.as_ref().is_some_and(|labels| {
                        let has_other = others.iter().any(|other| labels.contains_key(other));
                        labels.contains_key(&role) && !(is_of_workers && has_other)
                    })
                };
                let is_late = |node: &Node| {
                    // A new node says Done before its daemon has read it.
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

    /// Changes a MachineConfig; the target that its pool, named as the role, has then.
    pub async fn change(&self, name: &str, role: &str, spec: &Value) -> Result<String> {
        let before = self.objects.target(role).await?;
        self.configure(name, role, spec).await?;
        self.next_target(role, &before).await
    }

    /// Waits until a node is Done in `config` and takes pods.
    pub async fn done_in(&self, node: &str, config: &str, within: Duration) -> Result<()> {
        let is_done = |node: &Node| objects::is_done_in(node, config);
        let what = format!("Done in {config}");
        self.objects.node_is(node, &what, within, is_done).await?;
        Ok(())
    }

    /// Makes an OS and puts it into the registry.
    pub fn image(&self, os: &Overlay) -> Result<Image> {
        self.host_lab()?.image(os)
    }

    /// What its hosts are made from.
    pub fn host_lab(&self) -> Result<&HostLab> {
        self.host_lab.as_ref().context("the cluster has no hosts")
    }

    /// The same, for those who stop the registry.
    pub fn host_lab_mut(&mut self) -> Result<&mut HostLab> {
        self.host_lab.as_mut().context("the cluster has no hosts")
    }

    /// All requests to the API server so far.
    pub fn events(&self) -> Result<Vec<Event>> {
        audit::load(&self.control_plane.audit_log())
    }

    /// What the lab recorded so far, for the observer.
    ///
    /// The logs are read one after another: while something is under way, only a breach that two
    /// records show is one.
    pub fn record(&self) -> Result<Record> {
        let boots = |host: &Host| (host.name().to_owned(), host.boots());
        let boots = self.hosts.iter().map(boots).collect();
        let fetches = self.fetches()?;
        let audit = self.events()?;
        Ok(Record {
            audit,
            boots,
            fetches,
        })
    }

    /// The requests of each host to the registry so far, by its node's name.
    pub fn fetches(&self) -> Result<BTreeMap<String, Vec<Request>>> {
        let Some(host_lab) = &self.host_lab else {
            return Ok(BTreeMap::new());
        };
        let all = host_lab.registry.requests()?;
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
