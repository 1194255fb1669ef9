//! Whether a cluster is well enough: the questions, and what their answers find.

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperatorStatus};
use serde_json::Value;

use crate::config::OperatorConfig;
use crate::node_view::UpgradeNode;

/// Alerts of this operator: they must not hold what they report on.
pub(crate) const OWN_ALERTS: [&str; 5] = [
    "UpgradeConfigValidationFailedSRE",
    "UpgradeClusterCheckFailedSRE",
    "UpgradeControlPlaneUpgradeTimeoutSRE",
    "UpgradeNodeUpgradeTimeoutSRE",
    "UpgradeNodeDrainFailedSRE",
];

/// Something that is wrong with a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthFinding {
    /// These alerts fire.
    CriticalAlerts(Vec<String>),
    /// It is not known which alerts fire.
    AlertsUnknown(String),
    /// These operators are degraded or not available.
    DegradedOperators(Vec<String>),
    /// It is not known how operators are.
    OperatorsUnknown(String),
    /// Capacity is to be reserved, and there is no pool for it.
    NoMachinePool(String),
    /// These nodes are cordoned, and not by an update.
    Cordoned(Vec<String>),
    /// These nodes have too little of something.
    Pressure(Vec<(String, &'static str)>),
    /// These budgets block every drain: namespace and name.
    BlockingBudgets(Vec<(String, String)>),
    /// It is not known which budgets there are.
    BudgetsUnknown(String),
    /// The validation operator reports budgets that block drains.
    ReportedBudgets,
    /// The validation operator does not answer.
    ValidationUnknown(String),
}

impl HealthFinding {
    /// All label values of `reason`.
    pub const REASONS: [&str; 11] = [
        "critical_alerts_firing",
        "healthcheck_query_failed",
        "cluster_operators_degraded",
        "cluster_operator_status_failed",
        "default_worker_machinepool_not_found",
        "cluster_node_manually_cordoned",
        "cluster_node_taint_unschedulable",
        "cluster_invalid_pdb_configuration",
        "pdb_query_failed",
        "cluster_invalid_pdb",
        "dvo_metrics_query_failed",
    ];

    /// Its label value.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::CriticalAlerts(_) => "critical_alerts_firing",
            Self::AlertsUnknown(_) => "healthcheck_query_failed",
            Self::DegradedOperators(_) => "cluster_operators_degraded",
            Self::OperatorsUnknown(_) => "cluster_operator_status_failed",
            Self::NoMachinePool(_) => "default_worker_machinepool_not_found",
            Self::Cordoned(_) => "cluster_node_manually_cordoned",
            Self::Pressure(_) => "cluster_node_taint_unschedulable",
            Self::BlockingBudgets(_) => "cluster_invalid_pdb_configuration",
            Self::BudgetsUnknown(_) => "pdb_query_failed",
            Self::ReportedBudgets => "cluster_invalid_pdb",
            Self::ValidationUnknown(_) => "dvo_metrics_query_failed",
        }
    }

    /// Whether it holds an upgrade that has begun. The others are announced only.
    pub const fn holds(&self) -> bool {
        match self {
            Self::CriticalAlerts(_)
            | Self::AlertsUnknown(_)
            | Self::DegradedOperators(_)
            | Self::OperatorsUnknown(_) => true,
            Self::NoMachinePool(_)
            | Self::Cordoned(_)
            | Self::Pressure(_)
            | Self::BlockingBudgets(_)
            | Self::BudgetsUnknown(_)
            | Self::ReportedBudgets
            | Self::ValidationUnknown(_) => false,
        }
    }

    /// What it is, for people.
    pub fn text(&self) -> String {
        match self {
            Self::CriticalAlerts(names) => {
                format!("critical alert(s) firing: {}", names.join(", "))
            }
            Self::AlertsUnknown(why) => format!("cannot tell which alerts fire: {why}"),
            Self::DegradedOperators(names) => format!("degraded operators: {}", names.join(", ")),
            Self::OperatorsUnknown(why) => format!("cannot tell how operators are: {why}"),
            Self::NoMachinePool(why) => why.clone(),
            Self::Cordoned(names) => format!("nodes cordoned by hand: {}", names.join(", ")),
            Self::Pressure(nodes) => {
                let nodes: Vec<String> = nodes
                    .iter()
                    .map(|(node, what)| format!("{node} ({what})"))
                    .collect();
                format!("nodes under pressure: {}", nodes.join(", "))
            }
            Self::BlockingBudgets(budgets) => {
                let budgets: Vec<String> = budgets
                    .iter()
                    .map(|(namespace, name)| format!("{namespace}/{name}"))
                    .collect();
                format!(
                    "PodDisruptionBudgets that block drains: {}",
                    budgets.join(", ")
                )
            }
            Self::BudgetsUnknown(why) => format!("cannot tell which budgets there are: {why}"),
            Self::ReportedBudgets => {
                "the validation operator reports PodDisruptionBudgets that block drains".to_owned()
            }
            Self::ValidationUnknown(why) => format!("cannot ask the validation operator: {why}"),
        }
    }
}

/// The query for alerts that hold an upgrade.
pub fn alert_query(config: &OperatorConfig) -> String {
    use std::fmt::Write as _;
    let mut query = String::from(
        "ALERTS{alertstate=\"firing\",severity=\"critical\",\
         namespace=~\"^openshift.*|^kube-.*|^default$\"",
    );
    let excluded = [
        ("namespace", &config.ignored_namespaces),
        ("alertname", &config.ignored_criticals),
    ];
    for (label, values) in excluded {
        for value in values {
            let value = value.replace('\\', r"\\").replace('"', "\\\"");
            if write!(query, ",{label}!=\"{value}\"").is_err() {
                // Writing to a String cannot fail.
                break;
            }
        }
    }
    query.push('}');
    query
}

/// The query for servers that are scraped. Where none is, no alert can fire.
pub const SCRAPED_QUERY: &str = "count(up == 1)";

/// Whether Prometheus scrapes anything, so that silence means health.
///
/// # Errors
/// It does not, or is not known to.
pub fn check_scraped(status: http::StatusCode, body: &[u8]) -> Result<(), String> {
    if read_result(status, body)?.is_empty() {
        return Err("Prometheus has no data: no target is up".to_owned());
    }
    Ok(())
}

/// Reads which alerts fire, but for this operator's own. What is no answer of Prometheus is no
/// "none".
///
/// # Errors
/// Why it is not known.
pub fn read_alerts(status: http::StatusCode, body: &[u8]) -> Result<Vec<String>, String> {
    let mut names = read_all_alerts(status, body)?;
    names.retain(|name| !OWN_ALERTS.contains(&name.as_str()));
    Ok(names)
}

/// Reads the names of all alerts of an answer, each once, by name.
///
/// # Errors
/// As of [`read_alerts`].
pub fn read_all_alerts(status: http::StatusCode, body: &[u8]) -> Result<Vec<String>, String> {
    let result = read_result(status, body)?;
    let mut names = Vec::new();
    for sample in &result {
        let name = sample.pointer("/metric/alertname").and_then(Value::as_str);
        names.push(name.ok_or("a sample has no alertname")?.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The samples of an answer.
fn read_result(status: http::StatusCode, body: &[u8]) -> Result<Vec<Value>, String> {
    let answer: Value = serde_json::from_slice(body)
        .map_err(|error| format!("{status}, and the answer is no JSON: {error}"))?;
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    if !status.is_success() || text("/status") != Some("success") {
        let why = text("/error").unwrap_or("no reason given");
        return Err(format!("{status}: {why}"));
    }
    let result = answer.pointer("/data/result").and_then(Value::as_array);
    let result = result.ok_or("the answer has no data.result")?;
    Ok(result.clone())
}

/// Operators that are degraded or not available.
pub fn degraded_operators<'a>(
    operators: impl Iterator<Item = (&'a str, &'a ClusterOperatorStatus)>,
) -> Vec<String> {
    let is = |status: &ClusterOperatorStatus, r#type, expected| {
        let condition = status.condition(&r#type);
        condition.is_some_and(|condition| condition.status == expected)
    };
    let mut names: Vec<String> = operators
        .filter(|(_, status)| {
            is(
                status,
                ClusterConditionType::Degraded,
                ConditionStatus::True,
            ) || is(
                status,
                ClusterConditionType::Available,
                ConditionStatus::False,
            )
        })
        .map(|(name, _)| name.to_owned())
        .collect();
    names.sort();
    names
}

/// What is wrong with nodes: cordoned by hand, or under pressure.
pub fn check_nodes<'a>(nodes: impl Iterator<Item = &'a UpgradeNode>) -> Vec<HealthFinding> {
    let (mut cordoned, mut pressure) = (Vec::new(), Vec::new());
    for node in nodes {
        if node.is_worker && node.drain_started.is_some() && !node.is_updating {
            cordoned.push(node.name.clone());
        }
        let kinds = node.pressures.iter();
        pressure.extend(kinds.map(|kind| (node.name.clone(), *kind)));
    }
    cordoned.sort();
    pressure.sort();
    let mut findings = Vec::new();
    if !cordoned.is_empty() {
        findings.push(HealthFinding::Cordoned(cordoned));
    }
    if !pressure.is_empty() {
        findings.push(HealthFinding::Pressure(pressure));
    }
    findings
}

/// Namespaces of OpenShift in which users keep pods.
const USERS_NAMESPACES: [&str; 8] = [
    "logging",
    "redhat-marketplace",
    "operators",
    "customer-monitoring",
    "cnv",
    "route-monitoring-operator",
    "user-workload-monitoring",
    "pipelines",
];

/// Whether budgets of a namespace are checked: all but OpenShift's own.
pub fn is_users_namespace(namespace: &str) -> bool {
    match namespace.strip_prefix("openshift-") {
        None => true,
        Some(rest) => USERS_NAMESPACES.contains(&rest),
    }
}

/// Whether a budget lets no pod go, whatever runs: `maxUnavailable` 0, or `minAvailable` 100 %.
pub fn blocks_drains(budget: &Value) -> bool {
    let field = |name: &str| budget.pointer(&format!("/spec/{name}"));
    let is_none = field("maxUnavailable")
        .is_some_and(|value| value.as_i64() == Some(0) || value.as_str() == Some("0%"));
    is_none || field("minAvailable").and_then(Value::as_str) == Some("100%")
}

/// Whether metrics of the validation operator report budgets that block drains.
pub fn reports_budgets(metrics: &str) -> bool {
    let names = [
        "deployment_validation_operator_pdb_min_available",
        "deployment_validation_operator_pdb_max_available",
    ];
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    samples
        .into_iter()
        .any(|line| names.iter().any(|name| line.contains(name)))
}

#[cfg(test)]
mod tests {
    use api::config::ClusterCondition;
    use http::StatusCode;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::fixture::{START, config};

    #[test]
    fn query_leaves_out_what_is_ignored() {
        let query = alert_query(&config(""));
        let expected = "ALERTS{alertstate=\"firing\",severity=\"critical\",\
                        namespace=~\"^openshift.*|^kube-.*|^default$\"}";
        assert_eq!(query, expected);
        let config = config("healthCheck: {ignoredNamespaces: [a, b], ignoredCriticals: ['C\"']}");
        let query = alert_query(&config);
        assert!(
            query.ends_with(",namespace!=\"a\",namespace!=\"b\",alertname!=\"C\\\"\"}"),
            "{query}"
        );
    }

    #[test]
    fn what_is_no_answer_of_prometheus_is_no_healthy_cluster() {
        let result = |names: &[&str]| {
            let samples: Vec<Value> = names
                .iter()
                .map(|name| json!({ "metric": { "alertname": name }, "value": [0, "1"] }))
                .collect();
            json!({ "status": "success", "data": { "resultType": "vector", "result": samples } })
        };
        let ok = |body: Value| read_alerts(StatusCode::OK, body.to_string().as_bytes());
        assert_eq!(ok(result(&[])), Ok(vec![]));
        assert_eq!(
            ok(result(&["B", "A", "B"])),
            Ok(vec!["A".to_owned(), "B".to_owned()])
        );
        assert_eq!(ok(result(&["UpgradeNodeDrainFailedSRE"])), Ok(vec![]));
        for (status, body) in [
            (
                StatusCode::OK,
                json!({ "status": "error", "error": "parse error" }),
            ),
            (StatusCode::OK, json!({})),
            (StatusCode::OK, json!({ "status": "success", "data": {} })),
            (StatusCode::OK, json!("x")),
            (StatusCode::FORBIDDEN, result(&[])),
            (StatusCode::BAD_GATEWAY, json!(null)),
        ] {
            let found = read_alerts(status, body.to_string().as_bytes());
            assert!(found.is_err(), "{status} {body}");
        }
        assert!(read_alerts(StatusCode::OK, b"<html>").is_err());
        let scraped = |body: Value| check_scraped(StatusCode::OK, body.to_string().as_bytes());
        assert_eq!(scraped(result(&["any"])), Ok(()));
        let error = scraped(result(&[])).unwrap_err();
        assert_eq!(error, "Prometheus has no data: no target is up");
        let error = ok(json!({ "status": "error", "error": "parse error" })).unwrap_err();
        assert_eq!(error, "200 OK: parse error");
    }

    #[test]
    fn degraded_or_unavailable_operators_are_found() {
        let status = |r#type, status| ClusterOperatorStatus {
            conditions: vec![ClusterCondition {
                r#type,
                status,
                last_transition_time: Time(START),
                reason: String::new(),
                message: String::new(),
            }],
            ..ClusterOperatorStatus::default()
        };
        let operators = [
            (
                "well",
                status(ClusterConditionType::Available, ConditionStatus::True),
            ),
            ("silent", ClusterOperatorStatus::default()),
            (
                "network",
                status(ClusterConditionType::Degraded, ConditionStatus::True),
            ),
            (
                "dns",
                status(ClusterConditionType::Available, ConditionStatus::False),
            ),
        ];
        let operators = operators.iter().map(|(name, status)| (*name, status));
        assert_eq!(degraded_operators(operators), ["dns", "network"]);
    }

    #[test]
    fn nodes_cordoned_by_hand_and_under_pressure_are_found() {
        let node = |name: &str, is_cordoned, is_updating, pressures| UpgradeNode {
            name: name.to_owned(),
            is_worker: true,
            drain_started: Some(START).filter(|_| is_cordoned),
            is_updating,
            pressures,
            ..UpgradeNode::default()
        };
        let nodes = [
            node("well", false, false, vec![]),
            node("updating", true, true, vec![]),
            node("cordoned", true, false, vec![]),
            node("full", false, false, vec!["memory", "disk"]),
        ];
        let findings = check_nodes(nodes.iter());
        let expected = [
            HealthFinding::Cordoned(vec!["cordoned".to_owned()]),
            HealthFinding::Pressure(vec![
                ("full".to_owned(), "disk"),
                ("full".to_owned(), "memory"),
            ]),
        ];
        assert_eq!(findings, expected);
        let mut master = node("master", true, false, vec![]);
        master.is_worker = false;
        assert_eq!(check_nodes([master].iter()), []);
    }

    #[test]
    fn budgets_of_users_that_block_every_drain_are_found() {
        for (namespace, expected) in [
            ("shop", true),
            ("openshift-logging", true),
            ("openshift-etcd", false),
            ("openshift-logging-2", false),
            ("openshift", true),
        ] {
            assert_eq!(is_users_namespace(namespace), expected, "{namespace}");
        }
        for (spec, expected) in [
            (json!({ "maxUnavailable": 0 }), true),
            (json!({ "maxUnavailable": "0%" }), true),
            (json!({ "minAvailable": "100%" }), true),
            (json!({ "minAvailable": 100 }), false),
            (json!({ "maxUnavailable": 1 }), false),
            (json!({ "maxUnavailable": "10%" }), false),
            (json!({}), false),
        ] {
            assert_eq!(blocks_drains(&json!({ "spec": spec })), expected, "{spec}");
        }
        assert!(reports_budgets(
            "a 1\ndeployment_validation_operator_pdb_min_available{a=\"b\"} 1\n"
        ));
        let help = "# HELP deployment_validation_operator_pdb_min_available text\na 1\n";
        assert!(!reports_budgets(help));
    }

    #[test]
    fn each_reason_is_known() {
        let all = [
            HealthFinding::CriticalAlerts(vec![]),
            HealthFinding::AlertsUnknown(String::new()),
            HealthFinding::DegradedOperators(vec![]),
            HealthFinding::OperatorsUnknown(String::new()),
            HealthFinding::NoMachinePool(String::new()),
            HealthFinding::Cordoned(vec![]),
            HealthFinding::Pressure(vec![]),
            HealthFinding::BlockingBudgets(vec![]),
            HealthFinding::BudgetsUnknown(String::new()),
            HealthFinding::ReportedBudgets,
            HealthFinding::ValidationUnknown(String::new()),
        ];
        let reasons: Vec<&str> = all.iter().map(HealthFinding::reason).collect();
        assert_eq!(reasons, HealthFinding::REASONS);
        assert_eq!(all.iter().filter(|finding| finding.holds()).count(), 4);
    }
}
