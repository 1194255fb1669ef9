//! What the accounts of the components may do, and where a pod with a strong one may run.
//!
//! The objects are those of `deploy/`, on a real API server and scheduler. A stolen token is one
//! that the API server made for the account, used by another program.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use lab::control_plane::{ControlPlane, Options, definitions};
use lab::manifest;
use serde_json::{Value, json};
use testbed::{SOON, logs, until};

/// Folders of `deploy/` with a component each.
const COMPONENTS: [&str; 3] = ["daemon", "controller", "config-server"];

/// Those whose objects lie in namespaces that a cluster has besides.
const BESIDE: [(&str, &[&str]); 1] = [(
    "managed-upgrade",
    &["openshift-machine-api", "openshift-monitoring"],
)];

const NAMESPACE: &str = "openshift-machine-config-operator";
const CONTROLLER: &str = "machine-config-controller";
const DAEMON: &str = "machine-config-daemon";
const CONFIG_SERVER: &str = "machine-config-server";

/// A cluster that has the components' objects and the definitions.
async fn cluster(test: &str) -> Result<ControlPlane> {
    let dir = logs::folder("accounts", test);
    logs::empty(&dir)?;
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let control_plane =
        tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await??;
    let client = control_plane.client().await?;
    manifest::define(&client, &definitions()?).await?;
    for component in COMPONENTS {
        manifest::apply(&client, &objects(component)?).await?;
    }
    Ok(control_plane)
}

fn objects(component: &str) -> Result<Vec<DynamicObject>> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    manifest::component(&deploy.join(component))
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
        for asked in [namespace.as_str(), "default"] {
            let asked = format!("--namespace={asked}");
            let rights = cluster.kubectl(&["auth", "can-i", "--list", &user, &asked])?;
            lists.push(format!("{asked}\n{}", table(&rights)));
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

/// What a thief of any of the tokens would try first.
const REFUSED_TO_ALL: [Attempt; 10] = [
    Attempt::new("list", "", "secrets", ""),
    Attempt::new("get", "", "configmaps", "kube-root-ca.crt"),
    Attempt::new("create", "", "pods", ""),
    Attempt::new("delete", "", "pods", "some"),
    Attempt::new("delete", "", "nodes", "some"),
    Attempt::new("update", "", "nodes", "some"),
    Attempt::new("create", "", "serviceaccounts/token", CONTROLLER),
    Attempt::new("impersonate", "", "users", "admin"),
    Attempt::new(
        "create",
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        "",
    ),
    Attempt::new(
        "delete",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "some",
    ),
];

/// What a thief of the daemon's token would try besides.
const REFUSED_TO_THE_DAEMON: [Attempt; 7] = [
    Attempt::new("patch", "", "nodes", "some"),
    Attempt::new("list", "", "nodes", ""),
    Attempt::new("create", "", "pods/eviction", "some"),
    Attempt::new(
        "list",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "",
    ),
    Attempt::new(
        "create",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "",
    ),
    Attempt::new(
        "patch",
        "machineconfiguration.openshift.io",
        "machineconfigpools",
        "worker",
    ),
    Attempt::new("get", "coordination.k8s.io", "leases", CONTROLLER),
];

/// What a thief of the controller's token would try besides.
const REFUSED_TO_THE_CONTROLLER: [Attempt; 5] = [
    Attempt::new("create", "", "pods/eviction", "some"),
    Attempt::new("patch", "apps", "deployments", CONTROLLER),
    Attempt::new(
        "patch",
        "machineconfiguration.openshift.io",
        "controllerconfigs",
        "some",
    ),
    Attempt::new(
        "patch",
        "operator.openshift.io",
        "machineconfigurations",
        "cluster",
    ),
    Attempt::new("list", "operator.openshift.io", "machineconfigurations", ""),
];

/// What a thief of the config server's token would try besides.
const REFUSED_TO_THE_CONFIG_SERVER: [Attempt; 5] = [
    Attempt::new("create", "", "serviceaccounts/token", DAEMON),
    Attempt::new("patch", "", "nodes", "some"),
    Attempt::new(
        "list",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "",
    ),
    Attempt::new(
        "patch",
        "machineconfiguration.openshift.io",
        "machineconfigpools",
        "worker",
    ),
    Attempt::new(
        "get",
        "machineconfiguration.openshift.io",
        "machineconfigpools/ignition",
        "worker",
    ),
];

/// A request that must be refused.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    name: &'static str,
}

impl Attempt {
    const fn new(
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
        name: &'static str,
    ) -> Self {
        Self {
            verb,
            group,
            resource,
            name,
        }
    }

    /// Whether the API server's authorizers would let the client do it.
    async fn is_allowed(self, client: &Client) -> Result<bool> {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        let review: SelfSubjectAccessReview = serde_json::from_value(json!({
            "spec": { "resourceAttributes": {
                "namespace": NAMESPACE, "verb": self.verb, "group": self.group,
                "resource": resource, "subresource": subresource, "name": self.name,
            }},
        }))?;
        let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let status = answer.status.context("a review without an answer")?;
        Ok(status.allowed)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_stolen_token_is_good_for_little() -> Result<()> {
    let cluster = cluster("stolen").await?;
    manifest::apply(&cluster.client().await?, &manifest::parse(SOME)?).await?;
    let of_each: [(&str, &[Attempt]); 4] = [
        (DAEMON, &REFUSED_TO_THE_DAEMON),
        (CONTROLLER, &REFUSED_TO_THE_CONTROLLER),
        (CONFIG_SERVER, &REFUSED_TO_THE_CONFIG_SERVER),
        ("node-bootstrapper", &REFUSED_TO_THE_CONFIG_SERVER),
    ];
    for (account, refused) in of_each {
        let client = cluster.client_of_account(NAMESPACE, account).await?;
        for attempt in REFUSED_TO_ALL.iter().chain(refused) {
            ensure!(
                !attempt.is_allowed(&client).await?,
                "{account} is allowed {attempt:?}"
            );
        }
    }
    // Requests themselves, not only the authorizers' word for them.
    let daemon = cluster.client_of_account(NAMESPACE, DAEMON).await?;
    let nodes = Api::<Node>::all(daemon.clone());
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    forbidden(nodes.patch("some", &PatchParams::default(), &patch).await)?;
    let configs = Api::<api::machineconfiguration::MachineConfig>::all(daemon);
    forbidden(configs.list(&ListParams::default()).await)?;
    let controller = cluster.client_of_account(NAMESPACE, CONTROLLER).await?;
    let accounts = Api::<ServiceAccount>::namespaced(controller.clone(), NAMESPACE);
    forbidden(accounts.get(DAEMON).await)?;
    forbidden(
        Api::<Node>::all(controller)
            .delete("some", &kube::api::DeleteParams::default())
            .await
            .map(drop),
    )
}

fn forbidden<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error).context("another error than Forbidden"),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

/// What the attempts name.
const SOME: &str = "
apiVersion: v1
kind: Node
metadata: { name: some }
";

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
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
    }))?;
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await?;
    let room = json!({ "cpu": "2", "memory": "4Gi", "pods": "20" });
    let status = json!({ "status": {
        "capacity": room, "allocatable": room,
        "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "" }],
    }});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}
