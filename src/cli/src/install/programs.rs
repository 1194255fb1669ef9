//! Ends programs of a cluster, so that none writes any more what is removed after it.

use std::time::Duration;

use anyhow::ensure;
use cluster::path;
use cluster::wire;
use install::record::RecordedObject;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::hosts;
use super::requests::InstallRequests;
use crate::output::print;

/// How long programs may take until they have ended: upstream's daemon has 10 minutes of grace.
const LIMIT: Duration = Duration::from_mins(11);

const PAUSE: Duration = Duration::from_millis(500);

/// Removes workloads and waits until their pods have ended on all nodes that are Ready. Operators
/// end first: they make the others again.
pub(super) async fn end(
    requests: &InstallRequests,
    workloads: &[RecordedObject],
    word: &str,
) -> anyhow::Result<()> {
    let rank = |it: &RecordedObject| match (it.name.ends_with("-operator"), it.kind.as_str()) {
        (true, _) => 0,
        (false, "Deployment") => 1,
        (false, _) => 2,
    };
    for stage in 0..=2 {
        let stage: Vec<_> = workloads.iter().filter(|it| rank(it) == stage).collect();
        for workload in &stage {
            if requests.remove(workload).await? {
                print(format!("{word} {}\n", workload.id()))?;
            }
        }
        for workload in stage {
            until_ended(requests, workload).await?;
        }
    }
    Ok(())
}

/// Waits until the workload is gone, and its pods with it. Those of a node that is not Ready end
/// once it is back.
async fn until_ended(requests: &InstallRequests, workload: &RecordedObject) -> anyhow::Result<()> {
    let label = wire::escape(&format!("k8s-app={}", workload.name));
    let pods = path::namespace::<Pod>(&workload.namespace);
    let pods = format!("{pods}?labelSelector={label}");
    let deadline = Instant::now() + LIMIT;
    loop {
        let object = requests.find(&workload.id(), &workload.api_version).await?;
        let running = requests.list(&pods).await?;
        if object.is_none() && running.is_empty() {
            return Ok(());
        }
        let nodes = hosts::nodes(requests).await?;
        let is_ready = |pod: &Value| {
            let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
            let ready = |name| nodes.iter().any(|it| it.is_ready && it.name == name);
            node.is_none_or(ready)
        };
        if object.is_none() && !running.iter().any(is_ready) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{} has not ended after {} s",
            workload.id(),
            LIMIT.as_secs()
        );
        sleep(PAUSE).await;
    }
}
