//! What `mcd-os deployments --json` says of a host, in its own words.

use host::journal::{AttemptOutcome, JournalStage};
use node_update::plan::Target;
use serde::{Deserialize, Serialize};

/// The deployments of a host, and what is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub boot_id: String,
    pub booted: Deployment,
    /// What boots next, where that is another.
    pub next: Option<Deployment>,
    /// What the boot loader offers behind the booted one.
    pub rollback: Option<Deployment>,
    pub journal: Option<UnderWay>,
    /// How the last attempt ended.
    pub last: Option<Ended>,
    /// The target that failed here and is not tried again by itself.
    pub held: Option<HeldView>,
    /// What of the configuration this host cannot have, as it was installed with something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_effect: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// Checksum of its commit.
    pub checksum: String,
    /// Counts deployments of the same commit.
    pub serial: i32,
    pub version: Option<String>,
    /// Name of the MachineConfig it is recorded to be in.
    pub config: Option<String>,
    /// Pull spec of the layered image it is recorded to be in.
    pub image: Option<String>,
    /// Why its record cannot be read. `config` and `image` are absent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_error: Option<String>,
    /// Pull spec of its OS image, without transport, where it came as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image: Option<String>,
    /// What it was made from: the pull spec, or else the origin as written.
    pub origin: Option<String>,
    /// Kernel arguments of its boot entry.
    pub kernel_arguments: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    pub attempt: String,
    /// How far it is; in JSON `stage` and, if it failed, `cause`.
    #[serde(flatten)]
    pub stage: JournalStage,
    pub from: Target,
    pub to: Target,
    /// How often the target booted without having been proved.
    pub boots: u32,
    /// The boot in which it came to its stage.
    pub boot_id: String,
    /// When it came there, RFC 3339.
    pub since: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub attempt: String,
    pub outcome: AttemptOutcome,
    pub from: Target,
    /// Where it was to go.
    pub to: Target,
    /// The boot in which it ended.
    pub boot_id: String,
    /// When it ended, RFC 3339.
    pub at: String,
    pub cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldView {
    pub config: String,
    /// Pull spec of the layered image.
    pub image: Option<String>,
    pub cause: String,
}

impl HeldView {
    /// What is not tried again.
    pub fn target(&self) -> Target {
        Target {
            config: self.config.clone(),
            image: self.image.clone(),
        }
    }
}
