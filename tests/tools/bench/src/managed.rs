//! The managed upgrade operator at rest and at the start of an upgrade, before a real API server,
//! Prometheus and Alertmanager.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::config::{ClusterOperator, ClusterVersion};
use api::machineconfiguration::MachineConfigPool;
use api::upgrade::{NAMESPACE, UpgradeConfig, upgrade_config};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{Patch, PatchParams};
use lab::audit::Verb;
use lab::control_plane::Process;
use lab::{PATIENCE, free_address, manifest, wait};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::{ApiServer, Programs, objects, workspace};

use crate::changes::ms;
use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory;
use crate::traffic::{self, Window};

/// What the operator calls itself.
const PROGRAM: &str = "muo";

const OLD: &str = "4.16.3";
const NEW: &str = "4.16.4";

/// Of a real cluster of some size.
const OPERATORS: usize = 33;
const NODES: usize = 50;

/// Until the start of the upgrade that is measured.
const AHEAD: SignedDuration = SignedDuration::from_secs(15);

/// What the operator works with. All of it ends when dropped.
struct Scene {
    server: ApiServer,
    operator: Process,
    _servers: [Process; 2],
}

/// Memory and requests of an idle stretch with an upgrade a month ahead, and then the time from the
/// start of one to the write of ClusterVersion: all gates open, no capacity requested.
///
/// Errors: a part does not start, or the upgrade does not.
pub(crate) async fn measure(
    programs: &Programs,
    out: &Path,
    idle: Duration,
) -> Result<Vec<Figure>> {
    let mut scene = Scene::start(programs, out).await?;
    let month = Timestamp::now() + SignedDuration::from_hours(30 * 24);
    scene.schedule(month).await?;
    scene.until_valid().await?;
    // The last of what the start costs.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let from = Timestamp::now();
    tokio::time::sleep(idle).await;
    let window = Window {
        from,
        until: Timestamp::now(),
    };
    scene.operator.check()?;
    let memory = memory::of(scene.operator.id())?;
    let events = scene.server.events()?;
    let seen = traffic::requests(&events, PROGRAM, &window).len();
    let requests = traffic::requests_of_an_hour(&events, PROGRAM, &window);

    let start = Timestamp::from_second((Timestamp::now() + AHEAD).as_second())?;
    scene.schedule(start).await?;
    let written = scene.until_asked().await?;
    scene.operator.check()?;
    let after = memory::of(scene.operator.id())?;
    Ok(vec![
        Figure::new("muo_rss", float(memory.resident))?
            .beside("anonymous", float(memory.anonymous), Unit::Bytes)
            .beside("after the start", float(after.resident), Unit::Bytes)
            .beside("nodes", count(NODES), Unit::Count)
            .beside("cluster operators", count(OPERATORS), Unit::Count),
        Figure::new("muo_idle_requests", requests)?
            .beside("measured for", window.secs(), Unit::Seconds)
            .beside("seen", count(seen), Unit::Requests),
        Figure::new("muo_start_ms", ms(start, written))?.beside(
            "cluster operators",
            count(OPERATORS),
            Unit::Count,
        ),
    ])
}

impl Scene {
    async fn start(programs: &Programs, out: &Path) -> Result<Self> {
        let server = ApiServer::start_in(&out.join("managed-upgrade")).await?;
        for crds in [
            "deploy/cvo/crds",
            "deploy/managed-upgrade/crds",
            "deploy/crds/machineconfigpools.yaml",
        ] {
            manifest::define(server.objects.client(), &workspace().join(crds)).await?;
        }
        server.make_namespaces(&[NAMESPACE])?;
        fill(&server).await?;
        let (prometheus, alertmanager) = (free_address()?, free_address()?);
        let servers = [
            start_prometheus(&server.dir, prometheus)?,
            start_alertmanager(&server.dir, alertmanager)?,
        ];
        for address in [prometheus, alertmanager] {
            wait::until("a server of alerts", PATIENCE, async || {
                let connected = tokio::net::TcpStream::connect(address).await;
                Ok(connected.map(drop).map_err(|error| error.to_string()))
            })
            .await?;
        }
        let kubeconfig = server.control_plane.admin_kubeconfig();
        let operator = Process::start(
            PROGRAM,
            &programs.path(PROGRAM)?,
            [
                "start".to_owned(),
                format!("--kubeconfig={}", kubeconfig.display()),
                "--metrics-url=127.0.0.1:0".to_owned(),
                format!("--promql-url=http://{prometheus}"),
                format!("--alertmanager-url=http://{alertmanager}"),
            ],
            &server.dir,
        )?;
        Ok(Self {
            server,
            operator,
            _servers: servers,
        })
    }

    /// Asks for an upgrade at this time.
    async fn schedule(&self, at: Timestamp) -> Result<()> {
        let at = Timestamp::from_second(at.as_second())?.to_string();
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1", "kind": "UpgradeConfig",
            "metadata": { "name": upgrade_config::NAME },
            "spec": {
                "type": "OSD", "upgradeAt": at, "PDBForceDrainTimeout": 30,
                "capacityReservation": false,
                "desired": { "version": NEW, "channel": "stable-4.16" },
            },
        });
        let params = PatchParams::apply("bench").force();
        self.upgrades()
            .patch(upgrade_config::NAME, &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    fn upgrades(&self) -> Api<UpgradeConfig> {
        self.server.namespaced(NAMESPACE)
    }

    async fn until_valid(&self) -> Result<()> {
        let upgrades = self.upgrades();
        wait::until("the upgrade to be valid", PATIENCE, async || {
            let status = upgrades.get(upgrade_config::NAME).await?.status;
            let printed = serde_json::to_string(&status)?;
            let is_valid = printed.contains("the UpgradeConfig can be followed");
            Ok(if is_valid { Ok(()) } else { Err(printed) })
        })
        .await
    }

    /// When ClusterVersion was asked for the release.
    async fn until_asked(&self) -> Result<Timestamp> {
        wait::until("ClusterVersion to be set", PATIENCE, async || {
            let events = self.server.events()?;
            let set = events.iter().find(|event| {
                event.user_agent.starts_with("muo/")
                    && event.concerns("config.openshift.io", "clusterversions")
                    && !matches!(event.verb, Verb::Get | Verb::List | Verb::Watch)
                    && event.succeeded()
            });
            if let Some(set) = set {
                return Ok(Ok(set.at));
            }
            let status = self.upgrades().get(upgrade_config::NAME).await?.status;
            Ok(Err(serde_json::to_string(&status)?))
        })
        .await
    }
}

/// Objects of a cluster at rest, which may be upgraded.
async fn fill(server: &ApiServer) -> Result<()> {
    let versions = server.all::<ClusterVersion>();
    let release = |version: &str| {
        let image = format!("registry.example/release@sha256:{version}");
        json!({ "version": version, "image": image })
    };
    let completed = json!({
        "state": "Completed", "startedTime": "2025-01-01T00:00:00Z",
        "completionTime": "2025-01-01T01:00:00Z", "verified": true,
        "version": OLD, "image": format!("registry.example/release@sha256:{OLD}")
    });
    let spec = json!({
        "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11", "channel": "stable-4.16"
    });
    let status = json!({
        "desired": release(OLD), "history": [completed], "observedGeneration": 1,
        "versionHash": "", "availableUpdates": [release(NEW)]
    });
    make(&versions, "version", &json!({ "spec": spec }), &status).await?;
    let operators = server.all::<ClusterOperator>();
    let condition = |r#type: &str, status: &str| json!({ "type": r#type, "status": status, "lastTransitionTime": "2025-01-01T00:00:00Z" });
    let status = json!({
        "conditions": [
            condition("Available", "True"), condition("Progressing", "False"),
            condition("Degraded", "False")
        ],
        "versions": [{ "name": "operator", "version": OLD }]
    });
    for number in 0..OPERATORS {
        let name = format!("operator-{number:02}");
        make(&operators, &name, &json!({ "spec": {} }), &status).await?;
    }
    let pools = server.all::<MachineConfigPool>();
    for (name, machines) in [("master", 3), ("worker", NODES - 3)] {
        let status = json!({
            "machineCount": machines, "updatedMachineCount": machines,
            "readyMachineCount": machines, "unavailableMachineCount": 0,
            "degradedMachineCount": 0
        });
        make(&pools, name, &json!({ "spec": {} }), &status).await?;
    }
    let nodes = server.all::<Node>();
    let ready = json!({ "type": "Ready", "status": "True", "reason": "a", "message": "b" });
    let status = json!({ "conditions": [ready] });
    for number in 0..NODES {
        make(&nodes, &format!("node-{number:02}"), &json!({}), &status).await?;
    }
    let maps = server.namespaced::<ConfigMap>(NAMESPACE);
    let name = "managed-upgrade-operator-config";
    let text = "{nodeDrain: {timeOut: 45}}";
    let map = json!({ "metadata": { "name": name }, "data": { "config.yaml": text } });
    objects::create(&maps, map).await.map(drop)
}

async fn make<K>(api: &Api<K>, name: &str, object: &Value, status: &Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let mut object = object.clone();
    let fields = object.as_object_mut().context("an object of fields")?;
    fields.insert("metadata".to_owned(), json!({ "name": name }));
    objects::create(api, object).await?;
    objects::set_status(api, name, status).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "files that last as long as the run"
)]
fn start_prometheus(dir: &Path, address: SocketAddr) -> Result<Process> {
    let settings = json!({ "global": { "scrape_interval": "5s" }, "scrape_configs": [{
        // The gates fail closed without data.
        "job_name": "prometheus", "static_configs": [{ "targets": [address.to_string()] }]
    }] });
    fs::write(dir.join("prometheus.yml"), settings.to_string())?;
    let arguments = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=prometheus".to_owned(),
        format!("--web.listen-address={address}"),
    ];
    Process::start("prometheus", &PathBuf::from("prometheus"), arguments, dir)
}

#[expect(
    clippy::disallowed_methods,
    reason = "files that last as long as the run"
)]
fn start_alertmanager(dir: &Path, address: SocketAddr) -> Result<Process> {
    let settings = json!({ "route": { "receiver": "none" }, "receivers": [{ "name": "none" }] });
    fs::write(dir.join("alertmanager.yml"), settings.to_string())?;
    let arguments = [
        "--config.file=alertmanager.yml".to_owned(),
        "--storage.path=alertmanager".to_owned(),
        "--cluster.listen-address=".to_owned(),
        format!("--web.listen-address={address}"),
    ];
    let program = PathBuf::from("prometheus-alertmanager");
    Process::start("alertmanager", &program, arguments, dir)
}
