//! What happens: events, and what was read on the host.

use std::time::Duration;

use crate::plan::{Route, Target};

/// What of a plan the machine needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Live or through a reboot.
    pub route: Route,
    /// Whether pods must leave first.
    pub drain: bool,
    /// Pull spec of the OS image that is deployed, if another than the booted one.
    pub image: Option<String>,
}

/// What the journal on the host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenJournal {
    pub to: Target,
    pub stage: Stage,
    /// Whether an administrator began it on the host (`mcd pivot`): the daemon neither reboots for
    /// it nor reverts it.
    pub by_hand: bool,
    /// Whether the target stays booted until an administrator leaves it, as that of a control-plane
    /// node.
    pub stays: bool,
}

/// How far a stored plan came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Started; the boot loader still names the origin, or the route is live.
    Applying,
    /// The boot loader names the target, since this boot.
    Switched {
        /// Boot in which it was switched.
        boot_id: String,
    },
    /// The target booted and is being verified on the host.
    Booted,
    /// The target is booted and the host rolls back by itself: the boot loader names the origin
    /// again, a reboot completes it.
    RollingBack { cause: String },
    /// The origin is booted, or the route is live: what was begun is being undone, and that did not
    /// come to its end.
    Undoing { cause: String },
    /// The target is booted, was not verified before the deadline and stays, as that of a
    /// control-plane node.
    Stays { cause: String },
}

/// What a node may fetch before its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextTarget {
    /// Where its turn is to lead.
    pub to: Target,
    /// How long it waits first, so that the nodes of a pool do not all fetch at once.
    pub after: Duration,
}

/// What was read on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub at: Target,
    pub boot_id: String,
    /// The stored plan, if one is open.
    pub journal: Option<OpenJournal>,
    /// The target that failed here and is not to be tried again, with the cause.
    pub held: Option<(Target, String)>,
    /// Whether an administrator forces an update, even to the target that runs: the force file
    /// exists.
    pub is_forced: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The Node names a target: `desiredConfig` and `desiredImage`.
    Desired(Target),
    /// The Node names what may be fetched before its turn, or nothing any more.
    Next(Option<NextTarget>),
    Observed(Observation),
    /// The plan was made and stored.
    Planned(Outline),
    /// The target is rejected: by the plan, the image or the rehearsal. Nothing was changed.
    Rejected(Vec<String>),
    /// Image present, deployment rehearsed.
    Prepared,
    /// What the Node names next is fetched and rehearsed.
    Fetched,
    /// The same is not: the plan, the image or the rehearsal says no, or something broke.
    NotFetched(String),
    /// A fetch failed and is retried by the command under way.
    StillTrying(String),
    /// A pod or its budget blocks the drain.
    Blocked(String),
    /// The same for too long: the node counts as degraded, and the drain goes on.
    Overdue(String),
    /// Every pod that has to leave is gone.
    Drained,
    /// The stored plan is through and the boot loader switched.
    Switched {
        /// The boot in which it was.
        boot_id: String,
    },
    /// The stored plan is through on the running system.
    Applied,
    /// What was begun is undone: the host is in its origin, in this boot.
    Reverted,
    /// Checks do not hold yet.
    Unmet(String),
    /// The running host meets the target's expectations.
    Verified,
    /// The host found the target bad and rolls back.
    VerificationFailed(String),
    /// The node is in service again.
    InService,
    /// An uncordon beside another command failed.
    StillCordoned(String),
    /// The command under way failed; the host is in its old state or its journal says otherwise.
    Failed(String),
    /// A node at rest was changed by hand.
    Drifted(String),
    /// What was changed by hand is restored.
    Restored,
    /// It is time to try again.
    Retry,
    /// An administrator wants a held target tried again.
    Release,
}
