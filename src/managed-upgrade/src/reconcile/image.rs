//! Upgrades by image: the version that an image says it is becomes that of the UpgradeConfig.

use release::Version;

use super::{Error, Pass, UpgradeOperator, VALID};
use crate::history::StepOutcome;
use crate::monitoring;
use crate::release_image::ImagePlace;
use crate::validation::{self, ConfigVerdict, InvalidUpgrade};

/// The version that an image says it is, judged.
pub(super) async fn read_version(
    place: &ImagePlace,
    current: &Version,
) -> Result<Version, InvalidUpgrade> {
    let label = monitoring::read_release_label(place).await;
    let label = label.map_err(validation::unread_image)?;
    validation::of_image(label.as_deref(), current)
}

impl Pass {
    /// Whether this image was read, and is this version.
    pub(super) fn has_read_image(&self) -> bool {
        let said = validation::valid_message(&self.upgrade.spec.desired);
        let known = self.entry.condition(VALID);
        known.is_some_and(|known| {
            known.status == api::ConditionStatus::True && known.message == said
        })
    }
}

impl UpgradeOperator {
    /// Writes the version of the image into the UpgradeConfig, unless it is there. Whether it was
    /// not: the watch delivers the upgrade to that version.
    pub(super) async fn adopt_version(
        &self,
        pass: &Pass,
        version: &Version,
    ) -> Result<bool, Error> {
        let version = version.to_string();
        if pass.upgrade.spec.desired.version == version {
            return Ok(false);
        }
        let latest = self.requests.upgrade().await?;
        let latest = latest.filter(|latest| {
            latest.spec == pass.upgrade.spec && latest.metadata.uid == pass.upgrade.metadata.uid
        });
        // Another one is judged with the next pass.
        if let Some(latest) = latest {
            self.requests.set_desired_version(&latest, &version).await?;
            let image = &pass.upgrade.spec.desired.image;
            tracing::info!(image, version, "the image says which version it is");
        }
        Ok(true)
    }

    /// What holds the commencement by an image: one that took the place of the one that was read.
    pub(super) async fn check_image(&self, pass: &mut Pass) -> Result<Option<StepOutcome>, String> {
        let desired = pass.upgrade.spec.desired.clone();
        if desired.image.is_empty() || pass.has_read_image() {
            return Ok(None);
        }
        let (accepted, verifies_graph) = (&pass.config.accepted_risks, pass.config.verifies_graph);
        let judged = validation::judge(&pass.upgrade.spec, &pass.version, accepted, verifies_graph);
        let hold = |invalid: InvalidUpgrade| Ok(Some(StepOutcome::Hold(invalid.to_string())));
        let (current, place) = match judged {
            Ok(ConfigVerdict::AskImage { current, place }) => (current, place),
            Ok(ConfigVerdict::Valid | ConfigVerdict::AskGraph { .. }) => return Ok(None),
            Err(invalid) => return hold(invalid),
        };
        let version = match read_version(&place, &current).await {
            Ok(version) => version,
            Err(invalid) => return hold(invalid),
        };
        let adopted = self.adopt_version(pass, &version).await;
        if adopted.map_err(|error| chassis::report::Chain(&error).to_string())? {
            return Ok(Some(StepOutcome::Waiting));
        }
        pass.note(VALID, true, "Valid", &validation::valid_message(&desired));
        Ok(None)
    }
}
