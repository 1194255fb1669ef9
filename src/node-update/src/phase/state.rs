//! The phases' data.

use super::{Failures, NextTarget, Origin, Outline};
use crate::plan::Target;

/// The host is read: booted deployment, journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starting {
    /// An administrator released the held target, before the host was read.
    pub is_released: bool,
    pub failures: Option<Failures>,
}

/// The desired target is verified and the node in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    pub at: Target,
    /// What is fetched before the node's turn.
    pub ahead: Ahead,
}

/// How far a node at rest is with what it may fetch before its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ahead {
    /// The Node names nothing that does not run already.
    #[default]
    Nothing,
    /// It is fetched after a while.
    Waiting(NextTarget),
    /// It is planned, fetched and rehearsed.
    Fetching(Target),
    /// It is fetched and rehearsed.
    Fetched(Target),
    /// It could not be, and is tried again later.
    Failed { to: Target, cause: String },
}

impl Ahead {
    /// What is fetched, or was.
    pub const fn target(&self) -> Option<&Target> {
        match self {
            Self::Nothing => None,
            Self::Waiting(next) => Some(&next.to),
            Self::Fetching(to) | Self::Fetched(to) | Self::Failed { to, .. } => Some(to),
        }
    }

    /// Whether a command is under way.
    pub(super) const fn is_fetching(&self) -> bool {
        matches!(self, Self::Fetching(_))
    }
}

/// The plan is made, the image fetched and the deployment rehearsed: in service, as long as the
/// node can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetching {
    pub origin: Origin,
    pub to: Target,
    pub step: Fetch,
    /// The last error of a fetch that is retried.
    pub last_error: Option<String>,
    pub failures: Option<Failures>,
}

/// How far a fetch came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// The node returns to service first, because an earlier target may have taken it out. One that
    /// cannot serve (its kubelet does not become Ready, or the API server refuses the uncordon)
    /// fetches while it is out: the target may be what mends it.
    Returning,
    /// The same target was fetched before its turn already, and that is under way still.
    Joining,
    Planning,
    /// The plan is stored; the image is fetched and the deployment rehearsed.
    Preparing(Outline),
}

/// Pods are evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    pub origin: Origin,
    pub to: Target,
    /// What blocks the drain, for people: pod and budget.
    pub blocked: Option<String>,
    pub failures: Option<Failures>,
}

/// The stored plan is executed, or reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applying {
    pub origin: Origin,
    pub to: Target,
    /// Whether pods were evicted for this attempt, and that is not counted as lost yet.
    pub is_drained: bool,
    pub failures: Option<Failures>,
}

/// The boot loader names the target; the host goes down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebooting {
    pub origin: Origin,
    pub to: Target,
    /// The boot that ends. Another one means that the host is back.
    pub boot_id: String,
    pub failures: Option<Failures>,
}

/// The host is checked against the target's expectations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verifying {
    /// What it is checked against.
    pub to: Target,
    /// What does not hold yet, for people.
    pub unmet: Option<String>,
    pub failures: Option<Failures>,
}

/// Verified; the node returns to service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finishing {
    pub to: Target,
    pub failures: Option<Failures>,
}

/// The target failed; the host returns to the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollingBack {
    pub origin: Origin,
    pub target: Target,
    pub cause: String,
    /// How far the host is.
    pub step: RollBack,
    pub failures: Option<Failures>,
}

/// How far a roll back is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollBack {
    /// The host found the target bad; it is read for what it does about that.
    Reading,
    /// The host reboots by itself in a moment.
    Waiting,
    /// The target stayed booted and may have been in service meanwhile: pods are evicted first.
    Draining {
        /// What blocks the drain, for people: pod and budget.
        blocked: Option<String>,
    },
    /// The plan is undone, or the host reboots into the origin.
    Reverting,
}

/// In the origin and in service; the target that failed is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub origin: Origin,
    pub target: Target,
    pub cause: String,
}

/// An attempt failed, or an administrator works on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degraded {
    /// What failed; the newest cause is why.
    pub failures: Failures,
    pub wait: Wait,
    /// An administrator released the held target before the host was read.
    pub is_released: bool,
}

/// What a degraded node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Retry,
    /// The next drain: the node is in service after one that was lost.
    InService,
    /// The same, and the node could not be uncordoned yet.
    Uncordon,
}

/// The target is rejected; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreconcilable {
    pub origin: Origin,
    pub target: Target,
    pub reasons: Vec<String>,
    /// This rejection, and what failed before.
    pub failures: Failures,
}
