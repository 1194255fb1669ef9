//! Counters and conditions of a pool.

use api::machine_config_pool::{
    CertificateExpiry, MachineConfigPoolStatus, PoolConditionReason, PoolConditionType,
};
use api::{ConditionStatus, MachineConfigPool};
use jiff::Timestamp;

use crate::conditions::{self, Finding};
use crate::list::list;
use crate::membership::Conflict;
use crate::node::NodeView;
use crate::rollout::{Decision, Stays};
use crate::selector::Selector;
use crate::view::PoolView;

/// How many bytes of nodes' own words a condition repeats; the object has room for more, its readers have not.
const REPORTS: usize = 16 << 10;

/// What a status is made of.
#[derive(Debug)]
pub struct Report<'a> {
    /// The pool as it was read.
    pub pool: &'a MachineConfigPool,
    /// The same, parsed.
    pub view: &'a PoolView,
    /// Its nodes.
    pub members: &'a [&'a NodeView],
    /// What was decided for them.
    pub decision: &'a Decision,
    /// Nodes that it and another pool select.
    pub conflicts: &'a [&'a Conflict],
    /// How the last rendering ended; `None` leaves `RenderDegraded` as it is.
    pub rendering: Option<Result<(), String>>,
    /// Certificates on the nodes; `None` leaves them as they are.
    pub certificates: Option<Vec<CertificateExpiry>>,
    /// The time.
    pub now: Timestamp,
}

/// Makes the status of a pool.
///
/// Shape: every counter and the types `Updated`, `Updating`, `NodeDegraded`, `RenderDegraded`, `RolloutDegraded`, `Degraded` and
/// `Waiting`; what others put there stays.
/// Source: upstream's pool status and its texts; `RolloutDegraded` and `Waiting`, and the copied message of `Degraded`, are ours.
pub fn status(report: Report<'_>) -> MachineConfigPoolStatus {
    let Report {
        pool,
        view,
        members,
        decision,
        conflicts,
        rendering,
        certificates,
        now,
    } = report;
    let mut status = pool.status.clone().unwrap_or_default();
    let target = view.target.as_deref();
    let is_updated = |node: &&&NodeView| target.is_some_and(|target| node.is_updated(target));
    status.observed_generation = view.generation;
    status.machine_count = count(members.len());
    status.updated_machine_count = count(members.iter().filter(is_updated).count());
    status.ready_machine_count = count(
        members
            .iter()
            .filter(|node| is_updated(node) && node.is_ready())
            .count(),
    );
    status.unavailable_machine_count = count(members.iter().filter(|node| node.is_out()).count());
    status.degraded_machine_count =
        count(members.iter().filter(|node| node.state.is_failed()).count());
    if let Some(certificates) = certificates {
        status.cert_expirys = certificates;
    }

    let is_finished = target.is_some()
        && status.updated_machine_count == status.machine_count
        && status.ready_machine_count == status.machine_count
        && status.unavailable_machine_count == 0;
    if is_finished {
        status.configuration = pool.spec.configuration.clone();
    }
    for finding in progress(target, is_finished, view.is_paused) {
        conditions::set(&mut status.conditions, finding, now);
    }
    if let Some(rendering) = rendering {
        conditions::set(&mut status.conditions, render_degraded(rendering), now);
    }
    conditions::set(&mut status.conditions, node_degraded(members), now);
    let rollout = rollout_degraded(view, decision, conflicts);
    conditions::set(&mut status.conditions, rollout, now);
    let degraded = degraded(&status);
    conditions::set(&mut status.conditions, degraded, now);
    conditions::set(&mut status.conditions, waiting(decision), now);
    status
}

/// Whether this status, and not the one before, says that the pool is updated: the moment to say so once.
pub fn has_completed(
    before: Option<&MachineConfigPoolStatus>,
    after: &MachineConfigPoolStatus,
) -> bool {
    let is_updated = |status: &MachineConfigPoolStatus| {
        status
            .condition(&PoolConditionType::Updated)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    };
    is_updated(after)
        && before.is_some_and(|before| !before.conditions.is_empty() && !is_updated(before))
}

fn count(nodes: usize) -> i32 {
    i32::try_from(nodes).unwrap_or(i32::MAX)
}

fn progress(target: Option<&str>, is_finished: bool, is_paused: bool) -> [Finding; 2] {
    use PoolConditionReason::Unset;
    use PoolConditionType::{Updated, Updating};
    let Some(target) = target else {
        let message = "Pool has no rendered MachineConfig yet".to_owned();
        return [Finding::no(Updated), Finding::not(Updating, message)];
    };
    if is_finished {
        let message = format!("All nodes are updated with MachineConfig {target}");
        [Finding::yes(Updated, Unset, message), Finding::no(Updating)]
    } else if is_paused {
        let message = format!("Pool is paused; will not update to MachineConfig {target}");
        [Finding::no(Updated), Finding::not(Updating, message)]
    } else {
        let message = format!("All nodes are updating to MachineConfig {target}");
        [Finding::no(Updated), Finding::yes(Updating, Unset, message)]
    }
}

fn render_degraded(rendering: Result<(), String>) -> Finding {
    match rendering {
        Ok(()) => Finding::no(PoolConditionType::RenderDegraded),
        Err(why) => Finding::yes(
            PoolConditionType::RenderDegraded,
            PoolConditionReason::Unset,
            why,
        ),
    }
}

fn node_degraded(members: &[&NodeView]) -> Finding {
    let degraded: Vec<_> = members
        .iter()
        .filter(|node| node.state.is_failed())
        .collect();
    if degraded.is_empty() {
        return Finding::no(PoolConditionType::NodeDegraded);
    }
    let mut reports: Vec<String> = Vec::new();
    let mut length = 0;
    for node in &degraded {
        let report = format!("Node {} is reporting: {:?}", node.name, node.reason);
        length += report.len();
        if length > REPORTS && !reports.is_empty() {
            reports.push(format!("and {} more", degraded.len() - reports.len()));
            break;
        }
        reports.push(report);
    }
    Finding::yes(
        PoolConditionType::NodeDegraded,
        PoolConditionReason::nodes_degraded(degraded.len()),
        reports.join(", "),
    )
}

fn rollout_degraded(view: &PoolView, decision: &Decision, conflicts: &[&Conflict]) -> Finding {
    let mut found = Vec::new();
    for selector in [&view.node_selector, &view.config_selector] {
        if let Err(refusal) = selector {
            found.push((PoolConditionReason::InvalidSelector, refusal.to_string()));
        }
    }
    if view.node_selector == Ok(Selector::Everything) {
        let why = "spec.nodeSelector selects all nodes; a non-empty selector is required";
        found.push((PoolConditionReason::SelectingAll, why.to_owned()));
    }
    if let Err(refusal) = &decision.budget {
        found.push((
            PoolConditionReason::InvalidMaxUnavailable,
            refusal.to_string(),
        ));
    }
    if decision.is_halted() {
        let target = view.target.as_deref().unwrap_or_default();
        let failed = list(&decision.failed, ", ");
        let why = format!("rollout of MachineConfig {target} is halted after failures on {failed}");
        found.push((PoolConditionReason::RolloutHalted, why));
    }
    for conflict in conflicts {
        found.push((PoolConditionReason::NodeInTwoPools, conflict.to_string()));
    }
    let messages: Vec<_> = found.iter().map(|(_, message)| message.clone()).collect();
    match found.into_iter().next() {
        None => Finding::no(PoolConditionType::RolloutDegraded),
        Some((reason, _)) => Finding::yes(
            PoolConditionType::RolloutDegraded,
            reason,
            messages.join("; "),
        ),
    }
}

/// Any of the others. The first of them gives the message: an administrator who sees `Degraded` must not have to look further.
fn degraded(status: &MachineConfigPoolStatus) -> Finding {
    [
        PoolConditionType::NodeDegraded,
        PoolConditionType::RenderDegraded,
        PoolConditionType::RolloutDegraded,
        PoolConditionType::ImageBuildDegraded,
    ]
    .iter()
    .filter_map(|r#type| status.condition(r#type))
    .find(|condition| condition.status == ConditionStatus::True)
    .map_or_else(
        || Finding::no(PoolConditionType::Degraded),
        |cause| {
            let message = if cause.message.is_empty()
                && cause.r#type == PoolConditionType::ImageBuildDegraded
            {
                "Custom OS image build failed".to_owned()
            } else {
                cause.message.clone()
            };
            Finding::yes(
                PoolConditionType::Degraded,
                PoolConditionReason::Unset,
                message,
            )
        },
    )
}

/// Who waits, and for what, in the words of [`Stays`]; nodes with the same reason share a sentence.
fn waiting(decision: &Decision) -> Finding {
    let mut sentences: Vec<(&Stays, Vec<&str>)> = Vec::new();
    for (node, reason) in decision.waiting() {
        match sentences.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, nodes)) => nodes.push(node),
            None => sentences.push((reason, vec![node])),
        }
    }
    let Some((first, _)) = sentences.first() else {
        return Finding::no(PoolConditionType::Waiting);
    };
    let reason = waiting_reason(first);
    let sentences: Vec<String> = sentences
        .iter()
        .map(|(reason, nodes)| format!("{}: {reason}", list(nodes, ", ")))
        .collect();
    Finding::yes(PoolConditionType::Waiting, reason, sentences.join("; "))
}

const fn waiting_reason(stays: &Stays) -> PoolConditionReason {
    match stays {
        Stays::Paused => PoolConditionReason::Paused,
        Stays::NoBudget => PoolConditionReason::InvalidMaxUnavailable,
        Stays::Halted { .. } => PoolConditionReason::RolloutHalted,
        Stays::Budget { .. } => PoolConditionReason::Budget,
        Stays::Refused(_) => PoolConditionReason::NodesNotTold,
        Stays::NotReported | Stays::Unready(_) => PoolConditionReason::NodesNotReady,
        Stays::Updated | Stays::Updating | Stays::Failed | Stays::NoTarget | Stays::PoolDeleted => {
            PoolConditionReason::Unset
        }
    }
}

#[cfg(test)]
mod tests;
