//! The whole of it on hosts: looked at, installed, taken off while a node is away, and off that one
//! once it is back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::objects::interrupted;
use anyhow::{Context as _, Result, ensure};
use image_builder::component::COMPONENTS;
use release::PullSpec;
use serde_json::Value;
use testbed::{Cluster, NodeSpec, Printed, SOON, Testbed, logs, slipway, until};

use crate::manifests::{VERSION, of, write};

/// Workers in `make test`, and of the cluster of 20 nodes in `make proof`.
const FEW: usize = 2;
const MANY: usize = 19;

/// Of so many workers one is away; there is at least one.
const AWAY_OF: usize = 9;

/// Objects after which a removal is killed.
const REMOVED_LINES: usize = 15;

/// Kinds without namespaces of which an installation makes objects.
const KINDS: &str = "namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
    validatingadmissionpolicybindings,customresourcedefinitions";

pub(crate) struct Env {
    pub(crate) cluster: Cluster,
    /// The file of manifests.
    pub(crate) manifests: PathBuf,
}

impl Env {
    /// A cluster with so many workers, whose nodes are Done.
    pub(crate) async fn start(test: &str, workers: usize) -> Result<Self> {
        let logs = logs::folder("install", test);
        let mut testbed = Testbed::new(&logs).node(NodeSpec::control_plane("cp1").containers());
        for number in 1..=workers {
            testbed = testbed.node(NodeSpec::new(&format!("w{number}")).containers());
        }
        let cluster = testbed.start().await?;
        let mut images: BTreeMap<&str, PullSpec> = BTreeMap::new();
        let pushed = cluster.push_components(None).await?;
        for component in COMPONENTS {
            // Images of what is not installed here are never pulled.
            let digest = "0".repeat(64);
            let none = format!("registry.example/{}@sha256:{digest}", component.name);
            let image = pushed
                .get(component.name)
                .map_or(none.as_str(), String::as_str);
            images.insert(component.name, image.parse()?);
        }
        let manifests = write(&logs, &of(VERSION, &images)?)?;
        Ok(Self { cluster, manifests })
    }

    pub(crate) fn slipway(&self, words: &[&str]) -> Result<Printed> {
        slipway(&self.cluster.control_plane().admin_kubeconfig(), words)
    }

    pub(crate) fn install(&self, words: &[&str]) -> Result<Printed> {
        let file = self.manifests.display().to_string();
        let first = ["install", "--manifests", &file];
        let words = first.into_iter().chain(words.iter().copied());
        self.slipway(&words.collect::<Vec<_>>())
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.cluster.control_plane().kubectl(words)
    }

    /// What of Slipway is on a host: its directories and units.
    pub(crate) fn left_on(&self, node: &str) -> Result<Vec<String>> {
        let host = self.cluster.host(node)?;
        let mut left = Vec::new();
        for root in [host.var(), host.etc_of_booted()?] {
            find(&root, &mut left)?;
        }
        Ok(left)
    }

    /// Runs a command with the manifests and kills it after so many objects.
    pub(crate) fn interrupted(&self, words: &[&str], lines: usize) -> Result<bool> {
        let kubeconfig = self.cluster.control_plane().admin_kubeconfig();
        let manifests = self.manifests.display().to_string();
        let with = ["--manifests", &manifests];
        let words = words.iter().copied();
        let words: Vec<_> = if words.clone().next() == Some("install") {
            words.chain(with).collect()
        } else {
            words.collect()
        };
        interrupted(&kubeconfig, &words, lines)
    }

    /// Waits until all nodes of the pool are updated.
    pub(crate) async fn until_updated(&self, workers: usize) -> Result<()> {
        until("the pool is updated", SOON, async || {
            let words = ["get", "machineconfigpool", "worker", "--output=json"];
            let pool: Value = serde_json::from_str(&self.kubectl(&words)?)?;
            let updated = pool["status"]["updatedMachineCount"].as_u64().unwrap_or(0);
            let is_updated = usize::try_from(updated)? == workers;
            Ok(if is_updated {
                Ok(())
            } else {
                Err(format!("{updated} of {workers}"))
            })
        })
        .await
    }

    /// Stops a host, until its node is not Ready.
    pub(crate) async fn stop(&mut self, node: &str) -> Result<()> {
        self.cluster.host_mut(node)?.stop()?;
        self.until_ready(node, false).await
    }

    pub(crate) async fn start_again(&mut self, node: &str) -> Result<()> {
        self.cluster.host_mut(node)?.start()?;
        self.until_ready(node, true).await
    }

    async fn until_ready(&self, node: &str, expected: bool) -> Result<()> {
        until(
            &format!("node {node} Ready: {expected}"),
            SOON,
            async || {
                let nodes = self.cluster.objects().nodes().await?;
                let is_ready = nodes.get(node).is_some_and(|node| {
                    let status = node.status.as_ref().and_then(|it| it.conditions.as_ref());
                    let mut all = status.into_iter().flatten();
                    all.any(|it| it.type_ == "Ready" && it.status == "True")
                });
                Ok(if is_ready == expected {
                    Ok(())
                } else {
                    Err(format!("{is_ready}"))
                })
            },
        )
        .await
    }
}

/// Files and links below a directory whose names are Slipway's.
fn find(directory: &Path, found: &mut Vec<String>) -> Result<()> {
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Images and logs of containers have such names, and are the kubelet's to collect.
            if ["containerd", "containers", "journal", "pod-logs"].contains(&name.as_str()) {
                continue;
            }
            if name.contains("slipway") {
                found.push(entry.path().display().to_string());
            } else if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts"]
async fn a_cluster_is_looked_at_installed_and_left_as_it_was() -> Result<()> {
    looked_at_installed_and_left("hosts", FEW).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts"]
async fn a_cluster_of_twenty_nodes_with_two_away_is_left_as_it_was() -> Result<()> {
    looked_at_installed_and_left("twenty", MANY).await
}

async fn looked_at_installed_and_left(test: &str, workers: usize) -> Result<()> {
    let mut env = Env::start(test, workers).await?;
    let nodes: Vec<String> = env
        .cluster
        .hosts()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();

    // What an administrator applied by hand is taken over as it is; each host is looked at.
    let checked = env.install(&["--check", "--force-conflicts"])?;
    checked.expect(0, &[&format!("hosts  {:>4}  checked", nodes.len())]);
    // The lab's definitions are upstream's.
    ensure!(!checked.out.contains("Deployment"), "{}", checked.out);
    let took = env.install(&["--force-conflicts"])?;
    took.expect(0, &["slipway 0.2.0 is installed and runs"]);

    an_image_that_no_node_can_pull(&env)?;
    let away = taken_off_while_away(&mut env, &nodes).await?;
    taken_off_once_back(&mut env, &nodes, &away).await?;
    from_nothing_and_off_again(&env, workers).await
}

/// It is found before anything is applied.
fn an_image_that_no_node_can_pull(env: &Env) -> Result<()> {
    let printed = std::fs::read_to_string(&env.manifests)?;
    let mut broken: Value = serde_json::from_str(&printed)?;
    let image = broken["images"]["slipway-mcd"]
        .as_str()
        .context("no image")?
        .to_owned();
    let (name, _) = image.split_once('@').context("no digest")?;
    let digest = "f".repeat(64);
    let other = format!("{name}@sha256:{digest}");
    broken = serde_json::from_str(&broken.to_string().replace(&image, &other))?;
    broken["version"] = "0.2.1".into();
    let folder = env.manifests.parent().context("no folder")?;
    let broken = write(folder, &broken)?.display().to_string();
    let refused = env.slipway(&["install", "--manifests", &broken])?;
    let pull = format!(": it cannot pull {other}");
    refused.expect(1, &["nodes cp1, ", &pull, "nothing was applied"]);
    Ok(())
}

/// Takes Slipway off while some workers are away; these.
async fn taken_off_while_away(env: &mut Env, nodes: &[String]) -> Result<Vec<String>> {
    let workers = nodes.len() - 1;
    let away: Vec<String> = nodes
        .iter()
        .filter(|it| it.starts_with('w'))
        .take((workers / AWAY_OF).max(1))
        .cloned()
        .collect();
    for node in &away {
        env.stop(node).await?;
    }
    let before = env.kubectl(&["get", "namespaces", "--output=name"])?;
    ensure!(
        before.contains("openshift-machine-config-operator"),
        "{before}"
    );
    let removed = env.slipway(&["uninstall"])?;
    let is_as_it_was = format!("the host of node {} is as it was: it is not Ready", away[0]);
    removed.expect(5, &["cleaned the host of node cp1", &is_as_it_was]);
    for node in nodes.iter().filter(|it| !away.contains(it)) {
        let left = env.left_on(node)?;
        ensure!(left.is_empty(), "{node}: {left:?}");
    }
    let left = env.kubectl(&["get", KINDS, "--output=name"])?;
    for name in ["machine-config-daemon", "networkpolicy-prevent"] {
        ensure!(!left.contains(name), "{left}");
    }
    ensure!(
        left.contains("machineconfigpools.machineconfiguration.openshift.io"),
        "{left}"
    );
    let pools = env.kubectl(&["get", "machineconfigpools", "--output=name"])?;
    ensure!(pools.contains("worker"), "{pools}");
    // An installation waits for the end of the removal.
    env.install(&[])?
        .expect(1, &["version 0.2.0 is being removed"]);
    Ok(away)
}

async fn taken_off_once_back(env: &mut Env, nodes: &[String], away: &[String]) -> Result<()> {
    for node in away {
        env.start_again(node).await?;
    }
    let removed = env.slipway(&["uninstall"])?;
    removed.expect(
        0,
        &[
            &format!("cleaned the host of node {}", away[0]),
            "slipway 0.2.0 is removed",
        ],
    );
    for node in nodes {
        let left = env.left_on(node)?;
        ensure!(left.is_empty(), "{node}: {left:?}");
        let node = env.kubectl(&["get", "node", node, "--output=json"])?;
        ensure!(!node.contains("slipway.dev/"), "{node}");
    }
    env.slipway(&["uninstall"])?
        .expect(1, &["has installed nothing on this cluster"]);
    Ok(())
}

/// The namespaces were there before, so they stayed; without them all is made, and removed again.
async fn from_nothing_and_off_again(env: &Env, workers: usize) -> Result<()> {
    let namespaces = ["openshift-machine-config-operator", "openshift-config"];
    for namespace in namespaces {
        env.kubectl(&["delete", "namespace", namespace])?;
    }
    let installed = env.install(&[])?;
    installed.expect(
        0,
        &[
            "created DaemonSet.apps",
            "slipway 0.2.0 is installed and runs",
        ],
    );
    env.until_updated(workers).await?;
    // The removal is killed again and again, and goes on.
    let mut kills = 0;
    while env.interrupted(&["uninstall"], REMOVED_LINES)? {
        kills += 1;
        ensure!(kills < 100, "the removal never ends");
    }
    ensure!(kills > 2, "the removal was killed {kills} times only");
    env.slipway(&["uninstall"])?
        .expect(1, &["has installed nothing on this cluster"]);
    let left = env.kubectl(&["get", KINDS, "--output=name"])?;
    for namespace in namespaces {
        ensure!(!left.contains(&format!("namespace/{namespace}")), "{left}");
    }
    Ok(())
}
