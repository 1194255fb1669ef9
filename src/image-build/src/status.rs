//! Conditions and times of a build. What the API makes immutable is never changed here.

use api::ConditionStatus;
use api::condition::Condition;
use api::machineconfiguration::machine_os_build::BuilderReference;
use api::machineconfiguration::machine_os_config::BuildReference;
use api::machineconfiguration::{
    BuildConditionType, BuildPhase, MachineOSBuild, MachineOsBuildStatus, NAMESPACE,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::hold::PodHold;
use crate::objects::BuildObjectNames;
use crate::outcome::JobView;

/// What a build becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildChange {
    /// What it needs is made.
    Prepared,
    /// Its Job is there.
    Building { started: Option<Timestamp> },
    /// Its Job is there, and no pod of it runs.
    Held(PodHold),
    /// Its image is pushed.
    Succeeded {
        image: String,
        ended: Option<Timestamp>,
    },
    /// Its image is the one of another build, of the same content.
    Reused { image: String, of: String },
    /// It failed.
    Failed {
        message: String,
        ended: Option<Timestamp>,
    },
    /// Its Job is gone.
    Interrupted,
}

impl BuildChange {
    fn condition(&self) -> (BuildConditionType, &'static str, String) {
        match self {
            Self::Prepared => (
                BuildConditionType::Prepared,
                "Prepared",
                "what the build needs is made".to_owned(),
            ),
            Self::Building { .. } => (
                BuildConditionType::Building,
                "Building",
                "its Job runs".to_owned(),
            ),
            Self::Held(PodHold { hold, message }) => {
                (BuildConditionType::Building, hold.as_str(), message.clone())
            }
            Self::Succeeded { .. } => (
                BuildConditionType::Succeeded,
                "Built",
                "the image is pushed".to_owned(),
            ),
            Self::Reused { of, .. } => (
                BuildConditionType::Succeeded,
                "Reused",
                format!("its content is that of {of}, and so is its image"),
            ),
            Self::Failed { message, .. } => {
                (BuildConditionType::Failed, "BuildFailed", message.clone())
            }
            Self::Interrupted => (
                BuildConditionType::Interrupted,
                "JobGone",
                "its Job was deleted before it ended".to_owned(),
            ),
        }
    }

    /// The reason of the conditions that are False.
    fn reason_of_others(&self) -> &'static str {
        let (_, reason, _) = match self {
            // What holds a build is no reason of what it has left behind.
            Self::Held(_) => Self::Building { started: None }.condition(),
            Self::Prepared
            | Self::Building { .. }
            | Self::Succeeded { .. }
            | Self::Reused { .. }
            | Self::Failed { .. }
            | Self::Interrupted => self.condition(),
        };
        reason
    }

    const fn ends(&self) -> bool {
        match self {
            Self::Succeeded { .. } | Self::Failed { .. } | Self::Interrupted => true,
            Self::Prepared | Self::Building { .. } | Self::Held(_) | Self::Reused { .. } => false,
        }
    }
}

/// The status of a build after a change; none of one that is over.
///
/// Shape: all five conditions, one of them True. `buildStart` and `buildEnd` are set once, in whole
/// seconds, the end at least a second after the start.
pub fn changed(
    build: &MachineOSBuild,
    change: &BuildChange,
    now: Timestamp,
) -> Option<MachineOsBuildStatus> {
    match build.phase() {
        BuildPhase::Failed | BuildPhase::Interrupted | BuildPhase::Succeeded => return None,
        BuildPhase::Initial | BuildPhase::Prepared | BuildPhase::Building => {}
    }
    let mut status = build.status.clone().unwrap_or_default();
    let (holding, reason, message) = change.condition();
    for r#type in [
        BuildConditionType::Prepared,
        BuildConditionType::Building,
        BuildConditionType::Failed,
        BuildConditionType::Interrupted,
        BuildConditionType::Succeeded,
    ] {
        let holds = r#type == holding;
        let (reason, text) = if holds {
            (reason, message.clone())
        } else {
            (change.reason_of_others(), String::new())
        };
        let condition = Condition {
            status: ConditionStatus::from(holds),
            last_transition_time: Time(now),
            reason: reason.to_owned(),
            message: text,
            observed_generation: build.metadata.generation,
            r#type,
        };
        api::condition::set(&mut status.conditions, condition);
    }
    let start = |started: &Option<Timestamp>| Time(whole_seconds(started.unwrap_or(now)));
    match change {
        BuildChange::Building { started } => {
            status.build_start.get_or_insert_with(|| start(started));
            status.builder.get_or_insert_with(|| builder(build));
        }
        BuildChange::Succeeded { image, .. } | BuildChange::Reused { image, .. } => {
            status.digested_image_push_spec = Some(image.clone());
        }
        BuildChange::Prepared
        | BuildChange::Held(_)
        | BuildChange::Failed { .. }
        | BuildChange::Interrupted => {}
    }
    if change.ends() && status.build_end.is_none() {
        let ended = match change {
            BuildChange::Succeeded { ended, .. } | BuildChange::Failed { ended, .. } => *ended,
            BuildChange::Prepared
            | BuildChange::Building { .. }
            | BuildChange::Held(_)
            | BuildChange::Reused { .. }
            | BuildChange::Interrupted => None,
        };
        let end = whole_seconds(ended.unwrap_or(now));
        let start = status.build_start.get_or_insert(Time(end)).0;
        let first = start
            .saturating_add(SignedDuration::from_secs(1))
            .unwrap_or(end);
        status.build_end = Some(Time(end.max(first)));
    }
    Some(status)
}

/// When a build's Job was made.
pub const fn start_of(job: &JobView) -> BuildChange {
    BuildChange::Building {
        started: job.created,
    }
}

fn builder(build: &MachineOSBuild) -> BuilderReference {
    let name = build.metadata.name.as_deref().unwrap_or_default();
    BuilderReference {
        image_builder_type: "Job".to_owned(),
        job: Some(BuildReference {
            group: "batch".to_owned(),
            resource: "jobs".to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
            name: BuildObjectNames::of(name).job,
        }),
    }
}

/// The API keeps whole seconds.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
pub(crate) mod tests;
