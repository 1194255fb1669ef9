//! Base configurations of the roles: made from the ControllerConfig, where its platform is built.

use api::machineconfiguration::{ControllerConfig, controller_config};
use chassis::program::BUILD;
use cluster::wire;
use generated::pools::PoolFacts;
use generated::templates::{self, PullSecret};

use super::Generating;
use super::storing::{self, Storing};
use crate::release::images;
use crate::store::Snapshot;

/// The ControllerConfig that base configurations are made from.
pub(super) fn source(snapshot: &Snapshot) -> Option<&ControllerConfig> {
    let config = snapshot.controller_config()?;
    templates::is_made_of(config).then_some(config)
}

/// The Secret by which nodes pull images.
fn secret(snapshot: &Snapshot) -> Option<&PullSecret> {
    let known = snapshot.pull_secrets.get(templates::PULL_SECRET.1)?;
    Some(&known.secret)
}

impl Generating<'_> {
    /// Stores the base configurations, and says on the ControllerConfig that they are there. False
    /// where something changed meanwhile.
    ///
    /// One of their names that another program or a person made is left alone.
    pub(super) async fn reconcile_templates(
        &self,
        snapshot: &Snapshot,
        pools: &[PoolFacts],
    ) -> Result<bool, wire::Error> {
        let Some(config) = source(snapshot) else {
            return Ok(true);
        };
        let wanted = match templates::plan(config, pools, secret(snapshot)) {
            Ok(wanted) => wanted,
            Err(why) => {
                // The pools report it.
                tracing::warn!(reason = why, "base configurations are not made");
                return Ok(true);
            }
        };
        let mut is_done = true;
        for config in &wanted {
            match self.store_generated(snapshot, config).await? {
                Storing::Done => {}
                Storing::Refused(why) => {
                    tracing::debug!(reason = why, "a base configuration is another's");
                }
                Storing::Late => is_done = false,
            }
        }
        // In a release, the release's images come first.
        if !is_done || snapshot.has_release {
            return Ok(is_done);
        }
        let version = snapshot.version.as_str();
        if let Some(change) = images::completed(config, version, self.context.now()) {
            let written = self
                .context
                .requests
                .objects::<ControllerConfig>()
                .status()
                .patch(controller_config::NAME, &change)
                .await?;
            self.context.store.controller_configs.refresh(written);
        }
        Ok(true)
    }
}

/// Why base configurations cannot be made, if so.
pub(super) fn fault(pool: &PoolFacts, snapshot: &Snapshot) -> Option<String> {
    let pools = std::slice::from_ref(pool);
    templates::plan(source(snapshot)?, pools, secret(snapshot)).err()
}

/// Why a pool waits for its base configurations: one is not there yet, or is of another build. A
/// custom pool waits for the workers'.
pub(super) fn wait(pool: &PoolFacts, snapshot: &Snapshot) -> Option<String> {
    source(snapshot)?;
    let is_there = |role: &str| snapshot.pools.get(role).is_some();
    if !is_there(pool.role()) {
        return None;
    }
    let names = templates::config_names(pool.role());
    let missing = names.into_iter().find(|name| {
        let known = snapshot.configs.get(name);
        known.is_none_or(|known| {
            storing::foreign(known, Some(templates::MAKER)).is_none()
                && known.generated_by.as_deref() != Some(BUILD)
        })
    })?;
    Some(format!("MachineConfig {missing} is not generated yet"))
}
