//! `slipway upgrade recommend`: which updates there are, and what speaks against them.

use std::collections::{BTreeMap, BTreeSet};

use release::Version;
use serde::Serialize;
use serde_json::Value;

use super::blocks::{block, columns};
use super::object::{ObjectCondition, text};
use super::summary::channel_line;
use super::version::{Caution, OfferedUpdate, VersionView, cautioned};

/// Newest updates of a minor release that are shown unless all are asked for.
const SHOWN: usize = 2;

/// Where the first column ends at least.
const VERSION_WIDTH: usize = 11;

const FINE: &str = "no known issues relevant to this cluster";

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecommendWish {
    pub(crate) version: Option<String>,
    pub(crate) show_outdated: bool,
    pub(crate) accept: BTreeSet<String>,
    pub(crate) quiet: bool,
}

/// A check before an update, that found something or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrecheckFinding {
    /// Its name: `recommended/<group>/<alert>/<number>`.
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

/// Groups of alerts; the first that an alert is in counts.
const GROUPS: [&str; 5] = [
    "CriticalAlerts",
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

/// Alerts of virtual machines that hold a drain up. Where none fires, nothing is said of them: most
/// clusters have no virtual machines.
const VIRT_ALERTS: [&str; 2] = ["VirtHandlerDaemonSetRolloutFailing", "VMCannotBeEvicted"];

impl PrecheckReport {
    /// Reads alerts as Prometheus answers them; those that are only pending do not count.
    pub(crate) fn of_alerts(answer: &Value) -> Self {
        let alerts = answer.pointer("/data/alerts").and_then(Value::as_array);
        let mut findings = Vec::new();
        let mut hit = BTreeSet::new();
        for alert in alerts.into_iter().flatten() {
            if text(alert, "/state") == "pending" {
                continue;
            }
            let Some((group, finding)) = judged(alert, findings.len()) else {
                continue;
            };
            hit.insert(group);
            findings.push(finding);
        }
        findings.sort_by(|one, other| one.r#type.cmp(&other.r#type));
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

/// Whether an alert speaks against an update, and how.
fn judged(alert: &Value, number: usize) -> Option<(&'static str, PrecheckFinding)> {
    let name = text(alert, "/labels/alertname");
    let severity = text(alert, "/labels/severity");
    let namespace = text(alert, "/labels/namespace");
    let (group, why) = if severity == "critical" {
        (
            "CriticalAlerts",
            "suggesting significant cluster issues worth investigating".to_owned(),
        )
    } else if name == "PodDisruptionBudgetAtLimit" {
        let budget = text(alert, "/labels/poddisruptionbudget");
        let why = format!(
            "which might slow node drains. Namespace={namespace}, PodDisruptionBudget={budget}"
        );
        ("PodDisruptionBudgetAlerts", why)
    } else if name == "KubeContainerWaiting" {
        let (pod, container) = (text(alert, "/labels/pod"), text(alert, "/labels/container"));
        let why = format!(
            "which may slow workload redistribution during rolling node updates. Namespace={namespace}, Pod={pod}, Container={container}"
        );
        ("PodImagePullAlerts", why)
    } else if NODE_ALERTS.contains(&name) {
        let node = text(alert, "/labels/node");
        let why = format!(
            "which may slow workload redistribution during rolling node updates. Node={node}"
        );
        ("NodeAlerts", why)
    } else if text(alert, "/labels/openShiftUpdatePrecheck") == "true" {
        (
            "UpdatePrecheckAlerts",
            "suggesting issues worth investigating before updating the cluster".to_owned(),
        )
    } else if VIRT_ALERTS.contains(&name) {
        (
            "VirtAlerts",
            "which may slow workload redistribution during rolling node updates".to_owned(),
        )
    } else {
        return None;
    };
    let state = text(alert, "/state");
    let summary = annotation(alert, "summary");
    let description = annotation(alert, "description");
    let runbook = annotation(alert, "runbook_url");
    let finding = PrecheckFinding {
        r#type: format!("recommended/{group}/{name}/{number}"),
        status: "False".to_owned(),
        reason: format!("Alert:{state}"),
        message: format!(
            "{severity} alert {name} {state}, {why}. {summary} The alert description is: {description} {runbook}"
        ),
        acceptance: name.to_owned(),
    };
    Some((group, finding))
}

fn annotation<'a>(alert: &'a Value, name: &str) -> &'a str {
    let annotations = alert.pointer("/annotations");
    let found = annotations
        .and_then(|all| all.get(name))
        .and_then(Value::as_str);
    found.unwrap_or("<alert does not have it>")
}

/// The view, and what speaks against an update that is not accepted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecommendView {
    #[serde(skip)]
    pub(crate) text: String,
    /// What is refused: an error after the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) precheck: PrecheckReport,
    /// Updates, newest first.
    pub(crate) updates: Vec<OfferedUpdate>,
}

impl RecommendView {
    /// Judges the updates.
    pub(crate) fn new(
        version: VersionView<'_>,
        precheck: PrecheckReport,
        wish: &RecommendWish,
    ) -> Self {
        let updates = all_updates(version);
        let mut issues: BTreeSet<String> = BTreeSet::new();
        let mut text = head(version, &precheck, &mut issues);
        let error = if let Some(wanted) = &wish.version {
            one(version, &updates, wanted, &mut text, &mut issues).or_else(|| {
                issues.retain(|issue| !wish.accept.contains(issue));
                let list: Vec<&str> = issues.iter().map(String::as_str).collect();
                if list.is_empty() {
                    return None;
                }
                text.push('\n');
                Some(format!(
                    "issues that apply to this cluster but which were not included in --accept: {}",
                    list.join(",")
                ))
            })
        } else {
            text.push_str(&minors(&updates, wish.show_outdated));
            None
        };
        if wish.quiet {
            text.clear();
        }
        Self {
            text,
            error,
            precheck,
            updates,
        }
    }
}

/// All updates; those to a higher minor release have a risk where the cluster says that it cannot
/// be updated to one.
fn all_updates(version: VersionView<'_>) -> Vec<OfferedUpdate> {
    let mut updates = version.available();
    updates.extend(version.conditional());
    updates.sort_by(|one, other| super::blocks::newest_first(&one.version, &other.version));
    let minor = |text: &str| text.parse::<Version>().ok().map(|version| version.minor());
    let own = minor(version.desired_version());
    if let Some(upgradeable) = version
        .condition("Upgradeable")
        .filter(|found| found.status == "False")
    {
        for update in &mut updates {
            if minor(&update.version) <= own {
                continue;
            }
            let before = update.caution.take();
            let (reason, message) = match before {
                Some(before) => (
                    "MultipleReasons".to_owned(),
                    format!("{}\n\n{}", upgradeable.message, before.message),
                ),
                None => (
                    "UpgradeableFalse".to_owned(),
                    upgradeable.message.to_owned(),
                ),
            };
            update.caution = Some(Caution {
                recommended: "False".to_owned(),
                reason,
                message,
            });
        }
    }
    updates
}

/// What stands above the updates.
fn head(
    version: VersionView<'_>,
    precheck: &PrecheckReport,
    issues: &mut BTreeSet<String>,
) -> String {
    let mut text = String::new();
    if let Some(failing) = version
        .condition("Failing")
        .filter(|found| found.status != "False")
    {
        issues.insert("Failing".to_owned());
        text.push_str(&block("Failing", &failing));
    }
    if let Some(progressing) = version
        .condition("Progressing")
        .filter(ObjectCondition::is_true)
    {
        issues.insert("Progressing".to_owned());
        text.extend([format!(
            "info: An update is in progress.  You may wish to let this update complete before requesting a new update.\n  {}\n\n",
            progressing.message.replace('\n', "\n  ")
        )]);
    }
    if !precheck.fine.is_empty() {
        let fine = precheck
            .fine
            .iter()
            .map(|name| format!("{name} (AsExpected)"));
        text.extend([format!(
            "The following conditions found no cause for concern in updating this cluster to later releases: {}\n\n",
            fine.collect::<Vec<_>>().join(", ")
        )]);
    }
    if !precheck.findings.is_empty() {
        let names: Vec<&str> = precheck
            .findings
            .iter()
            .map(|finding| finding.r#type.as_str())
            .collect();
        text.extend([format!(
            "The following conditions found cause for concern in updating this cluster to later releases: {}\n\n",
            names.join(", ")
        )]);
        for finding in &precheck.findings {
            issues.insert(finding.acceptance.clone());
            text.extend([format!(
                "{}={}:\n\n  Reason: {}\n  Message: {}\n\n",
                finding.r#type,
                finding.status,
                finding.reason,
                finding.message.replace('\n', "\n  ")
            )]);
        }
    }
    if let Some(retrieved) = version
        .condition("RetrievedUpdates")
        .filter(|found| found.status == "False")
    {
        issues.insert("CannotRetrieveUpdates".to_owned());
        text.push_str(&block("RetrievedUpdates", &retrieved));
    }
    let upstream = version.0.text("/spec/upstream");
    if upstream.is_empty() {
        text.push_str(
            "Upstream update service is unset, so the cluster will use an appropriate default.\n",
        );
    } else {
        text.extend([format!("Upstream update service: {upstream}\n")]);
    }
    text.push_str(&channel_line(version));
    text
}

/// The updates of each minor release, the newest first.
fn minors(updates: &[OfferedUpdate], show_outdated: bool) -> String {
    if updates.is_empty() {
        return "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available.\n".to_owned();
    }
    let mut minors: BTreeMap<(u64, u64), Vec<&OfferedUpdate>> = BTreeMap::new();
    for update in updates {
        if let Ok(version) = update.version.parse::<Version>() {
            minors.entry(version.minor()).or_default().push(update);
        }
    }
    let mut text = String::new();
    for ((major, minor), updates) in minors.iter().rev() {
        text.extend([format!("\nUpdates to {major}.{minor}:\n")]);
        let shown = if show_outdated {
            updates.len()
        } else {
            SHOWN.min(updates.len())
        };
        let (shown, rest) = updates.split_at_checked(shown).unwrap_or((updates, &[]));
        let mut rows = vec![vec!["VERSION".to_owned(), "ISSUES".to_owned()]];
        let mut bad = Vec::new();
        for update in shown {
            match &update.caution {
                Some(caution) if show_outdated => {
                    rows.push(vec![update.version.clone(), caution.reason.clone()]);
                }
                Some(_) => bad.push(*update),
                None => rows.push(vec![update.version.clone(), FINE.to_owned()]),
            }
        }
        if rows.len() > 1 {
            text.push_str(&columns(2, 1, VERSION_WIDTH, &rows));
        }
        text.push_str(&cautioned(bad));
        if !rest.is_empty() {
            text.extend([format!(
                "And {} older {major}.{minor} updates you can see with '--show-outdated-releases' or '--version VERSION'.\n",
                rest.len()
            )]);
        }
    }
    text
}

/// One update; an error where there is none.
fn one(
    version: VersionView<'_>,
    updates: &[OfferedUpdate],
    wanted: &str,
    out: &mut String,
    issues: &mut BTreeSet<String>,
) -> Option<String> {
    if wanted == version.desired_version() {
        return Some(format!("the cluster runs {wanted} already"));
    }
    let Some(update) = updates.iter().find(|update| update.version == wanted) else {
        out.push('\n');
        let minor = |text: &str| text.parse::<Version>().ok().map(|version| version.minor());
        let is_known = updates
            .iter()
            .any(|update| minor(&update.version) == minor(wanted));
        return Some(if is_known {
            format!("no update to {wanted} available")
        } else {
            let (major, minor) = minor(wanted).unwrap_or_default();
            format!(
                "no updates to {major}.{minor} available, so cannot display context for the requested release {wanted}"
            )
        });
    };
    out.push('\n');
    match &update.caution {
        None => out.extend([format!("Update to {wanted} has {FINE}.\n")]),
        Some(caution) => {
            out.extend([format!(
                "Update to {wanted} Recommended={}:\n",
                caution.recommended
            )]);
        }
    }
    out.extend([format!("Image: {}\n", update.image)]);
    if !update.url.is_empty() {
        out.extend([format!("Release URL: {}\n", update.url)]);
    }
    if let Some(caution) = &update.caution {
        issues.insert("ConditionalUpdateRisk".to_owned());
        out.extend([format!(
            "Reason: {}\nMessage: {}\n",
            caution.reason,
            caution.message.replace('\n', "\n  ")
        )]);
    }
    None
}

#[cfg(test)]
mod tests;
