//! What the accounts of the components may do, and where a pod with a strong one may run.
//!
//! The objects are those of `deploy/`, on a real API server and scheduler. A stolen token is one
//! that the API server made for the account, used by another program.
//!
//! - `stolen`: what a token is good for
//! - `guarded`: what policies refuse, beside the rights of accounts
//! - `offered`: what users may ask a cluster to update to
//! - `scheduled`: where the controller may run

mod guarded;
mod offered;
mod scheduled;
mod stolen;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use lab::control_plane::{ControlPlane, Options, definitions};
use lab::manifest;
use serde_json::{Value, json};
use testbed::logs;

/// Folders of `deploy/` with a component each.
const COMPONENTS: [&str; 4] = ["daemon", "operator", "controller", "config-server"];

/// Those whose objects lie in namespaces that a cluster has besides.
const BESIDE: [(&str, &[&str]); 1] = [(
    "managed-upgrade",
    &["openshift-machine-api", "openshift-monitoring"],
)];

/// Nodes whose kubelets have credentials.
const NODES: [&str; 2] = ["own", "other"];

const NAMESPACE: &str = "openshift-machine-config-operator";
const OPERATOR: &str = "machine-config-operator";
const CONTROLLER: &str = "machine-config-controller";
const DAEMON: &str = "machine-config-daemon";
const CONFIG_SERVER: &str = "machine-config-server";

/// A control plane with nothing in it.
async fn started(test: &str) -> Result<ControlPlane> {
    let dir = logs::folder("accounts", test);
    logs::empty(&dir)?;
    let options = Options {
        dir: Some(dir),
        nodes: NODES.map(ToOwned::to_owned).into(),
        ..Options::default()
    };
    tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await?
}

/// A cluster that has the components' objects and the definitions.
async fn cluster(test: &str) -> Result<ControlPlane> {
    let control_plane = started(test).await?;
    let client = control_plane.client().await?;
    manifest::define(&client, &definitions()?).await?;
    manifest::namespaces(&client).await?;
    for component in COMPONENTS {
        manifest::apply(&client, &objects(component)?).await?;
    }
    Ok(control_plane)
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn objects(component: &str) -> Result<Vec<DynamicObject>> {
    manifest::component(&deploy().join(component))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn each_account_may_do_what_its_golden_says() -> Result<()> {
    let cluster = cluster("rights").await?;
    for (component, namespaces) in BESIDE {
        for namespace in namespaces {
            cluster.kubectl(&["create", "namespace", namespace])?;
        }
        manifest::apply(&cluster.client().await?, &objects(component)?).await?;
    }
    let mut accounts = Vec::new();
    let beside = BESIDE.into_iter().map(|(component, _)| component);
    for component in COMPONENTS.into_iter().chain(beside) {
        let objects = objects(component)?;
        accounts.extend(
            objects
                .iter()
                .filter(|object| is(object, "ServiceAccount"))
                .map(|account| (account.name_any(), account.namespace().unwrap_or_default())),
        );
    }
    ensure!(
        accounts.len() >= COMPONENTS.len(),
        "a component without an account"
    );
    for (account, namespace) in accounts {
        let user = format!("--as=system:serviceaccount:{namespace}:{account}");
        let mut lists = Vec::new();
        for namespace in [namespace.as_str(), "default"] {
            let option = format!("--namespace={namespace}");
            let rights = cluster.kubectl(&["auth", "can-i", "--list", &user, &option])?;
            lists.push(format!("{option}\n{}", table(&rights)));
        }
        let golden = format!("flow/accounts/{account}.txt");
        golden::assert(env!("CARGO_MANIFEST_DIR"), &golden, &lists.concat());
    }
    Ok(())
}

/// The lines of `can-i --list` in an order that does not change, without padding.
fn table(printed: &str) -> String {
    let mut lines: Vec<String> = printed
        .lines()
        .map(|line| {
            let columns = line
                .split("  ")
                .map(str::trim)
                .filter(|column| !column.is_empty());
            columns.collect::<Vec<_>>().join("  ")
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines.insert(0, String::new());
    lines.join("\n  ").trim_start_matches('\n').to_owned() + "\n"
}

fn is(object: &DynamicObject, kind: &str) -> bool {
    object
        .types
        .as_ref()
        .is_some_and(|types| types.kind == kind)
}

fn forbidden<T>(result: kube::Result<T>) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error).context("another error than Forbidden"),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

/// Refused by the policy with this sentence, not by an authorizer.
fn guarded<T>(result: kube::Result<T>, sentence: &str) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.message.contains(sentence) => Ok(()),
        Err(error) => Err(error).context("another error than the policy's"),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

/// Makes a Node that is Ready, has room, and keeps control-plane nodes for what tolerates them.
async fn node(client: &Client, name: &str, roles: &[&str]) -> Result<()> {
    let label = |role: &&str| (format!("node-role.kubernetes.io/{role}"), json!(""));
    let mut labels: serde_json::Map<String, Value> = roles.iter().map(label).collect();
    labels.insert("kubernetes.io/hostname".to_owned(), json!(name));
    let taint = |role: &&str| json!({ "key": format!("node-role.kubernetes.io/{role}"), "effect": "NoSchedule" });
    let taints: Vec<Value> = roles
        .iter()
        .filter(|role| **role != "worker")
        .map(taint)
        .collect();
    let node = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
    });
    let nodes = Api::<Node>::all(client.clone());
    testbed::objects::create(&nodes, node).await?;
    let room = json!({ "cpu": "2", "memory": "4Gi", "pods": "20" });
    let status = json!({
        "capacity": room, "allocatable": room,
        "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }],
    });
    testbed::objects::set_status(&nodes, name, &status).await
}
