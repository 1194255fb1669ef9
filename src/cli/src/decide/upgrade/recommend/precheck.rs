//! What alerts say against an update.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::decide::upgrade::alert::AlertView;

/// A check before an update, that found something or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrecheckFinding {
    pub(crate) r#type: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Name by which it is accepted.
    pub(crate) acceptance: String,
}

/// What the checks before an update found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PrecheckReport {
    /// Checks that found nothing.
    pub(crate) fine: Vec<String>,
    pub(crate) findings: Vec<PrecheckFinding>,
}

/// Alerts of any kind that are critical.
const CRITICAL: &str = "CriticalAlerts";

/// Groups of alerts that are reported as fine where none fires. Of `VirtAlerts` nothing is reported
/// then: most clusters have no virtual machines.
const GROUPS: [&str; 5] = [
    CRITICAL,
    "NodeAlerts",
    "PodDisruptionBudgetAlerts",
    "PodImagePullAlerts",
    "UpdatePrecheckAlerts",
];

/// Alerts of nodes that may not come back from an update.
const NODE_ALERTS: [&str; 4] = [
    "KubeletHealthState",
    "KubeNodeNotReady",
    "KubeNodeReadinessFlapping",
    "KubeNodeUnreachable",
];

/// Alerts of virtual machines that hold a drain up.
const VIRT_ALERTS: [&str; 2] = ["VirtHandlerDaemonSetRolloutFailing", "VMCannotBeEvicted"];

const SLOW_NODES: &str = "which may slow workload redistribution during rolling node updates";

impl PrecheckReport {
    /// Reads alerts as Prometheus returns them. Where some may be missing, nothing is fine.
    pub(crate) fn of_alerts(response: &Value) -> Self {
        let mut findings = Vec::new();
        let mut hit = BTreeSet::new();
        for alert in AlertView::firing(response) {
            let group = group(alert);
            let is_critical = alert.severity() == "critical";
            hit.extend(group.map(|(name, _)| name));
            hit.extend(is_critical.then_some(CRITICAL));
            let judged = if is_critical {
                let why = "suggesting significant cluster issues worth investigating";
                Some((CRITICAL, why))
            } else {
                group
            };
            if let Some((group, why)) = judged {
                findings.push(finding(alert, group, why, findings.len()));
            }
        }
        findings.sort_by(|one, other| one.r#type.cmp(&other.r#type));
        if let Err(why) = AlertView::check_whole(response) {
            let unknown = Self::unknown("CannotReadAlerts", why);
            findings.extend(unknown.findings);
            return Self {
                findings,
                ..unknown
            };
        }
        let fine = GROUPS.iter().filter(|group| !hit.contains(*group));
        Self {
            fine: fine.map(|group| format!("recommended/{group}")).collect(),
            findings,
        }
    }

    /// The alerts could not be read.
    pub(crate) fn unknown(reason: &str, message: String) -> Self {
        Self {
            fine: Vec::new(),
            findings: vec![PrecheckFinding {
                r#type: "recommended/Alert".to_owned(),
                status: "Unknown".to_owned(),
                reason: reason.to_owned(),
                message,
                acceptance: "FailedToCompletePrecheck".to_owned(),
            }],
        }
    }
}

/// The group that an alert is in, critical or not, and why that speaks against an update.
fn group(alert: AlertView<'_>) -> Option<(&'static str, &'static str)> {
    let name = alert.name();
    Some(if alert.is_of_budget() {
        ("PodDisruptionBudgetAlerts", "which might slow node drains")
    } else if name == "KubeContainerWaiting" {
        ("PodImagePullAlerts", SLOW_NODES)
    } else if NODE_ALERTS.contains(&name) {
        ("NodeAlerts", SLOW_NODES)
    } else if alert.label("openShiftUpdatePrecheck") == "true" {
        (
            "UpdatePrecheckAlerts",
            "suggesting issues worth investigating before updating the cluster",
        )
    } else if VIRT_ALERTS.contains(&name) {
        ("VirtAlerts", SLOW_NODES)
    } else {
        return None;
    })
}

fn finding(alert: AlertView<'_>, group: &str, why: &str, number: usize) -> PrecheckFinding {
    let (name, severity, state) = (alert.name(), alert.severity(), alert.state());
    let dot = if alert.summary().ends_with('.') {
        ""
    } else {
        "."
    };
    PrecheckFinding {
        r#type: format!("recommended/{group}/{name}/{number}"),
        status: "False".to_owned(),
        reason: format!("Alert:{state}"),
        message: format!(
            "{severity} alert {name} {state}, {why}. {}{}{dot} {} {}",
            objects(alert),
            alert.summary(),
            alert.description(),
            alert.runbook()
        ),
        acceptance: name.to_owned(),
    }
}

/// A sentence with the objects that an alert is about, which its texts may leave out.
fn objects(alert: AlertView<'_>) -> String {
    let name = alert.name();
    let labels: &[(&str, &str)] = if alert.is_of_budget() {
        &[
            ("Namespace", "namespace"),
            ("PodDisruptionBudget", "poddisruptionbudget"),
        ]
    } else if name == "KubeContainerWaiting" {
        &[
            ("Namespace", "namespace"),
            ("Pod", "pod"),
            ("Container", "container"),
        ]
    } else if NODE_ALERTS.contains(&name) {
        &[("Node", "node")]
    } else {
        &[]
    };
    let labels = labels
        .iter()
        .map(|(kind, label)| (kind, alert.label(label)));
    let named = labels.filter(|(_, name)| !name.is_empty());
    let named: Vec<String> = named.map(|(kind, name)| format!("{kind}={name}")).collect();
    if named.is_empty() {
        return String::new();
    }
    format!("{}. ", named.join(", "))
}
