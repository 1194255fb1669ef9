//! What policies refuse, beside the rights of accounts.

use anyhow::{Context as _, Result};
use api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use lab::manifest;
use serde_json::json;
use testbed::{SOON, objects, until};

use crate::{CONTROLLER, DAEMON, NAMESPACE, NODES, cluster, forbidden, guarded, node};

/// Sentences of OpenShift's policy, which clients look for.
const NOT_ITS_OWN: &str = "updates to MCN other can only be done from the MCN's owner node";

const NO_CLAIM: &str = "this user must have a \"authentication.kubernetes.io/node-name\" claim";

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
    let pod = json!({
        "metadata": { "name": "daemon", "namespace": NAMESPACE },
        "spec": {
            "serviceAccountName": DAEMON, "nodeName": "own",
            "containers": [{ "name": "daemon", "image": "daemon" }],
        },
    });
    let pod = objects::create(&pods, pod).await?;
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

/// A pool with its configuration.
const POOL: &str = "
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: { name: worker }
spec: { configuration: { name: rendered-a } }
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_configuration_in_use_cannot_be_deleted() -> Result<()> {
    let cluster = cluster("in-use").await?;
    let admin = cluster.client().await?;
    let pools = manifest::apply(&admin, &manifest::parse(POOL)?).await?;
    let uid = pools.first().context("no pool")?.uid();
    let pools = Api::<MachineConfigPool>::all(admin.clone());
    let status = json!({ "configuration": { "name": "rendered-b" } });
    objects::set_status(&pools, "worker", &status).await?;
    node(&admin, "n", &["worker"]).await?;
    let assigned = json!({ "metadata": { "annotations": {
        "machineconfiguration.openshift.io/currentConfig": "rendered-c",
        "machineconfiguration.openshift.io/desiredConfig": "rendered-d",
    }}});
    let nodes = Api::<Node>::all(admin.clone());
    objects::merge(&nodes, "n", &assigned).await?;
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
