//! What the cluster itself knows against another minor release is a risk of each update to one,
//! where the feature gate says so.

use anyhow::Result;
use api::config::FeatureGate;
use kube::Api;
use serde_json::json;
use testbed::objects;

use crate::env::{Cluster, IMAGE, VERSION};
use crate::release::COMPONENT;

impl Cluster {
    /// Turns on risks that do not come from the update service.
    async fn count_own_risks(&self) -> Result<()> {
        let gates: Api<FeatureGate> = self.all();
        let gate = json!({ "metadata": { "name": "cluster" }, "spec": {} });
        objects::create(&gates, gate).await?;
        let enabled = json!([{ "name": "ClusterUpdateAcceptRisks" }]);
        let of_version = json!({ "version": VERSION, "enabled": enabled, "disabled": [] });
        let status = json!({ "featureGates": [of_version] });
        objects::set_status(&gates, "cluster", &status).await
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn operator_that_is_not_upgradeable_is_a_risk_of_the_next_minor_release() -> Result<()> {
    let mut cluster = Cluster::start("risks").await?;
    let server = cluster.server.clone();
    cluster.arguments = vec![format!("--promql-url={}", server.at(""))];
    cluster.count_own_risks().await?;
    cluster.acknowledge()?;
    let node = |version: &str, image: &str| json!({ "version": version, "payload": image });
    let graph = json!({
        "nodes": [node(VERSION, IMAGE), node("4.2.1", "q/r@sha256:1"), node("4.3.0", "q/r@sha256:3")],
        "edges": [[0, 1], [0, 2]],
    });
    server.serve("/graph", Some(&graph));
    let alerts = json!({ "status": "success", "data": { "alerts": [] } });
    server.serve("/api/v1/alerts", Some(&alerts));
    let process = cluster.settle().await?;
    let spec = json!({ "spec": { "channel": "stable-4.2", "upstream": server.at("/graph") } });
    cluster.change(&spec).await?;
    cluster.until_offered("4.3.0, 4.2.1", "").await?;

    let why = "Remove the old API first: https://example.com/old-api.";
    cluster.report_upgradeable("False", why).await?;
    cluster
        .until_offered("4.2.1", "4.3.0 False ExposedToRisks")
        .await?;
    let update = cluster.status().await?.conditional_updates.remove(0);
    let name = "ClusterOperatorUpgradeable-alpha";
    let risk = &update.risks[0];
    assert_eq!((risk.name.as_str(), risk.message.as_str()), (name, why));
    assert_eq!(risk.url, "https://example.com/old-api");
    assert_eq!(
        update.conditions[0].message,
        format!("{why} https://example.com/old-api")
    );
    cluster.until_condition("Upgradeable", why).await?;

    cluster.report_upgradeable("True", "").await?;
    cluster.until_offered("4.3.0, 4.2.1", "").await?;
    drop(process);
    Ok(())
}

/// A patch goes on with what it was exposed to in the history; a minor release waits until the
/// override is gone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn unmanaged_override_blocks_a_minor_release_and_is_a_risk_of_a_patch() -> Result<()> {
    let mut cluster = Cluster::start("override").await?;
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
    ];
    cluster.acknowledge()?;
    let process = cluster.settle().await?;
    let overrides = json!([{
        "kind": "ConfigMap", "group": "", "namespace": "default", "name": COMPONENT,
        "unmanaged": true
    }]);
    cluster
        .change(&json!({ "spec": { "overrides": overrides } }))
        .await?;
    let disabling = "Disabling ownership via cluster version overrides prevents updates";
    cluster.until_condition("Upgradeable", disabling).await?;

    let minor = cluster
        .push_signed("minor", &cluster.release("4.3.0")?)
        .await?;
    cluster
        .ask(json!({ "version": "4.3.0", "image": minor }))
        .await?;
    let message = cluster
        .until_condition("ReleaseAccepted", disabling)
        .await?;
    let blocked = "Precondition \"ClusterVersionUpgradeable\" failed";
    assert!(message.contains(blocked), "{message}");
    cluster.until_own_image(IMAGE).await?;

    let patch = cluster
        .push_signed("patch", &cluster.release("4.2.1")?)
        .await?;
    cluster
        .ask(json!({ "version": "4.2.1", "image": patch }))
        .await?;
    cluster.until_own_image(&patch).await?;
    let head = cluster.status().await?.history.remove(0);
    assert_eq!(head.version, "4.2.1");
    for expected in [
        "ClusterVersionOverridesSet",
        "Retarget from 4.2.0 to 4.2.1 is not blocked by ClusterVersionOverridesSet",
    ] {
        let risks = &head.accepted_risks;
        assert!(risks.contains(expected), "{risks}");
    }
    drop(process);
    Ok(())
}
