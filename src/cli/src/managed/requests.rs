//! Requests to the cluster.

use anyhow::{Context as _, bail};
use api::config::{ClusterVersion, cluster_version};
use api::upgrade::{NAMESPACE, UpgradeConfig, UpgradePlan, plan, upgrade_config};
use cluster::access::Access;
use cluster::objects::{Objects, Precondition};
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::kubeconfig::ClusterArgs;
use crate::output::warn;

/// Access to a cluster.
pub(super) struct ManagedRequests {
    access: Access,
}

impl ManagedRequests {
    pub(super) fn new(arguments: &ClusterArgs) -> anyhow::Result<Self> {
        let access = arguments.access()?;
        Ok(Self { access })
    }

    pub(super) async fn upgrade(&self) -> anyhow::Result<Option<UpgradeConfig>> {
        let upgrade = self.access.find(&upgrade_path()).await;
        upgrade.context("cannot read the UpgradeConfig")
    }

    /// The UpgradeConfig, and the operator's plan.
    pub(super) async fn read(
        &self,
    ) -> anyhow::Result<(Option<UpgradeConfig>, Option<UpgradePlan>)> {
        let path = path::namespaced::<ConfigMap>(NAMESPACE, plan::NAME);
        let (upgrade, map) = tokio::join!(self.upgrade(), self.access.find(&path));
        Ok((upgrade?, read_plan(map)))
    }

    pub(super) async fn version(&self) -> anyhow::Result<ClusterVersion> {
        let path = path::object::<ClusterVersion>(cluster_version::NAME);
        let version = self.access.get(&path).await;
        version.context("cannot read ClusterVersion version")
    }

    pub(super) async fn create(&self, object: &Value, is_dry: bool) -> anyhow::Result<()> {
        changed(self.upgrades(is_dry).create(object).await)
    }

    pub(super) async fn change(&self, patch: &Value, is_dry: bool) -> anyhow::Result<()> {
        let upgrades = self.upgrades(is_dry);
        changed(upgrades.patch(upgrade_config::NAME, patch).await)
    }

    /// Deletes the UpgradeConfig if it is as it was read: it may have started since.
    pub(super) async fn delete(&self, upgrade: &UpgradeConfig, is_dry: bool) -> anyhow::Result<()> {
        let precondition = Precondition {
            uid: upgrade.metadata.uid.as_deref(),
            resource_version: upgrade.metadata.resource_version.as_deref(),
        };
        let mut options = precondition.options();
        if let (true, Some(options)) = (is_dry, options.as_object_mut()) {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
        let body = RequestBody::Object(&options);
        // Unlike elsewhere, one that is gone is an error: the administrator named it.
        changed(
            self.access
                .send(Method::DELETE, &upgrade_path(), body)
                .await,
        )
    }

    fn upgrades(&self, is_dry: bool) -> Objects<'_, IgnoredAny> {
        let upgrades = Objects::<UpgradeConfig>::in_namespace(&self.access, NAMESPACE);
        upgrades.manager("slipway").dry_run(is_dry).read_as()
    }
}

/// What came of a change, for the administrator.
fn changed(result: Result<IgnoredAny, wire::Error>) -> anyhow::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => {
            bail!("the UpgradeConfig was changed meanwhile: try again")
        }
        Err(error) => Err(error).context("cannot change the UpgradeConfig"),
    }
}

fn upgrade_path() -> String {
    path::namespaced::<UpgradeConfig>(NAMESPACE, upgrade_config::NAME)
}

/// The operator's plan. OpenShift's own keeps none, and without it less is shown.
fn read_plan(map: Result<Option<ConfigMap>, wire::Error>) -> Option<UpgradePlan> {
    let name = format!("ConfigMap {NAMESPACE}/{}", plan::NAME);
    let map = match map {
        Ok(map) => map?,
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
        let requests = ManagedRequests {
            access: Access::of_client(client),
        };
        let sent = async {
            requests.create(&object, true).await.unwrap();
            requests.change(&patch, false).await
        };
        let why = script.drive(sent).await.unwrap_err().to_string();
        assert_eq!(why, "the UpgradeConfig was changed meanwhile: try again");
    }
}
