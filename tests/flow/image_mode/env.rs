//! A cluster whose pool of workers has its OS image built, and what tests do with it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::machineconfiguration::{NAMESPACE, NodeState, annotation, label};
use lab::audit::{Event, Stage, Verb};
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::objects::{self, find_condition};
use testbed::{Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, logs, until};

/// Pool, and the MachineOSConfig of its name.
pub(crate) const POOL: &str = "worker";

/// How long a build may take: its pod pulls the system, changes it, and pushes it.
pub(crate) const BUILT_WITHIN: Duration = DONE_WITHIN.saturating_mul(2);

/// The secret that pushes, which neither an image nor a log may have.
pub(crate) const SECRET: &str = "secret-of-the-push";

/// The repository of built images.
const REPOSITORY: &str = "built/worker";

/// Kinds, as kubectl takes them.
const CONFIG: &str = "machineosconfig";
const BUILDS: &str = "machineosbuilds";

/// A cluster with the settings of its registry.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) cluster: Cluster,
    /// `address:port` of the registry.
    registry: String,
}

/// A build as its status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) name: String,
    /// The rendered configuration that it is for.
    pub(crate) config: String,
    /// The condition that is True; empty before the first.
    pub(crate) phase: String,
    /// The text of that condition.
    pub(crate) message: String,
    /// The image, by digest; empty before it is there.
    pub(crate) image: String,
}

impl Build {
    fn read(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let holds = conditions.find(|it| it["status"] == "True");
        let of_condition = |field: &str| holds.map(|it| text(&it[field])).unwrap_or_default();
        Self {
            name: text(&object["metadata"]["name"]),
            config: text(&object["spec"]["machineConfig"]["name"]),
            phase: of_condition("type"),
            message: of_condition("message"),
            image: text(&object["status"]["digestedImagePushSpec"]),
        }
    }
}

impl Env {
    /// A cluster of these nodes, whose pool is Done without image mode, with the secrets of a
    /// registry.
    pub(crate) async fn start(test: &str, nodes: Vec<NodeSpec>) -> Result<Self> {
        let definitions = testbed::workspace().join("deploy/crds");
        let testbed = Testbed::new(logs::folder("image-mode", test)).definitions(&definitions);
        let mut testbed = testbed.builds_images();
        for node in nodes {
            testbed = testbed.node(node);
        }
        let cluster = testbed.start().await?;
        let registry = cluster.host_lab()?.registry.location();
        let env = Self { cluster, registry };
        for (name, password) in [("pull", "none"), ("push", SECRET)] {
            env.cluster.apply(&env.login(name, password)).await?;
        }
        env.builds_reserve("100m").await?;
        // Builds read here, as nodes do, that the registry has no TLS.
        let settings = format!(
            "[[registry]]\nlocation = \"{}\"\ninsecure = true\n",
            env.registry
        );
        let settings = File::new("/etc/containers/registries.conf", settings);
        let spec = Config::new().files([settings]).spec();
        let target = env.cluster.change("10-registries", POOL, &spec).await?;
        env.cluster.all_done(POOL, &target, DONE_WITHIN).await?;
        Ok(env)
    }

    /// Has builds reserve so many processors. Of the disk it is less than by default, which is more
    /// than a node has.
    pub(crate) async fn builds_reserve(&self, processors: &str) -> Result<()> {
        let policy = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": { "name": POOL },
            "spec": { "imageBuild": {
                "timeout": "10m",
                "resources": { "requests": { "cpu": processors, "ephemeral-storage": "1Gi" } },
            } },
        });
        self.cluster.apply(&policy.to_string()).await
    }

    fn login(&self, name: &str, password: &str) -> String {
        let login =
            json!({ "auths": { &self.registry: { "username": "lab", "password": password } } });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "stringData": { ".dockerconfigjson": login.to_string() },
        });
        secret.to_string()
    }

    /// Has the pool's image built by these instructions.
    pub(crate) async fn opt_in(&self, instructions: &str) -> Result<()> {
        let content = format!("FROM configs AS final\n{instructions}\n");
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
            "metadata": { "name": POOL },
            "spec": {
                "machineConfigPool": { "name": POOL },
                "imageBuilder": { "imageBuilderType": "Job" },
                "baseImagePullSecret": { "name": "pull" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": format!("{}/{}:latest", self.registry, REPOSITORY),
                "containerFile": [{ "containerfileArch": "NoArch", "content": content }],
            },
        });
        self.cluster.apply(&object.to_string()).await
    }

    /// Ends image mode.
    pub(crate) fn opt_out(&self) -> Result<()> {
        self.kubectl(&["delete", CONFIG, POOL]).map(drop)
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.cluster.control_plane().kubectl(words)
    }

    /// kubectl in the namespace where builds run.
    pub(crate) fn in_namespace(&self, words: &[&str]) -> Result<String> {
        let namespace = format!("--namespace={NAMESPACE}");
        self.kubectl(&[words, &[namespace.as_str()]].concat())
    }

    fn json(&self, words: &[&str]) -> Result<Value> {
        let text = self.in_namespace(&[words, &["--output=json"]].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// All builds.
    pub(crate) fn builds(&self) -> Result<Vec<Build>> {
        let list = self.json(&["get", BUILDS])?;
        let items = list["items"].as_array().context("no list of builds")?;
        Ok(items.iter().map(Build::read).collect())
    }

    /// The build of this name, if it is there.
    pub(crate) fn build_named(&self, name: &str) -> Result<Option<Build>> {
        Ok(self.builds()?.into_iter().find(|build| build.name == name))
    }

    /// The build that the MachineOSConfig names for its pool's configuration and for itself as it
    /// is, if there is one.
    pub(crate) async fn chosen(&self) -> Result<Option<Build>> {
        let config = self.json(&["get", CONFIG, POOL])?;
        let status = &config["status"];
        if status["observedGeneration"] != config["metadata"]["generation"] {
            return Ok(None);
        }
        let name = status["machineOSBuild"]["name"]
            .as_str()
            .unwrap_or_default();
        let target = self.cluster.objects().target(POOL).await?;
        let build = self.build_named(name)?;
        Ok(build.filter(|build| build.config == target))
    }

    /// Waits until the chosen build is in a phase. One that has failed stays so.
    pub(crate) async fn until_build(&self, phase: &str) -> Result<Build> {
        let what = format!("the build to be {phase}");
        until(&what, BUILT_WITHIN, async || {
            let build = self.chosen().await?;
            Ok(match build {
                Some(build) if build.phase == phase => Ok(build),
                Some(build) if build.phase == "Failed" && phase == "Succeeded" => {
                    bail!("{build:?}")
                }
                other => Err(format!("{other:?}")),
            })
        })
        .await
    }

    /// Waits until a build succeeded and the MachineOSConfig names its image.
    pub(crate) async fn until_built(&self) -> Result<Build> {
        let build = self.until_build("Succeeded").await?;
        let (repository, digest) = build.image.split_once('@').context("no digest")?;
        ensure!(repository == format!("{}/{}", self.registry, REPOSITORY));
        ensure!(digest.len() == "sha256:".len() + 64, "{}", build.image);
        until("the image to be named", SOON, async || {
            let config = self.json(&["get", CONFIG, POOL])?;
            let current = &config["status"]["currentImagePullSpec"];
            Ok(if *current == build.image.as_str() {
                Ok(())
            } else {
                Err(current.to_string())
            })
        })
        .await?;
        Ok(build)
    }

    /// Waits until all nodes of the pool are Done in its configuration with this image; with none,
    /// in the OS of the configuration.
    pub(crate) async fn until_rolled(&self, image: Option<&str>) -> Result<()> {
        let what = format!("the nodes to have {image:?}");
        until(&what, DONE_WITHIN * 2, async || {
            let target = self.cluster.objects().target(POOL).await?;
            let nodes = self.cluster.objects().nodes().await?;
            let late = nodes.values().find(|node| {
                let images = [annotation::DESIRED_IMAGE, annotation::CURRENT_IMAGE];
                let images = images.map(|key| objects::annotation(node, key));
                let is_idle = objects::annotation(node, annotation::PHASE) == "Idle";
                let has_it = images == [image.unwrap_or_default(); 2];
                !(is_idle && has_it && objects::is_done_in(node, &target))
            });
            Ok(late.map_or(Ok(()), |node| Err(objects::says(node))))
        })
        .await
    }

    /// Waits until a condition of the pool has this status and such words, of reason or message.
    pub(crate) async fn until_condition(
        &self,
        r#type: &str,
        status: &str,
        words: &str,
    ) -> Result<String> {
        let what = format!("{type} of the pool to be {status} with {words:?}");
        until(&what, BUILT_WITHIN, async || {
            let conditions = self.conditions()?;
            let found = find_condition(&conditions, r#type, words);
            Ok(match found {
                Ok(text) if text.starts_with(status) => Ok(text),
                Ok(_) | Err(_) => Err(conditions.join("\n")),
            })
        })
        .await
    }

    /// The pool's conditions, each `<type>=<status> <reason>: <message>`.
    pub(crate) fn conditions(&self) -> Result<Vec<String>> {
        let pool = self.json(&["get", "machineconfigpool", POOL])?;
        let conditions = pool["status"]["conditions"].as_array();
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let line = |it: &Value| {
            let [r#type, status, reason, message] =
                ["type", "status", "reason", "message"].map(|key| text(it, key));
            format!("{type}={status} {reason}: {message}")
        };
        Ok(conditions.into_iter().flatten().map(line).collect())
    }

    /// How often the hosts of the nodes have booted, in the nodes' order.
    pub(crate) fn boots(&self) -> Vec<usize> {
        let hosts = self.cluster.hosts().iter();
        hosts.map(|host| host.boots().len()).collect()
    }

    /// Each host was booted so often since.
    pub(crate) fn booted_since(&self, before: &[usize], times: usize) -> Result<()> {
        let after = self.boots();
        let expected: Vec<_> = before.iter().map(|boots| boots + times).collect();
        ensure!(after == expected, "boots {before:?}, then {after:?}");
        Ok(())
    }

    /// The nodes keep what they have: no image was assigned.
    pub(crate) async fn nothing_is_assigned(&self, image: Option<&str>) -> Result<()> {
        for (name, node) in self.cluster.objects().nodes().await? {
            let desired = objects::annotation(&node, annotation::DESIRED_IMAGE);
            ensure!(
                desired == image.unwrap_or_default(),
                "{name} is to have {desired:?}"
            );
        }
        Ok(())
    }

    /// What a file of each host has.
    pub(crate) fn files_are(&self, path: &str, text: &str) -> Result<()> {
        for host in self.cluster.hosts() {
            let found = host.run(["cat", path])?;
            ensure!(found == text, "{path} of {} is {found:?}", host.name());
        }
        Ok(())
    }

    /// How many Jobs were made so far: each gave its first pod, or the last, to the API server.
    pub(crate) fn jobs_made(&self) -> Result<usize> {
        let is_pod = |event: &&Event| {
            let is_done = event.stage == Stage::ResponseComplete;
            let path = event.uri.split('?').next().unwrap_or_default();
            is_done && event.verb == Verb::Create && path.ends_with("/pods")
        };
        let events = self.cluster.events()?;
        let owners = events.iter().filter(is_pod).filter_map(|event| {
            let owner = &event.request.as_ref()?["metadata"]["ownerReferences"][0];
            let is_job = owner["kind"] == "Job";
            owner["uid"].as_str().filter(|_| is_job)
        });
        let owners: BTreeSet<&str> = owners.collect();
        Ok(owners.len())
    }

    /// Names of what builds have made and what goes at their end.
    pub(crate) fn ephemeral(&self, kinds: &str) -> Result<Vec<String>> {
        let selector = format!("--selector={}", label::EPHEMERAL_BUILD_OBJECT);
        let names = self.in_namespace(&["get", kinds, &selector, "--output=name"])?;
        Ok(names.lines().map(ToOwned::to_owned).collect())
    }

    /// Waits until nothing of a finished build is left but itself.
    pub(crate) async fn until_tidy(&self) -> Result<()> {
        until("what builds made to go", SOON, async || {
            let left = self.ephemeral("jobs,configmaps,secrets,pods")?;
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(" "))
            })
        })
        .await
    }

    /// Whether the registry has the manifest of an image.
    pub(crate) fn is_in_registry(&self, image: &str) -> Result<bool> {
        let accept = "Accept: application/vnd.oci.image.manifest.v1+json";
        let reply = testbed::http::ask(&self.manifest(image)?, &["--header", accept])?;
        match reply.status {
            200 => Ok(true),
            404 => Ok(false),
            other => bail!("the registry responds {other} for {image}"),
        }
    }

    /// Address of the manifest of an image.
    pub(crate) fn manifest(&self, image: &str) -> Result<String> {
        let (_, digest) = image.split_once('@').context("no digest")?;
        let (registry, repository) = (&self.registry, REPOSITORY);
        Ok(format!(
            "http://{registry}/v2/{repository}/manifests/{digest}"
        ))
    }

    /// Waits until a node has failed in what it was assigned, and is back in what it had.
    pub(crate) async fn until_failed(&self) -> Result<String> {
        until("a node to have failed", DONE_WITHIN * 2, async || {
            let nodes = self.cluster.objects().nodes().await?;
            let failed = nodes.iter().find(|(_, node)| {
                let state = objects::annotation(node, annotation::STATE);
                state == NodeState::Degraded.as_str()
                    && !objects::annotation(node, annotation::FAILED_IN).is_empty()
            });
            Ok(match failed {
                Some((name, _)) => Ok(name.clone()),
                None => Err(nodes
                    .values()
                    .map(objects::says)
                    .collect::<Vec<_>>()
                    .join("\n")),
            })
        })
        .await
    }
}
