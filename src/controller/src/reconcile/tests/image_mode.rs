//! A pool in image mode is held until its image is built, and its nodes get both at once; what
//! nothing here handles is named.

use super::*;

const IMAGE: &str = "registry.example/os@sha256:1";

/// The MachineOSConfig of the workers, with this build chosen.
fn os_config(build: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
        "metadata": { "name": "worker", "resourceVersion": "1", "generation": 1 },
        "spec": {
            "machineConfigPool": { "name": "worker" },
            "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" },
            "renderedImagePushSpec": "registry.example/os:latest",
        },
        "status": {
            "observedGeneration": 1,
            "machineOSBuild": { "group": "", "resource": "machineosbuilds", "name": build },
        },
    })
}

fn os_build(rendered: &str, condition: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
        "metadata": { "name": "worker-1", "resourceVersion": "1" },
        "spec": {
            "machineConfig": { "name": rendered },
            "machineOSConfig": { "name": "worker" },
            "renderedImagePushSpec": "registry.example/os:worker-1",
        },
        "status": {
            "digestedImagePushSpec": IMAGE,
            "conditions": [{
                "type": condition, "status": "True", "reason": "R", "message": "RUN false: exit 1",
                "lastTransitionTime": NOW,
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_pool_in_image_mode_is_rendered_and_its_nodes_wait_for_the_image() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    let mut pool = cluster.pools[0].clone();
    cluster.os_configs = vec![os_config("worker-1")];
    cluster.os_builds = vec![os_build(&target, "Building")];
    let path = format!("{GROUP}/machineconfigpools/worker");
    let waits = "n1: the pool's OS image is not built: MachineOSBuild worker-1 is under way";
    let mut conditions = rolling(&target, &condition("Waiting", true, "ImageMode", waits));
    let building = "Pool is waiting for OS image build to complete (mosb: worker-1)";
    conditions[1] = condition("Updating", true, "", building);
    let started = condition("ImageBuildDegraded", false, "Building", "New build started");
    conditions.push(started);
    let calls = vec![
        list_sources(&sources),
        patch(&path, &mut pool, named("10", &json!("worker-1")), "11"),
        set_status(
            &mut pool,
            &status(&ordered(&conditions), [1, 0, 0, 0, 0]),
            "12",
        ),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(events, []);
    assert_eq!(results, settled_work());
}

/// The write of the annotation that names a build.
fn named(version: &str, build: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": version, "annotations": {
        "machineconfiguration.openshift.io/current-machine-os-build": build
    } } })
}

/// A build of another configuration is no longer named, and nodes wait for one of this.
#[tokio::test(start_paused = true)]
async fn a_stale_build_is_not_named_and_never_stops_the_pool() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    cluster.pools[0]["metadata"]["annotations"] =
        json!({ "machineconfiguration.openshift.io/current-machine-os-build": "worker-0" });
    let mut pool = cluster.pools[0].clone();
    // Without a MachineOSConfig the pool rolls as any other.
    let path = format!("{GROUP}/machineconfigpools/worker");
    let mut conditions = rolling(&target, &none_waits());
    let updated = format!("All nodes are updated with MachineConfig {target}");
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    let unnamed = patch(&path, &mut pool, named("10", &Value::Null), "11");
    let mut changes = status(&conditions, [1, 1, 1, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    let calls = vec![
        list_sources(&sources),
        unnamed,
        set_status(&mut pool, &changes, "12"),
    ];
    let (_, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(results, settled_work());
}

/// The order in which a new status gets them.
fn ordered(conditions: &[Value]) -> Vec<Value> {
    let order = [
        "Updated",
        "Updating",
        "RenderDegraded",
        "NodeDegraded",
        "RolloutDegraded",
        "ImageBuildDegraded",
        "Degraded",
        "Waiting",
        "PinnedImageSetsDegraded",
    ];
    let named = |name: &&str| conditions.iter().find(|it| it["type"] == **name).cloned();
    order.iter().filter_map(named).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_its_image_with_its_configuration() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    let (mut pool, mut assigned) = (cluster.pools[0].clone(), cluster.nodes[0].clone());
    cluster.os_configs = vec![os_config("worker-1")];
    cluster.os_builds = vec![os_build(&target, "Succeeded")];
    let applies = "Pool is waiting for nodes to apply OS image (mosb: worker-1)";
    let mut conditions = rolling(&target, &none_waits());
    conditions[1] = condition("Updating", true, "", applies);
    let built = "Build completed successfully";
    conditions.push(condition(
        "ImageBuildDegraded",
        false,
        "BuildSuccess",
        built,
    ));
    let path = format!("{GROUP}/machineconfigpools/worker");
    let name = patch(&path, &mut pool, named("10", &json!("worker-1")), "11");
    let claim = claim_body("11", &format!("{target} {IMAGE}"), &json!({ "n1": "5" }));
    let mut assignment = assign_body("5", &target);
    assignment["metadata"]["annotations"]["machineconfiguration.openshift.io/desiredImage"] =
        json!(IMAGE);
    let calls = vec![
        list_sources(&sources),
        name,
        patch(&path, &mut pool, claim, "12"),
        patch("/api/v1/nodes/n1", &mut assigned, assignment, "6"),
        set_status(
            &mut pool,
            &status(&ordered(&conditions), [1, 0, 0, 1, 0]),
            "13",
        ),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    let event = format!("Targeted node n1 to MachineConfig: {target} / Image: {IMAGE}");
    assert_eq!(events, [("SetDesiredConfigAndOSImage".to_owned(), event)]);
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn what_has_no_effect_is_named_once_and_the_pool_rolls() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    cluster.pools[0]["spec"]["osImageStream"] = json!({ "name": "rhel-10" });
    let mut pool = cluster.pools[0].clone();
    let why = "without effect, because nothing handles it: spec.osImageStream rhel-10";
    let mut conditions = rolling(&target, &none_waits());
    let updated = format!("All nodes are updated with MachineConfig {target}");
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    conditions.push(condition("Unsupported", true, "NotImplemented", why));
    let mut changes = status(&conditions, [1, 1, 1, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 3).await;
    assert_eq!(events, [("Unsupported".to_owned(), why.to_owned())]);
    assert_eq!(results, settled_work());
}

/// The stream of a pool whose only node has what the pool was rendered from.
#[tokio::test(start_paused = true)]
async fn the_stream_is_named_once_all_nodes_have_it_and_not_while_the_rendering_waits() {
    let (mut cluster, sources, target) = settled();
    cluster.nodes = vec![node("n1", &target)];
    // The release's image, and that of the default stream: none, as in the configuration.
    cluster.image_streams = vec![json!({
        "metadata": { "name": "cluster" }, "spec": { "defaultStream": "a" },
        "status": { "defaultStream": "a", "availableStreams": [
            { "name": "a", "osImage": "" }, { "name": "b", "osImage": "os-b" }
        ] }
    })];
    let conditions = |waits: Option<&str>| {
        let mut conditions = rolling(&target, &none_waits());
        let updated = format!("All nodes are updated with MachineConfig {target}");
        conditions[0] = condition("Updated", true, "", &updated);
        conditions[1] = condition("Updating", false, "", "");
        if let Some(why) = waits {
            conditions.retain(|it| it["type"] != "RenderDegraded");
            let waiting = conditions.iter_mut().find(|it| it["type"] == "Waiting");
            *waiting.unwrap() = condition("Waiting", true, "NotRendered", why);
        }
        conditions
    };
    let mut pool = cluster.pools[0].clone();
    let mut changes = status(&conditions(None), [1, 1, 1, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    changes["osImageStream"] = json!({ "name": "a" });
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    reconciled(&cluster, calls, 1).await;

    // The pool chooses another one, and nothing is rendered before the ControllerConfig is settled.
    cluster.pools[0]["spec"]["osImageStream"] = json!({ "name": "b" });
    cluster.controller_configs = vec![json!({
        "metadata": {
            "name": "machine-config-controller", "generation": 3,
            "annotations": { "machineconfiguration.openshift.io/generated-by-version": VERSION }
        },
        "spec": {}, "status": { "observedGeneration": 2 }
    })];
    let mut pool = cluster.pools[0].clone();
    let why = "not rendered yet: ControllerConfig machine-config-controller has not completed";
    let mut changes = status(&conditions(Some(why)), [1, 1, 1, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    let calls = vec![set_status(&mut pool, &changes, "11")];
    reconciled(&cluster, calls, 1).await;
}
