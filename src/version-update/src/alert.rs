//! Alerts that speak against an update, as risks of all updates: values in, values out.
//!
//! Source: `docs/reference/cvo.md`, "Risks".

use std::collections::BTreeMap;

use release::prometheus::partial::PartialResponse;
use release::update_graph::{RiskRule, UpdateRisk};
use serde_json::Value;

use crate::risk::is_name;
use crate::validation;

/// Gate of risks that do not come from the update service.
pub const GATE: &str = "ClusterUpdateAcceptRisks";

/// Name of the risk of a cluster whose alerts cannot be read.
const UNKNOWN: &str = "AlertsUnknown";

/// Alerts that count whatever their severity is.
const NAMES: [&str; 8] = [
    "KubeContainerWaiting",
    "KubeNodeNotReady",
    "KubeNodeReadinessFlapping",
    "KubeNodeUnreachable",
    "KubeletHealthState",
    "PodDisruptionBudgetAtLimit",
    "VMCannotBeEvicted",
    "VirtHandlerDaemonSetRolloutFailing",
];

/// Label by which any other alert counts: `true`.
const PRECHECK: &str = "openShiftUpdatePrecheck";

/// Characters of a message: each update has it.
const MESSAGE_CHARS: usize = 1000;

fn text<'a>(alert: &'a Value, pointer: &str) -> &'a str {
    let text = alert.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().trim()
}

/// Whether an alert fires and counts.
fn counts(alert: &Value) -> bool {
    let name = text(alert, "/labels/alertname");
    let counts = text(alert, "/labels/severity") == "critical"
        || NAMES.contains(&name)
        || text(alert, &format!("/labels/{PRECHECK}")) == "true";
    counts && text(alert, "/state") == "firing" && is_name(name)
}

fn risk(name: &str, message: &str, url: &str) -> UpdateRisk {
    UpdateRisk {
        url: url.to_owned(),
        name: name.to_owned(),
        message: message.chars().take(MESSAGE_CHARS).collect(),
        rules: vec![RiskRule::Always],
    }
}

/// Why a response is no list of alerts.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAlerts {
    #[error("the answer is no JSON")]
    Json(#[source] serde_json::Error),
    #[error("alerts are not answered: {reason}")]
    Failed { reason: String },
    #[error(transparent)]
    Partial(#[from] PartialResponse),
    #[error("the answer has no alerts")]
    NoAlerts,
}

/// The risks of a response of Prometheus, by name. `page` stands for an alert without a runbook.
///
/// # Errors
/// It is no list of alerts.
pub fn risks(body: &[u8], page: &str) -> Result<Vec<UpdateRisk>, InvalidAlerts> {
    let response: Value = serde_json::from_slice(body).map_err(InvalidAlerts::Json)?;
    if text(&response, "/status") != "success" {
        let reason = text(&response, "/error").to_owned();
        return Err(InvalidAlerts::Failed { reason });
    }
    release::prometheus::partial::check_whole(&response)?;
    let alerts = response.pointer("/data/alerts").and_then(Value::as_array);
    let alerts = alerts.ok_or(InvalidAlerts::NoAlerts)?;
    let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for alert in alerts.iter().filter(|alert| counts(alert)) {
        let name = text(alert, "/labels/alertname");
        by_name.entry(name).or_default().push(alert);
    }
    let risk_of = |(name, alerts): (&str, Vec<&Value>)| {
        let first = alerts.first().copied().unwrap_or(&Value::Null);
        let runbook = text(first, "/annotations/runbook_url");
        let url = if validation::is_url(runbook) {
            runbook
        } else {
            page
        };
        let severity = text(first, "/labels/severity");
        let mut message = format!("{severity} alert {name} is firing");
        if alerts.len() > 1 {
            message = format!("{message}, {} times", alerts.len());
        }
        for part in ["summary", "description"] {
            let part = text(first, &format!("/annotations/{part}"));
            if !part.is_empty() {
                message = format!("{message}. {}", part.trim_end_matches('.'));
            }
        }
        risk(name, &format!("{}.", message.trim_start()), url)
    };
    Ok(by_name.into_iter().map(risk_of).collect())
}

/// The risk of a cluster whose alerts cannot be read.
pub fn unknown(why: &str, page: &str) -> UpdateRisk {
    risk(
        UNKNOWN,
        &format!("Alerts of the cluster are not known: {why}."),
        page,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PAGE: &str = "https://metrics.example/alerts";

    fn alert(name: &str, severity: &str, state: &str, rest: &Value) -> Value {
        let mut alert = json!({
            "labels": { "alertname": name, "severity": severity }, "annotations": {}, "state": state
        });
        for (part, fields) in rest.as_object().into_iter().flatten() {
            for (key, value) in fields.as_object().into_iter().flatten() {
                alert[part][key] = value.clone();
            }
        }
        alert
    }

    fn found(alerts: &[Value]) -> Vec<UpdateRisk> {
        let response = json!({ "status": "success", "data": { "alerts": alerts } });
        risks(response.to_string().as_bytes(), PAGE).unwrap()
    }

    #[test]
    fn only_firing_alerts_that_concern_updates_are_risks() {
        let none = json!({});
        let precheck = json!({ "labels": { "openShiftUpdatePrecheck": "true" } });
        let alerts = [
            alert("Zeta", "critical", "firing", &none),
            alert("Pending", "critical", "pending", &none),
            alert("Quiet", "warning", "firing", &none),
            alert("KubeNodeNotReady", "warning", "firing", &none),
            alert("KubeNodeNotReady", "warning", "firing", &none),
            alert("Own-Check.1", "info", "firing", &precheck),
            alert("lowercase", "critical", "firing", &none),
            alert("With space", "critical", "firing", &none),
        ];
        let found = found(&alerts);
        let names: Vec<&str> = found.iter().map(|risk| risk.name.as_str()).collect();
        assert_eq!(names, ["KubeNodeNotReady", "Own-Check.1", "Zeta"]);
        assert_eq!(
            found[0].message,
            "warning alert KubeNodeNotReady is firing, 2 times."
        );
        assert!(
            found
                .iter()
                .all(|risk| risk.rules == [RiskRule::Always] && risk.url == PAGE)
        );
    }

    #[test]
    fn a_risk_says_what_the_alert_says() {
        let annotations = json!({ "annotations": {
            "summary": "etcd is slow.", "description": "Member m0 takes 2 s.",
            "runbook_url": "https://runbooks.example/etcd"
        } });
        let found = found(&[alert("EtcdSlow", "critical", "firing", &annotations)]);
        assert_eq!(
            found[0].message,
            "critical alert EtcdSlow is firing. etcd is slow. Member m0 takes 2 s."
        );
        assert_eq!(found[0].url, "https://runbooks.example/etcd");
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_a_risk() {
        for (body, expected) in [
            ("{", "the answer is no JSON"),
            (
                r#"{"status":"error","error":"busy"}"#,
                "alerts are not answered: busy",
            ),
            (
                r#"{"status":"success","warnings":["store a is away"],"data":{"alerts":[]}}"#,
                "may be partial: store a is away",
            ),
            (
                r#"{"status":"success","data":{}}"#,
                "the answer has no alerts",
            ),
        ] {
            let why = risks(body.as_bytes(), PAGE).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
        let unknown = unknown("busy", PAGE);
        assert_eq!(
            unknown.message,
            "Alerts of the cluster are not known: busy."
        );
        assert!(is_name(&unknown.name));
    }
}
