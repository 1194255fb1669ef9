//! Base configurations of the roles: made from the ControllerConfig, where its platform is built.

use api::machineconfiguration::ControllerConfig;
use chassis::program::BUILD;
use chassis::report::Chain;
use generated::pools::PoolFacts;
use generated::templates::{self, PullSecret};

use super::ownership;
use crate::store::Snapshot;

/// The ControllerConfig that base configurations are made from.
pub(crate) fn source(snapshot: &Snapshot) -> Option<&ControllerConfig> {
    let config = snapshot.controller_config()?;
    templates::is_made_of(config).then_some(config)
}

/// The Secret by which nodes pull images.
pub(crate) fn secret(snapshot: &Snapshot) -> Option<&PullSecret> {
    let stored = snapshot.pull_secrets.get(templates::PULL_SECRET.1)?;
    Some(&stored.secret)
}

/// Why base configurations cannot be made, if so.
pub(crate) fn fault(pool: &PoolFacts, snapshot: &Snapshot) -> Option<String> {
    let pools = std::slice::from_ref(pool);
    let error = templates::plan(source(snapshot)?, pools, secret(snapshot)).err()?;
    Some(Chain(&error).to_string())
}

/// Why a pool waits for its base configurations: one is not there yet, or is of another build. A
/// custom pool waits for the workers'.
pub(crate) fn wait(pool: &PoolFacts, snapshot: &Snapshot) -> Option<String> {
    source(snapshot)?;
    let is_there = |role: &str| snapshot.pools.get(role).is_some();
    if !is_there(pool.role()) {
        return None;
    }
    let names = templates::config_names(pool.role());
    let missing = names.into_iter().find(|name| {
        let config = snapshot.configs.get(name);
        config.is_none_or(|config| {
            ownership::foreign_config(config, Some(templates::MAKER)).is_none()
                && config.generated_by.as_deref() != Some(BUILD)
        })
    })?;
    Some(format!("MachineConfig {missing} is not generated yet"))
}
