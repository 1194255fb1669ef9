//! What is known when a step is chosen. What is not known is requested by the step.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::{MachineOSBuild, MachineOSConfig};
use jiff::Timestamp;

use crate::hold::PodHold;
use crate::inputs::ImageInputs;
use crate::outcome::{JobView, PodEnd};
use crate::refusal::BuildRefusal;

/// What is wanted of a MachineOSConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedBuild {
    /// Its pool has no rendered configuration yet.
    NotYet,
    /// No image can be built from its inputs.
    Refused(BuildRefusal),
    /// An image of these inputs.
    Image(Box<PlannedBuild>),
}

/// A build that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedBuild {
    /// Name of the MachineOSBuild.
    pub name: String,
    /// Digest of its content.
    pub content: String,
    pub inputs: ImageInputs,
    /// Why its Job cannot be made: a setting of the pool's policy, or no builder's image. A build
    /// whose Job runs is not ended for it.
    pub obstacle: Option<BuildRefusal>,
}

impl PlannedBuild {
    /// The build of inputs.
    pub fn new(inputs: ImageInputs, obstacle: Option<BuildRefusal>) -> Self {
        Self {
            name: inputs.build_name(),
            content: inputs.content(),
            inputs,
            obstacle,
        }
    }
}

/// The Job of the wanted build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Absent,
    /// It is there.
    Present(JobView, Box<JobPods>),
}

/// What is known of the pods of a Job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobPods {
    /// The end of the newest of those that ended, once the Job has ended.
    pub ended: Option<PodEnd>,
    /// Why none runs, while the Job has not ended.
    pub held: Option<PodHold>,
}

/// What a registry responds about an image. Only the first three are certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryReply {
    /// It is there, with this digest.
    Present(String),
    /// The repository has no such image.
    Absent,
    /// There is no such repository.
    NoRepository,
    /// The credentials do not suffice, or there are none.
    NotAllowed(String),
    /// The registry cannot do that.
    NotSupported(String),
    /// It does not respond, or with an error of its own.
    Unreachable(String),
}

impl RegistryReply {
    /// Whether the image is certainly not there.
    pub const fn is_absent(&self) -> bool {
        match self {
            Self::Absent | Self::NoRepository => true,
            Self::Present(_)
            | Self::NotAllowed(_)
            | Self::NotSupported(_)
            | Self::Unreachable(_) => false,
        }
    }
}

/// What a request for the removal of an image came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageRemoval {
    /// It is removed, or was not there.
    Gone,
    /// It stays for good: the registry removes none, or the Secret of its credentials is gone.
    Stays(String),
    /// It may be removed later.
    Later(String),
}

/// What was requested for this choice of a step, by a query before it. Nothing is remembered
/// beyond an action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedFacts {
    /// The Job of the wanted build.
    pub job: Option<JobState>,
    /// Whether the Secrets of the wanted build can be read, or what is wrong with one.
    pub logins: Option<Result<(), BuildRefusal>>,
    /// Whether an image is in its registry, by pull spec.
    pub images: BTreeMap<String, RegistryReply>,
    /// What a tag names, by push spec.
    pub tags: BTreeMap<String, RegistryReply>,
    /// Removals of images, by pull spec.
    pub removals: BTreeMap<String, ImageRemoval>,
}

/// What is known of a MachineOSConfig, its builds, and who needs their images.
#[derive(Debug, Clone, Copy)]
pub struct BuildObserved<'a> {
    /// The MachineOSConfig; none where it was deleted.
    pub config: Option<&'a MachineOSConfig>,
    pub wanted: &'a WantedBuild,
    /// Builds of this MachineOSConfig, by name.
    pub builds: &'a [&'a MachineOSBuild],
    /// `currentImage` of the pool's nodes.
    pub images_of_members: &'a [Option<&'a str>],
    /// Images that nodes have or are assigned, that another MachineOSConfig names, or one of its
    /// builds.
    pub images_in_use: &'a BTreeSet<&'a str>,
    /// Unique ids of builds whose objects were removed.
    pub cleaned: &'a BTreeSet<String>,
    pub facts: &'a RequestedFacts,
    pub now: Timestamp,
}
