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
    let pool: MachineConfigPool = read(&master());
    let input = OperatorInput {
        version: VERSION,
        image: Some("mcc2"),
        progress,
        pools: &[&pool],
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
