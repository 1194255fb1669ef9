//! What the ControllerConfig says: of which release it is, whether that is settled, and what pools
//! are rendered on.

use api::machineconfiguration::{
    AvailableStream, ControllerConfig, OSImageStream, annotation, controller_config,
};
use chassis::program::BUILD;
use machineconfig::render::Base;

use super::os_stream::{self, ChosenStream, NoStream};

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

/// What sources are laid over: the images of the pool's stream, else those of the release.
///
/// # Errors
/// [`NoStream`].
pub(crate) fn base(
    config: Option<&ControllerConfig>,
    chosen: Option<&ChosenStream>,
    streams: Option<&OSImageStream>,
) -> Result<Base, NoStream> {
    let spec = config.map(|config| &config.spec);
    let release = Base {
        os_image_url: spec
            .map(|spec| spec.base_os_container_image.clone())
            .unwrap_or_default(),
        extensions_image: spec
            .map(|spec| spec.base_os_extensions_container_image.clone())
            .unwrap_or_default(),
        controller_version: BUILD.to_owned(),
    };
    Ok(with_stream(release, os_stream::resolve(chosen, streams)?))
}

/// The base with the images of a stream, if there is one.
pub(crate) fn with_stream(release: Base, stream: Option<&AvailableStream>) -> Base {
    let Some(stream) = stream else {
        return release;
    };
    Base {
        os_image_url: stream.os_image.clone(),
        extensions_image: stream.os_extensions_image.clone(),
        ..release
    }
}
