//! How far the nodes of a pool are with its pinned image sets.

use api::machineconfiguration::PinList;
use api::machineconfiguration::machine_config_pool::{
    PoolConditionReason, PoolConditionType, PoolSynchronizerStatus,
};

use super::joined;
use crate::finding::Finding;
use crate::node::NodeView;
use crate::pinned_sets::UnpopulatedPins;
use crate::pins::{failure, has};
use crate::view::PoolView;

/// Sets the counters of pinned image sets, once the pool has had a set.
///
/// Shape: updated are the nodes on which all images of the sets lie pinned; ready are those of them
/// that are in service. The generation is the newest of the pool in which all nodes were updated;
/// the API server lets it only grow.
/// Source: MachineConfigPool `status.poolSynchronizersStatus`, and its rules.
pub(super) fn count(
    synchronizers: &mut Vec<PoolSynchronizerStatus>,
    list: &PinList,
    view: &PoolView,
    members: &[&NodeView],
) {
    let is_ours = |it: &PoolSynchronizerStatus| {
        it.pool_synchronizer_type == PoolSynchronizerStatus::PINNED_IMAGE_SETS
    };
    let present = synchronizers.iter().position(is_ours);
    if list.is_empty() && present.is_none() {
        return;
    }
    let number = |is_counted: &dyn Fn(&NodeView) -> bool| {
        let counted = members.iter().filter(|node| is_counted(node)).count();
        i64::try_from(counted).unwrap_or(i64::MAX)
    };
    let machine_count = number(&|_| true);
    let updated_machine_count = number(&|node| has(node, list));
    let before = present.and_then(|place| synchronizers.get(place)?.observed_generation);
    let counts = PoolSynchronizerStatus {
        pool_synchronizer_type: PoolSynchronizerStatus::PINNED_IMAGE_SETS.to_owned(),
        machine_count,
        updated_machine_count,
        ready_machine_count: number(&|node| has(node, list) && !node.is_out_of_service()),
        available_machine_count: number(&|node| !node.is_out_of_service()),
        unavailable_machine_count: number(&NodeView::is_out_of_service),
        observed_generation: if updated_machine_count == machine_count {
            view.generation.max(before)
        } else {
            before
        },
    };
    match present.and_then(|place| synchronizers.get_mut(place)) {
        Some(present) => *present = counts,
        None => synchronizers.push(counts),
    }
}

/// What keeps nodes from their pinned images. That it takes long is no failure.
///
/// Source: upstream has the type and the first text; it names no node.
pub(super) fn degraded(unpopulated: Option<&UnpopulatedPins>, members: &[&NodeView]) -> Finding {
    let failures = members.iter().filter_map(|node| {
        let failure = failure(node)?;
        Some(format!("Node {} is reporting: {failure:?}", node.name))
    });
    let why = unpopulated.map(ToString::to_string);
    let sentences: Vec<String> = why.into_iter().chain(failures).collect();
    if sentences.is_empty() {
        return Finding::no(PoolConditionType::PinnedImageSetsDegraded);
    }
    let reason = match unpopulated {
        Some(_) => PoolConditionReason::Unset,
        None => PoolConditionReason::PrefetchFailed,
    };
    let message = joined(sentences.into_iter(), ", ");
    Finding::yes(PoolConditionType::PinnedImageSetsDegraded, reason, message)
}

#[cfg(test)]
mod tests;
