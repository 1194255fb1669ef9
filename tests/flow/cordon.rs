//! What an administrator did to a node outlives its update: a cordon; and the reboot, which is
//! logind's, waits for programs that asked for a delay.

use anyhow::{Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use k8s_openapi::api::core::v1::Node;
use observer::shutdown;
use serde_json::json;
use testbed::config::Config;
use testbed::logs;
use testbed::objects::annotation as value;
use testbed::{DONE_WITHIN, NodeSpec, Testbed};

const NODE: &str = "worker-0";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn an_administrators_cordon_and_delay_are_heeded_by_an_update() -> Result<()> {
    let logs = logs::folder("cordon", "cordon-and-delay");
    let cluster = Testbed::new(logs).node(NodeSpec::new(NODE)).start().await?;
    let objects = cluster.objects();
    shutdown::listen(cluster.host(NODE)?)?;
    objects
        .patch_node(NODE, &json!({ "spec": { "unschedulable": true } }))
        .await?;

    let spec = Config::new().argument("slipway.test=cordon").spec();
    let target = cluster.change("50-argument", "worker", &spec).await?;
    // The controller leaves a cordoned node alone; its target is set by hand.
    objects.set_target(NODE, &target).await?;

    let is_done = |node: &Node| {
        value(node, annotation::STATE) == NodeState::Done.as_str()
            && value(node, annotation::CURRENT_CONFIG) == target
    };
    let node = objects.node_is(NODE, "updated", DONE_WITHIN, is_done);
    let node = node.await?;

    let heard = shutdown::heard(cluster.host(NODE)?)?;
    ensure!(
        heard == ["announced", "waited for"],
        "the reboot was not logind's: {heard:?}"
    );
    let arguments = cluster.host(NODE)?.run(["cat", "/proc/cmdline"])?;
    ensure!(
        arguments.contains("slipway.test=cordon"),
        "the argument is missing: {arguments}"
    );
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    ensure!(is_cordoned, "the administrator's cordon is gone");
    ensure!(
        value(&node, annotation::CORDONED_BY).is_empty(),
        "the cordon was made ours"
    );
    let uncordoned = format!("uncordon-{target}");
    for key in [annotation::DESIRED_DRAIN, annotation::LAST_APPLIED_DRAIN] {
        ensure!(
            value(&node, key) == uncordoned,
            "{key} is {}",
            value(&node, key)
        );
    }
    Ok(())
}
