//! Nodes and pools under an update.

use std::collections::BTreeMap;

use api::IntOrString;
use api::machineconfiguration::annotation;
use jiff::Timestamp;
use pool::budget::budget;
use pool::selector::Selector;
use serde::Serialize;

use super::ClusterSnapshot;
use super::target::is_migration;
use crate::blocks::{columns, first_line};
use crate::forecast::{RollFacts, RollForecast, forecast};
use crate::object::{ClusterObject, ObjectCondition, text};

/// Rows of a table of nodes after which only bad ones follow.
const ROWS: usize = 10;

/// Bytes of the shortest name that messages of a table are shortened by, as in `oc`.
const LEAST_NAME: usize = 8;

/// The pool of the control plane.
const MASTER: &str = "master";

/// The pool of all other nodes.
const WORKER: &str = "worker";

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

/// A node.
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
pub(crate) struct PoolView {
    pub(crate) name: String,
    pub(crate) is_control_plane: bool,
    pub(crate) is_paused: bool,
    pub(crate) total: usize,
    pub(crate) updated: usize,
    /// How many nodes may be out at once; none if the pool's field cannot be read.
    pub(crate) at_once: Option<usize>,
    /// When its last node is updated, from when its roll may go on; none if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forecast: Option<RollForecast>,
    pub(crate) nodes: Vec<NodeUpgradeView>,
}

/// The pools with their nodes, the control plane's first.
pub(crate) fn pools(cluster: &ClusterSnapshot, now: Timestamp) -> Result<Vec<PoolView>, String> {
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
    let mut selectors = Vec::new();
    for pool in &cluster.pools {
        let selector = pool
            .0
            .pointer("/spec/nodeSelector")
            .cloned()
            .unwrap_or_default();
        let failed = |why: &str| {
            format!(
                "MachineConfigPool {}: spec.nodeSelector: {why}",
                pool.name()
            )
        };
        let selector: Option<_> =
            serde_json::from_value(selector).map_err(|error| failed(&error.to_string()))?;
        let selector = Selector::parse("spec.nodeSelector", selector.as_ref())
            .map_err(|error| failed(&error.why))?;
        selectors.push((pool.name(), selector));
    }
    // A node is in the control plane's pool, else in a custom one, else with the workers.
    let rank = |name: &str| match name {
        MASTER => 0,
        WORKER => 2,
        _ => 1,
    };
    selectors.sort_by_key(|(name, _)| rank(name));
    let pool_of = |node: &ClusterObject| {
        let labels = node.labels();
        selectors
            .iter()
            .find(|(_, selector)| selector.matches(&labels))
            .map(|(name, _)| *name)
    };
    let mut pools: Vec<PoolView> = cluster
        .pools
        .iter()
        .map(|pool| {
            let members: Vec<&ClusterObject> = cluster
                .nodes
                .iter()
                .filter(|node| pool_of(node) == Some(pool.name()))
                .collect();
            let mut nodes: Vec<NodeUpgradeView> = members
                .iter()
                .map(|node| NodeUpgradeView::of(node, pool, &goal))
                .collect();
            let at_once = at_once(pool, nodes.len());
            let facts = at_once.map(|at_once| roll(pool, &members, &nodes, at_once, now));
            nodes.sort_by(|one, other| {
                (one.assessment, one.phase, &one.name).cmp(&(
                    other.assessment,
                    other.phase,
                    &other.name,
                ))
            });
            PoolView {
                name: pool.name().to_owned(),
                is_control_plane: pool.name() == MASTER,
                is_paused: is_paused(pool),
                total: nodes.len(),
                updated: nodes
                    .iter()
                    .filter(|node| node.phase == NodePhase::Updated)
                    .count(),
                at_once,
                forecast: facts.flatten().and_then(|facts| forecast(&facts, now).ok()),
                nodes,
            }
        })
        .collect();
    pools.sort_by(|one, other| {
        let key = |pool: &PoolView| {
            (
                u8::from(!pool.is_control_plane),
                u8::from(pool.name != WORKER),
            )
        };
        key(one)
            .cmp(&key(other))
            .then_with(|| one.name.cmp(&other.name))
    });
    Ok(pools)
}

/// How many nodes of a pool may be out at once.
fn at_once(pool: &ClusterObject, nodes: usize) -> Option<usize> {
    let field = pool.0.pointer("/spec/maxUnavailable").cloned();
    let field: Option<IntOrString> = serde_json::from_value(field.unwrap_or_default()).ok()?;
    let budget = budget(pool.name(), field.as_ref(), nodes).ok()?;
    Some(budget.get())
}

/// What is known of the roll of a pool; none if it is paused, or all of its nodes are updated.
fn roll(
    pool: &ClusterObject,
    members: &[&ClusterObject],
    nodes: &[NodeUpgradeView],
    at_once: usize,
    now: Timestamp,
) -> Option<RollFacts> {
    if is_paused(pool) {
        return None;
    }
    let updating = pool.condition("Updating");
    let began = updating.filter(ObjectCondition::is_true);
    let mut facts = RollFacts {
        began: began.and_then(|condition| condition.since).unwrap_or(now),
        done: Vec::new(),
        earlier: Vec::new(),
        under_way: 0,
        waiting: 0,
        at_once,
    };
    for (member, node) in members.iter().zip(nodes) {
        let since: Option<Timestamp> = member.annotation(annotation::SINCE).parse().ok();
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

fn is_paused(pool: &ClusterObject) -> bool {
    pool.0
        .pointer("/spec/paused")
        .and_then(serde_json::Value::as_bool)
        .unwrap_or_default()
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
    fn of(node: &ClusterObject, pool: &ClusterObject, goal: &NodeGoal<'_>) -> Self {
        let version = |config: &str| {
            let found = goal.versions.get(config).copied();
            found.filter(|text| !text.is_empty())
        };
        let is_target = |config: &str| version(config) == Some(goal.version);
        let current = node.annotation(annotation::CURRENT_CONFIG);
        let desired = node.annotation(annotation::DESIRED_CONFIG);
        let wanted = pool.text("/spec/configuration/name");
        let is_at_rest = current == desired && desired == wanted;
        let is_updated = is_target(current) && (is_at_rest || !goal.is_migration);
        let is_updating =
            !is_updated && is_target(desired) && current != desired && desired == wanted;
        let phase = phase(node, is_updated, is_updating, is_paused(pool));
        let (mut assessment, mut estimate) = match phase {
            NodePhase::Draining => (NodeAssessment::Progressing, "+10m"),
            NodePhase::Updating | NodePhase::Rebooting => (NodeAssessment::Progressing, "+5m"),
            NodePhase::Paused => (NodeAssessment::Excluded, "-"),
            NodePhase::Pending => (NodeAssessment::Outdated, "?"),
            NodePhase::Updated => (NodeAssessment::Completed, "-"),
        };
        let mut message = String::new();
        let state = node.annotation(annotation::STATE);
        if ["Degraded", "Unreconcilable"].contains(&state) {
            assessment = NodeAssessment::Degraded;
            node.annotation(annotation::REASON).clone_into(&mut message);
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
            name: node.name().to_owned(),
            assessment,
            phase,
            version: version(current).unwrap_or("?").to_owned(),
            estimate,
            message,
        }
    }
}

fn phase(node: &ClusterObject, is_updated: bool, is_updating: bool, is_paused: bool) -> NodePhase {
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
    let drain = node.annotation(annotation::DESIRED_DRAIN);
    let is_draining =
        drain.starts_with("drain-") && drain != node.annotation(annotation::LAST_APPLIED_DRAIN);
    let state = node.annotation(annotation::STATE);
    if is_draining || state == "Done" {
        NodePhase::Draining
    } else if state == annotation::REBOOTING
        || node.annotation(annotation::POST_CONFIG_ACTION) == annotation::REBOOTING
    {
        NodePhase::Rebooting
    } else {
        NodePhase::Updating
    }
}

/// Why a node is not available.
fn unavailable(node: &ClusterObject) -> Vec<&'static str> {
    let is = |kind: &str| {
        node.condition(kind)
            .is_some_and(|condition| condition.is_true())
    };
    let is_unschedulable = node
        .0
        .pointer("/spec/unschedulable")
        .and_then(serde_json::Value::as_bool);
    let state = node.annotation(annotation::STATE);
    let has_config = !node.annotation(annotation::CURRENT_CONFIG).is_empty();
    [
        (!is("Ready"), "Not ready"),
        (is("DiskPressure"), "Disk pressure"),
        (is("NetworkUnavailable"), "Network unavailable"),
        (
            is_unschedulable == Some(true),
            "Node is marked unschedulable",
        ),
        (
            state == "Working",
            "Machine Config Daemon is processing the node",
        ),
        (
            !has_config,
            "Machine Config Daemon has not reported the node's configuration",
        ),
    ]
    .into_iter()
    .filter_map(|(is_so, why)| is_so.then_some(why))
    .collect()
}

/// A node's name is in the row already. A short one may be part of other words.
fn without_name(message: &str, name: &str) -> String {
    if name.len() < LEAST_NAME {
        return message.to_owned();
    }
    message.replace(name, "<node>")
}

/// A pool's nodes, under their title.
pub(crate) fn node_table(title: &str, pool: &PoolView, all: bool) -> String {
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
pub(crate) fn pool_table(pools: &[&PoolView]) -> String {
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
fn progressing(pool: &PoolView) -> usize {
    pool.nodes
        .iter()
        .filter(|node| node.assessment == NodeAssessment::Progressing)
        .count()
}

fn assessment(pool: &PoolView) -> &'static str {
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
