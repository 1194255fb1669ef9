//! Control-plane nodes are updated as all others, by the controller whose pods run on them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use testbed::config::Config;
use testbed::objects::{is_done_in, is_ready, says};
use testbed::{CONTROL_PLANE_POOL, Cluster, DONE_WITHIN, NodeSpec, Testbed, logs, until};

const NAMESPACE: &str = "openshift-machine-config-operator";
const CONTROLLER: &str = "machine-config-controller";
const DAEMON: &str = "machine-config-daemon";
const NODES: [&str; 2] = ["master-0", "master-1"];
const ARGUMENT: &str = "slipway.test=control-plane";

/// Nodes of the ready pods of a component.
async fn nodes_of(cluster: &Cluster, component: &str) -> Result<Vec<String>> {
    let client = cluster.objects().client().clone();
    let selector = ListParams::default().labels(&format!("k8s-app={component}"));
    let pods = Api::<Pod>::namespaced(client, NAMESPACE)
        .list(&selector)
        .await?;
    let ready = pods.items.into_iter().filter(is_ready);
    let mut nodes: Vec<_> = ready
        .filter_map(|pod| pod.spec.and_then(|spec| spec.node_name))
        .collect();
    nodes.sort();
    Ok(nodes)
}

/// Pod and UID of the replica that leads; empty while none does.
async fn leader(cluster: &Cluster) -> Result<String> {
    let client = cluster.objects().client().clone();
    let lease = Api::<Lease>::namespaced(client, NAMESPACE)
        .get(CONTROLLER)
        .await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    Ok(holder.unwrap_or_default())
}

/// Waits until each node has a replica and a daemon, from their images.
async fn is_whole(cluster: &Cluster) -> Result<()> {
    until(
        "a controller and a daemon on each node",
        DONE_WITHIN,
        async || {
            for component in [CONTROLLER, DAEMON] {
                let nodes = nodes_of(cluster, component).await?;
                if nodes != NODES {
                    return Ok(Err(format!("{component} is ready on {nodes:?}")));
                }
            }
            Ok(Ok(()))
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn nodes_of_the_controller_itself_are_drained_and_rebooted() -> Result<()> {
    let testbed = Testbed::new(logs::folder("control-plane", "roll"));
    let nodes = NODES.into_iter().map(NodeSpec::control_plane);
    let cluster = nodes.fold(testbed, Testbed::node).start().await?;
    is_whole(&cluster).await?;

    let start = Timestamp::now();
    let spec = Config::new().argument(ARGUMENT).spec();
    let target = cluster
        .change("50-argument", CONTROL_PLANE_POOL, &spec)
        .await?;
    let mut leaders = BTreeSet::new();
    until("the control plane to be updated", DONE_WITHIN, async || {
        leaders.insert(leader(&cluster).await?);
        let nodes = cluster.objects().nodes().await?;
        let late = nodes.values().find(|node| !is_done_in(node, &target));
        Ok(late.map_or(Ok(()), |node| Err(says(node))))
    })
    .await?;
    is_whole(&cluster).await?;

    // The leader's node goes last, and may be updated before another replica leads.
    until("another replica to lead", DONE_WITHIN, async || {
        leaders.insert(leader(&cluster).await?);
        leaders.remove("");
        Ok(if leaders.len() > 1 {
            Ok(())
        } else {
            Err(format!("only {leaders:?} led"))
        })
    })
    .await?;
    for host in cluster.hosts() {
        let boots = host.boots().len();
        ensure!(boots == 2, "{} booted {boots} times", host.name());
        let arguments = host.run(["cat", "/proc/cmdline"])?;
        ensure!(arguments.contains(ARGUMENT), "{}: {arguments}", host.name());
    }
    let record = cluster.record().context("cannot read what was recorded")?;
    let breaches: Vec<_> = record
        .judge(start)
        .iter()
        .map(ToString::to_string)
        .collect();
    ensure!(breaches.is_empty(), "{}", breaches.join("\n"));
    Ok(())
}
