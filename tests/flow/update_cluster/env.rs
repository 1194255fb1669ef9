//! A cluster with a release, and another one in the lab's registry.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use lab::control_plane::Process;
use lab::registry::Registry;
use lab::{Lab, PATIENCE, wait};
use release::ImageDigest;
use serde_json::{Value, json};
use testbed::{ReleaseKey, SignatureServer, VersionedCluster, objects};

use crate::release::{COMPONENT, OWN, ReleaseTree, push, release, write};

/// The release that runs.
pub(crate) const VERSION: &str = "4.2.0";

/// Its pull spec: it is never pulled.
pub(crate) const IMAGE: &str = "registry.example/release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(crate) struct Cluster {
    pub(crate) base: VersionedCluster,
    pub(crate) key: ReleaseKey,
    /// One that releases trust as well.
    pub(crate) expired: ReleaseKey,
    pub(crate) server: SignatureServer,
    registry: Registry,
    /// Further arguments of the version operator.
    pub(crate) arguments: Vec<String>,
    _lab: Lab,
}

impl Deref for Cluster {
    type Target = VersionedCluster;

    fn deref(&self) -> &VersionedCluster {
        &self.base
    }
}

impl Cluster {
    pub(crate) async fn start(name: &str) -> Result<Self> {
        let base = VersionedCluster::start("update-cluster", name, VERSION, IMAGE).await?;
        let start = || -> Result<_> {
            let lab = Lab::create()?;
            Ok((Registry::start(&lab)?, lab))
        };
        let (registry, lab) = tokio::task::spawn_blocking(start).await??;
        base.make_namespaces(&["openshift-config", "openshift-config-managed"])?;
        let gate = "--from-literal=ack-4.2-apis=Read https://example.com/apis first.";
        let managed = "--namespace=openshift-config-managed";
        let create = ["create", "configmap"];
        let gates = [&create[..], &["admin-gates", managed, gate]];
        base.control_plane.kubectl(&gates.concat())?;
        let acks = [&create[..], &["admin-acks", "--namespace=openshift-config"]];
        base.control_plane.kubectl(&acks.concat())?;
        let this = Self {
            base,
            key: ReleaseKey::make()?,
            expired: ReleaseKey::expired()?,
            server: SignatureServer::start().await?,
            registry,
            arguments: Vec::new(),
            _lab: lab,
        };
        write(&this.release(VERSION)?, &this.payload())?;
        Ok(this)
    }

    /// Where the registry is.
    pub(crate) fn registry(&self) -> String {
        self.registry.location()
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

    pub(crate) fn run(&self, image: &str, payload: &Path) -> Result<Process> {
        let arguments = [
            format!("--release-image={image}"),
            format!("--payload={}", payload.display()),
            format!("--payloads={}", self.payloads().display()),
            "--leader-elect=false".to_owned(),
            "--interval-secs=4".to_owned(),
        ];
        self.base
            .run(arguments.into_iter().chain(self.arguments.iter().cloned()))
    }

    pub(crate) async fn ask(&self, update: Value) -> Result<()> {
        // A merge patch: fields of an earlier request go.
        self.change(&json!({ "spec": { "desiredUpdate": null } }))
            .await?;
        self.change(&json!({ "spec": { "desiredUpdate": update } }))
            .await
    }

    /// Waits until the component's ConfigMap, changed by the test, is as this release has it: the
    /// release goes on being reconciled.
    pub(crate) async fn until_reconciled(&self, version: &str) -> Result<()> {
        let maps: Api<ConfigMap> = self.namespaced("default");
        let change = json!({ "data": { "version": "changed" } });
        objects::merge(&maps, COMPONENT, &change).await?;
        let read = async || {
            let data = maps.get(COMPONENT).await?.data.unwrap_or_default();
            Ok(data.get("version").cloned())
        };
        let is_it = |found: &Option<String>| found.as_deref() == Some(version);
        wait::until_so("the ConfigMap", read, is_it).await.map(drop)
    }

    /// Reports as the component's operator does.
    pub(crate) async fn report(&self, version: &str) -> Result<()> {
        self.until_reported(COMPONENT, version, &WELL).await
    }

    /// The same, and whether the cluster may be updated to another minor release.
    pub(crate) async fn report_upgradeable(&self, status: &str, message: &str) -> Result<()> {
        let conditions = [&WELL[..], &[("Upgradeable", status, message)]].concat();
        self.until_reported(COMPONENT, VERSION, &conditions).await
    }

    /// Acknowledges what the next minor release needs, as an administrator does.
    pub(crate) fn acknowledge(&self) -> Result<()> {
        let map = ["configmap", "admin-acks", "--namespace=openshift-config"];
        let ack = ["--type=merge", "-p", r#"{"data":{"ack-4.2-apis":"true"}}"#];
        let patch = [&["patch"], &map[..], &ack].concat();
        self.control_plane.kubectl(&patch).map(drop)
    }

    /// Waits until the version operator's own Deployment has an image, and reports as the
    /// controller of Deployments does once its pod runs.
    pub(crate) async fn roll_out(&self, image: &str) -> Result<()> {
        let found = self.until_own_image(image).await?;
        let status = json!({
            "observedGeneration": found.metadata.generation, "replicas": 1, "updatedReplicas": 1,
            "availableReplicas": 1, "readyReplicas": 1,
            "conditions": [{ "type": "Available", "status": "True" }],
        });
        let deployments: Api<Deployment> = self.namespaced(OWN.0);
        objects::set_status(&deployments, OWN.1, &status).await
    }

    /// Waits until the version operator's own Deployment has an image.
    pub(crate) async fn until_own_image(&self, image: &str) -> Result<Deployment> {
        let deployments: Api<Deployment> = self.namespaced(OWN.0);
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

    /// Starts the version operator of the release that runs, and waits until all is well.
    pub(crate) async fn settle(&self) -> Result<Process> {
        let process = self.run(IMAGE, &self.payload())?;
        self.roll_out(IMAGE).await?;
        self.report(VERSION).await?;
        self.until_condition("Available", "Done applying 4.2.0")
            .await?;
        Ok(process)
    }

    /// Waits for the Job that retrieves a release; its name, and the directory that it makes.
    pub(crate) async fn job(&self) -> Result<(String, PathBuf)> {
        let jobs: Api<Job> = self.namespaced(OWN.0);
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
        objects::complete_job(&self.namespaced(OWN.0), name).await
    }

    /// Waits until these updates are offered: versions, and conditional ones with their advice.
    pub(crate) async fn until_offered(&self, available: &str, conditional: &str) -> Result<()> {
        let read = async || {
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
            Ok([found.join(", "), risky.collect::<Vec<_>>().join(", ")])
        };
        let expected = [available, conditional];
        let found = wait::until_so(conditional, read, |found| *found == expected);
        found.await.map(drop)
    }
}

/// Conditions of an operator that is well.
const WELL: [(&str, &str, &str); 2] = [("Available", "True", ""), ("Degraded", "False", "")];
