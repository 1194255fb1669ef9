//! What users may ask a cluster to update to, where the policy of `deploy/cli` is in force.

use anyhow::Result;
use api::config::ClusterVersion;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lab::manifest;
use serde_json::{Value, json};
use testbed::{SOON, until};

use crate::{NAMESPACE, deploy, guarded, started};

/// An account that has the role for updates.
const UPDATER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: { name: updater, namespace: openshift-machine-config-operator }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: updater }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: slipway-upgrade }
subjects:
  - { kind: ServiceAccount, name: updater, namespace: openshift-machine-config-operator }
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn role_for_updates_asks_for_offered_releases_only() -> Result<()> {
    const FORCE: &str = "spec.desiredUpdate.force needs the verb force";
    const IMAGE: &str = "an image in spec.desiredUpdate that is not offered needs the verb force";
    let cluster = started("offered").await?;
    let admin = cluster.client().await?;
    manifest::define(&admin, &deploy().join("cvo/crds")).await?;
    manifest::namespaces(&admin).await?;
    for file in [
        "daemon/namespace.yaml",
        "cli/rbac.yaml",
        "cli/offered-updates.yaml",
    ] {
        manifest::apply(&admin, &manifest::load(&deploy().join(file))?).await?;
    }
    manifest::apply(&admin, &manifest::parse(UPDATER)?).await?;
    let admins = Api::<ClusterVersion>::all(admin);
    let version = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": { "name": "version" }, "spec": { "clusterID": "" },
    });
    let version: ClusterVersion = serde_json::from_value(version)?;
    admins.create(&PostParams::default(), &version).await?;
    let updater = cluster.client_of_account(NAMESPACE, "updater").await?;
    let updater = Api::<ClusterVersion>::all(updater);
    let ask = async |api: &Api<ClusterVersion>, update: Value, is_dry: bool| {
        let fields = update.as_object().into_iter().flatten();
        // The request before does not count.
        let mut all = json!({ "version": null, "image": null, "force": null });
        for (field, value) in fields {
            all[field] = value.clone();
        }
        let update = if update.is_null() { update } else { all };
        let patch = Patch::Merge(json!({ "spec": { "desiredUpdate": update } }));
        let params = PatchParams {
            dry_run: is_dry,
            ..PatchParams::default()
        };
        api.patch("version", &params, &patch).await
    };
    let forced = json!({ "version": "4.2.0", "force": true });
    until("the policy to be in force", SOON, async || {
        let refused = guarded(ask(&updater, forced.clone(), true).await, FORCE);
        Ok(refused.map_err(|error| format!("{error:#}")))
    })
    .await?;
    // Nothing is offered yet.
    guarded(ask(&updater, json!({ "image": "q/a" }), false).await, IMAGE)?;
    let release = |version: &str, image: &str| json!({ "version": version, "image": image });
    let entry = json!({
        "state": "Completed", "startedTime": "2026-01-01T00:00:00Z", "version": "4.1.0",
        "image": "q/own", "verified": true, "completionTime": "2026-01-01T01:00:00Z",
    });
    let status = json!({ "status": {
        "desired": release("4.1.0", "q/own"), "history": [entry],
        "observedGeneration": 1, "versionHash": "",
        "availableUpdates": [release("4.2.0", "q/a")],
        "conditionalUpdates": [{ "release": release("4.3.0", "q/b"), "risks": [{
            "name": "A", "message": "m", "url": "https://r.example",
            "matchingRules": [{ "type": "Always" }],
        }], "conditions": [] }],
    } });
    let status = Patch::Merge(status);
    admins
        .patch_status("version", &PatchParams::default(), &status)
        .await?;
    for image in ["q/a", "q/b", "q/own"] {
        ask(&updater, json!({ "image": image }), false).await?;
    }
    ask(&updater, json!({ "version": "4.2.0" }), false).await?;
    guarded(ask(&updater, json!({ "image": "q/c" }), false).await, IMAGE)?;
    // An administrator may, and the next request is judged by itself.
    ask(&admins, json!({ "image": "q/c", "force": true }), false).await?;
    let offered = json!({ "image": "q/a", "force": true });
    guarded(ask(&updater, offered, false).await, FORCE)?;
    ask(&updater, Value::Null, false).await?;
    Ok(())
}
