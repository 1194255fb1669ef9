//! Whether a cluster is well enough: what is found wrong with it.
//!
//! - [`alerts`]: which alerts fire

pub mod alerts;

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperatorStatus};
use serde_json::Value;

use crate::node_view::{PoolProgress, UpgradeNode};

/// Something that is wrong with a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthFinding {
    /// These alerts fire.
    CriticalAlerts(Vec<String>),
    /// Which alerts fire cannot be read.
    AlertsUnknown(String),
    /// These operators are degraded or not available.
    DegradedOperators(Vec<String>),
    /// How operators are cannot be read.
    OperatorsUnknown(String),
    /// Capacity is to be reserved, and there is no pool for it.
    NoMachinePool(String),
    /// These nodes are cordoned, and not by an update.
    Cordoned(Vec<String>),
    /// How nodes are cannot be read.
    NodesUnknown(String),
    /// These nodes have too little of something.
    Pressure(Vec<(String, Vec<&'static str>)>),
    /// These budgets block every drain: namespace and name.
    BlockingBudgets(Vec<(String, String)>),
    /// Which budgets there are cannot be read.
    BudgetsUnknown(String),
    /// The validation operator reports budgets that block drains.
    ReportedBudgets,
    /// The validation operator does not respond.
    ValidationUnknown(String),
}

impl HealthFinding {
    /// All label values of `reason`.
    pub const REASONS: [&str; 12] = [
        "critical_alerts_firing",
        "healthcheck_query_failed",
        "cluster_operators_degraded",
        "cluster_operator_status_failed",
        "default_worker_machinepool_not_found",
        "cluster_node_manually_cordoned",
        "cluster_node_query_failed",
        "cluster_node_taint_unschedulable",
        "cluster_invalid_pdb_configuration",
        "pdb_query_failed",
        "cluster_invalid_pdb",
        "dvo_metrics_query_failed",
    ];

    pub const fn reason(&self) -> &'static str {
        match self {
            Self::CriticalAlerts(_) => "critical_alerts_firing",
            Self::AlertsUnknown(_) => "healthcheck_query_failed",
            Self::DegradedOperators(_) => "cluster_operators_degraded",
            Self::OperatorsUnknown(_) => "cluster_operator_status_failed",
            Self::NoMachinePool(_) => "default_worker_machinepool_not_found",
            Self::Cordoned(_) => "cluster_node_manually_cordoned",
            Self::NodesUnknown(_) => "cluster_node_query_failed",
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
            | Self::NodesUnknown(_)
            | Self::Pressure(_)
            | Self::BlockingBudgets(_)
            | Self::BudgetsUnknown(_)
            | Self::ReportedBudgets
            | Self::ValidationUnknown(_) => false,
        }
    }

    /// What upstream calls the check that failed.
    fn failed_check(&self) -> String {
        match self {
            Self::CriticalAlerts(_) | Self::AlertsUnknown(_) => {
                "CriticalAlertsHealthcheckFailed".to_owned()
            }
            Self::DegradedOperators(_) | Self::OperatorsUnknown(_) => {
                "ClusterOperatorsHealthcheckFailed".to_owned()
            }
            Self::NoMachinePool(_) => "CapacityReservationHealthcheckFailed".to_owned(),
            Self::Cordoned(names) => {
                format!("NodeUnschedulableHealthcheckFailed:({})", names.join(","))
            }
            Self::NodesUnknown(_) => "NodeUnschedulableHealthcheckFailed".to_owned(),
            Self::Pressure(nodes) => {
                let names: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
                format!(
                    "NodeUnschedulableTaintHealthcheckFailed:({})",
                    names.join(",")
                )
            }
            Self::BlockingBudgets(_)
            | Self::BudgetsUnknown(_)
            | Self::ReportedBudgets
            | Self::ValidationUnknown(_) => "PDBHealthcheckFailed".to_owned(),
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
            Self::NodesUnknown(why) => format!("cannot tell how nodes are: {why}"),
            Self::Pressure(nodes) => {
                let nodes: Vec<String> = nodes
                    .iter()
                    .map(|(node, what)| format!("{node} ({})", what.join(", ")))
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

/// What findings say, in one line.
pub fn texts(findings: &[HealthFinding]) -> String {
    let texts: Vec<String> = findings.iter().map(HealthFinding::text).collect();
    texts.join("; ")
}

/// The same for an announcement, after the names of the checks that failed.
pub fn announcement(findings: &[HealthFinding]) -> String {
    let mut checks: Vec<String> = findings.iter().map(HealthFinding::failed_check).collect();
    checks.dedup();
    format!("{}: {}", checks.join(","), texts(findings))
}

/// What is wrong with operators: degraded, or not available. Where there is none, that is
/// unknown.
pub fn check_operators<'a>(
    operators: impl Iterator<Item = (&'a str, &'a ClusterOperatorStatus)>,
) -> Option<HealthFinding> {
    let mut operators = operators.peekable();
    if operators.peek().is_none() {
        let why = "there is no ClusterOperator".to_owned();
        return Some(HealthFinding::OperatorsUnknown(why));
    }
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
    (!names.is_empty()).then_some(HealthFinding::DegradedOperators(names))
}

/// What is wrong with nodes: cordoned by hand, or under pressure. Where there is none, that is
/// unknown.
pub fn check_nodes<'a>(
    nodes: impl Iterator<Item = &'a UpgradeNode>,
    pools: &[&PoolProgress],
) -> Vec<HealthFinding> {
    let (mut cordoned, mut pressure) = (Vec::new(), Vec::new());
    let mut nodes = nodes.peekable();
    if nodes.peek().is_none() {
        let why = "there is no Node".to_owned();
        return vec![HealthFinding::NodesUnknown(why)];
    }
    for node in nodes {
        if node.is_cordoned_by_hand && node.is_worker(pools.iter().copied()) {
            cordoned.push(node.name.clone());
        }
        if !node.pressures.is_empty() {
            pressure.push((node.name.clone(), node.pressures.clone()));
        }
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
    use api::machineconfiguration::{MachineConfigPool, label};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::fixture::START;

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
        let found = |number: usize| {
            let operators = operators.iter().take(number);
            check_operators(operators.map(|(name, status)| (*name, status)))
        };
        let names = ["dns", "network"].map(ToOwned::to_owned).to_vec();
        assert_eq!(found(4), Some(HealthFinding::DegradedOperators(names)));
        assert_eq!(found(2), None);
        let unknown = HealthFinding::OperatorsUnknown("there is no ClusterOperator".to_owned());
        assert_eq!(found(0), Some(unknown));
    }

    #[test]
    fn nodes_cordoned_by_hand_and_under_pressure_are_found() {
        let node = |name: &str, is_cordoned, is_cordoned_by_hand, pressures| UpgradeNode {
            name: name.to_owned(),
            labels: [(label::WORKER.to_owned(), String::new())].into(),
            is_cordoned,
            is_cordoned_by_hand,
            pressures,
            ..UpgradeNode::default()
        };
        let nodes = [
            node("well", false, false, vec![]),
            node("updating", true, false, vec![]),
            node("cordoned", true, true, vec![]),
            node("full", false, false, vec!["memory", "disk"]),
        ];
        let pool: MachineConfigPool = serde_json::from_value(json!({
            "metadata": { "name": "worker" },
            "spec": { "nodeSelector": { "matchLabels": { (label::WORKER): "" } } }
        }))
        .unwrap();
        let pool = PoolProgress::parse(pool);
        let findings = check_nodes(nodes.iter(), &[&pool]);
        let expected = [
            HealthFinding::Cordoned(vec!["cordoned".to_owned()]),
            HealthFinding::Pressure(vec![("full".to_owned(), vec!["memory", "disk"])]),
        ];
        assert_eq!(findings, expected);
        assert_eq!(
            findings[1].text(),
            "nodes under pressure: full (memory, disk)"
        );
        let unknown = HealthFinding::NodesUnknown("there is no Node".to_owned());
        assert_eq!(check_nodes([].iter(), &[&pool]), [unknown]);
        let mut infra = node("infra", true, true, vec![]);
        let role = "node-role.kubernetes.io/infra".to_owned();
        infra.labels.insert(role, String::new());
        assert_eq!(check_nodes([infra].iter(), &[&pool]), []);
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
            HealthFinding::NodesUnknown(String::new()),
            HealthFinding::Pressure(vec![]),
            HealthFinding::BlockingBudgets(vec![]),
            HealthFinding::BudgetsUnknown(String::new()),
            HealthFinding::ReportedBudgets,
            HealthFinding::ValidationUnknown(String::new()),
        ];
        let reasons: Vec<&str> = all.iter().map(HealthFinding::reason).collect();
        assert_eq!(reasons, HealthFinding::REASONS);
        let names = || vec!["a".to_owned(), "b".to_owned()];
        let found = [
            HealthFinding::CriticalAlerts(vec!["EtcdDown".to_owned()]),
            HealthFinding::Cordoned(names()),
            HealthFinding::ReportedBudgets,
            HealthFinding::BudgetsUnknown("403".to_owned()),
        ];
        let expected = "CriticalAlertsHealthcheckFailed,\
                        NodeUnschedulableHealthcheckFailed:(a,b),PDBHealthcheckFailed: critical \
                        alert(s) firing: EtcdDown; nodes cordoned by hand: a, b; the validation \
                        operator reports PodDisruptionBudgets that block drains; cannot tell which \
                        budgets there are: 403";
        assert_eq!(announcement(&found), expected);
        assert_eq!(all.iter().filter(|finding| finding.holds()).count(), 4);
    }
}
