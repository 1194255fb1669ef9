//! Counters and conditions of a pool.
//!
//! - `pinned`: how far its nodes are with pinned image sets
//! - `surroundings`: who paused it, and whether its kubelets allow another minor release

mod pinned;
mod surroundings;

use std::collections::HashMap;

use api::condition::{self, ConditionStatus};
use api::machineconfiguration::machine_config_pool::{
    CertificateExpiry, MachineConfigPoolStatus, PoolConditionReason, PoolConditionType,
};
use api::machineconfiguration::{MachineConfigPool, PinList, Target};
use jiff::Timestamp;

use crate::finding::Finding;
use crate::hold::Hold;
use crate::image::PoolImage;
use crate::kubelet_skew::KubernetesMinor;
use crate::list::list;
use crate::membership::Conflict;
use crate::node::NodeView;
use crate::pinned_sets::UnpopulatedPins;
use crate::rollout::{NotAssigned, RolloutDecision};
use crate::selector::Selector;
use crate::view::PoolView;

/// Bytes of one condition message, so that it stays readable and the pool's object small.
const MESSAGE_BYTES: usize = 16 << 10;

/// What the message of `Updated` begins with; what all nodes run follows.
pub const UPDATED_WITH: &str = "All nodes are updated with ";

/// How a rendering of a pool's configuration ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderResult {
    Rendered,
    /// There is none; the message of the condition.
    Failed(String),
}

#[derive(Debug)]
pub struct StatusInput<'a> {
    /// The pool as it was read.
    pub pool: &'a MachineConfigPool,
    pub view: &'a PoolView,
    pub members: &'a [&'a NodeView],
    /// What was decided for them.
    pub decision: &'a RolloutDecision,
    /// Nodes that it and another pool select.
    pub conflicts: &'a [&'a Conflict],
    /// How the last rendering ended; `None` leaves `RenderDegraded` as it is.
    pub rendering: Option<RenderResult>,
    /// What the rendering waits for, if it waits.
    pub render_waits: Option<&'a str>,
    /// Fields of the pool that nothing follows, as [`unhandled`](crate::view::unhandled) names
    /// them.
    pub unhandled: &'a [String],
    /// The pinned image sets that the pool selects, or why that is not determined; `None` leaves
    /// the counters of its nodes as they are.
    pub pins: Result<Option<&'a PinList>, &'a UnpopulatedPins>,
    /// Certificates on the nodes; `None` leaves them as they are.
    pub certificates: Option<Vec<CertificateExpiry>>,
    /// The minor release of the API server, or why there is none; `None` leaves `KubeletSkew` as
    /// it is.
    pub api_server: Option<Result<KubernetesMinor, String>>,
    pub now: Timestamp,
}

/// Makes the status of a pool.
///
/// Shape: every counter and the types `Updated`, `Updating`, `NodeDegraded`, `RenderDegraded`,
/// `RolloutDegraded`, `Degraded`, `Waiting` and `PinnedImageSetsDegraded`, and `Unsupported`,
/// `Paused` and `KubeletSkew` once there is something to name; other types are kept. Source:
/// upstream's pool status and its texts; `RolloutDegraded`, `Waiting`, `Unsupported`, `Paused` and
/// `KubeletSkew`, and the copied message of `Degraded`, are ours.
pub fn status(input: StatusInput<'_>) -> MachineConfigPoolStatus {
    let StatusInput {
        pool,
        view,
        members,
        decision,
        conflicts,
        rendering,
        render_waits,
        unhandled,
        pins,
        certificates,
        api_server,
        now,
    } = input;
    let mut status = pool.status.clone().unwrap_or_default();
    let is_updated = |node: &&&NodeView| view.is_reached_by(node);
    status.observed_generation = view.generation;
    status.machine_count = count(members.len());
    status.updated_machine_count = count(members.iter().filter(is_updated).count());
    status.ready_machine_count = count(
        members
            .iter()
            .filter(|node| is_updated(node) && node.is_ready())
            .count(),
    );
    status.unavailable_machine_count = count(
        members
            .iter()
            .filter(|node| node.is_out_of_service())
            .count(),
    );
    status.degraded_machine_count = count(
        members
            .iter()
            .filter(|node| node.status.state().is_failed())
            .count(),
    );
    if let Some(certificates) = certificates {
        status.cert_expirys = certificates;
    }

    let is_finished = view.target.is_some()
        && !view.waits_for_image()
        && status.updated_machine_count == status.machine_count
        && status.ready_machine_count == status.machine_count
        && status.unavailable_machine_count == 0;
    if is_finished {
        status.configuration = pool.spec.configuration.clone();
    }
    let render_degraded = rendering.map(|rendering| render_degraded(rendering).at(now));
    let rendered = render_degraded
        .as_ref()
        .or_else(|| status.condition(&PoolConditionType::RenderDegraded));
    let is_rendered = rendered.is_none_or(|it| it.status != ConditionStatus::True);
    let is_stopped = decision.is_halted() || !is_rendered;
    let held = left_on_hold(view, members);
    for finding in progress(view, is_finished, is_stopped, &held) {
        condition::set(&mut status.conditions, finding.at(now));
    }
    if let Some(condition) = render_degraded {
        condition::set(&mut status.conditions, condition);
    }
    condition::set(&mut status.conditions, node_degraded(members).at(now));
    let rollout = rollout_degraded(view, decision, conflicts);
    condition::set(&mut status.conditions, rollout.at(now));
    let image = view.image.as_ref().map(PoolImage::degraded);
    if let Some(finding) = image.or_else(|| left_over_build(&status)) {
        condition::set(&mut status.conditions, finding.at(now));
    }
    let degraded = degraded(&status);
    condition::set(&mut status.conditions, degraded.at(now));
    let waits = waiting(view, render_waits, decision);
    condition::set(&mut status.conditions, waits.at(now));
    if let Ok(Some(list)) = pins {
        pinned::count(&mut status.pool_synchronizers_status, list, view, members);
    }
    let unpinned = pinned::degraded(pins.err(), members);
    condition::set(&mut status.conditions, unpinned.at(now));
    let is_known = status.condition(&PoolConditionType::Unsupported).is_some();
    if is_known || !unhandled.is_empty() {
        condition::set(&mut status.conditions, unsupported(unhandled).at(now));
    }
    let skew = api_server.map(|version| surroundings::kubelet_skew(version, members));
    for finding in [Some(surroundings::paused(pool)), skew]
        .into_iter()
        .flatten()
    {
        // One that never held is not there.
        if finding.holds() || status.condition(finding.r#type()).is_some() {
            condition::set(&mut status.conditions, finding.at(now));
        }
    }
    status
}

/// Whether the pool became updated between these two statuses; the event is sent once, then.
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

/// The nodes on hold that keep a pool from being updated, where all others are updated and in
/// service; else none.
fn left_on_hold<'a>(view: &PoolView, members: &[&'a NodeView]) -> Vec<&'a str> {
    let members = members.iter().copied();
    let (done, left): (Vec<&NodeView>, Vec<&NodeView>) =
        members.partition(|node| view.is_reached_by(node));
    let is_left = |node: &NodeView| node.hold.is_some() && !node.is_out_of_service();
    if done.iter().any(|node| node.is_out_of_service()) || !left.iter().all(|node| is_left(node)) {
        return Vec::new();
    }
    left.into_iter().map(|node| node.name.as_str()).collect()
}

fn progress(view: &PoolView, is_finished: bool, is_stopped: bool, held: &[&str]) -> [Finding; 2] {
    use PoolConditionReason::Unset;
    use PoolConditionType::{Updated, Updating};
    let Some(target) = &view.target else {
        let message = "Pool has no rendered MachineConfig yet".to_owned();
        return [Finding::no(Updated), Finding::not(Updating, message)];
    };
    let goal = named(target);
    if is_finished {
        let message = format!("{UPDATED_WITH}{goal}");
        return [Finding::yes(Updated, Unset, message), Finding::no(Updating)];
    }
    if view.stops.are_set() {
        let message = format!("Pool update stopped: {}", view.stops);
        return [Finding::no(Updated), Finding::not(Updating, message)];
    }
    if view.allows_assignments() && !held.is_empty() {
        let (count, names) = (held.len(), list(held, ", "));
        let message = format!("All other nodes are updated with {goal}; {count} on hold: {names}");
        return [Finding::no(Updated), Finding::not(Updating, message)];
    }
    if let Some(image) = &view.image {
        let updating = if is_stopped && !view.is_paused && !image.has_stopped() {
            let message = "Pool update paused due to degraded condition".to_owned();
            Finding::not(Updating, message)
        } else {
            image.updating(view.is_paused)
        };
        return [Finding::no(Updated), updating];
    }
    if let Some(hold) = &view.hold {
        let message = format!("Pool update stopped: {hold}");
        [Finding::no(Updated), Finding::not(Updating, message)]
    } else if view.is_paused {
        let message = format!("Pool is paused; will not update to {goal}");
        [Finding::no(Updated), Finding::not(Updating, message)]
    } else {
        let message = format!("All nodes are updating to {goal}");
        [Finding::no(Updated), Finding::yes(Updating, Unset, message)]
    }
}

/// A target, as clients know it.
fn named(target: &Target) -> String {
    let config = &target.config;
    match &target.image {
        Some(image) => format!("MachineConfig {config} / Image {image}"),
        None => format!("MachineConfig {config}"),
    }
}

fn render_degraded(rendering: RenderResult) -> Finding {
    match rendering {
        RenderResult::Rendered => Finding::no(PoolConditionType::RenderDegraded),
        RenderResult::Failed(why) => Finding::yes(
            PoolConditionType::RenderDegraded,
            PoolConditionReason::Unset,
            joined([why].into_iter(), ""),
        ),
    }
}

fn node_degraded(members: &[&NodeView]) -> Finding {
    let degraded: Vec<_> = members
        .iter()
        .filter(|node| node.status.state().is_failed())
        .collect();
    if degraded.is_empty() {
        return Finding::no(PoolConditionType::NodeDegraded);
    }
    let reports = degraded
        .iter()
        .map(|node| match node.status.reason.as_str() {
            "" => format!("Node {} is reporting no reason", node.name),
            reason => format!("Node {} is reporting: {reason:?}", node.name),
        });
    let reports = joined(reports, ", ");
    Finding::yes(
        PoolConditionType::NodeDegraded,
        PoolConditionReason::nodes_degraded(degraded.len()),
        reports,
    )
}

fn rollout_degraded(
    view: &PoolView,
    decision: &RolloutDecision,
    conflicts: &[&Conflict],
) -> Finding {
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
    // What becomes of an image is said by `ImageBuildDegraded`.
    if let Some(hold) = &view.hold
        && !matches!(hold, Hold::Image(_))
    {
        found.push((hold.reason(), hold.to_string()));
    }
    if let Err(refusal) = &decision.budget {
        found.push((
            PoolConditionReason::InvalidMaxUnavailable,
            refusal.to_string(),
        ));
    }
    if decision.is_halted() {
        let target = view.target.as_ref().map(named).unwrap_or_default();
        let failed = list(&decision.failed, ", ");
        let mut why = format!("rollout of {target} is halted after failures");
        if !failed.is_empty() {
            why = format!("{why} on {failed}");
        }
        let goal = decision.goal.as_ref();
        if let Some(goal) = goal.filter(|goal| view.target.as_ref() != Some(*goal)) {
            why = format!("{why}; its nodes return to {}", named(goal));
        }
        found.push((PoolConditionReason::RolloutHalted, why));
    }
    for conflict in conflicts {
        found.push((PoolConditionReason::NodeInTwoPools, conflict.to_string()));
    }
    let Some((reason, _)) = found.first() else {
        return Finding::no(PoolConditionType::RolloutDegraded);
    };
    let reason = reason.clone();
    let messages = found.into_iter().map(|(_, message)| message);
    let message = joined(messages, "; ");
    Finding::yes(PoolConditionType::RolloutDegraded, reason, message)
}

/// What has no effect. It is no failure: nodes run as before.
fn unsupported(unhandled: &[String]) -> Finding {
    let mut named = unhandled.to_vec();
    let Some(first) = named.first_mut() else {
        return Finding::no(PoolConditionType::Unsupported);
    };
    first.insert_str(0, "without effect, because nothing handles it: ");
    Finding::yes(
        PoolConditionType::Unsupported,
        PoolConditionReason::NotImplemented,
        joined(named.into_iter(), ", "),
    )
}

/// A failed build of an image that no object asks for any more degrades no pool.
///
/// Source: reason and message are those of upstream's node controller.
fn left_over_build(status: &MachineConfigPoolStatus) -> Option<Finding> {
    let build = status.condition(&PoolConditionType::ImageBuildDegraded)?;
    (build.status == ConditionStatus::True).then(|| {
        Finding::cleared(
            PoolConditionType::ImageBuildDegraded,
            PoolConditionReason::NoLayeredObjects,
            "No layered pool objects found, clearing stale build degraded condition".to_owned(),
        )
    })
}

/// Any of the others but `PinnedImageSetsDegraded`: a pool without its pinned images runs its
/// configuration, and holds no release up. The first of them gives the message: `Degraded` alone
/// shows the administrator the cause.
fn degraded(status: &MachineConfigPoolStatus) -> Finding {
    [
        PoolConditionType::NodeDegraded,
        PoolConditionType::RenderDegraded,
        PoolConditionType::ImageBuildDegraded,
        PoolConditionType::RolloutDegraded,
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

/// Who stopped the pool, whether or not a node waits; what the rendering waits for; then which
/// nodes wait, and for what, as [`NotAssigned`] prints it. Nodes with one reason share a sentence.
fn waiting(view: &PoolView, render_waits: Option<&str>, decision: &RolloutDecision) -> Finding {
    let mut sentences: Vec<(&NotAssigned, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&NotAssigned, usize> = HashMap::new();
    for (node, reason) in decision.waiting() {
        let place = *places.entry(reason).or_insert(sentences.len());
        match sentences.get_mut(place) {
            Some((_, nodes)) => nodes.push(node),
            None => sentences.push((reason, vec![node])),
        }
    }
    let stops = Some(&view.stops).filter(|stops| stops.are_set());
    // The nodes that wait for it are said with it, and first.
    sentences.sort_by_key(|(reason, _)| !matches!(reason, NotAssigned::Stopped(_)));
    let is_said = matches!(sentences.first(), Some((NotAssigned::Stopped(_), _)));
    let reason = match (stops, render_waits, sentences.first()) {
        (Some(_), ..) => PoolConditionReason::Stopped,
        (None, Some(_), _) => PoolConditionReason::NotRendered,
        (None, None, Some((first, _))) => waiting_reason(first),
        (None, None, None) => return Finding::no(PoolConditionType::Waiting),
    };
    let stopped = stops.filter(|_| !is_said).map(ToString::to_string);
    let rendering = render_waits.map(|why| format!("not rendered yet: {why}"));
    let nodes = sentences
        .iter()
        .map(|(reason, nodes)| format!("{}: {reason}", list(nodes, ", ")));
    let sentences: Vec<String> = stopped.into_iter().chain(rendering).chain(nodes).collect();
    let message = joined(sentences.into_iter(), "; ");
    Finding::yes(PoolConditionType::Waiting, reason, message)
}

/// The sentences as far as [`MESSAGE_BYTES`] go, and how many more there are. The first one is
/// there in any case, cut off if need be.
fn joined(sentences: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    let mut left = sentences.len();
    let mut message = String::new();
    for sentence in sentences {
        if !message.is_empty() {
            message.push_str(separator);
            if message.len() + sentence.len() > MESSAGE_BYTES {
                return format!("{message}and {left} more");
            }
        }
        message.push_str(&sentence);
        if message.len() > MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
            message.push('…');
        }
        left -= 1;
    }
    message
}

fn waiting_reason(not_assigned: &NotAssigned) -> PoolConditionReason {
    match not_assigned {
        NotAssigned::Stopped(_) => PoolConditionReason::Stopped,
        NotAssigned::Paused => PoolConditionReason::Paused,
        NotAssigned::Held(hold) => hold.reason(),
        NotAssigned::NoBudget => PoolConditionReason::InvalidMaxUnavailable,
        NotAssigned::Halted { .. } | NotAssigned::Reverted { .. } => {
            PoolConditionReason::RolloutHalted
        }
        NotAssigned::OnHold(_) => PoolConditionReason::NodesOnHold,
        NotAssigned::Quarantined { .. } => PoolConditionReason::NodesQuarantined,
        NotAssigned::Budget { .. } | NotAssigned::RunsController => PoolConditionReason::Budget,
        NotAssigned::Policy(_) => PoolConditionReason::RolloutPolicy,
        NotAssigned::WriteRejected(_) => PoolConditionReason::NodesNotAssigned,
        NotAssigned::NotReported | NotAssigned::Unready(_) => PoolConditionReason::NodesNotReady,
        NotAssigned::Updated
        | NotAssigned::Updating
        | NotAssigned::Failed
        | NotAssigned::NoTarget
        | NotAssigned::PoolDeleted => PoolConditionReason::Unset,
    }
}

#[cfg(test)]
mod tests;
