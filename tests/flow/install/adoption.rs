//! A cluster laid out as OpenShift's operators leave it is taken over, and restored.
//!
//! Upstream's programs do not run here: their objects are upstream's manifests, and an object of
//! the same shape where its operator makes it; their pods sleep. Nodes and hosts have the records
//! and annotations that its daemon writes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::hosts::Env;

/// Workers of the cluster.
const WORKERS: usize = 2;

const NAMESPACE: &str = "openshift-machine-config-operator";

/// What tells whether an object was made again.
const UIDS: &str = "--output=jsonpath={.items[*].metadata.uid}";

/// Lines after which an adoption is killed.
const KILLED_AFTER: [usize; 3] = [1, 3, 20];

/// Workloads of upstream's operators: kind, namespace and name.
const WORKLOADS: [(&str, &str, &str); 4] = [
    ("deployment", NAMESPACE, "machine-config-operator"),
    ("deployment", NAMESPACE, "machine-config-controller"),
    ("daemonset", NAMESPACE, "machine-config-daemon"),
    (
        "deployment",
        "openshift-cluster-version",
        "cluster-version-operator",
    ),
];

/// Other objects that both have.
const SHARED: [(&str, &str, &str); 4] = [
    ("service", NAMESPACE, "machine-config-daemon"),
    ("serviceaccount", NAMESPACE, "machine-config-operator"),
    ("clusterrole", "", "machine-config-daemon"),
    ("clusterrolebinding", "", "machine-config-daemon"),
];

/// A workload that sleeps under a name of upstream's.
fn workload(kind: &str, (namespace, name): (&str, &str), image: &str, sidecar: bool) -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": image, "args": ["start"],
            "command": ["/usr/bin/sh", "-c", "exec /bin/busybox sleep 1000000"],
        })
    };
    let mut containers = vec![container(name)];
    if sidecar {
        containers.push(container("kube-rbac-proxy"));
    }
    let labels = json!({ "k8s-app": name });
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": name, "namespace": namespace, "labels": { "theirs": "yes" } },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "containers": containers, "terminationGracePeriodSeconds": 1,
                    "tolerations": [{ "operator": "Exists" }],
                },
            },
        },
    })
}

/// Upstream's own manifests of a file, as far as they are in its namespace or in none.
fn upstream(data: &Path, file: &str) -> Result<Vec<Value>> {
    let path = data.join("machine-config-operator").join(file);
    let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let manifests = release::Manifest::parse(file, &text)?.into_iter();
    let is_here = |namespace: &str| namespace.is_empty() || namespace == NAMESPACE;
    Ok(manifests
        .filter(|it| is_here(&it.id.namespace))
        .map(|it| it.object)
        .collect())
}

/// Makes the objects of upstream's operators; the programs of ours are off the cluster.
async fn lay_out(env: &Env, data: &Path, image: &str) -> Result<()> {
    let mut all = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "openshift-cluster-version" } }),
    ];
    for file in [
        "0000_80_machine-config_00_rbac.yaml",
        "0000_80_machine-config_00_service.yaml",
        "0000_80_machine-config_00_clusterreader_clusterrole.yaml",
    ] {
        all.extend(upstream(data, file)?);
    }
    let mut operator = upstream(data, "0000_80_machine-config_04_deployment.yaml")?.remove(0);
    let ours = workload(
        "Deployment",
        (NAMESPACE, "machine-config-operator"),
        image,
        false,
    );
    operator["spec"]["template"]["spec"] = ours["spec"]["template"]["spec"].clone();
    all.push(operator);
    all.push(workload(
        "Deployment",
        (NAMESPACE, "machine-config-controller"),
        image,
        true,
    ));
    all.push(workload(
        "DaemonSet",
        (NAMESPACE, "machine-config-daemon"),
        image,
        true,
    ));
    let operator = ("openshift-cluster-version", "cluster-version-operator");
    all.push(workload("Deployment", operator, image, false));
    let role =
        json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] });
    all.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "machine-config-daemon" }, "rules": [role],
    }));
    // Ours refers to another role: a binding cannot be changed so.
    all.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "machine-config-daemon" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "machine-config-daemon", "namespace": NAMESPACE }],
    }));
    all.push(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": { "name": "version" },
        "spec": {
            "clusterID": "00000000-0000-4000-8000-000000000000",
            "overrides": [{ "kind": "Deployment", "group": "apps", "namespace": "a", "name": "b", "unmanaged": true }],
        },
    }));
    for object in all {
        env.cluster.apply(&object.to_string()).await?;
    }
    for (kind, namespace, name) in WORKLOADS {
        let what = format!("{kind}/{name}");
        env.kubectl(&[
            "rollout",
            "status",
            &what,
            "--namespace",
            namespace,
            "--timeout=120s",
        ])?;
    }
    Ok(())
}

/// What upstream's operators have on the cluster, without what the API server keeps of writes.
fn theirs(env: &Env) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for (kind, namespace, name) in WORKLOADS.iter().chain(&SHARED) {
        let mut words = vec!["get", kind, name, "--output=json"];
        if !namespace.is_empty() {
            words.extend(["--namespace", namespace]);
        }
        let mut object: Value = serde_json::from_str(&env.kubectl(&words)?)?;
        for field in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
        ] {
            object["metadata"]
                .as_object_mut()
                .context("no metadata")?
                .remove(field);
        }
        // How often its controller has replaced pods.
        let annotations = object["metadata"]["annotations"].as_object_mut();
        if let Some(annotations) = annotations {
            annotations.retain(|key, _| {
                !key.contains("deprecated.daemonset") && !key.contains("deployment.kubernetes.io")
            });
        }
        object
            .as_object_mut()
            .context("no object")?
            .remove("status");
        all.insert(format!("{kind} {name}"), object);
    }
    let version = env.kubectl(&["get", "clusterversion", "version", "--output=json"])?;
    let version: Value = serde_json::from_str(&version)?;
    all.insert("overrides".to_owned(), version["spec"]["overrides"].clone());
    Ok(all)
}

/// What a reboot, another rendered configuration or another record would change.
fn nodes(env: &Env) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    let rendered = env.kubectl(&["get", "machineconfigs", "--output=name"])?;
    all.insert("configs".to_owned(), json!(rendered));
    for host in env.cluster.hosts() {
        let node = env.kubectl(&["get", "node", host.name(), "--output=json"])?;
        let node: Value = serde_json::from_str(&node)?;
        let annotation = |name: &str| {
            node["metadata"]["annotations"][format!("machineconfiguration.openshift.io/{name}")]
                .clone()
        };
        let record = host
            .etc_of_booted()?
            .join("machine-config-daemon/currentconfig");
        let seen = json!({
            "boots": host.boots().len(), "record": std::fs::read_to_string(record)?,
            "current": annotation("currentConfig"), "desired": annotation("desiredConfig"),
            "state": annotation("state"), "unschedulable": node["spec"]["unschedulable"],
        });
        all.insert(host.name().to_owned(), seen);
    }
    Ok(all)
}

fn is_as_before(env: &Env, before: &BTreeMap<String, Value>) -> Result<()> {
    let after = theirs(env)?;
    for (name, object) in before {
        let found = after.get(name);
        ensure!(found == Some(object), "{name}: {object} and {found:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts"]
async fn a_cluster_of_openshifts_operators_is_taken_over_and_restored() -> Result<()> {
    let what = "upstream's manifests, which an adoption takes over";
    let Some(data) = lab::upstream_data("payload-manifests", what)? else {
        return Ok(());
    };
    let mut env = Env::start("adoption", WORKERS).await?;
    // The lab's installer had our programs run; from here on they are not there.
    env.install(&["--force-conflicts"])?
        .expect(0, &["installed and runs"]);
    env.slipway(&["uninstall"])?.expect(0, &["is removed"]);
    let manifests: Value = serde_json::from_str(&std::fs::read_to_string(&env.manifests)?)?;
    let image = manifests["images"]["slipway-mcd"]
        .as_str()
        .context("no image")?;
    lay_out(&env, &data, image).await?;
    let (objects_before, nodes_before) = (theirs(&env)?, nodes(&env)?);

    // Beside them it refuses, and the version operator is not the first.
    env.install(&[])?.expect(
        1,
        &[
            "DaemonSet.apps openshift-machine-config-operator/machine-config-daemon: it runs",
            "--adopt takes it over",
            "nothing was applied",
        ],
    );
    ensure!(theirs(&env)? == objects_before && nodes(&env)? == nodes_before);

    for lines in KILLED_AFTER {
        env.interrupted(&["install", "--adopt"], lines)?;
    }
    env.install(&["--adopt"])?
        .expect(0, &["slipway 0.2.0 is installed and runs"]);
    env.until_updated(WORKERS).await?;
    ensure!(nodes(&env)? == nodes_before, "{:#?}", nodes(&env)?);
    let now = theirs(&env)?;
    let overrides = now["overrides"].as_array().context("no overrides")?;
    let is_daemon = |it: &Value| {
        it["kind"] == "DaemonSet"
            && it["name"] == "machine-config-daemon"
            && it["unmanaged"] == true
    };
    ensure!(overrides.iter().any(is_daemon), "{overrides:?}");
    let daemon = &now["daemonset machine-config-daemon"];
    let containers = daemon["spec"]["template"]["spec"]["containers"].as_array();
    ensure!(containers.is_some_and(|it| it.len() == 1), "{daemon}");
    // Their version operator is as it was.
    let operator = "deployment cluster-version-operator";
    ensure!(now[operator] == objects_before[operator]);

    // A node is away: what was restored meanwhile is left alone once it is back.
    env.stop("w2").await?;
    env.slipway(&["uninstall"])?.expect(
        5,
        &[
            "restored DaemonSet.apps",
            "the host of node w2 is as it was",
        ],
    );
    is_as_before(&env, &objects_before)?;
    env.start_again("w2").await?;
    let before = env.kubectl(&["get", "daemonset,deployment", "--all-namespaces", UIDS])?;
    env.slipway(&["uninstall"])?.expect(
        0,
        &["cleaned the host of node w2", "slipway 0.2.0 is removed"],
    );
    is_as_before(&env, &objects_before)?;
    let after = env.kubectl(&["get", "daemonset,deployment", "--all-namespaces", UIDS])?;
    ensure!(before == after, "{before} and {after}");
    for host in env.cluster.hosts() {
        let left = env.left_on(host.name())?;
        ensure!(left.is_empty(), "{}: {left:?}", host.name());
    }
    Ok(())
}
