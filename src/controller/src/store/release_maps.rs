//! Names of the `ConfigMap`s by which a release names its images.

/// ConfigMap with the release's OS image. Without it the controller belongs to no release.
pub const OS_IMAGE: &str = release::os_streams::OS_IMAGE;

/// ConfigMap with the release's images of components.
pub const COMPONENT_IMAGES: &str = "machine-config-operator-images";
