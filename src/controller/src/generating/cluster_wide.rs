//! What one object asks for all built-in pools: registries, node settings and feature gates. Such
//! an object has no status of its own here; what is wrong with it is in the conditions of the
//! pools.

use chassis::report::Chain;
use cluster::wire;
use generated::object::GeneratedConfig;
use generated::pools::PoolFacts;
use generated::{features, node_settings, registries as source};

use super::Generating;
use super::bases::SettingsError;
use super::storing::Storing;
use crate::decide::generating::cluster_wide::{leftovers, registries, registry_facts};
use crate::store::Snapshot;

impl Generating<'_> {
    /// Stores the configs that are needed, and removes those that no longer are. False where
    /// something changed meanwhile.
    pub(super) async fn reconcile_cluster_wide(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<bool, wire::Error> {
        let mut wanted = match registries(snapshot, pools) {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::warn!(reason = %Chain(&error), "refused settings of registries");
                return Ok(true);
            }
        };
        for error in source::refused_policies(&registry_facts(snapshot)) {
            tracing::warn!(reason = %Chain(&error), "images of a namespace are rejected");
        }
        let generators = &snapshot.generators;
        let has_gates = generators.feature_gates.values().next().is_some();
        if has_gates || generators.node_settings.values().next().is_some() {
            match self.plan_settings(snapshot, pools).await {
                Ok(configs) => wanted.extend(configs),
                Err(SettingsError::Request(error)) => return Err(error),
                Err(error) => {
                    tracing::warn!(reason = %Chain(&error), "settings of kubelets are not followed");
                    return Ok(true);
                }
            }
        }
        let mut is_done = true;
        for config in &wanted {
            // The pools report a refused one.
            let storing = self.store_generated(snapshot, config).await?;
            is_done &= storing != Storing::Late;
        }
        let gone: Vec<String> = leftovers(&snapshot.configs)
            .filter(|name| wanted.iter().all(|config| config.name != *name))
            .map(str::to_owned)
            .collect();
        for name in gone {
            self.remove_generated(snapshot, &name).await?;
        }
        Ok(is_done)
    }

    async fn plan_settings(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<Vec<GeneratedConfig>, SettingsError> {
        let base = self.kubelet_base(snapshot, pools).await?;
        let mut planned = node_settings::plan(&base, pools)?;
        planned.extend(features::plan(&base, pools)?);
        Ok(planned)
    }
}
