//! What the nodes go to: the pool's target or, after a halt, the one before it.

use api::machineconfiguration::Target;

use super::NotAssigned;
use crate::node::{NodeView, Unready};
use crate::view::PoolView;

/// What nodes are to have, and not to have.
pub(super) struct Course<'a> {
    pub(super) goal: Option<&'a Target>,
    /// What they return from, where the pool's target is reverted.
    pub(super) rejected: Option<&'a Target>,
}

impl<'a> Course<'a> {
    /// The pool's course; `is_halted` if more nodes failed on its target than may.
    pub(super) fn of(pool: &'a PoolView, is_halted: bool) -> Self {
        let target = pool.target.as_ref().filter(|_| !pool.waits_for_image());
        let returns_to = target.and_then(|_| {
            if is_halted {
                pool.returns_to()
            } else {
                pool.reverted()
            }
        });
        Self {
            goal: returns_to.or(target),
            rejected: returns_to.and(target),
        }
    }

    /// The configuration that nodes return to, if the target is reverted.
    pub(super) fn returns_to(&self) -> Option<&'a Target> {
        self.rejected.and(self.goal)
    }

    /// Whether a node that failed may try again by itself what it failed on, and takes one of the
    /// budget for that. A node that failed on an older target and is left alone, because the
    /// target is reverted, may.
    pub(super) fn may_retry(&self, node: &NodeView) -> bool {
        let status = &node.status;
        status.is_failing()
            && match (self.rejected, self.goal) {
                (Some(rejected), _) => !status.is_assigned_to(rejected),
                (None, goal) => goal.is_some_and(|goal| status.is_assigned_to(goal)),
            }
    }

    /// Whether a node that was not assigned the goal keeps what it has: it never got the
    /// configuration that is reverted.
    pub(super) fn passes_over(&self, node: &NodeView) -> bool {
        self.rejected
            .is_some_and(|rejected| !node.status.is_assigned_to(rejected))
    }

    /// Whether a node that is not ready is assigned the goal all the same: what it returns from
    /// may be why it is not ready. A cordon is an administrator's.
    pub(super) fn may_heal(&self, node: &NodeView) -> bool {
        self.rejected.is_some()
            && !node.is_ready()
            && !node.unready.contains(&Unready::Unschedulable)
    }

    /// Why a node that runs the goal, or keeps what it has, gets no assignment.
    pub(super) fn settled(&self) -> NotAssigned {
        match self.rejected {
            Some(_) => NotAssigned::Reverted {
                config: self.goal.map(ToString::to_string).unwrap_or_default(),
            },
            None => NotAssigned::Updated,
        }
    }
}

#[cfg(test)]
mod tests;
