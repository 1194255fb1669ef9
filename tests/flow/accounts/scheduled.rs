//! Where the controller, whose account is strong, may run.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use testbed::{SOON, until};

use crate::{CONTROLLER, NAMESPACE, cluster, node};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn the_controller_runs_on_different_nodes_of_the_control_plane() -> Result<()> {
    let cluster = cluster("scheduled").await?;
    let client = cluster.client().await?;
    // Nodes of all kinds that there are: the label's old name, its new one, and a worker with room.
    node(&client, "worker", &["worker"]).await?;
    until("the controller's pods", SOON, async || {
        let pods = controllers(&client).await?;
        let waiting = pods.iter().filter(|pod| is_unschedulable(pod)).count();
        Ok((waiting == 2)
            .then_some(())
            .ok_or_else(|| format!("{waiting} are refused by the scheduler")))
    })
    .await?;
    node(&client, "old", &["master"]).await?;
    node(&client, "new", &["control-plane"]).await?;
    let runs_on = until("both pods to be scheduled", SOON, async || {
        let pods = controllers(&client).await?;
        let mut nodes: Vec<String> = pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
            .collect();
        nodes.sort();
        Ok(if nodes.len() == 2 {
            Ok(nodes)
        } else {
            Err(format!("on nodes {nodes:?}"))
        })
    })
    .await?;
    assert_eq!(runs_on, ["new", "old"]);
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    ensure!(
        deployments
            .get(CONTROLLER)
            .await?
            .spec
            .and_then(|spec| spec.replicas)
            == Some(2)
    );
    Ok(())
}

async fn controllers(client: &Client) -> Result<Vec<Pod>> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let labels = ListParams::default().labels("k8s-app=machine-config-controller");
    Ok(pods.list(&labels).await?.items)
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|is| is.type_ == "PodScheduled" && is.reason.as_deref() == Some("Unschedulable"))
}
