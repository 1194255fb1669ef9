//! What the ControllerConfig says: of which release it is, whether that is settled, and what pools
//! are rendered on.

use api::machineconfiguration::{ControllerConfig, annotation, controller_config};
use chassis::program::BUILD;
use machineconfig::render::Base;

use crate::store::Snapshot;

/// Why the ControllerConfig is not this release's, if it is not: what was rendered from it would
/// mix two releases. The administrator learns that the wrong controller runs.
pub(crate) fn foreign_release(config: &ControllerConfig, own: &str) -> Option<String> {
    let annotations = config.metadata.annotations.as_ref();
    let key = annotation::GENERATED_BY_VERSION;
    let version = annotations.and_then(|annotations| annotations.get(key));
    match version.map(String::as_str) {
        Some(version) if version == own => None,
        None | Some("") => Some(format!(
            "ignoring controller config {}: its annotation {key} is missing, so that the release that made it is not known (my version: {own})",
            controller_config::NAME
        )),
        Some(version) => Some(format!(
            "ignoring controller config generated from {version} (my version: {own})"
        )),
    }
}

/// Why the base configurations of the release are not settled, if they are not: what was rendered
/// now would be rendered again at once.
pub(crate) fn unsettled_reason(config: &ControllerConfig) -> Option<String> {
    use controller_config::ControllerConfigConditionType::{Completed, Failing, Running};
    let status = config.status.clone().unwrap_or_default();
    let is_settled = status.observed_generation == config.metadata.generation
        && status.is_true(&Completed)
        && !status.is_true(&Running)
        && !status.is_true(&Failing);
    (!is_settled).then(|| {
        format!(
            "ControllerConfig {} has not completed",
            controller_config::NAME
        )
    })
}

pub(crate) fn release(config: Option<&ControllerConfig>, own: &str) -> String {
    config
        .and_then(|config| config.metadata.annotations.as_ref())
        .and_then(|annotations| annotations.get(annotation::RELEASE_IMAGE_VERSION))
        .map_or(own, String::as_str)
        .to_owned()
}

/// The cluster has streams of OS images, and not the one of this name.
#[derive(Debug, thiserror::Error)]
#[error(
    "spec.osImageStream {0}: OSImageStream cluster has no such stream in status.availableStreams"
)]
pub(crate) struct NoStream(String);

/// What sources are laid over: the release's images, or those of the pool's stream.
///
/// # Errors
/// [`NoStream`].
pub(crate) fn base(
    config: Option<&ControllerConfig>,
    stream: Option<&str>,
    snapshot: &Snapshot,
) -> Result<Base, NoStream> {
    let streams = snapshot.generators.image_streams.values().next();
    if let (Some(name), Some(streams)) = (stream, streams) {
        let stream = streams.stream(name);
        let stream = stream.ok_or_else(|| NoStream(name.to_owned()))?;
        return Ok(Base {
            os_image_url: stream.os_image.clone(),
            extensions_image: stream.os_extensions_image.clone(),
            controller_version: BUILD.to_owned(),
        });
    }
    let spec = config.map(|config| &config.spec);
    Ok(Base {
        os_image_url: spec
            .map(|spec| spec.base_os_container_image.clone())
            .unwrap_or_default(),
        extensions_image: spec
            .map(|spec| spec.base_os_extensions_container_image.clone())
            .unwrap_or_default(),
        controller_version: BUILD.to_owned(),
    })
}
