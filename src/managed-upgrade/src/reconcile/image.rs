//! Upgrades by image: the version that an image says it is becomes that of the UpgradeConfig.

use std::time::Duration;

use cluster::wire;
use images::image::Platform;
use images::{Credentials, Image, ImageLocation, Stores};
use release::{PullSpec, RELEASE_LABEL, Version};

use super::errors::ValidationError;
use super::{Pass, UpgradeOperator};
use upgrade_plan::validation;

/// How long a registry may be silent.
const REGISTRY: Duration = Duration::from_secs(20);

/// The version that an image says it is, judged.
pub(super) async fn read_version(
    image: &PullSpec,
    current: &Version,
) -> Result<Version, ValidationError> {
    let location: ImageLocation = image.as_str().parse()?;
    // The registry is read without a login.
    let stores = Stores::new(Credentials::default(), false).with_patience(REGISTRY);
    let platform = Platform::of_this_machine();
    let labels = Image::open(&stores, &location, &platform).await?.labels();
    let label = labels.get(RELEASE_LABEL).map(String::as_str);
    Ok(validation::of_image(label, current)?)
}

impl UpgradeOperator {
    /// Writes the version of the image into the UpgradeConfig: the watch delivers the upgrade to
    /// that version.
    pub(super) async fn adopt_version(
        &self,
        pass: &Pass,
        version: &Version,
    ) -> Result<(), wire::Error> {
        let version = version.to_string();
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
        Ok(())
    }
}
