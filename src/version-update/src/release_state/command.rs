//! What is to be done.

use crate::acceptance::VersionEvent;

/// What an event leads to: what is done at once, and what the sender of the event goes on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseCommands {
    /// Done at once, in this order.
    pub at_once: Vec<ReleaseCommand>,
    /// Each event is followed by work that ends in another event, or by a wait: none leads nowhere.
    pub then: ReleaseTask,
}

/// What is done at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseCommand {
    /// Says it in an event of the ClusterVersion.
    Say(VersionEvent),
    /// What was reported of the applied release is dropped: it is another one now.
    Restart,
    /// Gives the applied release its turn. → `Loaded`, `Unreadable`
    Apply,
    /// Reads the request. → `SpecRead`
    Look,
    /// What depends on the applied release's files goes on: advice and preflights.
    Announce,
    Report,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseTask {
    /// Verify the requested release, and bring it to disk. → `Retrieved`, `NotRetrieved`
    Retrieve,
    /// Load it, and compare it with the cluster. → `Checked`, `NotLoaded`
    Check,
    /// Have the status written, so that the history has the applied release. → `Loaded` soon
    Record,
    /// One pass over the applied release. → `Ended`
    Pass,
    /// Nothing until then. → `SpecRead` for the request, `Loaded` for the applied release
    Wait(ReleaseWait),
}

/// What is waited for. A change of the ClusterVersion ends each of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseWait {
    /// Such a change.
    Change,
    /// Nothing: at once.
    Nothing,
    Trial,
    /// The first release of the cluster is applied whole.
    FirstRelease,
    /// A refused request is tried again; the number of its refusals.
    Refused(u32),
    /// Files can be read.
    Readable,
    /// A release that is applied is applied again.
    Applied,
    /// A pass that has failed is repeated.
    Failed,
}

impl ReleaseCommands {
    pub(super) fn then(at_once: Vec<ReleaseCommand>, then: ReleaseTask) -> Self {
        Self { at_once, then }
    }

    pub(super) const fn only(then: ReleaseTask) -> Self {
        Self {
            at_once: Vec::new(),
            then,
        }
    }

    pub(super) const fn wait(wait: ReleaseWait) -> Self {
        Self::only(ReleaseTask::Wait(wait))
    }
}
