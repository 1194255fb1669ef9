//! The state of a cluster's release: one `match (state, event)`, drawn in `docs/release-state.md`.
//!
//! One release is applied at a time. Another one that is requested is retrieved and checked beside
//! it, and then takes its place. The machine takes events and returns commands; it runs none.
//!
//! - `event`: what happens
//! - `command`: what is to be done
//! - `table`: the `match`
//! - `applied`: the transitions of the release that is applied
//! - `requested`: those of the requested one

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use api::config::Release;

use crate::acceptance::{AcceptanceStep, RequestedRelease, RetrievedRelease, TargetRelease};

mod applied;
mod command;
mod event;
mod requested;
mod table;
#[cfg(test)]
mod tests;

pub use command::{ReleaseCommand, ReleaseCommands, ReleaseTask, ReleaseWait};
pub use event::{LoadedRelease, NewestEntry, PassEnd, PassOutcome, ReleaseEvent, SpecRead};

/// A release in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseOnDisk {
    pub root: PathBuf,
    pub image: String,
    /// Capabilities that the update to it has turned on.
    pub implied: BTreeSet<String>,
    /// How it was accepted; none for the own one, which is applied without.
    pub accepted: Option<TargetRelease>,
}

impl ReleaseOnDisk {
    /// The release that the program belongs to.
    pub const fn own(root: PathBuf, image: String) -> Self {
        Self {
            root,
            image,
            implied: BTreeSet::new(),
            accepted: None,
        }
    }

    /// Whether the program belongs to it.
    pub const fn is_own(&self) -> bool {
        self.accepted.is_none()
    }
}

/// How far the release is that is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReleaseStage {
    /// The own release, and none of it is applied: the application of another one had begun before
    /// this process, and that one is tried first.
    Resuming,
    /// Accepted, and none of it is applied: the history does not have it yet. Its Deployment of the
    /// version operator ends this process, and the next one must find how it was accepted.
    Switching,
    /// Not all of it was applied yet.
    Applying,
    /// All of it was applied, and it is kept so.
    Running,
}

/// The release that is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedRelease {
    /// Its files. Another allocation is another stay of the same release.
    pub on_disk: Arc<ReleaseOnDisk>,
    pub stage: ReleaseStage,
    /// How often it was applied since all of it was: each time in another order.
    pub attempt: u64,
}

/// The state of a cluster's release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseState {
    /// The own release is not read yet.
    Starting(Arc<ReleaseOnDisk>),
    /// A release is applied, and no other one is requested.
    Alone(AppliedRelease),
    /// Another one is requested, and waits: for the first release of the cluster, or after a
    /// refusal.
    Requested(AppliedRelease, RequestedRelease),
    /// Another one is verified and retrieved.
    Retrieving(AppliedRelease, RequestedRelease),
    /// Another one is on disk, and is loaded and checked.
    Checking(AppliedRelease, RequestedRelease, RetrievedRelease),
}

/// The next state, and what to do.
type Step = (ReleaseState, ReleaseCommands);

/// An event that cannot happen in a state: a fault of the program, never of the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} cannot happen in state {state}")]
pub struct UnexpectedReleaseEvent {
    pub state: &'static str,
    pub event: String,
}

impl ReleaseState {
    /// A process that has just started.
    pub const fn new(own: Arc<ReleaseOnDisk>) -> Self {
        Self::Starting(own)
    }

    /// Its name in the drawing.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting(_) => "Starting",
            Self::Alone(applied) => applied.stage.name(),
            Self::Requested(..) => "Requested",
            Self::Retrieving(..) => "Retrieving",
            Self::Checking(..) => "Checking",
        }
    }

    /// The files of the release that is applied, or is about to be.
    pub const fn on_disk(&self) -> &Arc<ReleaseOnDisk> {
        match self {
            Self::Starting(on_disk)
            | Self::Alone(AppliedRelease { on_disk, .. })
            | Self::Requested(AppliedRelease { on_disk, .. }, _)
            | Self::Retrieving(AppliedRelease { on_disk, .. }, _)
            | Self::Checking(AppliedRelease { on_disk, .. }, ..) => on_disk,
        }
    }

    /// How often the release was applied since all of it was.
    pub const fn attempt(&self) -> u64 {
        match self {
            Self::Starting(_) => 0,
            Self::Alone(applied)
            | Self::Requested(applied, _)
            | Self::Retrieving(applied, _)
            | Self::Checking(applied, ..) => applied.attempt,
        }
    }

    /// How the release was accepted; none for the own one.
    pub fn accepted(&self) -> Option<&TargetRelease> {
        self.on_disk().accepted.as_ref()
    }

    /// The release, where `own` is the own one.
    pub fn release<'a>(&'a self, own: &'a Release) -> &'a Release {
        self.accepted().map_or(own, |accepted| &accepted.release)
    }

    /// The release that is requested in its place.
    pub const fn request(&self) -> Option<&RequestedRelease> {
        match self {
            Self::Starting(_) | Self::Alone(_) => None,
            Self::Requested(_, request)
            | Self::Retrieving(_, request)
            | Self::Checking(_, request, _) => Some(request),
        }
    }

    /// How far the requested release is.
    pub fn step(&self) -> Option<&AcceptanceStep> {
        self.request()?.step.as_ref()
    }

    /// Takes an event and returns what to do.
    ///
    /// # Errors
    /// [`UnexpectedReleaseEvent`] for a pair that cannot be; the state is unchanged then.
    pub fn take(&mut self, event: ReleaseEvent) -> Result<ReleaseCommands, UnexpectedReleaseEvent> {
        let (state, commands) = table::next(self.clone(), event)?;
        *self = state;
        Ok(commands)
    }
}

impl ReleaseStage {
    const fn name(self) -> &'static str {
        match self {
            Self::Resuming => "Resuming",
            Self::Switching => "Switching",
            Self::Applying => "Applying",
            Self::Running => "Running",
        }
    }
}

impl fmt::Display for ReleaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
