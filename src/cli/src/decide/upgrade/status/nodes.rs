//! Nodes and pools under an update.

use std::collections::BTreeMap;

use api::condition::ConditionStatus;
use api::machineconfiguration::label::role;
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use api::machineconfiguration::node_status::Reading;
use api::machineconfiguration::{MachineConfigPool, NodeState, NodeStatus, annotation};
use jiff::Timestamp;
use pool::budget::budget;
use pool::membership::{Conflict, Membership};
use pool::node::{NodeView, Unready};
use pool::view::PoolView;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ClusterSnapshot;
use super::target::is_migration;
use crate::decide::blocks::{columns, first_line};
use crate::decide::forecast::{RollFacts, RollForecast, forecast};
use crate::decide::object::{ClusterObject, text};
use crate::decide::upgrade::control_plane_only::PoolPause;

/// Rows of a table of nodes after which only bad ones follow.
const ROWS: usize = 10;

/// Bytes of the shortest name that messages of a table are shortened by, as in `oc`.
const LEAST_NAME: usize = 8;

/// What is thought of a node; worst first, as tables have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum NodeAssessment {
    Degraded,
    Unavailable,
    Progressing,
    Excluded,
    Outdated,
    Completed,
}

/// How far a node is; the order is that of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum NodePhase {
    Draining,
    Updating,
    Rebooting,
    Paused,
    Pending,
    Updated,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeUpgradeView {
    pub(crate) name: String,
    pub(crate) assessment: NodeAssessment,
    pub(crate) phase: NodePhase,
    version: String,
    estimate: &'static str,
    pub(crate) message: String,
}

/// A pool and its nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolUpgradeView {
    pub(crate) name: String,
    pub(crate) is_control_plane: bool,
    pub(crate) is_paused: bool,
    /// Whether an update of the control plane alone paused it, and resumes it.
    #[serde(skip)]
    pub(crate) is_paused_by_update: bool,
    pub(crate) total: usize,
    pub(crate) updated: usize,
    /// How many nodes may be out at once; none if the pool's field cannot be read.
    pub(crate) at_once: Option<usize>,
    /// When its last node is updated, from when its roll may go on; none without a forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forecast: Option<RollForecast>,
    pub(crate) nodes: Vec<NodeUpgradeView>,
}

/// A fault in what decides which pool a node is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipFault {
    /// A pool selects no node, as its selector cannot be read.
    Selector { pool: String, why: String },
    /// A node is in no pool, as more than one custom pool selects it.
    Conflict(Conflict),
}

/// An object that is none of its kind.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {kind} {name}")]
pub(crate) struct UnreadObject {
    kind: &'static str,
    name: String,
    source: serde_json::Error,
}

/// The nodes of a cluster by pool.
#[derive(Debug, Default)]
pub(crate) struct NodesByPool {
    /// The pools with their nodes, the control plane's first.
    pub(crate) pools: Vec<PoolUpgradeView>,
    /// What keeps nodes out of the pools that they were meant for.
    pub(crate) faults: Vec<MembershipFault>,
    /// What could not be read.
    pub(crate) unread: Vec<UnreadObject>,
}

impl NodesByPool {
    /// Sorts the nodes into pools as the controller does.
    pub(crate) fn new(cluster: &ClusterSnapshot, now: Timestamp) -> Self {
        let history = cluster.version.list("/status/history");
        let versions: BTreeMap<&str, &str> = cluster
            .configs
            .iter()
            .map(|config| {
                (
                    config.name(),
                    config.annotation(annotation::RELEASE_IMAGE_VERSION),
                )
            })
            .collect();
        let goal = NodeGoal {
            version: history.first().map_or("", |entry| text(entry, "/version")),
            is_migration: is_migration(history),
            versions,
        };
        let mut unread = Vec::new();
        let objects: Vec<MachineConfigPool> =
            read("MachineConfigPool", &cluster.pools, &mut unread);
        let pools: Vec<PoolView> = objects.iter().map(PoolView::parse).collect();
        let nodes = read("Node", &cluster.nodes, &mut unread).into_iter();
        let nodes: Vec<NodeView> = nodes.map(NodeView::parse).collect();
        let sorted = Membership::sort(&nodes, &pools);
        let faults = pools.iter().filter_map(|pool| {
            Some(MembershipFault::Selector {
                why: pool.node_selector.as_ref().err()?.to_string(),
                pool: pool.name.clone(),
            })
        });
        let conflicts = sorted.conflicts.iter().cloned();
        let faults = faults
            .chain(conflicts.map(MembershipFault::Conflict))
            .collect();
        let mut pools: Vec<PoolUpgradeView> = objects
            .iter()
            .zip(&pools)
            .map(|(object, pool)| {
                let began = updating_since(object).unwrap_or(now);
                let mut view =
                    PoolUpgradeView::of(pool, sorted.of(&pool.name), &goal, (began, now));
                view.is_paused_by_update = PoolPause::of(object) == PoolPause::Own;
                view
            })
            .collect();
        pools.sort_by_cached_key(|pool| {
            (
                pool.name != role::MASTER,
                !pool.is_control_plane,
                pool.name != role::WORKER,
                pool.name.clone(),
            )
        });
        Self {
            pools,
            faults,
            unread,
        }
    }
}

/// Objects of a kind; those that are none of it are named in `unread`.
fn read<T: DeserializeOwned>(
    kind: &'static str,
    objects: &[ClusterObject],
    unread: &mut Vec<UnreadObject>,
) -> Vec<T> {
    let mut found = Vec::new();
    for object in objects {
        match T::deserialize(&object.0) {
            Ok(read) => found.push(read),
            Err(source) => unread.push(UnreadObject {
                kind,
                name: object.name().to_owned(),
                source,
            }),
        }
    }
    found
}

/// Since when a pool reports that it is updated.
fn updating_since(pool: &MachineConfigPool) -> Option<Timestamp> {
    let updating = pool
        .status
        .as_ref()?
        .condition(&PoolConditionType::Updating);
    let updating = updating.filter(|condition| condition.status == ConditionStatus::True)?;
    Some(updating.last_transition_time.as_ref()?.0)
}

impl PoolUpgradeView {
    /// Reads a pool whose roll has begun then; now is the later time.
    fn of(
        pool: &PoolView,
        members: &[&NodeView],
        goal: &NodeGoal<'_>,
        (began, now): (Timestamp, Timestamp),
    ) -> Self {
        let mut nodes: Vec<NodeUpgradeView> = members
            .iter()
            .map(|node| NodeUpgradeView::of(node, pool, goal))
            .collect();
        let at_once = at_once(pool, nodes.len());
        let facts = at_once.map(|at_once| roll(pool, members, &nodes, (at_once, began)));
        nodes.sort_by(|one, other| {
            (one.assessment, one.phase, &one.name).cmp(&(
                other.assessment,
                other.phase,
                &other.name,
            ))
        });
        Self {
            name: pool.name.clone(),
            is_control_plane: role::is_control_plane(&pool.name),
            is_paused: pool.is_paused,
            is_paused_by_update: false,
            total: nodes.len(),
            updated: nodes
                .iter()
                .filter(|node| node.phase == NodePhase::Updated)
                .count(),
            at_once,
            forecast: facts.flatten().and_then(|facts| forecast(&facts, now).ok()),
            nodes,
        }
    }
}

/// How many nodes of a pool may be out at once.
fn at_once(pool: &PoolView, nodes: usize) -> Option<usize> {
    let budget = budget(&pool.name, pool.max_unavailable.as_ref(), nodes).ok()?;
    Some(budget.get())
}

/// Facts about the roll of a pool; none if it is paused, or all of its nodes are updated.
fn roll(
    pool: &PoolView,
    members: &[&NodeView],
    nodes: &[NodeUpgradeView],
    (at_once, began): (usize, Timestamp),
) -> Option<RollFacts> {
    if pool.is_paused {
        return None;
    }
    let mut facts = RollFacts::of_none(began, at_once);
    for (member, node) in members.iter().zip(nodes) {
        let since = member.status.since.as_ref().and_then(Reading::known);
        // A degraded node is repaired by a person, at a time that no one knows.
        if node.assessment == NodeAssessment::Degraded && node.phase != NodePhase::Updated {
            continue;
        }
        match node.phase {
            NodePhase::Updated => facts.done.extend(since),
            NodePhase::Draining | NodePhase::Updating | NodePhase::Rebooting => {
                facts.under_way += 1;
            }
            NodePhase::Paused | NodePhase::Pending => {
                facts.waiting += 1;
                facts.earlier.extend(since);
            }
        }
    }
    (facts.under_way + facts.waiting > 0).then_some(facts)
}

/// What nodes are updated to.
struct NodeGoal<'a> {
    version: &'a str,
    /// Whether nodes had the same version before.
    is_migration: bool,
    /// Version of each configuration.
    versions: BTreeMap<&'a str, &'a str>,
}

impl NodeUpgradeView {
    fn of(node: &NodeView, pool: &PoolView, goal: &NodeGoal<'_>) -> Self {
        let status = &node.status;
        let (current, desired) = (&status.current_config, &status.desired_config);
        let version = |config: &Option<String>| {
            let found = goal.versions.get(config.as_deref()?).copied();
            found.filter(|text| !text.is_empty())
        };
        let is_target = |config: &Option<String>| version(config) == Some(goal.version);
        let is_at_rest = current == desired && desired.as_deref() == pool.target_config();
        let is_updated = is_target(current) && (is_at_rest || !goal.is_migration);
        let is_updating = !is_updated
            && is_target(desired)
            && current != desired
            && desired.as_deref() == pool.target_config();
        let phase = phase(status, is_updated, is_updating, pool.is_paused);
        let (mut assessment, mut estimate) = match phase {
            NodePhase::Draining => (NodeAssessment::Progressing, "+10m"),
            NodePhase::Updating | NodePhase::Rebooting => (NodeAssessment::Progressing, "+5m"),
            NodePhase::Paused => (NodeAssessment::Excluded, "-"),
            NodePhase::Pending => (NodeAssessment::Outdated, "?"),
            NodePhase::Updated => (NodeAssessment::Completed, "-"),
        };
        let mut message = String::new();
        if status.state().is_failed() {
            assessment = NodeAssessment::Degraded;
            message.clone_from(&status.reason);
        } else if !is_updating {
            let why = unavailable(node);
            if !why.is_empty() {
                assessment = NodeAssessment::Unavailable;
                message = why.join(" | ");
            }
        }
        if assessment <= NodeAssessment::Unavailable && !is_updated {
            estimate = "?";
        }
        Self {
            name: node.name.clone(),
            assessment,
            phase,
            version: version(current).unwrap_or("?").to_owned(),
            estimate,
            message,
        }
    }
}

fn phase(status: &NodeStatus, is_updated: bool, is_updating: bool, is_paused: bool) -> NodePhase {
    if is_updated {
        return NodePhase::Updated;
    }
    if !is_updating {
        return if is_paused {
            NodePhase::Paused
        } else {
            NodePhase::Pending
        };
    }
    // Daemons of old releases report the reboot as a state.
    let reboots =
        |state: &Reading<NodeState>| *state == Reading::Unknown(annotation::REBOOTING.to_owned());
    if status.has_open_drain() || status.state() == NodeState::Done {
        NodePhase::Draining
    } else if status.is_rebooting || status.state.as_ref().is_some_and(reboots) {
        NodePhase::Rebooting
    } else {
        NodePhase::Updating
    }
}

/// Why a node is not available.
fn unavailable(node: &NodeView) -> Vec<&'static str> {
    let unready = node.unready.iter().map(|unready| match unready {
        Unready::NotReady => "Not ready",
        Unready::DiskPressure => "Disk pressure",
        Unready::NetworkUnavailable => "Network unavailable",
        Unready::Unschedulable => "Node is marked unschedulable",
    });
    let is_working = node.status.state() == NodeState::Working;
    let working = is_working.then_some("Machine Config Daemon is processing the node");
    let is_unknown = node.status.current_config.is_none();
    let unknown =
        is_unknown.then_some("Machine Config Daemon has not reported the node's configuration");
    unready.chain(working).chain(unknown).collect()
}

/// A node's name is in the row already. A short one may be part of other words.
fn without_name(message: &str, name: &str) -> String {
    if name.len() < LEAST_NAME {
        return message.to_owned();
    }
    message.replace(name, "<node>")
}

/// A pool's nodes, under their title.
pub(crate) fn node_table(title: &str, pool: &PoolUpgradeView, all: bool) -> String {
    let head = ["NAME", "ASSESSMENT", "PHASE", "VERSION", "EST", "MESSAGE"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let is_bad = |node: &NodeUpgradeView| node.assessment <= NodeAssessment::Unavailable;
    let (mut shown, mut omitted) = (0, Vec::new());
    for node in &pool.nodes {
        if !all && shown >= ROWS && !is_bad(node) {
            omitted.push(node);
            continue;
        }
        shown += 1;
        rows.push(vec![
            node.name.clone(),
            format!("{:?}", node.assessment),
            format!("{:?}", node.phase),
            node.version.clone(),
            node.estimate.to_owned(),
            first_line(&without_name(&node.message, &node.name)),
        ]);
    }
    let mut text = format!("\n{title}\n{}", columns(0, 3, 0, &rows));
    if !omitted.is_empty() {
        let count =
            |is: &dyn Fn(&NodeUpgradeView) -> bool| omitted.iter().filter(|node| is(node)).count();
        let of = |wanted: NodeAssessment| count(&|node| node.assessment == wanted);
        text.extend([format!(
            "...\nOmitted additional {} Total, {} Completed, {} Available, {} Progressing, {} Outdated, {} Draining, {} Excluded, and 0 Degraded nodes.\nPass along --details=nodes to see all information.\n",
            omitted.len(),
            of(NodeAssessment::Completed),
            omitted.len(),
            of(NodeAssessment::Progressing),
            of(NodeAssessment::Outdated),
            count(&|node| node.phase == NodePhase::Draining),
            of(NodeAssessment::Excluded),
        )]);
    }
    text
}

/// Pools, one a line.
pub(crate) fn pool_table(pools: &[&PoolUpgradeView]) -> String {
    let head = ["WORKER POOL", "ASSESSMENT", "COMPLETION", "STATUS"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    for pool in pools {
        if pool.total == 0 {
            let cells = [pool.name.as_str(), "Empty", "", "0 Total"];
            rows.push(cells.map(str::to_owned).to_vec());
            continue;
        }
        let of = |wanted: NodeAssessment| {
            pool.nodes
                .iter()
                .filter(|node| node.assessment == wanted)
                .count()
        };
        let draining = pool
            .nodes
            .iter()
            .filter(|node| node.phase == NodePhase::Draining)
            .count();
        let (degraded, excluded) = (of(NodeAssessment::Degraded), of(NodeAssessment::Excluded));
        let available = pool.total - of(NodeAssessment::Unavailable) - degraded - progressing(pool);
        let mut status = format!(
            "{available} Available, {} Progressing, {draining} Draining",
            of(NodeAssessment::Progressing)
        );
        for (count, word) in [(excluded, "Excluded"), (degraded, "Degraded")] {
            if count > 0 {
                status.extend([format!(", {count} {word}")]);
            }
        }
        // Rounded as `oc` does.
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of nodes are far below the digits of a float"
        )]
        let percent = 100.0 * pool.updated as f64 / pool.total as f64;
        rows.push(vec![
            pool.name.clone(),
            assessment(pool).to_owned(),
            format!("{percent:.0}% ({}/{})", pool.updated, pool.total),
            status,
        ]);
    }
    format!("\n{}", columns(0, 3, 0, &rows))
}

/// Nodes that are out of service for their update.
fn progressing(pool: &PoolUpgradeView) -> usize {
    pool.nodes
        .iter()
        .filter(|node| node.assessment == NodeAssessment::Progressing)
        .count()
}

fn assessment(pool: &PoolUpgradeView) -> &'static str {
    let all = |phase: NodePhase| pool.nodes.iter().all(|node| node.phase == phase);
    let any = |wanted: NodeAssessment| pool.nodes.iter().any(|node| node.assessment == wanted);
    if all(NodePhase::Updated) {
        "Completed"
    } else if any(NodeAssessment::Degraded) {
        "Degraded"
    } else if all(NodePhase::Pending) {
        "Pending"
    } else if any(NodeAssessment::Excluded) {
        "Excluded"
    } else {
        "Progressing"
    }
}
