//! The attempt under way on a host, stored before its first effect, and how the last one ended.
//!
//! The journal holds the whole plan, so that a restart executes the stored plan and recomputes
//! nothing. The record of a deployment's configuration is inside the deployment.

mod boot;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use node_update::late::LeftBehind;
use node_update::plan::{Attempt, Plan, Prior, Route, Target};
use serde::{Deserialize, Serialize};

use crate::files::Root;

pub use boot::{AtBoot, UNVERIFIED_BOOTS_MAX, at_boot};
pub use store::{Error, JournalFault, JournalStore, Lock};

/// Version of the stored forms. A reader refuses any other.
pub const SCHEMA: u32 = 1;

/// A deployment on its host. Two deployments of one commit differ by serial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeploymentId {
    /// Checksum of its commit, 64 hex digits.
    pub checksum: String,
    /// Counts deployments of the same commit.
    pub serial: i32,
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.checksum, self.serial)
    }
}

/// The current boot and time, as the running program read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub boot_id: String,
    pub now: Timestamp,
}

/// File with the id of the running boot. Source: `proc_sys_kernel(5)`.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the id of the running boot.
///
/// # Errors
/// [`Error::Files`]; [`Error::Damaged`] without [`BOOT_ID`].
pub fn boot_id(root: &Root) -> Result<String, Error> {
    let bytes = root.read(BOOT_ID)?.ok_or_else(|| Error::Damaged {
        path: BOOT_ID.to_owned(),
        why: "is missing",
    })?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// How long this boot lasts, with the time that the host was suspended (`CLOCK_BOOTTIME`). No
/// change of the time of day moves it.
pub fn time_since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// How far an attempt is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "stage")]
pub enum JournalStage {
    /// The first effects may exist. On the reboot route none of them can be booted yet.
    Applying,
    /// The target is complete; the boot loader names the origin or already the target.
    Switching,
    /// The boot loader names the target.
    Switched,
    /// The target is booted and not verified yet.
    Booted,
    /// The revert or the roll-back has begun.
    RollingBack { cause: String },
    /// Verification failed, and the target stays booted, because the attempt has `stay` set.
    Failed { cause: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub schema: u32,
    /// How far the attempt is.
    #[serde(flatten)]
    pub stage: JournalStage,
    /// The boot in which it reached this stage.
    pub boot_id: String,
    /// When it reached this stage.
    pub since: Timestamp,
    /// The deployment that was booted when the attempt began.
    pub origin: DeploymentId,
    /// The new deployment, once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<DeploymentId>,
    /// How often the target booted without being verified.
    #[serde(default)]
    pub boots: u32,
    /// The boot of the target in which its files outside of the deployment were all written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_in: Option<String>,
    /// Whether the kubelet was running and is stopped for the attempt.
    #[serde(default)]
    pub stopped_kubelet: bool,
    /// Whether a target whose verification fails stays booted and waits for an administrator.
    #[serde(default)]
    pub stay: bool,
    /// Links of unit files before the attempt; only on the live route.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unit_links: BTreeMap<String, Prior>,
    /// The records in `/etc` before the attempt; only on the live route.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub records: BTreeMap<String, Prior>,
    /// The plan, with the undo of each step that was begun.
    pub plan: Plan,
}

impl Journal {
    /// The journal of a plan that begins now.
    pub fn open(plan: Plan, origin: DeploymentId, stay: bool, moment: &Moment) -> Self {
        Self {
            schema: SCHEMA,
            stage: JournalStage::Applying,
            boot_id: moment.boot_id.clone(),
            since: moment.now,
            origin,
            target: None,
            boots: 0,
            finished_in: None,
            stopped_kubelet: false,
            stay,
            unit_links: BTreeMap::new(),
            records: BTreeMap::new(),
            plan,
        }
    }

    /// The same attempt, at another stage.
    #[must_use]
    pub fn at(mut self, stage: JournalStage, moment: &Moment) -> Self {
        self.stage = stage;
        self.boot_id.clone_from(&moment.boot_id);
        self.since = moment.now;
        self
    }

    /// The end of this attempt.
    pub fn end(
        &self,
        outcome: AttemptOutcome,
        cause: Option<String>,
        moment: &Moment,
    ) -> LastAttempt {
        LastAttempt {
            schema: SCHEMA,
            attempt: self.plan.attempt.clone(),
            outcome,
            from: self.plan.from.clone(),
            to: self.plan.to.clone(),
            boot_id: moment.boot_id.clone(),
            at: moment.now,
            cause,
        }
    }

    /// Whether the guard has done its part of the target in the current boot.
    pub fn is_finished_in(&self, moment: &Moment) -> bool {
        self.stage == JournalStage::Booted
            && self.boot_id == moment.boot_id
            && self.finished_in.as_ref() == Some(&moment.boot_id)
    }

    /// Whether the boot loader may name the target.
    pub fn could_boot_target(&self) -> bool {
        self.plan.route == Route::Reboot
            && self.target.is_some()
            && !matches!(self.stage, JournalStage::Applying | JournalStage::Switching)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// The host is in the target and meets its expectations.
    #[serde(rename = "proved")]
    Verified,
    /// The target was bootable; the host is in the origin again.
    RolledBack,
    /// The target was never bootable, or a live update was reverted.
    Undone,
    /// The host booted neither origin nor target, and was adopted in that state.
    Adopted,
}

impl AttemptOutcome {
    /// The word in files and for people, as serde writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "proved",
            Self::RolledBack => "rolled-back",
            Self::Undone => "undone",
            Self::Adopted => "adopted",
        }
    }
}

/// How the last attempt on this host ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAttempt {
    pub schema: u32,
    pub attempt: Attempt,
    pub outcome: AttemptOutcome,
    /// The configuration that the attempt started from.
    pub from: Target,
    /// The configuration that it aimed at.
    pub to: Target,
    /// The boot in which the attempt ended.
    pub boot_id: String,
    pub at: Timestamp,
    /// Why it ended so; `None` for a verified target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Two deployments of which one was made from the other. What others write in `/etc` of the one
/// that is left is carried over at the first boot of the other.
///
/// After that boot the two change places: what is written from then on would be missing on the way
/// back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    pub schema: u32,
    /// The deployment that is left.
    pub left: DeploymentId,
    /// The deployment to which its late changes are carried over.
    pub to: DeploymentId,
    /// When the other was made from it, or when it was left for it.
    pub since: Timestamp,
    /// What is in the other and never came to the deployment that is left: on the way back it is
    /// not removed.
    #[serde(default)]
    pub left_behind: LeftBehind,
}

impl Switch {
    /// A switch from one deployment to another.
    pub fn new(left: DeploymentId, to: DeploymentId, moment: &Moment) -> Self {
        Self {
            schema: SCHEMA,
            left,
            to,
            since: moment.now,
            left_behind: LeftBehind::default(),
        }
    }

    /// The way back; `left_behind` is what was not carried over.
    #[must_use]
    pub fn reversed(self, moment: &Moment, left_behind: LeftBehind) -> Self {
        Self {
            left_behind,
            ..Self::new(self.to, self.left, moment)
        }
    }
}

/// A target that failed on this host. It is not tried again until it is released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTarget {
    pub schema: u32,
    #[serde(flatten)]
    pub target: Target,
    pub cause: String,
    pub since: Timestamp,
}
