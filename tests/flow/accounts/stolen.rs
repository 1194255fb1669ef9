//! A token that was stolen from a component, used by another program.

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::MachineConfig;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use lab::manifest;
use serde_json::json;
use testbed::{SOON, objects, until};

use crate::{CONFIG_SERVER, CONTROLLER, DAEMON, NAMESPACE, OPERATOR, cluster, deploy, forbidden};

/// What a thief of any of the tokens would try first.
const REFUSED_TO_ALL: [&str; 8] = [
    "list secrets",
    "create pods",
    "delete pods some",
    "delete nodes some",
    "update nodes some",
    "create serviceaccounts/token machine-config-controller",
    "impersonate users admin",
    "create clusterrolebindings.rbac.authorization.k8s.io",
];

/// What a thief of the daemon's token would try besides.
const REFUSED_TO_THE_DAEMON: [&str; 10] = [
    "get configmaps kube-root-ca.crt",
    "get secrets some",
    "delete machineconfigs.machineconfiguration.openshift.io some",
    "patch nodes some",
    "list nodes",
    "create pods/eviction some",
    "list machineconfigs.machineconfiguration.openshift.io",
    "create machineconfigs.machineconfiguration.openshift.io",
    "patch machineconfigpools.machineconfiguration.openshift.io worker",
    "get leases.coordination.k8s.io machine-config-controller",
];

/// What a thief of the controller's token would try besides. It reads Secrets and maps of settings
/// by name, because builds of OS images use those that people name.
const REFUSED_TO_THE_CONTROLLER: [&str; 9] = [
    "list configmaps",
    "patch secrets some",
    "create pods/eviction some",
    "patch deployments.apps machine-config-controller",
    "patch controllerconfigs.machineconfiguration.openshift.io some",
    "patch machineconfigurations.operator.openshift.io cluster",
    "list machineconfigurations.operator.openshift.io",
    // The operator's.
    "patch controllerconfigs.machineconfiguration.openshift.io machine-config-controller",
    "patch clusteroperators.config.openshift.io/status machine-config",
];

/// What a thief of the operator's token would try besides.
const REFUSED_TO_THE_OPERATOR: [&str; 8] = [
    "get configmaps kube-root-ca.crt",
    "get secrets some",
    "create pods/eviction some",
    "patch nodes some",
    "list nodes",
    "patch machineconfigs.machineconfiguration.openshift.io some",
    "patch machineconfigpools.machineconfiguration.openshift.io worker",
    "patch machineconfigurations.operator.openshift.io cluster",
];

/// What a thief of the config server's token would try besides.
const REFUSED_TO_THE_CONFIG_SERVER: [&str; 7] = [
    "get configmaps kube-root-ca.crt",
    "delete machineconfigs.machineconfiguration.openshift.io some",
    "create serviceaccounts/token machine-config-daemon",
    "patch nodes some",
    "list machineconfigs.machineconfiguration.openshift.io",
    "patch machineconfigpools.machineconfiguration.openshift.io worker",
    "get machineconfigpools.machineconfiguration.openshift.io/ignition worker",
];

/// Whether the API server's authorizers would let the client make a request: `<verb>
/// <resource>[.<group>][/<subresource>] [<name>]`.
async fn is_allowed(client: &Client, attempt: &str) -> Result<bool> {
    let mut words = attempt.split(' ');
    let (verb, what) = (words.next(), words.next().context("no resource")?);
    let (what, subresource) = what.split_once('/').unwrap_or((what, ""));
    let (resource, group) = what.split_once('.').unwrap_or((what, ""));
    let review = json!({ "spec": { "resourceAttributes": {
        "namespace": NAMESPACE, "verb": verb, "group": group, "resource": resource,
        "subresource": subresource, "name": words.next().unwrap_or_default(),
    } } });
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let review = objects::create(&reviews, review).await?;
    let status = review.status.context("a review without a status")?;
    Ok(status.allowed)
}

/// What the attempts name.
const SOME: &str = "
apiVersion: v1
kind: Node
metadata: { name: some }
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_stolen_token_is_good_for_little() -> Result<()> {
    let cluster = cluster("stolen").await?;
    manifest::apply(&cluster.client().await?, &manifest::parse(SOME)?).await?;
    let of_each: [(&str, &[&str]); 5] = [
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
                !is_allowed(&client, attempt).await?,
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
    let read = "get machineconfigs.machineconfiguration.openshift.io some";
    ensure!(
        is_allowed(&daemon, read).await?,
        "the daemon alone reads them"
    );
    let whole = cluster.kubectl(&["kustomize", &deploy().to_string_lossy()])?;
    let whole = manifest::parse(&whole)?;
    manifest::apply(&cluster.client().await?, &whole).await?;
    until("the daemon to lose the right", SOON, async || {
        let is_lost = !is_allowed(&daemon, read).await?;
        Ok(if is_lost {
            Ok(())
        } else {
            Err("it may read".to_owned())
        })
    })
    .await?;
    // The rest of its rights stay.
    let certificates =
        "get controllerconfigs.machineconfiguration.openshift.io machine-config-controller";
    ensure!(is_allowed(&daemon, certificates).await?);
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
