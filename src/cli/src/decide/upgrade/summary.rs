//! `slipway upgrade`: where the cluster is, and which updates there are.

use serde::Serialize;

use super::version::{OfferedUpdate, VersionView, cautioned};
use crate::decide::blocks::{block, columns};

/// Where the first column of a table of versions ends at least.
const VERSION_WIDTH: usize = 11;

/// What is printed: to standard output, and warnings to standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) out: String,
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpgradeSummary {
    version: String,
    image: String,
    /// Who stopped the cluster, since when and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    channel: String,
    upstream: String,
    conditions: Vec<SummaryCondition>,
    available_updates: Vec<OfferedUpdate>,
    conditional_updates: Vec<OfferedUpdate>,
}

#[derive(Clone, Debug, Serialize)]
struct SummaryCondition {
    r#type: &'static str,
    status: String,
    reason: String,
    message: String,
}

/// Conditions of the summary.
const CONDITIONS: [&str; 5] = [
    "Failing",
    "Progressing",
    "Upgradeable",
    "ReleaseAccepted",
    "RetrievedUpdates",
];

impl UpgradeSummary {
    pub(crate) fn new(version: VersionView<'_>) -> Self {
        let conditions = CONDITIONS.iter().filter_map(|kind| {
            let condition = version.condition(kind)?;
            Some(SummaryCondition {
                r#type: kind,
                status: condition.status.to_owned(),
                reason: condition.reason.to_owned(),
                message: condition.message.to_owned(),
            })
        });
        Self {
            version: version.desired_version().to_owned(),
            image: version.desired_image().to_owned(),
            stopped: version.stopped(),
            channel: version.0.text("/spec/channel").to_owned(),
            upstream: version.0.text("/spec/upstream").to_owned(),
            conditions: conditions.collect(),
            available_updates: version.available(),
            conditional_updates: version.conditional(),
        }
    }
}

pub(crate) fn text(version: VersionView<'_>, with_not_recommended: bool) -> Printed {
    let mut printed = Printed::default();
    let out = &mut printed.out;
    if let Some(stopped) = version.stopped() {
        out.extend([stopped, "\n".to_owned()]);
    }
    match version.condition("Failing") {
        Some(failing) if failing.status != "False" => out.push_str(&block("Failing", &failing)),
        Some(_) => {}
        None => printed.warnings.push(missing("Failing")),
    }
    match version.condition("Progressing") {
        Some(progressing) if progressing.is_true() => {
            let message = progressing.message;
            out.extend([format!("info: An upgrade is in progress. {message}\n")]);
        }
        Some(progressing) => out.extend([format!("{}\n", progressing.message)]),
        None => printed.warnings.push(missing("Progressing")),
    }
    out.push('\n');
    if let Some(upgradeable) = version.condition("Upgradeable")
        && upgradeable.status == "False"
    {
        out.push_str(&block("Upgradeable", &upgradeable).replacen(":\n", "\n", 1));
    }
    if let Some(accepted) = version.condition("ReleaseAccepted")
        && !accepted.is_true()
    {
        out.push_str(&block("ReleaseAccepted", &accepted).replacen(":\n", "\n", 1));
    }
    out.push_str(&channel(version));
    let (available, conditional) = (version.available(), version.conditional());
    if let Some(retrieved) = version.condition("RetrievedUpdates")
        && retrieved.status == "False"
    {
        let verb = if available.is_empty() {
            "display"
        } else {
            "refresh"
        };
        printed.warnings.push(format!(
            "Cannot {verb} available updates:\n  Reason: {}\n  Message: {}\n",
            retrieved.reason,
            retrieved.message.replace('\n', "\n  ")
        ));
        if available.is_empty() && conditional.is_empty() {
            return printed;
        }
    }
    out.push_str(&updates(&available, &conditional, with_not_recommended));
    printed
}

/// The warning that a condition is absent.
pub(crate) fn missing(kind: &str) -> String {
    format!("No current {kind} info, see `oc describe clusterversion` for more details.")
}

fn channel(version: VersionView<'_>) -> String {
    let channel = version.0.text("/spec/channel");
    if channel.is_empty() {
        return String::new();
    }
    let upstream = version.0.text("/spec/upstream");
    let upstream = if upstream.is_empty() {
        "Upstream is unset, so the cluster will use an appropriate default.".to_owned()
    } else {
        format!("Upstream: {upstream}")
    };
    format!("{upstream}\n{}", channel_line(version))
}

/// The channel, and those that hold the release.
pub(crate) fn channel_line(version: VersionView<'_>) -> String {
    let channels = version.known_channels();
    let available = if channels.is_empty() {
        String::new()
    } else {
        format!(" (available channels: {})", channels.join(", "))
    };
    format!("Channel: {}{available}\n", version.0.text("/spec/channel"))
}

fn updates(
    available: &[OfferedUpdate],
    conditional: &[OfferedUpdate],
    with_not_recommended: bool,
) -> String {
    let mut text = String::new();
    if available.is_empty() {
        text.push_str(
            "\nNo updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available.\n",
        );
    } else {
        text.push_str("\nRecommended updates:\n\n");
        let mut rows = vec![vec!["VERSION".to_owned(), "IMAGE".to_owned()]];
        rows.extend(
            available
                .iter()
                .map(|update| vec![update.version.clone(), update.image.clone()]),
        );
        text.push_str(&columns(2, 1, VERSION_WIDTH, &rows));
    }
    if with_not_recommended {
        if conditional.is_empty() {
            text.push_str("\nNo updates which are not recommended based on your cluster configuration are available.\n");
            return text;
        }
        text.push_str("\nUpdates with known issues:\n");
        text.push_str(&cautioned(conditional));
    } else if !conditional.is_empty() {
        let is_unknown = |update: &OfferedUpdate| {
            update
                .caution
                .as_ref()
                .is_some_and(|caution| caution.recommended == "Unknown")
        };
        let unknown = if conditional.iter().any(is_unknown) {
            ", or where the recommended status is \"Unknown\","
        } else {
            ""
        };
        text.extend([format!(
            "\nAdditional updates which are not recommended{unknown} for your cluster configuration are available, to view those re-run the command with --include-not-recommended.\n"
        )]);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decide::object::ClusterObject;

    fn cluster() -> ClusterObject {
        let digest = "0".repeat(64);
        ClusterObject(json!({
            "spec": {"channel": "fast-4.1"},
            "status": {
                "desired": {"version": "4.1.0", "channels": ["fast-4.1", "stable-4.1"]},
                "availableUpdates": [
                    {"version": "4.1.9", "image": format!("quay.example/ocp@sha256:{digest}")},
                    {"version": "4.1.10", "image": format!("quay.example/ocp@sha256:{digest}")}
                ],
                "conditionalUpdates": [{
                    "release": {"version": "4.2.0", "image": "quay.example/ocp@sha256:2"},
                    "conditions": [{"type": "Recommended", "status": "Unknown", "reason": "EvaluationFailed", "message": "No\nmetrics."}]
                }],
                "conditions": [
                    {"type": "Failing", "status": "True", "reason": "R", "message": "first\nsecond"},
                    {"type": "Progressing", "status": "True", "message": "Working towards 4.1.0"},
                    {"type": "Upgradeable", "status": "False", "reason": "U", "message": "not now"}
                ]
            }
        }))
    }

    #[test]
    fn the_summary_has_the_texts_of_upstream() {
        let digest = "0".repeat(64);
        let head = format!(
            "Failing=True:\n\n  Reason: R\n  Message: first\n  second\n\n\
             info: An upgrade is in progress. Working towards 4.1.0\n\n\
             Upgradeable=False\n\n  Reason: U\n  Message: not now\n\n\
             Upstream is unset, so the cluster will use an appropriate default.\n\
             Channel: fast-4.1 (available channels: fast-4.1, stable-4.1)\n\n\
             Recommended updates:\n\n  VERSION     IMAGE\n  4.1.10      quay.example/ocp@sha256:{digest}\n  \
             4.1.9       quay.example/ocp@sha256:{digest}\n"
        );
        let cluster = cluster();
        let version = VersionView(&cluster);
        assert_eq!(
            text(version, false).out,
            format!(
                "{head}\nAdditional updates which are not recommended, or where the recommended status is \"Unknown\", for your cluster configuration are available, to view those re-run the command with --include-not-recommended.\n"
            )
        );
        assert_eq!(
            text(version, true).out,
            format!(
                "{head}\nUpdates with known issues:\n\n  Version: 4.2.0\n  Image: quay.example/ocp@sha256:2\n  Reason: EvaluationFailed\n  Message: No\n  metrics.\n"
            )
        );
    }

    #[test]
    fn missing_conditions_and_updates_are_said() {
        let mut cluster = cluster();
        cluster.0["status"] = json!({"conditions": [
            {"type": "RetrievedUpdates", "status": "False", "reason": "NoChannel", "message": "none"}
        ]});
        let printed = text(VersionView(&cluster), false);
        assert_eq!(
            printed.warnings,
            [
                "No current Failing info, see `oc describe clusterversion` for more details.",
                "No current Progressing info, see `oc describe clusterversion` for more details.",
                "Cannot display available updates:\n  Reason: NoChannel\n  Message: none\n",
            ]
        );
        cluster.0["status"]["conditions"] = json!([]);
        assert!(
            text(VersionView(&cluster), false)
                .out
                .contains("\nNo updates available. You may")
        );
    }
}
