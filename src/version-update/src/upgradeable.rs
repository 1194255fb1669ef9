//! What speaks against an update to another minor release: values in, values out.

use std::collections::{BTreeMap, BTreeSet};

use api::ConditionStatus;
use api::condition;
use api::config::{ClusterConditionType, ClusterOperatorStatus, ClusterVersionSpec};
use release::Version;
use release::update_graph::{Offers, RiskRule, UpdateRisk};

use crate::{risk, validation};

/// Namespace and name of the ConfigMap in which a release asks administrators for something.
pub const GATES: (&str, &str) = ("openshift-config-managed", "admin-gates");

/// Namespace and name of the ConfigMap in which administrators acknowledge that.
pub const ACKS: (&str, &str) = ("openshift-config", "admin-acks");

/// Page of a reason whose text names none.
const PAGE: &str = "https://docs.redhat.com/en/documentation/openshift_container_platform";

/// A reason against updates to another minor release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeRisk {
    pub name: String,
    /// What it is, for people.
    pub message: String,
}

/// Data of a ConfigMap; none where there is none.
pub type MapData = Option<BTreeMap<String, String>>;

/// What of the cluster speaks against updates.
#[derive(Debug, Clone, Default)]
pub struct UpgradeInputs {
    /// Reports of operators, by name.
    pub operators: BTreeMap<String, ClusterOperatorStatus>,
    /// Whether the release has operators, so that an empty list is a missing one.
    pub has_operators: bool,
    /// What the release asks for.
    pub gates: MapData,
    pub acks: MapData,
}

/// All reasons, in the order in which they are reported.
///
/// Shape: `current` is the version that is applied, and `deletions` are objects whose removal is
/// not verified. Source: `docs/reference/cvo.md`, "Upgradeable risks".
pub fn risks(
    inputs: &UpgradeInputs,
    spec: &ClusterVersionSpec,
    current: &str,
    is_progressing: bool,
    deletions: &BTreeSet<String>,
) -> Vec<UpgradeRisk> {
    let risk = |name: &str, message: &str| UpgradeRisk {
        name: name.to_owned(),
        message: message.to_owned(),
    };
    let mut risks = Vec::new();
    if is_progressing {
        risks.push(risk(
            "ClusterVersionUpdating",
            "An update is already in progress and the details are in the Progressing condition.",
        ));
    }
    if spec.overrides.iter().any(|one| one.unmanaged) {
        risks.push(risk(
            "ClusterVersionOverrides",
            "Disabling ownership via cluster version overrides prevents updates between minor or \
             major versions. Please remove overrides before requesting a minor or major version \
             update.",
        ));
    }
    if !deletions.is_empty() {
        let names: Vec<&str> = deletions.iter().map(String::as_str).collect();
        let text = format!(
            "Cluster minor or major version upgrades are not allowed while resource deletions are \
             in progress; resources={}",
            names.join(",")
        );
        risks.push(risk("ResourceDeletionInProgress", &text));
    }
    let version = current.parse::<Version>().ok();
    risks.extend(admin_risks(inputs, version.as_ref()));
    if inputs.has_operators && inputs.operators.is_empty() {
        risks.push(risk(
            "ClusterOperatorUpgradeableUnknown",
            "Failed to list ClusterOperators: the release has some, and the cluster has none",
        ));
    }
    let operators = inputs.operators.iter();
    let opinions = operators.filter_map(|(name, status)| {
        let opinion = condition::find(&status.conditions, &ClusterConditionType::Upgradeable)?;
        let is_against = opinion.status == ConditionStatus::False;
        let counts = is_against && is_about(status, version.as_ref());
        counts.then(|| UpgradeRisk {
            name: format!("ClusterOperatorUpgradeable-{name}"),
            message: opinion.message.clone(),
        })
    });
    risks.extend(opinions);
    risks
}

/// Whether an operator's opinion is about the release that is applied: one that is still at another
/// minor release speaks about updates of that one.
fn is_about(status: &ClusterOperatorStatus, current: Option<&Version>) -> bool {
    let own = status.versions.iter().find(|one| one.name == "operator");
    let own = own.and_then(|own| own.version.parse::<Version>().ok());
    match (own, current) {
        (Some(own), Some(current)) => own.minor() == current.minor(),
        _ => true,
    }
}

fn admin_risks(inputs: &UpgradeInputs, current: Option<&Version>) -> Vec<UpgradeRisk> {
    let missing = |(namespace, name): (&str, &str)| {
        vec![UpgradeRisk {
            name: "AdminAckUnknown".to_owned(),
            message: format!(
                "Failed to retrieve ConfigMap {name} from namespace {namespace}: it does not exist"
            ),
        }]
    };
    let Some(gates) = &inputs.gates else {
        return missing(GATES);
    };
    let Some(acks) = &inputs.acks else {
        return missing(ACKS);
    };
    let gates = gates.iter().filter_map(|(gate, text)| {
        let message = match release_of(gate) {
            None => format!(
                "admin-gates configmap gate {gate:?} is invalid: it does not begin with \
                 ack-<major>.<minor>-"
            ),
            Some(minor) if current.map(Version::minor) != Some(minor) => return None,
            Some(_) if acks.get(gate).is_some_and(|ack| ack == "true") => return None,
            Some(_) if text.is_empty() => {
                format!("admin-gates configmap gate {gate} must contain a non-empty value.")
            }
            Some(_) => text.clone(),
        };
        Some(UpgradeRisk {
            name: format!("AdminAck-{gate}"),
            message,
        })
    });
    gates.collect()
}

/// The minor release that a gate is for: `ack-4.16-…`.
fn release_of(gate: &str) -> Option<(u64, u64)> {
    let (release, rest) = gate.strip_prefix("ack-")?.split_once('-')?;
    let (major, minor) = release.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let is_gate = ["4", "5"].contains(&major) && is_number(minor);
    if !is_gate || rest.is_empty() || rest.starts_with('-') {
        return None;
    }
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Reason and message of the condition; none where nothing speaks against updates.
pub fn condition(risks: &[UpgradeRisk]) -> Option<(String, String)> {
    match risks {
        [] => None,
        [risk] => {
            let reason = if risk::is_reason(&risk.name) {
                risk.name.clone()
            } else {
                "RiskNameNotCompatibleWithReasonProperty".to_owned()
            };
            Some((reason, risk.message.clone()))
        }
        _ => {
            let all: Vec<&str> = risks.iter().map(|risk| risk.message.as_str()).collect();
            let text = format!(
                "Cluster should not be upgraded between minor or major versions for multiple \
                 reasons:\n* {}",
                all.join("\n* ")
            );
            Some(("MultipleReasons".to_owned(), text))
        }
    }
}

/// Adds reasons as risks to the updates that lead to a later minor or major release than `current`.
/// Each update is one if that is no version.
///
/// Source: `docs/reference/cvo.md`, "Risks".
pub fn join(offers: &mut Offers, risks: &[UpgradeRisk], current: &str) {
    let current = current.parse::<Version>().ok();
    let risks: Vec<UpdateRisk> = risks.iter().filter_map(update_risk).collect();
    for offer in &mut offers.offers {
        let is_step = current
            .as_ref()
            .is_none_or(|current| offer.version.minor() > current.minor());
        if is_step {
            offer.risks.extend(risks.iter().cloned());
        }
    }
}

/// A reason as the risk of an update; none where its name cannot be one of a risk.
fn update_risk(reason: &UpgradeRisk) -> Option<UpdateRisk> {
    let UpgradeRisk { name, message } = reason;
    let message = match message.as_str() {
        // The definition wants a text.
        "" => format!("{name} has no message."),
        text => text.to_owned(),
    };
    risk::is_name(name).then(|| UpdateRisk {
        url: page(&message).unwrap_or(PAGE).to_owned(),
        name: name.clone(),
        rules: vec![RiskRule::Always],
        message,
    })
}

/// The first page that a text names.
fn page(text: &str) -> Option<&str> {
    let start = text.find("https://")?;
    let rest = text.get(start..)?;
    let page = rest.split(char::is_whitespace).next()?;
    let page = page.trim_end_matches(['.', ',', ';', ':', ')', '"', '\'']);
    validation::is_url(page).then_some(page)
}

#[cfg(test)]
mod tests;
