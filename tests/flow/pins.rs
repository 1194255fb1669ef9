//! Pinned images on nodes whose kubelets run pods by containerd: pulled one node after another,
//! kept under disk pressure, there while the registry is away, and collected once their set is
//! gone.
#![expect(clippy::indexing_slicing, reason = "JSON that lacks a member is null")]

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::machineconfiguration::annotation;
use lab::audit::{Stage, Verb};
use lab::image::busybox_of;
use serde_json::Value;
use testbed::{Cluster, DONE_WITHIN, NodeSpec, Testbed, logs, until};

const NODES: [&str; 2] = ["w1", "w2"];
const SET: &str = "base";
/// A set that comes before it and goes: the image that is collected.
const FORMER: &str = "former";

/// A full disk, an empty one, and one that is too small for pinned images: capacity and free bytes.
const FULL: &str = "107374182400 1073741824";
const EMPTY: &str = "107374182400 96636764160";
const SMALL: &str = "8589934592 8000000000";

/// How often the kubelets are started until they have collected what they can, and how long each
/// may take for it: the first may not have statistics of its disk yet.
const STARTS: usize = 4;
const COLLECTED_WITHIN: Duration = Duration::from_secs(15);

const POLICY: &str = "
apiVersion: slipway.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: worker}
spec: {pinnedImagePulls: 1}
";

fn set(name: &str, image: &str) -> String {
    format!(
        "
apiVersion: machineconfiguration.openshift.io/v1
kind: PinnedImageSet
metadata:
  name: {name}
  labels: {{machineconfiguration.openshift.io/role: worker}}
spec:
  pinnedImages:
  - name: {image}
"
    )
}

fn pod(name: &str, image: &str, command: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeName: w1
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: it
    image: {image}
    imagePullPolicy: IfNotPresent
    command: [sh, -c, {command:?}]
"
    )
}

struct Env {
    cluster: Cluster,
    /// Pull specs by digest.
    pinned: String,
    loose: String,
    /// In no pod, so that no node has it by another way than a set.
    unused: String,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn pinned_images_outlast_disk_pressure_and_their_registry() -> Result<()> {
    let definitions = testbed::workspace().join("deploy/crds");
    let testbed = Testbed::new(logs::folder("pins", "all")).definitions(&definitions);
    let mut testbed = testbed.objects(POLICY);
    for node in NODES {
        testbed = testbed.node(NodeSpec::new(node).containers());
    }
    let cluster = testbed.start().await?;
    let push = |name: &str| {
        let registry = &cluster.host_lab()?.registry;
        registry.push_layout(&busybox_of(name)?, &format!("{name}:1"))
    };
    let [pinned, loose, unused] = [push("pinned")?, push("loose")?, push("unused")?];
    let mut env = Env {
        cluster,
        pinned,
        loose,
        unused,
    };

    env.disk(EMPTY)?;
    env.until_offered(EMPTY).await?;
    env.cluster.apply(&set(FORMER, &env.loose)).await?;
    env.until_annotations(FORMER, "").await?;
    env.one_node_pulled_after_the_other()?;
    env.cluster.apply(&set(SET, &env.pinned)).await?;
    env.kubectl(&["delete", "pinnedimageset", FORMER])?;
    env.until_pinned().await?;
    // Neither was used by a pod; the image without a set is collected, and the other stays.
    env.until_images(DONE_WITHIN, &[&env.pinned, &env.loose])
        .await?;
    env.until_collected(&[&env.pinned]).await?;

    env.registry_away_starts_pods().await?;
    env.kubectl(&["delete", "pinnedimageset", SET])?;
    env.until_annotations("", "").await?;
    env.too_small_a_disk_is_named().await
}

impl Env {
    fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.cluster.control_plane().kubectl(words)
    }

    fn json(&self, words: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[words, &["--output=json"]].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    fn annotation(&self, node: &str, key: &str) -> Result<String> {
        let node = self.json(&["get", "node", node])?;
        let value = node["metadata"]["annotations"][key].as_str();
        Ok(value.unwrap_or_default().to_owned())
    }

    /// Waits until both nodes name these sets as theirs, and lack what begins so.
    async fn until_annotations(&self, current: &str, lacks: &str) -> Result<()> {
        for node in NODES {
            let what = format!("pins of {node}");
            until(&what, DONE_WITHIN, async || {
                let has = self.annotation(node, annotation::CURRENT_PINS)?;
                let not = self.annotation(node, annotation::NOT_PINNED)?;
                let has_it = has.split('=').next() == Some(current) && !has.contains(',');
                let is_so =
                    has_it && not.starts_with(lacks) && (lacks.is_empty() == not.is_empty());
                Ok(if is_so {
                    Ok(())
                } else {
                    Err(format!("{has:?} {not:?}"))
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Both nodes have the set; pool and MachineConfigNodes say so.
    async fn until_pinned(&self) -> Result<()> {
        self.until_annotations(SET, "").await?;
        let what = "the pool counts both nodes";
        until(what, DONE_WITHIN, async || {
            let pool = self.json(&["get", "machineconfigpool", "worker"])?;
            let sync = &pool["status"]["poolSynchronizersStatus"][0];
            let is_so = sync["poolSynchronizerType"] == "PinnedImageSets"
                && sync["machineCount"] == 2
                && sync["updatedMachineCount"] == 2;
            let named = pool["spec"]["pinnedImageSets"][0]["name"] == SET;
            Ok(if is_so && named {
                Ok(())
            } else {
                Err(pool["status"].to_string())
            })
        })
        .await?;
        for node in NODES {
            let what = format!("the MachineConfigNode of {node}");
            until(&what, DONE_WITHIN, async || {
                let status = &self.json(&["get", "machineconfignode", node])?["status"];
                let set = &status["pinnedImageSets"][0];
                let is_so = set["name"] == SET
                    && set["currentGeneration"] == 1
                    && set["desiredGeneration"] == 1
                    && condition(status, "PinnedImageSetsProgressing") == "False AsExpected"
                    && condition(status, "PinnedImageSetsDegraded") == "False AsExpected";
                Ok(if is_so {
                    Ok(())
                } else {
                    Err(status.to_string())
                })
            })
            .await?;
        }
        Ok(())
    }

    /// The policy lets one node pull at a time: the second was named after the first had all.
    fn one_node_pulled_after_the_other(&self) -> Result<()> {
        let mut pulling = BTreeSet::new();
        let mut most = 0;
        for event in self.cluster.events()? {
            if event.verb != Verb::Patch || event.stage != Stage::ResponseComplete {
                continue;
            }
            let Some(body) = &event.request else { continue };
            let annotations = &body["metadata"]["annotations"];
            let node = event.uri.split('?').next().unwrap_or_default().to_owned();
            if annotations[annotation::DESIRED_PINS].is_string() {
                pulling.insert(node.clone());
            }
            most = most.max(pulling.len());
            if annotations[annotation::CURRENT_PINS].is_string() {
                pulling.remove(&node);
            }
        }
        ensure!(
            most == 1 && pulling.is_empty(),
            "{most} pulled at once: {pulling:?}"
        );
        Ok(())
    }

    async fn until_pod(&self, name: &str, phase: &str) -> Result<()> {
        let what = format!("pod {name} to be {phase}");
        until(&what, DONE_WITHIN, async || {
            let pod = self.json(&["get", "pod", name, "--namespace=default"])?;
            let status = &pod["status"];
            Ok(if status["phase"] == phase {
                Ok(())
            } else {
                Err(status.to_string())
            })
        })
        .await
    }

    /// Waits until the first node has exactly these of the two images.
    async fn until_images(&self, within: Duration, expected: &[&String]) -> Result<()> {
        let what = format!("the node to have {expected:?}");
        until(&what, within, async || {
            let there = self.images()?;
            Ok(if there == expected {
                Ok(())
            } else {
                Err(format!("{there:?}"))
            })
        })
        .await
    }

    /// Those of the two images that the first node has, as its kubelet says.
    fn images(&self) -> Result<Vec<&String>> {
        let node = self.json(&["get", "node", NODES[0]])?;
        let images = node["status"]["images"].as_array();
        let names = images.into_iter().flatten();
        let names = names.flat_map(|it| it["names"].as_array().into_iter().flatten());
        let names: BTreeSet<&str> = names.filter_map(Value::as_str).collect();
        let both = [&self.pinned, &self.loose].into_iter();
        Ok(both.filter(|it| names.contains(it.as_str())).collect())
    }

    /// Fills the disk: the kubelets collect all images but these. They do so at their start, and
    /// then each five minutes only.
    async fn until_collected(&self, but: &[&String]) -> Result<()> {
        for _ in 0..STARTS {
            self.disk(FULL)?;
            if self.until_images(COLLECTED_WITHIN, but).await.is_ok() {
                return self.disk(EMPTY);
            }
        }
        bail!("{:?} are there instead of {but:?}", self.images()?)
    }

    /// Has the kubelets take this for their disk; they collect images at their start.
    fn disk(&self, disk: &str) -> Result<()> {
        for node in NODES {
            let host = self.cluster.host(node)?;
            host.run(["sh", "-c", &format!("echo {disk} >/etc/lab/disk")])?;
            host.run(["systemctl", "restart", "kubelet"])?;
        }
        Ok(())
    }

    /// Waits until the nodes offer the capacity of this disk to pods.
    async fn until_offered(&self, disk: &str) -> Result<()> {
        let bytes = disk.split(' ').next().unwrap_or_default().parse::<i128>()?;
        for node in NODES {
            let what = format!("the disk of {node}");
            until(&what, DONE_WITHIN, async || {
                let node = self.json(&["get", "node", node])?;
                let offers = node["status"]["allocatable"]["ephemeral-storage"].as_str();
                let offered = offers.and_then(api::quantity::bytes);
                Ok(if offered == Some(bytes) {
                    Ok(())
                } else {
                    Err(format!("{offers:?}"))
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Without its registry a node starts a pod of the pinned image, and none of another.
    async fn registry_away_starts_pods(&mut self) -> Result<()> {
        self.cluster.host_lab_mut()?.registry.stop();
        let wait = "sleep 1000 & wait";
        self.cluster
            .apply(&pod("pinned", &self.pinned, wait))
            .await?;
        self.cluster.apply(&pod("lost", &self.loose, wait)).await?;
        self.until_pod("pinned", "Running").await?;
        let what = "the other image not to be pulled";
        until(what, DONE_WITHIN, async || {
            let pod = self.json(&["get", "pod", "lost", "--namespace=default"])?;
            let waits = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
            let reason = waits.as_str().unwrap_or_default();
            let is_so = ["ErrImagePull", "ImagePullBackOff"].contains(&reason);
            Ok(if is_so {
                Ok(())
            } else {
                Err(pod["status"].to_string())
            })
        })
        .await?;
        self.cluster.host_lab_mut()?.registry.resume()
    }

    /// A set for which the nodes offer too little is named with the bytes that lack.
    async fn too_small_a_disk_is_named(&self) -> Result<()> {
        self.disk(SMALL)?;
        self.until_offered(SMALL).await?;
        // What is there needs no room: the pod that waits for the other image may have it by now.
        self.cluster.apply(&set(SET, &self.unused)).await?;
        self.until_annotations("", "NoRoom: ").await?;
        let why = self.annotation(NODES[0], annotation::NOT_PINNED)?;
        ensure!(why.contains("8589934592") && why.contains("bytes"), "{why}");
        let what = "the pool to name the nodes";
        until(what, DONE_WITHIN, async || {
            let pool = self.json(&["get", "machineconfigpool", "worker"])?;
            let degraded = condition(&pool["status"], "PinnedImageSetsDegraded");
            let conditions = pool["status"]["conditions"].to_string();
            let is_so =
                degraded.starts_with("True") && NODES.iter().all(|it| conditions.contains(it));
            Ok(if is_so { Ok(()) } else { Err(conditions) })
        })
        .await?;
        let status = &self.json(&["get", "machineconfignode", NODES[0]])?["status"];
        ensure!(condition(status, "PinnedImageSetsDegraded") == "True PrefetchFailed");
        let failed = status["pinnedImageSets"][0]["lastFailedGenerationError"].as_str();
        let failed = failed.context("no error")?;
        ensure!(why.ends_with(failed), "{failed}");
        Ok(())
    }
}

/// Status and reason of a condition.
fn condition(status: &Value, r#type: &str) -> String {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|it| it["type"] == r#type);
    let words = found.map(|it| {
        let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("reason"))
    });
    words.unwrap_or_default()
}
