//! What speaks against a requested release: values in, values out.

use std::collections::BTreeSet;

use api::ConditionStatus;
use api::config::{
    ClusterConditionType, ClusterVersion, ClusterVersionStatus, ConditionalUpdate, HistoryState,
    RecommendationType, Release,
};
use release::metadata::{self, ROLLBACK_FROM};
use release::pull_spec::is_same_image;
use release::{METADATA_FILE, Version};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub reason: String,
    pub message: String,
    /// Whether the release is not applied unless it is forced.
    pub is_blocking: bool,
}

const ROLLBACK: &str = "ClusterVersionRollback";
const GIANT_HOP: &str = "ClusterVersionGiantHop";
const UPGRADEABLE: &str = "ClusterVersionUpgradeable";
const SIGNATURES: &str = "ClusterVersionImageSignatures";
const RECOMMENDED: &str = "ClusterVersionRecommendedUpdate";

/// An image of a release whose policies ask for a signature that it lacks where nodes pull it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedComponent {
    /// Its name in the release.
    pub name: String,
    pub why: String,
}

/// Images that are named in full; of the others there are the names.
const NAMED: usize = 3;

/// What images without a signature mean: once the release's policies are applied, nodes do not pull
/// them. None where all are signed.
///
/// Source: `docs/reference/cvo.md`, "Preconditions".
pub fn unsigned(images: &[UnsignedComponent]) -> Option<Finding> {
    if images.is_empty() {
        return None;
    }
    let named = images.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|image| format!("{}: {}", image.name, image.why))
        .collect();
    let others = images.iter().skip(NAMED).map(|image| image.name.as_str());
    let others: Vec<&str> = others.collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; and so of {}", others.join(", "))
    };
    let message = format!(
        "The release's own ClusterImagePolicies ask for signatures, and nodes would not pull {} of \
         its images: {}{others}. Mirror the release with its signatures, as slipway release mirror \
         does.",
        images.len(),
        named.join("; "),
    );
    Some(blocking(SIGNATURES, "ImagesUnsigned", message))
}

/// A policy of the release, or what it takes to follow it, cannot be read: nothing is known of its
/// images.
pub fn unreadable_policy(why: &str) -> Finding {
    let message = format!("Signatures of the release's images cannot be verified: {why}");
    blocking(SIGNATURES, "PolicyUnreadable", message)
}

/// All that speaks against `target`, by the spec and status of the ClusterVersion. `sources` are
/// the releases from which the target's metadata allows a return over a minor version, or why the
/// list cannot be read.
///
/// Source: `docs/reference/cvo.md`, "Preconditions".
pub fn check(
    object: &ClusterVersion,
    target: &Release,
    sources: &Result<BTreeSet<Version>, metadata::Error>,
) -> Vec<Finding> {
    let status = object.status.clone().unwrap_or_default();
    let wanted = match target.version.parse::<Version>() {
        Ok(version) => version,
        Err(error) => {
            let message = display::Chain(&error).to_string();
            return vec![blocking(ROLLBACK, "InvalidDesiredVersion", message)];
        }
    };
    let mut findings = Vec::new();
    match status.desired.version.parse::<Version>() {
        Ok(current) => {
            findings.extend(rollback(&status, target, sources, &wanted, &current));
            findings.extend(giant_hop(&wanted, &current));
            findings.extend(upgradeable(object, &status, &wanted, &current));
        }
        Err(error) => {
            let message = display::Chain(&error).to_string();
            findings.push(warning(ROLLBACK, "InvalidCurrentVersion", message));
        }
    }
    findings.extend(recommended(object, &status, target));
    findings
}

/// All findings in one text; none where there is none. `is_forced` says that blocking ones were
/// overridden.
pub fn summary(findings: &[Finding], is_forced: bool) -> Option<String> {
    let one = |finding: &Finding| {
        let Finding {
            check,
            reason,
            message,
            ..
        } = finding;
        format!("Precondition {check:?} failed because of {reason:?}: {message}")
    };
    let text = match findings {
        [] => return None,
        [finding] => one(finding),
        _ => {
            let all: Vec<String> = findings.iter().map(one).collect();
            format!(
                "Multiple precondition checks failed:\n* {}",
                all.join("\n* ")
            )
        }
    };
    let blocks = findings.iter().any(|finding| finding.is_blocking);
    Some(if is_forced && blocks {
        format!("Forced through blocking failures: {text}")
    } else {
        text
    })
}

fn blocking(check: &'static str, reason: &str, message: String) -> Finding {
    Finding {
        check,
        reason: reason.to_owned(),
        message,
        is_blocking: true,
    }
}

fn warning(check: &'static str, reason: &str, message: String) -> Finding {
    Finding {
        is_blocking: false,
        ..blocking(check, reason, message)
    }
}

fn rollback(
    status: &ClusterVersionStatus,
    target: &Release,
    sources: &Result<BTreeSet<Version>, metadata::Error>,
    wanted: &Version,
    current: &Version,
) -> Option<Finding> {
    if wanted >= current {
        return None;
    }
    let desired = &status.desired;
    let previous = status
        .history
        .iter()
        .find(|entry| {
            entry.version != desired.version || !is_same_image(&entry.image, &desired.image)
        })
        .filter(|entry| entry.version.parse::<Version>().is_ok());
    let message = match previous {
        None => format!(
            "{wanted} is less than the current target {current}, and the cluster has no previous \
             Semantic Version"
        ),
        Some(entry)
            if entry.version != target.version || !is_same_image(&entry.image, &target.image) =>
        {
            format!(
                "{wanted} is less than the current target {current}, and the only supported rollback \
             is to the cluster's previous version {} ({})",
                entry.version, entry.image
            )
        }
        Some(_) if wanted.minor() == current.minor() => return None,
        Some(_) => {
            let is_one_major = wanted.minor().0 == current.minor().0;
            let why_not = match sources {
                Ok(sources) if is_one_major && sources.contains(current) => return None,
                Ok(sources) if sources.is_empty() || !is_one_major => String::new(),
                Ok(_) => format!(" ({ROLLBACK_FROM} of {wanted} does not list {current})"),
                Err(why) => {
                    let why = display::Chain(why);
                    format!(" ({wanted}: {METADATA_FILE}: {why})")
                }
            };
            format!(
                "{wanted} is less than the current target {current} and matches the cluster's \
                 previous version, but rollbacks that change major or minor versions are not \
                 recommended{why_not}"
            )
        }
    };
    Some(blocking(ROLLBACK, "LowDesiredVersion", message))
}

fn giant_hop(wanted: &Version, current: &Version) -> Option<Finding> {
    let ((major, minor), (to_major, to_minor)) = (current.minor(), wanted.minor());
    if to_major > major {
        let is_next = (major, to_major, to_minor) == (4, 5, 0);
        let message = format!(
            "{wanted} has a larger major version than the current target {current}, and only \
             updates within the current major version are supported"
        );
        return (!is_next).then(|| blocking(GIANT_HOP, "MajorVersionUpdate", message));
    }
    (to_major == major && to_minor > minor + 1).then(|| {
        let message = format!(
            "{wanted} is more than one minor version beyond the current target {current}, and \
             only updates to the next minor version are supported"
        );
        blocking(GIANT_HOP, "MultipleMinorVersionsUpdate", message)
    })
}

fn upgradeable(
    object: &ClusterVersion,
    status: &ClusterVersionStatus,
    wanted: &Version,
    current: &Version,
) -> Option<Finding> {
    let condition = status.condition(&ClusterConditionType::Upgradeable)?;
    let message = match condition.status {
        ConditionStatus::True => return None,
        ConditionStatus::False => condition.message.clone(),
        ConditionStatus::Unknown => format!("Upgradeable=Unknown: {}", condition.message),
    };
    if wanted > current && wanted.minor() != current.minor() {
        return Some(blocking(UPGRADEABLE, &condition.reason, message));
    }
    if object.spec.overrides.iter().any(|one| one.unmanaged) {
        let message = format!(
            "Retarget from {current} to {wanted} is not blocked by ClusterVersionOverridesSet. \
             {message}"
        );
        let reason = "ClusterVersionOverridesSet";
        return Some(warning(UPGRADEABLE, reason, message));
    }
    // An update over a minor release is under way, and this one goes beside it.
    let completed = status
        .history
        .iter()
        .find(|entry| entry.state == HistoryState::Completed)?;
    let is_head = status.history.first() == Some(completed);
    let from: Version = completed.version.parse().ok()?;
    let (of, to) = (from.minor(), current.minor());
    if is_head || of == to {
        return None;
    }
    let step = if of.0 == to.0 { "Minor" } else { "Major" };
    let message = format!(
        "Retarget to {wanted} while a {} version update from {from} to {current} is in progress",
        step.to_lowercase()
    );
    let reason = format!("{step}VersionClusterUpdateInProgress");
    Some(warning(UPGRADEABLE, &reason, message))
}

fn recommended(
    object: &ClusterVersion,
    status: &ClusterVersionStatus,
    target: &Release,
) -> Option<Finding> {
    let current = &status.desired.version;
    let wanted = &target.version;
    let mut available = status.available_updates.iter().flatten();
    if available.any(|release| is_same_image(&release.image, &target.image)) {
        return None;
    }
    let mut conditional = status.conditional_updates.iter();
    let is_target =
        |update: &&ConditionalUpdate| is_same_image(&update.release.image, &target.image);
    if let Some(update) = conditional.find(is_target) {
        let condition = api::condition::find(&update.conditions, &RecommendationType::Recommended);
        let Some(condition) = condition else {
            let message = format!("Update from {current} to {wanted} has no condition Recommended");
            return Some(warning(RECOMMENDED, "UnknownConditionType", message));
        };
        let (reason, text) = (&condition.reason, &condition.message);
        let message = match condition.status {
            ConditionStatus::True => return None,
            ConditionStatus::False => {
                format!("Update from {current} to {wanted} is not recommended:\n\n{text}")
            }
            ConditionStatus::Unknown => format!(
                "Update from {current} to {wanted} is Recommended=Unknown: {reason}: {text}"
            ),
        };
        return Some(warning(RECOMMENDED, reason, message));
    }
    if object.spec.channel.is_empty() {
        let message = format!(
            "Configured channel is unset, so the recommended status of updating from {current} \
             to {wanted} is unknown."
        );
        return Some(warning(RECOMMENDED, "NoChannel", message));
    }
    let retrieved = status.condition(&ClusterConditionType::RetrievedUpdates);
    let seen = retrieved.map_or_else(
        || "No RetrievedUpdates".to_owned(),
        |one| format!("RetrievedUpdates={} ({})", one.status, one.reason),
    );
    let message = if retrieved.is_some_and(|one| one.status == ConditionStatus::True) {
        format!(
            "{seen}, so the update from {current} to {wanted} is probably neither recommended nor \
             supported."
        )
    } else {
        format!(
            "{seen}, so the recommended status of updating from {current} to {wanted} is unknown."
        )
    };
    Some(warning(RECOMMENDED, "UnknownUpdate", message))
}

#[cfg(test)]
mod tests;
