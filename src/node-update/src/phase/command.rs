//! What the machine asks for.

use std::time::Duration;

use crate::plan::Target;

/// What to do. Each is answered by one of the events named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read the host. → `Observed`, `Failed`
    Observe,
    /// Stop the plan, fetch or drain under way and forget its answer.
    Cancel,
    /// Read both configurations, judge, plan, store. → `Planned`, `Rejected`, `Failed`
    Plan { from: Target, to: Target },
    /// Fetch and rehearse the stored plan. → `Prepared`, `Rejected`, `StillTrying`, `Failed`
    Prepare,
    /// Plan, fetch and rehearse at the lowest priority, before the node's turn. → `Fetched`,
    /// `NotFetched`, `StillTrying`
    Prefetch { from: Target, to: Target },
    /// Cordon, then evict. → `Drained`, `Blocked`, `Overdue`, `Failed`
    Drain,
    /// Execute the stored plan, or finish it. → `Switched`, `Applied`, `Failed`
    Apply,
    /// Reboot by logind. → `Failed`, or the end of this process
    Reboot,
    /// Undo the stored plan, whose target has not booted; after the switch, switch back. →
    /// `Reverted`, `Failed`
    Revert,
    /// Return from the target, which has booted, to the previous deployment. → `Reverted` where
    /// nothing is left to undo, `Failed`, or the end of this process
    RollBack,
    /// Check the running host. → `Verified`, `Unmet`, `VerificationFailed`, `Failed`
    Verify { to: Target },
    /// Uncordon if the cordon is ours. → `InService`, `Failed`
    ReturnToService,
    /// The same, while another command answers. → nothing, `StillCordoned`
    Uncordon,
    /// Forget that a target failed.
    Forget,
    /// Send `Retry` after this time: the phase's [`super::Phase::delay`].
    RetryAfter(Duration),
}
