//! Rendered configurations that nothing uses any more.
//!
//! Each change of a pool leaves one behind, of up to 1.5 MB, that every reader of MachineConfigs
//! lists. They are found in caches; admission policies of `deploy/controller` refuse to delete what
//! a pool or a node names, to every account.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::machineconfiguration::Target;
use api::machineconfiguration::node_status::Reading;
use jiff::Timestamp;
use machineconfig::name::is_rendered_name;

use crate::configs::ConfigMeta;
use crate::store::Snapshot;

/// Which unused configurations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// So many of each pool, the newest, used or not.
    pub count: usize,
    /// Those that were made within this time.
    pub age: Duration,
}

impl Retention {
    /// Enough to revert by hand to what ran a week ago.
    pub const DEFAULT: Self = Self {
        count: 10,
        age: Duration::from_hours(7 * 24),
    };
}

/// The configurations of each pool, by its name, that are to be removed: rendered for it, older
/// than is kept, and named by no pool, no node and no build of an OS image.
///
/// Those of a pool that is gone are removed by the cluster, as their owner is.
///
/// Source: `docs/reference/controller.md`, "Unused renderings".
pub fn unused(
    snapshot: &Snapshot,
    retention: Retention,
    now: Timestamp,
) -> BTreeMap<&str, Vec<&ConfigMeta>> {
    let in_use = in_use(snapshot);
    let oldest_kept = now.checked_sub(retention.age).unwrap_or(Timestamp::MIN);
    let mut found = BTreeMap::new();
    for pool in snapshot.pools.values() {
        let view = &pool.view;
        if view.is_deleted {
            continue;
        }
        let configs = snapshot.configs.values().map(AsRef::as_ref);
        let mut configs: Vec<&ConfigMeta> = configs
            .filter(|config| config.pool.as_ref() == Some(&view.uid))
            .filter(|config| is_rendered_name(&view.name, &config.name))
            .collect();
        // An object without a time counts as new.
        let made = |config: &ConfigMeta| config.created.unwrap_or(now);
        configs.sort_by_key(|config| (Reverse(made(config)), config.name.as_str()));
        let old = configs.into_iter().skip(retention.count);
        let old = old.filter(|config| made(config) < oldest_kept);
        let unused: Vec<&ConfigMeta> = old
            .filter(|config| !in_use.contains(config.name.as_str()))
            .collect();
        if !unused.is_empty() {
            found.insert(view.name.as_str(), unused);
        }
    }
    found
}

/// Every configuration that a pool, a node or a build of an OS image names.
fn in_use(snapshot: &Snapshot) -> BTreeSet<&str> {
    let pools = snapshot.pools.values().flat_map(|pool| {
        let status = pool.object.status.as_ref();
        [
            pool.view.target_config(),
            status.and_then(|status| status.configuration.name()),
            // Of a target as text, the first word.
            pool.view.claim.target.split(' ').next(),
        ]
    });
    let nodes = snapshot.nodes.values().flat_map(|node| {
        [
            node.status.current_config.as_deref(),
            node.status.desired_config.as_deref(),
            config(node.status.next.as_ref()),
            config(node.status.fetched.as_ref()),
            node.first_config.as_deref(),
        ]
    });
    let builds = snapshot.os_builds.values();
    let builds = builds.map(|build| Some(build.spec.machine_config.name.as_str()));
    pools.chain(nodes).chain(builds).flatten().collect()
}

/// The configuration of a target that a node names.
fn config(target: Option<&Reading<Target>>) -> Option<&str> {
    let target = target.and_then(Reading::known)?;
    Some(&target.config)
}

#[cfg(test)]
mod tests;
