//! What an administrator did to a node outlives its update: a cordon; and the reboot, which is
//! logind's, waits for programs that requested a delay. `slipway pool` and `slipway node` show why
//! the node waits and which budget would block its drain.

use anyhow::{Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use k8s_openapi::api::core::v1::Node;
use observer::shutdown;
use serde_json::json;
use testbed::config::Config;
use testbed::logs;
use testbed::objects::{annotation as value, budget, deployment};
use testbed::{Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, until};

const NODE: &str = "worker-0";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn an_administrators_cordon_and_delay_are_heeded_by_an_update() -> Result<()> {
    let logs = logs::folder("cordon", "cordon-and-delay");
    let guarded = deployment("guarded", 1) + &budget("guarded", "maxUnavailable: 0");
    let testbed = Testbed::new(logs).node(NodeSpec::new(NODE));
    let cluster = testbed.objects(&guarded).start().await?;
    let objects = cluster.objects();
    objects.pods_ready(&[("guarded", 1)]).await?;
    shutdown::listen(cluster.host(NODE)?)?;
    objects
        .patch_node(NODE, &json!({ "spec": { "unschedulable": true } }))
        .await?;

    let spec = Config::new().argument("slipway.test=cordon").spec();
    let target = cluster.change("50-argument", "worker", &spec).await?;
    until_waiting_is_shown(&cluster).await?;
    let (code, text) = slipway(&cluster, &["node", NODE, "--try-drain"])?;
    ensure!(
        code == Some(5)
            && text.contains("default/guarded-")
            && text.contains("blocked    guarded")
            && text.contains(&format!("Not assigned yet: {target}")),
        "{code:?}: {text}"
    );
    let pods = objects.pods(("app", "guarded")).await?;
    let is_deleted =
        |pod: &k8s_openapi::api::core::v1::Pod| pod.metadata.deletion_timestamp.is_some();
    ensure!(
        pods.len() == 1 && !pods.iter().any(is_deleted),
        "the trial evicted a pod"
    );
    let delete = ["delete", "poddisruptionbudget", "guarded"];
    cluster.control_plane().kubectl(&delete)?;
    let (code, text) = slipway(&cluster, &["node", NODE, "--try-drain"])?;
    ensure!(
        code == Some(0) && text.contains("possible"),
        "{code:?}: {text}"
    );
    let (code, text) = slipway(&cluster, &["node", NODE, "--plan-to", &target])?;
    ensure!(
        code == Some(0)
            && text.contains("drain, new deployment, reboot")
            && text.contains("karg    + slipway.test=cordon"),
        "{code:?}: {text}"
    );
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

/// Waits until `slipway pool` shows that the pool waits for its cordoned node.
async fn until_waiting_is_shown(cluster: &Cluster) -> Result<()> {
    until("slipway pool shows the wait", SOON, async || {
        let (code, text) = slipway(cluster, &["pool", "worker"])?;
        let waiting = format!("{NODE}: the node is cordoned (NodesNotReady");
        let is_shown = code == Some(0)
            && text.starts_with("Pool worker: 0 of 1 nodes updated, 1 out of service, 0 failed")
            && text.contains(&waiting);
        Ok(if is_shown {
            Ok(())
        } else {
            Err(format!("{code:?}: {text}"))
        })
    })
    .await
}

/// Runs `slipway`; its exit code, and all that it printed.
fn slipway(cluster: &Cluster, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let kubeconfig = cluster.control_plane().admin_kubeconfig();
    let printed = testbed::slipway(&kubeconfig, arguments)?;
    Ok((printed.code, printed.all()))
}
