//! Help for drains that are stuck: which pods of a node are removed by force, and when.
//!
//! Values in, actions out. The daemon evicts; what its evictions do not remove in time is removed
//! here, one kind of pods after the other. A pod is deleted with its grace period first. It is
//! removed without one only where its kubelet has had its time, or where a person says that the
//! node is off: as long as a kubelet that is cut off may still run a pod, its successor must not
//! start.
//!
//! - [`lease`]: who removes them

pub mod lease;

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::node_view::{DrainStart, UpgradeNode};

/// A pod on a node that is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckPod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// When its own grace period ends, if it is being deleted.
    pub ends: Option<Timestamp>,
    pub has_finalizers: bool,
    /// Whether a PodDisruptionBudget selects it.
    pub has_budget: bool,
}

/// A pod outlives its grace period so long before it is removed without one: longer than Kubernetes
/// takes to notice that a kubelet is gone (50 s).
const OUTLIVED: SignedDuration = SignedDuration::from_secs(60);

/// How long drains may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainLimits {
    /// Pods without a budget: `nodeDrain.timeOut`.
    pub free: SignedDuration,
    /// Pods with a budget: `PDBForceDrainTimeout` and `nodeDrain.expectedNodeDrainTime`.
    pub protected: SignedDuration,
    /// `nodeDrain.expectedNodeDrainTime`.
    pub expected: SignedDuration,
}

/// What is done about pods of one kind after their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainStrategy {
    /// Deletes pods without a budget.
    Delete,
    /// Clears their finalizers.
    DefaultFinalizer,
    /// Deletes those again that do not end.
    PodStuckTerminating,
    /// Deletes pods with a budget.
    PdbDelete,
    /// Clears their finalizers.
    PdbFinalizer,
    /// Deletes those again that do not end.
    PdbStuckTerminating,
}

/// How a pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedRemoval {
    /// It is deleted with its own grace period.
    End,
    /// It is deleted without a grace period.
    Delete,
    ClearFinalizers,
}

/// What may be done to the pods of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalRight {
    /// Its kubelet works: pods get their grace period, and what outlives that is removed.
    Ask,
    /// A person says that it is off: nothing of them runs any more.
    Force,
}

/// Why no pod is removed from a node whose drain is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainHold {
    /// Its kubelet does not report: its pods may still run.
    NotReady,
    /// Nothing says when its drain began.
    UnknownStart,
}

impl fmt::Display for DrainHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => {
                "it is not Ready, so its pods may still run; if it is off, give it the taint \
                 node.kubernetes.io/out-of-service"
            }
            Self::UnknownStart => "nothing says when its drain began",
        })
    }
}

/// What may be done to the pods of a node, and for how long its drain has lasted.
///
/// # Errors
/// Nothing may be done.
pub fn right(
    node: &UpgradeNode,
    start: DrainStart,
    now: Timestamp,
) -> Result<(RemovalRight, SignedDuration), DrainHold> {
    let right = match (node.is_there(now), node.is_out_of_service) {
        (true, _) => RemovalRight::Ask,
        (false, true) => RemovalRight::Force,
        (false, false) => return Err(DrainHold::NotReady),
    };
    match (start, right) {
        (DrainStart::At(started), _) => Ok((right, now.duration_since(started))),
        // There is nothing left to wait for.
        (DrainStart::Unknown, RemovalRight::Force) => Ok((right, SignedDuration::MAX)),
        (DrainStart::Unknown, RemovalRight::Ask) => Err(DrainHold::UnknownStart),
    }
}

impl DrainStrategy {
    /// All, in the order in which they are carried out.
    pub const ALL: [Self; 6] = [
        Self::Delete,
        Self::DefaultFinalizer,
        Self::PodStuckTerminating,
        Self::PdbDelete,
        Self::PdbFinalizer,
        Self::PdbStuckTerminating,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::DefaultFinalizer => "DEFAULT-FINALIZER",
            Self::PodStuckTerminating => "POD-STUCK-TERMINATING",
            Self::PdbDelete => "PDB-DELETE",
            Self::PdbFinalizer => "PDB-FINALIZER",
            Self::PdbStuckTerminating => "PDB-STUCK-TERMINATING",
        }
    }

    /// How it removes a pod.
    pub const fn removal(self, right: RemovalRight) -> ForcedRemoval {
        match (self, right) {
            (Self::DefaultFinalizer | Self::PdbFinalizer, _) => ForcedRemoval::ClearFinalizers,
            (Self::Delete | Self::PdbDelete, RemovalRight::Ask) => ForcedRemoval::End,
            (Self::Delete | Self::PdbDelete, RemovalRight::Force)
            | (Self::PodStuckTerminating | Self::PdbStuckTerminating, _) => ForcedRemoval::Delete,
        }
    }

    /// Whether a pod of its kind had its time: a deletion with a grace period is due at once.
    fn is_ripe(self, pod: &StuckPod, right: RemovalRight, now: Timestamp) -> bool {
        let is_outlived = || {
            let ends = pod.ends.filter(|_| pod.is_terminating);
            ends.is_some_and(|ends| now.duration_since(ends) > OUTLIVED)
        };
        match (self, right) {
            (_, RemovalRight::Force) | (Self::Delete | Self::PdbDelete, _) => true,
            (
                Self::DefaultFinalizer
                | Self::PodStuckTerminating
                | Self::PdbFinalizer
                | Self::PdbStuckTerminating,
                RemovalRight::Ask,
            ) => is_outlived(),
        }
    }

    /// How long after the start of the drain it begins.
    pub const fn wait(self, limits: &DrainLimits) -> SignedDuration {
        match self {
            Self::Delete | Self::DefaultFinalizer | Self::PodStuckTerminating => limits.free,
            Self::PdbDelete | Self::PdbFinalizer | Self::PdbStuckTerminating => limits.protected,
        }
    }

    /// Whether a pod is of its kind.
    pub const fn is_for(self, pod: &StuckPod) -> bool {
        match self {
            Self::Delete => !pod.has_budget && !pod.is_terminating,
            Self::DefaultFinalizer => !pod.has_budget && pod.has_finalizers,
            Self::PodStuckTerminating => {
                !pod.has_budget && pod.is_terminating && !pod.has_finalizers
            }
            Self::PdbDelete => pod.has_budget && !pod.is_terminating,
            Self::PdbFinalizer => pod.has_budget && pod.has_finalizers,
            Self::PdbStuckTerminating => {
                pod.has_budget && pod.is_terminating && !pod.has_finalizers
            }
        }
    }
}

/// Pods that are removed now, in order, from a node whose drain has lasted for `elapsed`.
pub fn due<'a>(
    limits: &DrainLimits,
    pods: &'a [StuckPod],
    (right, elapsed): (RemovalRight, SignedDuration),
    now: Timestamp,
) -> Vec<(DrainStrategy, &'a StuckPod)> {
    let due = DrainStrategy::ALL
        .into_iter()
        .filter(|strategy| elapsed > strategy.wait(limits));
    due.flat_map(|strategy| {
        let of_it = pods
            .iter()
            .filter(move |pod| strategy.is_for(pod) && strategy.is_ripe(pod, right, now));
        of_it.map(move |pod| (strategy, pod))
    })
    .collect()
}

/// Whether anything may be due, whatever pods there are.
pub fn is_any_due(limits: &DrainLimits, elapsed: SignedDuration) -> bool {
    elapsed > limits.free.min(limits.protected)
}

/// Whether the drain has failed: nothing that is still to come would help, and what was done had
/// its time. Without help (`disableDrainStrategies`) it has when it takes longer than
/// `nodeDrain.timeOut`.
pub fn has_failed(
    limits: &DrainLimits,
    pods: &[StuckPod],
    is_helped: bool,
    elapsed: SignedDuration,
) -> bool {
    if !is_helped {
        return elapsed > limits.free;
    }
    let to_come = |strategy: &DrainStrategy| elapsed <= strategy.wait(limits);
    let helps = |strategy: &DrainStrategy| pods.iter().any(|pod| strategy.is_for(pod));
    if DrainStrategy::ALL
        .iter()
        .any(|strategy| to_come(strategy) && helps(strategy))
    {
        return false;
    }
    let waits = DrainStrategy::ALL.map(|strategy| strategy.wait(limits));
    let longest = waits.into_iter().filter(|wait| elapsed > *wait).max();
    let longest = longest.unwrap_or_default();
    elapsed > longest.saturating_add(limits.expected).max(limits.free)
}

#[cfg(test)]
mod tests {
    use super::RemovalRight::{Ask, Force};
    use super::*;
    use crate::fixture::at;

    const LIMITS: DrainLimits = DrainLimits {
        free: SignedDuration::from_mins(45),
        protected: SignedDuration::from_mins(68),
        expected: SignedDuration::from_mins(8),
    };

    fn pod(has_budget: bool, is_terminating: bool, has_finalizers: bool) -> StuckPod {
        StuckPod {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "1".to_owned(),
            is_terminating,
            ends: Some(at(0)).filter(|_| is_terminating),
            has_finalizers,
            has_budget,
        }
    }

    fn mins(minutes: i64) -> SignedDuration {
        SignedDuration::from_mins(minutes)
    }

    fn names(due: &[(DrainStrategy, &StuckPod)]) -> Vec<&'static str> {
        due.iter().map(|(strategy, _)| strategy.as_str()).collect()
    }

    #[test]
    fn nothing_is_removed_from_a_node_that_may_still_run_its_pods() {
        let begun = DrainStart::At(at(0));
        let table = [
            (true, false, begun, Ok((Ask, mins(99)))),
            // The taint counts where its kubelet is silent.
            (true, true, begun, Ok((Ask, mins(99)))),
            (false, true, begun, Ok((Force, mins(99)))),
            (false, false, begun, Err(DrainHold::NotReady)),
            (false, false, DrainStart::Unknown, Err(DrainHold::NotReady)),
            (
                true,
                false,
                DrainStart::Unknown,
                Err(DrainHold::UnknownStart),
            ),
            (
                true,
                true,
                DrainStart::Unknown,
                Err(DrainHold::UnknownStart),
            ),
            (
                false,
                true,
                DrainStart::Unknown,
                Ok((Force, SignedDuration::MAX)),
            ),
        ];
        for (is_ready, is_out_of_service, start, expected) in table {
            let node = UpgradeNode {
                is_ready,
                reported: Some(at(99)),
                is_out_of_service,
                ..UpgradeNode::default()
            };
            let found = right(&node, start, at(99));
            assert_eq!(found, expected, "{is_ready} {is_out_of_service} {start:?}");
        }
    }

    #[test]
    fn pod_that_was_asked_to_end_is_removed_only_if_it_outlives_its_grace_period() {
        let ending = |ends: Option<i64>, has_finalizers| StuckPod {
            ends: ends.map(at),
            ..pod(false, true, has_finalizers)
        };
        let table = [
            (ending(Some(99), false), Ask, vec![]),
            (ending(Some(101), false), Ask, vec![]),
            (ending(Some(98), false), Ask, vec!["POD-STUCK-TERMINATING"]),
            (ending(Some(98), true), Ask, vec!["DEFAULT-FINALIZER"]),
            (ending(Some(99), true), Ask, vec![]),
            (ending(None, false), Ask, vec![]),
            (
                ending(Some(101), false),
                Force,
                vec!["POD-STUCK-TERMINATING"],
            ),
            (ending(Some(101), true), Force, vec!["DEFAULT-FINALIZER"]),
            (
                pod(false, false, true),
                Force,
                vec!["DELETE", "DEFAULT-FINALIZER"],
            ),
        ];
        for (pod, right, expected) in table {
            let pods = [pod];
            let found = due(&LIMITS, &pods, (right, mins(100)), at(100));
            assert_eq!(names(&found), expected, "{pods:?} {right:?}");
        }
        let removal = |strategy: DrainStrategy| (strategy.removal(Ask), strategy.removal(Force));
        let end = (ForcedRemoval::End, ForcedRemoval::Delete);
        assert_eq!(removal(DrainStrategy::Delete), end);
        assert_eq!(removal(DrainStrategy::PdbDelete), end);
        let delete = (ForcedRemoval::Delete, ForcedRemoval::Delete);
        assert_eq!(removal(DrainStrategy::PodStuckTerminating), delete);
    }

    #[test]
    fn each_kind_of_pod_is_removed_after_its_time_in_order() {
        let table = [
            (pod(false, false, false), 45, vec![]),
            (pod(false, false, false), 46, vec!["DELETE"]),
            // Its finalizers stay as long as it may end by itself.
            (pod(false, false, true), 46, vec!["DELETE"]),
            (pod(false, true, true), 46, vec!["DEFAULT-FINALIZER"]),
            (pod(false, true, false), 46, vec!["POD-STUCK-TERMINATING"]),
            (pod(true, false, false), 68, vec![]),
            (pod(true, false, false), 69, vec!["PDB-DELETE"]),
            (pod(true, false, true), 69, vec!["PDB-DELETE"]),
            (pod(true, true, true), 69, vec!["PDB-FINALIZER"]),
            (pod(true, true, false), 69, vec!["PDB-STUCK-TERMINATING"]),
            // The clock was set back.
            (pod(true, true, false), -69, vec![]),
        ];
        for (pod, minute, expected) in table {
            let pods = [pod];
            let found = names(&due(&LIMITS, &pods, (Ask, mins(minute)), at(minute)));
            assert_eq!(found, expected, "{pods:?} {minute}");
        }
        assert!(!is_any_due(&LIMITS, mins(45)) && is_any_due(&LIMITS, mins(46)));
    }

    #[test]
    fn drain_has_failed_when_nothing_to_come_helps() {
        let free = pod(false, false, false);
        let protected = pod(true, false, false);
        let table = [
            (vec![free.clone()], true, 45, false),
            // It was deleted, and has the usual time to go.
            (vec![free.clone()], true, 53, false),
            (vec![free.clone()], true, 54, true),
            // Its turn is to come.
            (vec![protected.clone()], true, 68, false),
            (vec![protected.clone()], true, 76, false),
            (vec![protected], true, 77, true),
            (vec![free.clone()], false, 45, false),
            (vec![free], false, 46, true),
        ];
        for (pods, is_helped, minute, expected) in table {
            let found = has_failed(&LIMITS, &pods, is_helped, mins(minute));
            assert_eq!(found, expected, "{pods:?} {is_helped} {minute}");
        }
        // A force at once does not make a drain fail before `nodeDrain.timeOut`.
        let soon = DrainLimits {
            protected: SignedDuration::from_mins(8),
            ..LIMITS
        };
        assert!(!has_failed(&soon, &[], true, mins(45)));
    }
}
