//! What a managed upgrade needs beside the cluster, and the UpgradeConfig that asks for it.
//!
//! Real: the operator in its pod, the update service, the config server, Prometheus and
//! Alertmanager. Played: the machine API ([`crate::machines`]).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use api::config::ClusterVersion;
use api::upgrade::{
    NAMESPACE, UpgradeConfig, UpgradeHistoryEntry, UpgradePhase, UpgradePlan, plan, upgrade_config,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use lab::control_plane::Process;
use lab::manifest;
use serde_json::{Value, json};
use testbed::{Cluster, ConfigServer, Programs, SOON, until};

use crate::machines::Machines;
use crate::releases::{DemoRelease, Releases, VERSIONS};
use crate::steps::{self, StepSpan};

/// How long before its start the upgrade is asked for.
const AHEAD: SignedDuration = SignedDuration::from_mins(2);

/// The channel of both releases.
const CHANNEL: &str = "stable-1";

/// Namespaces of parts that this cluster does not have otherwise.
const NAMESPACES: &str = "
apiVersion: v1
kind: Namespace
metadata: { name: openshift-machine-api }
---
apiVersion: v1
kind: Namespace
metadata: { name: openshift-monitoring }
";

/// A managed upgrade, and what it needs.
pub(crate) struct Managed {
    upgrades: Api<UpgradeConfig>,
    events: Api<Event>,
    maps: Api<ConfigMap>,
    machines: Machines,
    config_server: ConfigServer,
    alertmanager: SocketAddr,
    /// The version that was asked for.
    version: &'static str,
    /// When it starts.
    at: Timestamp,
    /// What its entry was when it was last read.
    entry: Option<UpgradeHistoryEntry>,
    plan: Option<UpgradePlan>,
    _processes: Vec<Process>,
}

impl Managed {
    /// Starts all parts. The cluster is at the first release.
    pub(crate) async fn start(
        cluster: &Cluster,
        programs: &Programs,
        out: &Path,
        releases: &Releases,
    ) -> Result<Self> {
        cluster.apply(NAMESPACES).await?;
        let parts = Parts::new(cluster, out)?;
        let machines = Machines::start(cluster).await?;
        let config_server = ConfigServer::start(cluster, &out.join("config-server")).await?;
        let (prometheus, prometheus_at) = parts.prometheus()?;
        let (alertmanager, alertmanager_at) = parts.alertmanager()?;
        let (update_service, graph) = parts.update_service(programs).await?;
        follow(cluster, graph, releases.second.version).await?;
        deploy(cluster, prometheus_at, alertmanager_at).await?;
        let client = cluster.objects().client();
        Ok(Self {
            upgrades: Api::namespaced(client.clone(), NAMESPACE),
            events: Api::namespaced(client.clone(), NAMESPACE),
            maps: Api::namespaced(client.clone(), NAMESPACE),
            machines,
            config_server,
            alertmanager: alertmanager_at,
            version: releases.second.version,
            at: Timestamp::UNIX_EPOCH,
            entry: None,
            plan: None,
            _processes: vec![prometheus, alertmanager, update_service],
        })
    }

    /// Asks for a release, two minutes ahead.
    pub(crate) async fn schedule(&mut self, release: &DemoRelease) -> Result<()> {
        self.at = Timestamp::from_second((Timestamp::now() + AHEAD).as_second())?;
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1", "kind": "UpgradeConfig",
            "metadata": { "name": upgrade_config::NAME },
            "spec": {
                "type": "OSD", "upgradeAt": self.at.to_string(), "PDBForceDrainTimeout": 30,
                "capacityReservation": true,
                "desired": { "version": release.version, "channel": CHANNEL },
            },
        });
        let params = PatchParams::apply("demo").force();
        let name = upgrade_config::NAME;
        self.upgrades
            .patch(name, &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Does what the machine API would, and reads how far the upgrade is.
    pub(crate) async fn advance(&mut self, cluster: &mut Cluster) -> Result<()> {
        let pointer = &self.config_server.pointer;
        self.machines.advance(cluster, pointer).await?;
        let upgrade = self.upgrades.get(upgrade_config::NAME).await?;
        let history = upgrade.status.unwrap_or_default().history;
        self.entry = history
            .into_iter()
            .find(|entry| entry.version == self.version);
        let map = self.maps.get_opt(plan::NAME).await?;
        let text = map.and_then(|map| map.data?.remove(plan::KEY));
        let plan = text.map(|text| UpgradePlan::parse(&text)).transpose()?;
        self.plan = plan.filter(|plan| plan.version == self.version);
        Ok(())
    }

    /// What stands above run levels and nodes.
    pub(crate) fn notes(&self, now: Timestamp) -> Result<Vec<String>> {
        let phase = self.entry.as_ref().map_or("", |entry| entry.phase.as_str());
        let mut notes = vec![if now < self.at {
            let at = self.at.strftime("%H:%M:%S UTC");
            format!("UpgradeConfig: {phase}, starts at {at}")
        } else {
            format!("UpgradeConfig: {phase}")
        }];
        notes.extend(self.plan.iter().flat_map(steps::notes));
        notes.extend(self.silences()?.into_iter().map(|it| format!("  {it}")));
        notes.push(String::new());
        Ok(notes)
    }

    /// Whether all of its steps are done.
    pub(crate) fn is_over(&self) -> bool {
        let phase = self.entry.as_ref().map(|entry| &entry.phase);
        phase == Some(&UpgradePhase::Upgraded)
    }

    /// Its steps that are done.
    pub(crate) fn steps(&self) -> Vec<StepSpan> {
        let both = self.plan.as_ref().zip(self.entry.as_ref());
        both.map_or_else(Vec::new, |(plan, entry)| steps::spans(plan, entry))
    }

    /// What went wrong about it, though the cluster is updated: something that it added is there
    /// still, or was never there.
    pub(crate) async fn doubts(&self) -> Result<Vec<String>> {
        let mut doubts = Vec::new();
        let silences = self.silences()?;
        if !silences.is_empty() {
            doubts.push(format!(
                "alerts are silenced still: {}",
                silences.join(", ")
            ));
        }
        doubts.extend(self.machines.doubt().await?);
        let reported = self.reported().await?;
        for state in ["StateStarted", "StateCompleted"] {
            if reported.iter().filter(|it| *it == state).count() != 1 {
                doubts.push(format!(
                    "{state} was not reported once: {}",
                    reported.join(", ")
                ));
            }
        }
        Ok(doubts)
    }

    /// States that events reported, sorted.
    pub(crate) async fn reported(&self) -> Result<Vec<String>> {
        let events = self.events.list(&ListParams::default()).await?;
        let reasons = events.items.into_iter().filter_map(|event| event.reason);
        let mut states: Vec<String> = reasons
            .filter(|reason| reason.starts_with("State"))
            .collect();
        states.sort();
        Ok(states)
    }

    /// Comments of the silences in force.
    fn silences(&self) -> Result<Vec<String>> {
        let url = format!("http://{}/api/v2/silences", self.alertmanager);
        let found: Vec<Value> = serde_json::from_str(&ask(&url)?)?;
        let text = |silence: &Value, pointer| {
            let text = silence.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let active = found
            .iter()
            .filter(|silence| text(silence, "/status/state") == "active");
        Ok(active.map(|silence| text(silence, "/comment")).collect())
    }
}

/// Programs beside the cluster, which its hosts and pods reach.
struct Parts<'a> {
    cluster: &'a Cluster,
    out: PathBuf,
}

impl<'a> Parts<'a> {
    fn new(cluster: &'a Cluster, out: &Path) -> Result<Self> {
        let out = out.join("managed");
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let out = out.canonicalize()?;
        Ok(Self { cluster, out })
    }

    fn address(&self) -> Result<SocketAddr> {
        let address = self.cluster.host_lab()?.lab.address();
        Ok((address, lab::free_address()?.port()).into())
    }

    #[expect(clippy::disallowed_methods, reason = "a run's own files")]
    fn write(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.out.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Prometheus with the alerts that are deployed with the components.
    fn prometheus(&self) -> Result<(Process, SocketAddr)> {
        let address = self.address()?;
        let mut groups = Vec::new();
        for of in ["controller", "daemon", "upgrade", "version"] {
            let file = format!("deploy/monitoring/{of}-alerts.yaml");
            for rules in manifest::load(&testbed::workspace().join(file))? {
                let found = rules.data.pointer("/spec/groups").and_then(Value::as_array);
                groups.extend(found.cloned().unwrap_or_default());
            }
        }
        self.write("rules.yml", &json!({ "groups": groups }).to_string())?;
        let itself = json!([{ "targets": [address.to_string()] }]);
        let settings = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": ["rules.yml"],
            "scrape_configs": [{ "job_name": "prometheus", "static_configs": itself }],
        });
        self.write("prometheus.yml", &settings.to_string())?;
        let arguments = [
            "--config.file=prometheus.yml".to_owned(),
            "--storage.tsdb.path=prometheus".to_owned(),
            format!("--web.listen-address={address}"),
        ];
        let program = Path::new("prometheus");
        let process = Process::start("prometheus", program, arguments, &self.out)?;
        Ok((process, address))
    }

    fn alertmanager(&self) -> Result<(Process, SocketAddr)> {
        let address = self.address()?;
        let routes = json!({ "route": { "receiver": "none" }, "receivers": [{ "name": "none" }] });
        self.write("alertmanager.yml", &routes.to_string())?;
        let arguments = [
            "--config.file=alertmanager.yml".to_owned(),
            "--storage.path=alertmanager".to_owned(),
            "--cluster.listen-address=".to_owned(),
            format!("--web.listen-address={address}"),
        ];
        let program = Path::new("prometheus-alertmanager");
        let process = Process::start("alertmanager", program, arguments, &self.out)?;
        Ok((process, address))
    }

    /// The update service, which has read the releases from the lab's registry.
    async fn update_service(&self, programs: &Programs) -> Result<(Process, SocketAddr)> {
        let (address, status) = (self.address()?, self.address()?);
        let data = self.out.join("graph-data");
        fs::create_dir_all(data.join("channels"))?;
        self.write("graph-data/version", "1.1.0")?;
        let channel = json!({ "name": CHANNEL, "versions": VERSIONS });
        let file = format!("graph-data/channels/{CHANNEL}.yaml");
        self.write(&file, &channel.to_string())?;
        let registry = self.cluster.host_lab()?.registry.location();
        let repository = format!("{registry}/slipway/release");
        let settings = json!({
            "serve": { "listen": address.to_string(), "status": status.to_string() },
            "releases": { "repository": repository, "insecure": true },
            "graphData": { "directory": data },
            "scrape": { "intervalSeconds": 5, "timeoutSeconds": 60 },
        });
        let file = self.write("update-service.yaml", &settings.to_string())?;
        let arguments = ["start".to_owned(), format!("--config={}", file.display())];
        let program = programs.path("update-service")?;
        let process = Process::start("update-service", &program, arguments, &self.out)?;
        let url = format!("http://{status}/readyz");
        until("the update service", SOON, async || {
            Ok(ask(&url).map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        Ok((process, address))
    }
}

/// Has the cluster ask the update service, and waits until it is offered a version.
async fn follow(cluster: &Cluster, graph: SocketAddr, version: &str) -> Result<()> {
    let versions = Api::<ClusterVersion>::all(cluster.objects().client().clone());
    let spec = json!({ "upstream": format!("http://{graph}/graph"), "channel": CHANNEL });
    let patch = Patch::Merge(json!({ "spec": spec }));
    let params = PatchParams::default();
    versions.patch("version", &params, &patch).await?;
    until(&format!("{version} to be offered"), SOON, async || {
        let status = versions.get("version").await?.status.unwrap_or_default();
        let offered: Vec<String> = status
            .available_updates
            .into_iter()
            .flatten()
            .map(|update| update.version)
            .collect();
        Ok(if offered.iter().any(|it| it == version) {
            Ok(())
        } else {
            Err(format!("offered: {offered:?}"))
        })
    })
    .await
}

/// Runs the operator in its pod.
async fn deploy(cluster: &Cluster, prometheus: SocketAddr, alertmanager: SocketAddr) -> Result<()> {
    let (mut definitions, mut others) = (Vec::new(), Vec::new());
    for mut object in cluster.deployed("managed-upgrade", "slipway-muo").await? {
        let is = |kind: &str| object.types.as_ref().is_some_and(|it| it.kind == kind);
        if is("CustomResourceDefinition") {
            definitions.push(object);
            continue;
        }
        if is("Deployment") {
            let more = [
                format!("--promql-url=http://{prometheus}"),
                format!("--alertmanager-url=http://{alertmanager}"),
            ];
            arguments(&mut object)?.extend(more.map(Value::from));
        }
        others.push(object);
    }
    let client = cluster.objects().client();
    manifest::apply(client, &definitions).await?;
    manifest::apply(client, &others).await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    until("the managed upgrade operator", SOON, async || {
        let all = deployments.list(&ListParams::default()).await?;
        let is_ready = |it: &Deployment| {
            let status = it.status.as_ref();
            status.and_then(|status| status.ready_replicas) == Some(1)
        };
        Ok(if !all.items.is_empty() && all.items.iter().all(is_ready) {
            Ok(())
        } else {
            Err("its pod is not ready".to_owned())
        })
    })
    .await
}

/// Arguments of the first container.
fn arguments(object: &mut DynamicObject) -> Result<&mut Vec<Value>> {
    let arguments = "/spec/template/spec/containers/0/args";
    let arguments = object.data.pointer_mut(arguments);
    arguments
        .and_then(Value::as_array_mut)
        .context("the Deployment's container has no arguments")
}

/// The body of an answer.
#[expect(clippy::disallowed_methods, reason = "a program of the machine")]
fn ask(url: &str) -> Result<String> {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--fail",
            "--noproxy",
            "*",
            "--max-time",
            "10",
            url,
        ])
        .output()
        .context("cannot run curl")?;
    ensure!(output.status.success(), "{url} does not answer");
    Ok(String::from_utf8(output.stdout)?)
}
