//! What is in the way of an update.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::ClusterSnapshot;
use super::control_plane::{ControlPlaneView, is_of_release, seconds, whole};
use super::nodes::{NodeAssessment, NodePhase, PoolView};
use crate::upgrade::blocks::{columns, duration};
use crate::upgrade::object::{ClusterObject, ObjectCondition, text, time};
use crate::upgrade::version::VersionView;

const RUNBOOKS: &str =
    "https://github.com/openshift/runbooks/blob/master/alerts/cluster-monitoring-operator";
const GATHERING: &str = "https://docs.openshift.com/container-platform/latest/updating/troubleshooting_updates/gathering-data-cluster-update.html#gathering-clusterversion-history-cli_troubleshooting_updates";
const NODE_STATUS: &str = "https://docs.openshift.com/container-platform/latest/post_installation_configuration/machine-configuration-tasks.html#understanding-the-machine-config-operator";
const NODE_HEALTH: &str =
    "https://docs.openshift.com/container-platform/latest/nodes/nodes/nodes-nodes-viewing.html";
const PAUSED: &str = "https://docs.openshift.com/container-platform/latest/support/troubleshooting/troubleshooting-operator-issues.html#troubleshooting-disabling-autoreboot-mco_troubleshooting-operator-issues";

/// Impact of what an update does not get past.
pub(super) const UPDATE_STALLED: &str = "Update Stalled";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum InsightLevel {
    Info,
    Warning,
    Error,
    Critical,
}

/// A finding.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthInsight {
    /// Since when; none where it is not known.
    since: Option<Timestamp>,
    /// The same, as a duration.
    age: String,
    pub(crate) level: InsightLevel,
    pub(super) impact: &'static str,
    message: String,
    reference: String,
    resources: Vec<(String, String)>,
    description: String,
}

impl HealthInsight {
    /// The first line of its message, and since when it holds.
    pub(super) fn sentence(&self) -> String {
        let message = self.message.lines().next().unwrap_or_default();
        // A duration of nothing reads as "now".
        if self.since.is_some() && self.age != duration(0) {
            format!("{message}, for {}", self.age)
        } else {
            message.to_owned()
        }
    }
}

/// Minutes after which an operator's state is a finding, and after which it is an error.
struct Patience {
    warning: f64,
    error: f64,
}

const UNAVAILABLE: Patience = Patience {
    warning: 5.0,
    error: 20.0,
};
const DEGRADED: Patience = Patience {
    warning: 5.0,
    error: 40.0,
};

/// All findings, the worst first, and of equal ones the newest.
pub(crate) fn insights(
    cluster: &ClusterSnapshot,
    control_plane: &ControlPlaneView,
    pools: &[PoolView],
    now: Timestamp,
) -> Vec<HealthInsight> {
    let mut found: Vec<HealthInsight> = Vec::new();
    for operator in cluster
        .operators
        .iter()
        .filter(|operator| is_of_release(operator))
    {
        found.extend(operator_insight(operator, now));
    }
    found.extend(version_insights(cluster, now));
    found.extend(node_insights(cluster, pools, now));
    found.extend(alert_insights(cluster, now));
    // What does not say what to do is no help.
    found.retain(|insight| {
        !insight.message.is_empty()
            && !insight.description.is_empty()
            && !insight.reference.is_empty()
    });
    found.sort_by(|one, other| {
        other
            .level
            .cmp(&one.level)
            .then_with(|| other.since.cmp(&one.since))
    });
    if found.is_empty() {
        found.push(HealthInsight {
            since: None,
            age: control_plane.elapsed.clone(),
            level: InsightLevel::Info,
            impact: "None",
            message: "Update is proceeding well".to_owned(),
            reference: String::new(),
            resources: Vec::new(),
            description: String::new(),
        });
    }
    found
}

fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(
        || "-".to_owned(),
        |since| duration(whole(seconds(since, now))),
    )
}

fn operator_insight(operator: &ClusterObject, now: Timestamp) -> Option<HealthInsight> {
    let name = operator.name();
    let available = operator.condition("Available");
    let (condition, patience, word, runbook) = match available {
        Some(available) if !available.is_true() => {
            (available, UNAVAILABLE, "unavailable", "ClusterOperatorDown")
        }
        _ => {
            let degraded = operator
                .condition("Degraded")
                .filter(ObjectCondition::is_true)?;
            (degraded, DEGRADED, "degraded", "ClusterOperatorDegraded")
        }
    };
    let minutes = seconds(condition.since?, now) / 60.0;
    if minutes <= patience.warning {
        return None;
    }
    let level = if minutes > patience.error {
        InsightLevel::Error
    } else {
        InsightLevel::Warning
    };
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
        description: if condition.message.is_empty() {
            "<no message>".to_owned()
        } else {
            condition.message.to_owned()
        },
    })
}

fn version_insights(cluster: &ClusterSnapshot, now: Timestamp) -> Vec<HealthInsight> {
    let version = VersionView(&cluster.version);
    let resource = || {
        vec![(
            "clusterversions.config.openshift.io".to_owned(),
            "version".to_owned(),
        )]
    };
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
            resources: resource(),
            description,
        });
    }
    found.extend(incomplete(cluster, now).map(|mut insight| {
        insight.resources = resource();
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
    pools: &[PoolView],
    now: Timestamp,
) -> Vec<HealthInsight> {
    let mut found = Vec::new();
    let resource = |kind: &str, name: &str| vec![(kind.to_owned(), name.to_owned())];
    for pool in pools {
        let is_old = pool
            .nodes
            .iter()
            .any(|node| node.phase != NodePhase::Updated);
        if pool.is_paused && is_old {
            found.push(HealthInsight {
                since: None,
                age: "-".to_owned(),
                level: InsightLevel::Warning,
                impact: UPDATE_STALLED,
                message: format!("Outdated nodes in a paused pool '{}' will not be updated", pool.name),
                reference: PAUSED.to_owned(),
                resources: resource("machineconfigpools.machineconfiguration.openshift.io", &pool.name),
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
    let alerts = cluster
        .alerts
        .as_ref()
        .and_then(|answer| answer.pointer("/data/alerts"));
    let mut found = Vec::new();
    for alert in alerts.and_then(Value::as_array).into_iter().flatten() {
        let name = text(alert, "/labels/alertname");
        let since = time(alert, "/activeAt");
        let is_budget = ["PodDisruptionBudgetAtLimit", "PodDisruptionBudgetLimit"].contains(&name);
        let level = match text(alert, "/labels/severity") {
            "critical" => InsightLevel::Critical,
            "warning" => InsightLevel::Warning,
            _ => continue,
        };
        if text(alert, "/state") == "pending" || !(is_budget || since > started) {
            continue;
        }
        let annotation = |key: &str| text(alert, &format!("/annotations/{key}")).to_owned();
        let summary = annotation("summary");
        let summary = if summary.is_empty() {
            name.to_owned()
        } else {
            summary
        };
        found.push(HealthInsight {
            since,
            age: age(since, now),
            level,
            impact: "Unknown",
            message: format!("Alert is firing: {summary}"),
            reference: annotation("runbook_url"),
            resources: vec![(
                "namespaces".to_owned(),
                text(alert, "/labels/namespace").to_owned(),
            )],
            description: annotation("description"),
        });
    }
    found
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
            insight
                .message
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
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
