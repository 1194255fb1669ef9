//! Runs a verb of `mcd` on each node's host, in a pod, and reads what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use api::machineconfiguration::label;
use cluster::path;
use cluster::wire::{self, RequestBody};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use install::host_pod::{self, HostPodEnd, HostVerb, LIMIT_SECS, NAMESPACE};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::requests::{Error, InstallRequests};

/// How often the pods are read.
const PACE: Duration = Duration::from_secs(1);

/// Requests that are under way at once.
const CONCURRENCY: usize = 8;

/// Nodes that pull the image at once.
const WAVE: usize = 200;

/// When pods that have not ended are given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

/// How long the namespace may take to go.
const GONE_LIMIT: Duration = Duration::from_mins(2);

/// A node, and whether it is Ready.
#[derive(Debug, Clone)]
pub(super) struct SeenNode {
    pub(super) name: String,
    pub(super) is_ready: bool,
    /// As the API server has it.
    pub(super) object: Value,
}

/// All nodes of the cluster, by name.
pub(super) async fn nodes(requests: &InstallRequests) -> Result<Vec<SeenNode>, Error> {
    let nodes = requests.list(&path::all::<Node>()).await?;
    let mut nodes: Vec<_> = nodes
        .into_iter()
        .map(|object| {
            let conditions = object
                .pointer("/status/conditions")
                .and_then(Value::as_array);
            let is_true = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            SeenNode {
                name: name.unwrap_or_default().to_owned(),
                is_ready: conditions.into_iter().flatten().any(is_true),
                object,
            }
        })
        .collect();
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(nodes)
}

/// Runs `verb` on these nodes with `image`: how each pod ended, by node. The namespace of the pods
/// is there only meanwhile.
pub(super) async fn run(
    requests: &InstallRequests,
    verb: HostVerb,
    nodes: &[&SeenNode],
    image: &str,
) -> anyhow::Result<BTreeMap<String, HostPodEnd>> {
    if nodes.is_empty() {
        return Ok(BTreeMap::new());
    }
    // What a run that was killed has left would be taken for this one's.
    clear(requests).await?;
    make_namespace(requests).await?;
    let ran = run_in_waves(requests, verb, nodes, image).await;
    let cleared = clear(requests).await;
    let ends = ran?;
    cleared?;
    Ok(ends)
}

async fn run_in_waves(
    requests: &InstallRequests,
    verb: HostVerb,
    nodes: &[&SeenNode],
    image: &str,
) -> Result<BTreeMap<String, HostPodEnd>, Error> {
    let mut ends = BTreeMap::new();
    for (number, wave) in nodes.chunks(WAVE).enumerate() {
        ends.extend(run_wave(requests, verb, (number * WAVE, wave), image).await?);
    }
    Ok(ends)
}

/// Runs it on some nodes at once; `first` is the number of the first of them.
async fn run_wave(
    requests: &InstallRequests,
    verb: HostVerb,
    (first, nodes): (usize, &[&SeenNode]),
    image: &str,
) -> Result<BTreeMap<String, HostPodEnd>, Error> {
    let path = path::namespace::<Pod>(NAMESPACE);
    let pods = nodes.iter().enumerate();
    let pods: Vec<_> = pods
        .map(|(number, node)| host_pod::pod(verb, first + number, &node.name, image))
        .collect();
    let made = pods.iter().map(|pod| async {
        let body = RequestBody::Object(pod);
        requests
            .access
            .send::<Value>(Method::POST, &path, body)
            .await
            .map(drop)
    });
    stream::iter(made)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    let deadline = Instant::now() + Duration::from_secs(LIMIT_SECS);
    loop {
        let pods = requests.list(&path).await?;
        let mut ends: BTreeMap<String, HostPodEnd> = nodes
            .iter()
            .map(|node| (node.name.clone(), HostPodEnd::Runs))
            .collect();
        for pod in &pods {
            let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
            if let Some(end) = node.and_then(|node| ends.get_mut(node)) {
                *end = host_pod::end_of(pod);
            }
        }
        let is_over = ends.values().all(|end| *end != HostPodEnd::Runs);
        if is_over || Instant::now() >= deadline {
            return Ok(ends);
        }
        sleep(PACE).await;
    }
}

/// Makes the namespace; its service account follows a moment later, and pods are refused before.
async fn make_namespace(requests: &InstallRequests) -> Result<(), Error> {
    let namespace = host_pod::namespace();
    let body = RequestBody::Object(&namespace);
    let made = requests
        .access
        .send::<Value>(Method::POST, &path::all::<Namespace>(), body)
        .await;
    wire::unless_conflict(made)?;
    let account = path::namespaced::<ServiceAccount>(NAMESPACE, "default");
    let deadline = Instant::now() + GONE_LIMIT;
    while requests.at(&account).await?.is_none() && Instant::now() < deadline {
        sleep(PACE / 10).await;
    }
    Ok(())
}

/// Removes the pods and their namespace, and waits until it is gone. Pods of nodes that do not
/// respond are given up after a while.
pub(super) async fn clear(requests: &InstallRequests) -> anyhow::Result<()> {
    let namespace = path::object::<Namespace>(NAMESPACE);
    if requests.at(&namespace).await?.is_none() {
        return Ok(());
    }
    delete_pods(requests, 1).await?;
    requests.delete(&namespace).await?;
    let began = Instant::now();
    let mut is_given_up = false;
    while requests.at(&namespace).await?.is_some() {
        if began.elapsed() > GIVE_UP_AFTER && !is_given_up {
            is_given_up = true;
            delete_pods(requests, 0).await?;
        }
        ensure!(
            began.elapsed() < GONE_LIMIT,
            "namespace {NAMESPACE} is not gone after {} s: see what is left in it",
            GONE_LIMIT.as_secs()
        );
        sleep(PACE / 4).await;
    }
    Ok(())
}

async fn delete_pods(requests: &InstallRequests, grace_secs: u8) -> Result<(), Error> {
    let pods = path::namespace::<Pod>(NAMESPACE);
    for pod in requests.list(&pods).await? {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str);
        let Some(name) = name else { continue };
        let is_over = host_pod::end_of(&pod) != HostPodEnd::Runs;
        let grace_secs = if is_over { 0 } else { grace_secs };
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_secs,
        });
        let path = format!("{pods}/{name}");
        let body = RequestBody::Object(&options);
        let deleted = requests
            .access
            .send::<Value>(Method::DELETE, &path, body)
            .await;
        wire::found(deleted)?;
    }
    Ok(())
}

/// Whether a node has the daemon: it runs Linux, as far as it says so.
pub(super) fn has_daemon(node: &SeenNode) -> bool {
    let system = node.object.pointer("/metadata/labels");
    let system = system.and_then(|labels| labels.get(label::OS)?.as_str());
    system.is_none_or(|system| system == "linux")
}

/// How many nodes are not Ready of those that a workload selects by their labels.
pub(super) fn away(nodes: &[SeenNode], workload: &Value) -> u64 {
    let selector = workload.pointer("/spec/template/spec/nodeSelector");
    let selector = selector.and_then(Value::as_object);
    let selects = |node: &&SeenNode| {
        let labels = node.object.pointer("/metadata/labels");
        let mut wanted = selector.into_iter().flatten();
        wanted.all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let away = nodes.iter().filter(|it| !it.is_ready).filter(selects);
    away.map(|_| 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_a_workload_selects_are_away_for_it() {
        let node = |is_ready, labels: Value| SeenNode {
            name: String::new(),
            is_ready,
            object: json!({ "metadata": { "labels": labels } }),
        };
        let nodes = [
            node(false, json!({ "role": "worker" })),
            node(false, json!({ "role": "master" })),
            node(true, json!({ "role": "master" })),
            node(false, Value::Null),
        ];
        let with = |selector: Value| json!({ "spec": { "template": { "spec": { "nodeSelector": selector } } } });
        assert_eq!(away(&nodes, &with(json!({ "role": "master" }))), 1);
        assert_eq!(away(&nodes, &with(Value::Null)), 3);
        assert_eq!(away(&nodes, &json!({})), 3);
    }
}
