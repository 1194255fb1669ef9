//! Run level 80 with the real controller: the release's manifests are those of `deploy/`, and nodes
//! are objects whose daemons are played here.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{
    ControllerConfig, ControllerConfigSpec, MachineConfig, MachineConfigPool, NAMESPACE, annotation,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::audit::{Event, Verb};
use lab::control_plane::Process;
use lab::{PATIENCE, wait};
use serde_json::{Value, json};
use testbed::objects::{self, Objects};

use crate::env::Cluster;
use crate::payload::{Payload, VERSION};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// The release before.
pub(crate) const OLD: &str = "4.1.0";

/// How long nothing must happen.
const QUIET: Duration = Duration::from_secs(3);

const MASTERS: [&str; 2] = ["m0", "m1"];

pub(crate) fn image(name: &str, version: &str) -> String {
    format!("registry.example/{name}-{version}@sha256:1")
}

/// A file of `deploy/` with the versions and images of a release in the place of placeholders.
pub(crate) fn manifest(file: &str, version: &str) -> Result<String> {
    let path = Path::new(DEPLOY).join(file);
    let text = std::fs::read_to_string(&path).with_context(|| file.to_owned())?;
    let mut text = text.replace("0.0.1-snapshot", version);
    for name in ["slipway-os", "slipway-mcd", "slipway-mcc"] {
        let image = image(name, version);
        text = text.replace(&format!(": {name}\n"), &format!(": {image}\n"));
        text = text.replace(&format!("\"{name}\""), &format!("\"{image}\""));
    }
    Ok(text)
}

pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) objects: Objects,
    daemons: Api<DaemonSet>,
    controllers: Api<Deployment>,
    maps: Api<ConfigMap>,
    configs: Api<ControllerConfig>,
}

impl Scene {
    /// A cluster at the release before, with its controller and its operator.
    pub(crate) async fn start(name: &str) -> Result<(Self, [Process; 2])> {
        let cluster = Cluster::start(name, 4).await?;
        let this = Self {
            objects: cluster.objects.clone(),
            daemons: cluster.namespaced(NAMESPACE),
            controllers: cluster.namespaced(NAMESPACE),
            maps: cluster.namespaced(NAMESPACE),
            configs: cluster.all(),
            cluster,
        };
        for level in ["10_alpha", "20_beta", "50_gamma"] {
            let file = format!("0000_{level}_90_operator.json");
            this.cluster.payload.remove(&file)?;
        }
        let crds = format!("{DEPLOY}/crds");
        lab::manifest::define(this.objects.client(), Path::new(&crds)).await?;
        for file in [
            "daemon/namespace.yaml",
            "daemon/daemonset.yaml",
            "release/images.yaml",
        ] {
            this.cluster.apply(&manifest(file, OLD)?).await?;
        }
        this.roll_daemons(1).await?;
        this.create_machines().await?;
        let controller = this.run_controller(OLD)?;
        let rendered = this.rendered().await?;
        for (node, role) in [("m0", "master"), ("m1", "master"), ("w0", "worker")] {
            let target = rendered.get(role).context("a target")?;
            this.objects.annotate(node, &settled(target)).await?;
        }
        this.until_operator("4.1.0", "Cluster version is 4.1.0")
            .await?;
        Ok((this, controller))
    }

    /// Pools, their sources, nodes, and what the installer says of the cluster.
    async fn create_machines(&self) -> Result<()> {
        for role in ["master", "worker"] {
            let labels = json!({ "machineconfiguration.openshift.io/role": role });
            let config = json!({ "metadata": { "name": format!("00-{role}"), "labels": labels }, "spec": { "kernelArguments": ["quiet"] } });
            objects::create::<MachineConfig>(&self.cluster.all(), config).await?;
            let node_role = format!("node-role.kubernetes.io/{role}");
            let pool = json!({ "metadata": { "name": role }, "spec": {
                "machineConfigSelector": { "matchLabels": labels },
                "nodeSelector": { "matchLabels": { node_role: "" } },
                // Workers are not waited for.
                "paused": role == "worker"
            } });
            objects::create::<MachineConfigPool>(&self.cluster.all(), pool).await?;
        }
        let nodes: Api<Node> = self.cluster.all();
        for (name, role) in [("m0", "master"), ("m1", "master"), ("w0", "worker")] {
            let node_role = format!("node-role.kubernetes.io/{role}");
            let node = json!({ "metadata": { "name": name, "labels": { node_role: "" } } });
            objects::create(&nodes, node).await?;
            let mut status = json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }] });
            // A kubelet of an unknown version speaks against another minor release.
            let info = json!({
                "kubeletVersion": "v1.36.0", "kubeProxyVersion": "", "kernelVersion": "",
                "osImage": "", "containerRuntimeVersion": "", "operatingSystem": "linux",
                "architecture": "", "machineID": "", "systemUUID": "", "bootID": ""
            });
            status["nodeInfo"] = info;
            let patch = Patch::Strategic(json!({ "status": status }));
            nodes
                .patch_status(name, &PatchParams::default(), &patch)
                .await?;
        }
        let authority = ByteString(b"authority".to_vec());
        let spec = ControllerConfigSpec {
            kube_api_server_serving_ca_data: authority.clone(),
            root_ca_data: authority,
            ..ControllerConfigSpec::default()
        };
        let config = ControllerConfig::new("machine-config-controller", spec);
        self.configs.create(&PostParams::default(), &config).await?;
        Ok(())
    }

    /// Both processes of a release: they share nothing but the cluster.
    fn run_controller(&self, version: &str) -> Result<[Process; 2]> {
        Ok([
            self.run_one("mcc", "pools", version)?,
            self.run_one("mco", "cluster", version)?,
        ])
    }

    fn run_one(&self, name: &str, duties: &str, version: &str) -> Result<Process> {
        let kubeconfig = self.cluster.control_plane.admin_kubeconfig();
        let arguments = [
            "start".to_owned(),
            format!("--duties={duties}"),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--release-version={version}"),
            "--leader-elect=false".to_owned(),
            "--metrics-url=127.0.0.1:0".to_owned(),
            "--v=4".to_owned(),
        ];
        let name = format!("{name}-{version}");
        self.cluster.server.run(&name, "mcc", arguments)
    }

    /// What the DaemonSet's controller writes once every node runs the pod.
    async fn roll_daemons(&self, generation: i64) -> Result<()> {
        let status = json!({
            "observedGeneration": generation, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "updatedNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3, "numberMisscheduled": 0
        });
        objects::set_status(&self.daemons, "machine-config-daemon", &status).await
    }

    /// The configurations that both pools name, once they do.
    async fn rendered(&self) -> Result<BTreeMap<&'static str, String>> {
        let read = async || {
            let mut all = BTreeMap::new();
            for pool in ["master", "worker"] {
                all.insert(pool, self.objects.target(pool).await?);
            }
            Ok(all)
        };
        wait::until_so("rendered pools", read, |all| {
            all.values().all(|target| !target.is_empty())
        })
        .await
    }

    /// What a daemon writes that has followed its node's assignment, once it is assigned.
    async fn update(&self, node: &str) -> Result<()> {
        let desired = wait::until(&format!("assignment of {node}"), PATIENCE, async || {
            let object = self.objects.node(node).await?;
            let of = |key| objects::annotation(&object, key).to_owned();
            let (current, desired) = (
                of(annotation::CURRENT_CONFIG),
                of(annotation::DESIRED_CONFIG),
            );
            Ok(if current == desired {
                Err(current)
            } else {
                Ok(desired)
            })
        })
        .await?;
        self.objects.annotate(node, &settled(&desired)).await
    }

    /// Waits until the ClusterOperator has a version, and says something of its progress.
    async fn until_operator(&self, version: &str, words: &str) -> Result<Value> {
        let what = format!("machine-config {version}: {words}");
        wait::until(&what, PATIENCE, async || {
            let operator = self.cluster.operators.get_opt("machine-config").await?;
            let status = operator.and_then(|one| one.status).unwrap_or_default();
            let found = status.version("operator").unwrap_or("none") == version;
            let mut conditions = status.conditions.iter();
            let says = conditions.any(|one| one.message.contains(words));
            let read = serde_json::to_value(&status)?;
            Ok(if found && says {
                Ok(read)
            } else {
                Err(format!("{read:#}"))
            })
        })
        .await
    }

    /// The release: what `deploy/` has for run level 80, and a component behind it.
    pub(crate) fn write_release_to(payload: &Payload) -> Result<()> {
        for (number, file) in [
            ("30", "daemon/namespace.yaml"),
            ("32", "daemon/daemonset.yaml"),
            ("40", "release/images.yaml"),
            ("51", "operator/deployment.yaml"),
            ("61", "controller/deployment.yaml"),
            ("90", "cluster-operator/machine-config.yaml"),
        ] {
            let name = format!("0000_80_machine-config_{number}_{}", file.replace('/', "-"));
            let text = manifest(file, VERSION)?;
            payload.write_text(&name, &text)?;
        }
        let late = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "late", "namespace": "default",
            "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" }
        } });
        payload.write("0000_90_late_05_config.json", &late)
    }

    /// Releases the workers, which stayed one release behind, and waits until they have followed.
    async fn release_workers(&self) -> Result<()> {
        let target = self.objects.target("worker").await?;
        let worker = async || -> Result<_> {
            let node = self.objects.node("w0").await?;
            Ok(objects::annotation(&node, annotation::DESIRED_CONFIG).to_owned())
        };
        ensure!(worker().await? != target, "a paused worker was assigned");
        self.objects.pause("worker", false).await?;
        self.update("w0").await?;
        // The version was reached before; now nothing is under way.
        let read = async || {
            let operator = self.cluster.operators.get("machine-config").await?;
            let all = operator.status.unwrap_or_default().conditions;
            let all = all
                .iter()
                .map(|one| format!("{}={}", one.r#type, one.message));
            let text = all.collect::<Vec<_>>().join("; ");
            Ok(text + ";")
        };
        let done = format!("Progressing=Cluster version is {VERSION};");
        wait::until_so("the workers", read, |text| text.contains(&done)).await?;
        ensure!(worker().await? == target, "not the release's configuration");
        Ok(())
    }

    async fn os_image(&self) -> Result<String> {
        let config = self.configs.get("machine-config-controller").await?;
        Ok(config.spec.base_os_container_image)
    }
}

/// Annotations of a node that is done in a configuration.
fn settled(config: &str) -> Value {
    json!({
        (annotation::CURRENT_CONFIG): config,
        (annotation::DESIRED_CONFIG): config,
        (annotation::STATE): "Done"
    })
}

/// What is waited for is reported with its cause, and a rollout is no failure. Rows 3 and 19 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn run_level_80_ends_when_the_control_plane_is_updated() -> Result<()> {
    let (scene, old_controller) = Scene::start("machine-config").await?;
    assert_eq!(scene.os_image().await?, image("slipway-os", OLD));
    Scene::write_release_to(&scene.cluster.payload)?;
    let process = scene.cluster.run()?;

    // The daemons come first. Nothing else of the run level is there before them.
    let waits = scene
        .cluster
        .until_condition("Progressing", "machine-config-daemon")
        .await?;
    assert!(waits.contains("Working towards"), "{waits}");
    scene.cluster.until_condition("Failing", "False").await?;
    tokio::time::sleep(QUIET).await;
    let map = scene.maps.get("machine-config-osimageurl").await?;
    assert_eq!(map.data.unwrap_or_default()["releaseVersion"], OLD);
    assert!(
        scene
            .controllers
            .get_opt("machine-config-controller")
            .await?
            .is_none()
    );
    scene.roll_daemons(2).await?;

    // The controller of the release before leaves the new images alone.
    let deployment = wait::until("the controller", PATIENCE, async || {
        let found = scene.controllers.get_opt("machine-config-controller");
        Ok(found.await?.ok_or_else(|| "none".to_owned()))
    })
    .await?;
    tokio::time::sleep(QUIET).await;
    assert_eq!(scene.os_image().await?, image("slipway-os", OLD));
    let version = deployment
        .spec
        .and_then(|spec| spec.template.spec)
        .and_then(|spec| spec.containers.into_iter().next())
        .and_then(|one| one.env)
        .and_then(|env| env.into_iter().find(|one| one.name == "RELEASE_VERSION"))
        .and_then(|one| one.value);
    assert_eq!(version.as_deref(), Some(VERSION));
    drop(old_controller);
    let controller = scene.run_controller(VERSION)?;

    // The pool is on its way, node by node; the version operator waits.
    scene
        .until_operator(OLD, "pool master has updated 0 of 2 nodes")
        .await?;
    assert_eq!(scene.os_image().await?, image("slipway-os", VERSION));
    let message = scene
        .cluster
        .until_condition("Progressing", "waiting on machine-config")
        .await?;
    assert!(
        message.contains("clusteroperator \"machine-config\"") && message.contains(" since 20"),
        "{message}"
    );
    scene
        .cluster
        .until_condition("Progressing", "pool master has updated 0 of 2 nodes")
        .await?;
    let [one, other] = MASTERS;
    let first = wait::until("an assignment", PATIENCE, async || {
        for node in MASTERS {
            let object = scene.objects.node(node).await?;
            let of = |key| objects::annotation(&object, key).to_owned();
            if of(annotation::CURRENT_CONFIG) != of(annotation::DESIRED_CONFIG) {
                return Ok(Ok(node));
            }
        }
        Ok(Err("none".to_owned()))
    })
    .await?;
    scene.update(first).await?;
    scene
        .until_operator(OLD, "pool master has updated 1 of 2 nodes")
        .await?;
    assert!(scene.cluster.maps.get_opt("late").await?.is_none());
    scene.update(if first == one { other } else { one }).await?;

    // Done, though the paused workers are one release behind.
    let status = scene
        .until_operator(VERSION, "pool worker has updated 0 of 1 nodes")
        .await?;
    assert_eq!(
        status["versions"][1],
        json!({ "name": "operator-image", "version": image("slipway-mcc", VERSION) })
    );
    scene
        .cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;
    assert!(scene.cluster.maps.get_opt("late").await?.is_some());
    in_order(&scene.cluster.events()?)?;
    scene.release_workers().await?;
    drop((process, controller));
    Ok(())
}

/// Daemons, then the OS image, then the version, then the run level behind.
fn in_order(events: &[Event]) -> Result<()> {
    let writes = |agent: &'static str, name: &'static str| {
        events.iter().filter(move |event| {
            let object = event.object.as_ref();
            event.succeeded()
                && event.user_agent.starts_with(agent)
                && !matches!(event.verb, Verb::Get | Verb::List | Verb::Watch)
                && object.is_some_and(|object| object.name == name)
        })
    };
    let is_status = |event: &&Event| event.uri.contains("/status");
    let is_reached = |event: &&Event| {
        let body = event.request.as_ref();
        body.and_then(|body| body.pointer("/status/versions/0/version")) == Some(&json!(VERSION))
    };
    // The last status of the DaemonSet is the one of its new pods, played by this program; the last
    // change of the ControllerConfig is the one of the new controller.
    let daemons = writes("", "machine-config-daemon").rfind(is_status);
    let os = writes("mcc/", "machine-config-controller").rfind(|event| !is_status(event));
    let version = writes("mcc/", "machine-config").find(is_reached);
    let late = writes("cvo/", "late").next();
    let received = |event: Option<&Event>, what| {
        let event = event.with_context(|| format!("no write of {what}"))?;
        anyhow::Ok(event.received)
    };
    let daemons = received(daemons, "the daemons")?;
    let os = received(os, "the OS image")?;
    let version = received(version, "the version")?;
    let late = received(late, "the run level behind")?;
    ensure!(
        daemons < os && os < version && version < late,
        "{daemons} {os} {version} {late}"
    );
    Ok(())
}
