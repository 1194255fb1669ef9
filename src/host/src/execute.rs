//! Runs a stored plan: against a new deployment, against the running system, and back.
//!
//! Nothing is decided here but what the journal says comes next. Every function may be killed at any
//! point and run again.
//!
//! | where the host is | forwards | back |
//! |---|---|---|
//! | in the origin, before the reboot | [`reboot::apply`]: makes the deployment, switches the boot loader | [`reboot::take_back`]: switches it back, throws the deployment away |
//! | booted in the target | [`boot::guard`]: writes what lies outside `/etc`; [`boot::proved`] | [`boot::failed`], [`boot::roll_back`]: have the origin booted |
//! | booted in the origin again | | [`boot::guard`]: undoes what lies outside `/etc` |
//! | without a reboot | [`live::apply`] | [`live::undo`] |

pub mod boot;
pub mod live;
pub mod reboot;
pub mod record;
mod steps;
mod units;

use std::error::Error as StdError;
use std::time::Duration;

use node_update::plan::{Action, Deploy, Undo};

#[cfg(test)]
mod tests;

pub use steps::{Foreseen, Hands, describe};
pub use units::Running;

use crate::accounts::Lost;
use crate::files::Root;
use crate::journal::{self, DeploymentId};
use crate::systemd::{self, Enablement, Job};
use crate::{accounts, files, process};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All is done.
    Done,
    /// The boot loader names what is to run; a reboot completes it.
    NeedsReboot,
    /// Nothing was changed, for these reasons.
    Refused(Vec<String>),
}

/// What went wrong on the way.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step could not be done.
    #[error("cannot apply {object}")]
    Step {
        /// What it is about: `file /etc/hosts`, `unit kubelet.service`.
        object: String,
        /// Why.
        #[source]
        source: StepError,
    },
    /// A step could not be taken back.
    #[error("cannot undo {object}")]
    Undo {
        /// What it is about.
        object: String,
        /// Why.
        #[source]
        source: StepError,
    },
    /// The journal or the plan cannot be read or written.
    #[error(transparent)]
    Store(#[from] journal::Error),
    /// A file of ours cannot be read or written.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The accounts of the new deployment cannot be completed.
    #[error("cannot complete the accounts of the new deployment")]
    Accounts(#[source] accounts::Error),
    /// A unit that is in the way cannot be stopped or started.
    #[error(transparent)]
    Systemd(#[from] systemd::Error),
    /// Deployments cannot be read, made or switched.
    #[error(transparent)]
    Sysroot(Box<dyn StdError + Send + Sync>),
    /// The checks of the target do not hold.
    #[error("the target's checks do not hold: {}", reasons.join("; "))]
    NotProved {
        /// What does not hold.
        reasons: Vec<String>,
    },
    /// A plan for a reboot says nothing of a deployment.
    #[error("the plan asks for a reboot and describes no deployment")]
    NoDeploy,
}

/// Why a step could not be done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A file.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// An owner or a password.
    #[error(transparent)]
    Accounts(#[from] accounts::Error),
    /// A unit.
    #[error(transparent)]
    Systemd(#[from] systemd::Error),
    /// A program that systemd is asked through.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A content.
    #[error(transparent)]
    Store(#[from] journal::Error),
    /// A content that must be text and is not.
    #[error("its content is not UTF-8")]
    NotText,
    /// The path is the OS's.
    #[error("{path} lies where the OS is read-only")]
    ReadOnly {
        /// The path, resolved.
        path: String,
    },
    /// The home directory of a user leads elsewhere.
    #[error("{path} is not a directory of the user's own")]
    Home {
        /// What is not.
        path: String,
    },
    /// A directory is where a file should be.
    #[error("{path} is a directory")]
    Directory {
        /// The path, resolved.
        path: String,
    },
    /// Something else is where a directory should be.
    #[error("{path} is not a directory")]
    NotDirectory {
        /// The path, resolved.
        path: String,
    },
    /// A unit's file is below `/var`, where `systemctl` does not look on a deployment.
    #[error(
        "its file lies below /var, which no deployment has: it can be enabled on the running host only"
    )]
    Elsewhere,
    /// Only a running system can do this.
    #[error("this can only be done on the running system")]
    NotRunning,
}

/// Unit files and units of one root.
pub trait Units {
    /// Changes the links of a unit.
    ///
    /// # Errors
    /// As systemd says.
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError>;

    /// What `is-enabled` says.
    ///
    /// # Errors
    /// As systemd says.
    fn file_state(&mut self, unit: &str) -> Result<String, StepError>;

    /// Reads the unit files again.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for a root that no systemd runs on.
    fn reload_manager(&mut self) -> Result<(), StepError>;

    /// Runs a job to its end.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for a root that no systemd runs on.
    fn run(&mut self, job: Job, unit: &str) -> Result<(), StepError>;

    /// Has a unit started after a while, by a timer of that name, unless the host goes down before.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for a root that no systemd runs on.
    fn start_later(&mut self, _unit: &str, _name: &str, _after: Duration) -> Result<(), StepError> {
        Err(StepError::NotRunning)
    }

    /// `ActiveState` of a unit; none for one that its own conditions keep from running.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for a root that no systemd runs on.
    fn active_state(&mut self, unit: &str) -> Result<Option<String>, StepError>;
}

/// One root, as the executor acts on it; what a test makes fail at step *n*.
pub trait Perform {
    /// Does a step. A second time changes nothing.
    ///
    /// # Errors
    /// [`Error::Step`].
    fn perform(&mut self, action: &Action) -> Result<(), Error>;

    /// What it takes to undo a step, from what the root holds now.
    ///
    /// # Errors
    /// [`Error::Step`].
    fn observe(&mut self, action: &Action) -> Result<Undo, Error>;

    /// Puts a step's paths back.
    ///
    /// # Errors
    /// [`Error::Undo`].
    fn restore(&mut self, action: &Action, undo: &Undo) -> Result<(), Error>;

    /// Whether a step's effect lies in a deployment of its own, not in what all share.
    ///
    /// # Errors
    /// [`Error::Step`].
    fn is_of_deployment(&mut self, action: &Action) -> Result<bool, Error>;

    /// The root.
    fn root(&self) -> &Root;

    /// Its units.
    fn units(&mut self) -> &mut dyn Units;
}

/// A finished deployment that no boot entry names yet.
#[derive(Debug)]
pub struct Made {
    /// Which one.
    pub id: DeploymentId,
    /// Its root, with the state root's `/var`.
    pub root: Root,
    /// Accounts of its OS that the merge lost.
    pub lost: Lost,
}

/// The host's deployments.
pub trait Sysroot {
    /// What runs.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn booted(&mut self) -> Result<DeploymentId, Error>;

    /// What boots next.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn first(&mut self) -> Result<DeploymentId, Error>;

    /// Why a deployment may not be made here now.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn refusals(&mut self, deploy: &Deploy) -> Result<Vec<String>, Error>;

    /// Makes a deployment: checkout and merge of `/etc`. What an earlier run left is thrown away first.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn make(&mut self, deploy: &Deploy) -> Result<Made, Error>;

    /// Has the boot loader boot a deployment, with the booted one behind it, which is booted once the
    /// tries are used up; with no number, it is never.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn make_first(&mut self, id: &DeploymentId, tries: Option<u32>) -> Result<(), Error>;

    /// Has the boot loader count no longer: what it boots first is to stay.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn keep_first(&mut self) -> Result<(), Error>;

    /// Throws away what no boot entry names.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn sweep(&mut self) -> Result<(), Error>;
}

/// An error with all its causes, in one line; a cause that the line says already is left out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
