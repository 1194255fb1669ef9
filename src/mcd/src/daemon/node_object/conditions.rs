//! What a MachineConfigNode shows of a Node's update: a function of the Node's annotations and of
//! what stood there before.
//!
//! - `pins`: pinned images
//!
//! The Node is the only input, so that the two never contradict each other. What stood there counts
//! for the history alone: which phases of the update are over, and since when. A writer that missed
//! a phase catches up with the next one, because each phase implies those before it.

mod pins;

use api::condition;
use api::machineconfiguration::machine_config_node::{
    ConfigVersion, NOT_YET_OCCURRED, NOT_YET_SET, NodeConditionType as Type,
};
use api::machineconfiguration::node_status::{DrainRequest, Reading};
use api::machineconfiguration::{MachineConfigNodeStatus, NodeState, NodeStatus, PhaseName};
use api::{Condition, ConditionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use node::view::Node;

use ConditionStatus::{False, True, Unknown};

/// Every type, in the order of an update.
pub const TYPES: [Type; 14] = [
    Type::UpdatePrepared,
    Type::UpdateExecuted,
    Type::Cordoned,
    Type::Drained,
    Type::AppliedFilesAndOS,
    Type::UpdatePostActionComplete,
    Type::RebootedNode,
    Type::UpdateComplete,
    Type::Uncordoned,
    Type::Resumed,
    Type::Updated,
    Type::NodeDegraded,
    Type::PinnedImageSetsProgressing,
    Type::PinnedImageSetsDegraded,
];

/// Steps of [`next`], at most.
const STEPS: usize = 2;

/// The longest message, in characters: the reason of a Node is shorter.
const MESSAGE_CHARS: usize = 4096;

/// What [`next`] leads to.
///
/// Shape: as there. A status that is followed by another one at once is not worth a write.
pub fn settled(
    node: &Node,
    generation: Option<i64>,
    before: &MachineConfigNodeStatus,
    now: Timestamp,
) -> MachineConfigNodeStatus {
    let mut status = before.clone();
    for _ in 0..STEPS {
        status = next(node, generation, &status, now);
    }
    // Once, beside what the API server has: it refuses a generation below its own.
    let mut edit = Edit { after: status, now };
    edit.show_pins(&NodeStatus::read(&node.annotations));
    edit.after
}

/// The next status of the MachineConfigNode of `node`, whose present one is `before`.
///
/// Shape: applied to its own result until nothing changes, it takes at most two steps. An update
/// ends with two: all phases complete, and then `Updated`, which makes the others False.
///
/// Source: `docs/reference/daemon.md`, "MachineConfigNode".
pub fn next(
    node: &Node,
    generation: Option<i64>,
    before: &MachineConfigNodeStatus,
    now: Timestamp,
) -> MachineConfigNodeStatus {
    let status = NodeStatus::read(&node.annotations);
    let mut edit = Edit {
        after: before.clone(),
        now,
    };
    for r#type in TYPES {
        if condition::find(&before.conditions, &r#type).is_none() {
            let message = format!("This node has not yet entered the {type} phase");
            edit.put(r#type, False, NOT_YET_OCCURRED.to_owned(), message);
        }
    }
    let is_at_rest = status.phase() == Some(PhaseName::Idle) && status.is_done();
    if let (Some(phase), Some(target)) = (status.phase(), status.desired_config.as_deref()) {
        edit.show(node, &status, phase, target);
    }
    if edit.after.config_version.is_none() {
        edit.after.config_version = Some(ConfigVersion {
            current: status.current_config.clone(),
            desired: NOT_YET_SET.to_owned(),
        });
    }
    // The controller changes the spec with each assignment: that alone is not worth a write while
    // others follow.
    if is_at_rest || edit.after != *before {
        edit.after.observed_generation = generation;
    }
    edit.after
}

struct Edit {
    after: MachineConfigNodeStatus,
    now: Timestamp,
}

impl Edit {
    fn show(&mut self, node: &Node, status: &NodeStatus, phase: PhaseName, target: &str) {
        use PhaseName as P;
        match phase {
            P::Idle if status.is_done() => return self.rest(status, target),
            // Idle: another target was assigned, and the daemon has not taken it up.
            P::Starting | P::Idle => return,
            P::Fetching => {
                let message = format!("{target} is planned, fetched and rehearsed");
                self.begin(vec![(Type::UpdatePrepared, Unknown, message)]);
            }
            P::Draining => {
                self.is_compatible(target);
                let cordoned = if node.unschedulable { True } else { Unknown };
                self.begin(vec![
                    prepared(target),
                    (Type::UpdateExecuted, Unknown, drains(target)),
                    (Type::Cordoned, cordoned, "The node is cordoned".to_owned()),
                    (Type::Drained, Unknown, drains(target)),
                ]);
            }
            P::Applying if self.is_under_way(target) || !self.is(&Type::UpdatePrepared, True) => {
                self.is_compatible(target);
                let message = format!("Files and OS of {target} are applied");
                let mut shown = executing(status, target);
                shown.push((Type::UpdateExecuted, Unknown, message.clone()));
                shown.push((Type::AppliedFilesAndOS, Unknown, message));
                self.begin(shown);
            }
            P::Rebooting if self.is_under_way(target) || !self.is(&Type::UpdatePrepared, True) => {
                self.is_compatible(target);
                let message = format!("The node reboots into {target}");
                let mut shown = executed(status, target);
                shown.push((Type::UpdatePostActionComplete, Unknown, message.clone()));
                shown.push((Type::RebootedNode, Unknown, message));
                self.begin(shown);
            }
            P::Verifying
                if self.is_under_way(target)
                    || status.has_pending_target() && !self.is(&Type::UpdatePrepared, True) =>
            {
                self.is_compatible(target);
                let mut shown = self.booted(status, target);
                let message = format!("The node is checked against {target}");
                shown.push((Type::UpdateComplete, Unknown, message));
                self.begin(shown);
            }
            P::Finishing if self.is_under_way(target) => {
                let mut shown = self.booted(status, target);
                let message = "The node returns to service".to_owned();
                shown.push((Type::UpdateComplete, Unknown, message.clone()));
                shown.push((Type::Uncordoned, Unknown, message));
                self.begin(shown);
            }
            P::RollingBack => {
                let message = limited(format!("The node rolls back: {}", status.reason));
                self.set(Type::UpdateComplete, False, message);
            }
            // While the host is changed: an older target ends first, or the origin is checked.
            P::Applying | P::Rebooting | P::Verifying | P::Finishing | P::Held | P::Degraded => {}
            P::Unreconcilable => {
                let message = limited(format!("{target} is rejected: {}", status.reason));
                self.set(Type::UpdatePrepared, False, message);
            }
        }
        self.is_not_updated(target);
        if matches!(
            status.state(),
            NodeState::Degraded | NodeState::Unreconcilable
        ) {
            let message = format!("Node {} upgrade failure. {}", node.name, status.reason);
            self.set(Type::NodeDegraded, True, limited(message));
        } else {
            self.reset(&Type::NodeDegraded);
        }
    }

    /// At rest in `target`. A node that has just reached it shows first that the update is
    /// complete.
    fn rest(&mut self, status: &NodeStatus, target: &str) {
        let version = self.after.config_version.as_ref();
        let shown = version.and_then(|version| version.current.as_deref());
        let has_moved = shown.is_some_and(|shown| shown != target);
        if (has_moved || self.is_under_way(target)) && !self.is(&Type::UpdateComplete, True) {
            let mut shown = self.booted(status, target);
            if !self.is(&Type::Cordoned, False) {
                shown.push((Type::Uncordoned, True, "The node is in service".to_owned()));
            }
            let message = format!("The update to {target} is complete");
            shown.push((Type::UpdateComplete, True, message));
            let resumed = format!("In desired config {target}. Resumed normal operations.");
            shown.push((Type::Resumed, True, resumed));
            self.begin(shown);
            self.is_not_updated(target);
            self.reset(&Type::NodeDegraded);
        } else {
            for r#type in TYPES {
                if r#type != Type::Updated && !pins::is_of_pins(&r#type) {
                    self.reset(&r#type);
                }
            }
            let message = format!("Node is in {target}");
            self.set(Type::Updated, True, message);
        }
        self.after.config_version = Some(ConfigVersion {
            current: Some(target.to_owned()),
            desired: target.to_owned(),
        });
    }

    /// What is over once the host runs the target. Only a reboot that was announced took place.
    fn booted(&self, status: &NodeStatus, target: &str) -> Vec<Shown> {
        // A node that returns to service names no drain any more.
        let mut shown = self.kept([Type::Cordoned, Type::Drained]);
        shown.extend(executed(status, target));
        let message = format!("The host runs {target}");
        if !self.is(&Type::RebootedNode, False) {
            shown.push((Type::RebootedNode, True, message.clone()));
        }
        shown.push((Type::UpdatePostActionComplete, True, message));
        shown
    }

    /// Conditions that hold, as they are.
    fn kept(&self, types: impl IntoIterator<Item = Type>) -> Vec<Shown> {
        let held = types.into_iter().filter_map(|r#type| {
            let present = condition::find(&self.after.conditions, &r#type)?;
            let message = present.message.clone();
            (present.status != False).then_some((r#type, present.status, message))
        });
        held.collect()
    }

    /// Shows how far an update is; what is left of an earlier one, or of an earlier attempt, is
    /// over.
    fn begin(&mut self, shown: Vec<Shown>) {
        for r#type in TYPES {
            let is_shown = shown.iter().any(|(shown, ..)| *shown == r#type);
            let outlasts =
                matches!(r#type, Type::Updated | Type::NodeDegraded) || pins::is_of_pins(&r#type);
            if !is_shown && !outlasts {
                self.reset(&r#type);
            }
        }
        for (r#type, status, message) in shown {
            self.set(r#type, status, message);
        }
    }

    fn is_not_updated(&mut self, target: &str) {
        if !self.is(&Type::Updated, False) {
            let message = format!("The update to {target} is not complete");
            self.set(Type::Updated, False, message);
        }
    }

    /// The target was judged: the status names it from now on.
    fn is_compatible(&mut self, target: &str) {
        let version = self.after.config_version.get_or_insert_default();
        target.clone_into(&mut version.desired);
    }

    /// Whether `target` was found compatible and is not reached yet.
    fn is_under_way(&self, target: &str) -> bool {
        let version = self.after.config_version.as_ref();
        let is_judged = version.is_some_and(|version| version.desired == target);
        is_judged && self.is(&Type::UpdatePrepared, True)
    }

    fn is(&self, r#type: &Type, status: ConditionStatus) -> bool {
        condition::find(&self.after.conditions, r#type).is_some_and(|it| it.status == status)
    }

    fn set(&mut self, r#type: Type, status: ConditionStatus, message: String) {
        let reason = r#type.reason();
        self.put(r#type, status, reason, message);
    }

    /// What holds no more stays readable as history.
    fn reset(&mut self, r#type: &Type) {
        let Some(present) = condition::find(&self.after.conditions, r#type) else {
            return;
        };
        if present.status == False {
            return;
        }
        let desired = self.after.config_version.as_ref();
        let desired = desired.map_or(NOT_YET_SET, |version| version.desired.as_str());
        let message = format!("Action during update to {desired}: {}", present.message);
        let reason = present.reason.clone();
        self.put(r#type.clone(), False, reason, limited(message));
    }

    fn put(&mut self, r#type: Type, status: ConditionStatus, reason: String, message: String) {
        let condition = Condition {
            r#type,
            status,
            last_transition_time: Time(self.now),
            reason,
            message,
            observed_generation: None,
        };
        condition::set(&mut self.after.conditions, condition);
    }
}

type Shown = (Type, ConditionStatus, String);

fn prepared(target: &str) -> Shown {
    let message = format!("{target} is compatible with the node");
    (Type::UpdatePrepared, True, message)
}

fn drains(target: &str) -> String {
    format!("Pods are evicted for {target}")
}

/// What is over when the target is applied.
fn executing(status: &NodeStatus, target: &str) -> Vec<Shown> {
    let mut shown = vec![prepared(target)];
    let drained = Reading::Known(DrainRequest::Drain(target.to_owned()));
    if status.last_applied_drain == Some(drained) {
        let message = format!("The node was drained for {target}");
        shown.push((Type::Cordoned, True, "The node is cordoned".to_owned()));
        shown.push((Type::Drained, True, message));
    }
    shown
}

/// What is over when it was applied.
fn executed(status: &NodeStatus, target: &str) -> Vec<Shown> {
    let mut shown = executing(status, target);
    let message = format!("Files and OS of {target} were applied");
    shown.push((Type::UpdateExecuted, True, message.clone()));
    shown.push((Type::AppliedFilesAndOS, True, message));
    shown
}

fn limited(text: String) -> String {
    if text.len() <= MESSAGE_CHARS {
        return text;
    }
    text.chars().take(MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests;
