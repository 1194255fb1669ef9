//! A cluster without a version operator, nodes and machine API, whose parts the test plays; with a
//! real Prometheus and Alertmanager.
//!
//! - `nodes`: nodes, their pods and machines
//! - `alerts`: alerts and silences
//! - `requests`: what administrators ask for

mod alerts;
mod nodes;
mod requests;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use api::config::{ClusterOperator, ClusterVersion};
use api::machineconfiguration::MachineConfigPool;
use api::upgrade::{UpgradeConfig, upgrade_config};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use lab::control_plane::Process;
use lab::{PATIENCE, free_address, manifest, wait};
use serde_json::{Value, json};
use testbed::objects::{self, create, set_status};
use testbed::{AlertServers, AlertSettings, ApiServer, Programs, workspace};

pub(crate) const NAMESPACE: &str = "openshift-managed-upgrade-operator";
pub(crate) const OLD: &str = "4.16.3";
pub(crate) const NEW: &str = "4.16.4";

/// The cluster's own id.
pub(crate) const CLUSTER_ID: &str = "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11";

/// What the operator calls itself in Alertmanager.
const CREATOR: &str = "managed-upgrade-operator";

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) upgrades: Api<UpgradeConfig>,
    pub(crate) versions: Api<ClusterVersion>,
    maps: Api<ConfigMap>,
    jobs: Api<Job>,
    events: Api<Event>,
    nodes: Api<Node>,
    operators: Api<ClusterOperator>,
    pools: Api<MachineConfigPool>,
    /// Has the rights that are deployed.
    kubeconfig: PathBuf,
    metrics: SocketAddr,
    nudges: usize,
    /// Prometheus and Alertmanager.
    pub(crate) servers: AlertServers,
}

impl Deref for Cluster {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.server
    }
}

impl Cluster {
    /// A cluster at the old version, which may be upgraded to the new one.
    pub(crate) async fn start(name: &str) -> Result<Self> {
        let server = ApiServer::start("managed-upgrade", name).await?;
        for crds in [
            "deploy/cvo/crds",
            "deploy/managed-upgrade/crds",
            "deploy/crds/machineconfigpools.yaml",
            "tests/support/testbed/definitions",
        ] {
            manifest::define(server.objects.client(), &workspace().join(crds)).await?;
        }
        server.make_namespaces(&[
            NAMESPACE,
            "openshift-config",
            "openshift-machine-api",
            "openshift-monitoring",
        ])?;
        let rights = manifest::load(&workspace().join("deploy/managed-upgrade/rbac.yaml"))?;
        manifest::apply(server.objects.client(), &rights).await?;
        let account = (NAMESPACE, CREATOR);
        let kubeconfig = server.account_kubeconfig("kubeconfig", account).await?;
        let metrics = free_address()?;
        let targets = json!([{ "targets": [metrics.to_string()] }]);
        let settings = AlertSettings {
            alerts: &["upgrade"],
            scrapes: vec![json!({ "job_name": "muo", "static_configs": targets })],
            interval_secs: 1,
        };
        let servers = AlertServers::start(&server.dir, None, &settings).await?;
        let this = Self {
            upgrades: server.namespaced(NAMESPACE),
            versions: server.all(),
            maps: server.namespaced(NAMESPACE),
            jobs: server.namespaced(NAMESPACE),
            events: server.namespaced(NAMESPACE),
            nodes: server.all(),
            operators: server.all(),
            pools: server.all(),
            server,
            kubeconfig,
            metrics,
            nudges: 0,
            servers,
        };
        this.fill().await?;
        Ok(this)
    }

    async fn fill(&self) -> Result<()> {
        let named = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
        let spec = json!({ "clusterID": CLUSTER_ID, "channel": "stable-4.16" });
        create(&self.versions, named("version", spec)).await?;
        let release = |version: &str| json!({ "version": version, "image": image(version) });
        let status = json!({
            "desired": release(OLD), "history": [completed(OLD)], "observedGeneration": 1,
            "versionHash": "", "availableUpdates": [release(NEW)]
        });
        set_status(&self.versions, "version", &status).await?;
        create(&self.operators, named("etcd", json!({}))).await?;
        create(&self.pools, named("worker", json!({}))).await?;
        self.pool(2, 2).await?;
        let set = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {
                "name": "worker-a", "namespace": "openshift-machine-api",
                "labels": { "hive.openshift.io/machine-pool": "worker" },
            },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "a": "b" } }, "template": {} },
        });
        self.apply(&set.to_string()).await
    }

    /// The operator's settings: these lines and a drain timeout.
    pub(crate) async fn settings(&self, lines: &str) -> Result<()> {
        let text = format!("{{nodeDrain: {{timeOut: 45}}, {lines}}}");
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "managed-upgrade-operator-config" },
            "data": { "config.yaml": text },
        });
        let params = PatchParams::apply("test").force();
        let name = "managed-upgrade-operator-config";
        self.maps.patch(name, &params, &Patch::Apply(map)).await?;
        Ok(())
    }

    /// Makes the pull secret by which the fleet manager knows the cluster.
    pub(crate) async fn pull_secret(&self, token: &str) -> Result<()> {
        let auths = json!({ "auths": { "cloud.openshift.com": { "auth": token } } });
        let secret = json!({
            "metadata": { "name": "pull-secret" }, "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": auths.to_string() },
        });
        let secrets: Api<Secret> = self.namespaced("openshift-config");
        create(&secrets, secret).await.map(drop)
    }

    /// Starts the operator. Dropped, it is killed.
    pub(crate) fn run(&self) -> Result<Process> {
        let arguments = [
            "start".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            format!("--metrics-url={}", self.metrics),
            format!("--promql-url=http://{}", self.servers.prometheus),
            format!("--alertmanager-url=http://{}", self.servers.alertmanager),
            "--v=4".to_owned(),
        ];
        let program = Programs::built()?.path("muo")?;
        // The authority of the lab's registry, where there is one.
        let authority = self.dir.join("registry-ca.crt");
        let authority = authority.exists().then_some(authority);
        let authority = authority.map(|file| format!("SSL_CERT_FILE={}", file.display()));
        let program = program.to_str().context("a path of text")?.to_owned();
        // As in its pod, nothing else is trusted.
        let none = format!(
            "SSL_CERT_DIR={}",
            self.dir.join("no-certificates").display()
        );
        let variables = authority.into_iter().chain([none]);
        let command = variables.chain([program]).chain(arguments);
        Process::start(&self.next("muo"), Path::new("env"), command, &self.dir)
    }

    /// Plays the rest of the cluster's parts, as far as the upgrade has come.
    pub(crate) async fn play(&self) -> Result<()> {
        let conditions = self.conditions().await?;
        let has = |words: &str| conditions.iter().any(|one| one.contains(words));
        if has("0 of 1 machines ready") && self.machine_objects("machines")?.is_empty() {
            self.add_machine().await?;
        }
        let version = self.versions.get("version").await?;
        let is_asked = version
            .spec
            .desired_update
            .is_some_and(|update| update.version == NEW);
        let history = version.status.unwrap_or_default().history;
        if is_asked && history.iter().all(|entry| entry.version != NEW) {
            self.pool(2, 0).await?;
            self.complete().await?;
        }
        if has("pool worker: 0 of 2 updated") {
            self.pool(2, 2).await?;
        }
        if has("extra machines are there") {
            self.remove_machine()?;
        }
        Ok(())
    }

    /// Ends a Job as its controller does.
    pub(crate) async fn end_job(&self, name: &str, how: [&str; 2]) -> Result<()> {
        let time = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
        let condition = |r#type: &str| {
            json!({
                "type": r#type, "status": "True", "message": "as the test wants",
                "lastTransitionTime": time, "lastProbeTime": time
            })
        };
        let conditions = how.map(condition);
        let status = if how.contains(&"Complete") {
            json!({
                "startTime": time, "completionTime": time, "succeeded": 1, "conditions": conditions
            })
        } else {
            json!({ "startTime": time, "conditions": conditions })
        };
        set_status(&self.jobs, name, &status).await
    }

    /// Deletes a Job at once.
    pub(crate) async fn delete_job(&self, name: &str) -> Result<()> {
        self.jobs.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// The status of the UpgradeConfig, as JSON.
    pub(crate) async fn status(&self) -> Result<Value> {
        let upgrade = self.upgrades.get(upgrade_config::NAME).await?;
        Ok(serde_json::to_value(upgrade.status)?)
    }

    /// Changes something that the operator watches, as clusters do all the time.
    async fn nudge(&mut self) -> Result<()> {
        self.nudges += 1;
        let status = json!({ "conditions": [{
            "type": "Available", "status": "True", "message": self.nudges.to_string(),
            "lastTransitionTime": "2025-01-01T00:00:00Z"
        }] });
        set_status(&self.operators, "etcd", &status).await
    }

    /// Waits until a condition's status or message contains some words.
    pub(crate) async fn until_condition(&mut self, r#type: &str, words: &str) -> Result<()> {
        wait::until(&format!("{type}: {words}"), PATIENCE, async || {
            let found = objects::find_condition(&self.conditions().await?, r#type, words);
            if found.is_err() {
                self.nudge().await?;
            }
            Ok(found.map(drop))
        })
        .await
    }

    /// The conditions of the requested upgrade as text, newest first.
    pub(crate) async fn conditions(&self) -> Result<Vec<String>> {
        let Some(upgrade) = self.upgrades.get_opt(upgrade_config::NAME).await? else {
            return Ok(Vec::new());
        };
        let desired = upgrade.spec.desired.version;
        let history = upgrade.status.unwrap_or_default().history;
        let entry = history.into_iter().find(|entry| entry.version == desired);
        let conditions = entry.map(|entry| entry.conditions).unwrap_or_default();
        Ok(conditions
            .iter()
            .map(|one| format!("{}={} {}", one.r#type, one.status, one.message))
            .collect())
    }

    /// Waits until the upgrade to a version is in a phase.
    pub(crate) async fn until_phase(&self, version: &str, phase: &str) -> Result<()> {
        let read = async || {
            let upgrade = self.upgrades.get(upgrade_config::NAME).await?;
            let history = upgrade.status.unwrap_or_default().history;
            let entry = history.iter().find(|entry| entry.version == version);
            Ok(entry.map_or_else(String::new, |entry| entry.phase.to_string()))
        };
        let what = format!("phase {phase}");
        let found = wait::until_so(&what, read, |found| found == phase);
        found.await.map(drop)
    }

    /// Waits until there is no UpgradeConfig.
    pub(crate) async fn until_gone(&self) -> Result<()> {
        let read = async || Ok(self.upgrades.get_opt(upgrade_config::NAME).await?);
        let gone = wait::until_so("no UpgradeConfig", read, Option::is_none);
        gone.await.map(drop)
    }

    /// The version of ClusterVersion's `spec.desiredUpdate`.
    pub(crate) async fn desired_version(&self) -> Result<Option<String>> {
        let version = self.versions.get("version").await?;
        Ok(version.spec.desired_update.map(|update| update.version))
    }

    pub(crate) async fn until_asked(&self) -> Result<()> {
        wait::until("ClusterVersion to be set", PATIENCE, async || {
            let version = self.desired_version().await?;
            let conditions = self.conditions().await?.join("\n");
            Ok(if version.as_deref() == Some(NEW) {
                Ok(())
            } else {
                Err(conditions)
            })
        })
        .await
    }

    /// Reports as the version operator does when the control plane is done.
    pub(crate) async fn complete(&self) -> Result<()> {
        let status = json!({
            "desired": { "version": NEW, "image": image(NEW) },
            "history": [completed(NEW), completed(OLD)], "availableUpdates": []
        });
        set_status(&self.versions, "version", &status).await
    }

    /// Reports how many machines of the pool of workers are updated.
    pub(crate) async fn pool(&self, all: u32, updated: u32) -> Result<()> {
        let status = json!({
            "machineCount": all, "updatedMachineCount": updated, "readyMachineCount": updated,
            "unavailableMachineCount": 0, "degradedMachineCount": 0
        });
        set_status(&self.pools, "worker", &status).await
    }

    /// Reasons of events about the UpgradeConfig, sorted.
    pub(crate) async fn event_reasons(&self) -> Result<Vec<String>> {
        let events = self.events.list(&ListParams::default()).await?;
        let mut reasons: Vec<String> = events
            .into_iter()
            .filter_map(|event| event.reason)
            .collect();
        reasons.sort();
        Ok(reasons)
    }
}

fn image(version: &str) -> String {
    format!("registry.example/release@sha256:{version}")
}

/// An entry of the history.
fn completed(version: &str) -> Value {
    let (start, end) = if version == OLD {
        ("2025-01-01T00:00:00Z", "2025-01-01T01:00:00Z")
    } else {
        ("2025-02-01T00:00:00Z", "2025-02-01T01:00:00Z")
    };
    json!({
        "state": "Completed", "startedTime": start, "completionTime": end, "verified": true,
        "version": version, "image": image(version)
    })
}
