//! What the machine is told: events, and what was read on the host.

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
pub struct Journal {
    /// The stored plan's target.
    pub to: Target,
    /// How far it came.
    pub stage: Stage,
    /// Whether a person began it on the host (`mcd pivot`): the daemon neither reboots for it nor takes it back.
    pub by_hand: bool,
    /// Whether the target is left by a person only, as one of a control-plane node.
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
    /// The target booted and is being proved on the host.
    Booted,
    /// The target is booted and the host goes back by itself: the boot loader names the origin again, a reboot completes it.
    RollingBack {
        /// Why.
        cause: String,
    },
    /// The origin is booted, or the route is live: what was begun is being undone, and that did not come to its end.
    Undoing {
        /// Why.
        cause: String,
    },
    /// The target is booted, was not proved until the deadline and stays, as it was told to.
    Stays {
        /// Why.
        cause: String,
    },
}

/// What was read on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The booted deployment's record.
    pub at: Target,
    /// This boot.
    pub boot_id: String,
    /// The stored plan, if one is open.
    pub journal: Option<Journal>,
    /// The target that failed here and is not to be tried again, with the cause.
    pub held: Option<(Target, String)>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The node's turn: `desiredConfig` (and image) as read from the Node.
    Desired(Target),
    /// The host was read.
    Observed(Observation),
    /// The plan was made and stored.
    Planned(Outline),
    /// The target is refused: by the plan, the image or the rehearsal. Nothing was touched.
    Refused(Vec<String>),
    /// Image present, deployment rehearsed.
    Prepared,
    /// An attempt to prepare failed and goes on being retried.
    StillTrying(String),
    /// A pod or budget refuses.
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
    /// What was begun is undone: the host is in `current` again, in this boot.
    TakenBack,
    /// Checks do not hold yet.
    Unmet(String),
    /// The running host was verified against the target.
    Proved,
    /// The host found the target bad and goes back.
    Disproved(String),
    /// The node is in service again.
    GivenBack,
    /// Uncordoning beside another command failed.
    StillCordoned(String),
    /// The command under way failed; the host is in its old state or its journal says otherwise.
    Failed(String),
    /// It is time to try again.
    Retry,
    /// An administrator wants a held target tried again.
    Release,
}
