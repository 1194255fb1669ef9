//! Pinned image sets of a pool: what its spec is to name, and how many of its nodes pull at once.

use api::machineconfiguration::PinList;
use api::machineconfiguration::machine_config_pool::NamedReference;
use pool::pinned_sets::{self, UnpopulatedPins};
use pool::view::PoolView;

use crate::store::{Pool, Snapshot};

/// The sets that a pool selects; nothing where its nodes keep what they have.
///
/// # Errors
/// It is not determined which.
pub fn selected(view: &PoolView, snapshot: &Snapshot) -> Result<Option<PinList>, UnpopulatedPins> {
    pinned_sets::selected(view, snapshot.pinned_sets.values().map(AsRef::as_ref))
}

/// What `spec.pinnedImageSets` of a pool is to be; nothing where it is that, or stays.
pub fn names_to_write(pool: &Pool, snapshot: &Snapshot) -> Option<Vec<NamedReference>> {
    let selected = selected(&pool.view, snapshot).ok()??;
    let names = pinned_sets::names(&selected);
    (pool.object.spec.pinned_image_sets != names).then_some(names)
}

/// How many nodes of a pool of this size pull at once: as its policy says, all of them without one.
/// While the policy cannot be followed, no further node begins.
pub fn at_once(view: &PoolView, snapshot: &Snapshot, size: usize) -> usize {
    match &view.policy {
        Some(policy) => policy.pinned_image_pulls(size),
        None if snapshot.policies.get(&view.name).is_some() => 0,
        None => usize::MAX,
    }
}
