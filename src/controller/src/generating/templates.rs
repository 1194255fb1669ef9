//! Base configurations of the roles: made from the ControllerConfig, where its platform is built.

use api::machineconfiguration::{ControllerConfig, controller_config};
use chassis::report::Chain;
use cluster::wire;
use generated::pools::PoolFacts;
use generated::templates;

use super::Generating;
use super::storing::Storing;
use crate::decide::generating::templates::{secret, source};
use crate::decide::release::images;
use crate::store::Snapshot;

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
            Err(error) => {
                // The pools report it.
                tracing::warn!(reason = %Chain(&error), "base configurations are not made");
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
