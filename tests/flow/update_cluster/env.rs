//! A cluster with a release, and another one in the lab's registry.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use api::config::{ClusterOperator, ClusterVersion, ClusterVersionStatus};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use lab::control_plane::{ControlPlane, Process};
use lab::registry::Registry;
use lab::{Lab, PATIENCE, wait};
use release::ImageDigest;
use serde_json::{Value, json};
use testbed::{Programs, ReleaseKey, SignatureServer, api_server, complete_release};

use crate::release::{COMPONENT, OWN, ReleaseTree, push, release, write};

/// The release that runs.
pub(crate) const VERSION: &str = "4.2.0";

/// Its pull spec: it is never pulled.
pub(crate) const IMAGE: &str = "registry.example/release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) versions: Api<ClusterVersion>,
    pub(crate) key: ReleaseKey,
    /// One that releases trust as well.
    pub(crate) expired: ReleaseKey,
    pub(crate) server: SignatureServer,
    registry: Registry,
    pub(crate) dir: PathBuf,
    starts: usize,
    /// Further arguments of the version operator.
    pub(crate) arguments: Vec<String>,
    _lab: Lab,
}

impl Cluster {
    pub(crate) async fn start(name: &str) -> Result<Self> {
        let (control_plane, dir) = api_server("update-cluster", name).await?;
        let start = || -> Result<_> {
            let lab = Lab::create()?;
            Ok((Registry::start(&lab)?, lab))
        };
        let (registry, lab) = tokio::task::spawn_blocking(start).await??;
        complete_release(&control_plane, VERSION, IMAGE).await?;
        for namespace in ["openshift-config", "openshift-config-managed"] {
            control_plane.kubectl(&["create", "namespace", namespace])?;
        }
        let gate = "--from-literal=ack-4.2-apis=Read https://example.com/apis first.";
        let managed = "--namespace=openshift-config-managed";
        control_plane.kubectl(&["create", "configmap", "admin-gates", managed, gate])?;
        let acks = [
            "create",
            "configmap",
            "admin-acks",
            "--namespace=openshift-config",
        ];
        control_plane.kubectl(&acks)?;
        let client = control_plane.client().await?;
        let this = Self {
            versions: Api::all(client.clone()),
            client,
            control_plane,
            key: ReleaseKey::make()?,
            expired: ReleaseKey::expired()?,
            server: SignatureServer::start().await?,
            registry,
            dir,
            starts: 0,
            arguments: Vec::new(),
            _lab: lab,
        };
        write(&this.release(VERSION)?, &this.payload())?;
        Ok(this)
    }

    /// Directory of the release that runs.
    pub(crate) fn payload(&self) -> PathBuf {
        self.dir.join("payload")
    }

    /// Directory of retrieved releases.
    pub(crate) fn payloads(&self) -> PathBuf {
        self.dir.join("payloads")
    }

    /// Files of a release that this cluster's key signs.
    pub(crate) fn release(&self, version: &str) -> Result<ReleaseTree> {
        release(version, &[&self.key, &self.expired], &self.server.address)
    }

    /// Puts a release into the registry; its pull spec and digest.
    pub(crate) async fn push(
        &self,
        name: &str,
        files: &ReleaseTree,
    ) -> Result<(String, ImageDigest)> {
        let place = format!("{}/{name}", self.registry.location());
        let digest = push(files, &format!("{place}:latest")).await?;
        Ok((format!("{place}@{digest}"), digest))
    }

    /// Puts a release into the registry, in the repository that the update service reads; its pull
    /// spec, signed.
    pub(crate) async fn publish(&self, version: &str, files: &ReleaseTree) -> Result<String> {
        let place = self.releases();
        let digest = push(files, &format!("{place}:{version}")).await?;
        self.server.put(&digest, self.key.sign(&digest)?);
        Ok(format!("{place}@{digest}"))
    }

    /// That repository.
    pub(crate) fn releases(&self) -> String {
        format!("{}/releases", self.registry.location())
    }

    /// Puts a signed release into the registry; its pull spec.
    pub(crate) async fn push_signed(&self, name: &str, files: &ReleaseTree) -> Result<String> {
        let (image, digest) = self.push(name, files).await?;
        self.server.put(&digest, self.key.sign(&digest)?);
        Ok(image)
    }

    /// Flips a bit in the layer of a release; the layer's digest.
    pub(crate) fn corrupt_layer(&self, image: &str) -> Result<String> {
        let digest = image.rsplit('@').next().context("a digest")?;
        let manifest = std::fs::read(self.registry.blob(digest)?)?;
        let manifest: Value = serde_json::from_slice(&manifest)?;
        let layers = manifest["layers"].as_array().context("layers")?;
        let last = layers.last().context("a layer")?;
        let layer = last["digest"].as_str().context("a digest")?;
        let file = self.registry.blob(layer)?;
        let mut bytes = std::fs::read(&file)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes)?;
        Ok(layer.to_owned())
    }

    pub(crate) fn run(&mut self, image: &str, payload: &Path) -> Result<Process> {
        self.starts += 1;
        let mut arguments = vec![
            "start".to_owned(),
            format!(
                "--kubeconfig={}",
                self.control_plane.admin_kubeconfig().display()
            ),
            format!("--release-image={image}"),
            format!("--payload={}", payload.display()),
            format!("--payloads={}", self.payloads().display()),
            "--leader-elect=false".to_owned(),
            "--interval-secs=4".to_owned(),
            "--metrics-url=127.0.0.1:0".to_owned(),
            "--v=4".to_owned(),
        ];
        arguments.extend(self.arguments.iter().cloned());
        let program = Programs::built()?.path("cvo")?;
        Process::start(
            &format!("cvo-{}", self.starts),
            &program,
            arguments,
            &self.dir,
        )
    }

    pub(crate) async fn ask(&self, update: Value) -> Result<()> {
        // A merge patch: fields of an earlier request go.
        let none = json!({ "spec": { "desiredUpdate": null } });
        let params = PatchParams::default();
        self.versions
            .patch("version", &params, &Patch::Merge(none))
            .await?;
        let change = json!({ "spec": { "desiredUpdate": update } });
        self.versions
            .patch("version", &params, &Patch::Merge(change))
            .await?;
        Ok(())
    }

    pub(crate) async fn status(&self) -> Result<ClusterVersionStatus> {
        let object = self.versions.get("version").await?;
        Ok(object.status.unwrap_or_default())
    }

    /// Waits until a condition says something; its status, reason and message.
    pub(crate) async fn until_said(&self, r#type: &str, words: &str) -> Result<String> {
        wait::until(&format!("{type}: {words}"), PATIENCE, async || {
            let all = self.status().await?.conditions;
            let said = all.iter().map(|one| {
                format!(
                    "{}={} {}: {}",
                    one.r#type, one.status, one.reason, one.message
                )
            });
            let said: Vec<String> = said.collect();
            let prefix = format!("{type}=");
            let mut found = said.iter().filter_map(|said| said.strip_prefix(&prefix));
            Ok(match found.find(|said| said.contains(words)) {
                Some(said) => Ok(said.to_owned()),
                None => Err(said.join("\n")),
            })
        })
        .await
    }

    /// Waits until the component's ConfigMap, changed by the test, is as this release has it: the
    /// release goes on being reconciled.
    pub(crate) async fn until_reconciled(&self, version: &str) -> Result<()> {
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        let change = json!({ "data": { "version": "changed" } });
        maps.patch(COMPONENT, &PatchParams::default(), &Patch::Merge(change))
            .await?;
        wait::until("the ConfigMap", PATIENCE, async || {
            let data = maps.get(COMPONENT).await?.data.unwrap_or_default();
            Ok(match data.get("version") {
                Some(found) if found == version => Ok(()),
                found => Err(format!("{found:?}")),
            })
        })
        .await
    }

    /// Reports as the component's operator does.
    pub(crate) async fn report(&self, version: &str) -> Result<()> {
        self.report_all(version, None).await
    }

    /// The same, and whether the cluster may be updated to another minor release.
    pub(crate) async fn report_upgradeable(&self, status: &str, message: &str) -> Result<()> {
        self.report_all(VERSION, Some((status, message))).await
    }

    async fn report_all(&self, version: &str, upgradeable: Option<(&str, &str)>) -> Result<()> {
        let condition = |r#type: &str, status: &str, message: &str| {
            json!({ "type": r#type, "status": status, "message": message,
                    "lastTransitionTime": "2025-01-01T00:00:00Z" })
        };
        let mut conditions = vec![
            condition("Available", "True", ""),
            condition("Degraded", "False", ""),
        ];
        if let Some((status, message)) = upgradeable {
            conditions.push(condition("Upgradeable", status, message));
        }
        let status = json!({ "status": {
            "conditions": conditions, "versions": [{ "name": "operator", "version": version }]
        } });
        let operators: Api<ClusterOperator> = Api::all(self.client.clone());
        let params = PatchParams::default();
        wait::until("the operator's object", PATIENCE, async || {
            let change = Patch::Merge(&status);
            let patched = operators.patch_status(COMPONENT, &params, &change).await;
            Ok(patched.map(drop).map_err(|error| error.to_string()))
        })
        .await
    }

    /// Acknowledges what the next minor release needs, as an administrator does.
    pub(crate) fn acknowledge(&self) -> Result<()> {
        let namespace = "--namespace=openshift-config";
        let ack = r#"{"data":{"ack-4.2-apis":"true"}}"#;
        let patch = [
            "patch",
            "configmap",
            "admin-acks",
            namespace,
            "--type=merge",
            "-p",
            ack,
        ];
        self.control_plane.kubectl(&patch)?;
        Ok(())
    }

    /// Waits until the version operator's own Deployment has an image, and reports as the
    /// controller of Deployments does once its pod runs.
    pub(crate) async fn roll_out(&self, image: &str) -> Result<()> {
        let found = self.until_own_image(image).await?;
        let status = json!({ "status": {
            "observedGeneration": found.metadata.generation, "replicas": 1, "updatedReplicas": 1,
            "availableReplicas": 1, "readyReplicas": 1,
            "conditions": [{ "type": "Available", "status": "True" }],
        } });
        let params = PatchParams::default();
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), OWN.0);
        deployments
            .patch_status(OWN.1, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Waits until the version operator's own Deployment has an image.
    pub(crate) async fn until_own_image(&self, image: &str) -> Result<Deployment> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), OWN.0);
        wait::until("the own Deployment", PATIENCE, async || {
            let found = deployments.get_opt(OWN.1).await?;
            let pod = found
                .as_ref()
                .and_then(|found| found.spec.as_ref()?.template.spec.as_ref());
            let container = pod.and_then(|pod| pod.containers.first());
            let has = container.and_then(|container| container.image.clone());
            Ok(match found {
                Some(found) if has.as_deref() == Some(image) => Ok(found),
                _ => Err(format!("{has:?}")),
            })
        })
        .await
    }

    /// Waits until the log of the version operator that was started last says something so often.
    pub(crate) async fn until_logged(&self, words: &str, count: usize) -> Result<()> {
        let file = self.dir.join(format!("cvo-{}.log", self.starts));
        wait::until(words, PATIENCE, async || {
            let found = std::fs::read_to_string(&file)?.matches(words).count();
            Ok(if found >= count {
                Ok(())
            } else {
                Err(found.to_string())
            })
        })
        .await
    }

    /// Starts the version operator of the release that runs, and waits until all is well.
    pub(crate) async fn settle(&mut self) -> Result<Process> {
        let payload = self.payload();
        let process = self.run(IMAGE, &payload)?;
        self.roll_out(IMAGE).await?;
        self.report(VERSION).await?;
        self.until_said("Available", "Done applying 4.2.0").await?;
        Ok(process)
    }

    /// Waits for the Job that retrieves a release; its name, and the directory that it makes.
    pub(crate) async fn job(&self) -> Result<(String, PathBuf)> {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), OWN.0);
        wait::until("the Job", PATIENCE, async || {
            let found = jobs.list(&ListParams::default()).await?;
            let Some(job) = found.items.first() else {
                return Ok(Err("none".to_owned()));
            };
            let pod = job
                .spec
                .as_ref()
                .and_then(|spec| spec.template.spec.as_ref());
            let container = pod.and_then(|pod| pod.containers.first());
            let command = container.and_then(|container| container.command.clone());
            let root = command
                .and_then(|command| command.last().cloned())
                .context("a command")?;
            Ok(Ok((
                job.metadata.name.clone().unwrap_or_default(),
                root.into(),
            )))
        })
        .await
    }

    /// Reports as the controller of Jobs does.
    pub(crate) async fn complete(&self, name: &str) -> Result<()> {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), OWN.0);
        let now = "2025-01-01T00:00:00Z";
        let condition =
            |r#type: &str| json!({ "type": r#type, "status": "True", "lastTransitionTime": now });
        let status = json!({ "status": {
            "startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        } });
        let params = PatchParams::default();
        jobs.patch_status(name, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Waits until these updates are offered: versions, and conditional ones with their advice.
    pub(crate) async fn until_offered(&self, available: &str, conditional: &str) -> Result<()> {
        wait::until(conditional, PATIENCE, async || {
            let status = self.status().await?;
            let found = status.available_updates.unwrap_or_default();
            let found: Vec<String> = found.into_iter().map(|one| one.version).collect();
            let risky = status.conditional_updates.iter().map(|one| {
                let advice = &one.conditions[0];
                format!(
                    "{} {} {}",
                    one.release.version, advice.status, advice.reason
                )
            });
            let (found, risky) = (found.join(", "), risky.collect::<Vec<_>>().join(", "));
            Ok(
                if (found.as_str(), risky.as_str()) == (available, conditional) {
                    Ok(())
                } else {
                    Err(format!("{found}; {risky}"))
                },
            )
        })
        .await
    }
}
