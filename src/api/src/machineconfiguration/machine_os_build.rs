//! MachineOSBuild: one build of a pool's OS image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::machine_config_pool::NamedReference;
use super::machine_os_config::BuildReference;
use crate::condition::{self, Condition, ConditionStatus, words};
use crate::nullable;

/// What is built. It is immutable.
///
/// Source: `machineosbuilds.machineconfiguration.openshift.io`, `spec`. The definition is
/// upstream's, unmodified.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSBuild",
    plural = "machineosbuilds",
    status = "MachineOsBuildStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "MachineOSBuild is one build of a pool's OS image."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineOsBuildSpec {
    /// The rendered MachineConfig that the image is built for.
    pub machine_config: NamedReference,
    /// What it is built from.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: NamedReference,
    /// Where the image is pushed to, with a tag.
    pub rendered_image_push_spec: String,
}

/// How far a build is.
///
/// Source: `machineosbuilds.machineconfiguration.openshift.io`, `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOsBuildStatus {
    /// When its Job was made. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_start: Option<Time>,
    /// When it ended, later than `build_start`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_end: Option<Time>,
    /// What builds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<BuilderReference>,
    /// What holds about it. Immutable once one of `Succeeded`, `Failed` and `Interrupted` is True.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub conditions: Vec<Condition<BuildConditionType>>,
    /// The image, by digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digested_image_push_spec: Option<String>,
    /// What was made for it and is removed at its end; at most ten.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub related_objects: Vec<BuildReference>,
}

/// What builds an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuilderReference {
    /// `Job`.
    pub image_builder_type: String,
    /// The Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<BuildReference>,
}

words! {
    /// Types of a build's conditions.
    pub enum BuildConditionType {
        /// What the build needs is made.
        Prepared = "Prepared",
        /// Its Job runs.
        Building = "Building",
        /// It failed. Final.
        Failed = "Failed",
        /// It was ended before its time. Final.
        Interrupted = "Interrupted",
        /// Its image is pushed. Final.
        Succeeded = "Succeeded",
    }
}

/// How far a build is, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildPhase {
    /// Nothing was made for it yet.
    Initial,
    /// What it needs is made.
    Prepared,
    /// Its Job runs.
    Building,
    /// It failed.
    Failed,
    /// It was ended before its time.
    Interrupted,
    /// Its image is pushed.
    Succeeded,
}

impl BuildPhase {
    /// Whether it changes no more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Failed | Self::Interrupted | Self::Succeeded => true,
            Self::Initial | Self::Prepared | Self::Building => false,
        }
    }
}

/// Why no pod of a build runs, as the reason of condition `Building` of its MachineOSBuild. Ours,
/// not upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildHold {
    /// The Job has no pod.
    NoPod,
    /// No node takes the pod.
    PodNotScheduled,
    /// The kubelet cannot start the pod's container.
    ContainerWaits,
}

impl BuildHold {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::NoPod, Self::PodNotScheduled, Self::ContainerWaits];

    /// The reason of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoPod => "NoPod",
            Self::PodNotScheduled => "PodNotScheduled",
            Self::ContainerWaits => "ContainerWaits",
        }
    }
}

impl MachineOSBuild {
    /// Why no pod of it runs, and that for people; none where one runs, where nothing was found
    /// yet, and of a build that is over.
    pub fn hold(&self) -> Option<(BuildHold, &str)> {
        if self.phase() != BuildPhase::Building {
            return None;
        }
        let building = self.condition(&BuildConditionType::Building)?;
        let mut holds = BuildHold::ALL.into_iter();
        let hold = holds.find(|hold| hold.as_str() == building.reason)?;
        Some((hold, &building.message))
    }

    /// How far it is. One that says that it succeeded and names no image is not.
    pub fn phase(&self) -> BuildPhase {
        let status = self.status.as_ref();
        let holds = |r#type: &BuildConditionType| {
            self.condition(r#type)
                .is_some_and(|condition| condition.status == ConditionStatus::True)
        };
        let has_image = status.is_some_and(|status| status.digested_image_push_spec.is_some());
        if holds(&BuildConditionType::Failed) {
            BuildPhase::Failed
        } else if holds(&BuildConditionType::Interrupted) {
            BuildPhase::Interrupted
        } else if holds(&BuildConditionType::Succeeded) && has_image {
            BuildPhase::Succeeded
        } else if holds(&BuildConditionType::Building) || holds(&BuildConditionType::Succeeded) {
            BuildPhase::Building
        } else if holds(&BuildConditionType::Prepared) {
            BuildPhase::Prepared
        } else {
            BuildPhase::Initial
        }
    }

    /// Its condition of that type.
    pub fn condition(&self, r#type: &BuildConditionType) -> Option<&Condition<BuildConditionType>> {
        condition::find(&self.status.as_ref()?.conditions, r#type)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn build(conditions: &Value, image: Option<&str>) -> MachineOSBuild {
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
            "metadata": { "name": "worker-1" },
            "spec": {
                "machineConfig": { "name": "rendered-worker-1" },
                "machineOSConfig": { "name": "worker" },
                "renderedImagePushSpec": "registry.example/os:worker-1",
            },
            "status": { "conditions": conditions, "digestedImagePushSpec": image },
        }))
        .unwrap()
    }

    fn holding(types: &[&str]) -> Value {
        let conditions = types.iter().map(|r#type| {
            json!({
                "type": r#type, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        });
        conditions.collect()
    }

    #[test]
    fn a_build_is_as_far_as_its_conditions_say() {
        for (types, phase) in [
            (&[][..], BuildPhase::Initial),
            (&["Prepared"], BuildPhase::Prepared),
            (&["Prepared", "Building"], BuildPhase::Building),
            (&["Building", "Failed"], BuildPhase::Failed),
            (&["Interrupted"], BuildPhase::Interrupted),
            (&["Succeeded"], BuildPhase::Succeeded),
        ] {
            let build = build(&holding(types), Some("registry.example/os@sha256:0"));
            assert_eq!(build.phase(), phase, "{types:?}");
        }
        // Without an image it is not over.
        let lost = build(&holding(&["Succeeded"]), None);
        assert_eq!(lost.phase(), BuildPhase::Building);
        assert_eq!(build(&Value::Null, None).phase(), BuildPhase::Initial);
    }

    #[test]
    fn a_build_is_held_by_its_condition_building_alone() {
        let hold = |types: &[&str], reason: &str| {
            let mut conditions = holding(types);
            for condition in conditions.as_array_mut().unwrap() {
                condition["reason"] = json!(reason);
                condition["message"] = json!("why");
            }
            let build = build(&conditions, None);
            build.hold().map(|(hold, why)| (hold, why.to_owned()))
        };
        for expected in BuildHold::ALL {
            let found = hold(&["Building"], expected.as_str());
            assert_eq!(found, Some((expected, "why".to_owned())));
            assert_eq!(hold(&["Building", "Failed"], expected.as_str()), None);
            assert_eq!(hold(&["Prepared"], expected.as_str()), None);
        }
        assert_eq!(hold(&["Building"], "Building"), None);
        assert_eq!(hold(&[], ""), None);
    }
}
