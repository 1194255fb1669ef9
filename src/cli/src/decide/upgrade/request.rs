//! What `slipway upgrade` asks of the cluster: decided from ClusterVersion and options, without a
//! request of its own.
//!
//! - `spec`: channel, accepted risks, and the way back
//! - `refusal`: why a request is refused

mod refusal;
mod spec;

use std::str::FromStr;

use images::ImageLocation;
use release::Version;
use serde_json::{Value, json};

use self::refusal::{AdverseKind, AdverseState, UpdateRefused};
pub(crate) use self::spec::{accept, channel, rollback};
use super::version::{Caution, OfferedUpdate, VersionView};
use crate::decide::blocks::newest_first;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(crate) struct UpgradeWish {
    pub(crate) to: Option<String>,
    pub(crate) to_image: Option<String>,
    pub(crate) to_latest: bool,
    pub(crate) to_multi_arch: bool,
    pub(crate) clear: bool,
    pub(crate) force: bool,
    pub(crate) allow_explicit_upgrade: bool,
    pub(crate) allow_upgrade_with_warnings: bool,
    pub(crate) allow_not_recommended: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UpgradeDecision {
    /// Merge patch of ClusterVersion; none if nothing is to be changed.
    pub(crate) patch: Option<Value>,
    /// The message once it is done.
    pub(crate) message: String,
    pub(crate) warnings: Vec<String>,
}

impl UpgradeDecision {
    pub(crate) fn nothing(message: String) -> Self {
        Self {
            patch: None,
            message,
            warnings: Vec::new(),
        }
    }
}

/// Why a request is refused, and what was to be warned of before the refusal.
#[derive(Debug)]
pub(crate) struct UpgradeRefusal {
    pub(crate) warnings: Vec<String>,
    pub(crate) why: UpdateRefused,
}

impl From<UpdateRefused> for UpgradeRefusal {
    fn from(why: UpdateRefused) -> Self {
        Self {
            warnings: Vec::new(),
            why,
        }
    }
}

impl UpgradeWish {
    /// Whether a change is requested; else the summary is shown.
    pub(crate) fn is_any(&self) -> bool {
        self.clear
            || self.to_latest
            || self.to_multi_arch
            || self.to.is_some()
            || self.to_image.is_some()
    }

    /// What is wrong before the cluster is read: options that contradict each other, or that are
    /// no version or image.
    pub(crate) fn check(&self) -> Result<Vec<String>, UpdateRefused> {
        let targets = [self.to.is_some(), self.to_image.is_some(), self.to_latest];
        let has_target = targets.contains(&true);
        if self.clear && (has_target || self.to_multi_arch) {
            return Err(UpdateRefused::ClearWithOthers);
        }
        if self.to_multi_arch && has_target {
            return Err(UpdateRefused::MultiArchWithTarget);
        }
        if self.to.is_some() && self.to_image.is_some() {
            return Err(UpdateRefused::VersionAndImage);
        }
        if self.to_latest && (self.to.is_some() || self.to_image.is_some()) {
            return Err(UpdateRefused::LatestWithTarget);
        }
        if let Some(to) = &self.to
            && let Err(error) = to.parse::<Version>()
        {
            return Err(UpdateRefused::NoVersion { error });
        }
        let mut warnings = Vec::new();
        if let Some(image) = &self.to_image {
            check_image(image)?;
            if !image.contains('@') {
                if !self.force {
                    return Err(UpdateRefused::ByTag);
                }
                warnings.push("Using by-tag pull specs is dangerous, and while we still allow it in combination with --force for backward compatibility, it would be much safer to pass a by-digest pull spec instead".to_owned());
            }
        }
        if self.force {
            warnings.push("--force overrides cluster verification of your supplied release image and waives any update precondition failures.".to_owned());
        }
        Ok(warnings)
    }

    /// Decides what is changed.
    ///
    /// # Errors
    /// The refusal, as it is printed.
    pub(crate) fn decide(
        &self,
        version: VersionView<'_>,
    ) -> Result<UpgradeDecision, UpgradeRefusal> {
        let mut warnings = self.check()?;
        if self.clear {
            return Ok(clear(version));
        }
        let decided = if self.to_multi_arch {
            self.multi(version, &mut warnings)
        } else {
            self.update(version, &mut warnings)
        };
        match decided {
            Ok(mut decision) => {
                warnings.append(&mut decision.warnings);
                decision.warnings = warnings;
                Ok(decision)
            }
            Err(why) => Err(UpgradeRefusal { warnings, why }),
        }
    }

    fn update(
        &self,
        version: VersionView<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<UpgradeDecision, UpdateRefused> {
        if let Some(decision) = self.already(version) {
            return Ok(decision);
        }
        let target = match self.target(version, warnings)? {
            Found::Update(target) => target,
            Found::Latest(version) => {
                let message =
                    format!("info: Cluster is already at the latest available version {version}\n");
                return Ok(UpgradeDecision::nothing(message));
            }
        };
        self.guard(version, warnings)?;
        let update = json!({
            "architecture": "", "version": target.version, "image": target.image, "force": self.force
        });
        let message = if target.version.is_empty() {
            format!("Requested update to release image {}\n", target.image)
        } else {
            format!("Requested update to {}\n", target.version)
        };
        Ok(UpgradeDecision {
            patch: Some(patch(version, update)),
            message,
            warnings: Vec::new(),
        })
    }

    fn multi(
        &self,
        version: VersionView<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<UpgradeDecision, UpdateRefused> {
        if version.0.text("/status/desired/architecture") == "Multi" {
            let message = "info: Update to multi cluster architecture has already been requested\n";
            return Ok(UpgradeDecision::nothing(message.to_owned()));
        }
        self.guard(version, warnings)?;
        let update = json!({
            "architecture": "Multi", "version": version.desired_version(), "image": "", "force": self.force
        });
        Ok(UpgradeDecision {
            patch: Some(patch(version, update)),
            message: "Requested update to multi cluster architecture\n".to_owned(),
            warnings: Vec::new(),
        })
    }

    /// Nothing is to be done where the cluster is there. A request for another release stays, and
    /// is named.
    fn already(&self, version: VersionView<'_>) -> Option<UpgradeDecision> {
        let (desired, image) = (version.desired_version(), version.desired_image());
        let (message, field) = match (&self.to, &self.to_image) {
            (Some(to), _) if to == desired => (
                format!("info: Cluster is already at version {to}\n"),
                ("/version", desired),
            ),
            (_, Some(to)) if to == image => (
                format!("info: Cluster is already at {to}\n"),
                ("/image", image),
            ),
            _ => return None,
        };
        let mut decision = UpgradeDecision::nothing(message);
        if let Some(other) = requested(version, field) {
            decision.warnings.push(format!(
                "another update is requested: {other}. Use --clear to take that request back"
            ));
        }
        Some(decision)
    }

    fn target(
        &self,
        version: VersionView<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Found, UpdateRefused> {
        let (available, conditional) = (version.available(), version.conditional());
        if self.to_latest {
            let mut candidates = available.clone();
            if self.allow_not_recommended {
                candidates.extend(conditional.iter().cloned());
            }
            candidates.sort_by(|one, other| newest_first(&one.version, &other.version));
            let Some(latest) = candidates.into_iter().next() else {
                if version.is("RetrievedUpdates") {
                    return Ok(Found::Latest(version.desired_version().to_owned()));
                }
                return Err(self.none(version, &available, &conditional));
            };
            warnings.extend(not_recommended(&latest));
            return Ok(Found::Update(latest));
        }
        if let Some(found) = self.find(&available) {
            return Ok(Found::Update(found));
        }
        if let Some(found) = self.find(&conditional) {
            if !self.allow_not_recommended {
                return Err(UpdateRefused::NotRecommended {
                    version: found.version,
                    caution: found.caution.unwrap_or_else(Caution::unknown),
                });
            }
            warnings.extend(not_recommended(&found));
            return Ok(Found::Update(found));
        }
        if let Some(image) = self
            .to_image
            .as_ref()
            .filter(|_| self.allow_explicit_upgrade)
        {
            warnings.push("The requested upgrade image is not one of the available updates. You have used --allow-explicit-upgrade for the update to proceed anyway".to_owned());
            return Ok(Found::Update(OfferedUpdate {
                version: String::new(),
                image: image.clone(),
                url: String::new(),
                caution: None,
            }));
        }
        Err(self.none(version, &available, &conditional))
    }

    /// The requested update, among these: by version, image or digest. The user's text of
    /// the image is kept.
    fn find(&self, updates: &[OfferedUpdate]) -> Option<OfferedUpdate> {
        let digest = |image: &str| image.split_once('@').map(|(_, digest)| digest.to_owned());
        let is_wanted = |update: &&OfferedUpdate| match (&self.to, &self.to_image) {
            (Some(to), _) => update.version == *to,
            (None, Some(to)) => {
                update.image == *to || (digest(to).is_some() && digest(&update.image) == digest(to))
            }
            (None, None) => false,
        };
        let mut found = updates.iter().find(is_wanted)?.clone();
        if let Some(image) = &self.to_image {
            found.image.clone_from(image);
        }
        Some(found)
    }

    /// Why there is no target.
    fn none(
        &self,
        version: VersionView<'_>,
        available: &[OfferedUpdate],
        conditional: &[OfferedUpdate],
    ) -> UpdateRefused {
        if let Some(retrieved) = version
            .condition("RetrievedUpdates")
            .filter(|found| !found.is_true())
        {
            return UpdateRefused::NotRefreshed {
                reason: retrieved.reason.to_owned(),
                message: retrieved.message.to_owned(),
            };
        }
        let allow_conditional = self.allow_not_recommended;
        let version_of = |update: &OfferedUpdate| update.version.clone();
        let mut targets: Vec<String> = available.iter().map(version_of).collect();
        if allow_conditional {
            targets.extend(conditional.iter().map(version_of));
            targets.sort_by(|one, other| newest_first(one, other));
        }
        if targets.is_empty() {
            return UpdateRefused::NoUpdates { allow_conditional };
        }
        let option = if self.to_image.is_some() {
            "--allow-explicit-upgrade"
        } else {
            "--to-image"
        };
        UpdateRefused::NoTarget { targets, option }
    }

    /// States of the cluster that speak against any update, all of them.
    fn guard(
        &self,
        version: VersionView<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), UpdateRefused> {
        let failing = AdverseKind::Failing {
            version: version.desired_version().to_owned(),
        };
        let guards = [
            ("Invalid", AdverseKind::Invalid),
            ("Failing", failing),
            ("Progressing", AdverseKind::Progressing),
        ];
        let states = guards.into_iter().filter_map(|(condition, kind)| {
            let found = version.condition(condition)?;
            found.is_true().then(|| AdverseState {
                kind,
                reason: found.reason.to_owned(),
                message: found.message.to_owned(),
            })
        });
        let states: Vec<AdverseState> = states.collect();
        if states.is_empty() {
            return Ok(());
        }
        if !self.allow_upgrade_with_warnings {
            return Err(UpdateRefused::States { states });
        }
        let bypassed =
            |state: &AdverseState| format!("--allow-upgrade-with-warnings is bypassing: {state}");
        warnings.extend(states.iter().map(bypassed));
        Ok(())
    }
}

enum Found {
    Update(OfferedUpdate),
    /// There is none after this version.
    Latest(String),
}

/// What is requested, if the field at this pointer of `spec.desiredUpdate` names something else.
fn requested<'a>(version: VersionView<'a>, (pointer, desired): (&str, &str)) -> Option<&'a str> {
    let update = version.0.0.pointer("/spec/desiredUpdate")?;
    let text = |pointer: &str| crate::decide::object::text(update, pointer);
    let wanted = text(pointer);
    let is_other = if wanted.is_empty() {
        // By the other field alone.
        let (other, at) = match pointer {
            "/version" => ("/image", version.desired_image()),
            _ => ("/version", version.desired_version()),
        };
        !text(other).is_empty() && text(other) != at
    } else {
        wanted != desired
    };
    let names = [text("/version"), text("/image")];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.filter(|_| is_other)
}

fn not_recommended(update: &OfferedUpdate) -> Option<String> {
    let caution = update.caution.as_ref()?;
    Some(format!(
        "with --allow-not-recommended you have accepted the risks with {} and bypassed Recommended={} {}: {}",
        update.version, caution.recommended, caution.reason, caution.message
    ))
}

/// Why the value of `--to-image` is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageRefused {
    #[error("--to-image must be a valid image pull spec: no registry or repository specified")]
    NoRepository,
    #[error(
        "--to-image must be a valid image pull spec: you must specify an image by digest or by tag"
    )]
    NeitherDigestNorTag,
    #[error("--to-image must be a valid image pull spec: {error}")]
    NoImage {
        error: <ImageLocation as FromStr>::Err,
    },
}

/// Refuses what is no pull spec.
pub(crate) fn check_image(image: &str) -> Result<(), ImageRefused> {
    let name = image.split('@').next().unwrap_or_default();
    let parts = name.split_once('/');
    let parts = parts.filter(|(registry, rest)| !registry.is_empty() && !rest.is_empty());
    let Some((_, rest)) = parts else {
        return Err(ImageRefused::NoRepository);
    };
    if !image.contains('@') && !rest.rsplit('/').next().unwrap_or_default().contains(':') {
        return Err(ImageRefused::NeitherDigestNorTag);
    }
    match image.parse::<ImageLocation>() {
        Ok(_) => Ok(()),
        Err(error) => Err(ImageRefused::NoImage { error }),
    }
}

/// A merge patch: risks that are accepted stay accepted.
fn patch(version: VersionView<'_>, mut update: Value) -> Value {
    let risks = version.0.0.pointer("/spec/desiredUpdate/acceptRisks");
    if let (Some(risks), Some(fields)) = (risks, update.as_object_mut()) {
        fields.insert("acceptRisks".to_owned(), risks.clone());
    }
    json!({ "spec": { "desiredUpdate": update } })
}

fn clear(version: VersionView<'_>) -> UpgradeDecision {
    let spec = version.0.0.pointer("/spec/desiredUpdate");
    let Some(update) = spec.filter(|update| !update.is_null()) else {
        return UpgradeDecision::nothing("info: No update in progress\n".to_owned());
    };
    let desired = version.desired_version();
    let is_there = |key: &str, value: &str| {
        let text = crate::decide::object::text(update, key);
        text.is_empty() || text == value
    };
    let is_at = is_there("/version", desired) && is_there("/image", version.desired_image());
    let message = if is_at {
        format!("Cleared the update field, still at {desired}\n")
    } else {
        let target = crate::decide::object::text(update, "/version");
        let target = if target.is_empty() {
            crate::decide::object::text(update, "/image")
        } else {
            target
        };
        format!("Cancelled requested upgrade to {target}\n")
    };
    let rest = match update.get("acceptRisks") {
        Some(risks) => json!({
            "acceptRisks": risks, "architecture": null, "force": null, "image": null, "version": null
        }),
        None => Value::Null,
    };
    UpgradeDecision {
        patch: Some(json!({ "spec": { "desiredUpdate": rest } })),
        message,
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
