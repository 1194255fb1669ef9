//! Rendered configurations that nothing uses any more.
//!
//! Each change of a pool leaves one behind, of up to 1.5 MB, that every reader of MachineConfigs
//! lists. They are found in caches; admission policies of `deploy/controller` refuse to delete what
//! a pool or a node names, to every account.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use machineconfig::name::is_rendered_name;
use pool::hold::Hold;
use pool::unhandled::hold;

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
/// than is kept, and named by no pool and no node.
///
/// A pool in image mode keeps all: its builds name them. Those of a pool that is gone are removed
/// by the cluster, as their owner is.
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
        let objects = snapshot.unhandled.objects();
        let builds = matches!(hold(view, objects), Some(Hold::ImageMode { .. }));
        if view.is_deleted || builds {
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

/// Every configuration that a pool or a node names.
fn in_use(snapshot: &Snapshot) -> BTreeSet<&str> {
    let pools = snapshot.pools.values().flat_map(|pool| {
        let status = pool.object.status.as_ref();
        [
            pool.view.target.as_deref(),
            status.and_then(|status| status.configuration.name()),
            Some(pool.view.claim.target.as_str()),
        ]
    });
    let nodes = snapshot.nodes.values().flat_map(|node| {
        [
            node.status.current_config.as_deref(),
            node.status.desired_config.as_deref(),
            node.status.next_config.as_deref(),
            node.status.fetched.as_deref(),
            node.first_config.as_deref(),
        ]
    });
    pools.chain(nodes).flatten().collect()
}

#[cfg(test)]
mod tests;
