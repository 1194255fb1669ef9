//! What is in the way of an update.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::ClusterSnapshot;
use super::control_plane::{ControlPlaneView, is_of_release};
use super::duration::{seconds, whole};
use super::nodes::{MembershipFault, NodeAssessment, NodePhase, PoolUpgradeView};
use crate::decide::blocks::{columns, duration, first_line};
use crate::decide::object::{ClusterObject, ObjectCondition, text, time};
use crate::decide::upgrade::alert::AlertView;
use crate::decide::upgrade::version::VersionView;

const RUNBOOKS: &str =
    "https://github.com/openshift/runbooks/blob/master/alerts/cluster-monitoring-operator";
const GATHERING: &str = "https://docs.openshift.com/container-platform/latest/updating/troubleshooting_updates/gathering-data-cluster-update.html#gathering-clusterversion-history-cli_troubleshooting_updates";
const NODE_STATUS: &str = "https://docs.openshift.com/container-platform/latest/post_installation_configuration/machine-configuration-tasks.html#understanding-the-machine-config-operator";
const NODE_HEALTH: &str =
    "https://docs.openshift.com/container-platform/latest/nodes/nodes/nodes-nodes-viewing.html";
const PAUSED: &str = "https://docs.openshift.com/container-platform/latest/support/troubleshooting/troubleshooting-operator-issues.html#troubleshooting-disabling-autoreboot-mco_troubleshooting-operator-issues";

/// The kind of pools, as a resource that a finding is about.
const POOLS: &str = "machineconfigpools.machineconfiguration.openshift.io";

/// Impact of what an update does not get past.
pub(crate) const UPDATE_STALLED: &str = "Update Stalled";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum InsightLevel {
    Info,
    Warning,
    Error,
    Critical,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthInsight {
    /// Since when; none where no time is recorded.
    since: Option<Timestamp>,
    /// The same, as a duration.
    age: String,
    pub(crate) level: InsightLevel,
    pub(crate) impact: &'static str,
    message: String,
    reference: String,
    resources: Vec<(String, String)>,
    description: String,
}

impl HealthInsight {
    /// What keeps nodes out of the pools that they were meant for.
    pub(crate) fn of_membership(fault: &MembershipFault) -> Self {
        let (message, kind, name, description) = match fault {
            MembershipFault::Selector { pool, why } => (
                format!("MachineConfigPool {pool}: {why}"),
                POOLS,
                pool,
                "The pool selects no node. Nodes that it was meant for are updated with the workers, or not at all.",
            ),
            MembershipFault::Conflict(conflict) => (
                conflict.to_string(),
                "nodes",
                &conflict.node,
                "No pool may touch the node, so that it is not updated.",
            ),
        };
        Self {
            since: None,
            age: "-".to_owned(),
            level: InsightLevel::Warning,
            impact: UPDATE_STALLED,
            message,
            reference: NODE_STATUS.to_owned(),
            resources: vec![(kind.to_owned(), name.clone())],
            description: description.to_owned(),
        }
    }

    /// The first line of its message, and since when it holds.
    pub(crate) fn sentence(&self) -> String {
        let message = first_line(&self.message);
        // A duration of nothing reads as "now".
        if self.since.is_some() && self.age != duration(0) {
            format!("{message}, for {}", self.age)
        } else {
            message
        }
    }
}

/// Minutes after which an operator's state is a finding, and after which it is an error.
struct InsightThresholds {
    warning: f64,
    error: f64,
}

impl InsightThresholds {
    /// How bad it is that a state lasts since then; none if it is too new to be bad. A state of an
    /// unknown time is not new.
    fn level(&self, since: Option<Timestamp>, now: Timestamp) -> Option<InsightLevel> {
        let minutes = since.map(|since| seconds(since, now) / 60.0);
        match minutes {
            Some(minutes) if minutes <= self.warning => None,
            Some(minutes) if minutes > self.error => Some(InsightLevel::Error),
            _ => Some(InsightLevel::Warning),
        }
    }
}

const UNAVAILABLE: InsightThresholds = InsightThresholds {
    warning: 5.0,
    error: 20.0,
};
const DEGRADED: InsightThresholds = InsightThresholds {
    warning: 5.0,
    error: 40.0,
};

/// All findings, the worst first, and of equal ones the newest.
pub(crate) fn insights(
    cluster: &ClusterSnapshot,
    control_plane: &ControlPlaneView,
    (pools, faults): (&[PoolUpgradeView], &[MembershipFault]),
    now: Timestamp,
) -> Vec<HealthInsight> {
    let mut found: Vec<HealthInsight> = faults.iter().map(HealthInsight::of_membership).collect();
    for operator in cluster
        .operators
        .iter()
        .filter(|operator| is_of_release(operator))
    {
        found.extend(operator_insights(operator, now));
    }
    found.extend(version_insights(cluster, now));
    found.extend(node_insights(cluster, pools, now));
    found.extend(alert_insights(cluster, now));
    for insight in found
        .iter_mut()
        .filter(|insight| insight.description.is_empty())
    {
        "<no message>".clone_into(&mut insight.description);
    }
    found.sort_by(|one, other| {
        other
            .level
            .cmp(&one.level)
            .then_with(|| other.since.cmp(&one.since))
    });
    if found.is_empty() {
        found.push(nothing_found(control_plane));
    }
    found
}

/// The finding of an update without any other: by time alone it may have stalled.
fn nothing_found(control_plane: &ControlPlaneView) -> HealthInsight {
    let mut insight = HealthInsight {
        since: None,
        age: control_plane.age.clone(),
        level: InsightLevel::Info,
        impact: "None",
        message: "Update is proceeding well".to_owned(),
        reference: String::new(),
        resources: Vec::new(),
        description: String::new(),
    };
    if let Some(overdue) = control_plane.overdue() {
        insight.level = InsightLevel::Warning;
        insight.impact = UPDATE_STALLED;
        insight.message = format!("Update takes longer than expected: {overdue}");
        GATHERING.clone_into(&mut insight.reference);
        insight.resources = of_version();
        "Nothing else is known to hold the update up. See the operators that are not updated."
            .clone_into(&mut insight.description);
    }
    insight
}

/// ClusterVersion, as a resource that a finding is about.
fn of_version() -> Vec<(String, String)> {
    vec![(
        "clusterversions.config.openshift.io".to_owned(),
        "version".to_owned(),
    )]
}

fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(
        || "-".to_owned(),
        |since| duration(whole(seconds(since, now))),
    )
}

/// What is wrong with an operator: it may be unavailable and degraded.
fn operator_insights(operator: &ClusterObject, now: Timestamp) -> Vec<HealthInsight> {
    let name = operator.name();
    let available = operator
        .condition("Available")
        .filter(|condition| !condition.is_true());
    let degraded = operator
        .condition("Degraded")
        .filter(ObjectCondition::is_true);
    let found = [
        (available, UNAVAILABLE, "unavailable", "ClusterOperatorDown"),
        (degraded, DEGRADED, "degraded", "ClusterOperatorDegraded"),
    ];
    let insight = |(condition, thresholds, word, runbook): (_, InsightThresholds, _, _)| {
        let condition: ObjectCondition<'_> = condition?;
        let level = thresholds.level(condition.since, now)?;
        let reason = if condition.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", condition.reason)
        };
        Some(HealthInsight {
            since: condition.since,
            age: age(condition.since, now),
            level,
            impact: "API Availability",
            message: format!("Cluster Operator {name} is {word}{reason}"),
            reference: format!("{RUNBOOKS}/{runbook}.md"),
            resources: vec![(
                "clusteroperators.config.openshift.io".to_owned(),
                name.to_owned(),
            )],
            description: condition.message.to_owned(),
        })
    };
    found.into_iter().filter_map(insight).collect()
}

fn version_insights(cluster: &ClusterSnapshot, now: Timestamp) -> Vec<HealthInsight> {
    let version = VersionView(&cluster.version);
    let mut found = Vec::new();
    let failing = match version.condition("Failing") {
        Some(failing) if failing.status == "False" => None,
        Some(failing) => {
            let verb = if failing.is_true() {
                "is failing"
            } else {
                "may be failing"
            };
            let message = format!(
                "Cluster Version version {verb} to proceed with the update ({})",
                failing.reason
            );
            Some((failing.since, message, failing.message.to_owned()))
        }
        None => {
            let message = "Cluster Version version has no Failing condition".to_owned();
            let description =
                "The condition says whether an update proceeds; without it, this is not known.";
            Some((None, message, description.to_owned()))
        }
    };
    if let Some((since, message, description)) = failing {
        found.push(HealthInsight {
            since,
            age: age(since, now),
            level: InsightLevel::Warning,
            impact: UPDATE_STALLED,
            message,
            reference: format!("{RUNBOOKS}/ClusterOperatorDegraded.md"),
            resources: of_version(),
            description,
        });
    }
    found.extend(incomplete(cluster, now).map(|mut insight| {
        insight.resources = of_version();
        insight
    }));
    found
}

/// An update that began before the last one was complete.
fn incomplete(cluster: &ClusterSnapshot, now: Timestamp) -> Option<HealthInsight> {
    let history = cluster.version.list("/status/history");
    let (current, previous) = (history.first()?, history.get(1)?);
    if text(previous, "/state") != "Partial" || text(current, "/state") == "Completed" {
        return None;
    }
    let (target, before) = (text(current, "/version"), text(previous, "/version"));
    let is_complete = |entry: &&Value| text(entry, "/state") == "Completed";
    let last = history
        .iter()
        .find(is_complete)
        .map(|entry| text(entry, "/version"));
    let last = last.map_or_else(String::new, |last| {
        format!(", last complete update was {last}")
    });
    let since = time(current, "/startedTime");
    Some(HealthInsight {
        since,
        age: age(since, now),
        level: InsightLevel::Warning,
        impact: "None",
        message: format!("Previous update to {before} never completed{last}"),
        reference: GATHERING.to_owned(),
        resources: Vec::new(),
        description: format!(
            "Current update to {target} was initiated while the previous update to version {before} was still in progress"
        ),
    })
}

fn node_insights(
    cluster: &ClusterSnapshot,
    pools: &[PoolUpgradeView],
    now: Timestamp,
) -> Vec<HealthInsight> {
    let mut found = Vec::new();
    let resource = |kind: &str, name: &str| vec![(kind.to_owned(), name.to_owned())];
    for pool in pools {
        let is_old = pool
            .nodes
            .iter()
            .any(|node| node.phase != NodePhase::Updated);
        // Its own pause is named with the update.
        if pool.is_paused && is_old && !pool.is_paused_by_update {
            found.push(HealthInsight {
                since: None,
                age: "-".to_owned(),
                level: InsightLevel::Warning,
                impact: UPDATE_STALLED,
                message: format!("Outdated nodes in a paused pool '{}' will not be updated", pool.name),
                reference: PAUSED.to_owned(),
                resources: resource(POOLS, &pool.name),
                description: "Pool is paused, which stops all changes to the nodes in the pool, including updates. The nodes will not be updated until the pool is unpaused by the administrator.".to_owned(),
            });
        }
        for view in &pool.nodes {
            let Some(node) = cluster.nodes.iter().find(|node| node.name() == view.name) else {
                continue;
            };
            let name = &view.name;
            if view.assessment == NodeAssessment::Degraded {
                found.push(HealthInsight {
                    since: None,
                    age: "-".to_owned(),
                    level: InsightLevel::Error,
                    impact: UPDATE_STALLED,
                    message: format!("Node {name} is degraded"),
                    reference: NODE_STATUS.to_owned(),
                    resources: resource("nodes", name),
                    description: view.message.clone(),
                });
            }
            let is_updating = matches!(
                view.phase,
                NodePhase::Draining | NodePhase::Updating | NodePhase::Rebooting
            );
            if is_updating {
                continue;
            }
            for (kind, healthy, minutes, message) in [
                ("Ready", "True", 5.0, "is not ready"),
                ("DiskPressure", "False", 1.0, "has disk pressure"),
                (
                    "NetworkUnavailable",
                    "False",
                    1.0,
                    "has unavailable network",
                ),
            ] {
                let Some(condition) = node.condition(kind) else {
                    continue;
                };
                let since = condition.since;
                let is_long = since.is_some_and(|since| seconds(since, now) > minutes * 60.0);
                if condition.status == healthy || !is_long {
                    continue;
                }
                found.push(HealthInsight {
                    since,
                    age: age(since, now),
                    level: InsightLevel::Warning,
                    impact: "Update Speed",
                    message: format!("Node {name} {message}"),
                    reference: NODE_HEALTH.to_owned(),
                    resources: resource("nodes", name),
                    description: condition.message.to_owned(),
                });
            }
        }
    }
    found
}

/// Alerts that began with the update, and budgets that block a drain.
fn alert_insights(cluster: &ClusterSnapshot, now: Timestamp) -> Vec<HealthInsight> {
    let started = cluster.version.list("/status/history").first();
    let started = started.and_then(|entry| time(entry, "/startedTime"));
    let alerts = cluster.alerts.as_ref().map(AlertView::firing);
    let alerts = alerts.into_iter().flatten();
    alerts
        .filter_map(|alert| alert_insight(alert, started, now))
        .collect()
}

fn alert_insight(
    alert: AlertView<'_>,
    started: Option<Timestamp>,
    now: Timestamp,
) -> Option<HealthInsight> {
    let level = match alert.severity() {
        "critical" => InsightLevel::Critical,
        "warning" => InsightLevel::Warning,
        _ => return None,
    };
    let (name, since) = (alert.name(), alert.since());
    // An alert of an unknown time may be one of the update.
    let is_earlier = since.zip(started).map(|(since, started)| since < started);
    if is_earlier == Some(true) && !alert.is_of_budget() {
        return None;
    }
    let began = match is_earlier {
        Some(true) => format!("Alert {name} began before the update."),
        Some(false) => format!("Alert {name} began during the update."),
        None => format!("When alert {name} began is not known."),
    };
    let resources = [
        ("namespaces", "namespace"),
        ("poddisruptionbudgets.policy", "poddisruptionbudget"),
    ];
    let resources = resources.map(|(kind, label)| (kind.to_owned(), alert.label(label).to_owned()));
    let resources = resources.into_iter().filter(|(_, name)| !name.is_empty());
    Some(HealthInsight {
        since,
        age: age(since, now),
        level,
        impact: "Unknown",
        message: format!("Alert is firing: {}", alert.summary()),
        reference: alert.runbook().to_owned(),
        resources: resources.collect(),
        description: format!("{began} {}", alert.description()),
    })
}

/// The findings, one a line.
pub(crate) fn health_table(insights: &[HealthInsight]) -> String {
    let mut rows = vec![
        ["SINCE", "LEVEL", "IMPACT", "MESSAGE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(insights.iter().map(|insight| {
        vec![
            insight.age.clone(),
            format!("{:?}", insight.level),
            insight.impact.to_owned(),
            first_line(&insight.message),
        ]
    }));
    let table = columns(0, 3, 0, &rows);
    if insights
        .iter()
        .all(|insight| insight.level == InsightLevel::Info)
    {
        return table;
    }
    format!(
        "{table}\nRun with --details=health for additional description and links to related online documentation\n"
    )
}

/// The findings, each with what it means.
pub(crate) fn health_details(insights: &[HealthInsight]) -> String {
    if insights
        .iter()
        .all(|insight| insight.level == InsightLevel::Info)
    {
        return health_table(insights);
    }
    let block = |insight: &HealthInsight| {
        let resources = insight.resources.iter();
        let resources: Vec<String> = resources
            .map(|(kind, name)| format!("    {kind}: {name}\n"))
            .collect();
        format!(
            "Message: {}\n  Since:       {}\n  Level:       {:?}\n  Impact:      {}\n  Reference:   {}\n  Resources:\n{}  Description: {}\n",
            insight.message,
            insight.age,
            insight.level,
            insight.impact,
            insight.reference,
            resources.concat(),
            insight.description.replace('\n', "\n               , ")
        )
    };
    let blocks: Vec<String> = insights.iter().map(block).collect();
    blocks.join("\n")
}
