//! Channel, accepted risks, and the way back.

use release::Version;
use release::metadata::ROLLBACK_FROM;
use serde_json::{Value, json};

use super::refusal::UpdateRefused;
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
) -> Result<UpgradeDecision, UpdateRefused> {
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
            return Err(UpdateRefused::ChannelCleared);
        }
        warnings.push(format!("Clearing channel {present:?}; cluster will no longer request available update recommendations."));
    } else if !available.contains(&channel) {
        if !is_explicit {
            return Err(UpdateRefused::ForeignChannel {
                channel: channel.to_owned(),
                available: available.into_iter().map(str::to_owned).collect(),
            });
        }
        let list = available.join(", ");
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
) -> Result<UpgradeDecision, UpdateRefused> {
    if is_cleared && (is_replaced || !names.is_empty()) {
        return Err(UpdateRefused::ClearWithRisks);
    }
    if !is_cleared && names.is_empty() {
        return Err(UpdateRefused::NoRisks);
    }
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for name in names.iter().cloned() {
        match name.strip_suffix('-') {
            Some("") => return Err(UpdateRefused::IllegalRisk { name }),
            None if name.is_empty() => return Err(UpdateRefused::IllegalRisk { name }),
            Some(_) if is_replaced => return Err(UpdateRefused::RemovedByReplace { name }),
            Some(name) => removed.push(name.to_owned()),
            None => added.push(name),
        }
    }
    if let Some(name) = added.iter().find(|name| removed.contains(name)) {
        let name = name.clone();
        return Err(UpdateRefused::ConflictingRisks { name });
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
) -> Result<UpgradeDecision, UpdateRefused> {
    let desired = version.desired_version();
    let history = version.0.list("/status/history");
    let is_other = |entry: &&Value| text(entry, "/image") != version.desired_image();
    let Some(previous) = history.iter().find(is_other) else {
        return Err(UpdateRefused::NoPrevious);
    };
    let (from, to) = (desired.to_owned(), text(previous, "/version").to_owned());
    let parse = |text: &str| {
        text.parse::<Version>()
            .map_err(|error| UpdateRefused::Incomparable { error })
    };
    let (current, target) = (parse(&from)?, parse(&to)?);
    if target >= current {
        return Err(UpdateRefused::NotLower { from, to });
    }
    if target.minor().0 != current.minor().0 {
        return Err(UpdateRefused::OtherMajor { from, to });
    }
    let mut warnings = Vec::new();
    if target.minor() != current.minor() {
        if !allow_minor {
            return Err(UpdateRefused::OtherMinor { from, to });
        }
        warnings.push(format!("The cluster refuses to return to {to} unless {ROLLBACK_FROM} in its metadata lists {desired}; the condition ReleaseAccepted says so."));
    }
    match version.condition("Progressing") {
        Some(progressing) if progressing.status == "False" => {}
        Some(progressing) => {
            return Err(UpdateRefused::InProgress {
                message: progressing.message.to_owned(),
            });
        }
        None => return Err(UpdateRefused::ProgressUnknown),
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
