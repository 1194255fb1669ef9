//! Input that cannot be followed: it is named, with its field, and nothing else happens.
//!
//! Pool `edge` gets the bad input, pool `good` shows that other pools go on. Where the input is one
//! node's and not the pool's, or one host cannot follow it, the other node of `edge` shows that it
//! goes on, too.

mod cases;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{NodeState, annotation};
use jiff::Timestamp;
use lab::audit;
use lab::tree::Tree;
use observer::host;
use serde_json::{Value, json};
use testbed::config::Config;
use testbed::logs;
use testbed::objects;
use testbed::{Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, until};

use cases::{Bad, Case, cases, ignition};

/// How long it may take until what is wrong is reported.
const REPORTED_WITHIN: Duration = SOON;

/// How long a change without reboot may take.
const LIVE_WITHIN: Duration = SOON;

/// How long one with a reboot may take.
const REBOOT_WITHIN: Duration = DONE_WITHIN;

/// Nodes of pool `edge`. What is bad about a node is about the first.
const NODE: &str = "edge-0";
const OTHER: &str = "edge-1";

/// Name of the MachineConfig that is good, while something is wrong with one node.
const OTHERS: &str = "50-other";

const POOLS: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: edge
spec:
  machineConfigSelector:
    matchExpressions:
      - { key: machineconfiguration.openshift.io/role, operator: In, values: [worker, edge] }
  nodeSelector:
    matchLabels: { node-role.kubernetes.io/edge: '' }
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: good
spec:
  machineConfigSelector:
    matchExpressions:
      - { key: machineconfiguration.openshift.io/role, operator: In, values: [worker, good] }
  nodeSelector:
    matchLabels: { node-role.kubernetes.io/good: '' }
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: evictable
spec:
  replicas: 2
  selector:
    matchLabels: { app: evictable }
  template:
    metadata:
      labels: { app: evictable }
    spec:
      nodeSelector: { node-role.kubernetes.io/edge: '' }
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector:
            matchLabels: { app: evictable }
      containers:
        - { name: evictable, image: lab/evictable }
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn bad_input_is_named_and_changes_nothing() -> Result<()> {
    // One case has a kernel of its own, for which there is no room.
    let boot_bytes = Tree::ready()?.boot_bytes(1)?;
    let edge = |name| NodeSpec::new(name).role("edge").boot_bytes(boot_bytes);
    let testbed = Testbed::new(logs::folder("bad-input", "all-cases"))
        .objects(POOLS)
        .node(edge(NODE))
        .node(edge(OTHER))
        .node(NodeSpec::new("good-0").role("good"));
    let cluster = testbed.start().await?;
    pods_are_ready(&cluster).await?;
    // What the OS of one case has a directory for.
    cluster
        .host(NODE)?
        .run(["sh", "-c", "echo mine >/etc/conflict"])?;
    let pod = pod_on(&cluster, NODE).await?;

    let target = cluster.objects().target("edge").await?;
    an_unknown_field_only_warns(&cluster, &target).await?;
    an_invalid_policy_is_named_and_its_repair_is_followed(&cluster, &target).await?;
    let mut failures = Vec::new();
    for (number, case) in (1..).zip(cases(&cluster)?) {
        let outcome = try_case(&cluster, number, &case).await;
        if let Err(error) = outcome {
            failures.push(format!("{}: {error:#}", case.name));
        }
        if let Err(error) = restore_target(&cluster, &case, &target).await {
            failures.push(format!("{}, restoring the target: {error:#}", case.name));
            // From here the next case starts: if it cannot be had, nothing more is to be learnt.
            if let Err(error) = clear(&cluster, &case, &target).await {
                failures.push(format!("no case can follow {}: {error:#}", case.name));
                break;
            }
        }
    }
    // Nor between the cases.
    match pod_on(&cluster, NODE).await {
        Ok(still) if still == pod => {}
        still => failures.push(format!("the pod of {NODE} was {pod} and is {still:?}")),
    }
    ensure!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    Ok(())
}

/// Waits for a pod on each node of `edge`.
async fn pods_are_ready(cluster: &Cluster) -> Result<()> {
    cluster.objects().pods_ready(&[("evictable", 2)]).await
}

/// Identity of the pod that could be evicted from a node.
async fn pod_on(cluster: &Cluster, node: &str) -> Result<String> {
    let pods = cluster.objects().pods(("app", "evictable")).await?;
    let on_it = pods.into_iter().find(|pod| {
        let spec = pod.spec.as_ref();
        spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
    });
    on_it
        .and_then(|pod| pod.metadata.uid)
        .with_context(|| format!("no pod runs on {node}"))
}

/// The fields that are understood are carried out.
async fn an_unknown_field_only_warns(cluster: &Cluster, target: &str) -> Result<()> {
    let user = json!({ "name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA unknown"] });
    let passwd = json!({ "users": [user], "colour": "red" });
    cluster
        .configure("60-unknown", "edge", &ignition("passwd", &passwd))
        .await?;
    let warned = cluster.next_target("edge", target).await?;
    cluster.all_done("edge", &warned, LIVE_WITHIN).await?;
    let says = [
        "60-unknown".to_owned(),
        "passwd.colour: is not known".to_owned(),
    ];
    is_reported(cluster, &says).await?;
    cluster.remove_config("60-unknown").await?;
    cluster.all_done("edge", target, LIVE_WITHIN).await
}

/// What was in force stays until it is repaired; then a file that it names needs no reboot.
async fn an_invalid_policy_is_named_and_its_repair_is_followed(
    cluster: &Cluster,
    target: &str,
) -> Result<()> {
    let policy =
        |path: &str| json!({ "files": [{ "path": path, "actions": [{ "type": "None" }] }] });
    cluster.write_policies(&policy("etc/policy")).await?;
    let says = [
        "event about cluster".to_owned(),
        "spec.nodeDisruptionPolicy.files[0].path: is not absolute".to_owned(),
    ];
    is_reported(cluster, &says).await?;
    let settings = cluster.settings().await?;
    let status = settings.status.unwrap_or_default();
    let in_force = format!("{:?}", status.node_disruption_policy_status);
    ensure!(
        status.observed_generation < settings.metadata.generation
            && !in_force.contains("etc/policy"),
        "an invalid policy is in force: {status:?}"
    );
    let file = json!({ "files": [{
        "path": "/etc/policy/file", "mode": 420, "contents": { "source": "data:,a" },
    }] });
    cluster
        .configure("60-policy", "edge", &ignition("storage", &file))
        .await?;
    let live = cluster.next_target("edge", target).await?;

    let boots = || anyhow::Ok(cluster.host(NODE)?.boots().len());
    let before = boots()?;
    cluster.write_policies(&policy("/etc/policy/")).await?;
    cluster.policies_in_force().await?;
    cluster.all_done("edge", &live, LIVE_WITHIN).await?;
    cluster.remove_config("60-policy").await?;
    cluster.all_done("edge", target, LIVE_WITHIN).await?;
    ensure!(boots()? == before, "{NODE} was booted");
    Ok(())
}

/// Waits until one text says all of that; the text.
async fn is_reported(cluster: &Cluster, says: &[String]) -> Result<String> {
    until(
        "what is wrong to be reported",
        REPORTED_WITHIN,
        async || {
            let texts = texts(cluster).await?;
            let holds = |text: &&String| says.iter().all(|part| text.contains(part.as_str()));
            Ok(texts
                .iter()
                .find(holds)
                .cloned()
                .ok_or_else(|| format!("nothing names {says:?} among\n  {}", texts.join("\n  "))))
        },
    )
    .await
}

async fn try_case(cluster: &Cluster, number: u32, case: &Case) -> Result<()> {
    let since = Timestamp::now();
    let stays = case.bad.stays();
    let snapshot = |node| anyhow::Ok((node, host::snapshot(cluster.host(node)?)?));
    let before: Vec<(&str, _)> = stays.iter().copied().map(snapshot).collect::<Result<_>>()?;
    give(cluster, case).await?;
    let mut parts = case.says.clone();
    let by_node = case.bad.is_reported_by_node(&parts);
    if by_node {
        parts.push(format!("node {NODE}: "));
    }
    let text = is_reported(cluster, &parts).await?;
    ensure!(!text.contains('\n'), "it takes more than a line: {text}");
    if by_node {
        let node = cluster.objects().node(NODE).await?;
        let shown = objects::annotation(&node, annotation::STATE);
        let expected = case.bad.state();
        ensure!(shown == expected.as_str(), "the node shows {shown}: {text}");
        let events = cluster.objects().events().await?;
        let is_reported = events.iter().any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("FailedToReconcile")
                && case.says.iter().all(|part| message.contains(part.as_str()))
        });
        let is_refused = expected == NodeState::Unreconcilable;
        ensure!(
            is_reported == is_refused,
            "an event says that it is rejected: {is_reported}"
        );
    }
    good_goes_on(cluster, number).await?;
    if !stays.contains(&OTHER) {
        other_goes_on(cluster, case).await?;
    }

    for (node, before) in &before {
        // A rehearsal that is tried again has a deployment for a moment, and throws it away.
        until("the host to be what it was", REPORTED_WITHIN, async || {
            let differences = host::differences(before, &host::snapshot(cluster.host(node)?)?);
            Ok(if differences.is_empty() {
                Ok(())
            } else {
                Err(format!("{node}: {}", differences.join("\n  ")))
            })
        })
        .await?;
    }
    let events = cluster.events()?;
    let evicted = audit::pods::evictions(&events)
        .into_iter()
        .find(|evicted| evicted.at > since && !case.bad.reboots_other());
    ensure!(evicted.is_none(), "a pod was evicted: {evicted:?}");
    let histories = audit::nodes::histories(&events);
    for node in stays {
        let history = histories.get(*node).context("a node has no history")?;
        let cordoned = history
            .iter()
            .find(|state| state.at > since && state.is_unschedulable);
        ensure!(
            cordoned.is_none(),
            "{node} was cordoned at {:?}",
            cordoned.map(|state| state.at)
        );
    }
    Ok(())
}

/// All texts for people: reasons, conditions, events.
async fn texts(cluster: &Cluster) -> Result<Vec<String>> {
    let objects = cluster.objects();
    let mut texts = Vec::new();
    for (name, node) in objects.nodes().await? {
        let reason = objects::annotation(&node, annotation::REASON);
        texts.push(format!("node {name}: {reason}"));
    }
    for name in ["worker", "edge", "good"] {
        let status = objects.pool(name).await?.status.unwrap_or_default();
        for condition in status.conditions {
            texts.push(format!(
                "pool {name}: {} {}",
                condition.reason, condition.message
            ));
        }
    }
    for event in objects.events().await? {
        let about = event.involved_object.name.unwrap_or_default();
        texts.push(format!(
            "event about {about}: {}",
            event.message.unwrap_or_default()
        ));
    }
    Ok(texts)
}

async fn give(cluster: &Cluster, case: &Case) -> Result<()> {
    let objects = cluster.objects();
    match &case.bad {
        Bad::Config(spec) => cluster.configure(case.name, "edge", spec).await,
        // A node that cannot follow counts as unavailable.
        Bad::Host(spec) => {
            objects.patch_pool("edge", &budget(&json!(2))).await?;
            cluster.configure(case.name, "edge", spec).await
        }
        Bad::Budget(value) => {
            objects.patch_pool("edge", &budget(value)).await?;
            cluster
                .configure("60-waits", "edge", &ssh_key("waits"))
                .await
        }
        Bad::Target(config) => {
            objects.pause("edge", true).await?;
            objects.set_target(NODE, config).await
        }
        Bad::Role(role) => objects.set_role(NODE, role, true).await,
    }
}

/// Brings the pool back to `target`.
async fn restore_target(cluster: &Cluster, case: &Case, target: &str) -> Result<()> {
    let objects = cluster.objects();
    match &case.bad {
        Bad::Config(_) => cluster.remove_config(case.name).await?,
        Bad::Host(_) => {
            cluster.remove_config(case.name).await?;
            cluster.all_done("edge", target, REBOOT_WITHIN).await?;
            objects.patch_pool("edge", &budget(&json!(1))).await?;
            pods_are_ready(cluster).await?;
        }
        Bad::Budget(_) => {
            cluster.remove_config("60-waits").await?;
            objects.patch_pool("edge", &budget(&json!(1))).await?;
        }
        Bad::Target(_) => {
            cluster.remove_config(OTHERS).await?;
            objects.set_target(NODE, target).await?;
            objects.pause("edge", false).await?;
        }
        Bad::Role(role) => {
            cluster.remove_config(OTHERS).await?;
            objects.set_role(NODE, role, false).await?;
        }
    }
    cluster.all_done("edge", target, LIVE_WITHIN).await
}

/// Takes away whatever a case may have left, and waits as long as a node may need to come back from
/// anywhere.
async fn clear(cluster: &Cluster, case: &Case, target: &str) -> Result<()> {
    let objects = cluster.objects();
    for config in [case.name, "60-waits", OTHERS] {
        cluster.remove_config(config).await?;
    }
    if let Bad::Role(role) = &case.bad {
        objects.set_role(NODE, role, false).await?;
    }
    for node in [NODE, OTHER] {
        objects.set_target(node, target).await?;
    }
    let pool = json!({ "spec": { "paused": false, "maxUnavailable": 1 } });
    objects.patch_pool("edge", &pool).await?;
    cluster.all_done("edge", target, REBOOT_WITHIN).await?;
    pods_are_ready(cluster).await
}

/// A change of the other pool is carried out.
async fn good_goes_on(cluster: &Cluster, number: u32) -> Result<()> {
    let key = ssh_key(&format!("alive-{number}"));
    let target = cluster.change("50-alive", "good", &key).await?;
    // The node alone: in one case the other one has the pool's role, too.
    cluster.done_in("good-0", &target, LIVE_WITHIN).await
}

/// A change of the pool is carried out by its other node.
async fn other_goes_on(cluster: &Cluster, case: &Case) -> Result<()> {
    let objects = cluster.objects();
    let target = if case.bad.reboots_other() {
        // The change itself.
        objects.target("edge").await?
    } else {
        cluster.change(OTHERS, "edge", &ssh_key("other")).await?
    };
    // The controller would put another target right: the pool is paused, and its nodes are assigned
    // theirs by hand.
    if let Bad::Target(_) = case.bad {
        objects.set_target(OTHER, &target).await?;
    }
    cluster.done_in(OTHER, &target, REBOOT_WITHIN).await
}

fn ssh_key(comment: &str) -> Value {
    let key = format!("ssh-ed25519 AAAA {comment}");
    Config::new().keys(&[&key]).spec()
}

fn budget(value: &Value) -> Value {
    json!({ "spec": { "maxUnavailable": value } })
}
