//! Requests to the cluster.

use anyhow::{Context as _, bail};
use api::config::{ClusterVersion, cluster_version};
use api::upgrade::{NAMESPACE, UpgradeConfig, UpgradePlan, plan, upgrade_config};
use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::kubeconfig::ClusterArgs;
use crate::output::warn;

/// Access to a cluster.
pub(super) struct ManagedHands {
    access: Access,
}

impl ManagedHands {
    pub(super) fn new(arguments: &ClusterArgs) -> anyhow::Result<Self> {
        let access = arguments.access()?;
        Ok(Self { access })
    }

    /// The UpgradeConfig, or none.
    pub(super) async fn upgrade(&self) -> anyhow::Result<Option<UpgradeConfig>> {
        match self.access.get(&upgrade_path()).await {
            Ok(upgrade) => Ok(Some(upgrade)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error).context("cannot read the UpgradeConfig"),
        }
    }

    /// The UpgradeConfig, and the operator's plan.
    pub(super) async fn read(
        &self,
    ) -> anyhow::Result<(Option<UpgradeConfig>, Option<UpgradePlan>)> {
        let path = path::namespaced::<ConfigMap>(NAMESPACE, plan::NAME);
        let (upgrade, map) = tokio::join!(self.upgrade(), self.access.get::<ConfigMap>(&path));
        Ok((upgrade?, read_plan(map)))
    }

    pub(super) async fn version(&self) -> anyhow::Result<ClusterVersion> {
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let version = self.access.get(&path).await;
        version.context("cannot read ClusterVersion version")
    }

    pub(super) async fn create(&self, object: &Value, is_dry: bool) -> anyhow::Result<()> {
        let path = path::namespace::<UpgradeConfig>(NAMESPACE);
        let body = RequestBody::Object(object);
        self.send(Method::POST, &path, body, is_dry).await
    }

    pub(super) async fn change(&self, patch: &Value, is_dry: bool) -> anyhow::Result<()> {
        let body = RequestBody::MergePatch(patch);
        self.send(Method::PATCH, &upgrade_path(), body, is_dry)
            .await
    }

    /// Deletes the UpgradeConfig if it is as it was read: it may have started since.
    pub(super) async fn delete(&self, upgrade: &UpgradeConfig, is_dry: bool) -> anyhow::Result<()> {
        let metadata = &upgrade.metadata;
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {
                "uid": metadata.uid, "resourceVersion": metadata.resource_version
            },
            "dryRun": if is_dry { json!(["All"]) } else { Value::Null },
        });
        let body = RequestBody::Object(&options);
        self.send(Method::DELETE, &upgrade_path(), body, is_dry)
            .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: RequestBody<'_>,
        is_dry: bool,
    ) -> anyhow::Result<()> {
        let dry = if is_dry { "&dryRun=All" } else { "" };
        let path = if method == Method::DELETE {
            path.to_owned()
        } else {
            format!("{path}?fieldManager=slipway{dry}")
        };
        match self.access.send::<IgnoredAny>(method, &path, body).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(409) => {
                bail!("the UpgradeConfig was changed meanwhile: try again")
            }
            Err(error) => Err(error).context("cannot change the UpgradeConfig"),
        }
    }
}

fn upgrade_path() -> String {
    path::namespaced::<UpgradeConfig>(NAMESPACE, upgrade_config::NAME)
}

/// The operator's plan. OpenShift's own keeps none, and without it less is known.
fn read_plan(map: Result<ConfigMap, wire::Error>) -> Option<UpgradePlan> {
    let name = format!("ConfigMap {NAMESPACE}/{}", plan::NAME);
    let map = match map {
        Ok(map) => map,
        Err(error) if error.code() == Some(404) => return None,
        Err(error) => {
            let error = anyhow::Error::from(error);
            warn(&format!("cannot read {name}: {error:#}"));
            return None;
        }
    };
    let text = map
        .data
        .unwrap_or_default()
        .remove(plan::KEY)
        .unwrap_or_default();
    let parsed = UpgradePlan::parse(&text);
    parsed
        .inspect_err(|error| warn(&format!("{name}: data.{}: {error}", plan::KEY)))
        .ok()
}

#[cfg(test)]
mod tests {
    use apimock::{Call, Reply, Script};

    use super::*;

    #[tokio::test]
    async fn changes_are_guarded_and_a_dry_run_changes_nothing() {
        let object_path = upgrade_path();
        let object = json!({ "metadata": { "name": upgrade_config::NAME }, "spec": {} });
        let made = path::namespace::<UpgradeConfig>(NAMESPACE);
        let patch = json!({ "metadata": { "resourceVersion": "7" }, "spec": {} });
        let calls = vec![
            Call::post(
                &format!("{made}?fieldManager=slipway&dryRun=All"),
                object.clone(),
                Reply::ok(json!({})),
            ),
            Call::patch(
                &format!("{object_path}?fieldManager=slipway"),
                patch.clone(),
                Reply::Object(
                    409,
                    json!({ "kind": "Status", "code": 409, "reason": "Conflict", "message": "m" }),
                ),
            ),
        ];
        let (script, client) = Script::start(calls);
        let hands = ManagedHands {
            access: Access::of_client(client),
        };
        let sent = async {
            hands.create(&object, true).await.unwrap();
            hands.change(&patch, false).await
        };
        let why = script.drive(sent).await.unwrap_err().to_string();
        assert_eq!(why, "the UpgradeConfig was changed meanwhile: try again");
    }
}
