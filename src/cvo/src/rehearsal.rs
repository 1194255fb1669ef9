//! One node of each pool fetches and rehearses what a release would make of it, as it does before
//! its turn in an update.
//!
//! The pool is named the configuration, the controller names it to a node, and the node's daemon
//! reports the outcome. What was made for it is removed at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use api::config::preflight::RenderedPool;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, annotation};
use chassis::report::Chain;
use cluster::access::Access;
use cluster::list::{ObjectHead, heads};
use cluster::objects::{self, Objects};
use cluster::{path, wire};
use k8s_openapi::api::core::v1::Node;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long all nodes together may take: they pull an image each, at the lowest priority.
const LIMIT: Duration = Duration::from_mins(10);

/// Time between two looks at the nodes. They are read by their metadata.
const LOOK: Duration = Duration::from_secs(5);

/// What a node reports of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NodeReport {
    /// No node is named it.
    NoNode,
    /// This one is at it.
    Waiting(String),
    /// This one has rehearsed it.
    Done(String),
    /// This one cannot, for this reason.
    Failed(String, String),
}

/// Reads the report of the node that is named a configuration.
fn report_of(config: &str, nodes: &[ObjectHead]) -> NodeReport {
    let text = |node: &ObjectHead, key: &str| {
        let value = node.annotations.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let is_named = |node: &&ObjectHead| text(node, annotation::NEXT_CONFIG) == config;
    let Some(node) = nodes.iter().find(is_named) else {
        return NodeReport::NoNode;
    };
    if text(node, annotation::FETCHED) == config {
        return NodeReport::Done(node.name.clone());
    }
    match text(node, annotation::NOT_FETCHED).split_once(": ") {
        Some((failed, cause)) if failed == config => {
            NodeReport::Failed(node.name.clone(), cause.to_owned())
        }
        _ => NodeReport::Waiting(node.name.clone()),
    }
}

/// What came of all rehearsals.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RehearsalFindings {
    pub failures: Vec<String>,
    pub not_checked: Vec<String>,
}

/// Has one node of each of these pools rehearse what was stored for it, and notes the node.
///
/// # Errors
/// A pool cannot be written, or the nodes cannot be read.
pub async fn rehearse(
    access: &Access,
    pools: &mut [RenderedPool],
) -> Result<RehearsalFindings, wire::Error> {
    let mut findings = RehearsalFindings::default();
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    for pool in pools.iter() {
        if !pool.not_rehearsed.is_empty() {
            let (name, why) = (&pool.pool, &pool.not_rehearsed);
            let why = format!("MachineConfigPool {name}: not rehearsed on a node: {why}");
            findings.not_checked.push(why);
        }
        if !pool.stored.is_empty() {
            name(access, &pool.pool, Some(&pool.stored)).await?;
            open.insert(pool.pool.clone(), pool.stored.clone());
        }
    }
    let deadline = Instant::now() + LIMIT;
    while !open.is_empty() {
        let nodes = heads(access, &path::all::<Node>()).await?;
        let is_over = Instant::now() >= deadline;
        open.retain(|pool, config| {
            let why = match report_of(config, &nodes) {
                NodeReport::Done(node) => {
                    let rehearsed = pools.iter_mut().find(|one| one.pool == *pool);
                    if let Some(rehearsed) = rehearsed {
                        rehearsed.node = node;
                    }
                    return false;
                }
                NodeReport::Failed(node, cause) => {
                    findings.failures.push(format!(
                        "MachineConfigPool {pool}: node {node} cannot fetch and rehearse its \
                         configuration: {cause}"
                    ));
                    return false;
                }
                NodeReport::Waiting(node) => format!("node {node} has not ended"),
                NodeReport::NoNode => "no node is at rest, or the controller names none".to_owned(),
            };
            if is_over {
                findings.not_checked.push(format!(
                    "MachineConfigPool {pool}: not rehearsed within {} s: {why}",
                    LIMIT.as_secs()
                ));
            }
            !is_over
        });
        if !open.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(findings)
}

/// Names a pool what it rehearses, or nothing.
async fn name(access: &Access, pool: &str, config: Option<&str>) -> Result<(), wire::Error> {
    let change = json!({ "metadata": { "annotations": { (annotation::REHEARSE): config } } });
    let pools = Objects::<MachineConfigPool>::of_cluster(access).read_as::<IgnoredAny>();
    // Of one that was deleted meanwhile nothing is left.
    wire::found(pools.patch(pool, &change).await).map(drop)
}

/// Removes all that a rehearsal has made, this one or one of a process before. Failures are logged.
pub async fn tidy(access: &Access) {
    if let Err(error) = remove(access).await {
        tracing::warn!(error = %Chain(&error), "cannot remove what a rehearsal has made");
    }
}

async fn remove(access: &Access) -> Result<(), wire::Error> {
    let has = |head: &ObjectHead, key: &str| head.annotations.get(key).is_some();
    for pool in listed(access, &path::all::<MachineConfigPool>()).await? {
        if has(&pool, annotation::REHEARSE) {
            name(access, &pool.name, None).await?;
        }
    }
    for config in listed(access, &path::all::<MachineConfig>()).await? {
        if has(&config, annotation::REHEARSAL_OF) {
            objects::delete_in_background(access, &path::object::<MachineConfig>(&config.name))
                .await?;
        }
    }
    Ok(())
}

/// Metadata of objects; none where the kind is not served.
async fn listed(access: &Access, path: &str) -> Result<Vec<ObjectHead>, wire::Error> {
    Ok(wire::found(heads(access, path).await)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};

    use super::*;

    const GROUP: &str = "/apis/machineconfiguration.openshift.io/v1";

    fn head(name: &str, annotations: &Value) -> Value {
        json!({ "metadata": { "name": name, "annotations": annotations } })
    }

    fn list(path: &str, items: &[Value]) -> Call {
        let reply = json!({ "metadata": {}, "items": items });
        Call::get(&format!("{path}?limit=1000"), Reply::ok(reply))
    }

    fn named(pool: &str, config: Option<&str>) -> Call {
        let change = json!({ "metadata": { "annotations": { "slipway.dev/rehearse": config } } });
        let path = format!("{GROUP}/machineconfigpools/{pool}");
        Call::patch(&path, change, Reply::ok(json!({})))
    }

    fn pool(pool: &str, stored: &str, not_rehearsed: &str) -> RenderedPool {
        RenderedPool {
            pool: pool.to_owned(),
            stored: stored.to_owned(),
            not_rehearsed: not_rehearsed.to_owned(),
            ..RenderedPool::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_nodes_are_said_by_pool_and_node() {
        let node = |name: &str, config: &str, fetched: &str, failed: &str| {
            head(
                name,
                &json!({
                    "slipway.dev/next-config": config, "slipway.dev/fetched": fetched,
                    "slipway.dev/not-fetched": failed
                }),
            )
        };
        let first = [
            node("m1", "m", "", "other: no"),
            node("w1", "w", "", "w: no room: 3 MiB"),
        ];
        let second = [node("m1", "m", "m", "")];
        let calls = vec![
            named("master", Some("m")),
            named("worker", Some("w")),
            list("/api/v1/nodes", &first),
            list("/api/v1/nodes", &second),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        let mut pools = [
            pool("edge", "", "the pool has no nodes"),
            pool("master", "m", ""),
            pool("same", "", ""),
            pool("worker", "w", ""),
        ];
        let found = script
            .drive(Box::pin(rehearse(&access, &mut pools)))
            .await
            .unwrap();
        assert_eq!(
            found.failures,
            [
                "MachineConfigPool worker: node w1 cannot fetch and rehearse its configuration: no room: 3 MiB"
            ]
        );
        assert_eq!(
            found.not_checked,
            ["MachineConfigPool edge: not rehearsed on a node: the pool has no nodes"]
        );
        let nodes = pools.map(|pool| pool.node);
        assert_eq!(nodes, ["", "m1", "", ""]);
    }

    #[test]
    fn only_the_node_that_is_named_the_configuration_answers() {
        let heads = |items: Vec<Value>| -> Vec<ObjectHead> {
            let read = |item: Value| serde_json::from_value(item["metadata"].clone()).unwrap();
            items.into_iter().map(read).collect()
        };
        let fetched = json!({ "slipway.dev/fetched": "c" });
        assert_eq!(
            report_of("c", &heads(vec![head("a", &fetched)])),
            NodeReport::NoNode
        );
        let at_it = json!({ "slipway.dev/next-config": "c", "slipway.dev/fetched": "b" });
        let nodes = heads(vec![head("a", &fetched), head("b", &at_it)]);
        assert_eq!(report_of("c", &nodes), NodeReport::Waiting("b".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_a_rehearsal_has_made_is_removed() {
        let pools = [
            head("master", &json!({})),
            head("worker", &json!({ "slipway.dev/rehearse": "w" })),
        ];
        let configs = [
            head("00-worker", &json!(null)),
            head("w", &json!({ "slipway.dev/rehearsal-of": "worker" })),
        ];
        let options = json!({ "propagationPolicy": "Background" });
        let calls = vec![
            list(&format!("{GROUP}/machineconfigpools"), &pools),
            named("worker", None),
            list(&format!("{GROUP}/machineconfigs"), &configs),
            Call::delete(
                &format!("{GROUP}/machineconfigs/w"),
                options,
                Reply::ok(json!({})),
            ),
        ];
        let (script, client) = Script::start(calls);
        let access = Access::of_client(client);
        script.drive(Box::pin(remove(&access))).await.unwrap();
    }
}
