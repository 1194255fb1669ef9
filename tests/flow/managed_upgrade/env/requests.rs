//! What administrators ask for, and the messages that they receive.

use anyhow::Result;
use api::upgrade::{UpgradePlan, plan, upgrade_config};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PatchParams};
use lab::{PATIENCE, wait};
use serde_json::{Value, json};
use testbed::Printed;

use super::Cluster;

impl Cluster {
    /// The spec of the UpgradeConfig, once there is one that leads to this version.
    pub(crate) async fn until_spec(&self, version: &str) -> Result<Value> {
        wait::until(&format!("an upgrade to {version}"), PATIENCE, async || {
            let upgrade = self.upgrades.get_opt(upgrade_config::NAME).await?;
            let spec = upgrade.map(|upgrade| upgrade.spec);
            Ok(match spec {
                Some(spec) if spec.desired.version == version => Ok(serde_json::to_value(spec)?),
                other => Err(format!("{other:?}")),
            })
        })
        .await
    }

    /// Asks for an upgrade to a version, after so many seconds.
    pub(crate) async fn schedule(&self, version: &str, secs: i64) -> Result<()> {
        let at = Timestamp::now() + SignedDuration::from_secs(secs);
        let at = Timestamp::from_second(at.as_second())?;
        self.ask_for(json!({
            "type": "OSD", "upgradeAt": at.to_string(), "PDBForceDrainTimeout": 30,
            "capacityReservation": true,
            "desired": { "version": version, "channel": "stable-4.16" },
        }))
        .await
    }

    /// Applies the spec of the UpgradeConfig.
    pub(crate) async fn ask_for(&self, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "upgrade.managed.openshift.io/v1alpha1", "kind": "UpgradeConfig",
            "metadata": { "name": upgrade_config::NAME }, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let name = upgrade_config::NAME;
        self.upgrades
            .patch(name, &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Runs `slipway managed` as the administrator.
    pub(crate) fn managed(&self, arguments: &[&str]) -> Result<Printed> {
        self.slipway(&[&["managed"], arguments].concat())
    }

    /// The operator's plan, once it is of this phase.
    pub(crate) async fn until_plan(&self, phase: &str) -> Result<UpgradePlan> {
        wait::until(&format!("the plan in {phase}"), PATIENCE, async || {
            let map = self.maps.get_opt(plan::NAME).await?;
            let data = map.and_then(|map| map.data).unwrap_or_default();
            let Some(text) = data.get(plan::KEY) else {
                return Ok(Err("no plan".to_owned()));
            };
            let plan = UpgradePlan::parse(text)?;
            Ok(if plan.phase == phase {
                Ok(plan)
            } else {
                Err(plan.phase)
            })
        })
        .await
    }

    pub(crate) async fn withdraw(&self) -> Result<()> {
        let name = upgrade_config::NAME;
        self.upgrades.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}
