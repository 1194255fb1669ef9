//! The OS image of a pool in image mode: how far it is, as its builder has published it.

use std::fmt;

use api::ConditionStatus;
use api::machineconfiguration::machine_config_pool::{PoolConditionReason, PoolConditionType};
use api::machineconfiguration::machine_os_config::REFUSED;
use api::machineconfiguration::{BuildConditionType, BuildPhase, MachineOSBuild, MachineOSConfig};

use crate::finding::Finding;

/// The image that a MachineOSConfig has built for its pool.
///
/// Source: MachineOSConfig and MachineOSBuild objects, as the builder writes their status.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolImage {
    /// Name of the MachineOSConfig.
    pub config: String,
    pub state: PoolImageState,
}

/// How far an image is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PoolImageState {
    /// The MachineOSConfig cannot be followed, for this reason.
    Refused(String),
    /// No build was begun for the pool's configuration and the MachineOSConfig as it is.
    NotBegun,
    /// This build is to start.
    Pending { build: String },
    /// What this build needs is made.
    Prepared { build: String },
    /// This build runs; or why no pod of it does.
    Building { build: String, held: Option<String> },
    /// This build failed, with this message.
    Failed { build: String, why: String },
    /// This build was ended before its time.
    Interrupted { build: String },
    /// This build pushed this image.
    Built { build: String, image: String },
}

impl PoolImage {
    /// Reads how far the image for the rendered configuration of this name is. A build counts only
    /// if the builder chose it for the MachineOSConfig as it is, and for that configuration.
    pub fn read<'a>(
        config: &MachineOSConfig,
        build: impl FnOnce(&str) -> Option<&'a MachineOSBuild>,
        rendered: Option<&str>,
    ) -> Self {
        let name = config.metadata.name.clone().unwrap_or_default();
        let state = PoolImageState::read(config, build, rendered);
        Self {
            config: name,
            state,
        }
    }

    /// The image that nodes get.
    pub fn image(&self) -> Option<&str> {
        match &self.state {
            PoolImageState::Built { image, .. } => Some(image),
            PoolImageState::Refused(_)
            | PoolImageState::NotBegun
            | PoolImageState::Pending { .. }
            | PoolImageState::Prepared { .. }
            | PoolImageState::Building { .. }
            | PoolImageState::Failed { .. }
            | PoolImageState::Interrupted { .. } => None,
        }
    }

    /// The build, if one was chosen.
    pub fn build(&self) -> Option<&str> {
        match &self.state {
            PoolImageState::Refused(_) | PoolImageState::NotBegun => None,
            PoolImageState::Pending { build }
            | PoolImageState::Prepared { build }
            | PoolImageState::Building { build, .. }
            | PoolImageState::Failed { build, .. }
            | PoolImageState::Interrupted { build }
            | PoolImageState::Built { build, .. } => Some(build),
        }
    }

    /// Whether nothing comes of it until a person changes something.
    pub(crate) const fn has_stopped(&self) -> bool {
        match self.state {
            PoolImageState::Refused(_)
            | PoolImageState::Failed { .. }
            | PoolImageState::Interrupted { .. } => true,
            PoolImageState::NotBegun
            | PoolImageState::Pending { .. }
            | PoolImageState::Prepared { .. }
            | PoolImageState::Building { .. }
            | PoolImageState::Built { .. } => false,
        }
    }

    /// The condition `Updating` of a pool that is not updated.
    ///
    /// Source: texts of upstream's node controller; that of a refusal is ours.
    pub(crate) fn updating(&self, is_paused: bool) -> Finding {
        let config = &self.config;
        let (goes_on, running, paused) = match &self.state {
            PoolImageState::Refused(why) => (
                false,
                format!("Pool update stopped: MachineOSConfig {config}: {why}"),
                format!("MachineOSConfig {config}: {why}"),
            ),
            PoolImageState::NotBegun => (
                true,
                format!("Pool is waiting for a new OS image build to start (mosc: {config})"),
                format!("waiting for a new OS image build to start (mosc: {config})"),
            ),
            PoolImageState::Pending { build } => (
                true,
                format!("Pool is waiting for OS image build to start (mosb: {build})"),
                format!("OS image build has been created but not yet started (mosb: {build})"),
            ),
            PoolImageState::Prepared { build } => (
                true,
                format!("Pool is waiting for OS image build to start (mosb: {build})"),
                format!("OS image build has been prepared but will not rollout (mosb: {build})"),
            ),
            PoolImageState::Building { build, held } => {
                let why = held.as_ref().map(|why| format!(": {why}"));
                let why = why.unwrap_or_default();
                (
                    true,
                    format!("Pool is waiting for OS image build to complete (mosb: {build}){why}"),
                    format!("OS image build in progress (mosb: {build}){why}"),
                )
            }
            PoolImageState::Failed { build, .. } => (
                false,
                format!("Pool update stopped due to OS image build failure (mosb: {build})"),
                format!("OS image build failed (mosb: {build})"),
            ),
            PoolImageState::Interrupted { build } => (
                false,
                format!(
                    "Pool update stopped due to OS image build being interrupted (mosb: {build})"
                ),
                format!("OS image build was interrupted (mosb: {build})"),
            ),
            PoolImageState::Built { build, .. } => (
                !is_paused,
                format!("Pool is waiting for nodes to apply OS image (mosb: {build})"),
                format!("OS image build completed successfully (mosb: {build})"),
            ),
        };
        let message = if is_paused {
            format!("Pool is paused; {paused}")
        } else {
            running
        };
        if goes_on {
            Finding::yes(
                PoolConditionType::Updating,
                PoolConditionReason::Unset,
                message,
            )
        } else {
            Finding::not(PoolConditionType::Updating, message)
        }
    }

    /// The condition `ImageBuildDegraded`.
    ///
    /// Source: reasons and messages of upstream's builder; those of a refused, a held and an
    /// interrupted build are ours.
    pub(crate) fn degraded(&self) -> Finding {
        use PoolConditionReason as Reason;
        let r#type = PoolConditionType::ImageBuildDegraded;
        let config = &self.config;
        match &self.state {
            PoolImageState::Refused(why) => {
                let message = format!("MachineOSConfig {config}: {why}");
                Finding::yes(r#type, Reason::BuildRefused, message)
            }
            PoolImageState::Failed { build, why } => {
                let message = format!("MachineOSBuild {build} failed: {why}");
                Finding::yes(r#type, Reason::BuildFailed, message)
            }
            PoolImageState::Interrupted { build } => {
                let message = format!(
                    "MachineOSBuild {build} was interrupted: its Job is gone. Annotate MachineOSConfig {config} with machineconfiguration.openshift.io/rebuild to build again"
                );
                Finding::yes(r#type, Reason::BuildInterrupted, message)
            }
            PoolImageState::NotBegun
            | PoolImageState::Pending { .. }
            | PoolImageState::Prepared { .. } => {
                let message = "MachineOSConfig updated/created, waiting for MachineOSBuild";
                Finding::cleared(r#type, Reason::BuildPending, message.to_owned())
            }
            PoolImageState::Building { build, held } => {
                let message = match held {
                    Some(why) => format!("MachineOSBuild {build} is held: {why}"),
                    None => "New build started".to_owned(),
                };
                Finding::cleared(r#type, Reason::Building, message)
            }
            PoolImageState::Built { .. } => {
                let message = "Build completed successfully".to_owned();
                Finding::cleared(r#type, Reason::BuildSuccess, message)
            }
        }
    }
}

impl PoolImageState {
    /// All values of [`Self::word`].
    pub const WORDS: [&'static str; 9] = [
        "Refused",
        "NotBegun",
        "Queued",
        "Prepared",
        "Building",
        "Held",
        "Failed",
        "Interrupted",
        "Built",
    ];

    /// The state as one word, for labels.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "Refused",
            Self::NotBegun => "NotBegun",
            Self::Pending { .. } => "Queued",
            Self::Prepared { .. } => "Prepared",
            Self::Building { held: None, .. } => "Building",
            Self::Building { held: Some(_), .. } => "Held",
            Self::Failed { .. } => "Failed",
            Self::Interrupted { .. } => "Interrupted",
            Self::Built { .. } => "Built",
        }
    }

    fn read<'a>(
        config: &MachineOSConfig,
        build: impl FnOnce(&str) -> Option<&'a MachineOSBuild>,
        rendered: Option<&str>,
    ) -> Self {
        let Some(status) = &config.status else {
            return Self::NotBegun;
        };
        if status.observed_generation != config.metadata.generation {
            return Self::NotBegun;
        }
        let refusal = status
            .conditions
            .iter()
            .find(|it| it.r#type == REFUSED && it.status == ConditionStatus::True);
        if let Some(refusal) = refusal {
            return Self::Refused(refusal.message.clone());
        }
        let chosen = status.machine_os_build.as_ref();
        let Some(found) = chosen.and_then(|chosen| build(&chosen.name)) else {
            return Self::NotBegun;
        };
        if Some(found.spec.machine_config.name.as_str()) != rendered
            || Some(&found.spec.machine_os_config.name) != config.metadata.name.as_ref()
        {
            return Self::NotBegun;
        }
        let build = found.metadata.name.clone().unwrap_or_default();
        let image = found.status.as_ref();
        let image = image.and_then(|status| status.digested_image_push_spec.clone());
        match (found.phase(), image) {
            (BuildPhase::Initial, _) => Self::Pending { build },
            (BuildPhase::Prepared, _) => Self::Prepared { build },
            (BuildPhase::Failed, _) => {
                let failed = found.condition(&BuildConditionType::Failed);
                let why = failed.map(|failed| failed.message.clone());
                let why = why.unwrap_or_default();
                Self::Failed { build, why }
            }
            (BuildPhase::Interrupted, _) => Self::Interrupted { build },
            (BuildPhase::Succeeded, Some(image)) => Self::Built { build, image },
            (BuildPhase::Succeeded, None) | (BuildPhase::Building, _) => {
                let held = found.hold().map(|(_, why)| why.to_owned());
                Self::Building { build, held }
            }
        }
    }
}

impl fmt::Display for PoolImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        match &self.state {
            PoolImageState::Refused(why) => write!(f, "MachineOSConfig {config}: {why}"),
            PoolImageState::NotBegun => {
                write!(f, "the build for MachineOSConfig {config} has not begun")
            }
            PoolImageState::Pending { build } | PoolImageState::Prepared { build } => {
                write!(f, "MachineOSBuild {build} is to start")
            }
            PoolImageState::Building { build, held: None } => {
                write!(f, "MachineOSBuild {build} is under way")
            }
            PoolImageState::Building {
                build,
                held: Some(why),
            } => write!(f, "MachineOSBuild {build} is held: {why}"),
            PoolImageState::Failed { build, .. } => write!(f, "MachineOSBuild {build} failed"),
            PoolImageState::Interrupted { build } => {
                write!(f, "MachineOSBuild {build} was interrupted")
            }
            PoolImageState::Built { build, .. } => write!(f, "MachineOSBuild {build} succeeded"),
        }
    }
}

#[cfg(test)]
mod tests;
