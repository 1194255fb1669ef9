//! Upgrades by image: the version that an image says it is becomes that of the UpgradeConfig.

use std::time::Duration;

use chassis::report::Chain;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores};
use release::{PullSpec, RELEASE_LABEL, Version};

use super::{Error, Pass, UpgradeOperator, VALID};
use upgrade_plan::history::StepOutcome;
use upgrade_plan::validation::{self, ConfigVerdict, InvalidUpgrade};

/// How long a registry may be silent.
const REGISTRY: Duration = Duration::from_secs(20);

/// The version that an image says it is, judged.
pub(super) async fn read_version(
    image: &PullSpec,
    current: &Version,
) -> Result<Version, InvalidUpgrade> {
    let unread = |error: &dyn std::error::Error| validation::unread_image(Chain(error).to_string());
    let location: ImageLocation = image.as_str().parse().map_err(|error| unread(&error))?;
    // The registry is asked without a login.
    let stores = Stores::new(Credentials::default(), false).with_patience(REGISTRY);
    let platform = Platform::of_this_machine();
    let image = Image::open(&stores, &location, &platform).await;
    let labels = image.map_err(|error| unread(&error))?.labels();
    validation::of_image(labels.get(RELEASE_LABEL).map(String::as_str), current)
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
        let (current, image) = match judged {
            Ok(ConfigVerdict::AskImage { current, image }) => (current, image),
            Ok(ConfigVerdict::Valid | ConfigVerdict::AskGraph { .. }) => return Ok(None),
            Err(invalid) => return hold(invalid),
        };
        let version = match read_version(&image, &current).await {
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
