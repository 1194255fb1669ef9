//! What nothing here handles: a pool in image mode is left alone, and what has no effect is named.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pool_in_image_mode_is_rendered_and_its_nodes_keep_their_image() {
    let (mut cluster, sources, target) = settled();
    let mut layered = node("n1", OLD);
    let image = "registry.example/os@sha256:1";
    for key in ["currentImage", "desiredImage"] {
        let key = format!("machineconfiguration.openshift.io/{key}");
        layered["metadata"]["annotations"][key] = json!(image);
    }
    cluster.nodes = vec![layered];
    cluster.os_configs = ["edge", "worker"]
        .map(|name| json!({ "metadata": { "name": name, "resourceVersion": "1" } }))
        .into();
    let mut pool = cluster.pools[0].clone();
    let why = "MachineOSConfig worker puts the pool in image mode, which is not implemented: nodes keep their image and configuration";
    let stopped = format!("Pool update stopped: {why}");
    let waiting = condition("Waiting", true, "ImageMode", &format!("n1: {why}"));
    let mut conditions = rolling(&target, &waiting);
    conditions[1] = condition("Updating", false, "", &stopped);
    conditions[4] = condition("RolloutDegraded", true, "ImageMode", why);
    conditions[5] = condition("Degraded", true, "", why);
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 2).await;
    assert_eq!(events, [("ImageMode".to_owned(), why.to_owned())]);
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
