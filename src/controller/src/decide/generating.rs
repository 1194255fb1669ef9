//! MachineConfigs that other objects ask for: why a pool waits for them, or cannot have them.
//!
//! - [`cluster_wide`]: what one object asks for all built-in pools
//! - [`setting`]: an object that selects pools, and what is written to it
//! - [`templates`]: base configurations of the roles
//! - [`ownership`]: whether a MachineConfig was generated here

pub(crate) mod cluster_wide;
pub(crate) mod ownership;
pub(crate) mod setting;
pub(crate) mod templates;

use chassis::program::BUILD;
use generated::pools::PoolFacts;

use self::setting::SettingState;
use crate::store::{Pool, Snapshot};

/// Why a pool cannot be rendered until an administrator corrects an object.
pub(crate) fn fault(pool: &Pool, snapshot: &Snapshot) -> Option<String> {
    let facts = PoolFacts::read(&pool.object);
    templates::fault(&facts, snapshot).or_else(|| cluster_wide::fault(&facts, snapshot))
}

/// Why a pool waits for an object that selects it, or for a MachineConfig that this build has yet
/// to generate.
pub(crate) fn wait(pool: &Pool, snapshot: &Snapshot) -> Option<String> {
    let facts = PoolFacts::read(&pool.object);
    let generators = &snapshot.generators;
    let kubelet = generators.kubelet_configs.values();
    let mut kubelet = kubelet.filter_map(|config| setting::wait(config.as_ref(), &facts));
    let runtime = generators.runtime_configs.values();
    let mut runtime = runtime.filter_map(|config| setting::wait(config.as_ref(), &facts));
    kubelet
        .next()
        .or_else(|| runtime.next())
        .or_else(|| outdated(snapshot))
        .or_else(|| templates::wait(&facts, snapshot))
        .or_else(|| cluster_wide::wait(&facts, snapshot))
}

/// How far each object that selects pools is: the controller that follows it, the state, its name.
pub(crate) fn states(snapshot: &Snapshot) -> Vec<SettingState> {
    let generators = &snapshot.generators;
    let kubelet = generators.kubelet_configs.values();
    let kubelet = kubelet.map(|config| setting::state(config.as_ref()));
    let runtime = generators.runtime_configs.values();
    let runtime = runtime.map(|config| setting::state(config.as_ref()));
    kubelet.chain(runtime).collect()
}

/// A MachineConfig of another build whose object is there, so that it is generated again.
fn outdated(snapshot: &Snapshot) -> Option<String> {
    let generators = &snapshot.generators;
    let is_there = |uid: &str| {
        let kubelet = generators.kubelet_configs.values();
        let runtime = generators.runtime_configs.values();
        let kubelet = kubelet.map(|config| &config.metadata.uid);
        let mut uids = kubelet.chain(runtime.map(|config| &config.metadata.uid));
        uids.any(|other| other.as_deref() == Some(uid))
    };
    let mut configs = snapshot.configs.values();
    let config = configs.find(|config| {
        let controller = config.controller.as_ref();
        config.generated_by.as_deref().is_some_and(|by| by != BUILD)
            && controller.is_some_and(|controller| is_there(&controller.uid))
    })?;
    Some(format!(
        "MachineConfig {} is of another build, and is made anew",
        config.name
    ))
}
