//! What is under way on a host, and what became of it: intent, stored before the first effect.
//!
//! The journal holds the whole plan, so that a restart executes what was stored and nothing
//! recomputed. What a deployment is configured to be is not here but inside the deployment.

mod boot;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use node_update::plan::{Attempt, Plan, Prior, Route, Target};
use serde::{Deserialize, Serialize};

pub use boot::{AtBoot, UNPROVEN_BOOTS_MAX, at_boot};
pub use store::{Error, Lock, Store};

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

/// Now, as the one who acts knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// This boot, from `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The time.
    pub now: Timestamp,
}

/// How far an attempt came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "stage")]
pub enum Stage {
    /// Effects may have begun. On the reboot route none of them can be booted yet.
    Applying,
    /// The target is complete; the boot loader names the origin or already the target.
    Switching,
    /// The boot loader names the target.
    Switched,
    /// The target is booted and not proved yet.
    Booted,
    /// The way back has begun.
    RollingBack {
        /// Why.
        cause: String,
    },
    /// The target was not proved and stays all the same, as it was told to.
    Failed {
        /// Why.
        cause: String,
    },
}

/// An attempt under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How far it came.
    #[serde(flatten)]
    pub stage: Stage,
    /// The boot in which it came there.
    pub boot_id: String,
    /// When it came there.
    pub since: Timestamp,
    /// The deployment that was booted when it began.
    pub origin: DeploymentId,
    /// The deployment that was made, once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<DeploymentId>,
    /// How often the target booted without having been proved.
    #[serde(default)]
    pub boots: u32,
    /// Whether the kubelet was running and is stopped for this.
    #[serde(default)]
    pub stopped_kubelet: bool,
    /// Whether a target that cannot be proved stays booted and waits for people.
    #[serde(default)]
    pub stay: bool,
    /// Links of unit files as they were; only on the live route.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unit_links: BTreeMap<String, Prior>,
    /// The records in `/etc` as they were; only on the live route.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub records: BTreeMap<String, Prior>,
    /// The plan, with what it takes to undo each step that was begun.
    pub plan: Plan,
}

impl Journal {
    /// Opens the journal of a plan that begins now.
    pub fn open(plan: Plan, origin: DeploymentId, stay: bool, moment: &Moment) -> Self {
        Self {
            schema: SCHEMA,
            stage: Stage::Applying,
            boot_id: moment.boot_id.clone(),
            since: moment.now,
            origin,
            target: None,
            boots: 0,
            stopped_kubelet: false,
            stay,
            unit_links: BTreeMap::new(),
            records: BTreeMap::new(),
            plan,
        }
    }

    /// The same attempt, at another stage.
    #[must_use]
    pub fn at(mut self, stage: Stage, moment: &Moment) -> Self {
        self.stage = stage;
        self.boot_id.clone_from(&moment.boot_id);
        self.since = moment.now;
        self
    }

    /// What became of this attempt.
    pub fn end(&self, outcome: Outcome, cause: Option<String>, moment: &Moment) -> Last {
        Last {
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

    /// Whether the boot loader may have been told to boot the target.
    pub fn could_boot_target(&self) -> bool {
        self.plan.route == Route::Reboot
            && self.target.is_some()
            && !matches!(self.stage, Stage::Applying | Stage::Switching)
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The host is in the target, and its checks hold.
    Proved,
    /// The target was bootable; the host is in its origin again.
    RolledBack,
    /// The target was never bootable, or a live change was taken back.
    Undone,
    /// The host was found in neither origin nor target, and is taken as it is.
    Adopted,
}

/// How the last attempt on this host ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The attempt.
    pub attempt: Attempt,
    /// How it ended.
    pub outcome: Outcome,
    /// Where the host was.
    pub from: Target,
    /// Where it was to go.
    pub to: Target,
    /// The boot in which it ended.
    pub boot_id: String,
    /// When it ended.
    pub at: Timestamp,
    /// Why it ended so, unless it was proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A target that failed on this host and is not to be tried again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What failed.
    #[serde(flatten)]
    pub target: Target,
    /// Why.
    pub cause: String,
    /// Since when.
    pub since: Timestamp,
}
