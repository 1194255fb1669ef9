//! Executes a stored plan on a new deployment or on the running system, and reverts it.
//!
//! The journal alone decides what comes next. Every function may be killed at any point and run
//! again.
//!
//! | state of the host | apply | undo |
//! |---|---|---|
//! | origin is booted, before the reboot | [`reboot::apply`]: makes the deployment, switches the boot loader | [`reboot::revert`]: switches the boot loader to the origin, removes the deployment |
//! | target is booted | [`boot::guard`]: writes files outside `/etc`; [`boot::verified`] | [`boot::failed`], [`boot::revert_or_roll_back`]: the boot loader boots the origin next |
//! | origin is booted again | | [`boot::guard`]: undoes changes outside `/etc` |
//! | live update | [`live::apply`] | [`live::revert`] |

pub mod boot;
pub mod live;
pub mod reboot;
mod steps;
mod units;

use std::error::Error as StdError;
use std::time::Duration;

use chassis::report::Chain;
use node_update::plan::{Action, Deploy, Undo};
use tracing::warn;

#[cfg(test)]
mod tests;

pub use steps::{Preflight, StepExecutor, describe};
pub use units::RunningUnits;

use crate::accounts::MissingAccounts;
use crate::files::Root;
use crate::journal::{self, DeploymentId, Journal, JournalStore};
use crate::systemd::{self, Enablement, Job};
use crate::{accounts, files, process, record};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    /// The boot loader names the deployment to run; a reboot completes the run.
    NeedsReboot,
    /// The run changed nothing, for these reasons.
    Rejected(Vec<String>),
}

/// Why a plan could not be executed or reverted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot apply {object}")]
    Step {
        /// The object of the step: `file /etc/hosts`, `unit kubelet.service`.
        object: String,
        #[source]
        source: StepError,
    },
    /// A service could not be reloaded or restarted. Clients of OpenShift's MCO look for these
    /// words.
    #[error("could not apply update: {}. Error", in_words(action))]
    Service {
        /// [`Action::ReloadUnit`] or [`Action::RestartUnit`].
        action: Box<Action>,
        #[source]
        source: StepError,
    },
    /// A step could not be undone.
    #[error("cannot undo {object}")]
    Undo {
        /// The object of the step.
        object: String,
        #[source]
        source: StepError,
    },
    /// The journal or the plan cannot be read or written.
    #[error(transparent)]
    Store(#[from] journal::Error),
    /// A file of Slipway's own cannot be read or written.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The record cannot be written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// The accounts of the new deployment cannot be completed.
    #[error("cannot complete the accounts of the new deployment")]
    Accounts(#[source] accounts::Error),
    /// A unit cannot be stopped or started.
    #[error(transparent)]
    Systemd(#[from] systemd::Error),
    /// Deployments cannot be read, made or switched.
    #[error(transparent)]
    Sysroot(Box<dyn StdError + Send + Sync>),
    /// The host does not meet the target's expectations.
    #[error("the target's checks do not hold: {}", reasons.join("; "))]
    NotVerified { reasons: Vec<String> },
    /// A plan that needs a reboot describes no deployment.
    #[error("the plan asks for a reboot and describes no deployment")]
    NoDeploy,
}

fn in_words(action: &Action) -> String {
    if let Action::RestartUnit { unit } = action {
        format!("restarting {unit} service failed")
    } else if let Action::ReloadUnit { unit } = action {
        format!("reloading {unit} configuration failed")
    } else {
        format!("{} failed", describe(action))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The accounts cannot be read, or a password cannot be set.
    #[error(transparent)]
    Accounts(#[from] accounts::Error),
    /// A file's owner is unknown. Clients of OpenShift's MCO look for these words.
    #[error("failed to retrieve file ownership for file {path:?}: failed to retrieve {id}: {name}")]
    Owner {
        path: String,
        /// `UserID for username` or `GroupID for group`.
        id: &'static str,
        name: String,
    },
    /// systemd refused or failed an operation on a unit.
    #[error(transparent)]
    Systemd(#[from] systemd::Error),
    /// A program of systemd failed.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A blob of the plan cannot be read.
    #[error(transparent)]
    Store(#[from] journal::Error),
    /// The record cannot be read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A blob must be text and is not UTF-8.
    #[error("its content is not UTF-8")]
    NotText,
    /// The path belongs to the OS and is read-only.
    #[error("{path} lies where the OS is read-only")]
    ReadOnly { path: String },
    /// The file would be gone after the next boot.
    #[error("{path} lies where each boot removes all")]
    Volatile { path: String },
    /// A path of the home directory is a link or no directory.
    #[error("{path} is not a directory of the user's own")]
    Home {
        /// The path that is not a directory.
        path: String,
    },
    /// A directory exists where the step writes a file.
    #[error("{path} is a directory")]
    Directory { path: String },
    /// A parent of the file exists and is not a directory.
    #[error("{path} is not a directory")]
    NotDirectory { path: String },
    /// A unit's file is below `/var`, where `systemctl --root` does not search.
    #[error(
        "its file lies below /var, which no deployment has: it can be enabled on the running host only"
    )]
    Elsewhere,
    /// The operation needs a running system.
    #[error("this can only be done on the running system")]
    NotRunning,
}

/// Stores that an attempt is being undone, where that is possible.
///
/// The undo frees room and needs no journal that says so: it goes on without. Blobs of the target
/// are removed if they may be what fills the disk; an attempt that is applied again after that
/// fails and is undone.
fn put_intent(store: &JournalStore<'_>, journal: &Journal) {
    let stored = store.put_journal(journal).or_else(|error| {
        warn!(error = %Chain(&error), "cannot store that the attempt is undone, freeing room");
        free_target(store, journal);
        store.put_journal(journal)
    });
    if let Err(error) = stored {
        warn!(
            attempt = journal.plan.attempt.0,
            error = %Chain(&error),
            "the attempt is undone without its journal"
        );
    }
}

/// Removes the target's blobs, which an undo does not need. The end of the attempt repeats it.
fn free_target(store: &JournalStore<'_>, journal: &Journal) {
    if let Err(error) = store.discard_target(journal) {
        warn!(error = %Chain(&error), "cannot remove the contents of the target");
    }
}

/// Unit files and units of one root.
pub trait Units {
    /// Changes the links of a unit.
    ///
    /// # Errors
    /// Those of systemd.
    fn set_enablement(&mut self, change: Enablement, unit: &str) -> Result<(), StepError>;

    /// The state that `systemctl is-enabled` prints.
    ///
    /// # Errors
    /// Those of systemd.
    fn file_state(&mut self, unit: &str) -> Result<String, StepError>;

    /// Reloads the unit files, as `systemctl daemon-reload`.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for the root of a deployment.
    fn reload_manager(&mut self) -> Result<(), StepError>;

    /// Has a boot that is under way start what its target wants after a reload.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for the root of a deployment.
    fn extend_boot(&mut self) -> Result<(), StepError> {
        Err(StepError::NotRunning)
    }

    /// Runs a job to its end.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for the root of a deployment.
    fn run(&mut self, job: Job, unit: &str) -> Result<(), StepError>;

    /// Starts a unit after a delay, by a transient timer `name`, unless the host shuts down
    /// earlier.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for the root of a deployment.
    fn start_later(&mut self, _unit: &str, _name: &str, _after: Duration) -> Result<(), StepError> {
        Err(StepError::NotRunning)
    }

    /// `ActiveState` of a unit; `None` for a unit whose own conditions are not met.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for the root of a deployment.
    fn active_state(&mut self, unit: &str) -> Result<Option<String>, StepError>;

    /// How far the start of a unit came: its `ActiveState`, but `active` for a oneshot that runs,
    /// and words of its own for a unit that waits for others or failed and is to be started again.
    /// `None` for a unit whose own conditions are not met.
    ///
    /// # Errors
    /// [`StepError::NotRunning`] for the root of a deployment.
    fn start_state(&mut self, unit: &str) -> Result<Option<String>, StepError> {
        self.active_state(unit)
    }
}

/// The steps of a plan on one root. Tests implement it to make step *n* fail.
pub trait Steps {
    /// Performs a step. A second run changes nothing.
    ///
    /// # Errors
    /// [`Error::Step`].
    fn perform(&mut self, action: &Action) -> Result<(), Error>;

    /// Reads the undo of a step from the current state of the root.
    ///
    /// # Errors
    /// [`Error::Step`].
    fn observe(&mut self, action: &Action) -> Result<Undo, Error>;

    /// Restores the paths of a step.
    ///
    /// # Errors
    /// [`Error::Undo`].
    fn restore(&mut self, action: &Action, undo: &Undo) -> Result<(), Error>;

    /// Whether a step changes the deployment alone, and no path that deployments share.
    ///
    /// # Errors
    /// [`Error::Step`].
    fn is_of_deployment(&mut self, action: &Action) -> Result<bool, Error>;

    /// The root that the steps change.
    fn root(&self) -> &Root;

    /// The units of that root.
    fn units(&mut self) -> &mut dyn Units;
}

/// A finished deployment that no boot entry names yet.
#[derive(Debug)]
pub struct NewDeployment {
    pub id: DeploymentId,
    /// Its root, with the state root's `/var`.
    pub root: Root,
    /// Accounts of its OS that the merge lost.
    pub missing_accounts: MissingAccounts,
}

pub trait Sysroot {
    /// The booted deployment.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn booted(&mut self) -> Result<DeploymentId, Error>;

    /// The deployment that the boot loader boots next.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn default_deployment(&mut self) -> Result<DeploymentId, Error>;

    /// Reasons why a deployment cannot be made on this host now.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn rejections(&mut self, deploy: &Deploy) -> Result<Vec<String>, Error>;

    /// Makes a deployment: checkout and merge of `/etc`. Removes leftovers of an earlier run first.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn deploy(&mut self, deploy: &Deploy) -> Result<NewDeployment, Error>;

    /// Makes a deployment the default, with the booted one as fallback. The boot loader boots the
    /// fallback after `tries` boots; with `None` it never does.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn set_default(&mut self, id: &DeploymentId, tries: Option<u32>) -> Result<(), Error>;

    /// Stops the boot loader's counting, so that the default deployment stays the default.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn stop_boot_counting(&mut self) -> Result<(), Error>;

    /// Removes deployments that no boot entry names.
    ///
    /// # Errors
    /// [`Error::Sysroot`].
    fn cleanup(&mut self) -> Result<(), Error>;
}
