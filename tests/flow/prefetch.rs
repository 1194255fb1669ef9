//! Nodes that wait for their turn fetch and rehearse while they work: each takes each blob once and
//! no faster than the policy lets it, and at its turn nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use lab::tree::Overlay;
use observer::host;
use serde_json::json;
use testbed::config::Config;
use testbed::logs;
use testbed::objects::annotation as value;
use testbed::{Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed};

const NODES: [&str; 2] = ["worker-0", "worker-1"];
const POOL: &str = "worker";

/// Bytes that no layer of the image has less of, and its configuration has: that is read before the
/// layers, and with them.
const CONFIGURATION: u64 = 64 << 10;

/// Most bytes a second of each node, as the policy has it and as the Node has it.
const LIMIT: (&str, u64) = ("6M", 6_000_000);

/// Bytes that the kernel keeps between registry and node, at most, on both sides.
const IN_SOCKETS: u64 = 12 << 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn nodes_fetch_before_their_turn_and_nothing_at_it() -> Result<()> {
    let logs = logs::folder("prefetch", "before-the-turn");
    let definitions = testbed::workspace().join("deploy/crds");
    let policy = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": { "name": POOL }, "spec": { "prefetchBytesPerSecond": LIMIT.0 },
    });
    let testbed = Testbed::new(logs).definitions(&definitions);
    let testbed = testbed.objects(&policy.to_string());
    let testbed = testbed.node(NodeSpec::new(NODES[0]));
    let cluster = testbed.node(NodeSpec::new(NODES[1])).start().await?;
    let objects = cluster.objects();
    // Cordoned, one uses up the pool's budget: no node's turn comes.
    let cordon = |is_out: bool| json!({ "spec": { "unschedulable": is_out } });
    objects.patch_node(NODES[0], &cordon(true)).await?;
    let before = hosts(&cluster)?;

    // What is not there is reported, and harms nothing.
    let image = cluster.image(&Overlay::version("second").ballast(32 << 20, 1))?;
    let (repository, _) = image.reference.split_once('@').context("no digest")?;
    let missing = format!("{repository}@sha256:{}", "0".repeat(64));
    let spec = Config::new().os(&missing).spec();
    let unfetched = cluster.change("60-os", POOL, &spec).await?;
    for node in NODES {
        let start = format!("{unfetched}: ");
        let has_said = |node: &Node| value(node, annotation::NOT_FETCHED).starts_with(&start);
        let node = objects.node_is(node, "unable to fetch", DONE_WITHIN, has_said);
        is_at_rest(&node.await?)?;
    }

    let spec = Config::new().os(&image.reference).spec();
    let target = cluster.change("60-os", POOL, &spec).await?;
    for node in NODES {
        let has_fetched = |node: &Node| value(node, annotation::FETCHED) == target;
        let node = objects.node_is(node, "ready to go", DONE_WITHIN, has_fetched);
        let node = node.await?;
        is_at_rest(&node)?;
        let limit = value(&node, annotation::NEXT_BYTES_PER_SECOND);
        ensure!(limit == LIMIT.1.to_string(), "the limit is {limit:?}");
        ensure!(value(&node, annotation::NOT_FETCHED).is_empty(), "{node:?}");
    }
    for (name, was) in &before {
        let is = host::snapshot(cluster.host(name)?)?;
        let differences = host::differences(was, &is);
        ensure!(
            differences.is_empty(),
            "{name} is not as it was: {differences:?}"
        );
        ensure!(
            cluster.host(name)?.boots().len() == 1,
            "{name} was rebooted"
        );
    }
    each_blob_once(&cluster)?;
    within_the_limit(&cluster)?;

    let turn = Timestamp::now();
    objects.patch_node(NODES[0], &cordon(false)).await?;
    cluster.all_done(POOL, &target, DONE_WITHIN * 2).await?;
    for (node, requests) in cluster.fetches()? {
        let late: Vec<_> = requests
            .iter()
            .filter(|request| request.started > turn)
            .collect();
        ensure!(late.is_empty(), "{node} fetched at its turn: {late:?}");
        let names = [
            "nothing named",
            "no limit",
            "nothing fetched",
            "nothing wrong",
        ];
        let keys = [
            annotation::NEXT_CONFIG,
            annotation::NEXT_BYTES_PER_SECOND,
            annotation::FETCHED,
            annotation::NOT_FETCHED,
        ];
        for (what, key) in names.into_iter().zip(keys) {
            let is_gone = |node: &Node| value(node, key).is_empty();
            objects.node_is(&node, what, SOON, is_gone).await?;
        }
    }
    Ok(())
}

/// What each host is.
fn hosts(cluster: &Cluster) -> Result<BTreeMap<&'static str, BTreeMap<String, String>>> {
    let all = NODES.into_iter();
    all.map(|node| Ok((node, host::snapshot(cluster.host(node)?)?)))
        .collect()
}

/// A node that fetches before its turn shows nothing of it but the outcome.
fn is_at_rest(node: &Node) -> Result<()> {
    let shown = [annotation::STATE, annotation::PHASE, annotation::REASON];
    let shown = shown.map(|key| value(node, key));
    ensure!(shown == [NodeState::Done.as_str(), "Idle", ""], "{shown:?}");
    Ok(())
}

/// Each node took some layers, and none twice.
fn each_blob_once(cluster: &Cluster) -> Result<()> {
    let fetches = cluster.fetches()?;
    for node in NODES {
        let mut blobs = BTreeMap::<&str, usize>::new();
        for request in fetches.get(node).context("no fetches")? {
            if request.is_blob_fetch() && request.bytes > CONFIGURATION {
                *blobs.entry(&request.path).or_default() += 1;
            }
        }
        let twice: Vec<_> = blobs.iter().filter(|(_, times)| **times > 1).collect();
        ensure!(!blobs.is_empty(), "{node} fetched nothing");
        ensure!(twice.is_empty(), "{node} fetched again: {twice:?}");
    }
    Ok(())
}

/// Each node took as long as its bytes need, but for those that sockets kept.
fn within_the_limit(cluster: &Cluster) -> Result<()> {
    let fetches = cluster.fetches()?;
    for node in NODES {
        let requests = fetches.get(node).context("no fetches")?;
        let blobs: Vec<_> = requests.iter().filter(|it| it.is_blob_fetch()).collect();
        let first = blobs.iter().map(|blob| blob.started).min();
        let last = blobs.iter().map(|blob| blob.finished).max();
        let (first, last) = first.zip(last).context("nothing was fetched")?;
        let took = last.duration_since(first).unsigned_abs();
        let bytes: u64 = blobs.iter().map(|blob| blob.bytes).sum();
        let needed = Duration::from_secs(bytes.saturating_sub(IN_SOCKETS) / LIMIT.1);
        ensure!(needed > Duration::from_secs(2), "too little is fetched");
        ensure!(took >= needed, "{node} fetched {bytes} bytes in {took:?}");
    }
    Ok(())
}
