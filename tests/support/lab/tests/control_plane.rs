//! The control plane of the lab, with kubelets, seen as its users and the observer see it.

#![expect(clippy::print_stdout, reason = "shows how long the parts take")]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cluster::access::Access;
use cluster::apply::{self, Applier, ApplyOutcome, FieldConflict, Ownership};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use lab::audit::{self, nodes, pods, requests};
use lab::control_plane::{ControlPlane, LocalKubelet, Options, Parts, definitions};
use lab::{PATIENCE, manifest, wait};
use serde_json::{Value, json};

async fn start(parts: Parts, nodes: &[&str]) -> Result<ControlPlane> {
    let nodes = nodes.iter().map(ToString::to_string).collect();
    let options = Options {
        nodes,
        parts,
        ..Options::default()
    };
    let begun = Instant::now();
    let control_plane =
        tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await??;
    println!("control plane up in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(control_plane)
}

/// Polls until there is an answer.
async fn until<T>(what: &str, mut found: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let found = async || Ok(found().await?.ok_or_else(|| "nothing yet".to_owned()));
    wait::until(what, PATIENCE, found).await
}

fn condition<'a>(
    mut conditions: impl Iterator<Item = (&'a String, &'a String)>,
    name: &str,
) -> Option<&'a str> {
    conditions
        .find(|(kind, _)| *kind == name)
        .map(|(_, status)| status.as_str())
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    condition(conditions.map(|c| (&c.type_, &c.status)), "Ready") == Some("True")
}

fn node_ready(node: &Node) -> Option<&str> {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    condition(conditions.map(|c| (&c.type_, &c.status)), "Ready")
}

async fn node_is(client: &Client, node: &str, status: &str) -> Result<Node> {
    let nodes = Api::<Node>::all(client.clone());
    until(&format!("Ready of node {node} is {status}"), async || {
        let found = nodes.get_opt(node).await?;
        Ok(found.filter(|node| node_ready(node) == Some(status)))
    })
    .await
}

async fn ready_pods(client: &Client, count: usize) -> Result<Vec<Pod>> {
    let pods = Api::<Pod>::default_namespaced(client.clone());
    until(&format!("{count} pods are ready"), async || {
        let mut list = pods
            .list(&ListParams::default().labels("app=web"))
            .await?
            .items;
        list.retain(|pod| is_pod_ready(pod) && pod.metadata.deletion_timestamp.is_none());
        Ok((list.len() == count).then_some(list))
    })
    .await
}

fn deployment(replicas: usize, pod_annotations: &Value) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" }, "annotations": pod_annotations },
                "spec": {
                    "containers": [{ "name": "web", "image": "example/web", "volumeMounts": [
                        { "name": "scratch", "mountPath": "/scratch" },
                    ] }],
                    "volumes": [{ "name": "scratch", "emptyDir": {} }],
                },
            },
        },
    }))?)
}

#[tokio::test]
#[ignore = "needs the control-plane binary"]
async fn an_eviction_waits_for_its_budget_and_the_observer_sees_it() -> Result<()> {
    let control_plane = start(Parts::All, &["a", "b"]).await?;
    let client = control_plane.client().await?;
    let kubelets = ["a", "b"].map(|node| LocalKubelet::start(&control_plane, node));
    let [_a, _b] = kubelets.map(Result::unwrap);
    node_is(&client, "a", "True").await?;
    node_is(&client, "b", "True").await?;

    let post = PostParams::default();
    Api::default_namespaced(client.clone())
        .create(&post, &deployment(2, &json!({}))?)
        .await?;
    let ready = ready_pods(&client, 2).await?;
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(client.clone());
    let budget = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } },
    }))?;
    budgets.create(&post, &budget).await?;
    until("the budget is counted", async || {
        let status = budgets.get("web").await?.status.unwrap_or_default();
        Ok((status.current_healthy == Some(2)).then_some(()))
    })
    .await?;

    // The node's own credentials evict its own pod, as the daemon does.
    let victim = ready.first().context("no pod")?;
    let node = victim
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.clone())
        .context("no node")?;
    let own = Api::<Pod>::default_namespaced(control_plane.client_for_node(&node).await?);
    let evict = EvictParams::default();
    let refused = own.evict(&victim.name_any(), &evict).await;
    let Err(kube::Error::Api(refused)) = refused else {
        panic!("evicted against its budget: {refused:?}")
    };
    assert_eq!(refused.code, 429, "{refused:?}");

    let looser = json!({ "spec": { "minAvailable": 1 } });
    budgets
        .patch("web", &PatchParams::default(), &Patch::Merge(looser))
        .await?;
    until("the budget allows one", async || {
        let status = budgets.get("web").await?.status.unwrap_or_default();
        Ok((status.disruptions_allowed == Some(1)).then_some(()))
    })
    .await?;
    own.evict(&victim.name_any(), &evict).await?;
    ready_pods(&client, 2).await?;

    // What is seen already may be written down a little later.
    let events = until("the log to have it", async || {
        let events = audit::load(&control_plane.audit_log())?;
        let counts = pods::ready(&events, "default", ("app", "web"));
        let is_there = counts.last().is_some_and(|(_, count)| *count == 2);
        Ok(is_there.then_some(events))
    })
    .await?;
    let evictions = pods::evictions(&events);
    let codes: Vec<_> = evictions.iter().map(|eviction| eviction.code).collect();
    assert_eq!(codes, [429, 201]);
    assert!(
        evictions[0].message.contains("disruption budget"),
        "{:?}",
        evictions[0]
    );
    assert_eq!(evictions[0].user, format!("system:node:{node}"));
    let counts: Vec<_> = pods::ready(&events, "default", ("app", "web"))
        .into_iter()
        .map(|(_, count)| count)
        .collect();
    assert_eq!(counts.first(), Some(&1));
    assert_eq!(counts.last(), Some(&2));
    assert_eq!(
        counts.get(1..).unwrap().iter().min(),
        Some(&1),
        "{counts:?}"
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control-plane binary"]
async fn a_node_can_touch_itself_and_no_other() -> Result<()> {
    let control_plane = start(Parts::Api, &["a", "b"]).await?;
    let admin = Api::<Node>::all(control_plane.client().await?);
    for name in ["a", "b"] {
        let node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        admin.create(&PostParams::default(), &node).await?;
    }
    let own = Api::<Node>::all(control_plane.client_for_node("a").await?);
    let merge = PatchParams::default();
    for unschedulable in [true, false, true] {
        let spec = json!({ "spec": { "unschedulable": unschedulable } });
        own.patch("a", &merge, &Patch::Merge(spec)).await?;
    }
    for state in ["Working", "Working", "Done"] {
        let mark = json!({ "metadata": { "annotations": { "example.com/state": state } } });
        own.patch("a", &merge, &Patch::Merge(mark)).await?;
    }
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    let Err(kube::Error::Api(other)) = own.patch("b", &merge, &cordon).await else {
        panic!("patched another node")
    };
    assert_eq!(other.code, 403, "{other:?}");

    let events = audit::load(&control_plane.audit_log())?;
    let histories = nodes::histories(&events);
    let cordons = nodes::intervals(&histories["a"], |node| node.is_unschedulable);
    let ended: Vec<_> = cordons
        .iter()
        .map(|cordon| cordon.until.is_some())
        .collect();
    assert_eq!(ended, [true, false]);
    assert!(nodes::intervals(&histories["b"], |node| node.is_unschedulable).is_empty());
    let values = nodes::annotation_values(&histories["a"], "example.com/state");
    let values: Vec<_> = values.into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, [None, Some("Working"), Some("Done")]);

    let asked: usize = requests::totals(&events)
        .into_iter()
        .filter(|(asker, _)| asker.user == "system:node:a")
        .flat_map(|(_, requests)| requests.into_values())
        .map(|total| total.count)
        .sum();
    assert_eq!(asked, 7);
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control-plane binary"]
async fn a_host_that_goes_down_takes_its_pods_and_brings_them_back() -> Result<()> {
    let control_plane = start(Parts::All, &["a"]).await?;
    let client = control_plane.client().await?;
    let kubelet = LocalKubelet::start(&control_plane, "a")?;
    let mirror = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "static", "namespace": "default", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "static", "image": "example/static" }] } });
    fs::File::create(kubelet.static_pods().join("static.yaml"))
        .and_then(|file| Ok(serde_json::to_writer(file, &mirror)?))?;
    let set: DaemonSet = serde_json::from_value(json!({ "metadata": { "name": "set" }, "spec": {
        "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "set", "image": "example/set" }] } },
    } }))?;
    Api::default_namespaced(client.clone())
        .create(&PostParams::default(), &set)
        .await?;
    let before = ready_pods(&client, 2).await?;
    let is_mirror = |pod: &&Pod| {
        pod.annotations()
            .contains_key("kubernetes.io/config.mirror")
    };
    assert_eq!(before.iter().filter(is_mirror).count(), 1);

    drop(kubelet);
    control_plane.host_is_down("a").await?;
    node_is(&client, "a", "Unknown").await?;
    ready_pods(&client, 0).await?;

    let begun = Instant::now();
    let _kubelet = LocalKubelet::start(&control_plane, "a")?;
    node_is(&client, "a", "True").await?;
    // Its static pod was in a file that is gone with it; the DaemonSet's is the same pod.
    let after = ready_pods(&client, 1).await?;
    println!(
        "node and pod ready {:.1} s after the kubelet",
        begun.elapsed().as_secs_f64()
    );
    let uid = after.first().and_then(ResourceExt::uid);
    assert!(before.iter().any(|pod| pod.uid() == uid));
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control-plane binary"]
async fn a_pod_takes_as_long_to_stop_as_it_says_within_its_grace() -> Result<()> {
    let control_plane = start(Parts::All, &["a"]).await?;
    let client = control_plane.client().await?;
    let kubelet = LocalKubelet::start(&control_plane, "a")?;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let mut took = Vec::new();
    for (annotations, grace_secs) in [
        (json!({}), 30),
        (json!({ "lab.slipway/stops-after": "3s" }), 30),
        (json!({ "lab.slipway/stops-after": "never" }), 4),
    ] {
        let pod = serde_json::from_value(json!({
            "metadata": { "name": "web", "labels": { "app": "web" }, "annotations": annotations },
            "spec": {
                "terminationGracePeriodSeconds": grace_secs,
                "containers": [{ "name": "web", "image": "example/web", "volumeMounts": [
                    { "name": "scratch", "mountPath": "/scratch" },
                ] }],
                "volumes": [{ "name": "scratch", "emptyDir": {} }],
            },
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
        let ready = ready_pods(&client, 1).await?;
        let uid = ready.first().and_then(ResourceExt::uid).context("no uid")?;
        let volume = kubelet
            .pods()
            .join(uid)
            .join("volumes/kubernetes.io~empty-dir/scratch");
        assert!(volume.is_dir(), "no {}", volume.display());

        let begun = Instant::now();
        pods.delete("web", &DeleteParams::default()).await?;
        until("the pod is gone", async || {
            Ok(pods.get_opt("web").await?.is_none().then_some(()))
        })
        .await?;
        took.push(begun.elapsed());
        assert!(!volume.exists(), "{} outlived its pod", volume.display());
    }
    println!("gone after {took:.1?}");
    let [at_once, late, killed] = took[..] else {
        unreachable!()
    };
    // A pod that stops by itself differs from one that is killed by the end of its grace: 30 s.
    let grace = Duration::from_secs(30);
    assert!(at_once < grace);
    assert!(late >= Duration::from_secs(3) && late < grace);
    assert!(killed >= Duration::from_secs(4));
    // A kubelet removes a container's logs by the beginning of their path. With none, it removed
    // all files where it ran.
    assert!(kubelet.dir().join("kubeconfig").exists());
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control-plane binary"]
async fn the_definitions_are_served() -> Result<()> {
    let control_plane = start(Parts::Api, &[]).await?;
    let begun = Instant::now();
    manifest::define(&control_plane.client().await?, &definitions()?).await?;
    println!(
        "definitions served after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let names = control_plane.kubectl(&["get", "crd", "--output=name"])?;
    assert!(
        names.contains("machineconfigpools.machineconfiguration.openshift.io"),
        "{names}"
    );
    assert_eq!(
        control_plane.kubectl(&["get", "machineconfigpools", "--output=name"])?,
        ""
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs the control-plane binary"]
async fn an_apply_tells_what_changed_and_who_owns_what() -> Result<()> {
    let control_plane = start(Parts::Api, &[]).await?;
    let access = Arc::new(Access::of_client(control_plane.client().await?));
    let one = Applier::new(Arc::clone(&access), "one").namespace("default");
    let other = Applier::new(access, "other").namespace("default");
    let map = |value: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "k": value } });
    let change = async |applier: &Applier, value: &str, ownership| {
        let applied = applier.apply(&map(value), ownership).await?;
        anyhow::Ok(applied.change)
    };
    let owner = async |applier: &Applier, value: &str| match applier
        .apply(&map(value), Ownership::Respect)
        .await
    {
        Err(apply::Error::Conflicts { conflicts, .. }) => conflicts,
        result => panic!("{result:?}"),
    };
    let of = |owner: &str| {
        let owner = owner.to_owned();
        vec![FieldConflict {
            field: ".data.k".to_owned(),
            owner,
        }]
    };
    assert_eq!(
        change(&one, "x", Ownership::Respect).await?,
        ApplyOutcome::Created
    );
    assert_eq!(
        change(&one, "x", Ownership::Respect).await?,
        ApplyOutcome::Unchanged
    );
    assert_eq!(
        change(&one, "y", Ownership::Respect).await?,
        ApplyOutcome::Changed
    );
    assert_eq!(owner(&other, "z").await, of("one"));
    assert_eq!(
        change(&other, "z", Ownership::Take).await?,
        ApplyOutcome::Changed
    );
    assert_eq!(owner(&one, "y").await, of("other"));
    Ok(())
}
