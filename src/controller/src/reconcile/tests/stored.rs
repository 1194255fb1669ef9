//! A configuration that is not what was rendered, and nodes that no pool has.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_edited_configuration_that_cannot_be_restored_is_assigned_to_no_node() {
    let (mut cluster, mut sources, target) = settled();
    cluster.nodes = vec![node("n1", OLD)];
    cluster.configs[1]["metadata"]["generation"] = json!(2);
    // What it was rendered from is not there any more.
    sources.push(source("60-bad", &json!({ "kernelType": "the best" })));
    cluster.configs.push(metadata(&sources[1]));
    let stored = json!({
        "metadata": { "name": target, "resourceVersion": "3" }, "spec": spec_with("edited=1")
    });
    let mut pool = cluster.pools[0].clone();
    let why = format!(
        "MachineConfig {target} is not what was rendered: its content does not match its name, and no node is assigned it. Delete it to have it rendered again"
    );
    let stopped = format!("Pool update stopped: {why}");
    let waiting = condition(
        "Waiting",
        true,
        "RenderedConfigChanged",
        &format!("n1: {why}"),
    );
    let failed = "Failed to render configuration for pool worker: could not generate rendered MachineConfig: MachineConfig \"60-bad\": spec.kernelType: kernelType=the best is invalid";
    let mut conditions = rolling(&target, &waiting);
    conditions[1] = condition("Updating", false, "", &stopped);
    conditions[2] = condition("RenderDegraded", true, "", failed);
    conditions[4] = condition("RolloutDegraded", true, "RenderedConfigChanged", &why);
    conditions[5] = condition("Degraded", true, "", failed);
    let calls = vec![
        list_sources(&sources),
        Call::get(
            &format!("{GROUP}/machineconfigs/{target}"),
            Reply::ok(stored),
        ),
        set_status(&mut pool, &status(&conditions, [1, 0, 0, 0, 0]), "11"),
    ];
    let (events, results) = reconciled(&cluster, calls, 3).await;
    let expected = [
        ("RenderedConfigChanged", why.as_str()),
        ("RenderDegraded", failed),
    ];
    let expected = expected.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(events, expected);
    assert_eq!(results, settled_work());
}

#[tokio::test(start_paused = true)]
async fn a_managed_node_in_no_pool_is_named_once() {
    let (mut cluster, sources, target) = settled();
    let mut lost = node("lost", &target);
    lost["metadata"]["labels"] = json!({});
    let mut unmanaged = lost.clone();
    unmanaged["metadata"]["name"] = json!("unmanaged");
    unmanaged["metadata"]["annotations"] = json!({});
    cluster.nodes = vec![lost, unmanaged];
    let mut pool = cluster.pools[0].clone();
    let mut conditions = rolling(&target, &none_waits());
    let updated = format!("All nodes are updated with MachineConfig {target}");
    conditions[0] = condition("Updated", true, "", &updated);
    conditions[1] = condition("Updating", false, "", "");
    let mut changes = status(&conditions, [0, 0, 0, 0, 0]);
    changes["configuration"] = pool["spec"]["configuration"].clone();
    let calls = vec![
        list_sources(&sources),
        set_status(&mut pool, &changes, "11"),
    ];
    let (events, _) = reconciled(&cluster, calls, 3).await;
    let why = format!(
        "node lost runs MachineConfig {target} and no MachineConfigPool selects it: it gets no updates"
    );
    assert_eq!(events, [("NodeInNoPool".to_owned(), why)]);
}
