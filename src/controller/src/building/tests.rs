//! Builds against an API server that keeps objects, and a registry.

mod server;

use std::sync::{Arc, Mutex};

use api::machineconfiguration::BuildPhase;
use cluster::access::Access;
use cluster::events::{Recorder, Speaker};
use serde_json::{Value, json};

use self::server::{Api, SharedApi, registry};
use super::*;
use crate::fixture::{Cluster, OLD, node, pool, read};
use crate::metrics::ControllerMetrics;
use crate::requests::Requests;
use crate::store::Store;

const GROUP: &str = "/apis/machineconfiguration.openshift.io/v1";
const NAMESPACE: &str = "openshift-machine-config-operator";
const RENDERED: &str = "rendered-worker-1";

fn clock() -> Timestamp {
    "2026-11-21T19:17:00Z".parse().unwrap()
}

/// A cluster with a MachineOSConfig, and what a controller remembers of it.
struct Lab {
    api: SharedApi,
    /// Tags of the registry, with their digests.
    tags: Arc<Mutex<Vec<(String, String)>>>,
    state: Mutex<BuildingState>,
    options: BuildOptions,
}

impl Lab {
    async fn start() -> Self {
        let tags = Arc::new(Mutex::new(Vec::new()));
        let host = registry(Arc::clone(&tags)).await;
        let api = Api::shared();
        let login = json!({ "auths": { host.as_str(): { "username": "me", "password": "p" } } });
        let secret = |name: &str| {
            json!({
                "metadata": { "name": name }, "type": "kubernetes.io/dockerconfigjson",
                "stringData": { ".dockerconfigjson": login.to_string() },
            })
        };
        let rendered = json!({
            "metadata": { "name": RENDERED },
            "spec": { "osImageURL": "quay.io/base@sha256:1", "config": {
                "ignition": { "version": "3.5.0" },
                "storage": { "files": [{ "path": "/usr/lib/x", "contents": { "source": "data:,x" } }] },
            } },
        });
        {
            let mut server = api.lock().unwrap();
            server.put(&format!("{GROUP}/machineconfigs"), &rendered);
            let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
            server.put(&secrets, &secret("push"));
            server.put(
                "/api/v1/namespaces/openshift-config/secrets",
                &secret("pull-secret"),
            );
            server.put(
                &format!("{GROUP}/machineosconfigs"),
                &json!({
                    "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
                    "metadata": { "name": "worker", "generation": 1 },
                    "spec": {
                        "machineConfigPool": { "name": "worker" },
                        "imageBuilder": { "imageBuilderType": "Job" },
                        "renderedImagePushSecret": { "name": "push" },
                        "renderedImagePushSpec": format!("{host}/a/os:latest"),
                    },
                }),
            );
        }
        Self {
            api,
            tags,
            state: Mutex::new(BuildingState::new()),
            options: BuildOptions {
                builder: Some("quay.io/builder@sha256:2".to_owned()),
                is_insecure: true,
            },
        }
    }

    /// What the watches bring.
    fn store(&self) -> Store {
        let mut member = node("n", OLD);
        member["metadata"]["labels"]["kubernetes.io/arch"] = json!("amd64");
        let server = self.api.lock().unwrap();
        let cluster = Cluster {
            pools: vec![pool(Some(RENDERED))],
            nodes: vec![member],
            controller_configs: vec![json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
                "metadata": { "name": "machine-config-controller", "resourceVersion": "1" },
                "spec": {},
            })],
            os_configs: server.all(&format!("{GROUP}/machineosconfigs")),
            os_builds: server.all(&format!("{GROUP}/machineosbuilds")),
            ..Cluster::default()
        };
        drop(server);
        let store = Store::default();
        cluster.fill(&store);
        store
    }

    /// Reconciles once. What was remembered stays.
    async fn reconcile(&self) -> Result<Next, wire::Error> {
        let access = Arc::new(Access::of_client(server::client(&self.api)));
        let speaker = Speaker {
            component: "machineconfigcontroller".to_owned(),
            host: String::new(),
            namespace: "mco".to_owned(),
        };
        let (recorder, sending) = Recorder::new(Arc::clone(&access), speaker);
        tokio::spawn(sending);
        let metrics = Arc::new(ControllerMetrics::default());
        let requests = Requests::new(access);
        let context = Context::new(requests, self.store(), recorder.clone(), metrics, clock);
        let building = Building {
            context: &context,
            state: &self.state,
            options: &self.options,
            name: "worker",
        };
        let next = Box::pin(building.reconcile()).await;
        recorder.flush().await;
        next
    }

    /// Another process takes over.
    fn restart(&self) {
        *self.state.lock().unwrap() = BuildingState::new();
    }

    fn build(&self) -> MachineOSBuild {
        let builds = self
            .api
            .lock()
            .unwrap()
            .all(&format!("{GROUP}/machineosbuilds"));
        assert_eq!(builds.len(), 1, "{builds:?}");
        read(&builds[0])
    }

    fn config(&self) -> MachineOSConfig {
        read(
            &self
                .api
                .lock()
                .unwrap()
                .all(&format!("{GROUP}/machineosconfigs"))[0],
        )
    }

    fn jobs(&self) -> Vec<Value> {
        let jobs = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs");
        self.api.lock().unwrap().all(&jobs)
    }

    /// Objects that were made for builds, by kind.
    fn made(&self) -> usize {
        let server = self.api.lock().unwrap();
        let maps = server.all(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"));
        let secrets = server.all(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"));
        maps.len() + secrets.len() - 1
    }

    /// The Job ends: its pod pushed an image, or failed.
    fn end_job(&self, has_succeeded: bool, has_pod: bool) {
        let build = self.build();
        let mut job = self.jobs().remove(0);
        let digest = format!("sha256:{}", "d".repeat(64));
        let (r#type, code, message) = if has_succeeded {
            let spec = &build.spec.rendered_image_push_spec;
            let (_, tag) = spec.rsplit_once(':').unwrap();
            let mut tags = self.tags.lock().unwrap();
            tags.push((tag.to_owned(), digest.clone()));
            tags.push((digest.clone(), digest.clone()));
            ("Complete", 0, digest)
        } else {
            ("Failed", 65, "no such file".to_owned())
        };
        job["status"] = json!({ "conditions": [{
            "type": r#type, "status": "True", "reason": "PodFailurePolicy", "message": "",
            "lastTransitionTime": "2026-11-21T19:20:00Z",
        }] });
        let mut server = self.api.lock().unwrap();
        server.put(&format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs"), &job);
        if has_pod {
            let pod = json!({
                "metadata": { "name": "p" },
                "status": { "containerStatuses": [{
                    "name": "build", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": { "exitCode": code, "message": message } },
                }] },
            });
            server.put(&format!("/api/v1/namespaces/{NAMESPACE}/pods"), &pod);
        }
    }

    fn events(&self) -> Vec<String> {
        let events = self
            .api
            .lock()
            .unwrap()
            .all("/api/v1/namespaces/mco/events");
        let reasons = events.iter().map(|event| event["reason"].as_str().unwrap());
        let mut reasons: Vec<String> = reasons.map(ToOwned::to_owned).collect();
        reasons.sort();
        reasons
    }
}

fn polls(next: &Result<Next, wire::Error>) -> bool {
    matches!(next, Ok(Next::After(_)))
}

#[tokio::test]
async fn an_image_is_built_and_reported() {
    let lab = Lab::start().await;
    assert!(polls(&lab.reconcile().await));
    let build = lab.build();
    assert_eq!(build.phase(), BuildPhase::Building);
    let name = build.metadata.name.clone().unwrap();
    let chosen = lab.config().status.unwrap().machine_os_build.unwrap();
    assert_eq!(chosen.name, name);
    let job = lab.jobs().remove(0);
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "quay.io/builder@sha256:2");
    assert_eq!(lab.made(), 3);
    // Nothing is done twice.
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.jobs(), [job]);

    lab.end_job(true, true);
    assert!(polls(&lab.reconcile().await));
    let build = lab.build();
    assert_eq!(build.phase(), BuildPhase::Succeeded);
    let image = build.status.unwrap().digested_image_push_spec.unwrap();
    assert!(image.ends_with(&"d".repeat(64)), "{image}");
    let config = lab.config();
    assert_eq!(config.status.unwrap().current_image_pull_spec, Some(image));
    let annotations = config.metadata.annotations.unwrap();
    assert_eq!(annotations[annotation::CURRENT_MACHINE_OS_BUILD], name);
    assert_eq!((lab.jobs().len(), lab.made()), (0, 0));
    assert_eq!(lab.events(), ["OSImageBuildStarted", "OSImageBuilt"]);
}

#[tokio::test]
async fn a_pod_that_no_node_takes_is_reported_until_one_does() {
    let lab = Lab::start().await;
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let is_in = |name: &str, status: &Value| {
        let pod = json!({ "metadata": { "name": name }, "status": status });
        lab.api.lock().unwrap().put(&pods, &pod);
    };
    let said = || lab.build().hold().map(|(_, why)| why.to_owned());
    assert!(polls(&lab.reconcile().await));
    assert_eq!(said(), None);
    is_in(
        "p",
        &json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available",
        }] }),
    );
    let why = "no node takes its pod: Unschedulable: 0/1 nodes are available";
    for _ in 0..2 {
        assert!(polls(&lab.reconcile().await));
        assert_eq!(said().as_deref(), Some(why));
        assert_eq!(lab.events(), ["OSImageBuildHeld", "OSImageBuildStarted"]);
    }
    // It is seen again by the next process, and written no more.
    let version = lab.build().metadata.resource_version;
    lab.restart();
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().metadata.resource_version, version);
    let mut job = lab.jobs().remove(0);
    job["status"] = json!({ "active": 1, "ready": 1 });
    let jobs = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs");
    lab.api.lock().unwrap().put(&jobs, &job);
    assert!(polls(&lab.reconcile().await));
    assert_eq!(said(), None);
    assert_eq!(lab.build().phase(), BuildPhase::Building);
}

#[tokio::test]
async fn the_digest_is_the_tags_where_the_pod_is_gone() {
    let lab = Lab::start().await;
    assert!(polls(&lab.reconcile().await));
    lab.end_job(true, false);
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Succeeded);
}

#[tokio::test]
async fn a_failure_is_reported_with_its_log_and_not_repeated() {
    let lab = Lab::start().await;
    assert!(polls(&lab.reconcile().await));
    lab.end_job(false, true);
    assert_eq!(lab.reconcile().await.unwrap(), Next::Settled);
    let build = lab.build();
    assert_eq!(build.phase(), BuildPhase::Failed);
    let failed = build.condition(&api::machineconfiguration::BuildConditionType::Failed);
    assert_eq!(
        failed.unwrap().message,
        "PodFailurePolicy: exit code 65\nno such file"
    );
    lab.restart();
    assert_eq!(lab.reconcile().await.unwrap(), Next::Settled);
    assert_eq!((lab.jobs().len(), lab.made()), (1, 3));
    assert_eq!(lab.events(), ["OSImageBuildFailed", "OSImageBuildStarted"]);
}

#[tokio::test]
async fn a_deleted_job_interrupts_and_a_rebuild_starts_over() {
    let lab = Lab::start().await;
    assert!(polls(&lab.reconcile().await));
    lab.api
        .lock()
        .unwrap()
        .clear(&format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs"));
    assert_eq!(lab.reconcile().await.unwrap(), Next::Settled);
    assert_eq!(lab.build().phase(), BuildPhase::Interrupted);
    let uid = lab.build().metadata.uid;

    let mut config = serde_json::to_value(lab.config()).unwrap();
    config["metadata"]["annotations"][annotation::REBUILD] = json!("");
    lab.api
        .lock()
        .unwrap()
        .put(&format!("{GROUP}/machineosconfigs"), &config);
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Building);
    assert_ne!(lab.build().metadata.uid, uid);
    let annotations = lab.config().metadata.annotations.unwrap();
    assert!(!annotations.contains_key(annotation::REBUILD));
}

#[tokio::test]
async fn an_image_that_left_the_registry_is_built_again() {
    let lab = Lab::start().await;
    assert!(polls(&lab.reconcile().await));
    lab.end_job(true, true);
    assert!(polls(&lab.reconcile().await));
    lab.tags.lock().unwrap().clear();
    // It was seen a moment ago; another process has not seen it.
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Succeeded);
    lab.restart();
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Building);
    assert!(lab.events().contains(&"OSImageMissing".to_owned()));
}

#[tokio::test]
async fn a_missing_secret_is_named_and_holds_the_build() {
    let lab = Lab::start().await;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
    let push = lab.api.lock().unwrap().all(&path).remove(0);
    lab.api.lock().unwrap().clear(&path);
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Initial);
    assert_eq!(
        lab.config().status.unwrap().conditions[0].message,
        "spec.renderedImagePushSecret.name: Secret openshift-machine-config-operator/push is not there"
    );
    lab.api.lock().unwrap().put(&path, &push);
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Building);
}

#[tokio::test]
async fn without_a_builder_nothing_is_built() {
    let mut lab = Lab::start().await;
    lab.options.builder = None;
    assert!(polls(&lab.reconcile().await));
    assert_eq!(lab.build().phase(), BuildPhase::Initial);
    let message = lab.config().status.unwrap().conditions.remove(0).message;
    assert!(
        message.contains("--os-builder-image is not set"),
        "{message}"
    );
}

#[tokio::test]
async fn without_its_config_builds_and_what_they_made_go() {
    let lab = Lab::start().await;
    assert!(polls(&lab.reconcile().await));
    lab.api
        .lock()
        .unwrap()
        .clear(&format!("{GROUP}/machineosconfigs"));
    assert_eq!(lab.reconcile().await.unwrap(), Next::Gone);
    assert_eq!((lab.jobs().len(), lab.made()), (0, 0));
    let builds = lab
        .api
        .lock()
        .unwrap()
        .all(&format!("{GROUP}/machineosbuilds"));
    assert!(builds.is_empty());
}

#[tokio::test]
async fn a_controller_that_stops_after_any_request_goes_on() {
    for stop in 1..60 {
        let lab = Lab::start().await;
        lab.api.lock().unwrap().stop_after(stop);
        let is_whole = lab.reconcile().await.is_ok();
        lab.api.lock().unwrap().go_on();
        lab.restart();
        for _ in 0..3 {
            assert!(lab.reconcile().await.is_ok());
        }
        assert_eq!(
            lab.build().phase(),
            BuildPhase::Building,
            "stopped after {stop}"
        );
        assert_eq!((lab.jobs().len(), lab.made()), (1, 3));

        lab.end_job(true, true);
        lab.api.lock().unwrap().stop_after(stop);
        let is_ended = lab.reconcile().await.is_ok();
        lab.api.lock().unwrap().go_on();
        lab.restart();
        for _ in 0..3 {
            assert!(lab.reconcile().await.is_ok());
        }
        assert_eq!(
            lab.build().phase(),
            BuildPhase::Succeeded,
            "stopped after {stop}"
        );
        assert_eq!(
            (lab.jobs().len(), lab.made()),
            (0, 0),
            "stopped after {stop}"
        );
        if is_whole && is_ended {
            return;
        }
    }
    panic!("a build has more requests than that");
}
