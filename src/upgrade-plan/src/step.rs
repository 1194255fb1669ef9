//! The steps of an upgrade, as data: what each is, what it waits for, when it is late, and what
//! happens if it fails.

use std::fmt;

use api::upgrade::UpgradeType;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradeStep {
    /// Its name in a custom list.
    pub name: StepName,
    /// Type of its condition.
    pub condition: &'static str,
    pub kind: StepKind,
    /// Whether it runs again after it was done.
    pub rerun: Rerun,
    /// What must hold for it to be done.
    pub waits_for: &'static str,
    pub deadline: StepDeadline,
    /// What happens if it does not succeed.
    pub on_failure: OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// It reads, and holds the upgrade.
    Gate,
    Action,
    /// It waits for what other operators do.
    Wait,
}

/// Whether a step that was done runs again in a later pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rerun {
    /// Until the cluster's version was set; from then on it counts as done.
    UntilCommenced,
    /// Until another step is done.
    Until(StepName),
    Never,
}

/// When a step is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDeadline {
    /// Never by itself; before the cluster's version was set, `upgradeWindow.timeOut` ends all.
    None,
    /// `upgradeWindow.delayTrigger`.
    DelayTrigger,
    /// `extDependencyAvailabilityChecks.http.timeout`, for each address.
    DependencyTimeout,
    /// `scale.timeOut`, from the creation of each MachineSet.
    ScaleTimeout,
    /// `maintenance.controlPlaneTime`.
    ControlPlaneTime,
    /// The end of the workers' silence.
    WorkerWindow,
    /// `nodeDrain.timeOut`, for each machine.
    NodeDrainTimeout,
}

/// What happens if a step does not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It holds the upgrade, is evaluated again at a steady pace, and says why.
    Hold,
    /// It holds the upgrade and is tried again after a growing time.
    Retry,
    /// The upgrade goes on without it after the deadline.
    CarryOn,
}

macro_rules! names {
    ($($name:ident),+ $(,)?) => {
        /// Name of a step in a custom list: that of upstream's function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum StepName { $($name),+ }

        impl StepName {
            /// All steps, in the order of OSD.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }
        }
    };
}

names! {
    SendStartedNotification,
    UpgradeDelayedCheck,
    IsUpgradeable,
    PreUpgradeHealthCheck,
    ExternalDependencyAvailabilityCheck,
    EnsureExtraUpgradeWorkers,
    CreateControlPlaneMaintWindow,
    CommenceUpgrade,
    ControlPlaneUpgraded,
    RemoveControlPlaneMaintWindow,
    CreateWorkerMaintWindow,
    AllWorkersUpgraded,
    RemoveExtraScaledNodes,
    RemoveMaintWindow,
    PostUpgradeHealthCheck,
    PostUpgradeProcedures,
    SendCompletedNotification,
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StepName {
    /// The step of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| step.as_str() == name)
    }

    #[expect(clippy::too_many_lines, reason = "a table, one row a step")]
    pub const fn step(self) -> UpgradeStep {
        use OnFailure::{CarryOn, Hold, Retry};
        use Rerun::{Never, Until, UntilCommenced};
        use StepKind::{Action, Gate, Wait};
        let (condition, kind, rerun, waits_for, deadline, on_failure) = match self {
            Self::SendStartedNotification => (
                "StartedNotificationSent",
                Action,
                Never,
                "the start is announced",
                StepDeadline::None,
                Retry,
            ),
            Self::UpgradeDelayedCheck => (
                "StartedNotificationSent",
                Action,
                UntilCommenced,
                "a delay, if there is one, is announced",
                StepDeadline::DelayTrigger,
                Retry,
            ),
            Self::IsUpgradeable => (
                "IsClusterUpgradable",
                Gate,
                UntilCommenced,
                "ClusterVersion is not Upgradeable=False, or the minor release stays",
                StepDeadline::None,
                Hold,
            ),
            Self::PreUpgradeHealthCheck => (
                "ClusterHealthyBeforeUpgrade",
                Gate,
                UntilCommenced,
                "no critical alert fires and no operator is degraded",
                StepDeadline::None,
                Hold,
            ),
            Self::ExternalDependencyAvailabilityCheck => (
                "ExternalDependenciesAvailable",
                Gate,
                UntilCommenced,
                "each address answers",
                StepDeadline::DependencyTimeout,
                Hold,
            ),
            Self::EnsureExtraUpgradeWorkers => (
                "ComputeCapacityReserved",
                Action,
                UntilCommenced,
                "each worker MachineSet has a copy whose node is ready",
                StepDeadline::ScaleTimeout,
                CarryOn,
            ),
            Self::CreateControlPlaneMaintWindow => (
                "ControlPlaneMaintenanceWindowCreated",
                Action,
                Never,
                "alerts of the control plane are silenced",
                StepDeadline::None,
                Retry,
            ),
            Self::CommenceUpgrade => (
                "UpgradeCommenced",
                Action,
                UntilCommenced,
                "ClusterVersion names the release",
                StepDeadline::None,
                Retry,
            ),
            Self::ControlPlaneUpgraded => (
                "ControlPlaneUpgraded",
                Wait,
                Never,
                "ClusterVersion's history has the version as Completed",
                StepDeadline::ControlPlaneTime,
                Hold,
            ),
            Self::RemoveControlPlaneMaintWindow => (
                "ControlPlaneMaintenanceWindowRemoved",
                Action,
                Never,
                "the silences of the control plane are gone",
                StepDeadline::None,
                Retry,
            ),
            Self::CreateWorkerMaintWindow => (
                "WorkersMaintenanceWindowCreated",
                Action,
                Until(Self::AllWorkersUpgraded),
                "alerts of workers are silenced, if workers are pending",
                StepDeadline::None,
                Retry,
            ),
            Self::AllWorkersUpgraded => (
                "WorkerNodesUpgraded",
                Wait,
                Never,
                "no MachineConfigPool is paused, and each has all machines updated",
                StepDeadline::WorkerWindow,
                Hold,
            ),
            Self::RemoveExtraScaledNodes => (
                "ComputeCapacityRemoved",
                Action,
                Never,
                "no machine of a copy is left",
                StepDeadline::NodeDrainTimeout,
                Retry,
            ),
            Self::RemoveMaintWindow => (
                "WorkersMaintenanceWindowRemoved",
                Action,
                Never,
                "the silences of workers are gone",
                StepDeadline::None,
                Retry,
            ),
            Self::PostUpgradeHealthCheck => (
                "ClusterHealthyAfterUpgrade",
                Gate,
                Never,
                "no critical alert fires and no operator is degraded",
                StepDeadline::None,
                Hold,
            ),
            Self::PostUpgradeProcedures => (
                "PostUpgradeTasksCompleted",
                Action,
                Never,
                "the file integrity database is to be initialised, if the cluster is FedRAMP's",
                StepDeadline::None,
                Retry,
            ),
            Self::SendCompletedNotification => (
                "CompletedNotificationSent",
                Action,
                Never,
                "the end is announced",
                StepDeadline::None,
                Retry,
            ),
        };
        UpgradeStep {
            name: self,
            condition,
            kind,
            rerun,
            waits_for,
            deadline,
            on_failure,
        }
    }
}

/// The steps of an upgrade of that type where no custom list is given: 17 of OSD, 14 of ARO.
pub fn usual(r#type: &UpgradeType) -> Vec<UpgradeStep> {
    let is_left_out = |name: &StepName| {
        *r#type == UpgradeType::Aro
            && matches!(
                name,
                StepName::UpgradeDelayedCheck
                    | StepName::IsUpgradeable
                    | StepName::PostUpgradeProcedures
            )
    };
    let names = StepName::ALL.iter().filter(|name| !is_left_out(name));
    names.map(|name| name.step()).collect()
}

/// Steps of which the first, where it is in a list, needs the second after it.
const PAIRS: [(StepName, StepName); 5] = [
    (StepName::CommenceUpgrade, StepName::ControlPlaneUpgraded),
    (StepName::ControlPlaneUpgraded, StepName::AllWorkersUpgraded),
    (
        StepName::EnsureExtraUpgradeWorkers,
        StepName::RemoveExtraScaledNodes,
    ),
    (
        StepName::CreateControlPlaneMaintWindow,
        StepName::RemoveControlPlaneMaintWindow,
    ),
    (
        StepName::CreateWorkerMaintWindow,
        StepName::RemoveMaintWindow,
    ),
];

/// Why steps in some order make no upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// One that no upgrade can do without is missing.
    #[error("step {0} is missing")]
    Missing(StepName),
    /// The second has to come after the first.
    #[error("step {0} needs {1} after it")]
    Unpaired(StepName, StepName),
    /// It comes when the cluster is changed already.
    #[error("step {step} has no effect after {}", StepName::CommenceUpgrade)]
    TooLate { step: StepName },
}

/// Whether steps in this order make an upgrade: it changes the cluster, asks its gates before, and
/// removes at the end what it added.
///
/// # Errors
/// [`OrderError`]: what is missing or stands in the wrong place.
pub fn check_order(steps: &[StepName]) -> Result<(), OrderError> {
    let place = |name: StepName| steps.iter().position(|step| *step == name);
    let Some(commence) = place(StepName::CommenceUpgrade) else {
        return Err(OrderError::Missing(StepName::CommenceUpgrade));
    };
    for (first, second) in PAIRS {
        if let Some(at) = place(first)
            && place(second).is_none_or(|after| after < at)
        {
            return Err(OrderError::Unpaired(first, second));
        }
    }
    for step in steps {
        let is_before = step.step().rerun == Rerun::UntilCommenced;
        if is_before && place(*step).is_some_and(|at| at > commence) {
            return Err(OrderError::TooLate { step: *step });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_steps_are_the_reviewed_ones() {
        let mut text = String::new();
        for r#type in [UpgradeType::Osd, UpgradeType::Aro] {
            use std::fmt::Write as _;
            let steps = usual(&r#type);
            writeln!(text, "{type}: {} steps", steps.len()).unwrap();
            for (number, step) in steps.iter().enumerate() {
                writeln!(
                    text,
                    "{:2} {} | {} | {:?} | again: {:?} | done when {} | late by: {:?} | on failure: {:?}",
                    number + 1,
                    step.name,
                    step.condition,
                    step.kind,
                    step.rerun,
                    step.waits_for,
                    step.deadline,
                    step.on_failure
                )
                .unwrap();
            }
        }
        golden::assert(env!("CARGO_MANIFEST_DIR"), "tests/golden/steps.txt", &text);
    }

    #[test]
    fn usual_lists_are_in_order() {
        for r#type in [UpgradeType::Osd, UpgradeType::Aro] {
            let names: Vec<StepName> = usual(&r#type).iter().map(|step| step.name).collect();
            assert_eq!(check_order(&names), Ok(()));
        }
    }

    #[test]
    fn list_that_changes_nothing_or_leaves_something_behind_is_refused() {
        use StepName::{
            AllWorkersUpgraded, CommenceUpgrade, ControlPlaneUpgraded, CreateWorkerMaintWindow,
            PreUpgradeHealthCheck,
        };
        let table = [
            (vec![PreUpgradeHealthCheck], "CommenceUpgrade is missing"),
            (
                vec![CommenceUpgrade],
                "CommenceUpgrade needs ControlPlaneUpgraded",
            ),
            (
                vec![ControlPlaneUpgraded, CommenceUpgrade, AllWorkersUpgraded],
                "CommenceUpgrade needs ControlPlaneUpgraded",
            ),
            (
                vec![
                    CommenceUpgrade,
                    ControlPlaneUpgraded,
                    CreateWorkerMaintWindow,
                    AllWorkersUpgraded,
                ],
                "CreateWorkerMaintWindow needs RemoveMaintWindow",
            ),
            (
                vec![
                    CommenceUpgrade,
                    PreUpgradeHealthCheck,
                    ControlPlaneUpgraded,
                    AllWorkersUpgraded,
                ],
                "PreUpgradeHealthCheck has no effect after",
            ),
        ];
        for (steps, expected) in table {
            let why = check_order(&steps).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }
}
