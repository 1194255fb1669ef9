//! The requests to the API server, and when they are sent.

use apimock::{Call, Reply, Script};
use chassis::shutdown;

use super::*;

const OBJECT: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes/n";
const STATUS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes/n/status?fieldManager=machine-config-operator&force=true";

fn now() -> Timestamp {
    Timestamp::from_second(1_795_000_000).unwrap()
}

fn node(uid: &str, phase: &str, desired: &str) -> Arc<Node> {
    let node = serde_json::from_value(json!({ "metadata": {
        "name": "n", "uid": uid, "resourceVersion": "1", "annotations": {
            "machineconfiguration.openshift.io/currentConfig": "a",
            "machineconfiguration.openshift.io/desiredConfig": desired,
            "machineconfiguration.openshift.io/state": if desired == "a" { "Done" } else { "Working" },
            "slipway.dev/phase": phase,
        },
    }}));
    Arc::new(node.unwrap())
}

fn object(status: Option<&MachineConfigNodeStatus>) -> Value {
    json!({ "metadata": { "name": "n", "generation": 2 }, "status": status })
}

/// The status of `node` after `before`, and the call that writes it.
fn write(node: &Node, before: &MachineConfigNodeStatus) -> (MachineConfigNodeStatus, Call) {
    let status = conditions::settled(node, Some(2), before, now());
    let reply = Reply::ok(object(Some(&status)));
    let call = Call::patch(STATUS, body(&status), reply);
    (status, call)
}

fn body(status: &MachineConfigNodeStatus) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
        "metadata": { "name": "n" },
        "status": {
            "conditions": status.conditions, "configVersion": status.config_version,
            "observedGeneration": 2,
        },
    })
}

/// Shows `nodes` one after another, each once the one before it was reported, and waits for half an
/// hour.
async fn follow(calls: Vec<Call>, nodes: &[Arc<Node>]) {
    follow_with(calls, nodes, Box::new(Vec::new)).await;
}

async fn follow_with(calls: Vec<Call>, nodes: &[Arc<Node>], differences: ReadDifferences) {
    let (script, client) = Script::start(calls);
    let access = Arc::new(Access::of_client(client));
    let (seen_by, seen) = watch::channel(None);
    let (reported_to, mut reported) = watch::channel(None);
    let (trigger, shutdown) = shutdown::pair();
    let host = tempfile::tempdir().unwrap();
    let kept = KeptStatus::of(host.path());
    let object = NodeObject::new(access, "n", now, differences, kept);
    let feed = async {
        for node in nodes {
            let phase = phase(Some(node));
            seen_by.send_replace(Some(Arc::clone(node)));
            reported.wait_for(|it| *it == phase).await.unwrap();
        }
        tokio::time::sleep(Duration::from_mins(30)).await;
        trigger.fire();
    };
    let work = async { tokio::join!(object.keep(seen, reported_to, shutdown), feed) };
    script.drive(work).await;
    assert_eq!(script.remaining(), 0);
}

#[tokio::test(start_paused = true)]
async fn object_is_read_once_and_written_on_a_change_alone() {
    let idle = node("u", "Idle", "a");
    let fetching = node("u", "Fetching", "b");
    let (first, at_rest) = write(&idle, &MachineConfigNodeStatus::default());
    let (_, begun) = write(&fetching, &first);
    let calls = vec![Call::get(OBJECT, Reply::ok(object(None))), at_rest, begun];
    follow(calls, &[Arc::clone(&idle), idle, fetching]).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_installed_host_cannot_have_is_shown_from_when_it_rests() {
    let change = IrreconcilableChange {
        field_path: "spec.config.storage.disks".to_owned(),
        diff: "/dev/sdb is new in the configuration".to_owned(),
    };
    let shown = |node: &Node, before: &MachineConfigNodeStatus| {
        let mut status = conditions::settled(node, Some(2), before, now());
        status.irreconcilable_changes = vec![change.clone()];
        let mut body = body(&status);
        body["status"]["irreconcilableChanges"] = json!([change]);
        let reply = Reply::ok(object(Some(&status)));
        (status, Call::patch(STATUS, body, reply))
    };
    let (idle, fetching) = (node("u", "Idle", "a"), node("u", "Fetching", "b"));
    let (first, at_rest) = shown(&idle, &MachineConfigNodeStatus::default());
    // It stays while the next target is fetched.
    let (_, begun) = shown(&fetching, &first);
    let calls = vec![Call::get(OBJECT, Reply::ok(object(None))), at_rest, begun];
    let change = change.clone();
    let differences = Box::new(move || vec![change.clone()]);
    follow_with(calls, &[idle, fetching], differences).await;
}

#[tokio::test(start_paused = true)]
async fn pinned_sets_are_written_once() {
    let mut pins = Node::clone(&node("u", "Idle", "a"));
    let desired = (annotation::DESIRED_PINS.to_owned(), "s=1.u".to_owned());
    pins.annotations.extend([desired]);
    let status = conditions::settled(&pins, Some(2), &MachineConfigNodeStatus::default(), now());
    let mut body = body(&status);
    body["status"]["pinnedImageSets"] = json!([{ "name": "s", "desiredGeneration": 1 }]);
    let calls = vec![
        Call::get(OBJECT, Reply::ok(object(None))),
        Call::patch(STATUS, body, Reply::ok(object(Some(&status)))),
    ];
    follow(calls, &[Arc::new(pins)]).await;
}

#[tokio::test(start_paused = true)]
async fn missing_object_is_asked_for_again_and_nothing_waits_for_it() {
    let fetching = node("u", "Fetching", "b");
    let rebooting = node("u", "Rebooting", "b");
    let missing = || Reply::failure(404, "NotFound", "no such object");
    let (_, written) = write(&rebooting, &MachineConfigNodeStatus::default());
    let calls = vec![
        Call::get(OBJECT, missing()),
        Call::get(OBJECT, missing()),
        Call::get(OBJECT, Reply::ok(object(None))),
        written,
    ];
    follow(calls, &[fetching, rebooting]).await;
}

#[tokio::test(start_paused = true)]
async fn object_of_a_node_that_was_made_anew_is_read_anew() {
    let first = node("u", "Idle", "a");
    let again = node("v", "Fetching", "b");
    let (_, at_rest) = write(&first, &MachineConfigNodeStatus::default());
    let (_, begun) = write(&again, &MachineConfigNodeStatus::default());
    let calls = vec![
        Call::get(OBJECT, Reply::ok(object(None))),
        at_rest,
        Call::get(OBJECT, Reply::ok(object(None))),
        begun,
    ];
    follow(calls, &[first, again]).await;
}

/// The Node after its object was recreated.
fn renewed(node: &Node, uid: &str) -> Arc<Node> {
    let mut node = node.clone();
    let key = annotation::NODE_OBJECT.to_owned();
    node.annotations.insert(key, uid.to_owned());
    Arc::new(node)
}

#[tokio::test(start_paused = true)]
async fn object_that_was_deleted_gets_its_status_when_the_node_names_the_new_one() {
    let idle = node("u", "Idle", "a");
    let (_, first) = write(&idle, &MachineConfigNodeStatus::default());
    let (_, again) = write(&idle, &MachineConfigNodeStatus::default());
    let read = || Call::get(OBJECT, Reply::ok(object(None)));
    let named = renewed(&idle, "m");
    follow(
        vec![read(), first, read(), again],
        &[idle, Arc::clone(&named), named],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn object_that_is_named_is_not_waited_for() {
    let idle = node("u", "Idle", "a");
    let missing = Reply::failure(404, "NotFound", "no such object");
    let (_, written) = write(&idle, &MachineConfigNodeStatus::default());
    let calls = vec![
        Call::get(OBJECT, missing),
        Call::get(OBJECT, Reply::ok(object(None))),
        written,
    ];
    follow(calls, &[Arc::clone(&idle), renewed(&idle, "m")]).await;
}

#[tokio::test(start_paused = true)]
async fn answer_that_never_holds_what_was_written_is_not_written_for_ever() {
    let idle = node("u", "Idle", "a");
    let status = conditions::settled(&idle, Some(2), &MachineConfigNodeStatus::default(), now());
    let lost = || Call::patch(STATUS, body(&status), Reply::ok(object(None)));
    let mut calls = vec![Call::get(OBJECT, Reply::ok(object(None)))];
    calls.extend((0..STEPS).map(|_| lost()));
    follow(calls, &[idle]).await;
}

/// Where a definition has no place for images, the API server would refuse a status with them.
#[tokio::test(start_paused = true)]
async fn images_are_shown_of_an_object_that_has_them() {
    let image = "registry/os@sha256:1";
    let mut idle = (*node("u", "Idle", "a")).clone();
    for key in [annotation::CURRENT_IMAGE, annotation::DESIRED_IMAGE] {
        idle.annotations.insert(key.to_owned(), image.to_owned());
    }
    let images = json!({ "currentImage": image, "desiredImage": image });
    for has_images in [true, false] {
        let mut spec = json!({ "configVersion": { "desired": "a" } });
        let mut status =
            conditions::settled(&idle, Some(2), &MachineConfigNodeStatus::default(), now());
        let mut body = body(&status);
        if has_images {
            spec["configImage"] = json!({ "desiredImage": image });
            status.config_image = serde_json::from_value(images.clone()).unwrap();
            body["status"]["configImage"] = images.clone();
        }
        let object = |status: Option<&MachineConfigNodeStatus>| {
            let metadata = json!({ "name": "n", "generation": 2 });
            json!({ "metadata": metadata, "spec": spec, "status": status })
        };
        let calls = vec![
            Call::get(OBJECT, Reply::ok(object(None))),
            Call::patch(STATUS, body, Reply::ok(object(Some(&status)))),
        ];
        follow(calls, &[Arc::new(idle.clone())]).await;
    }
}

/// The controller's write of another image for the same configuration is a generation, too.
#[tokio::test(start_paused = true)]
async fn generation_of_another_image_is_observed_with_its_first_write() {
    let object = |generation: i64, image: &str, status: Option<&MachineConfigNodeStatus>| {
        json!({
            "metadata": { "name": "n", "generation": generation },
            "spec": {
                "configVersion": { "desired": "a" }, "configImage": { "desiredImage": image },
            },
            "status": status,
        })
    };
    let in_image = |image: &str| {
        let mut node = (*node("u", "Idle", "a")).clone();
        for key in [annotation::CURRENT_IMAGE, annotation::DESIRED_IMAGE] {
            node.annotations.insert(key.to_owned(), image.to_owned());
        }
        Arc::new(node)
    };
    let write = |node: &Node, generation: i64, before: &MachineConfigNodeStatus| {
        let mut status = conditions::settled(node, Some(generation), before, now());
        status.config_image = images::shown(node, &status);
        let mut body = body(&status);
        body["status"]["observedGeneration"] = json!(generation);
        body["status"]["configImage"] = json!(status.config_image);
        (status, body)
    };
    let (one, two) = (in_image("os@1"), in_image("os@2"));
    let (first, at_rest) = write(&one, 2, &MachineConfigNodeStatus::default());
    let (second, moved) = write(&two, 3, &first);
    let calls = vec![
        Call::get(OBJECT, Reply::ok(object(2, "os@1", None))),
        Call::patch(STATUS, at_rest, Reply::ok(object(2, "os@1", Some(&first)))),
        Call::patch(STATUS, moved, Reply::ok(object(3, "os@2", Some(&second)))),
    ];
    follow(calls, &[one, two]).await;
}

/// The controller's write of the assignment is observed without a second write of the status.
#[tokio::test(start_paused = true)]
async fn generation_of_the_assignment_is_observed_with_its_first_write() {
    let named = |generation: i64, desired: &str, status: Option<&MachineConfigNodeStatus>| {
        json!({
            "metadata": { "name": "n", "generation": generation },
            "spec": { "configVersion": { "desired": desired } }, "status": status,
        })
    };
    let write = |node: &Node, generation: i64, before: &MachineConfigNodeStatus| {
        let status = conditions::settled(node, Some(generation), before, now());
        let mut body = body(&status);
        body["status"]["observedGeneration"] = json!(generation);
        (status, body)
    };
    let idle = node("u", "Idle", "a");
    let mut moved = (*idle).clone();
    for key in ["currentConfig", "desiredConfig"] {
        let key = format!("machineconfiguration.openshift.io/{key}");
        moved.annotations.insert(key, "b".to_owned());
    }
    // Before the daemon takes it up, the assignment alone is not worth a write.
    let mut assigned = (*idle).clone();
    let key = annotation::DESIRED_CONFIG.to_owned();
    assigned.annotations.insert(key, "b".to_owned());
    let (first, at_rest) = write(&idle, 2, &MachineConfigNodeStatus::default());
    let (second, in_b) = write(&moved, 3, &first);
    let calls = vec![
        Call::get(OBJECT, Reply::ok(named(2, "a", None))),
        Call::patch(STATUS, at_rest, Reply::ok(named(2, "a", Some(&first)))),
        Call::patch(STATUS, in_b, Reply::ok(named(3, "b", Some(&second)))),
    ];
    follow(calls, &[idle, Arc::new(assigned), Arc::new(moved)]).await;
}
