//! Channel, accepted risks, and the way back.

use release::Version;
use release::metadata::ROLLBACK_FROM;
use serde_json::{Value, json};

use super::{UpgradeDecision, patch};
use crate::decide::object::text;
use crate::decide::upgrade::version::VersionView;

/// `channel`: decides whether it is changed.
///
/// # Errors
/// The refusal.
pub(crate) fn channel(
    version: VersionView<'_>,
    channel: &str,
    is_explicit: bool,
) -> Result<UpgradeDecision, String> {
    let present = version.0.text("/spec/channel");
    if present == channel {
        let message = if channel.is_empty() {
            "info: Cluster channel is already clear (no change)\n".to_owned()
        } else {
            format!("info: Cluster is already in {channel} (no change)\n")
        };
        return Ok(UpgradeDecision::nothing(message));
    }
    let available = version.known_channels();
    let mut warnings = Vec::new();
    if available.is_empty() {
        if !channel.is_empty() {
            warnings.push(format!("No channels known to be compatible with the current version {:?}; unable to validate {channel:?}. Setting the update channel to {channel:?} anyway.", version.desired_version()));
        }
    } else if channel.is_empty() {
        if available.contains(&present) && !is_explicit {
            return Err("you are requesting to clear the update channel. The current channel is one of the available channels, you must pass --allow-explicit-channel to continue".to_owned());
        }
        warnings.push(format!("Clearing channel {present:?}; cluster will no longer request available update recommendations."));
    } else if !available.contains(&channel) {
        let list = available.join(", ");
        if !is_explicit {
            return Err(format!(
                "the requested channel {channel:?} is not one of the available channels ({list}), you must pass --allow-explicit-channel to continue"
            ));
        }
        warnings.push(format!("The requested channel {channel:?} is not one of the available channels ({list}). You have used --allow-explicit-channel to proceed anyway. Setting the update channel to {channel:?}."));
    }
    Ok(UpgradeDecision {
        patch: Some(json!({ "spec": { "channel": channel } })),
        message: String::new(),
        warnings,
    })
}

/// `accept`: the risks that are accepted afterwards, in their present order, new ones after them.
///
/// # Errors
/// The refusal.
pub(crate) fn accept(
    version: VersionView<'_>,
    names: &[String],
    is_replaced: bool,
    is_cleared: bool,
) -> Result<UpgradeDecision, String> {
    if is_cleared && (is_replaced || !names.is_empty()) {
        return Err("--clear is mutually exclusive with --replace and with risks".to_owned());
    }
    if !is_cleared && names.is_empty() {
        return Err("no risks are named".to_owned());
    }
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for name in names {
        match name.strip_suffix('-') {
            Some("") => return Err(format!("illegal risk {name:?}")),
            None if name.is_empty() => return Err(format!("illegal risk {name:?}")),
            Some(_) if is_replaced => {
                return Err(format!(
                    "the risk {name:?} with suffix \"-\" is not allowed with --replace"
                ));
            }
            Some(name) => removed.push(name.to_owned()),
            None => added.push(name.clone()),
        }
    }
    if let Some(both) = added.iter().find(|name| removed.contains(name)) {
        return Err(format!("found conflicting risks: {both:?} and \"{both}-\""));
    }
    let present = version.0.list("/spec/desiredUpdate/acceptRisks").iter();
    let present: Vec<String> = present.map(|risk| text(risk, "/name").to_owned()).collect();
    let mut kept: Vec<String> = if is_cleared {
        Vec::new()
    } else {
        let is_kept =
            |name: &&String| !removed.contains(name) && (!is_replaced || added.contains(name));
        present.iter().filter(is_kept).cloned().collect()
    };
    added.sort();
    added.dedup();
    kept.extend(added.into_iter().filter(|name| !present.contains(name)));
    if kept == present {
        return Ok(UpgradeDecision::nothing(
            "info: Accept risks are not changed\n".to_owned(),
        ));
    }
    let risks: Vec<Value> = kept.iter().map(|name| json!({ "name": name })).collect();
    let risks = if risks.is_empty() {
        Value::Null
    } else {
        risks.into()
    };
    Ok(UpgradeDecision {
        patch: Some(json!({ "spec": { "desiredUpdate": { "acceptRisks": risks } } })),
        message: format!("info: Accept risks are [{}]\n", kept.join(", ")),
        warnings: Vec::new(),
    })
}

/// `rollback`: to the newest release of the history that is another one. Whether that release
/// allows a return over a minor version is in its metadata: the version operator decides.
///
/// # Errors
/// The refusal.
pub(crate) fn rollback(
    version: VersionView<'_>,
    allow_minor: bool,
) -> Result<UpgradeDecision, String> {
    let desired = version.desired_version();
    let history = version.0.list("/status/history");
    let is_other = |entry: &&Value| text(entry, "/image") != version.desired_image();
    let Some(previous) = history.iter().find(is_other) else {
        return Err("no previous version found in ClusterVersion's history".to_owned());
    };
    let to = text(previous, "/version");
    let parse = |text: &str| {
        text.parse::<Version>()
            .map_err(|error| format!("cannot compare versions: {error}"))
    };
    let (from, target) = (parse(desired)?, parse(to)?);
    if target >= from {
        return Err(format!(
            "previous version {to} is not lower than the current version {desired}"
        ));
    }
    if target.minor().0 != from.minor().0 {
        return Err(format!(
            "{to} is another major release than {desired}: that is not rolled back"
        ));
    }
    let mut warnings = Vec::new();
    if target.minor() != from.minor() {
        if !allow_minor {
            return Err(format!(
                "{to} is not the same minor release as {desired}, you must pass --allow-minor to \
                 continue; the cluster refuses it unless {ROLLBACK_FROM} of {to} lists {desired}"
            ));
        }
        warnings.push(format!("The cluster refuses to return to {to} unless {ROLLBACK_FROM} in its metadata lists {desired}; the condition ReleaseAccepted says so."));
    }
    match version.condition("Progressing") {
        Some(progressing) if progressing.status == "False" => {}
        Some(progressing) => {
            return Err(format!(
                "unable to rollback while an update is in progress: {}",
                progressing.message
            ));
        }
        None => return Err("ClusterVersion has no condition Progressing".to_owned()),
    }
    let update = json!({
        "architecture": "", "version": to, "image": text(previous, "/image"), "force": false
    });
    Ok(UpgradeDecision {
        patch: Some(patch(version, update)),
        message: format!("Requested rollback from {desired} to {to}\n"),
        warnings,
    })
}
