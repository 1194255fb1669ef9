use std::sync::Arc;

use api::machineconfiguration::{ControllerConfig, annotation};
use apimock::{Call, Reply, Script};
use cluster::access::Access;
use cluster::cache::WatchEvent;
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use operator::Reconcile as _;
use operator::watch::kept::Kept;
use serde_json::{Value, json};

use super::*;
use crate::decide::release::images::{DAEMON, completed};
use crate::decide::release::required::tests::{CONFIG, master, rendered};
use crate::fixture::{Cluster, read};
use crate::metrics::ControllerMetrics;
use crate::reconcile::Controller;
use crate::requests::Requests;
use crate::store::Store;
use crate::version::ReleaseVersion;
use crate::work::Work;

const VERSION: &str = "2.0.0";

fn now() -> Timestamp {
    "2026-11-21T19:17:00Z".parse().unwrap()
}

/// A cluster that is at the release, but for its ClusterOperator, which says nothing yet.
fn at_the_release() -> Store {
    let store = Store {
        version: ReleaseVersion::named(VERSION),
        ..Store::default()
    };
    let images = json!({ DAEMON: "mcd2", CONTROLLER: "mcc2" });
    let mut config = json!({
        "metadata": {
            "name": controller_config::NAME, "resourceVersion": "7", "generation": 4,
            "annotations": {
                annotation::GENERATED_BY_VERSION: VERSION, annotation::RELEASE_IMAGE_VERSION: VERSION,
            }
        },
        "spec": { "baseOSContainerImage": "os2", "images": images }
    });
    let read_config: ControllerConfig = read(&config);
    config["status"] = completed(&read_config, VERSION, now()).unwrap()["status"].clone();
    let cluster = Cluster {
        pools: vec![master()],
        configs: vec![rendered()],
        controller_configs: vec![config],
        ..Cluster::default()
    };
    cluster.fill(&store);
    let map = |name: &str, data: &Value| {
        let map = json!({ "metadata": { "name": name, "resourceVersion": "1" }, "data": data });
        WatchEvent::Synced(vec![Kept::parse(read(&map))])
    };
    let os = json!({ "releaseVersion": VERSION, "baseOSContainerImage": "os2" });
    store.os_image.apply(map(OS_IMAGE, &os));
    let mut named = images.as_object().unwrap().clone();
    named.insert("releaseVersion".to_owned(), json!(VERSION));
    let components = json!({ "images.json": Value::Object(named).to_string() });
    let components = map(COMPONENT_IMAGES, &components);
    store.component_images.apply(components);
    let set = json!({
        "metadata": { "name": daemons::NAME, "generation": 2 },
        "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": daemons::NAME, "image": "mcd2" }] } } },
        "status": {
            "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "numberMisscheduled": 0, "numberReady": 3, "updatedNumberScheduled": 3
        }
    });
    let set = Kept::parse(read(&set));
    store.daemons.apply(WatchEvent::Synced(vec![set]));
    let operator = WatchEvent::Synced(vec![read(&operator())]);
    store.operators.apply(operator);
    store
}

fn operator() -> Value {
    json!({ "metadata": { "name": status::NAME, "resourceVersion": "3" }, "spec": {} })
}

fn controller(store: &Store, calls: Vec<Call>) -> (Script, Controller) {
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let speaker = Speaker {
        component: "machineconfigoperator".to_owned(),
        host: String::new(),
        namespace: "mco".to_owned(),
    };
    // Its events are not sent.
    let (recorder, _sending) = Recorder::new(Arc::clone(&access), speaker);
    let metrics = Arc::new(ControllerMetrics::default());
    let controller = Controller::new(Requests::new(access), store.clone(), recorder, metrics, now);
    (script, controller)
}

/// The request for a rendered configuration, and its response.
fn reads(image: &str) -> Call {
    let path = format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs/{CONFIG}");
    let config = json!({ "metadata": { "name": CONFIG }, "spec": { "osImageURL": image } });
    Call::get(&path, Reply::ok(config))
}

/// The request that reports so much progress.
fn writes(progress: &ReleaseProgress) -> Call {
    writes_with(progress, &OperatorNotes::default())
}

fn writes_with(progress: &ReleaseProgress, notes: &OperatorNotes) -> Call {
    let pool: MachineConfigPool = read(&master());
    let input = OperatorInput {
        version: VERSION,
        image: Some("mcc2"),
        progress,
        pools: &[&pool],
        notes,
        now: now(),
    };
    let after = status::status(&ClusterOperatorStatus::default(), &input);
    let body = json!({
        "metadata": { "resourceVersion": "3" }, "status": reporting::changes(None, &after)
    });
    let operator_path = "/apis/config.openshift.io/v1/clusteroperators/machine-config";
    let path = format!("{operator_path}/status?fieldManager=machine-config-controller");
    Call::patch(&path, body, Reply::ok(operator()))
}

#[tokio::test]
async fn the_os_image_of_a_rendered_configuration_is_read_once() {
    let store = at_the_release();
    let (script, controller) = controller(
        &store,
        vec![
            reads("os2"),
            writes(&ReleaseProgress::Done),
            writes(&ReleaseProgress::Done),
        ],
    );
    let twice = async {
        for _ in 0..2 {
            let next = controller.reconcile(&Work::Release).await;
            assert_eq!(next.unwrap(), Next::Settled);
        }
    };
    Box::pin(script.drive(twice)).await;
}

#[tokio::test]
async fn another_os_image_and_a_configuration_that_is_gone_are_waited_for() {
    let path = format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs/{CONFIG}");
    let gone = Call::get(&path, Reply::failure(404, "NotFound", "it is gone"));
    let mismatch = format!("osImageURL mismatch for master in {CONFIG} expected: os2 got: os1");
    let unread = format!("{CONFIG}, which pool master names, is not read yet");
    for (read, why) in [(reads("os1"), mismatch), (gone, unread)] {
        let waiting = ReleaseProgress::Waiting {
            step: steps::ReleaseStep::RequiredPools,
            why,
        };
        let store = at_the_release();
        let (script, controller) = controller(&store, vec![read, writes(&waiting)]);
        let next = Box::pin(script.drive(controller.reconcile(&Work::Release))).await;
        assert_eq!(next.unwrap(), Next::After(AGAIN));
    }
}

#[tokio::test]
async fn requests_for_boot_images_are_reported_and_read_once() {
    let store = at_the_release();
    let settings = json!({ "metadata": { "name": "cluster", "resourceVersion": "5" } });
    let settings = WatchEvent::Synced(vec![SettingsMeta::parse(read(&settings))]);
    store.settings.apply(settings);
    let spec = json!({ "bootImageSkewEnforcement": { "mode": "Manual" } });
    let spec = json!({ "metadata": { "name": "cluster", "resourceVersion": "5" }, "spec": spec });
    let path = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";
    let why = "MachineConfiguration cluster: without effect, because boot images are not handled: spec.bootImageSkewEnforcement (mode Manual)";
    let notes = OperatorNotes {
        boot_images: Some(why.to_owned()),
        os_image_stream: None,
    };
    let calls = vec![
        reads("os2"),
        Call::get(path, Reply::ok(spec)),
        writes_with(&ReleaseProgress::Done, &notes),
        writes_with(&ReleaseProgress::Done, &notes),
    ];
    let (script, controller) = controller(&store, calls);
    let twice = async {
        for _ in 0..2 {
            let next = controller.reconcile(&Work::Release).await;
            assert_eq!(next.unwrap(), Next::Settled);
        }
    };
    Box::pin(script.drive(twice)).await;
}

const STREAMS: &str = "/apis/machineconfiguration.openshift.io/v1/osimagestreams";

fn image(digit: &str) -> String {
    format!("r.example/os@sha256:{}", digit.repeat(64))
}

/// A release of streams `a`, the default, and `b`, whose ConfigMap is there.
fn with_streams(store: &Store) -> Value {
    let of = |name: &str, digit: &str| json!({ "name": name, "osImage": image(digit), "osExtensionsImage": "" });
    let streams = json!([of("a", "a"), of("b", "b")]);
    let text = json!({ "defaultStream": "a", "availableStreams": streams });
    let os = json!({
        "releaseVersion": VERSION, "baseOSContainerImage": image("a"),
        "osImageStreams.json": text.to_string()
    });
    let map = json!({ "metadata": { "name": OS_IMAGE, "resourceVersion": "2" }, "data": os });
    let map = WatchEvent::Synced(vec![Kept::parse(read(&map))]);
    store.os_image.apply(map);
    store
        .generators
        .image_streams
        .apply(WatchEvent::Synced(Vec::new()));
    streams
}

#[tokio::test]
async fn streams_are_written_before_the_controller_config_takes_the_image_of_the_default() {
    let store = at_the_release();
    let streams = with_streams(&store);
    let object = |version: &str, status: Option<&Value>| {
        let mut object = json!({
            "metadata": {
                "name": "cluster", "resourceVersion": version,
                "annotations": { "slipway.dev/release-streams": "a,b" }
            },
            "spec": { "defaultStream": "a" }
        });
        if let Some(status) = status {
            object["status"] = status.clone();
        }
        object
    };
    let mut made = object("1", None);
    made["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    made["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
    made["kind"] = json!("OSImageStream");
    let status = json!({ "availableStreams": streams, "defaultStream": "a" });
    let manager = "fieldManager=machine-config-controller";
    let config_path = format!(
        "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller?{manager}"
    );
    let calls = vec![
        Call::post(
            &format!("{STREAMS}?{manager}"),
            made,
            Reply::Object(201, object("1", None)),
        ),
        Call::patch(
            &format!("{STREAMS}/cluster/status?{manager}"),
            json!({ "metadata": { "resourceVersion": "1" }, "status": status }),
            Reply::ok(object("2", Some(&status))),
        ),
        reads("os2"),
        Call::get(
            "/apis/config.openshift.io/v1/clusterversions/version",
            Reply::failure(404, "NotFound", "no"),
        ),
        Call::patch(
            &config_path,
            json!({
                "metadata": { "resourceVersion": "7", "annotations": {
                    annotation::GENERATED_BY_VERSION: VERSION, annotation::RELEASE_IMAGE_VERSION: VERSION
                } },
                "spec": { "baseOSContainerImage": image("a") }
            }),
            Reply::failure(409, "Conflict", "it ends here"),
        ),
    ];
    let (script, controller) = controller(&store, calls);
    let next = Box::pin(script.drive(controller.reconcile(&Work::Release))).await;
    assert!(next.is_err() || next.is_ok_and(|next| next == Next::Retry));
}

#[tokio::test]
async fn a_release_with_a_wrong_stream_or_without_the_default_is_not_taken_over() {
    // The ConfigMap is wrong: nothing but the report is written.
    let store = at_the_release();
    let os = json!({
        "releaseVersion": VERSION, "baseOSContainerImage": "os2", "osImageStreams.json": "{}"
    });
    let map = json!({ "metadata": { "name": OS_IMAGE, "resourceVersion": "2" }, "data": os });
    let map = WatchEvent::Synced(vec![Kept::parse(read(&map))]);
    store.os_image.apply(map);
    let why = "ConfigMap machine-config-osimageurl: data.osImageStreams.json: availableStreams names no stream; a release of one OS has no such key";
    let waiting = |why: &str| ReleaseProgress::Waiting {
        step: steps::ReleaseStep::RenderConfig,
        why: why.to_owned(),
    };
    let (script, controller) = controller(&store, vec![writes(&waiting(why))]);
    let next = Box::pin(script.drive(controller.reconcile(&Work::Release))).await;
    assert_eq!(next.unwrap(), Next::After(AGAIN));

    // Pools have a default that this release lacks.
    let store = at_the_release();
    let streams = with_streams(&store);
    let mut listed = streams.as_array().unwrap().clone();
    listed.push(json!({ "name": "old", "osImage": image("c"), "osExtensionsImage": "" }));
    let lost = json!({
        "metadata": {
            "name": "cluster", "resourceVersion": "4",
            "annotations": { "slipway.dev/release-streams": "a,b,old" }
        },
        "spec": { "defaultStream": "old" },
        "status": { "defaultStream": "old", "availableStreams": listed }
    });
    let lost = WatchEvent::Synced(vec![read(&lost)]);
    store.generators.image_streams.apply(lost);
    let why = "OSImageStream cluster: stream old, which pools have that choose none, is none of the release's (a, b): name one of these in spec.defaultStream";
    let (script, controller) = self::controller(&store, vec![writes(&waiting(why))]);
    let next = Box::pin(script.drive(controller.reconcile(&Work::Release))).await;
    assert_eq!(next.unwrap(), Next::After(AGAIN));
}
