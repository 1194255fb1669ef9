//! Rollouts that a RolloutPolicy steers, on real hosts: a node that cannot be drained is given up,
//! and nodes return from a configuration that fails. And a Node that is deleted while no controller
//! runs, and one that another program drains.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{DrainLease, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use lab::host::Boot;
use lab::tree::Overlay;
use serde_json::json;
use testbed::config::Config;
use testbed::objects::{annotation as value, budget, deployment, is_done_in, is_in_service};
use testbed::{
    CONTROLLER, Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, logs, single_host, until,
};

const NODES: [&str; 2] = ["worker-0", "worker-1"];

/// Two workers, in a cluster that knows policies.
fn testbed(test: &str, node: impl Fn(&str) -> NodeSpec) -> Testbed {
    let definitions = testbed::workspace().join("deploy/crds");
    let testbed = Testbed::new(logs::folder("steered", test)).definitions(&definitions);
    NODES.into_iter().map(node).fold(testbed, Testbed::node)
}

/// A policy of the pool of workers.
fn policy(spec: &serde_json::Value) -> String {
    let policy = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": { "name": "worker" }, "spec": spec,
    });
    policy.to_string()
}

fn boots(cluster: &Cluster, node: &str) -> Result<Vec<Boot>> {
    Ok(cluster.host(node)?.boots())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_node_that_cannot_be_drained_is_given_up_and_has_its_turn_again() -> Result<()> {
    let guarded = deployment("guarded", 1) + &budget("guarded", "maxUnavailable: 0");
    let testbed = testbed("quarantine", NodeSpec::new).objects(&guarded);
    let cluster = testbed.start().await?;
    let objects = cluster.objects();
    objects.pods_ready(&[("guarded", 1)]).await?;
    let pods = objects.pods(("app", "guarded")).await?;
    let stuck = pods
        .first()
        .and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    let stuck = stuck.context("the pod has no node")?;
    let other = NODES.into_iter().find(|node| *node != stuck);
    let other = other.context("there is one node only")?;

    let limit = json!({ "quarantine": { "drainLimit": "10s", "maxNodes": 1 } });
    cluster.apply(&policy(&limit)).await?;
    let before = objects.target("worker").await?;
    let spec = Config::new().argument("slipway.test=steered").spec();
    let target = cluster.change("50-steered", "worker", &spec).await?;
    let is_given_up = |node: &Node| {
        value(node, annotation::QUARANTINED) == target
            && value(node, annotation::DESIRED_CONFIG) == before
            && !is_in_service(node)
    };
    objects
        .node_is(&stuck, "given up", DONE_WITHIN, is_given_up)
        .await?;
    cluster.done_in(other, &target, DONE_WITHIN).await?;
    objects
        .node_is(&stuck, "given up still", SOON, is_given_up)
        .await?;
    ensure!(
        boots(&cluster, &stuck)?.len() == 1,
        "a node that was given up was rebooted"
    );
    let name = |pods: &[k8s_openapi::api::core::v1::Pod]| {
        let pod = pods.first();
        pod.and_then(|pod| pod.metadata.uid.clone())
    };
    let left = objects.pods(("app", "guarded")).await?;
    ensure!(
        name(&left) == name(&pods),
        "the pod was evicted in spite of its budget"
    );

    // An administrator lets the pod go, and the node has its turn.
    let delete = ["delete", "poddisruptionbudget", "guarded"];
    cluster.control_plane().kubectl(&delete)?;
    cluster.control_plane().kubectl(&["uncordon", &stuck])?;
    cluster.done_in(&stuck, &target, DONE_WITHIN).await?;
    let node = objects.node(&stuck).await?;
    ensure!(
        value(&node, annotation::QUARANTINED).is_empty(),
        "it counts as given up"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_node_that_another_program_drains_keeps_its_pods_until_that_ends() -> Result<()> {
    let testbed = testbed("leased", NodeSpec::new).objects(&deployment("leased", 2));
    let cluster = testbed.start().await?;
    let objects = cluster.objects();
    objects.pods_ready(&[("leased", 2)]).await?;
    let [node, _] = NODES;
    let lease = |value: &str| {
        let argument = format!("{}{value}", annotation::DRAIN_LEASE);
        let annotate = ["annotate", "--overwrite", "node", node, &argument];
        cluster.control_plane().kubectl(&annotate).map(drop)
    };
    // As the operator of managed upgrades writes it.
    let holder = DrainLease {
        holder: "muo".to_owned(),
        since: Timestamp::now(),
        renewed: Timestamp::now(),
    };
    lease(&format!("={holder}"))?;
    let before = on(&cluster, node).await?;
    ensure!(!before.is_empty(), "no pod is on {node}");

    let spec = Config::new().argument("slipway.test=leased").spec();
    let target = cluster.change("50-leased", "worker", &spec).await?;
    let waits = |node: &Node| {
        !is_in_service(node) && value(node, annotation::WAITS_FOR).contains("muo drains this node")
    };
    objects
        .node_is(node, "waiting for the other drain", DONE_WITHIN, waits)
        .await?;
    // Long enough for a daemon that drains: an empty node waits for nothing.
    tokio::time::sleep(Duration::from_secs(5)).await;
    ensure!(
        on(&cluster, node).await? == before,
        "the daemon evicted a pod beside the other program"
    );
    ensure!(boots(&cluster, node)?.len() == 1, "{node} was rebooted");

    lease("-")?;
    cluster.done_in(node, &target, DONE_WITHIN).await
}

/// Identities of the pods of `leased` on a node.
async fn on(cluster: &Cluster, node: &str) -> Result<BTreeSet<String>> {
    let pods = cluster.objects().pods(("app", "leased")).await?;
    let here = pods.into_iter().filter(|pod| {
        let spec = pod.spec.as_ref();
        spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
    });
    Ok(here.filter_map(|pod| pod.metadata.uid).collect())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn nodes_return_from_a_configuration_that_fails() -> Result<()> {
    let node = |name: &str| {
        let deadline = single_host::deadline(5);
        NodeSpec::new(name).file(single_host::DEADLINE_FILE, &deadline)
    };
    let cluster = testbed("return", node).start().await?;
    let objects = cluster.objects();
    let back = json!({ "haltAboveFailures": 0, "returnOnHalt": true });
    cluster.apply(&policy(&back)).await?;
    let before = objects.target("worker").await?;
    let failing = cluster.image(&Overlay::version("steered-failing").failing_kubelet())?;
    let spec = |image: &str| Config::new().os(image).spec();
    let target = cluster
        .change("50-steered", "worker", &spec(&failing.reference))
        .await?;
    until("the rollout to be reverted", DONE_WITHIN, async || {
        let pool = objects.pool("worker").await?;
        let conditions = pool.status.unwrap_or_default().conditions;
        let halted = conditions
            .iter()
            .find(|it| it.reason.as_str() == "RolloutHalted");
        let nodes = objects.nodes().await?;
        let has_tried = |node: &str| boots(&cluster, node).is_ok_and(|boots| boots.len() > 1);
        let is_back = nodes.values().all(|node| is_done_in(node, &before));
        Ok(
            if halted.is_some() && is_back && NODES.into_iter().any(has_tried) {
                Ok(())
            } else {
                let says = nodes.values().map(testbed::objects::says);
                Err(format!(
                    "{halted:?}: {}",
                    says.collect::<Vec<_>>().join(", ")
                ))
            },
        )
    })
    .await?;
    // One node tried it, and came back.
    let tried = NODES.map(|node| boots(&cluster, node).map(|boots| boots.len()));
    let tried: Vec<usize> = tried.into_iter().collect::<Result<_>>()?;
    ensure!(
        tried.contains(&1) && tried.contains(&3),
        "boots of the nodes: {tried:?}"
    );
    ensure!(target == objects.target("worker").await?, "the target went");

    // Another configuration ends it.
    let mended = cluster.image(&Overlay::version("steered-mended"))?;
    let target = cluster
        .change("50-steered", "worker", &spec(&mended.reference))
        .await?;
    cluster.all_done("worker", &target, DONE_WITHIN).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn a_node_that_is_deleted_while_no_controller_runs_takes_its_object_along() -> Result<()> {
    let mut cluster = testbed("deleted", NodeSpec::new).start().await?;
    let [gone, stays] = NODES;
    let client = cluster.objects().client().clone();
    let objects = Api::<api::machineconfiguration::MachineConfigNode>::all(client.clone());
    for node in NODES {
        until(&format!("the object of {node}"), SOON, async || {
            let object = objects.get_opt(node).await?;
            Ok(object.map(drop).ok_or_else(|| "there is none".to_owned()))
        })
        .await?;
    }
    for name in cluster.replicas().keys().cloned().collect::<Vec<_>>() {
        let replica = cluster.replicas().remove(&name).context("a replica")?;
        replica.stop()?;
    }
    cluster.host_mut(gone)?.stop()?;
    let nodes = Api::<Node>::all(client);
    nodes.delete(gone, &DeleteParams::default()).await?;
    cluster.run(CONTROLLER, &[]).await?;
    until("the object of the deleted Node to go", SOON, async || {
        let left = objects.get_opt(gone).await?;
        Ok(left.map_or(Ok(()), |_| Err("it is there".to_owned())))
    })
    .await?;
    ensure!(
        objects.get_opt(stays).await?.is_some(),
        "the object of a Node that is there went"
    );
    // The pool counts without it, and goes on.
    let spec = Config::new().argument("slipway.test=deleted").spec();
    let target = cluster.change("50-steered", "worker", &spec).await?;
    cluster.done_in(stays, &target, DONE_WITHIN).await
}
