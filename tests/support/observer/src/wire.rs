//! Names on the wire, written out: a judge that took them from the programs it judges would share
//! their typing errors.

/// On a Node: the configuration in force.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// On a Node: how far it is.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Value of [`STATE`].
pub const DONE: &str = "Done";
/// On a Node: topology of the control plane.
pub const CONTROL_PLANE_TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";
/// Value of [`CONTROL_PLANE_TOPOLOGY`].
pub const SINGLE_REPLICA: &str = "SingleReplica";
/// On a Node: phase of its daemon's state machine.
pub const PHASE: &str = "slipway.dev/phase";
/// Value of [`PHASE`].
pub const REBOOTING: &str = "Rebooting";
/// Value of [`PHASE`] while the daemon reads its host.
pub const STARTING: &str = "Starting";
/// On a Node: what it waits for.
pub const WAITS_FOR: &str = "slipway.dev/waits-for";

/// Namespace of the programs.
pub const NAMESPACE: &str = "openshift-machine-config-operator";
/// The one ControllerConfig.
pub const CONTROLLER_CONFIG: &str = "machine-config-controller";

#[cfg(test)]
mod tests {
    use api::machineconfiguration::{
        NodeState, NodeStatus, PhaseName, annotation, controller_config,
    };

    use super::*;

    #[test]
    fn the_programs_use_the_same_names() {
        for (ours, theirs) in [
            (CURRENT_CONFIG, annotation::CURRENT_CONFIG),
            (STATE, annotation::STATE),
            (DONE, NodeState::Done.as_str()),
            (CONTROL_PLANE_TOPOLOGY, annotation::CONTROL_PLANE_TOPOLOGY),
            (PHASE, annotation::PHASE),
            (REBOOTING, PhaseName::Rebooting.as_str()),
            (STARTING, PhaseName::Starting.as_str()),
            (WAITS_FOR, annotation::WAITS_FOR),
            (NAMESPACE, api::machineconfiguration::NAMESPACE),
            (CONTROLLER_CONFIG, controller_config::NAME),
        ] {
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn the_programs_read_a_single_replica_as_the_judge_does() {
        let read = |value: &str| {
            let annotations = [(CONTROL_PLANE_TOPOLOGY.to_owned(), value.to_owned())];
            NodeStatus::read(&annotations.into()).is_single_replica()
        };
        assert!(read(SINGLE_REPLICA));
        assert!(!read("HighlyAvailable"));
    }
}
