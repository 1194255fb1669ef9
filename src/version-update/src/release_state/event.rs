//! What happens.

use std::sync::Arc;

use api::config::{ClusterVersion, Release};
use release::graph::Ordering;

use super::ReleaseOnDisk;
use crate::acceptance::{Checkup, RetrievedRelease};
use crate::validation::{WantedRelease, validate};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseEvent {
    /// The turn of the applied release has come, and its files are read.
    Loaded(LoadedRelease),
    /// Its turn has come, and its files cannot be read.
    Unreadable,
    /// A pass over it has ended.
    Ended(PassEnd),
    /// The ClusterVersion was read for the release that it requests. What was under way for another
    /// one, or for the same one, is given up before.
    SpecRead(SpecRead),
    /// The requested release is verified, or that was overridden, and it is on disk.
    Retrieved(RetrievedRelease),
    /// It is not, for this reason.
    NotRetrieved(String),
    /// It is loaded, and this was found.
    Checked(Checkup),
    /// It cannot be loaded, for this reason.
    NotLoaded(String),
}

/// What was read of the applied release when its turn has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadedRelease {
    /// Whether its files were read just now, and not before.
    pub is_new: bool,
    /// Whether some of them cannot be read.
    pub has_fault: bool,
    pub newest: NewestEntry,
}

/// The newest entry of the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NewestEntry {
    /// Another release, or none.
    #[default]
    Other,
    /// Another release, which is requested: its application had begun.
    Wanted,
    /// The applied release, not whole.
    Partial,
    /// The applied release, whole: it is only kept as it is.
    Completed,
}

impl NewestEntry {
    /// What a ClusterVersion has of the applied release, where `own` is the own one, or of the one
    /// that it asks for.
    pub fn of(
        object: &ClusterVersion,
        applied: &Release,
        own: &Release,
        ordering: Ordering,
    ) -> Self {
        let status = object.status.as_ref();
        let Some(head) = status.and_then(|status| status.history.first()) else {
            return Self::Other;
        };
        if head.image == applied.image {
            return match ordering {
                Ordering::Reconciling { .. } => Self::Completed,
                Ordering::Updating | Ordering::Initializing => Self::Partial,
            };
        }
        match validate(object, own).1 {
            WantedRelease::Other(wanted) if wanted.image == head.image => Self::Wanted,
            WantedRelease::Own | WantedRelease::Other(_) => Self::Other,
        }
    }
}

/// The end of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassEnd {
    /// The release that was applied.
    pub on_disk: Arc<ReleaseOnDisk>,
    /// Whether it was only kept as it is.
    pub is_kept: bool,
    pub outcome: PassOutcome,
}

/// What a pass came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassOutcome {
    /// All of the release is applied.
    Complete,
    /// Some of it is not.
    Incomplete,
    /// It still waited when its time was over.
    Overdue,
    /// Another spec, or another release, is to be followed.
    GivenUp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecRead {
    pub wanted: WantedRelease,
    pub own: Arc<ReleaseOnDisk>,
    /// Whether signatures and blocking preconditions are overridden.
    pub is_forced: bool,
    pub generation: Option<i64>,
    /// Whether the cluster had a release that was applied whole.
    pub has_completed: bool,
}
