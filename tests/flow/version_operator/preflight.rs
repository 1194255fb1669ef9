//! The pools of another release are rendered by its own controller, in a Job, and rehearsed on a
//! node each. The controller of Jobs, the kubelet and the daemons are played here; the pod is the
//! real program, with the rights of its account.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, NAMESPACE, annotation};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::Api;
use kube::api::ListParams;
use lab::{PATIENCE, wait};
use machineconfig::render::{Base, Source, render};
use release::verification::{FILE, SignatureTrust};
use serde_json::{Value, json};
use testbed::objects;
use testbed::{Programs, ReleaseKey, SignatureServer};

use crate::machine_config::{OLD, Scene, image, manifest};
use crate::payload::{COMPONENTS, Payload, VERSION};

/// Pull spec of the next release, and the directory in which a retrieved one lies.
const NEXT: (&str, &str) = (
    "registry.example/release@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "-6cvm_MtSENpBN72vBHo5g",
);

/// A MachineConfig of the next release, for the workers.
const OWN_CONFIG: &str = "0000_80_machine-config_50_workers.json";

fn own_config(path: &str) -> Value {
    let file = json!({ "path": path, "contents": { "source": "data:," } });
    let config = json!({ "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } });
    let labels = json!({ "machineconfiguration.openshift.io/role": "worker" });
    let annotations =
        json!({ "include.release.openshift.io/self-managed-high-availability": "true" });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "98-release", "labels": labels, "annotations": annotations },
        "spec": { "config": config }
    })
}

fn source(name: &str, role: &str, spec: Value) -> Source {
    Source {
        name: name.to_owned(),
        role: Some(role.to_owned()),
        generated_by: None,
        spec,
    }
}

impl Scene {
    fn jobs(&self) -> Api<Job> {
        self.cluster.namespaced(NAMESPACE)
    }

    /// Runs the pod of the next Job, and reports it as kubelet and controller do.
    async fn run_job(&self) -> Result<()> {
        let jobs = self.jobs();
        let job = wait::until("the Job", PATIENCE, async || {
            let found = jobs.list(&ListParams::default()).await?.items;
            Ok(found.into_iter().next().ok_or_else(|| "none".to_owned()))
        })
        .await?;
        let name = job.metadata.name.context("a name")?;
        let template = job.spec.context("a spec")?.template;
        let spec = template.spec.context("a pod")?;
        let container = spec.containers.first().context("a container")?.clone();
        ensure!(container.image == Some(image("slipway-mcc", VERSION)));
        let mut labels = template.metadata.and_then(|metadata| metadata.labels);
        labels
            .get_or_insert_default()
            .insert("job-name".to_owned(), name.clone());
        let pod = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
        let pods: Api<Pod> = self.cluster.namespaced(NAMESPACE);
        objects::create(&pods, pod).await?;
        let message = self.run_container(&container).await?;
        let ended = json!({ "exitCode": 0, "reason": "Completed", "message": message });
        let status = json!({ "phase": "Succeeded", "containerStatuses": [{
            "name": container.name, "image": container.image, "imageID": "", "ready": false,
            "restartCount": 0, "state": { "terminated": ended }
        }] });
        objects::set_status(&pods, &name, &status).await?;
        objects::complete_job(&jobs, &name).await
    }

    /// Runs a container's command; its last message.
    async fn run_container(&self, container: &Container) -> Result<String> {
        let command = container.command.clone().unwrap_or_default();
        let [program, arguments @ ..] = command.as_slice() else {
            anyhow::bail!("no command");
        };
        ensure!(program == "/usr/bin/mcc", "{program}");
        let variables = container.env.clone().unwrap_or_default();
        let variables = variables
            .into_iter()
            .map(|one| (one.name, one.value.unwrap_or_default()));
        let output = self.cluster.dir.join("message");
        let mut command = Command::new(Programs::built()?.path("mcc")?);
        command.args(arguments).envs(variables);
        // The rights are those that a pod of the controller has.
        let account = (NAMESPACE, "machine-config-controller");
        let kubeconfig = self.cluster.account_kubeconfig("mcc.kubeconfig", account);
        command.arg("--kubeconfig").arg(kubeconfig.await?);
        command.arg("--output").arg(&output);
        let ended = tokio::task::spawn_blocking(move || command.output()).await??;
        let log = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{log}");
        Ok(std::fs::read_to_string(output)?)
    }

    /// Reports as the daemon does of the node that is named a configuration for a rehearsal.
    async fn report_rehearsal(&self, pool: &str, outcome: Option<&str>) -> Result<()> {
        let start = format!("preflight-{pool}-");
        let (node, config) = wait::until(&format!("a rehearsal of {pool}"), PATIENCE, async || {
            for node in ["m0", "m1", "w0"] {
                let object = self.objects.node(node).await?;
                let next = objects::annotation(&object, annotation::NEXT_CONFIG).to_owned();
                if next.starts_with(&start) {
                    return Ok(Ok((node, next)));
                }
            }
            Ok(Err("none".to_owned()))
        })
        .await?;
        let stored = self.objects.machine_config(&config).await?;
        ensure!(
            stored.spec.os_image_url == image("slipway-os", VERSION),
            "{stored:?}"
        );
        let report = match outcome {
            None => json!({ (annotation::FETCHED): config }),
            Some(cause) => json!({ (annotation::NOT_FETCHED): format!("{config}: {cause}") }),
        };
        self.objects.annotate(node, &report).await
    }

    /// What a preflight leaves alone: pools, configurations, nodes, Jobs.
    async fn state(&self) -> Result<Value> {
        let all = ListParams::default();
        let pools: Api<MachineConfigPool> = self.cluster.all();
        let configs: Api<MachineConfig> = self.cluster.all();
        let nodes: Api<Node> = self.cluster.all();
        let pools = pools
            .list(&all)
            .await?
            .items
            .into_iter()
            .map(|pool| json!([pool.metadata.name, pool.metadata.annotations, pool.spec]));
        let configs = configs.list(&all).await?.items.into_iter();
        let configs =
            configs.map(|config| json!([config.metadata.name, config.metadata.generation]));
        let nodes = nodes.list(&all).await?.items.into_iter().map(|node| {
            let mut annotations = node.metadata.annotations.unwrap_or_default();
            // The daemon removes its reports; it is played here.
            annotations.retain(|key, _| {
                ![annotation::FETCHED, annotation::NOT_FETCHED].contains(&key.as_str())
            });
            json!([node.metadata.name, annotations, node.spec])
        });
        let jobs = self.jobs().list(&all).await?.items.len();
        Ok(json!({
            "pools": pools.collect::<Vec<_>>(), "configs": configs.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(), "jobs": jobs
        }))
    }

    /// The outcome of a preflight of the next release.
    ///
    /// Shape: `reports` are pools that are rehearsed, and why the node cannot, if so.
    async fn preflight(&self, reports: &[(&str, Option<&str>)]) -> Result<Value> {
        let versions = &self.cluster.versions;
        let annotations =
            json!({ "slipway.dev/preflight": NEXT.0, "slipway.dev/preflight-result": null });
        let change = json!({ "metadata": { "annotations": annotations } });
        self.cluster.change(&change).await?;
        self.run_job().await?;
        for (pool, outcome) in reports {
            self.report_rehearsal(pool, *outcome).await?;
        }
        let result = wait::until("the preflight's end", PATIENCE, async || {
            let object = versions.get("version").await?;
            let annotations = object.metadata.annotations.unwrap_or_default();
            let text = annotations.get("slipway.dev/preflight-result");
            let result: Value = serde_json::from_str(text.map_or("null", String::as_str))?;
            let is_over = ["Passed", "Failed"]
                .iter()
                .any(|end| result["state"] == *end);
            Ok(if is_over {
                Ok(result)
            } else {
                Err(result.to_string())
            })
        })
        .await?;
        // As the daemon does once nothing is named any more.
        let nothing = json!({ (annotation::FETCHED): null, (annotation::NOT_FETCHED): null });
        for node in ["m0", "m1", "w0"] {
            self.objects.annotate(node, &nothing).await?;
        }
        Ok(result)
    }
}

/// The next release, as it was retrieved.
fn next_release(scene: &Scene) -> Result<Payload> {
    let root = scene.cluster.dir.join("payloads").join(NEXT.1);
    let next = Payload::make(root)?;
    for (level, component) in COMPONENTS {
        next.remove(&format!("0000_{level}_{component}_90_operator.json"))?;
    }
    Scene::write_release_to(&next)?;
    Ok(next)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn pools_of_another_release_are_rendered_by_its_controller() -> Result<()> {
    let (mut scene, controller) = Scene::start("preflight").await?;
    for (namespace, map) in [
        ("openshift-config", "admin-acks"),
        ("openshift-config-managed", "admin-gates"),
    ] {
        scene.cluster.make_namespaces(&[namespace])?;
        let control_plane = &scene.cluster.control_plane;
        let namespace = format!("--namespace={namespace}");
        control_plane.kubectl(&["create", "configmap", map, &namespace])?;
    }
    let rights = manifest("controller/rbac.yaml", OLD)?;
    scene.cluster.apply(&rights).await?;
    let (key, server) = (ReleaseKey::make()?, SignatureServer::start().await?);
    let digest = NEXT.0.split_once('@').context("a digest")?.1.parse()?;
    server.put(&digest, key.sign(&digest)?);
    let trust = SignatureTrust {
        keyrings: [("test".to_owned(), key.public.clone())].into(),
        stores: [("lab".to_owned(), server.address.clone())].into(),
    };
    let own = &scene.cluster.payload;
    own.rewrite(OLD)?;
    for (level, component) in COMPONENTS {
        own.remove(&format!("0000_{level}_{component}_90_operator.json"))?;
    }
    own.write_text(FILE, &String::from_utf8(trust.print()?)?)?;
    let next = next_release(&scene)?;
    scene.cluster.image = "registry.example/release@sha256:1".to_owned();
    let payloads = scene.cluster.dir.join("payloads");
    scene.cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        format!("--payloads={}", payloads.display()),
    ];
    let process = scene.cluster.run()?;
    scene
        .cluster
        .until_condition("Available", "Done applying 4.1.0")
        .await?;
    let before = scene.state().await?;

    // What is wrong is reported by pool, MachineConfig and field; the other pool is rendered.
    next.write(OWN_CONFIG, &own_config("etc/relative"))?;
    let cause = Some("no room on /sysroot: 3 MiB");
    let result = scene.preflight(&[("master", cause)]).await?;
    assert_eq!(result["state"], "Failed", "{result}");
    let failures = result["failures"].as_array().context("failures")?;
    assert_eq!(failures.len(), 2, "{result}");
    let failure = failures[1].as_str().context("a text")?;
    let words = "MachineConfigPool master: node m0 cannot fetch and rehearse its configuration: \
                 no room on /sysroot: 3 MiB";
    assert_eq!(failure, words);
    let failure = failures[0].as_str().context("a text")?;
    for words in [
        "MachineConfigPool worker: ",
        "MachineConfig \"98-release\": spec.config: storage.files[0]",
    ] {
        assert!(failure.contains(words), "{failure}");
    }
    let base = Base {
        os_image_url: image("slipway-os", VERSION),
        ..Base::default()
    };
    let present = json!({ "kernelArguments": ["quiet"] });
    let masters = [source("00-master", "master", present.clone())];
    let master = render("master", &masters, &base)?.name;
    assert_eq!(
        (&result["pools"][0]["pool"], &result["pools"][0]["config"]),
        (&json!("master"), &json!(master))
    );

    // Corrected, it passes, and is rendered from what the release brings.
    let corrected = own_config("/etc/absolute");
    next.write(OWN_CONFIG, &corrected)?;
    let reports = [("master", None), ("worker", None)];
    let result = scene.preflight(&reports).await?;
    assert_eq!(result["state"], "Passed", "{result}");
    assert_eq!(result["notChecked"], json!([]));
    let workers = [
        source("00-worker", "worker", present),
        source("98-release", "worker", corrected["spec"].clone()),
    ];
    let worker = render("worker", &workers, &base)?.name;
    for (number, (pool, config, node)) in [("master", master, "m0"), ("worker", worker, "w0")]
        .into_iter()
        .enumerate()
    {
        let found = &result["pools"][number];
        let found = [&found["pool"], &found["config"], &found["node"]];
        assert_eq!(found, [&json!(pool), &json!(config), &json!(node)]);
    }

    // Nothing of it is left, and nothing else was changed.
    wait::until("the state before", PATIENCE, async || {
        let after = scene.state().await?;
        Ok(if after == before {
            Ok(())
        } else {
            Err(format!("{after:#}\nis not\n{before:#}"))
        })
    })
    .await?;
    drop((process, controller));
    Ok(())
}
