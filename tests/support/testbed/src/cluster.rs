//! A cluster of real parts: a control plane, a registry, hosts with kubelets and daemons, and two
//! replicas of the controller.
//!
//! - [`objects`]: the cluster's objects, as an administrator writes and reads them
//! - [`account`]: service accounts, as pods have them
//! - `certificates`: those that a cluster rotates
//! - `controller`, `daemon`: the programs under test
//! - `spec`: what a cluster is made from; `start`: how it comes up

pub mod account;
mod certificates;
mod controller;
mod daemon;
pub mod objects;
mod spec;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::{MachineConfig, annotation, label};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use lab::control_plane::{ControlPlane, Process};
use lab::host::{BOOTED_WITHIN, Host, Pod};
use lab::registry::{Registry, Request};
use lab::tree::{Commit, Overlay, Tree, content};
use lab::{Lab, PATIENCE, manifest};
use serde_json::{Value, json};

use self::objects::{Objects, until};
pub use self::spec::{Binaries, NodeSpec};
use observer::record::Record;

/// How long what starts on its own may take to be there.
pub const SOON: Duration = PATIENCE;

/// How long an update of a node may take, a reboot included.
pub const DONE_WITHIN: Duration = PATIENCE.saturating_mul(3);

/// An OS in the registry.
#[derive(Clone, Debug)]
pub struct Image {
    /// How a node is told of it, by digest.
    pub reference: String,
    /// What it is, as [`lab::tree::content`] gives it.
    pub content: String,
}

/// A running cluster. Everything of it is gone when dropped, but for the logs.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order.
    daemons: Vec<Pod>,
    hosts: Vec<Host>,
    controllers: Vec<Process>,
    /// The first configuration of each pool that has nodes.
    targets: BTreeMap<String, String>,
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
    /// It is neither, or the API server refuses it.
    pub async fn apply(&self, text: &str) -> Result<()> {
        let objects = manifest::parse(text)?;
        manifest::apply(self.objects.client(), &objects).await?;
        Ok(())
    }

    /// Writes the MachineConfig `name` of a role.
    ///
    /// # Errors
    ///
    /// Those of [`Self::apply`].
    pub async fn configure(&self, name: &str, role: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": { "name": name, "labels": { label::ROLE: role } },
            "spec": spec,
        });
        self.apply(&object.to_string()).await
    }

    /// Deletes a MachineConfig.
    ///
    /// # Errors
    ///
    /// The API server says no, but not that there is none.
    pub async fn remove_config(&self, name: &str) -> Result<()> {
        let configs = Api::<MachineConfig>::all(self.objects.client().clone());
        match configs.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
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
        let commit = self.tree.commit(os)?;
        Ok(Image {
            reference: push(&self.registry, &commit)?,
            content: content(&commit.repo, &commit.checksum)?,
        })
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What the lab recorded so far, for the observer.
    ///
    /// The logs are read one after another: while something is under way, only a breach that two records show is one.
    ///
    /// # Errors
    ///
    /// A log cannot be read.
    pub fn record(&self) -> Result<Record> {
        let boots = |host: &Host| (host.name().to_owned(), host.boots());
        let boots = self.hosts.iter().map(boots).collect();
        let fetches = self.fetches()?;
        let audit = lab::audit::load(&self.control_plane.audit_log())?;
        Ok(Record {
            audit,
            boots,
            fetches,
        })
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
}

/// Puts a commit into a registry, as a native container image; how a node is told of it.
fn push(registry: &Registry, commit: &Commit) -> Result<String> {
    let image = lab::image::Image::native(commit)?;
    registry.push(&image, &format!("os:{}", commit.version))
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
