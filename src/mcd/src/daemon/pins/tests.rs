//! What a daemon requests and writes about pinned images, up to where the host's systemd begins.

use std::sync::Arc;

use apimock::{Call, Reply, Script};
use chassis::shutdown;
use cluster::events::{Recorder, Speaker};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

const SET: &str = "/apis/machineconfiguration.openshift.io/v1/pinnedimagesets/a";
const NODE: &str = "/api/v1/nodes/worker-1";

fn node(annotations: &Value) -> Value {
    json!({"metadata": {
        "name": "worker-1", "uid": "u", "resourceVersion": "1", "annotations": annotations,
    }})
}

fn event(message: &str) -> Call {
    let time = "1970-01-01T00:00:00Z";
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "worker-1.0", "namespace": "mco"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "worker-1", "namespace": "mco", "uid": "u"},
        "type": "Warning", "reason": "NotPinned", "message": message,
        "source": {"component": "c", "host": "worker-1"}, "reportingComponent": "c",
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    Call::post("/api/v1/namespaces/mco/events", event, Reply::created())
}

fn says(text: &str) -> Call {
    let annotations = json!({ (annotation::NOT_PINNED): text });
    Call::patch(
        NODE,
        json!({"metadata": {"annotations": annotations}}),
        Reply::ok(node(&annotations)),
    )
}

/// Has a daemon whose Node has these annotations `act`.
async fn with_sync<T>(
    annotations: &Value,
    calls: Vec<Call>,
    act: impl AsyncFnOnce(PinSync<'_>) -> T,
) -> T {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let binary = root.join("mcd-os");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let helper = Helper::install(root, &binary, &binary).unwrap();
    let seen_node = Arc::new(serde_json::from_value(node(annotations)).unwrap());
    let (_seen_by, seen) = watch::channel(Some(seen_node));
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (_trigger, shutdown) = shutdown::pair();
    let (writer, writing) =
        NodeWriter::new(Arc::clone(&access), "worker-1", seen.clone(), shutdown);
    let speaker = Speaker {
        component: "c".to_owned(),
        host: "worker-1".to_owned(),
        namespace: "mco".to_owned(),
    };
    let (recorder, speaking) = Recorder::new(Arc::clone(&access), speaker);
    let now = || Timestamp::UNIX_EPOCH;
    let reporter = EventReporter::new(recorder, "worker-1".to_owned(), seen.clone(), now);
    let sync = PinSync {
        root,
        node: "worker-1",
        kubelet: &access,
        account: &access,
        writer: &writer,
        seen,
        helper: &helper,
        reporter: &reporter,
    };
    let work = async {
        tokio::select! {
            done = act(sync) => done,
            ((), ()) = async { tokio::join!(writing, speaking) } => panic!("the writers ended"),
        }
    };
    let done = Box::pin(script.drive(work)).await;
    assert_eq!(script.remaining(), 0);
    done
}

async fn act(annotations: &Value, task: PinTask, calls: Vec<Call>) -> bool {
    with_sync(annotations, calls, async |sync: PinSync<'_>| {
        let done = Box::pin(sync.act(&task)).await.unwrap();
        sync.reporter.flush().await;
        done
    })
    .await
}

fn task() -> PinTask {
    PinTask::Pin(PinList::parse("a=1.u").unwrap())
}

fn reads(conditions: &Value) -> Vec<Call> {
    let set = json!({
        "metadata": {"name": "a", "generation": 1, "uid": "u"},
        "spec": {"pinnedImages": [{"name": "r.example/a@sha256:0"}]},
    });
    let status = json!({ "status": { "conditions": conditions } });
    vec![
        Call::get(SET, Reply::ok(set)),
        Call::get(NODE, Reply::ok(status)),
    ]
}

#[tokio::test(start_paused = true)]
async fn without_pins_nothing_is_requested() {
    with_sync(&json!({}), Vec::new(), async |sync: PinSync<'_>| {
        let (trigger, shutdown) = shutdown::pair();
        let later = async {
            tokio::time::sleep(SELDOM * 2).await;
            trigger.fire();
        };
        tokio::join!(keep(sync, shutdown), later);
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_not_ready_says_so_once_and_runs_nothing() {
    let conditions = json!([
        {"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"},
    ]);
    let text = "Failed: the node is not Ready";
    let mut calls = reads(&conditions);
    calls.extend([says(text), event(text)]);
    assert!(!act(&json!({}), task(), calls).await);
    let annotations = json!({ (annotation::NOT_PINNED): text });
    assert!(!act(&annotations, task(), reads(&conditions)).await);
}

#[tokio::test]
async fn what_cannot_be_read_is_named() {
    let annotations = json!({ (annotation::DESIRED_PINS): "a" });
    let task = decide::next(
        &NodeStatus::read(&serde_json::from_value(annotations.clone()).unwrap()),
        false,
    );
    let text = "Refused: annotation slipway.dev/desired-pins of the Node: \"a\" is no list of pinned image sets";
    let calls = vec![says(text), event(text)];
    assert!(!act(&annotations, task, calls).await);
}
