//! What a decision is made of, and what it says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use release::{PullSpec, Version};
use serde_json::Value;

use crate::health::HealthFinding;
use crate::history::StepOutcome;
use crate::notice::NoticeState;
use crate::pass::Pass;
use crate::phase::PhaseEvent;
use crate::silence::{ListedSilence, WantedSilence};
use crate::step::{StepName, UpgradeStep};

/// Something to observe before the next decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradeObservation {
    /// The version of an image: [`Observations::checked`].
    Image { current: Version, image: PullSpec },
    /// Whether the update service offers a version: [`Observations::checked`].
    Graph { current: Version, desired: Version },
    /// The source of the UpgradeConfig: [`Observations::source`].
    Source,
    /// The UpgradeConfig as it is now: [`Observations::is_current`].
    Latest,
    /// Nodes, whose drains are helped: [`Observations::has_nodes`].
    Nodes,
    /// The Job of a hook, by its name: [`Observations::jobs`].
    Job(String),
    /// [`Observations::findings`].
    Findings,
    /// [`Observations::dependencies`].
    Dependencies,
    /// [`Observations::sets`].
    MachineSets,
    /// [`Observations::machines`], and whether nodes are ready: [`Observations::ready`].
    Machines,
    /// Drains of machines that are taken away, which are helped: [`Observations::drains`].
    Drains,
    /// [`Observations::silences`].
    Silences,
}

/// Something to do. Each may be done twice.
#[derive(Debug, Clone, PartialEq)]
pub enum UpgradeCommand {
    /// Notes that the UpgradeConfig can be followed.
    NoteValid,
    /// Notes why it cannot.
    NoteInvalid(String),
    /// Writes the version of its image into the UpgradeConfig.
    AdoptVersion(Version),
    /// Announces a state, with its cause.
    Announce(NoticeState, String),
    /// The same. The upgrade goes on if that fails.
    TryToAnnounce(NoticeState, String),
    /// Sets a gauge; whether it has the version as a label.
    Gauge(&'static str, f64, bool),
    /// Creates the Job of a hook of this name.
    CreateJob(String, Value),
    /// Writes that a hook has succeeded: the condition, and what is said of it.
    NoteHook(String, String),
    /// Shows nodes whose drain has failed.
    ShowDrains(Vec<String>),
    /// Creates a MachineSet.
    CreateMachineSet(Value),
    /// Deletes a MachineSet.
    DeleteMachineSet(String),
    /// Creates a silence of this length.
    CreateSilence(WantedSilence, SignedDuration),
    /// Ends silences, by their ids: all are tried.
    EndSilences(Vec<String>),
    /// Sends this merge patch of the channel to ClusterVersion.
    SetChannel(Value),
    /// Sends this merge patch of the release to ClusterVersion.
    SetRelease(Value),
    /// Has the file integrity database initialised.
    InitialiseFileIntegrity,
    /// Removes what was added for the upgrade.
    RemoveAdded,
    /// Notes that the upgrade was given up.
    NoteFailed,
    /// Notes why it could not be given up yet.
    NoteUnfailed(String),
    /// Releases the leases of drains.
    ReleaseNodes,
}

/// What is written of how far the upgrade is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradeProgress {
    /// It goes to another phase.
    Enter(PhaseEvent),
    /// A step is about to run: the intent comes before the first effect.
    Begin(UpgradeStep),
    /// What came of a step.
    Finish(UpgradeStep, StepOutcome),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    Decide,
    /// An observation, then the next decision.
    Observe(UpgradeObservation),
    /// The step has come to this, before its last hooks.
    Conclude(StepOutcome),
    /// The pass is over: the next one comes with a change.
    Settle,
    /// The pass is over: the next one comes after this time.
    Wait(Duration),
    /// The pass is over: the next one comes after a growing time.
    Retry,
}

/// Commands in order, what they come to, and what follows them.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Commands. One that fails ends them: [`Observations::failed`].
    pub commands: Vec<UpgradeCommand>,
    /// What is written after them.
    pub progress: Option<UpgradeProgress>,
    pub then: Then,
}

impl Turn {
    pub(super) const fn act(commands: Vec<UpgradeCommand>, then: Then) -> Self {
        Self {
            commands,
            progress: None,
            then,
        }
    }

    pub(super) const fn progress(progress: UpgradeProgress, then: Then) -> Self {
        Self {
            commands: Vec::new(),
            progress: Some(progress),
            then,
        }
    }

    pub(super) const fn observe(wanted: UpgradeObservation) -> Self {
        Self::act(Vec::new(), Then::Observe(wanted))
    }
}

/// What came of reading the source of the UpgradeConfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// It asks for what there is.
    Same,
    /// The UpgradeConfig was made or deleted.
    Changed,
    /// It asks for no upgrade any more. A response may be wrong once: it has to repeat that.
    Doubted,
    /// It could not be read: nothing is changed.
    Unread,
}

/// Drains of machines that are taken away.
#[derive(Debug, Clone, Default)]
pub struct MachineDrains {
    /// Nodes whose drain takes too long.
    pub stuck: Vec<String>,
    /// What went wrong with others.
    pub faults: Vec<String>,
}

/// What was observed in this pass. Nothing of it is kept over passes.
#[derive(Debug, Default)]
pub struct Observations {
    /// The version of the image, or that the version is offered; else why not.
    pub checked: Option<Result<Option<Version>, String>>,
    pub source: Option<Refreshed>,
    /// Whether the UpgradeConfig is the one of this pass.
    pub is_current: Option<bool>,
    pub has_nodes: bool,
    /// Steps that are done with.
    pub passed: Vec<StepName>,
    /// The step that has begun.
    pub begun: Option<StepName>,
    /// Why a command or an observation of the step failed.
    pub failed: Option<String>,
    /// Jobs of hooks by their names; none for one that is not there.
    pub jobs: BTreeMap<String, Option<Value>>,
    /// What the step itself came to.
    pub outcome: Option<StepOutcome>,
    /// What is wrong with the cluster.
    pub findings: Option<Vec<HealthFinding>>,
    /// Addresses that fail, each with the reason.
    pub dependencies: Option<Vec<String>>,
    pub sets: Option<Vec<Value>>,
    pub machines: Option<Vec<Value>>,
    /// Whether nodes are ready, by name.
    pub ready: BTreeMap<String, bool>,
    /// Drains of machines.
    pub drains: Option<MachineDrains>,
    pub silences: Option<Vec<ListedSilence>>,
}

impl Observations {
    /// What is left of it after a step.
    #[must_use]
    pub fn after(self, step: StepName) -> Self {
        let mut passed = self.passed;
        passed.push(step);
        Self {
            has_nodes: self.has_nodes,
            passed,
            ..Self::default()
        }
    }
}

/// What watches report of workers.
#[derive(Debug, Clone, Default)]
pub struct WorkerFacts {
    /// Machines that are not updated yet.
    pub pending: u32,
    /// Pools that are not done, each with how far it is.
    pub open: Vec<String>,
    /// Nodes from which nothing is removed although it is time.
    pub held: Vec<String>,
}

/// What a decision is made of.
#[derive(Debug, Clone, Copy)]
pub struct UpgradeFacts<'a> {
    pub pass: &'a Pass,
    /// What watches report of workers.
    pub workers: &'a WorkerFacts,
    /// What was observed in this pass.
    pub seen: &'a Observations,
}
