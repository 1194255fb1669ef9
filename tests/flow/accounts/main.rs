//! What the accounts of the components may do, and where a pod with a strong one may run.
//!
//! The objects are those of `deploy/`, on a real API server and scheduler. A stolen token is one
//! that the API server made for the account, used by another program.

mod offered;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use lab::control_plane::{ControlPlane, Options, definitions};
use lab::manifest;
use serde_json::{Value, json};
use testbed::{SOON, logs, until};

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
const REFUSED_TO_ALL: [Attempt; 9] = [
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
];

/// What a thief of the daemon's token would try besides.
const REFUSED_TO_THE_DAEMON: [Attempt; 8] = [
    Attempt::new(
        "delete",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "some",
    ),
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
const REFUSED_TO_THE_CONTROLLER: [Attempt; 7] = [
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
    // The operator's.
    Attempt::new(
        "patch",
        "machineconfiguration.openshift.io",
        "controllerconfigs",
        "machine-config-controller",
    ),
    Attempt::new(
        "patch",
        "config.openshift.io",
        "clusteroperators/status",
        "machine-config",
    ),
];

/// What a thief of the operator's token would try besides.
const REFUSED_TO_THE_OPERATOR: [Attempt; 6] = [
    Attempt::new("create", "", "pods/eviction", "some"),
    Attempt::new("patch", "", "nodes", "some"),
    Attempt::new("list", "", "nodes", ""),
    Attempt::new(
        "patch",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "some",
    ),
    Attempt::new(
        "patch",
        "machineconfiguration.openshift.io",
        "machineconfigpools",
        "worker",
    ),
    Attempt::new(
        "patch",
        "operator.openshift.io",
        "machineconfigurations",
        "cluster",
    ),
];

/// What a thief of the config server's token would try besides.
const REFUSED_TO_THE_CONFIG_SERVER: [Attempt; 6] = [
    Attempt::new(
        "delete",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "some",
    ),
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
    let of_each: [(&str, &[Attempt]); 5] = [
        (DAEMON, &REFUSED_TO_THE_DAEMON),
        (OPERATOR, &REFUSED_TO_THE_OPERATOR),
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
    let configs = Api::<MachineConfig>::all(daemon);
    forbidden(configs.list(&ListParams::default()).await)?;
    let controller = cluster.client_of_account(NAMESPACE, CONTROLLER).await?;
    let accounts = Api::<ServiceAccount>::namespaced(controller.clone(), NAMESPACE);
    forbidden(accounts.get(DAEMON).await)?;
    forbidden(
        Api::<Node>::all(controller)
            .delete("some", &DeleteParams::default())
            .await
            .map(drop),
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn the_whole_of_deploy_lets_no_daemon_read_machine_configs() -> Result<()> {
    let cluster = cluster("whole").await?;
    let daemon = cluster.client_of_account(NAMESPACE, DAEMON).await?;
    let read = Attempt::new(
        "get",
        "machineconfiguration.openshift.io",
        "machineconfigs",
        "some",
    );
    ensure!(
        read.is_allowed(&daemon).await?,
        "the daemon alone reads them"
    );
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let whole = cluster.kubectl(&["kustomize", &deploy.to_string_lossy()])?;
    let whole = manifest::parse(&whole)?;
    manifest::apply(&cluster.client().await?, &whole).await?;
    until("the daemon to lose the right", SOON, async || {
        let is_lost = !read.is_allowed(&daemon).await?;
        Ok(if is_lost {
            Ok(())
        } else {
            Err("it may read".to_owned())
        })
    })
    .await?;
    // The rest of its rights stay.
    let certificates = Attempt::new(
        "get",
        "machineconfiguration.openshift.io",
        "controllerconfigs",
        "machine-config-controller",
    );
    ensure!(certificates.is_allowed(&daemon).await?);
    let sets = Api::<DaemonSet>::namespaced(cluster.client().await?, NAMESPACE);
    let set = sets.get(DAEMON).await?;
    let pod = set.spec.and_then(|spec| spec.template.spec);
    let args = pod.and_then(|pod| pod.containers.into_iter().next()?.args);
    let args = args.unwrap_or_default();
    ensure!(
        args.iter()
            .any(|arg| arg == "--config-server=$(CONFIG_SERVER_URL)"),
        "{args:?}"
    );
    ensure!(sets.get_opt(CONFIG_SERVER).await?.is_some());
    Ok(())
}

fn forbidden<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error).context("another error than Forbidden"),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_node_writes_its_own_machine_config_node_only() -> Result<()> {
    let cluster = cluster("node-objects").await?;
    let admin = cluster.client().await?;
    for name in NODES {
        node(&admin, name, &["worker"]).await?;
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
            "metadata": { "name": name },
            "spec": {
                "node": { "name": name }, "pool": { "name": "worker" },
                "configVersion": { "desired": "not-yet-set" },
            },
        });
        manifest::apply(&admin, &[serde_json::from_value(object)?]).await?;
    }
    let kubelet = Api::<MachineConfigNode>::all(cluster.client_for_node("own").await?);
    // The API server takes a moment to put a policy in force.
    until("the policy to be in force", SOON, async || {
        let refused = guarded(report(&kubelet, "other").await, NOT_ITS_OWN);
        Ok(refused.map_err(|error| format!("{error:#}")))
    })
    .await?;
    report(&kubelet, "own").await?;

    // All else that a kubelet's credentials could be used for.
    let own = kubelet.get("own").await?;
    let mut as_other = own.clone();
    as_other.metadata.name = Some("other".to_owned());
    as_other.metadata.resource_version = None;
    let patch = PatchParams::default();
    let spec = Patch::Merge(json!({ "spec": { "pool": { "name": "master" } } }));
    forbidden(kubelet.patch("own", &patch, &spec).await)?;
    forbidden(kubelet.patch("other", &patch, &spec).await)?;
    forbidden(kubelet.create(&PostParams::default(), &as_other).await)?;
    forbidden(
        kubelet
            .delete("own", &DeleteParams::default())
            .await
            .map(drop),
    )?;
    forbidden(
        kubelet
            .replace_status("other", &PostParams::default(), &as_other)
            .await,
    )?;

    // The daemon's account has no rights to it here. With those that OpenShift's MCO gives it, a
    // token is good for the node of its pod, and one that is bound to no pod for none.
    let account =
        Api::<MachineConfigNode>::all(cluster.client_of_account(NAMESPACE, DAEMON).await?);
    forbidden(report(&account, "own").await)?;
    manifest::apply(&admin, &manifest::parse(UPSTREAMS_RIGHTS)?).await?;
    let pods = Api::<Pod>::namespaced(admin.clone(), NAMESPACE);
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "daemon", "namespace": NAMESPACE },
        "spec": {
            "serviceAccountName": DAEMON, "nodeName": "own",
            "containers": [{ "name": "daemon", "image": "daemon" }],
        },
    }))?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let stolen = Api::<MachineConfigNode>::all(cluster.client_of_pod(&pod).await?);
    until("the rights to be in force", SOON, async || {
        let written = report(&stolen, "own").await;
        Ok(written.map(drop).map_err(|error| format!("{error:#}")))
    })
    .await?;
    guarded(report(&stolen, "other").await, NOT_ITS_OWN)?;
    guarded(report(&account, "own").await, NO_CLAIM)?;
    let deleted = account.delete("other", &DeleteParams::default()).await;
    guarded(deleted.map(drop), NO_CLAIM)?;
    report(&Api::all(admin), "other").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn policies_of_the_network_are_changed_by_the_version_operator_alone() -> Result<()> {
    let cluster = cluster("network").await?;
    let policies = Api::<NetworkPolicy>::namespaced(cluster.client().await?, NAMESPACE);
    let dry = DeleteParams::default().dry_run();
    let deleted = "Deletion of MCO-managed NetworkPolicy resources";
    let changed = "Modification of MCO-managed NetworkPolicy resources";
    for name in [
        "default-deny",
        "allow-all-egress",
        "allow-machine-config-controller",
        "allow-machine-os-builder",
    ] {
        // A dry run: until a policy is in force, nothing is lost.
        until(&format!("{name} to be guarded"), SOON, async || {
            let refused = guarded(policies.delete(name, &dry).await.map(drop), deleted);
            Ok(refused.map_err(|error| format!("{error:#}")))
        })
        .await?;
        let opened =
            Patch::Merge(json!({ "spec": { "policyTypes": ["Egress"], "ingress": [{}] } }));
        let params = PatchParams::default();
        guarded(policies.patch(name, &params, &opened).await, changed)?;
        let labelled = Patch::Merge(json!({ "metadata": { "labels": { "mine": "" } } }));
        guarded(policies.patch(name, &params, &labelled).await, changed)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_configuration_in_use_cannot_be_deleted() -> Result<()> {
    let cluster = cluster("in-use").await?;
    let admin = cluster.client().await?;
    let pools = manifest::apply(&admin, &manifest::parse(POOL)?).await?;
    let uid = pools.first().context("no pool")?.uid();
    let pools = Api::<MachineConfigPool>::all(admin.clone());
    let status = Patch::Merge(json!({ "status": { "configuration": { "name": "rendered-b" } } }));
    pools
        .patch_status("worker", &PatchParams::default(), &status)
        .await?;
    node(&admin, "n", &["worker"]).await?;
    let assigned = json!({ "metadata": { "annotations": {
        "machineconfiguration.openshift.io/currentConfig": "rendered-c",
        "machineconfiguration.openshift.io/desiredConfig": "rendered-d",
    }}});
    let nodes = Api::<Node>::all(admin.clone());
    nodes
        .patch("n", &PatchParams::default(), &Patch::Merge(assigned))
        .await?;
    let config = async |name: &str, is_rendered: bool| {
        let owner = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "name": "worker", "uid": uid, "controller": true,
        });
        let owners = if is_rendered { vec![owner] } else { Vec::new() };
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name, "ownerReferences": owners },
        });
        manifest::apply(&admin, &[serde_json::from_value(object)?]).await
    };
    for name in [
        "rendered-a",
        "rendered-b",
        "rendered-c",
        "rendered-d",
        "rendered-e",
    ] {
        config(name, true).await?;
    }
    config("50-person", false).await?;
    config("rendered-person", false).await?;
    let controller =
        Api::<MachineConfig>::all(cluster.client_of_account(NAMESPACE, CONTROLLER).await?);
    let admins = Api::<MachineConfig>::all(admin.clone());
    let table = [
        (
            &controller,
            "50-person",
            "rendered and generated MachineConfigs only",
        ),
        (
            &controller,
            "rendered-person",
            "rendered and generated MachineConfigs only",
        ),
        (
            &admins,
            "rendered-a",
            "spec.configuration of MachineConfigPool worker",
        ),
        (
            &admins,
            "rendered-b",
            "status.configuration of MachineConfigPool worker",
        ),
        (
            &admins,
            "rendered-c",
            "currentConfig or desiredConfig of node n",
        ),
        (
            &controller,
            "rendered-d",
            "currentConfig or desiredConfig of node n",
        ),
    ];
    for (writer, name, why) in table {
        // A dry run: until a policy is in force, nothing is lost.
        let dry = DeleteParams::default().dry_run();
        until(&format!("{name} to be protected"), SOON, async || {
            Ok(match writer.delete(name, &dry).await {
                Err(kube::Error::Api(status)) if status.message.contains(why) => Ok(()),
                Err(error) => Err(format!("{error:#}")),
                Ok(_) => Err("it may be deleted".to_owned()),
            })
        })
        .await?;
        forbidden(
            writer
                .delete(name, &DeleteParams::default())
                .await
                .map(drop),
        )?;
    }
    controller
        .delete("rendered-e", &DeleteParams::default())
        .await?;
    admins.delete("50-person", &DeleteParams::default()).await?;
    Ok(())
}

/// A pool with its configuration.
const POOL: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: { name: worker }
spec: { configuration: { name: rendered-a } }
";

/// Writes a condition as the daemon does, by server-side apply.
async fn report(objects: &Api<MachineConfigNode>, name: &str) -> kube::Result<MachineConfigNode> {
    let params = PatchParams::apply("machine-config-operator").force();
    let status = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
        "metadata": { "name": name },
        "status": { "conditions": [{
            "type": "Updated", "status": "True", "reason": "Updated", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    });
    objects
        .patch_status(name, &params, &Patch::Apply(status))
        .await
}

/// Sentences of OpenShift's policy, which clients look for.
const NOT_ITS_OWN: &str = "updates to MCN other can only be done from the MCN's owner node";
const NO_CLAIM: &str = "this user must have a \"authentication.kubernetes.io/node-name\" claim";

/// Refused by the policy with this sentence, not by an authorizer.
fn guarded<T>(answer: kube::Result<T>, sentence: &str) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.message.contains(sentence) => Ok(()),
        Err(error) => Err(error).context("another error than the policy's"),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

/// What OpenShift's MCO lets its daemon do to any MachineConfigNode.
const UPSTREAMS_RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: upstreams-daemon }
rules:
  - apiGroups: [machineconfiguration.openshift.io]
    resources: [machineconfignodes, machineconfignodes/status]
    verbs: [get, create, update, patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: upstreams-daemon }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: upstreams-daemon }
subjects:
  - kind: ServiceAccount
    name: machine-config-daemon
    namespace: openshift-machine-config-operator
";

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
