//! Whether the pools are at the release that an update of the cluster waits for.

use std::collections::BTreeMap;

use api::ConditionStatus;
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use api::machineconfiguration::{MachineConfigPool, OSImageStream, label};
use chassis::program::BUILD;
use cluster::cache::Table;

use crate::decide::os_stream;
use crate::store::Configs;

/// Why required pools are not at the release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortfall {
    /// They are on their way.
    Waiting(String),
    /// They do not get there by themselves.
    Failed(String),
}

/// What pools are compared with.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Version of the release.
    pub version: &'a str,
    /// The OS image of pools that choose no stream.
    pub os_image: &'a str,
    /// The streams that pools choose from, where the cluster has them.
    pub streams: Option<&'a OSImageStream>,
    /// Metadata of the MachineConfigs.
    pub configs: &'a Table<Configs>,
    /// OS images of rendered configurations, as far as they were read.
    pub os_images: &'a BTreeMap<String, String>,
}

/// Whether an update of the cluster waits for a pool. It does for those of the control plane,
/// whatever their labels are.
pub fn is_required(pool: &MachineConfigPool) -> bool {
    let labels = pool.metadata.labels.as_ref();
    label::role::is_control_plane(name(pool))
        || labels.is_some_and(|labels| labels.contains_key(label::REQUIRED_FOR_UPGRADE))
}

/// Nodes of the pools that an update waits for.
pub fn required_nodes(pools: &[&MachineConfigPool]) -> u32 {
    let pools = pools.iter().filter(|pool| is_required(pool));
    let counts = pools.filter_map(|pool| {
        let status = pool.status.as_ref()?;
        u32::try_from(status.machine_count).ok()
    });
    counts.sum()
}

/// Rendered configurations whose OS image is to be read: those of required pools that are of the
/// release by all that their metadata says. With an image of a user's it does not matter.
pub fn unread<'a>(pools: &[&'a MachineConfigPool], wanted: &Wanted<'_>) -> Vec<&'a str> {
    let required = pools.iter().filter(|pool| is_required(pool));
    let named = required.filter_map(|pool| pool.spec.configuration.name());
    let is_unread = |config: &&str| {
        let target = wanted.configs.get(config);
        !wanted.os_images.contains_key(*config)
            && target.is_some_and(|target| {
                target.release_version.as_deref() == Some(wanted.version)
                    && !target.is_image_overridden
            })
    };
    named.filter(is_unread).collect()
}

/// Why required pools are not at the release; nothing when they are. A degraded pool holds the
/// release up whether or not it is required.
///
/// Source: `docs/reference/controller.md`, "Operator status".
pub fn shortfall(pools: &[&MachineConfigPool], wanted: &Wanted<'_>) -> Option<Shortfall> {
    if let Some(degraded) = pools
        .iter()
        .find(|pool| is(pool, &PoolConditionType::Degraded))
    {
        let why: Vec<String> = failures(degraded).map(|(_, message)| message).collect();
        return Some(Shortfall::Failed(format!(
            "{}: {}",
            unready(degraded),
            why.join("; ")
        )));
    }
    let mut required = pools.iter().filter(|pool| is_required(pool)).peekable();
    if required.peek().is_none() {
        return Some(Shortfall::Failed(format!(
            "no MachineConfigPool is required for an update: there is no pool {}, and none has label {}",
            label::role::CONTROL_PLANE.join(" or "),
            label::REQUIRED_FOR_UPGRADE
        )));
    }
    let is_worker = |pool: &&&MachineConfigPool| name(pool) == label::role::WORKER;
    let worker = pools.iter().find(is_worker).copied();
    required.find_map(|pool| of_pool(pool, worker, wanted))
}

fn of_pool(
    pool: &MachineConfigPool,
    worker: Option<&MachineConfigPool>,
    wanted: &Wanted<'_>,
) -> Option<Shortfall> {
    let invalid = invalid(pool, worker, wanted);
    let status = pool.status.clone().unwrap_or_default();
    let is_done = invalid.is_none()
        && pool.metadata.generation <= status.observed_generation
        && status.configuration.name() == pool.spec.configuration.name()
        && is(pool, &PoolConditionType::Updated);
    if is_done {
        return None;
    }
    if let Some(invalid) = invalid {
        return Some(Shortfall::Waiting(invalid));
    }
    Some(if pool.spec.paused {
        Shortfall::Failed(format!(
            "required MachineConfigPool {} is paused and cannot sync until it is unpaused",
            name(pool)
        ))
    } else {
        Shortfall::Waiting(unready(pool))
    })
}

/// Why the configuration that a pool names is not the release's.
fn invalid(
    pool: &MachineConfigPool,
    worker: Option<&MachineConfigPool>,
    wanted: &Wanted<'_>,
) -> Option<String> {
    let pool_name = name(pool);
    let configuration = &pool.spec.configuration;
    let Some(config) = configuration.name() else {
        return Some(format!(
            "configuration spec for pool {pool_name} is empty: it is not rendered yet"
        ));
    };
    let observed = pool.status.as_ref();
    if observed
        .and_then(|status| status.configuration.name())
        .is_none()
    {
        return Some(format!(
            "configuration status for pool {pool_name} is empty: no node is updated yet"
        ));
    }
    if configuration.source.is_empty() {
        return Some(format!(
            "list of MachineConfigs that were used to generate configuration for pool {pool_name} is empty"
        ));
    }
    let Some(target) = wanted.configs.get(config) else {
        return Some(format!("{config}, which pool {pool_name} names, is gone"));
    };
    if target.generated_by.is_none() {
        return Some(format!(
            "{config} must be created by controller version {BUILD}: it has no annotation"
        ));
    }
    let sources = configuration.source.iter();
    let sources = sources.filter_map(|source| wanted.configs.get(source.name.as_deref()?));
    for config in std::iter::once(target).chain(sources) {
        let by = config.generated_by.as_deref().unwrap_or(BUILD);
        if by != BUILD {
            let (config, pool) = (&config.name, pool_name);
            return Some(format!(
                "controller version mismatch for {config} expected {BUILD} has {by}: pool {pool} is not rendered yet"
            ));
        }
    }
    let release = target.release_version.as_deref().unwrap_or_default();
    if release != wanted.version {
        return Some(format!(
            "release image version mismatch for {pool_name} in {config} expected: {} got: {release}",
            wanted.version
        ));
    }
    if target.is_image_overridden {
        return None;
    }
    let Some(os_image) = wanted.os_images.get(config) else {
        return Some(format!(
            "{config}, which pool {pool_name} names, is not read yet"
        ));
    };
    let chosen = os_stream::chosen(pool, worker);
    let expected = match os_stream::resolve(chosen.as_ref(), wanted.streams) {
        Ok(stream) => stream.map_or(wanted.os_image, |stream| stream.os_image.as_str()),
        Err(error) => return Some(error.to_string()),
    };
    (os_image != expected).then(|| {
        format!(
            "osImageURL mismatch for {pool_name} in {config} expected: {expected} got: {os_image}"
        )
    })
}

fn unready(pool: &MachineConfigPool) -> String {
    let status = pool.status.clone().unwrap_or_default();
    format!(
        "MachineConfigPool {} is not ready, retrying. Status: (pool degraded: {} total: {}, ready {}, updated: {}, unavailable: {})",
        name(pool),
        is(pool, &PoolConditionType::Degraded),
        status.machine_count,
        status.ready_machine_count,
        status.updated_machine_count,
        status.unavailable_machine_count
    )
}

/// Reason and message of each condition by which a pool is degraded.
pub(super) fn failures(
    pool: &MachineConfigPool,
) -> impl Iterator<Item = (&PoolConditionType, String)> {
    use PoolConditionType::{ImageBuildDegraded, NodeDegraded, RenderDegraded, RolloutDegraded};
    const PARTS: [PoolConditionType; 4] = [
        RenderDegraded,
        NodeDegraded,
        RolloutDegraded,
        ImageBuildDegraded,
    ];
    let status = pool.status.iter();
    let conditions = status.flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| {
            PARTS.contains(&condition.r#type) && condition.status == ConditionStatus::True
        })
        .map(|condition| {
            let message = format!("{:?}: {:?}", condition.reason.as_str(), condition.message);
            (&condition.r#type, message)
        })
}

pub(super) fn is(pool: &MachineConfigPool, r#type: &PoolConditionType) -> bool {
    let status = pool.status.as_ref();
    let condition = status.and_then(|status| status.condition(r#type));
    condition.is_some_and(|condition| condition.status == ConditionStatus::True)
}

pub(super) fn name(pool: &MachineConfigPool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
